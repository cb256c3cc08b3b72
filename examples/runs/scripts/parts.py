"""What the training scripts share: the process group, small models, made-up data, line formats of frameworks."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def start(timeout_s: float = 60.0) -> tuple[int, int]:
    """Join the gloo process group; (rank, world size)."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))
    torch.manual_seed(1234)
    return dist.get_rank(), dist.get_world_size()


class TinyLM(nn.Module):
    """One transformer layer over a vocabulary of 32: 6 k parameters."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layer(self.embed(tokens), src_mask=mask, is_causal=True))


def mlp(inputs: int = 16, outputs: int = 4, width: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, outputs))


def sentences(step: int, rank: int, batch: int = 8, length: int = 12) -> torch.Tensor:
    """Counting sentences (each token is the last one plus a stride): easy to learn, the same at every re-run."""
    random = torch.Generator().manual_seed(step * 1009 + rank)
    first = torch.randint(0, 32, (batch, 1), generator=random)
    stride = torch.randint(1, 3, (batch, 1), generator=random)
    return (first + stride * torch.arange(length + 1)) % 32


def lm_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def average_gradients(model: nn.Module, world: int) -> None:
    """What DDP does, by hand: for runs with TORCH_DISTRIBUTED_DEBUG=DETAIL, where DDP over gloo dies of SIGSEGV.

    Seen with torch 2.13.0 for the CPU, before the first step.
    """
    flat = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    dist.all_reduce(flat)
    torch.nn.utils.vector_to_parameters(flat / world, [p.grad for p in model.parameters() if p.grad is not None])


def megatron_line(
    step: int, total: int, *, samples: int, ms: float, lr: float, loss: float, scale: float, **more: float
) -> str:
    """One line as Megatron-LM's training_log prints it."""
    return (
        f" [{datetime.now():%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{total:8d} |"
        f" consumed samples: {samples * step:12d} |"
        f" elapsed time per iteration (ms): {ms:.1f} | learning rate: {lr:.6E} | global batch size: {samples:5d} |"
        f" lm loss: {loss:.6E} | loss scale: {scale:.1f} | grad norm: {more.get('grad_norm', 0.0):.3f} |"
        f" number of skipped iterations: {more.get('skipped', 0):3.0f} |"
        f" number of nan iterations: {more.get('nan', 0):3.0f} |"
    )


class FlightRecorder(threading.Thread):
    """Write this rank's flight recorder dump once no step has come for `quiet_s`, as NCCL's watchdog does on a timeout.

    gloo has no such watchdog; the recorder itself works, with TORCH_FR_BUFFER_SIZE set.
    """

    def __init__(self, folder: Path, quiet_s: float, before: Callable[[], None] | None = None) -> None:
        super().__init__(daemon=True)
        self.folder, self.quiet_s, self.before = folder, quiet_s, before
        self.last = time.monotonic()

    def step(self) -> None:
        self.last = time.monotonic()

    def run(self) -> None:
        while time.monotonic() - self.last < self.quiet_s:
            time.sleep(0.1)
        self.dump()

    def dump(self) -> None:
        from torch._C._distributed_c10d import _dump_fr_trace

        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"comm_lib_trace_rank_{os.environ['RANK']}").write_bytes(_dump_fr_trace())


def progress(epoch: int, done: int, total: int, started: float, loss: float) -> None:
    """A bar on stderr, drawn over with carriage returns, as Lightning's progress bar is in a log file."""
    filled = 10 * done // total
    rate = done / max(time.monotonic() - started, 1e-6)
    bar = f"Epoch {epoch}: {100 * done // total:3d}%|{'█' * filled}{' ' * (10 - filled)}| {done}/{total}"
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r{bar} [00:00<00:00, {rate:.2f}it/s, v_num=0, train_loss={loss:.3f}]{end}")
    sys.stderr.flush()
