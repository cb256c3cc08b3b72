"""A loss that was lost in one launch and is trained again in the next: event files that follow each other show both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.candidates import Candidate
from forensics.model import Evidence

if TYPE_CHECKING:
    import polars as pl

# Losses that a later launch must have logged from the step on at which the earlier one lost its own: as many as are
# asked for where training goes on in a log (`steps.StepClock.learns_after`).
FEWEST = 5


def set_aside(candidates: Sequence[Candidate], metrics: pl.DataFrame) -> None:
    """Make a number that was not finite in one launch context, where a later launch of its folder trained past it.

    metrics: a METRICS_COLUMNS table. All losses of the later launches from that step on must be finite. A loss that
    grew without bound may do so again at another step, and is no matter for this.
    """
    for c in candidates:
        if c.signature.verdict != "diverged" or c.context is not None:
            continue
        if all(_trained_past(o.evidence[0], o.step, c.attempt, metrics) for o in c.observations):
            c.context = "the run was started again from before it, and trained past it with finite losses"


def _trained_past(shown: Evidence, step: int | None, attempt: int, metrics: pl.DataFrame) -> bool:
    """Whether losses of later attempts, in event files beside the one that shows it, are finite from a step on."""
    import polars as pl

    if shown.line is not None or step is None:  # a log, which tells its own starts
        return False
    column = pl.col
    own = metrics.filter((column("source") == shown.file) & (column("step") == step))
    rows = metrics.filter(
        column("line").is_null() & (column("attempt") > attempt) & (column("name") == "loss") & (column("step") >= step)
    )
    folder = shown.file.rpartition("/")[0]
    losses = [v for source, v in rows.select("source", "value").iter_rows() if source.rpartition("/")[0] == folder]
    return not all(map(_is_finite, own["value"])) and len(losses) >= FEWEST and all(map(_is_finite, losses))


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
