"""Where a curve that rose left its earlier level: long before it crosses the limit that tells that it rose."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

_NARROWEST, _WIDER = 5, 3  # records of the first window, and how much wider the next one is
_WIDEST = 20  # part of the curve, 1/n, that the widest window may be
_LEVEL, _SHORTEST_LEVEL = 4, 30  # records before, in windows and at least, whose median is the earlier level
_DEVIATIONS = 3.0  # of a median above that level
_OF_A_MEDIAN = 1.2533  # its standard error over that of a mean: sqrt(pi / 2)


def leaves_level(curve: Sequence[float], above: int, earliest: int, noise: float) -> int:
    """The first record from which on the curve stands above what was before, back from `above`, which does.

    Medians around a record are held against that of the records before them, in ever wider windows: narrow ones show
    steps to the record, wide ones slow rises. A wide one that only reaches into the rise says nothing.

    earliest: the record to stop at. noise: standard deviation of a record about the level.
    """
    found, width = above, _NARROWEST
    while width == _NARROWEST or width <= len(curve) // _WIDEST:
        start = _back(curve, found, earliest, width, noise)
        if found - start > width // 2 or width == _NARROWEST:
            found = start
        width *= _WIDER
    # The records that a window reached into, and that lie within the noise, are none of the rise.
    while found < above and curve[found] <= median(curve[max(0, found - _SHORTEST_LEVEL) : found]) + 2 * noise:
        found += 1
    return found


def _back(curve: Sequence[float], above: int, earliest: int, width: int, noise: float) -> int:
    import polars as pl

    values = pl.Series(curve, dtype=pl.Float64)
    around = values.rolling_median(width, min_samples=1, center=True).to_list()
    before = values.rolling_median(max(_SHORTEST_LEVEL, _LEVEL * width), min_samples=1).to_list()
    least = _DEVIATIONS * _OF_A_MEDIAN * noise / width**0.5
    k = above
    while k > max(1, earliest) and around[k - 1] > before[k - 2] + least:
        k -= 1
    return k
