"""What `forensics.probe` costs: CPU time inside it against that of whole training steps; `python benchmarks/probe.py`.

Two loops that take turns differ by more on a busy machine than the probe costs, so its own functions are timed: hooks,
`step` with the writing at the interval, and the thread that writes the file. What is not in it is the call of each hook by
torch (a microsecond) and the caches that it disturbs. Needs the extra `torch`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import nn

from forensics.probe import Probe
from forensics.probe.updates import Updates
from forensics.probe.watch import Watch

Batch = Callable[[], tuple[torch.Tensor, torch.Tensor]]


def transformer(width: int, layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(1000, width), nn.TransformerEncoder(layer, layers), nn.Linear(width, 1000))


def network(width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 1000))


def tokens(rows: int, length: int) -> Batch:
    return lambda: (torch.randint(0, 1000, (rows, length)), torch.randint(0, 1000, (rows, length)))


def vectors(rows: int) -> Batch:
    return lambda: (torch.randn(rows, 64), torch.randint(0, 1000, (rows,)))


WORKLOADS = {
    "transformer, 4 layers of 256, 8 x 128 tokens": (lambda: transformer(256, 4), tokens(8, 128)),
    "transformer, 2 layers of 128, 8 x 64 tokens": (lambda: transformer(128, 2), tokens(8, 64)),
    "perceptron, 4 layers of 512, 256 rows": (lambda: network(512, 4), vectors(256)),
}


# What the probe does, each with everything that it calls.
INSIDE = ((Watch, "_add"), (Updates, "_before"), (Updates, "_after"), (Probe, "step"))


class Clock:
    """Sums the CPU seconds of this thread that are spent in functions."""

    def __init__(self) -> None:
        self.spent = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent += time.thread_time() - begin

        return timed


def measure(build: Callable[[], nn.Module], batch: Batch, every: int, sentinel: str, steps: int) -> tuple[float, float]:
    """(CPU seconds a step, CPU seconds of it in the probe), over `steps` steps behind the first one."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    clock = Clock()
    with contextlib.ExitStack() as stack:
        for owner, name in INSIDE:
            stack.enter_context(mock.patch.object(owner, name, clock.around(getattr(owner, name))))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        with Probe(model, optimizer, folder, every=every, sentinel=sentinel) as probe:
            for step in range(steps + 1):
                if step == 1:  # the first update is looked at too, and warms everything up
                    clock.spent, begin, mine = 0.0, time.process_time(), time.thread_time()
                x, y = batch()
                loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                probe.step(loss, sample_ids=y.flatten()[:16])
        total, thread = time.process_time() - begin, time.thread_time() - mine
    return total / steps, (clock.spent + total - thread) / steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--steps", type=int, default=200, help="a multiple of --every")
    parser.add_argument("--sentinel", default="full")
    parser.add_argument("--only", default="", help="workloads whose names hold this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, (build, batch) in WORKLOADS.items():
        if options.only in name:
            step, probe = measure(build, batch, options.every, options.sentinel, options.steps)
            print(
                f"{name}: {1e3 * step:.1f} ms a step, {1e3 * probe:.3f} ms of it ({100 * probe / step:.2f} %) in the probe"
            )


if __name__ == "__main__":
    main()
