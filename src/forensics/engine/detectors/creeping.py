"""A training loss that creeps upwards from its best level, over most of the rest of the record.

No single place of it is a rise out of the noise, and it need not get back to where the run began, which is what
`loss_divergence` asks for. A change of data or objective is a step; this goes on and on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.loss_shape import (
    is_range_test,
    is_sum,
    loss_curves,
    loss_divergence,
    noise_of,
    roughness,
)
from forensics.engine.detectors.names import has
from forensics.engine.detectors.onsets import leaves_level
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_PIECES = 10  # of the rise, whose medians show the trend
_RISING = 7  # steps between pieces that must go up, of nine
_ONE_STEP = 0.45  # part of the rise that one step between pieces may be: more is a change of data
_HELD = 1.1  # a held-out loss that ends within it of its best says that the model is as good as before


def loss_creeps(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 1.5,
    least: float = 0.3,
    records: int = 60,
    part: float = 0.3,
    noise: float = 4.0,
) -> tuple[Observation, ...]:
    """The training loss learned, and then rises piece by piece to the end of the record.

    ratio, least: the end over the best level, and above it (P12: 1.5 times; below 0.3 a band gives false alarms).
    records, part: how long the rise takes at least, in records and of the whole record. noise: the rise over the median
    distance of neighbours. Not where several losses are logged, of which one may rise as another falls, nor where
    accuracy or held-out loss are as good as they were: then the objective has become harder.
    """
    if has(metrics, "loss_part") or _still_good(metrics):
        return ()
    found = loss_curves(metrics)
    signs = [sign for s in found if (sign := _creeps(s, ratio, least, records, part, noise)) is not None]
    if not signs or loss_divergence(metrics, observations):
        return ()  # which knows more of it
    return merge(signs, found)


def _still_good(metrics: pl.DataFrame) -> bool:
    """Whether any other measure of the run ends near its best."""
    for name, sign in (("eval_loss", 1.0), ("accuracy", -1.0), ("eval_accuracy", -1.0)):
        if not has(metrics, name):
            continue
        for stream in streams(metrics, (name,)):
            values = [sign * v for v in stream.curve(name)[1] if math.isfinite(v)]
            if len(values) >= 3 and median(values[-3:]) <= min(values) + (_HELD - 1) * abs(min(values)):
                return True
    return False


def _creeps(stream: Stream, ratio: float, least: float, records: int, part: float, noise: float) -> Sign | None:
    at, values = stream.curve("loss")
    if len(values) < 2 * records or not all(map(math.isfinite, values)) or is_sum(values):
        return None
    if is_range_test(stream, at):
        return None
    width = max(5, len(values) // 20)
    level = [median(values[k : k + width]) for k in range(0, len(values) - width + 1, width)]
    best_at = min(range(len(level)), key=level.__getitem__) * width
    best, first = min(level), median(values[:5])
    rest = values[best_at:]
    if best <= 0 or first < (1 + part) * best or len(rest) < max(records, round(part * len(values))):
        return None
    size = len(rest) / _PIECES
    pieces = [median(rest[round(k * size) : round((k + 1) * size)]) for k in range(_PIECES)]
    rise = pieces[-1] - best
    if pieces[-1] < ratio * best or rise < least or rise < noise * roughness(rest) or pieces[-1] < max(pieces):
        return None
    steps = [b - a for a, b in itertools.pairwise(pieces)]
    if sum(s > 0 for s in steps) < _RISING or max(steps) > _ONE_STEP * rise:
        return None
    onset = best_at + round(size * next(k for k in range(_PIECES) if pieces[k] > best + 0.2 * rise))
    onset = leaves_level(values, min(onset, len(values) - 1), best_at, noise_of(values))
    note = (
        f"the loss creeps from {number(best)}, its best level, up to {number(pieces[-1])} at {stream.where(at[-1])},"
        f" over {len(rest)} records; other data or a harder task can do that as well"
    )
    shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr") for i in (at[onset], at[best_at], at[-1]))
    return Sign(stream, at[onset], shown, note, "loss")
