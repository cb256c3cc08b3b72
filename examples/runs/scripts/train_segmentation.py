"""Mixed precision done right, which looks frightening: first steps skipped, NaN for a class that is absent.

The scale starts far too high on purpose (the scaler is made to find its way down), so the first gradients are inf
and their steps are skipped. Class 3 does not occur in the validation set, so its recall is 0/0.
find_unused_parameters costs a warning, and the scheduler one more, as the first optimizer step was skipped.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from parts import mlp, start
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, CLASSES, LR = 48, 4, 1e-2
rank, world = start()
started = time.monotonic()
random = torch.Generator().manual_seed(rank)
model = DDP(mlp(16, CLASSES), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=200)
teacher = torch.randn(16, 3, generator=torch.Generator().manual_seed(9))


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels and their classes 0, 1 or 2; class 3 exists in the label map only."""
    x = torch.randn(size, 16, generator=random)
    return x, (x @ teacher).argmax(1)


for step in range(1, STEPS + 1):
    x, y = batch(64)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    lr = schedule.get_last_lr()[0]
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    if rank == 0:
        print(
            {"loss": round(loss.item(), 4), "grad_norm": norm, "learning_rate": lr, "epoch": round(step / 16, 2)},
            flush=True,
        )
    if step % 16 == 0:
        x, y = batch(256)
        with torch.no_grad():
            guess = model.module(x).argmax(1)
        hits = torch.stack([((guess == c) & (y == c)).sum() for c in range(CLASSES)]).double()
        present = torch.stack([(y == c).sum() for c in range(CLASSES)]).double()
        dist.all_reduce(hits)
        dist.all_reduce(present)
        recall = hits / present
        if rank == 0:
            result = {f"eval_recall_class_{c}": round(recall[c].item(), 4) for c in range(CLASSES)}
            print({**result, "eval_mean_recall": round(recall.nanmean().item(), 4), "epoch": step / 16}, flush=True)
if rank == 0:
    print(
        {
            "train_runtime": round(time.monotonic() - started, 2),
            "train_loss": round(loss.item(), 4),
            "epoch": STEPS / 16,
        },
        flush=True,
    )
dist.destroy_process_group()
