"""A learning rate so small that all steps together cannot have moved the weights, and a loss that stands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.loss_shape import loss_curves
from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, number
from forensics.engine.detectors.standstill import from_the_start
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_BETWEEN = 500  # steps between records that bear none: what HF Trainer has by default (logging_steps)
_LOW = 0.1  # a loss below it may be a task that is solved


def rate_negligible(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    moved: float = 1e-4,
    records: int = 100,
    steps: int = 1000,
    gain: float = 0.02,
) -> tuple[Observation, ...]:
    """From the start of the run the rates of all steps add up to next to nothing, and the loss stands.

    moved: the sum of rate times steps, and times the gradient norm where that is above 1. Adam moves no weight by more
        than the sum of the rates, SGD the weights as a whole by no more than the second; a single weight is about 1e-2.
    records, steps: the fewest to judge by (O7 has 300 steps). gain: relative change of the loss from the first to the
        last quarter (O7: 2 %). A rate that still grows is a warm-up.
    """
    if not has(metrics, "lr") or not has(metrics, "grad_norm"):
        return ()
    parts = [p for p in loss_curves(metrics) if {"lr", "grad_norm"} <= p.columns.keys()]
    signs = [sign for p in parts if (sign := _look(p, moved, records, steps, gain)) is not None]
    return merge(signs, parts, ())


def _look(part: Stream, moved: float, records: int, steps: int, gain: float) -> Sign | None:
    at, curve = part.curve("loss")
    told = [(i, part.steps[i], r, g) for i, r, g in part.pairs("lr", "grad_norm")]
    if min(len(curve), len(told)) < records or not all(map(math.isfinite, curve)) or not from_the_start(part, at):
        return None
    known = [s for _, s, _, _ in told if s is not None]
    if known and (len(known) < len(told) or known[-1] - known[0] < steps):
        return None
    rates = [r for _, _, r, _ in told]
    quarter = len(rates) // 4
    if max(rates) <= 0 or rates[-1] > 1.5 * median(rates[:quarter]):
        return None
    gaps = [b - a for a, b in itertools.pairwise(known)] if known else [_BETWEEN] * (len(told) - 1)
    total = sum(n * r * max(1.0, g) for n, (_, _, r, g) in zip(gaps, told, strict=False))
    first, last = median(curve[: len(curve) // 4]), median(curve[-(len(curve) // 4) :])
    if total >= moved or min(gaps) <= 0 or first < _LOW or abs(first - last) > gain * first:
        return None
    note = (
        f"the learning rate is {number(max(rates))} at most: all steps together move the weights by {number(total)} or"
        f" less, and the loss goes from {number(first)} to {number(last)} over {len(curve)} records"
    )
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (told[0][0], told[-1][0]))
    return Sign(part, told[0][0], shown, note, "lr")
