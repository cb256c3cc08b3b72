"""Ranks that state how many batches they have: which of them have fewer, where the run stands at the end of those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from forensics.engine.collectives.observations import number
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

STATED = "batches-stated"
# Records by which the end of an epoch may lie before and behind the last one that is there: the end falls between two,
# and what a rank printed last may be lost in a buffer.
BEFORE, BEHIND = 1, 2
# The records within that reach are this part of an epoch at most: any step is close to some end of short epochs.
PART = 4


def stated(observations: Sequence[Observation]) -> dict[int, int]:
    """Rank -> the one number of batches that it says it has; without ranks that give several."""
    told: dict[int, set[int]] = defaultdict(set)
    for o in observations:
        count = number(o.captures.get("batches"))
        if o.signature == STATED and o.identity.rank is not None and count:
            told[o.identity.rank].add(count)
    return {rank: counts.pop() for rank, counts in told.items() if len(counts) == 1}


def at_the_end(observations: Sequence[Observation], metrics: pl.DataFrame | None) -> dict[int, int]:
    """`stated`, where the numbers differ and the last recorded step is at an end of the fewest; else nothing.

    metrics: rows of model.METRICS_COLUMNS.
    """
    counts = stated(observations)
    if len(set(counts.values())) < 2 or metrics is None or not metrics.height:
        return {}
    last = last_steps(metrics)
    return counts if any(is_an_end(step, every, min(counts.values())) for step, every in last.values()) else {}


def last_steps(metrics: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Path of each log -> the step that it records last, and the steps from the record before to it.

    Logs whose last two records are not one behind the other are left out.
    """
    import polars as pl

    rows = metrics.filter(pl.col("step").is_not_null() & pl.col("line").is_not_null())
    ends = rows.select("source", "line", "step").unique().sort("source", "line").group_by("source").tail(8)
    steps: dict[str, list[int]] = defaultdict(list)
    for source, _, step in ends.sort("source", "line").iter_rows():
        if not steps[source] or steps[source][-1] != step:
            steps[source].append(step)
    found = {}
    for source, own in steps.items():
        between = [later - earlier for earlier, later in pairwise(own)]
        if between and between[-1] > 0:
            found[source] = (own[-1], between[-1])
    return found


def is_an_end(step: int, every: int, batches: int) -> bool:
    """Whether a step is at the end of an epoch of so many batches. every: steps between records."""
    if PART * (BEFORE + BEHIND) * every > batches:
        return False
    done = step // batches * batches
    return any(end > 0 and -BEFORE * every <= end - step <= BEHIND * every for end in (done, done + batches))


def have_fewer(batches: Mapping[int, int], ranks: Sequence[int], others: Sequence[int]) -> bool:
    """Whether each of some ranks has fewer batches than each of the others, as all of them say."""
    if not ranks or not others or not {*ranks, *others} <= batches.keys():
        return False
    return max(batches[rank] for rank in ranks) < min(batches[rank] for rank in others)
