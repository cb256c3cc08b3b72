"""One rank waits in host code for a lock file that nobody will ever remove; the others wait for it in all_reduce.

From step 16 on the tokenizer cache is refreshed, each rank under its own lock. The lock of rank 2 was left behind
by a job that was killed. Every rank has a flight recorder, and a watchdog thread that dumps it when no step comes.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import torch
import torch.distributed as dist
from parts import FlightRecorder, TinyLM, lm_loss, sentences, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

OUT = Path("out/input")
logging.basicConfig(level=logging.INFO, format="[titan] %(asctime)s - %(name)s - %(levelname)s - %(message)s")
log = logging.getLogger()
rank, world = start(timeout_s=8)
recorder = FlightRecorder(OUT / "flight_recorder", quiet_s=5)


def refresh_cache() -> None:
    lock = Path(f"tokenizer.rank{rank}.lock")
    while lock.exists():
        time.sleep(0.2)
    lock.touch()
    Path(f"tokenizer.rank{rank}.cache").write_text("ready")
    lock.unlink()


if rank == 2:
    Path("tokenizer.rank2.lock").touch()
model = DDP(TinyLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
writer = SummaryWriter(str(OUT / f"tb/rank{rank}"))
for step in range(1, 31):
    if step == 16:
        log.info("refreshing the tokenizer cache")
        refresh_cache()
    loss = lm_loss(model, sentences(step, rank))
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    optimizer.step()
    recorder.step()
    if step == 1:
        recorder.start()  # not before: the first step may be slow for good reasons
    log.info(f"step: {step:2d}  loss: {loss.item():7.4f}  grad_norm: {norm:7.4f}  lr: 3.00e-03")
    writer.add_scalar("loss_metrics/global_avg_loss", loss.item(), step)
    writer.flush()
dist.destroy_process_group()
