"""A loss without a gradient norm that jumps at once and takes many records to come down again.

A batch that is merely hard is over with the next one, and the loss is where it was. Weights that one step has thrown
off are learned back, record by record. New data, a restart of the learning rate and a resume do that too: the first and
the last are told apart by where they happen, the rate by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.loss_shape import loss_courses, rolling, spread_about
from forensics.engine.detectors.series import Sign, Stream, merge, number
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_LEVEL = 50  # records whose median is the level (P12: med50)
_EARLIER = 200  # records before it that show how far single batches lie off
_PLAINER = 5.0  # how much further off it is than any of those
_FASTER = 0.5  # part of the records of the first time in which it is learned back: weights made anew take as many
_SAME_RATE = 1.25  # a rate that changes by more began anew


def spike_decays(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    above: float = 0.7,
    noise: float = 20.0,
    before: int = 50,
    falling: int = 8,
    within: int = 100,
    weight: float = 0.75,
) -> tuple[Observation, ...]:
    """The loss jumps from one record to the next, falls for records on end, and comes back to its level.

    above, noise: the jump, as part of the level (P12 marks 0.3) and in MADs (P12: 6): nothing else bears it out, so it
        has to be plain. before: records that settle the level. falling: records behind the top of which all but one lie
        below the one before. within: records until a tenth of the jump is left.
    weight: another set of data may look alike.
    """
    marks: dict[str, list[int]] = {}
    for o in observations:
        if "resum" in o.signature and o.evidence and o.evidence[0].line is not None:
            marks.setdefault(o.evidence[0].file, []).append(o.evidence[0].line)
    parts = [p for p in loss_courses(metrics) if "grad_norm" not in p.names]
    signs = [
        sign
        for part in parts
        if (sign := _look(part, marks.get(part.source, ()), above, noise, before, falling, within, weight)) is not None
    ]
    return merge(signs, parts)


def _look(
    part: Stream,
    marks: Sequence[int],
    above: float,
    noise: float,
    before: int,
    falling: int,
    within: int,
    weight: float,
) -> Sign | None:
    at, values = part.curve("loss")
    if len(values) < before + falling + 1 or not all(map(math.isfinite, values)):
        return None
    level = rolling(values, _LEVEL)
    for k in range(before, len(values) - falling):
        usual = level[k - 1]
        if usual <= 0 or values[k] - usual < max(above * usual, 0.5):
            continue
        jump = values[k] - usual
        past = values[max(0, k - _LEVEL) : k]
        if jump < noise * spread_about(past, rolling(past, 10)) or not _plainest(values, level, k, jump):
            continue
        tail = values[k : k + falling + 1]
        if sum(b < a for a, b in itertools.pairwise(tail)) < falling - 1 or tail[falling // 2] - usual < 0.1 * jump:
            continue
        ends = range(k + falling, min(len(values), k + within))
        home = usual + 0.1 * jump
        back = next((j for j in ends if median(values[j : j + 5]) <= home), None)
        if back is None or _begins_anew(part, at[k - 1], at[k], marks):
            continue
        if back - k > _FASTER * _at_first(values[:k], values[k], home):
            continue
        shown = dict.fromkeys((at[k], at[k - 1], at[back]))
        note = (
            f"the loss jumps from about {number(usual)} to {number(values[k])} at {part.where(at[k])}, falls for"
            f" {back - k} records and is back at {part.where(at[back])}"
        )
        return Sign(part, at[k], tuple(part.evidence(i, "loss", "lr") for i in shown), note, "loss", weight)
    return None


def _at_first(values: Sequence[float], high: float, home: float) -> int:
    """How many records the run took to come down the same way when it began; from its start, if that is less far."""
    end = next((j for j, v in enumerate(values) if v <= home), len(values))
    return end - next((j for j, v in enumerate(values) if v <= high), end)


def _plainest(values: Sequence[float], level: Sequence[float], k: int, jump: float) -> bool:
    """Whether no record before was nearly as far above its level as this one."""
    first = max(1, k - _EARLIER)
    # Of the run's first steep fall the level lags behind.
    return jump >= _PLAINER * max((values[j] - level[j - 1] for j in range(first, k)), default=0.0)


def _begins_anew(part: Stream, before: int, at: int, marks: Sequence[int]) -> bool:
    """Whether an epoch, a schedule or a process begins between two records: then it may be by design."""
    a, b = part.epochs[before], part.epochs[at]
    if a is not None and b is not None and math.floor(a) != math.floor(b):
        return True
    old, new = part.column("lr")[before], part.column("lr")[at]
    if old is not None and new is not None and not old / _SAME_RATE <= new <= old * _SAME_RATE:
        return True
    low, high = part.lines[before], part.lines[at]
    return low is not None and high is not None and any(low <= m <= high for m in marks)
