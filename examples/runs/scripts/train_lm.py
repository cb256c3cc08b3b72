"""A small language model with DDP that does nothing wrong: what befalls it comes from outside.

Rank 0 saves every --save-every steps, without a temporary name and keeping every checkpoint; --resume starts from
the newest one and restores weights, optimizer, schedule and step.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from parts import TinyLM, lm_loss, megatron_line, sentences, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--total", type=int, help="steps of the learning rate schedule")
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
parser.add_argument("--resume", action="store_true")
parser.add_argument("--style", choices=["plain", "megatron"], default="plain")
parser.add_argument("--pause", type=float, default=0.0, help="seconds of extra work a step")
parser.add_argument("--tensorboard", type=Path)
parser.add_argument("--pids", type=Path, help="where to write each rank's pid")
args = parser.parse_args()

rank, world = start()
if args.pids:
    args.pids.mkdir(exist_ok=True)
    (args.pids / str(rank)).write_text(str(os.getpid()))
model = DDP(TinyLM())
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.total or args.steps)
first = 1
if args.resume:
    newest = max(args.checkpoints.glob("step_*.pt"))
    print(f"[rank {rank}] loading checkpoint {newest}", flush=True)
    state = torch.load(newest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    first = state["step"] + 1
    print(f"[rank {rank}] resumed from {newest} at step {state['step']}", flush=True)
writer = SummaryWriter(args.tensorboard) if args.tensorboard and rank == 0 else None

for step in range(first, args.steps + 1):
    began = time.monotonic()
    loss = lm_loss(model, sentences(step, rank))
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    lr = schedule.get_last_lr()[0]
    optimizer.step()
    schedule.step()
    time.sleep(args.pause)
    ms = 1000 * (time.monotonic() - began)
    if args.style == "plain":
        line = f"step {step}/{args.steps} | loss {loss.item():.4f} | lr {lr:.3e} | gnorm {norm:.3f} | {ms:.0f} ms"
        print(line, flush=True)
    elif rank == world - 1:
        print(
            megatron_line(
                step, args.steps, samples=8 * world, ms=ms, lr=lr, loss=loss.item(), scale=1.0, grad_norm=norm
            ),
            flush=True,
        )
    if writer:
        for name, value in (("train/loss", loss.item()), ("train/lr", lr), ("train/grad_norm", norm)):
            writer.add_scalar(name, value, step)
        writer.flush()
    if args.save_every and step % args.save_every == 0:
        if rank == 0:
            args.checkpoints.mkdir(exist_ok=True)
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "step": step,
            }
            print(f"saving checkpoint at iteration {step:7d} to {args.checkpoints}", flush=True)
            torch.save(state, args.checkpoints / f"step_{step:06d}.pt")
            print(f"  successfully saved checkpoint from iteration {step:7d} to {args.checkpoints}", flush=True)
        dist.barrier()
print(f"[rank {rank}] training finished after {args.steps} steps", flush=True)
dist.destroy_process_group()
