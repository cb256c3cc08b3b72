"""A loss on held-out data that is no number, that explodes, or that rises while the training loss falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.held_out_chance import never_learned
from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl


def nan_held_out(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, evaluations: int = 2, records: int = 5
) -> tuple[Observation, ...]:
    """The loss of every evaluation from some one to the last is NaN or infinite; the training loss never is.

    evaluations: how many at least: one alone may be a sanity check before training, or cut short. records: training
        losses at least. A training loss of exactly 0 is what HF Trainer logs in place of NaN, and counts as none.
    """
    if not has(metrics, "eval_loss"):
        return ()
    found = [s for s in streams(metrics, ("loss", "eval_loss")) if {"loss", "eval_loss"} <= set(s.columns)]
    signs = [sign for stream in found if (sign := _not_a_number(stream, evaluations, records)) is not None]
    return merge(signs, found, ()) if signs else ()


def _not_a_number(stream: Stream, evaluations: int, records: int) -> Sign | None:
    _, trained = stream.curve("loss")
    at, held_out = stream.curve("eval_loss")
    if len(trained) < records or not all(math.isfinite(v) and v != 0 for v in trained):
        return None
    good = max((i for i, v in enumerate(held_out) if math.isfinite(v)), default=-1)
    bad = at[good + 1 :]
    if len(bad) < evaluations:
        return None
    # NaN beside a training loss may fill a column where nothing was evaluated, unless all evaluations before gave one.
    losses = stream.column("loss")
    beside = any(losses[i] is not None for i in bad)
    if beside and (good < 1 or not all(map(math.isfinite, held_out[:good]))):
        return None
    which = "every evaluation" if good < 0 else f"all {len(bad)} evaluations from there on"
    note = f"the loss of {which} is NaN or infinite, first at {stream.where(bad[0])}; the training loss is finite"
    return Sign(stream, bad[0], tuple(stream.evidence(i, "eval_loss") for i in bad[:2]), note, "eval_loss")


def held_out_explodes(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, factor: float = 100.0, evaluations: int = 3
) -> tuple[Observation, ...]:
    """From some evaluation to the last, the loss on held-out data is far above what it ever was.

    factor: every one of these over the median of all before, and over the training loss of the last records, where
        there is one: the most that over-confidence does to a cross-entropy is some ten times. evaluations: of either
        kind, at least.
    """
    if not has(metrics, "eval_loss"):
        return ()
    found = [s for s in streams(metrics, ("loss", "eval_loss")) if "eval_loss" in s.columns and not s.names & RL_NAMES]
    parts = [part for stream in found for part in segments(stream)]
    signs = [sign for part in parts if (sign := _explodes(part, factor, evaluations)) is not None]
    return merge(signs, found, ()) if signs else ()


def _explodes(part: Stream, factor: float, evaluations: int) -> Sign | None:
    at, values = part.curve("eval_loss")
    if len(values) < 2 * evaluations or not all(map(math.isfinite, values)):
        return None
    start = next((k for k in range(evaluations, len(values)) if values[k] >= factor * median(values[:k])), None)
    if start is None or len(values) - start < evaluations:
        return None
    level, rest = median(values[:start]), values[start:]
    _, trained = part.curve("loss")
    last = median(trained[-5:]) if trained else 0.0
    if level <= 0 or min(rest) < factor * max(level, last if math.isfinite(last) else math.inf):
        return None
    note = (
        f"the loss on held-out data was {number(level)} and is {number(min(rest))} and more in all {len(rest)}"
        f" evaluations from {part.where(at[start])} on"
    )
    shown = tuple(part.evidence(i, "eval_loss", "loss") for i in (at[start], at[start - 1], at[-1]))
    return Sign(part, at[start], shown, note, "eval_loss")


def held_out_rises(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    evaluations: int = 10,
    rise: float = 1.3,
    fall: float = 0.9,
    factor: float = 100.0,
) -> tuple[Observation, ...]:
    """The loss on held-out data has risen since its best evaluation, while the training loss went on falling.

    No over-fitting where the accuracy never leaves chance: then held-out data teaches nothing (`never_learned`).
    evaluations: the fewest in all, a third of them behind the best one. rise: median of the last five over the best
        median of five; `factor` and more is no over-fitting (held_out_explodes). fall: the training loss at the end
        over that at the best evaluation, at most.
    """
    if not has(metrics, "eval_loss"):
        return ()
    names = ("loss", "eval_loss", "eval_accuracy")
    found = [s for s in streams(metrics, names) if {"loss", "eval_loss"} <= s.columns.keys()]
    parts = [part for stream in found for part in segments(stream) if not part.names & RL_NAMES]
    parts = [part for part in parts if not never_learned(part)]
    signs = [sign for part in parts if (sign := _rises(part, evaluations, rise, fall, factor)) is not None]
    return merge(signs, found, ()) if signs else ()


def _rises(part: Stream, evaluations: int, rise: float, fall: float, factor: float) -> Sign | None:
    at, values = part.curve("eval_loss")
    trained_at, trained = part.curve("loss")
    if len(values) < evaluations or len(trained) < evaluations or not all(map(math.isfinite, [*values, *trained])):
        return None
    level = [median(values[k : k + 5]) for k in range(len(values) - 4)]
    best = min(range(len(level)), key=level.__getitem__)
    if 3 * (len(level) - 1 - best) < len(level) or level[best] <= 0:
        return None
    if not rise * level[best] <= level[-1] < factor * level[best]:
        return None
    there = [v for i, v in zip(trained_at, trained, strict=True) if i <= at[best + 4]][-5:]
    if not there or median(trained[-5:]) > fall * median(there):
        return None
    lowest = min(range(best, best + 5), key=values.__getitem__)
    note = (
        f"the loss on held-out data is {number(values[-1])} at {part.where(at[-1])} and was {number(values[lowest])} at"
        f" {part.where(at[lowest])}, while the training loss fell from {number(median(there))} to"
        f" {number(median(trained[-5:]))}"
    )
    shown = tuple(part.evidence(i, "eval_loss", "loss") for i in (at[lowest], at[-1]))
    return Sign(part, at[lowest], shown, note, "eval_loss")
