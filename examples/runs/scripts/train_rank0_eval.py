"""Only rank 0 evaluates, and averages its metric over all ranks: a collective that the others never call.

Rank 0 waits in the all_reduce of its metric, the others in the gradient all_reduce of the next step. The timeout is
long, so nothing fails: an operator asks for stacks (SIGUSR1) and ends the job (SIGTERM).
"""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from parts import FlightRecorder, TinyLM, lm_loss, sentences, start
from torch.nn.parallel import DistributedDataParallel as DDP

rank, world = start(timeout_s=600)
faulthandler.register(signal.SIGUSR1, all_threads=True)
pids = Path("pids")
pids.mkdir(exist_ok=True)
(pids / str(rank)).write_text(str(os.getpid()))
recorder = FlightRecorder(Path("out/input/flight_recorder"), quiet_s=6)
group = dist.new_group(list(range(world)))  # metrics travel in a group of their own
model = DDP(TinyLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)


def evaluate() -> float:
    with torch.no_grad():
        value = lm_loss(model.module, sentences(99_999, rank))
    dist.all_reduce(value, group=group)
    return value.item() / world


for step in range(1, 41):
    loss = lm_loss(model, sentences(step, rank))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recorder.step()
    if step == 1:
        recorder.start()  # not before: the first step may be slow for good reasons
    print(f"step {step:3d}/40 | loss {loss.item():.4f} | lr 4.0e-03", flush=True)
    if step == 25 and rank == 0:
        print(f"step {step}: evaluating", flush=True)
        print(f"step {step}: val_loss {evaluate():.4f}", flush=True)
dist.destroy_process_group()
