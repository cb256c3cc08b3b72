"""Two heads under DDP, of which the auxiliary one is only used in the first epoch; find_unused_parameters is False.

From the second epoch on its parameters get no gradient, and DDP's reduction of that step never ends: the next
forward raises on every rank.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from parts import mlp, progress, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(16, 32)
        self.main_head = nn.Linear(32, 4)
        self.aux_head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor, with_aux: bool) -> torch.Tensor:
        hidden = self.body(x)
        return self.main_head(hidden) + (0.1 * self.aux_head(hidden) if with_aux else 0.0)


rank, world = start()
model = DDP(TwoHeads())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if rank == 0:
    print("  | Name      | Type       | Params\n" + "-" * 40)
    for number, (name, child) in enumerate(model.module.named_children()):
        print(f"{number} | {name:9} | {type(child).__name__:10} | {sum(p.numel() for p in child.parameters())}")
for epoch in range(3):
    started = time.monotonic()
    for batch in range(1, 11):
        x = torch.randn(8, 16)
        loss = nn.functional.mse_loss(model(x, with_aux=epoch == 0), x[:, :4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            progress(epoch, batch, 10, started, loss.item())
dist.destroy_process_group()
