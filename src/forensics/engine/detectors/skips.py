"""Steps that a run skips, by its own count, far more often than a loss scaler that is at its level has to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl


def steps_often_skipped(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    share: float = 0.2,
    after: int = 100,
    steps: int = 200,
) -> tuple[Observation, ...]:
    """More than a fifth of all steps is skipped, from calibration to the end of the record, at a scale that stays.

    share, after: part of the steps, and the step from which on they count (P10: "skip rate > 20 % over 100 steps after
        step 100"). steps: the fewest to judge by, so that both halves of them have 100; the share holds in each.
    A scale that ends far below where it was is the scaler's collapse (scale_collapse), of which skips follow.
    """
    if not has(metrics, "skipped_steps"):
        return ()
    found = [
        part
        for stream in streams(metrics, ("skipped_steps", "loss_scale", "loss", "grad_norm"))
        if "skipped_steps" in stream.columns
        for part in segments(stream)
    ]
    signs = [sign for part in found if (sign := _often(part, share, after, steps)) is not None]
    return merge(signs, found, ()) if signs else ()


def _often(part: Stream, share: float, after: int, fewest: int) -> Sign | None:
    at, counts = part.curve("skipped_steps")
    told = [(i, part.steps[i] or 0, n) for i, n in zip(at, counts, strict=True) if part.steps[i] is not None]
    told = [item for item in told if item[1] >= after]
    if len(told) < 5 or not all(math.isfinite(n) for _, _, n in told):
        return None
    scales = finite([part.column("loss_scale")[i] for i, _, _ in told])
    if scales and scales[-1] < scales[0] / 4:
        return None
    taken = [(b[1] - a[1], b[2]) for a, b in itertools.pairwise(told)]
    # More skipped than steps between two records: another clock, or a count that is no count of steps.
    if any(n > gap for gap, n in taken) or sum(gap for gap, _ in taken) < fewest:
        return None
    half = len(taken) // 2
    if min(_share(taken[:half]), _share(taken[half:])) <= share:
        return None
    first, last = told[0][0], told[-1][0]
    skipped = sum(n for _, n in taken)
    note = (
        f"{number(skipped)} of the {sum(gap for gap, _ in taken)} steps from {part.where(first)} to {part.where(last)}"
        f" are skipped ({_share(taken):.0%})"
    )
    names = ("skipped_steps", "loss_scale", "loss")
    return Sign(part, first, tuple(part.evidence(i, *names) for i in (first, last)), note, "skipped_steps")


def _share(taken: Sequence[tuple[int, float]]) -> float:
    """Part of the steps that were skipped; taken: (steps, skipped ones) a record."""
    steps = sum(gap for gap, _ in taken)
    return sum(n for _, n in taken) / steps if steps else 0.0
