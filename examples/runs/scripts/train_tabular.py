"""Regression on sensor rows, one shard a rank; one row of rank 1's shard is NaN (a sensor that was off).

Rank 1's loss is NaN in step 17, the averaged gradient makes the weights NaN on every rank, and from step 18 on every
loss is. Nothing checks, and the run goes on to its end.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 40
rank, world = start()
rows = torch.randn(STEPS * 8, 16, generator=torch.Generator().manual_seed(rank))
if rank == 1:
    rows[16 * 8 + 5, 3:9] = float("nan")
model = DDP(mlp())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(1, STEPS + 1):
    x = rows[(step - 1) * 8 : step * 8]
    loss = torch.nn.functional.mse_loss(model(x), x[:, :4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    line = f"[rank {rank}] step {step:3d}/{STEPS} | loss: {loss.item():.5f}"
    print(f"{line} | input_absmax: {x.abs().max().item():.3f} | lr: 3.0e-03", flush=True)
print(f"[rank {rank}] done", flush=True)
dist.destroy_process_group()
