"""Plain DDP over an iterable data set whose shards have different lengths, without join().

Rank 1 has 31 batches, the others 40. It comes to its end, says so and leaves; the others wait for it in backward.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Shard(IterableDataset[torch.Tensor]):
    def __init__(self, rank: int) -> None:
        self.batches = 31 if rank == 1 else 40
        self.random = torch.Generator().manual_seed(rank)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(8 * self.batches):
            yield torch.randn(16, generator=self.random)


rank, world = start(timeout_s=10)
model = DDP(mlp())
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
metrics = Path(f"out/input/metrics/rank_{rank}.jsonl")
metrics.parent.mkdir(exist_ok=True)
with metrics.open("w") as lines:
    for step, x in enumerate(DataLoader(Shard(rank), batch_size=8), 1):
        loss = torch.nn.functional.mse_loss(model(x), x[:, :4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        row = {"step": step, "rank": rank, "loss": round(loss.item(), 5), "lr": 2e-3, "time": round(time.time(), 3)}
        print(json.dumps(row), file=lines, flush=True)
print(f"[rank{rank}] epoch 0 done: {step} batches", flush=True)
dist.destroy_process_group()
print(f"[rank{rank}] bye", flush=True)
