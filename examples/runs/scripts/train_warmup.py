"""A learning rate that warms up over epochs where it was meant to over steps, and so overshoots a hundredfold.

The factor is `epoch`, not min(1, epoch / warmup): fine in epoch 1, ten times too high in epoch 2, a hundred in epoch 3.
Finite losses grow until they are inf, then NaN. Nothing stops the run.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS, BATCHES, BASE = 4, 20, 0.03
rank, world = start()
random = torch.Generator().manual_seed(rank)
teacher = torch.randn(16, 4, generator=torch.Generator().manual_seed(5))
model = DDP(mlp())
optimizer = torch.optim.SGD(model.parameters(), lr=BASE, momentum=0.9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 10.0**epoch)
for step in range(EPOCHS * BATCHES):
    x = torch.randn(8, 16, generator=random)
    loss = torch.nn.functional.mse_loss(model(x), x @ teacher)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    lr = schedule.get_last_lr()[0]
    optimizer.step()
    if rank == 0:
        row = {"loss": round(loss.item(), 4), "grad_norm": round(norm, 4), "learning_rate": lr, "epoch": round((step + 1) / BATCHES, 2)}
        print(row | {"step": step + 1}, flush=True)
    if (step + 1) % BATCHES == 0:
        schedule.step()
dist.destroy_process_group()
