"""What `forensics.probe` costs: seconds a step of a training loop with and without it, by `python benchmarks/probe.py`.

Loops with and without the probe take turns of a whole interval each, since other work on the machine comes and goes;
the figure is the median over turns, with the quartiles. Needs the extra `torch`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from torch import nn

from forensics.probe import Probe


def transformer(width: int, layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(1000, width), nn.TransformerEncoder(layer, layers), nn.Linear(width, 1000))


def network(width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 1000))


def tokens(rows: int, length: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (torch.randint(0, 1000, (rows, length)), torch.randint(0, 1000, (rows, length)))


def vectors(rows: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (torch.randn(rows, 64), torch.randint(0, 1000, (rows,)))


WORKLOADS = {
    "transformer, 4 layers of 256, 8 x 128 tokens": (lambda: transformer(256, 4), tokens(8, 128)),
    "transformer, 2 layers of 128, 8 x 64 tokens": (lambda: transformer(128, 2), tokens(8, 64)),
    "perceptron, 4 layers of 512, 256 rows": (lambda: network(512, 4), vectors(256)),
}


class Loop:
    def __init__(self, build: Callable[[], nn.Module], batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
        torch.manual_seed(0)
        self.model, self.batch = build(), batch
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self, probe: Probe | None) -> None:
        x, y = self.batch()
        loss = nn.functional.cross_entropy(self.model(x).flatten(0, -2), y.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if probe is not None:
            probe.step(loss, sample_ids=y.flatten()[:16])

    def turn(self, probe: Probe | None, steps: int) -> float:
        begin = time.process_time()
        for _ in range(steps):
            self.step(probe)
        return (time.process_time() - begin) / steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sentinel", default="full")
    parser.add_argument("--seconds", type=float, default=60.0, help="roughly, for each workload")
    parser.add_argument("--only", default="", help="workloads whose names hold this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, (build, batch) in WORKLOADS.items():
        if options.only not in name:
            continue
        plain, probed = Loop(build, batch), Loop(build, batch)
        with (
            tempfile.TemporaryDirectory() as folder,
            Probe(probed.model, probed.optimizer, folder, every=options.every, sentinel=options.sentinel) as probe,
        ):
            alone = plain.turn(None, 3)
            probed.turn(probe, options.every)  # the first update is looked at too: behind us now
            turns = max(2, min(options.turns, int(options.seconds / (2 * options.every * alone))))
            shares, costs = [], []
            for _ in range(turns):
                without = plain.turn(None, options.every)
                costs.append(probed.turn(probe, options.every) - without)
                shares.append(100 * costs[-1] / without)
        low, middle, high = statistics.quantiles(shares, n=4) if len(shares) > 1 else [shares[0]] * 3
        print(
            f"{name}: {1e3 * without:.1f} ms a step; the probe adds {middle:.2f} % (quartiles {low:.2f} to {high:.2f},"
            f" {turns} turns of {options.every} steps), {1e3 * statistics.median(costs):.3f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
