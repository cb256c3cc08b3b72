"""How the records of a run end that shows no failure and does not say that it ended."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from forensics.model import RunData


def how_it_ends(data: RunData) -> str:
    """One sentence: how far the steps came, when that was printed, and that nothing says more.

    Text alone cannot tell whether a process that wrote it still runs, so that nothing is said of it. Times of files are
    left out: a copy has new ones.
    """
    step, time = _last_step(data)
    reached = f"Training came to step {step:,}" if step is not None else "Training made progress"
    when = _stamp(time)
    at = f" ({when})" if when is not None else ""
    return f"{reached}{at} and shows no failure; nothing says that it ended."


def _last_step(data: RunData) -> tuple[int | None, float | None]:
    """(last step, seconds since the epoch) of the source that came farthest; of several the latest."""
    import polars as pl

    stepped = data.metrics.filter(pl.col("step").is_not_null())
    if stepped.is_empty():
        return None, None
    written = {w.source: w.last_time for w in data.writers}
    ends = stepped.group_by("source").agg(pl.col("step").last(), pl.col("time").last())
    found = [(int(step), time if time is not None else written.get(source)) for source, step, time in ends.iter_rows()]
    return max(found, key=lambda end: (end[0], end[1] if end[1] is not None else -math.inf))


def _stamp(time: float | None) -> str | None:
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None
