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

from forensics.engine.few import few
from forensics.files import beginning
from forensics.model import Kind, Observation, Source
from forensics.step_units import SAMPLES

if TYPE_CHECKING:
    import polars as pl

_HEAD = 256 << 10  # bytes of a log that are looked at
_FEWEST = 3  # counts
_A_DATASET = 10_000  # of which a loader's batches are seldom as many
_COUNT = re.compile(rb"\bEpoch:? ?\[?\d+(?:/\d+)?\]?:? ?\[ *(\d{1,15})/(\d{1,15}) \( *\d{1,3}(?:\.\d+)?%\)\]")


def counting_samples(metrics: pl.DataFrame, sources: Sequence[Source]) -> frozenset[str]:
    """The logs whose counter is one of samples. metrics: METRICS_COLUMNS."""
    if metrics.is_empty():
        return frozenset()
    if (small := few(metrics)) is not None:
        both = {row.source for row in small if row.step is not None and row.epoch is not None}
    else:
        told = metrics.filter(metrics["step"].is_not_null() & metrics["epoch"].is_not_null())
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

    An index of batches goes on by 1, 10, 50 or 100, and a loader is seldom as long as a set of samples.
    """
    stride = gcd(*counts)
    return stride >= 16 and total >= _A_DATASET and (stride % 16 == 0 or (stride >= 1000 and total % 1000 == 0))


def in_samples(found: Sequence[Observation], logs: frozenset[str]) -> Sequence[Observation]:
    """The observations, with the unit of those whose step was counted in samples."""
    if not logs:
        return found
    # What a line itself names is no count of its log.
    return [
        replace(o, step_unit=SAMPLES) if o.step is not None and o.rule is None and o.evidence[0].file in logs else o
        for o in found
    ]
