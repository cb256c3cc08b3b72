"""Runs that go on and learn nothing: weights that stand still or jump about, scaled gradients that are clipped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has, how_many, names_where, quarters
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.engine.detectors.standstill import from_the_start
from forensics.model import Observation
from forensics.parsers.instruments import BINARY_F1, MACRO_F1, is_update_ratio, recall_class

if TYPE_CHECKING:
    import polars as pl

_CLASSES = 20  # more of them, and a macro F1 no longer tells their number


def weights_not_updated(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 50
) -> tuple[Observation, ...]:
    """The ratio of update to weights is exactly zero in every record although there are gradients.

    A learning rate that is logged must not be zero. records: the fewest to judge by. Every step skipped by a loss
    scaler looks alike (P10): a falling scale is no case.
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for name in names_where(metrics, is_update_ratio):
        for stream in streams(metrics, (name, "grad_norm", "lr", "loss", "loss_scale")):
            if name not in stream.columns:
                continue
            found.append(stream)
            at, ratio = stream.curve(name)
            norms, rates = finite(stream.column("grad_norm")), finite(stream.column("lr"))
            scales = finite(stream.column("loss_scale"))
            if len(ratio) < records or any(ratio) or (scales and min(scales) < max(scales)):
                continue
            if len(norms) < records or min(norms) <= 0 or (rates and median(rates) <= 0):
                continue
            note = f"{name} is exactly 0 in all {len(ratio)} records while grad_norm is up to {number(max(norms))}"
            shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr", name) for i in (at[0], at[-1]))
            signs.append(Sign(stream, at[0], shown, note, "grad_norm"))
    return merge(signs, found, ())


