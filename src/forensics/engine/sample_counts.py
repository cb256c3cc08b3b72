"""Loops that print how many samples of an epoch they have seen where others print steps.

`Train Epoch: 1 [3200/60000 (5%)]` is how PyTorch's MNIST example and open_clip write (`batch_idx * len(data)` of
`len(dataset)`). Some copies put the index of the batch there: the numbers themselves have to tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from forensics.files import beginning
from forensics.model import Kind, Observation, Source

if TYPE_CHECKING:
    import polars as pl

UNIT = "sample"
_HEAD = 256 << 10  # bytes of a log that are looked at
_FEWEST = 3  # counts
_COUNT = re.compile(rb"\bEpoch:? ?\[?\d+(?:/\d+)?\]?:? ?\[ *(\d{1,15})/(\d{1,15}) \( *\d{1,3}(?:\.\d+)?%\)\]")


def counting_samples(metrics: pl.DataFrame, sources: Sequence[Source]) -> frozenset[str]:
    """The logs whose counter is one of samples. metrics: METRICS_COLUMNS."""
    import polars as pl

    if metrics.is_empty() or metrics["epoch"].null_count() == metrics.height:
        return frozenset()
    told = metrics.filter(pl.col("step").is_not_null() & pl.col("epoch").is_not_null())
    both = set(told["source"].unique().to_list())
    return frozenset(s.path for s in sources if s.path in both and s.kind is Kind.LOG and _counts_samples(s))


def _counts_samples(source: Source) -> bool:
    try:
        found = [(int(m[1]), int(m[2])) for m in _COUNT.finditer(beginning(source.file, _HEAD))]
    except OSError:
        return False
    return len(found) >= _FEWEST and are_samples([n for n, total in found if n != total], max(t for _, t in found))


def are_samples(counts: Sequence[int], total: int) -> bool:
    """Whether counts of an epoch are of samples: multiples of a batch's size, or of a round number of samples.

    An index of batches goes on by 1, 10, 50 or 100, and a loader's length is seldom round.
    """
    stride = gcd(*counts)
    return stride >= 16 and (stride % 16 == 0 or (stride >= 32 and total % 1000 == 0))


def in_samples(found: Sequence[Observation], logs: frozenset[str]) -> Sequence[Observation]:
    """The observations, with the unit of those whose step was counted in samples."""
    if not logs:
        return found
    return [
        replace(o, step_unit=UNIT)
        if o.step is not None and o.evidence[0].file in logs
        else o  # what a line itself names
        for o in found
    ]
