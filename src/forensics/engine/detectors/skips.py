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
    """More than a fifth of the steps is skipped, from calibration or some record on to the end, at a scale that stays.

    share, after: part of the steps, and the step from which on they count (P10: "skip rate > 20 % over 100 steps after
        step 100"). steps: the fewest to judge by, so that both halves of them have 100; the share holds in each.
    A scale that ends far below where it was is the scaler's collapse (scale_collapse), of which skips follow.
    Where the share does not hold from the start, it is looked at from the record on that parts the likeliest two rates.
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
    taken = [(b[1] - a[1], b[2]) for a, b in itertools.pairwise(told)]
    # More skipped than steps between two records: another clock, or a count that is no count of steps.
    if any(n > gap for gap, n in taken):
        return None
    start = 0 if _all_along(taken, share, fewest) else _onset(taken)
    if not _all_along(taken[start:], share, fewest):
        return None
    # From its onset on the scaler may look for its level at first.
    judged = told[start + len(taken[start:]) // 2 if start else 0 :]
    scale = part.column("loss_scale")
    scales = finite([scale[i] for i, _, _ in judged])
    if scales and scales[-1] < scales[0] / 4:
        return None
    later, (first, begins, _), last = taken[start:], told[start], told[-1][0]
    note = (
        f"{number(sum(n for _, n in later))} of the {sum(gap for gap, _ in later)} steps from {part.where(first)} to"
        f" {part.where(last)} are skipped ({_share(later):.0%})"
    )
    note += f", and {_share(taken[:start]):.1%} of those up to step {begins}" if start else ""
    names = ("skipped_steps", "loss_scale", "loss")
    shown = dict.fromkeys((told[start + 1][0] if start else first, first, last))
    return Sign(part, next(iter(shown)), tuple(part.evidence(i, *names) for i in shown), note, "skipped_steps")


def _all_along(taken: Sequence[tuple[int, float]], share: float, fewest: int) -> bool:
    """Whether both halves of the records skip more than a share of their steps, of which there are enough."""
    half = len(taken) // 2
    enough = len(taken) >= 4 and sum(gap for gap, _ in taken) >= fewest
    return enough and min(_share(taken[:half]), _share(taken[half:])) > share


def _onset(taken: Sequence[tuple[int, float]]) -> int:
    """The record that parts steps at two rates of skipping: where the likelihood of two binomials is largest."""
    import polars as pl

    gap, skipped = pl.col("gap"), pl.col("skipped")
    before = pl.DataFrame(taken, schema={"gap": pl.Float64, "skipped": pl.Float64}, orient="row").select(
        gap=gap.cum_sum() - gap, skipped=skipped.cum_sum() - skipped, steps=gap.sum(), skips=skipped.sum()
    )

    def likelihood(steps: pl.Expr, skips: pl.Expr) -> pl.Expr:
        parts = [pl.when(n > 0).then(n * (n / steps).log()).otherwise(0.0) for n in (skips, steps - skips)]
        return parts[0] + parts[1]

    both = likelihood(gap, skipped) + likelihood(pl.col("steps") - gap, pl.col("skips") - skipped)
    return before.select(both.arg_max()).item() or 0


def _share(taken: Sequence[tuple[int, float]]) -> float:
    """Part of the steps that were skipped; taken: (steps, skipped ones) a record."""
    steps = sum(gap for gap, _ in taken)
    return sum(n for _, n in taken) / steps if steps else 0.0
