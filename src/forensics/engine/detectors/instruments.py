"""Series that people log to watch for one particular fault: they say what they stand for in their names.

Names of this kind are not canonical: parsers/instruments.py says which ones stand for what.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has, names_where, quarters
from forensics.engine.detectors.ranked import correlation
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation
from forensics.parsers.instruments import FROZEN, LOGITS, PREDICTIONS, is_average_precision, is_dead_share

if TYPE_CHECKING:
    import polars as pl


def _while_finite(part: Stream, *names: str) -> Stream:
    """The records before the first that has NaN or Inf under one of some names: what led there shows in them."""
    columns = [part.column(name) for name in names]
    ends = (
        i
        for i, row in enumerate(zip(*columns, strict=True))
        if any(v is not None and not math.isfinite(v) for v in row)
    )
    end = next(ends, len(part))
    return part if end == len(part) else part.cut(0, end)


def frozen_weights_moved(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, change: float = 1e-3, records: int = 10
) -> tuple[Observation, ...]:
    """A norm (mean, sum, ...) of what its name calls frozen goes away from its first value and does not come back.

    change: relative, in the last quarter of the records (O17; a float32 norm of the same weights repeats to 1e-6).
    records: the fewest to judge by. Where it stands still at first, parts were unfrozen later, as some recipes do.
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for name in names_where(metrics, FROZEN.search):
        for part in (p for s in streams(metrics, (name, "lr", "loss")) if name in s.columns for p in segments(s)):
            found.append(part)
            at, values = part.curve(name)
            if len(values) < records or not all(map(math.isfinite, values)) or values[0] == 0:
                continue
            moved = [abs(v - values[0]) / abs(values[0]) for v in values]
            if min(moved[-(len(moved) // 4) :]) < change or moved[1] == 0:
                continue
            note = (
                f"{name} goes from {number(values[0])} to {number(values[-1])} in {len(values)} records,"
                " although its name says that nothing trains it"
            )
            shown = tuple(part.evidence(i, name, "loss", "lr") for i in (at[0], at[len(at) // 2], at[-1]))
            signs.append(Sign(part, at[0], shown, note, name))
    return merge(signs, found, ())


def dead_units(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    share: float = 0.9,
    rise: float = 0.3,
    records: int = 10,
) -> tuple[Observation, ...]:
    """The share of dead units rises and stays near one.

    share: above it in the last `records` records. rise: over the median of the first quarter (O25: 0.9 for a layer and
        a rise by 0.3; a share of 0.5 is what ReLU gives by right).
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for name in names_where(metrics, is_dead_share):
        for whole in (p for s in streams(metrics, (name, "lr", "loss")) if name in s.columns for p in segments(s)):
            part = _while_finite(whole, name)
            found.append(part)
            at, values = part.curve(name)
            if len(values) < 2 * records or not all(0 <= v <= 1 for v in values):
                continue
            first, _ = quarters(values)
            if min(values[-records:]) < share or min(values[-records:]) - first < rise:
                continue
            onset = next(k for k in range(len(values)) if min(values[k:]) >= share)
            note = f"{name} was about {number(first)} and stays at {number(values[-1])} from {part.where(at[onset])} on"
            shown = tuple(part.evidence(i, name, "loss", "lr") for i in (at[onset], at[0], at[-1]))
            signs.append(Sign(part, at[onset], shown, note, name))
    return merge(signs, found, ())


def logits_grow(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    growth: float = 3.0,
    order: float = 0.8,
    records: int = 200,
    gain: float = 0.02,
) -> tuple[Observation, ...]:
    """Logits, or the logarithm of the softmax normaliser, grow all along while the loss no longer falls.

    growth: last over first quarter; order: rank correlation with time (P15, L6: threefold, Spearman 0.8, 200 points).
    gain: part of the loss that is gained over the second half of the record. Growth while the loss falls is learning.
    A record that ends in NaN is judged by what is finite: that is where such growth leads.
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for name in names_where(metrics, LOGITS.search):
        for whole in (p for s in streams(metrics, (name, "loss")) if name in s.columns for p in segments(s)):
            part = _while_finite(whole, name, "loss")
            found.append(part)
            at, values = part.curve(name)
            losses = [v for v in part.column("loss") if v is not None]
            if len(values) < records or len(losses) < records:
                continue
            first, last = quarters(values)
            before, after = quarters(losses[len(losses) // 2 :])
            if first <= 0 or last < growth * first or before <= 0 or after < (1 - gain) * before:
                continue
            if correlation(values, range(len(values))) < order:
                continue
            note = (
                f"{name} grows from about {number(first)} to {number(last)} over {len(values)} records while the loss"
                f" stays at about {number(after)}"
            )
            shown = tuple(part.evidence(i, name, "loss") for i in (at[len(at) // 2], at[0], at[-1]))
            signs.append(Sign(part, at[len(at) // 2], shown, note, name))
    return merge(signs, found, ())


def _loss_fell(metrics: pl.DataFrame, records: int, gain: float) -> bool:
    """Whether every training loss of `records` and more is lower by `gain` of itself in its last quarter."""
    total = "loss" if has(metrics, "loss") else "loss_part"
    fell = []
    for stream in (s for s in streams(metrics, (total,)) if not s.names & RL_NAMES):
        _, curve = stream.curve(total)
        if len(curve) >= records and all(map(math.isfinite, curve)):
            first, last = quarters(curve)
            fell.append(first > 0 and last < (1 - gain) * first)
    return bool(fell) and all(fell)


def nothing_predicted(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, evaluations: int = 5, gain: float = 0.2
) -> tuple[Observation, ...]:
    """Evaluations count no prediction and none gives an average precision, although the training loss has fallen.

    evaluations: the fewest; the first ones may well find nothing. gain: as for `detection_metric_zero`.
    """
    if not has(metrics, PREDICTIONS) or not _loss_fell(metrics, evaluations, gain):
        return ()
    precisions = names_where(metrics, is_average_precision)
    signs: list[Sign] = []
    found = streams(metrics, (PREDICTIONS, *precisions))
    for stream in found:
        if any(v is not None and math.isfinite(v) for name in precisions for v in stream.column(name)):
            return ()
        at, counts = stream.curve(PREDICTIONS)
        if len(counts) < evaluations or any(counts):
            continue
        note = f"{len(at)} evaluations find nothing at all, and the training loss has fallen"
        shown = tuple(stream.evidence(i, PREDICTIONS) for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, PREDICTIONS))
    return merge(signs, found, ())


def detection_metric_zero(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, evaluations: int = 5, gain: float = 0.2
) -> tuple[Observation, ...]:
    """The average precision is exactly 0 in every evaluation although the training loss has fallen.

    evaluations: the fewest; early ones may well be 0. gain: part of the loss that is gained from the first to the last
        quarter (V3: 20 %). A value of -1 means that there is no ground truth of that size and counts as no value.
    Ultralytics logs the terms of its loss and no total; then they are what has to fall.
    """
    names = names_where(metrics, is_average_precision)
    if not names:
        return ()
    if not _loss_fell(metrics, evaluations, gain):
        return ()
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream in streams(metrics, names):
        found.append(stream)
        given = [(name, [v for v in stream.column(name) if v is not None and v >= 0]) for name in names]
        told = [(name, values) for name, values in given if values]
        if not told or any(any(values) for _, values in told) or min(len(v) for _, v in told) < evaluations:
            continue
        name = told[0][0]
        at, _values = stream.curve(name)
        note = f"{name} is exactly 0 in all {len(at)} evaluations, and the training loss has fallen"
        shown = tuple(stream.evidence(i, name) for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, name))
    return merge(signs, found, ()) if len(signs) == len(found) else ()
