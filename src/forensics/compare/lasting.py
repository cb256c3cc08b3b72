"""A small gap that lasts: too small for any one record to show, and told by the averages of many.

The test is the CUSUM of the gap around its mean (Brown, Durbin and Evans, J. R. Stat. Soc. B 37, 1975; with such
residuals Ploberger and Krämer, Econometrica 60, 1992): where nothing changes, its greatest deviation divided by the
long-run standard deviation and the root of the number of records goes as the greatest height of a Brownian bridge,
which exceeds x with a probability of 2 exp(-2 x²) at most.

What a log carries over from record to record makes averages vary more than independent records would. Their long-run
variance is taken from the differences of the means of neighbouring blocks, of which a jump touches one (Wu and Zhao,
J. R. Stat. Soc. B 69, 2007, 3.1), for blocks of several lengths, and from the first autocorrelation of what is left
without the jump, as if all others followed from it (Andrews and Monahan, Econometrica 60, 1992); the greatest counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from forensics.compare.noise import ERROR, MAD

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

FEWEST = 64  # records on either side of the step
FALSE = 1e-4  # probability at most with which a pair of equal runs is said to part, all ranks of a metric together
LEAST = 1.0  # a gap that lasts is told if it is at least so many times the noise of one record
STAYS = 0.85  # share of the blocks on either side that lie on their side
INDEPENDENT = 32  # independent records to which all must amount, as the variance of their mean has it
BLOCKS = 8  # in which either side is cut for that


class Lasting(NamedTuple):
    """start: index of the first record behind the step; shift: how much the gap changes there; noise: of one record."""

    start: int
    shift: float
    noise: float


def lasting(gap: Values, noise: float, ranks: int = 1) -> Lasting | None:
    """Where the level of a gap changes for good; None where it does not, or by less than one record varies.

    gap: finite, in order. noise: the standard deviation of one record. ranks: how many ranks are tested.
    """
    import numpy as np

    n = len(gap)
    if n < 2 * FEWEST:
        return None
    sums = np.cumsum(gap - gap.mean())[:-1]
    start = int(np.argmax(np.abs(sums))) + 1
    if not FEWEST <= start <= n - FEWEST:
        return None
    before, after = gap[:start], gap[start:]
    shift = float(after.mean() - before.mean())
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    noise = max(noise, float(rest.std()))
    if abs(shift) < LEAST * noise:
        return None
    spread = long_run(gap, rest)
    if n * float(rest.var()) < INDEPENDENT * spread**2:
        return None  # what lasts so long comes and goes by itself
    height = float(np.abs(sums[start - 1])) / (spread * math.sqrt(n)) if spread > 0 else math.inf
    if height <= math.sqrt(math.log(2 * ranks / FALSE) / 2):
        return None
    middle = float(before.mean()) + shift / 2
    sides = ((before, -1), (after, 1))
    blocks = [(np.array([part.mean() for part in np.array_split(side, BLOCKS)]), sign) for side, sign in sides]
    stays = all(((means - middle) * sign * shift > 0).mean() >= STAYS for means, sign in blocks)
    return Lasting(start, shift, noise) if stays else None


def long_run(gap: Values, rest: Values) -> float:
    """The long-run standard deviation of a gap: that of the mean of m records goes as this by the root of m.

    rest: the gap without its jump.
    """
    import numpy as np

    n, found = len(gap), [float(rest.std())]
    size = 4
    while n // size >= 2 * BLOCKS:
        means = gap[: n // size * size].reshape(-1, size).mean(axis=1)
        typical = MAD * float(np.median(np.abs(np.diff(means)))) / math.sqrt(2)
        found.append(typical * math.sqrt(size) * (1 + ERROR / math.sqrt(n // size)))
        size *= 2
    variance = float(rest @ rest)
    if variance > 0:
        first = float(rest[1:] @ rest[:-1]) / variance
        carried = min(first + (1 + 3 * max(first, 0.0)) / n, 0.999)  # an estimate is too small by that (Kendall, 1954)
        found.append(float(rest.std()) * math.sqrt((1 + carried) / (1 - carried)))
    return max(found)
