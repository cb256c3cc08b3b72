"""What a record's step counts: the steps of a run, or the batches of each epoch anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from forensics.engine.few import Row, few

if TYPE_CHECKING:
    import polars as pl


def counting_batches(metrics: pl.DataFrame) -> frozenset[str]:
    """The sources whose steps begin anew with every epoch, as Keras, Ultralytics and mmengine print them.

    metrics: METRICS_COLUMNS, rows of one source in written order. A record belongs to them where the epoch rises at
    least once, and no rise takes the step beyond those of the first epoch; a single rise has to take it back. A run's
    own count goes on there, and falls only where the epoch falls as well. Of one epoch alone, a later one than the
    first, the records belong to them where they begin below what the epochs before it would have counted.
    """
    if (small := few(metrics)) is not None:
        return _of_few(small)
    import polars as pl

    if metrics["epoch"].null_count() == metrics.height:
        return frozenset()
    told = metrics.lazy().filter(pl.col("step").is_not_null() & pl.col("epoch").is_finite())
    step, epoch, own = pl.col("step"), pl.col("epoch"), ("source", "rank", "attempt")
    rises = (epoch.diff() > 0).fill_null(False)
    first_epoch = step.filter(epoch == epoch.first()).max()
    found = (
        told.group_by(*own)
        .agg(
            rises=rises.sum(),
            beyond=step.filter(rises).max() > first_epoch,
            back=(step.diff().filter(rises) < 0).any(),
            alone=(epoch.n_unique() == 1) & (epoch.first() == epoch.first().floor()),
            # An epoch has no fewer steps than were recorded of it; epochs may be counted from 1.
            early=step.min() < (epoch.first() - 1) * (step.max() - step.min()),
        )
        .filter(
            ((pl.col("rises") > 0) & ~pl.col("beyond") & (pl.col("back") | (pl.col("rises") > 1)))
            | (pl.col("alone") & pl.col("early"))
        )
        .select(pl.col("source").unique())
        .collect()
    )
    return frozenset(found["source"])


def _of_few(rows: Sequence[Row]) -> frozenset[str]:
    own: dict[tuple[str, int | None, int | None], list[tuple[int, float]]] = {}
    for row in rows:
        if row.step is not None and row.epoch is not None and math.isfinite(row.epoch):
            own.setdefault((row.source, row.rank, row.attempt), []).append((row.step, row.epoch))
    return frozenset(source for (source, _, _), told in own.items() if _counts_batches(told))


def _counts_batches(told: Sequence[tuple[int, float]]) -> bool:
    """told: (step, epoch) of each record."""
    steps, first = [step for step, _ in told], told[0][1]
    rises = [(a[0], b[0]) for a, b in pairwise(told) if b[1] > a[1]]
    if rises:
        end = max(step for step, epoch in told if epoch == first)
        back = any(step < before for before, step in rises)
        if max(step for _, step in rises) <= end and (back or len(rises) > 1):
            return True
    alone = all(epoch == first for _, epoch in told) and first == math.floor(first)
    return alone and min(steps) < (first - 1) * (max(steps) - min(steps))
