"""A training loss that is still on its way up when the record ends: too short a rise to be called lost for good.

What tells it from a spike or from other data is that it goes up from record to record, by far more than its noise, and
that the run has shown nothing of the kind before.
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
    rolling,
)
from forensics.engine.detectors.names import has
from forensics.engine.detectors.onsets import leaves_level
from forensics.engine.detectors.ranked import correlation
from forensics.engine.detectors.series import Sign, Stream, merge, number
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_BEFORE = 30  # records whose median is the level before the rise


def loss_climbs(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 8,
    before: int = 60,
    ratio: float = 2.0,
    least: float = 1.0,
    noise: float = 20.0,
    up: float = 0.8,
    steady: float = 0.9,
) -> tuple[Observation, ...]:
    """The training loss climbs from record to record to the end of the record, to a multiple of its level.

    records: how long it climbs at least. before: records that there must be before it. ratio, least, noise: the end
        (median of three) over the level, above it in size (a nat), and in standard deviations of a record; P12 has 1.5
        times and 6 deviations, of what lasts. up: part of the steps that go up. steady: rank correlation with time.
    Not where several losses are logged, nor where the loss was half as high at any time since it first fell.
    """
    if has(metrics, "loss_part"):
        return ()
    found = loss_curves(metrics)
    signs = [s for p in found if (s := _climbs(p, records, before, ratio, least, noise, up, steady)) is not None]
    if not signs or loss_divergence(metrics, observations):
        return ()  # which knows more of it
    return merge(signs, found)


def _climbs(
    stream: Stream, records: int, before: int, ratio: float, least: float, noise: float, up: float, steady: float
) -> Sign | None:
    at, values = stream.curve("loss")
    if len(values) < before + records or not all(map(math.isfinite, values)):
        return None
    # No level is lower than the lowest record: this spares healthy runs the search for where the climb begins.
    end, lowest = median(values[-3:]), min(values)
    if end < ratio * lowest or end - lowest < least:
        return None
    if is_sum(values) or is_range_test(stream, at):
        return None
    deviation = noise_of(values[:-records])
    if end - lowest < noise * deviation:
        return None
    start = leaves_level(values, len(values) - 1, before, deviation)
    climb = values[start:]
    level = median(values[start - _BEFORE : start])
    if len(climb) < records or level <= 0 or end < ratio * level or end - level < max(least, noise * deviation):
        return None
    steps = [b > a for a, b in itertools.pairwise(climb)]
    if sum(steps) < up * len(steps) or correlation(climb, range(len(climb))) < steady or values[-1] < end:
        return None
    half = (level + end) / 2
    smooth = rolling(values, 5)
    fell = next((k for k in range(4, start) if smooth[k] < half), start)
    if start - fell < before or max(smooth[fell:start]) >= half:
        return None
    note = (
        f"the loss climbs from about {number(level)} at {stream.where(at[start])} to {number(values[-1])} at"
        f" {stream.where(at[-1])}, from record to record, and the record ends"
    )
    shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr") for i in (at[start], at[start - 1], at[-1]))
    return Sign(stream, at[start], shown, note, "loss")