def learning_rate_too_low(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 1e-5,
    records: int = 300,
    gain: float = 0.02,
) -> tuple[Observation, ...]:
    """Updates are far too small for the weights, and the loss has hardly moved.

    ratio: median of update over weights (O7, O22; about 1e-3 is healthy). records: the fewest of the loss (O7).
    gain: part of the loss that is gained from the first to the last quarter (O7: 2 %).
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for name in names_where(metrics, is_update_ratio):
        for stream in streams(metrics, (name, "grad_norm", "lr", "loss")):
            if name not in stream.columns or "loss" not in stream.columns:
                continue
            found.append(stream)
            at, curve = stream.curve("loss")
            ratios = finite(stream.column(name))
            if len(curve) < records or len(ratios) < records or not all(math.isfinite(v) for v in curve):
                continue
            quarter = len(curve) // 4
            first, last = median(curve[:quarter]), median(curve[-quarter:])
            if not 0 < median(ratios) < ratio or first <= 0 or abs(first - last) > gain * first:
                continue
            note = (
                f"updates are {number(median(ratios))} of the weights, and the loss goes from {number(first)} to"
                f" {number(last)} over {len(curve)} records"
            )
            shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr", name) for i in (at[0], at[-1]))
            signs.append(Sign(stream, at[0], shown, note, "loss"))
    return merge(signs, found, ())


def _from_the_start(stream: Stream) -> bool:
    """Whether the record holds the first step of the run, so that what it shows holds for the run as a whole."""
    return next((s for s in stream.steps if s is not None), None) in (0, 1)


def weights_hardly_move(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    total: float = 1e-3,
    records: int = 200,
    gain: float = 0.2,
) -> tuple[Observation, ...]:
    """All updates since the start of the run together are smaller than one healthy step, and the loss is still high.

    total: sum of update over weights, of the model as a whole (O22: one healthy step is about 1e-3).
    records: the fewest, one a step. gain: part of the loss that is gained from the first to the last quarter; a loss
        that falls by more does learn. A learning rate that still warms up says nothing of the run as a whole.
    """
    name = "update_ratio"
    if not has(metrics, name):
        return ()
    found = [s for s in streams(metrics, (name, "lr", "loss")) if {name, "loss"} <= s.columns.keys()]
    signs = []
    for stream in found:
        at, curve = stream.curve("loss")
        ratios, rates = finite(stream.column(name)), finite(stream.column("lr"))
        if min(len(curve), len(ratios)) < records or not all(map(math.isfinite, curve)):
            continue
        if not _from_the_start(stream) or not stream.every_step(len(stream) // 2, name):
            continue
        first, last = quarters(curve)
        if not 0 < sum(ratios) < total or first <= 0 or last < (1 - gain) * first:
            continue
        if rates and rates[-1] > 1.5 * quarters(rates)[0]:
            continue
        note = (
            f"{len(ratios)} updates add up to {number(sum(ratios))} of the weights, less than one healthy step, and the"
            f" loss is {number(last)} (it began at {number(first)})"
        )
        shown = tuple(stream.evidence(i, "loss", "lr", name) for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "loss"))
    return merge(signs, found, ())


def updates_too_large(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 3e-2,
    records: int = 50,
    gain: float = 0.2,
) -> tuple[Observation, ...]:
    """From the start of the run updates are far too large for the weights, and the loss gets nowhere.

    ratio: median of update over weights in the second half, of the model as a whole: single biases begin at zero and
        have any ratio (O22: above 3e-2; about 1e-3 is healthy, and small networks reach 1e-2 without trouble).
    gain: part of the loss that is gained from the first to the last quarter; with large updates and a loss that falls,
        a small network simply learns fast.
    """
    name = "update_ratio"
    if not has(metrics, name):
        return ()
    found = [
        s
        for s in streams(metrics, (name, "grad_norm", "lr", "loss"))
        if {name, "loss"} <= s.columns.keys() and not s.names & RL_NAMES
    ]
    signs = []
    for stream in found:
        at, curve = stream.curve("loss")
        sizes = {i: v for i, v in zip(*stream.curve(name), strict=True) if math.isfinite(v)}
        if min(len(curve), len(sizes)) < records or not all(map(math.isfinite, curve)) or not _from_the_start(stream):
            continue
        first, last = quarters(curve)
        usual = median(list(sizes.values())[len(sizes) // 2 :])
        if usual < ratio or first <= 0 or last < (1 - gain) * first:
            continue
        peak = max(sizes, key=sizes.__getitem__)
        note = (
            f"updates are {number(usual)} of the weights and up to {number(sizes[peak])}, and the loss goes from"
            f" {number(first)} to {number(last)} over {len(curve)} records"
        )
        shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr", name) for i in (peak, at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "loss"))
    return merge(signs, found, ())


def vanishing_gradients(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    norm: float = 1e-6,
    records: int = 100,
    few: int = 50,
    steps: int = 1000,
    flat: float = 0.02,
) -> tuple[Observation, ...]:
    """Gradient norms are tiny, though not zero, from the start of the run on, and the loss stands where it began.

    norm: no median above it (P18: 1e-6). records: the fewest; `few` of them do where they go over `steps` steps.
    flat: relative change of the loss from the first to the last quarter.
    Norms that are exactly zero are a detached graph or an optimizer without the parameters (weights_not_updated).
    """
    if not has(metrics, "loss") or how_many(metrics, "grad_norm", above=0.0, most=norm) < few:
        return ()
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream in streams(metrics, ("grad_norm", "loss", "lr")):
        if not {"grad_norm", "loss"} <= stream.columns.keys():
            continue
        found.append(stream)
        at, curve = stream.curve("loss")
        norms, rates = finite(stream.column("grad_norm")), finite(stream.column("lr"))
        told = [s for i in at if (s := stream.steps[i]) is not None]
        least = few if told and told[-1] - told[0] >= steps else records
        if len(curve) < least or len(norms) < least or not all(map(math.isfinite, curve)):
            continue
        if not from_the_start(stream, at) or (rates and max(rates) <= 0):
            continue
        first, last = quarters(curve)
        if min(norms) <= 0 or median(norms) > norm or abs(first) < 0.1 or abs(first - last) > flat * abs(first):
            continue
        note = (
            f"grad_norm is {number(median(norms))} (median of {len(norms)}), and the loss goes from {number(first)} to"
            f" {number(last)}"
        )
        shown = tuple(stream.evidence(i, "loss", "grad_norm", "lr") for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "grad_norm"))
    return merge(signs, found, ())


def clipped_while_scaled(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    norm: float = 1e3,
    records: int = 50,
    gain: float = 0.02,
) -> tuple[Observation, ...]:
    """Gradient norms are as large as the loss scale, all along, and the loss does not move: they were never unscaled.

    norm: no record is below it (P7: a median above 1e3 within two orders of the scale). Clipping such gradients to 1
    and unscaling them afterwards leaves an update of 1/scale, so that the loss gains less than `gain` over `records` or
    more. A scale that changes takes the norm with it, which is surer still.
    """
    if not has(metrics, "loss_scale") or not has(metrics, "loss"):
        return ()
    if how_many(metrics, "grad_norm", least=norm) < records:
        return ()
    found = [
        part
        for s in streams(metrics, ("grad_norm", "loss_scale", "loss"))
        if {"grad_norm", "loss_scale", "loss"} <= s.columns.keys()
        for part in segments(s)
    ]
    signs = []
    for part in found:
        rows = [
            (i, g, s, v)
            for i, (g, s, v) in enumerate(
                zip(part.column("grad_norm"), part.column("loss_scale"), part.column("loss"), strict=True)
            )
            if g is not None and s is not None and v is not None and all(map(math.isfinite, (g, s, v)))
        ]
        if len(rows) < records or min(g for _, g, _, _ in rows) < norm or min(s for _, _, s, _ in rows) < 1024:
            continue
        unscaled = median(g / s for _, g, s, _ in rows)
        quarter = len(rows) // 4
        first, last = median(v for *_, v in rows[:quarter]), median(v for *_, v in rows[-quarter:])
        if not 1e-2 <= unscaled <= 1e2 or first <= 0 or first - last > gain * first:
            continue
        at = rows[0][0]
        note = (
            f"grad_norm is {number(median(g for _, g, _, _ in rows))} at a loss scale of {number(rows[0][2])}, which is"
            f" {number(unscaled)} times the scale, and the loss stays at {number(last)}"
        )
        shown = tuple(part.evidence(i, "loss", "grad_norm", "loss_scale") for i in (at, rows[-1][0]))
        signs.append(Sign(part, at, shown, note, "grad_norm"))
    return merge(signs, found, ())


def majority_class(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 10,
    evaluations: int = 5,
    flat: float = 0.005,
) -> tuple[Observation, ...]:
    """Accuracy stands still in the second half of the record at what one class alone gives.

    Recalls say so (1 for one class and exactly 0 for all others, all that time; where all classes are shown no accuracy
    need be logged), the macro F1 (`_of_one`), or an F1 of the positive class that is exactly 0 while most samples are
    right.
    records, evaluations: the fewest accuracies of training batches and of held-out data in that half. flat: range of
        the accuracy there (V6: 0.5 %).
    """
    recalls = names_where(metrics, recall_class)
    scores = names_where(metrics, MACRO_F1.search)
    binary = names_where(metrics, BINARY_F1.search)
    if len(recalls) < 2 and not scores and not binary:
        return ()
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream in streams(metrics, ("accuracy", "eval_accuracy", "loss", *recalls, *scores, *binary)):
        if not {"accuracy", "eval_accuracy"} & stream.columns.keys():
            alone = _recalled_alone(stream, recalls, evaluations)
            found += [stream] if alone is not None else []
            signs += [alone] if alone is not None else []
            continue
        found.append(stream)
        told = (
            _one_class(stream, name, recalls, scores, least, flat) or _no_positives(stream, name, binary, least, flat)
            for name, least in (("eval_accuracy", evaluations), ("accuracy", records))
        )
        signs.extend([sign for sign in told if sign is not None][:1])
    return merge(signs, found, ())


def _one_class(
    stream: Stream, name: str, recalls: Sequence[str], scores: Sequence[str], least: int, flat: float
) -> Sign | None:
    """The sign that an accuracy, `name`, is that of one class alone; None where it is not, or too little is told."""
    at, accuracy = stream.curve(name)
    half = len(at) // 2
    later = accuracy[half:]
    if len(later) < least or not all(map(math.isfinite, later)) or max(later) - min(later) > flat:
        return None
    given = {
        other: {i: v for i, v in zip(*stream.curve(other), strict=True) if i >= at[half]}
        for other in (*recalls, *scores)
        if other in stream.columns
    }
    stands = number(accuracy[-1])
    if (found := _one_recalled({r: given[r] for r in recalls if r in given}, least)) is not None:
        one, none = found
        records, values = stream.curve(none[0])
        start = next(i for k, i in enumerate(records) if not any(values[k:]))
        note = f"{none[0]} is 0 from {stream.where(start)} on, {one} 1, and the accuracy stands at {stands}"
        shown = tuple(stream.evidence(i, name, "loss", *none[:4], one) for i in (start, at[0], at[-1]))
        return Sign(stream, start, shown, note, name)
    for score in (s for s in scores if s in given):
        pairs = [(share, f1) for i, f1 in given[score].items() if (share := stream.column(name)[i]) is not None]
        classes = {_of_one(share, f1) for share, f1 in pairs}
        if len(pairs) < least or len(classes) != 1 or (count := classes.pop()) is None:
            continue
        note = (
            f"{score} is {number(pairs[-1][1])} and the accuracy stands at {stands}, which is what {count} classes give"
            " where every sample gets the most frequent one"
        )
        shown = tuple(stream.evidence(i, name, "loss", score) for i in (at[half], at[0], at[-1]))
        return Sign(stream, at[half], shown, note, name)
    return None


def _recalled_alone(stream: Stream, recalls: Sequence[str], least: int) -> Sign | None:
    """The sign that the recalls give by themselves: in the later half of each one is 1 and all others are exactly 0."""
    curves = {r: stream.curve(r) for r in recalls if r in stream.columns}
    given = {r: dict(list(zip(*curve, strict=True))[len(curve[0]) // 2 :]) for r, curve in curves.items()}
    if len(given) < 2 or (found := _one_recalled(given, least)) is None:
        return None
    one, none = found
    records, values = curves[none[0]]
    start = next(i for k, i in enumerate(records) if not any(values[k:]))
    note = f"{none[0]} is 0 from {stream.where(start)} on, and {one} 1"
    shown = tuple(stream.evidence(i, none[0]) for i in dict.fromkeys((start, records[-1])))
    return Sign(stream, start, shown, note, none[0])


def _no_positives(stream: Stream, name: str, scores: Sequence[str], least: int, flat: float) -> Sign | None:
    """The sign that no sample gets the positive class: its F1 is exactly 0 and an accuracy, `name`, stands above half.

    From the first record on, or from where the accuracy came to stand; least, flat: as in `_one_class`.
    """
    at, accuracy = stream.curve(name)
    later = accuracy[len(at) // 2 :]
    if len(later) < least or not all(map(math.isfinite, later)) or max(later) - min(later) > flat:
        return None
    whole = 100.0 if max(accuracy) > 1 else 1.0
    if not whole / 2 <= min(later) <= max(later) < whole:
        return None
    for score in scores:
        found = BINARY_F1.match(score)
        if score not in stream.columns or (found is not None and found["held_out"] is not None) is not (
            name == "eval_accuracy"
        ):
            continue
        records, values = stream.curve(score)
        start = next((i for k, i in enumerate(records) if not any(values[k:])), None)
        if start is None or start > at[len(at) // 2] or sum(i >= at[len(at) // 2] for i in records) < least:
            continue
        note = (
            f"{score} is exactly 0 from {stream.where(start)} on and the accuracy stands at {number(accuracy[-1])}: no"
            " sample is given the positive class and is one"
        )
        shown = tuple(stream.evidence(i, name, "loss", score) for i in dict.fromkeys((start, at[0], at[-1])))
        return Sign(stream, start, shown, note, name)
    return None


def _one_recalled(recalls: Mapping[str, Mapping[int, float]], least: int) -> tuple[str, list[str]] | None:
    """(the recall that is 1, those that are 0) where these are all that there are, `least` times or more."""
    none = [name for name, values in recalls.items() if not any(values.values())]
    full = [name for name, values in recalls.items() if all(v > 0.99 for v in values.values())]
    enough = all(len(values) >= least for values in recalls.values())
    if not enough or len(full) != 1 or not none or len(none) + 1 != len(recalls):
        return None
    return full[0], none


def _of_one(share: float, macro: float, close: float = 3e-3) -> int | None:
    """How many classes there are if every sample gets one class; None where the numbers do not fit that.

    A class that makes up `share` of the data, and is given to all of it, has precision `share` and recall 1, and so an
    F1 of 2 * share / (1 + share). All others have 0; the macro F1 is the mean. close: relative, for rounded numbers.
    """
    if not (0 < share < 1 and 0 < macro < 1):
        return None
    classes = 2 * share / (1 + share) / macro
    count = round(classes)
    if not 2 <= count <= _CLASSES or abs(classes - count) > close * count or share * count < 1 - close:
        return None
    return count
