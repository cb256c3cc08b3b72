"""The few tests that are needed, without a library for statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import erfc, exp, lgamma, log, sqrt

Z95 = 1.959963984540054  # of the standard normal distribution, for a two-sided interval of 95 %


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def fisher_greater(hits: int, drawn: int, marked: int, total: int) -> float:
    """Fisher's exact test, one-sided: how likely `hits` or more of `drawn` jobs are marked by chance alone.

    marked: marked jobs of `total` jobs. Exact but for rounding.
    """
    most = min(drawn, marked)
    if hits <= max(0, drawn + marked - total):
        return 1.0
    if hits > most:
        return 0.0
    term = exp(_log_choose(marked, hits) + _log_choose(total - marked, drawn - hits) - _log_choose(total, drawn))
    p = term
    for k in range(hits, most):
        term *= (marked - k) * (drawn - k) / ((k + 1) * (total - marked - drawn + k + 1))
        p += term
    return min(p, 1.0)


def fisher_least(drawn: int, marked: int, total: int) -> float:
    """The smallest p that `fisher_greater` can give with these margins."""
    return fisher_greater(min(drawn, marked), drawn, marked, total)


def risk_ratio(hits: int, jobs: int, other_hits: int, others: int) -> tuple[float, float, float]:
    """(ratio of the rates, low and high end of its 95 % interval) by Katz's log method (Biometrics 34, 1978).

    Where a cell of the table is empty, 0.5 is added to each (Haldane, Anscombe), so that the interval exists.
    """
    a, n, c, m = float(hits), float(jobs), float(other_hits), float(others)
    if 0 in (hits, other_hits, jobs - hits, others - other_hits):
        a, n, c, m = a + 0.5, n + 1, c + 0.5, m + 1
    ratio = (a / n) / (c / m)
    error = sqrt(max(1 / a - 1 / n + 1 / c - 1 / m, 0.0))
    return ratio, ratio * exp(-Z95 * error), ratio * exp(Z95 * error)


def midranks(numbers: Sequence[float]) -> tuple[dict[float, float], float]:
    """(rank of each number, from 1, ties sharing the middle of theirs; the sum of t^3 - t over ties of t)."""
    counts = Counter(numbers)
    ranks: dict[float, float] = {}
    below, ties = 0, 0.0
    for number in sorted(counts):
        t = counts[number]
        ranks[number] = below + (t + 1) / 2
        ties += t**3 - t
        below += t
    return ranks, ties


def rank_p(rank_sum: float, n: int, m: int, ties: float) -> float:
    """Mann and Whitney's rank test, two-sided: p of the sum of the ranks of n numbers among n + m (at least 1 each).

    The normal approximation with the correction for ties and for continuity; its tails are wider than the exact ones
    as long as no single number makes up most of them. ties: as `midranks` gives it.
    """
    size = n + m
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    if variance <= 0:
        return 1.0
    off = abs(rank_sum - n * (size + 1) / 2)
    return erfc(max(off - 0.5, 0.0) / sqrt(variance) / sqrt(2))


def holm(ps: Sequence[float], tests: int | None = None) -> list[float]:
    """Holm's correction (Scandinavian Journal of Statistics 6, 1979), in the order given.

    tests: of how many tests these are the smallest p; as many as are given, without. The chance that anything at all is
    called below a level by chance is at most that level, however the tests depend on each other.
    """
    count = tests if tests is not None else len(ps)
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (count - place) * ps[index]))
        adjusted[index] = highest
    return adjusted


def attainable(least: Sequence[float], level: float) -> float:
    """Tests that can never be called at `level` need not be corrected for: the smallest p that a test must be able to
    reach. least: the smallest p of each test, which its margins alone determine.

    Tarone's choice (Biometrics 46, 1990): level / k for the smallest k such that no more than k tests reach level / k.
    """
    ordered = sorted(least)
    for k in range(1, len(ordered) + 1):
        if k == len(ordered) or ordered[k] > level / k:
            return level / k
    return level


def p_words(p: float) -> str:
    """A p in words: "0.012", "2e-07"."""
    return f"{p:.2g}" if p >= 0.001 else f"{p:.0e}" if p > 0 and log(p) > -690 else "< 1e-300"
