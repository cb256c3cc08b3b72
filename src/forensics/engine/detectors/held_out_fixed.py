"""Evaluations that give one and the same number while the training loss falls: not the model that is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.engine.detectors.standstill import significant_digits
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_LOSS, _ACCURACY = "eval_loss", "eval_accuracy"
_FAR_FROM_DONE = 0.6  # an accuracy below it can be no ceiling, and seldom the share of the commonest class


def held_out_fixed(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    evaluations: int = 5,
    accuracies: int = 8,
    digits: int = 3,
    moved: float = 0.2,
    learned: float = 0.5,
) -> tuple[Observation, ...]:
    """The loss on held-out data is one number in all evaluations, and the training loss moves.

    evaluations: the fewest. digits: significant ones, so that rounding is not the reason. moved: part of its first
        level by which the training loss has to come down between the first of them and the last. An accuracy alone
        counts where there are `accuracies` of it, it is no ceiling, and the training loss came down to `learned` of it.
    """
    if not has(metrics, _LOSS) and not has(metrics, _ACCURACY):
        return ()
    found = [
        part
        for stream in streams(metrics, ("loss", _LOSS, _ACCURACY, "lr"))
        if "loss" in stream.columns and not stream.names & RL_NAMES
        for part in segments(stream)
    ]
    signs = []
    for part in found:
        if _LOSS in part.columns:
            sign = _fixed(part, _LOSS, evaluations, digits, 1 - moved)
        else:
            sign = _fixed(part, _ACCURACY, accuracies, digits, learned)
        signs += [sign] if sign is not None else []
    return merge(signs, found, ())


def _fixed(part: Stream, name: str, least: int, digits: int, left: float) -> Sign | None:
    at, values = part.curve(name)
    if len(values) < least or not math.isfinite(values[0]) or values.count(values[0]) < len(values):
        return None
    if significant_digits(values[0]) < digits:
        return None
    if name == _ACCURACY and not 0 < values[0] < _FAR_FROM_DONE and not 1 < values[0] < 100 * _FAR_FROM_DONE:
        return None
    records, curve = part.curve("loss")
    between = [v for i, v in zip(records, curve, strict=True) if at[0] <= i <= at[-1] and math.isfinite(v)]
    # A value on every record is the last evaluation's, carried along: then epochs alone count evaluations.
    carried = len(between) <= len(values)
    places = {part.epochs[i] if carried else (part.steps[i], part.epochs[i]) for i in at}
    if len(places) < least or len(between) < least:
        return None
    few = max(1, len(between) // 10)
    first, last = median(between[:few]), median(between[-few:])
    if first <= 0 or last > left * first:
        return None
    note = (
        f"{name} is {number(values[0])} in all {len(values)} evaluations from {part.where(at[0])} to"
        f" {part.where(at[-1])}, while the training loss goes from {number(first)} to {number(last)}"
    )
    shown = (at[0], at[-1])
    return Sign(part, at[0], tuple(part.evidence(i, name, "loss") for i in shown), note, name)
