"""Mixed precision whose resume forgets the loss scale: it is saved as "grad_scaler" and looked up as "scaler".

After the resume the scale starts again at --initial-loss-scale, which is tiny at the second launch ("it is restored
anyhow"), and with growth every 2000 steps it does not come up again: the fp16 gradients underflow to zero.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from parts import TinyLM, lm_loss, megatron_line, sentences, start
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--train-iters", type=int, default=40)
parser.add_argument("--initial-loss-scale", type=float, default=65536.0)
parser.add_argument("--load", type=Path)
args = parser.parse_args()

rank, world = start()
model = DDP(TinyLM())
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.8)
scaler = torch.amp.GradScaler("cpu", init_scale=args.initial_loss_scale, growth_interval=2000)
done = 0
if args.load:
    state = torch.load(args.load, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if "scaler" in state:
        scaler.load_state_dict(state["scaler"])
    done = state["iteration"]
    print(f"  successfully loaded checkpoint from {args.load} [ t 0, p 0 ] at iteration {done}", flush=True)
writer = SummaryWriter("out/input/tensorboard") if rank == 0 else None
for step in range(done + 1, args.train_iters + 1):
    began = time.monotonic()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = lm_loss(model, sentences(step, rank))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    scaler.step(optimizer)
    scaler.update()
    scale = scaler.get_scale()
    if writer:
        ms = 1000 * (time.monotonic() - began)
        # Megatron-LM prints the scale with one decimal; a tiny one reads as 0.0 there, and is exact in TensorBoard.
        print(
            megatron_line(
                step, args.train_iters, samples=8 * world, ms=ms, lr=0.3, loss=loss.item(), scale=scale, grad_norm=norm
            ),
            flush=True,
        )
        for name, value in (("lm loss", loss.item()), ("loss-scale", scale), ("grad-norm", norm)):
            writer.add_scalar(name, value, step)
        writer.flush()
if rank == 0:
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "grad_scaler": scaler.state_dict(),
        "iteration": step,
    }
    torch.save(state, "iter_latest.pt")
    print(f"  successfully saved checkpoint at iteration {step} to iter_latest.pt", flush=True)
dist.destroy_process_group()
