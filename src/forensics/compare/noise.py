"""How much two curves lie apart by themselves, so that a parting can be told from it.

Estimates are made from differences at several lags, not of neighbours alone: what a log smooths, and what an optimizer
carries on, varies little from record to record and much over ten. A lag's typical difference grows with it up to the
true spread (the structure function of the noise). Medians are taken throughout, so that a jump, a spike or the pause of
an evaluation counts as the few records that it is: 1.4826 times a median absolute value is the standard deviation of
Gaussian noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

FEWEST = 8  # records from which a spread is estimated
WINDOW = 256  # records before a step that tell how far the curves have been apart
LEARNT = 32  # records before a step from which on they tell it better than the whole run
_LAG_SHARE = 8  # a lag is an eighth of the records at most, so that a jump touches a quarter of the differences at most
MAD = 1.4826
_NEIGHBOURS = 5  # runs behind it that each of several is compared with: every pair of up to eleven
ERROR = 1.17  # standard error of a scaled median absolute deviation of m Gaussian values, times the square root of m


def _lags(records: int) -> list[int]:
    longest = max(1, records // _LAG_SHARE)
    return [lag for lag in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if lag <= longest]


def _scale(differences: Values, lag: int, terms: float) -> float:
    """Standard deviation of noise whose differences have `terms` times its variance, with its own error added.

    Differences at a lag overlap, so they count as that many fewer.
    """
    import numpy as np

    count = len(differences) / lag
    if count < 2:
        return 0.0
    return MAD * float(np.median(np.abs(differences))) / math.sqrt(terms) * (1 + ERROR / math.sqrt(count))


def of_gap(gap: Values) -> float:
    """Standard deviation of a gap around its level, whatever the level is. gap: finite."""
    return max((_scale(gap[lag:] - gap[:-lag], lag, 2) for lag in _lags(len(gap)) if len(gap) > lag), default=0.0)


def of_curve(values: Values, *, nearest: bool = False) -> float:
    """Standard deviation of a curve around its own course, which second differences do not see. values: finite.

    nearest: only from record to record.
    """
    lags = _lags(len(values))[: 1 if nearest else None]
    return max(
        (
            _scale(values[2 * lag :] - 2 * values[lag:-lag] + values[: -2 * lag], lag, 6)
            for lag in lags
            if len(values) > 2 * lag
        ),
        default=0.0,
    )


def of_repeats(goods: Values) -> float:
    """Standard deviation of one run among its repeats. goods: runs × records, two runs at least.

    From the differences of pairs. Around the median of a few runs one of them lies at no distance at all, and their
    noise would seem to be half of what it is.
    """
    import numpy as np

    neighbours = range(1, min(len(goods) // 2, _NEIGHBOURS) + 1)
    pairs = np.concatenate([goods - np.roll(goods, n, axis=0) for n in neighbours])
    return MAD * float(np.median(np.abs(pairs))) / math.sqrt(2)


def before(gap: Values) -> Values:
    """For each record `of_gap` of the WINDOW records before it; NaN where fewer than LEARNT are."""
    import numpy as np

    n = len(gap)
    result = np.full(n, np.nan)
    every = max(1, n // 32)
    for start in range(LEARNT, n, every):
        result[start : start + every] = of_gap(gap[max(0, start - WINDOW) : start])
    return result
