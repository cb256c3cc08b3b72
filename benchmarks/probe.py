"""What `forensics.probe` costs; `python benchmarks/probe.py`, with `--device cuda` on a GPU. Needs the extra `torch`.

Two figures. *Inside*: time in the probe's own functions (hooks, `step` with the looks and the writing) against that of whole
steps; on a busy machine that is the steadier one. What is not in it is the call of each hook by torch, a microsecond,
and the caches that it disturbs. *Against none*: the same loop with the probe and without it, in turns of a hundred
steps, by CPU time on a CPU, and by the clock and a synchronised device on a GPU; positive where the probe costs.

`--check` runs with `torch.cuda.set_sync_debug_mode("error")` between looks, and reads the file with TensorBoard.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from forensics.probe import Probe
from forensics.probe.updates import Updates
from forensics.probe.watch import Watch

TURN = 100  # steps


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


def transformer(width: int, layers: int, vocabulary: int = 1000) -> nn.Module:
    blocks = [Block(width, max(width // 64, 1)) for _ in range(layers)]
    return nn.Sequential(
        nn.Embedding(vocabulary, width), *blocks, nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
    )


def perceptron(width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 1000))


Batch = tuple[torch.Tensor, torch.Tensor]


def tokens(rows: int, length: int, vocabulary: int = 1000) -> Callable[[], Batch]:
    return lambda: (
        torch.randint(0, vocabulary, (rows, length)),
        torch.randint(0, vocabulary, (rows, length)),
    )


def vectors(rows: int) -> Callable[[], Batch]:
    return lambda: (torch.randn(rows, 64), torch.randint(0, 1000, (rows,)))


WORKLOADS: dict[str, dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]]] = {
    "cpu": {
        "transformer, 4 layers of 256, 8 x 128 tokens": (lambda: transformer(256, 4), tokens(8, 128)),
        "transformer, 2 layers of 128, 8 x 64 tokens": (lambda: transformer(128, 2), tokens(8, 64)),
        "perceptron, 4 layers of 512, 256 rows": (lambda: perceptron(512, 4), vectors(256)),
    },
    "cuda": {
        "small": (lambda: transformer(512, 8, 8000), tokens(16, 256, 8000)),
        "large": (lambda: transformer(2560, 10, 32000), tokens(8, 1024, 32000)),
    },
}
# What the probe does, each with everything that it calls.
INSIDE = ((Watch, "_add"), (Updates, "_before"), (Updates, "_after"), (Probe, "step"))


@dataclass(slots=True)
class Clock:
    """Sums the seconds that are spent in functions."""

    now: Callable[[], float]
    spent: float = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = self.now()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent += self.now() - begin

        return timed


@dataclass(slots=True)
class Loop:
    """One model and its training loop, with a probe or without."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[Batch]
    autocast: torch.dtype | None
    scaler: Any
    probe: Any
    times: list[float] = field(default_factory=list)
    done: int = 0

    def step(self) -> None:
        x, y = self.batches[self.done % len(self.batches)]
        self.done += 1
        with torch.autocast(x.device.type, self.autocast, enabled=self.autocast is not None):
            loss = nn.functional.cross_entropy(self.model(x).flatten(0, -2), y.flatten())
        self.optimizer.zero_grad()
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.probe is not None:
            self.probe.step(loss, sample_ids=range(self.done * 16, self.done * 16 + 16))

    def turn(self, steps: int, now: Callable[[], float]) -> float:
        begin = now()
        for _ in range(steps):
            self.step()
        return now() - begin


def clock_of(device: str) -> Callable[[], float]:
    def synchronised() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return time.process_time if device == "cpu" else synchronised


@contextlib.contextmanager
def loop(name: str, options: argparse.Namespace, sentinel: str | None) -> Iterator[Loop]:
    """sentinel: that of the probe; None for no probe."""
    build, batch = WORKLOADS[options.device][name]
    torch.manual_seed(0)
    model = build().to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.compile:
        model = torch.compile(model)
    kind = {"": None, "bf16": torch.bfloat16, "fp16": torch.float16}[options.autocast]
    scaler = torch.amp.GradScaler(options.device) if options.autocast == "fp16" else None
    batches = [tuple(t.to(options.device) for t in batch()) for _ in range(8)]
    with contextlib.ExitStack() as stack:
        probe = None
        if sentinel is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            budget = options.budget if sentinel == "auto" else None
            given = Probe(
                model, optimizer, folder, every=options.every, sentinel=sentinel, budget=budget, scaler=scaler
            )
            probe = stack.enter_context(given)
        yield Loop(model, optimizer, batches, kind, scaler, probe)


