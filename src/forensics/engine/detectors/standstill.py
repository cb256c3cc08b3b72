"""Losses that never move: one and the same number in every record, or the level of a model that guesses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "grad_norm", "lr", "loss_scale", "update_ratio", "skipped_steps")
# Classes of CIFAR-10 and -100 and ImageNet; entries of the vocabularies of BERT (uncased and cased), Llama 2, GPT-2,
# Llama 3 and Qwen 2. Two are left out: losses about ln 2 are what hard binary tasks end at.
_CLASSES = (10, 100, 1000, 30522, 28996, 32000, 50257, 128256, 151936)


def _parts(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    return tuple(
        part
        for stream in streams(metrics, _NAMES)
        if "loss" in stream.columns and not stream.names & RL_NAMES
        for part in segments(stream)
    )


def _digits(value: float) -> int:
    """Significant digits of the shortest text that gives this number."""
    return len(f"{value!r}".partition("e")[0].replace(".", "").lstrip("0-").rstrip("0"))


def _scaler_at_work(part: Stream) -> bool:
    """Whether steps are skipped or the loss scale falls, so that nothing is updated for that reason (P10)."""
    scales = finite(part.column("loss_scale"))
    return any(finite(part.column("skipped_steps"))) or (bool(scales) and min(scales) < max(scales))


def loss_constant(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 50,
    digits: int = 6,
    least: float = 1e-3,
    alone: float = 0.9,
) -> tuple[Observation, ...]:
    """The training loss is the same number in all records (TR2), and so is the gradient norm, where there is one.

    records: the fewest, all at steps of their own. digits: significant digits of the loss from which on rounding cannot
        be the reason; two, where the gradient norm is 0. least: a loss below it is a task that is solved, or one whose
        labels are all masked. alone: the weight where no gradient norm is logged.
    """
    if not has(metrics, "loss"):
        return ()
    found = _parts(metrics)
    signs = [sign for part in found if (sign := _constant(part, records, digits, least, alone)) is not None]
    return merge(signs, found, ()) if signs else ()


def _constant(part: Stream, records: int, digits: int, least: float, alone: float) -> Sign | None:
    at, curve = part.curve("loss")
    if len(curve) < records or not math.isfinite(curve[0]) or curve.count(curve[0]) < len(curve):
        return None
    steps = [s for i in at if (s := part.steps[i]) is not None]
    norms = finite(part.column("grad_norm"))
    if abs(curve[0]) < least or len(set(steps)) < records or _scaler_at_work(part):
        return None
    if any(finite(part.column("update_ratio"))) or (norms and min(norms) < max(norms)):
        return None
    no_gradient = len(norms) >= records and norms[0] == 0
    if _digits(curve[0]) < (2 if no_gradient else digits):
        return None
    note = (
        f"the loss is {number(curve[0])} in all {len(curve)} records, from {part.where(at[0])} to {part.where(at[-1])}"
    )
    if norms:
        note += f", and grad_norm {number(norms[0])}"
    rates = finite(part.column("lr"))
    note += "; the learning rate is 0" if rates and max(rates) == 0 else ""
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at[0], at[-1]))
    return Sign(part, at[0], shown, note, "loss", 1.0 if norms else alone)


def loss_at_chance(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 100,
    steps: int = 1000,
    close: float = 0.01,
    closer: float = 0.001,
) -> tuple[Observation, ...]:
    """From its start the run's loss stands at ln C, that of a model that holds C classes for equally likely (O1).

    records, steps: the fewest to judge by (O1 has 200 steps, which a warm-up takes as well). close: relative distance
        from ln C (O1: 2 %), for the thousand classes and the vocabularies of _CLASSES. closer: that for fewer classes,
        whose ln C is a loss that language models have too. No trend: the medians of the first and the last quarter
        are within a quarter of that. A rate that still grows is a warm-up.
    """
    if not has(metrics, "loss"):
        return ()
    # Not cut where steps go back: many loops count them within an epoch.
    found = tuple(
        s for s in streams(metrics, _NAMES) if "loss" in s.columns and not s.names & RL_NAMES and len({*s.attempts}) < 2
    )
    signs = [sign for part in found if (sign := _at_chance(part, records, steps, close, closer)) is not None]
    return merge(signs, found, ()) if signs else ()


def _at_chance(part: Stream, records: int, steps: int, close: float, closer: float) -> Sign | None:
    at, curve = part.curve("loss")
    told = [(s, part.epochs[i] or 0.0) for i in at if (s := part.steps[i]) is not None]
    if len(curve) < records or len(told) < records or not all(map(math.isfinite, curve)):
        return None
    if any(b[0] < a[0] and b[1] <= a[1] for a, b in itertools.pairwise(told)):  # it began anew
        return None
    gaps = [b[0] - a[0] for a, b in itertools.pairwise(told) if b[0] > a[0]]
    if sum(gaps) < steps or told[0][0] > max(1, median(gaps)) or told[0][1] > 1:
        return None
    level = median(curve)
    classes = min(_CLASSES, key=lambda c: abs(math.log(c) - level))
    chance = math.log(classes)
    band = chance * (close if classes >= 1000 else closer)
    if max(abs(v - chance) for v in curve) > band or _constant(part, 50, 6, 1e-3, 1.0) is not None:
        return None
    quarter = len(curve) // 4
    if abs(median(curve[:quarter]) - median(curve[-quarter:])) > band / 4 or _scaler_at_work(part):
        return None
    rates = finite(part.column("lr"))
    if rates and rates[-1] >= max(rates) and rates[-1] > rates[len(rates) // 2]:
        return None
    note = (
        f"the loss is within {band / chance:.1%} of {chance:.4f} = ln {classes} in all {len(curve)} records, from"
        f" {part.where(at[0])} to {part.where(at[-1])}"
    )
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at[0], at[-1]))
    return Sign(part, at[0], shown, note, "loss", captures={"classes": str(classes)})
