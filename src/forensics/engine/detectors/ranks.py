"""What ranks of one run should and should not have in common: samples, and numbers of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, merge, number, streams
from forensics.model import Observation
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl


def ranks_share_samples(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 3
) -> tuple[Observation, ...]:
    """Ranks that should train on different data have the same sample ids in every step that both record (DP2).

    records: the fewest steps. Only where all ranks are known to be data-parallel: those of one tensor- or pipeline-
    parallel group get the same batch on purpose.
    """
    import polars as pl

    if not has(metrics, tags.SAMPLES_HASH):
        return ()
    sizes = metrics.filter(pl.col("name") == tags.DATA_PARALLEL)["value"].unique().to_list()
    hashes = metrics.filter((pl.col("name") == tags.SAMPLES_HASH) & pl.col("rank").is_not_null())
    ranks = hashes["rank"].unique().sort().to_list()
    if len(ranks) < 2 or sizes != [float(len(ranks))]:
        return ()
    by_step = hashes.group_by("step").agg(n=pl.len(), ranks=pl.col("rank").n_unique(), ids=pl.col("value").n_unique())
    shared = by_step.filter((pl.col("ranks") == len(ranks)) & (pl.col("n") == len(ranks)))
    if shared.height < records or (shared["ids"] > 1).any():
        return ()
    found = streams(metrics, (tags.SAMPLES_HASH, tags.SAMPLES_COUNT))
    note = f"all {len(ranks)} ranks have the same sample ids in each of {shared.height} steps"
    signs = []
    for stream in found:
        at, _ = stream.curve(tags.SAMPLES_HASH)
        if at:
            shown = (stream.evidence(at[0], tags.SAMPLES_COUNT, tags.SAMPLES_HASH),)
            signs.append(Sign(stream, at[0], shown, note, tags.SAMPLES_HASH))
    return merge(signs, found, ())


def ranks_end_apart(metrics: pl.DataFrame, observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Ranks came to the end of their loops after different numbers of steps (D9, D22).

    Each rank's last step is written when its loop ends without an exception, so a rank that failed says nothing.
    """
    if not has(metrics, tags.LAST_STEP):
        return ()
    found = [s for s in streams(metrics, (tags.LAST_STEP, "loss")) if s.rank is not None]
    last: dict[int, float] = {}
    for stream in found:
        _, values = stream.curve(tags.LAST_STEP)
        if stream.rank is not None and values:
            last[stream.rank] = max(values[-1], last.get(stream.rank, 0.0))
    # A rank whose record goes further was started again, and that loop did not come to its end.
    if any(step > last.get(s.rank or 0, math.inf) for s in found for step in s.steps if step is not None):
        return ()
    if len(set(last.values())) < 2:
        return ()
    fewest, most = min(last.values()), max(last.values())
    short = sorted(rank for rank, step in last.items() if step == fewest)
    listed = ", ".join(map(str, short[:8]))
    note = f"rank {listed} ended after step {number(fewest)}, others after step {number(most)}"
    signs = []
    for stream in found:
        at, values = stream.curve(tags.LAST_STEP)
        if values and values[-1] in (fewest, most):
            signs.append(Sign(stream, at[-1], (stream.evidence(at[-1], tags.LAST_STEP),), note, tags.LAST_STEP))
    return merge(signs, found, ())