def measure(name: str, options: argparse.Namespace) -> Iterator[str]:
    """One line for each sentinel."""
    now = clock_of(options.device)
    inner = time.thread_time if options.device == "cpu" else time.perf_counter
    with contextlib.ExitStack() as stack:
        clock = Clock(inner)
        for owner, function in INSIDE:
            stack.enter_context(mock.patch.object(owner, function, clock.around(getattr(owner, function))))
        bare = stack.enter_context(loop(name, options, None))
        probed = {s: stack.enter_context(loop(name, options, s)) for s in options.sentinels.split(",")}
        inside = dict.fromkeys(probed, 0.0)
        for one in (bare, *probed.values()):
            one.turn(options.warm, now)
        arms: list[tuple[str | None, Loop]] = [(None, bare), *probed.items()]
        for turn in range(options.turns):
            for key, one in arms if turn % 2 == 0 else reversed(arms):
                clock.spent = 0.0
                one.times.append(one.turn(TURN, now))
                if key is not None:
                    inside[key] += clock.spent
        for key, one in probed.items():
            step = sum(bare.times) / TURN / options.turns
            own = inside[key] / TURN / options.turns
            ratio = statistics.median(a / b for a, b in zip(one.times, bare.times, strict=True)) - 1
            total = sum(one.times) / sum(bare.times) - 1
            plan = one.probe._plan
            watched = f"; {len(plan.slots)} of {len(one.probe._watch.costs)} outputs" if plan is not None else ""
            watched += ", gradients" if plan is not None and plan.gradients else ""
            due = f", next look at {one.probe._next} of {one.done}"
            yield (
                f"{name} {options.autocast} {'compiled' if options.compile else 'eager'} {key}: {1e3 * step:.2f} ms a step, "
                f"inside {1e3 * own:.3f} ms ({100 * own / step:.2f} %), against none {100 * ratio:+.2f} % (median), "
                f"{100 * total:+.2f} % (all){watched}{due}"
            )


def check(name: str, options: argparse.Namespace) -> Iterator[str]:
    """Nothing waits between looks; a bad value in the middle of a run is noticed; TensorBoard can read the file."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = argparse.Namespace(**{**vars(options), "budget": None, "autocast": "bf16", "compile": False})
    for sentinel in ("auto", "full"):
        with loop(name, options, sentinel) as one, tempfile.TemporaryDirectory() as folder:
            one.probe.close()
            budget = 0.02 if sentinel == "auto" else None
            one.probe = Probe(one.model, one.optimizer, folder, every=100, sentinel=sentinel, budget=budget)
            quiet = 0
            bad = one.model[3].act.register_forward_hook(lambda *a: a[2] * float("nan") if one.done == 151 else None)
            one.optimizer.register_step_pre_hook(functools.partial(_repair, one.model))
            for _ in range(190):
                probe = one.probe
                # Looks, the first plan's neighbours, and the one step at which a bad loss has arrived may wait.
                watched = not probe._due(probe._count + 1) and not 151 <= one.done < 190
                torch.cuda.set_sync_debug_mode("error" if watched and one.done else "default")
                quiet += watched
                one.step()
                torch.cuda.set_sync_debug_mode("default")
            bad.remove()
            one.probe.close()
            (path,) = Path(folder).iterdir()
            read = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}).Reload()
            tags = read.Tags()
            marks = {t: [(e.step, e.value) for e in read.Scalars(t)] for t in tags["scalars"] if "nonfinite" in t}
            plan = one.probe._plan
            slots = len(plan.slots) if plan else "all"
            yield (
                f"check {name} {sentinel}: {quiet} steps without a synchronisation; {len(tags['scalars'])} scalar tags, "
                f"{len(read.Scalars('probe/loss'))} losses, texts {tags['tensors']}, {slots} watched; marks {marks}"
            )


def _repair(model: nn.Module, *_: Any) -> None:
    """Keeps the bad gradients of one step out of the weights."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad.nan_to_num_()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=WORKLOADS)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--budget", type=float, default=0.02)
    parser.add_argument("--turns", type=int, default=4, help=f"of {TURN} steps each")
    parser.add_argument("--warm", type=int, default=110, help="steps before the first turn")
    parser.add_argument("--sentinels", default="auto", help="with commas between them")
    parser.add_argument("--autocast", default="", choices=("", "bf16", "fp16"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--only", default="", help="workloads whose names hold this")
    parser.add_argument("--check", action="store_true", help="on a GPU")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in WORKLOADS[options.device]:
        if options.only in name:
            for line in (check if options.check else measure)(name, options):
                print(line, flush=True)


if __name__ == "__main__":
    main()
