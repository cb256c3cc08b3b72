"""What a record's step counts: the steps of a run, or the batches of each epoch anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def counting_batches(metrics: pl.DataFrame) -> frozenset[str]:
    """The sources whose steps begin anew with every epoch, as Keras, Ultralytics and mmengine print them.

    metrics: METRICS_COLUMNS, rows of one source in written order. A record belongs to them where the epoch rises at
    least once, and no rise takes the step beyond those of the first epoch; a single rise has to take it back. A run's
    own count goes on there, and falls only where the epoch falls as well.
    """
    import polars as pl

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
        )
        .filter((pl.col("rises") > 0) & ~pl.col("beyond") & (pl.col("back") | (pl.col("rises") > 1)))
        .select(pl.col("source").unique())
        .collect()
    )
    return frozenset(found["source"])
