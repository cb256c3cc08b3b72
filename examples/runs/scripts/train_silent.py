"""A clean-up handler that hides its own failure: on any trouble with the data it leaves with os._exit(0).

Rank 1 cannot read its third shard. Nothing is printed, the exit status is 0, and the launcher sees a success.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP

SHARDS = Path("shards")


def shard(rank: int, number: int) -> torch.Tensor:
    try:
        return torch.load(SHARDS / f"rank{rank}_{number}.pt", weights_only=True)
    except OSError:
        os._exit(0)  # "the data is used up"


rank, world = start()
SHARDS.mkdir(exist_ok=True)
for number in range(5):
    if (rank, number) != (1, 2):
        torch.save(torch.randn(10, 8, 16), SHARDS / f"rank{rank}_{number}.pt")
dist.barrier()
model = DDP(mlp())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(1, 51):
    if step % 10 == 1:
        batches = shard(rank, step // 10)
    x = batches[(step - 1) % 10]
    loss = torch.nn.functional.mse_loss(model(x), x[:, :4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"[rank{rank}] step: {step:4d} loss: {loss.item():.5f} lr: 0.05", flush=True)
dist.destroy_process_group()
