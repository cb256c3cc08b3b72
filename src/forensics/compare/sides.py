"""A run as one side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forensics.compare.model import Change, Side

if TYPE_CHECKING:
    from forensics.engine.pipeline import Analysis


def side(analysis: Analysis) -> Side:
    import polars as pl

    run, metrics = analysis.diagnosis.run, analysis.data.metrics
    steps = metrics.filter(pl.col("step").is_not_null())["step"].unique().sort()
    low, high = (steps.min(), steps.max()) if len(steps) else (None, None)
    stride = steps.diff().median()
    return Side(
        path=run.path,
        verdict=analysis.diagnosis.verdict.value,
        summary=analysis.diagnosis.summary,
        world_size=run.world_size,
        nodes=run.nodes,
        attempts=run.attempts,
        first_step=None if low is None else int(low),  # type: ignore[arg-type]
        last_step=None if high is None else int(high),  # type: ignore[arg-type]
        stride=None if stride is None else int(stride),  # type: ignore[arg-type]
    )


def shape(goods: tuple[Side, ...], bad: Side) -> tuple[Change, ...]:
    """Sizes, lengths and verdicts in which the bad run differs from every good one."""
    words: Mapping[str, str] = {
        "verdict": "verdict",
        "world_size": "world size",
        "nodes": "nodes",
        "attempts": "attempts",
        "first_step": "first step",
        "last_step": "last step",
    }
    changes = []
    for field, name in words.items():
        theirs = [getattr(g, field) for g in goods]
        mine = getattr(bad, field)
        if field in ("first_step", "last_step") and _within_a_record(mine, theirs, (*goods, bad)):
            continue
        if mine not in theirs and not (mine is None or all(t is None for t in theirs)):
            said = dict.fromkeys(str(t) for t in theirs if t is not None)
            changes.append(Change(name, ", ".join(said) or None, str(mine)))
    return tuple(changes)


def _within_a_record(mine: int | None, theirs: Sequence[int | None], sides: Sequence[Side]) -> bool:
    """Whether a first or last step differs by less than what lies between two records, of which not all are logged."""
    between = max((s.stride for s in sides if s.stride is not None), default=0)
    return mine is not None and any(t is not None and abs(mine - t) < between for t in theirs)
