"""Rank correlation: whether two series go up and down together, whatever their scales and outliers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation of two series of one length, in which one large jump counts no more than any other change.

    0 where one of them does not change at all.
    """
    middle = (len(a) - 1) / 2
    da, db = [x - middle for x in _ranks(a)], [x - middle for x in _ranks(b)]
    size = math.sqrt(sum(x * x for x in da) * sum(x * x for x in db))
    return sum(x * y for x, y in zip(da, db, strict=True)) / size if size > 0 else 0.0


def trend(values: Sequence[float]) -> float:
    """How far a series goes up (or down, below 0) in standard deviations of what one without a trend shows.

    Spearman's correlation with the position, which of independent values has a variance of 1 / (n - 1).
    """
    return correlation(values, range(len(values))) * math.sqrt(max(len(values) - 1, 0))


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value among all, from 0; equal ones share the middle of theirs."""
    ordered = sorted(values)
    return [(bisect_left(ordered, v) + bisect_right(ordered, v) - 1) / 2 for v in values]
