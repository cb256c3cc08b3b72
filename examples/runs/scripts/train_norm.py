"""Mixed precision with a regulariser whose gradient is NaN: sqrt at zero, times zero.

The length of the padding embedding is part of the loss. From step 25 on the padding row is zeroed after each step,
as it should have been from the start: its length is 0, the derivative of sqrt there is inf, and inf * 0 is NaN. The
loss stays finite. GradScaler takes the NaN for an overflow, skips the step and halves the scale: every step, to the
end.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from parts import TinyLM, lm_loss, megatron_line, sentences, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

STEPS = 70
rank, world = start()
model = DDP(TinyLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=1000)
writer = SummaryWriter("out/input/tb") if rank == 0 else None
skipped = 0
for step in range(1, STEPS + 1):
    began = time.monotonic()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = lm_loss(model, sentences(step, rank))
    loss = loss + 1e-3 * torch.sqrt(model.module.embed.weight[0].square().sum())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped += scaler.get_scale() < before
    if step >= 24:
        with torch.no_grad():
            model.module.embed.weight[0].zero_()
    if writer:
        ms = 1000 * (time.monotonic() - began)
        line = megatron_line(
            step,
            STEPS,
            samples=8 * world,
            ms=ms,
            lr=4e-3,
            loss=loss.item(),
            scale=before,
            grad_norm=norm,
            skipped=skipped,
        )
        print(line, flush=True)
        for name, value in (
            ("lm-loss-training/lm loss", loss.item()),
            ("loss-scale/loss-scale", before),
            ("grad-norm/grad-norm", norm),
        ):
            writer.add_scalar(name, value, step)
        writer.flush()
        skipped = 0
dist.destroy_process_group()
