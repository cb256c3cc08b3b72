"""A learning rate that warms up over epochs where it was meant to over steps, and so overshoots twentyfold.

The factor was to grow over the first steps and to end at 1; it grows with the epoch instead: 1 in the first one, 20
in the second. The loss leaves its course with the first step of that size, grows until it is inf, then NaN. Nothing
checks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS, BATCHES, BASE = 2, 40, 0.03
rank, world = start()
random = torch.Generator().manual_seed(rank)
teacher = torch.randn(16, 4, generator=torch.Generator().manual_seed(5))
model = DDP(mlp())
optimizer = torch.optim.SGD(model.parameters(), lr=BASE, momentum=0.9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 20.0**epoch)
for step in range(EPOCHS * BATCHES):
    x = torch.randn(8, 16, generator=random)
    loss = torch.nn.functional.mse_loss(model(x), x @ teacher)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    lr = schedule.get_last_lr()[0]
    optimizer.step()
    if rank == 0:
        row = {
            "loss": round(loss.item(), 4),
            "grad_norm": round(norm, 4),
            "learning_rate": lr,
            "epoch": round((step + 1) / BATCHES, 2),
        }
        print(row | {"step": step + 1}, flush=True)
    if (step + 1) % BATCHES == 0:
        schedule.step()
dist.destroy_process_group()
