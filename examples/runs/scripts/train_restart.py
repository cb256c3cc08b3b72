"""A run that torchrun restarts once, and whose second attempt dies of what the first one left behind.

Attempt 0: rank 1 normalises by a standard deviation that is 0 for one constant column and raises. Attempt 1: rank 0
finds the run's directory there already and raises FileExistsError before it trained anything.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP


def normalise(column: list[float]) -> list[float]:
    mean, spread = statistics.fmean(column), statistics.pstdev(column)
    return [(value - mean) / spread for value in column]


rank, world = start()
if rank == 0:
    Path("work").mkdir()
dist.barrier()
model = DDP(mlp(8))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
random = torch.Generator().manual_seed(rank)
for step in range(1, 41):
    columns = torch.rand(8, 8, generator=random).tolist()
    if rank == 1 and step == 22:
        columns[5] = [0.5] * 8
    x = torch.tensor([normalise(column) for column in columns]).T
    loss = torch.nn.functional.mse_loss(model(x), x[:, :4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}/40 | loss {loss.item():.4f} | lr 2e-3", flush=True)
dist.destroy_process_group()
