"""The first step at which a metric of two runs parts, beyond what it varies by itself.

Two runs of the same code with other seeds, other hardware or another order of reductions never log the same numbers.
They part where the gap leaves its noise and stays out of it:

- noise: with several good runs the spread among them; with one, the variation of each curve around its own course, or
  how far the two have been apart before, whichever is larger (`noise`).
- threshold: the largest of n Gaussian values stays below sqrt(2 ln n) standard deviations (the universal threshold of
  Donoho and Johnstone, Biometrika 81, 1994). n counts all records of all ranks that are compared; noise that is itself
  measured from a window of records is uncertain by a fifth, and the threshold is that much higher.
- staying: from there to the end most records (STAYS) lie outside. A few last records are enough only where they lie far
  outside (FAR).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forensics.compare import noise
from forensics.compare.curves import Curve
from forensics.compare.model import Parting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

STAYS = 0.75  # share of the records from the parting to the end that must lie outside
ENOUGH = 5  # records that must be left for that
FAR, ENOUGH_FAR = 3.0, 2  # times the threshold, and records, that are enough where fewer are left
WHILE = 8  # records in a row outside that are told although the curves come together again
MARGIN = 1.2  # the relative error of a median absolute deviation of WINDOW records
MOST = 20_000  # records that are tested; of longer curves every nth, and the place is then looked up in all
CANDIDATES = 400


@dataclass(frozen=True, slots=True)
class _Outside:
    """What the test finds: indices into the common records."""

    start: int
    end: int | None  # last one outside, where the curves come together again
    noise: float


def threshold(records: int, ranks: int = 1) -> float:
    """Multiples of the noise beyond which a gap is none of it, for so many records of so many ranks."""
    return MARGIN * math.sqrt(2 * math.log(max(records * ranks, 8)))


def part(metric: str, rank: int | None, goods: Sequence[Curve], bad: Curve, ranks: int = 1) -> Parting:
    """How the curve of the bad run lies to that of the good one, or to those of several good ones.

    ranks: how many ranks of this metric are compared.
    """
    import numpy as np

    common = sorted(set.intersection(set(bad.positions), *(set(g.positions) for g in goods)))
    where = [{p: i for i, p in enumerate(c.positions)} for c in (*goods, bad)]
    table = np.array(
        [[c.values[at[p]] for p in common] for c, at in zip((*goods, bad), where, strict=True)], dtype=np.float64
    )
    first, last = table[0], table[-1]
    if len(goods) > 1:
        with np.errstate(invalid="ignore"):
            first = np.median(table[:-1], axis=0)
    equal = np.all((table[:-1] == table[-1]) | (np.isnan(table[:-1]) & np.isnan(table[-1])), axis=0)
    unequal = int(np.argmin(equal)) if not equal.all() else None
    told = Parting(
        metric=metric,
        kind="equal" if unequal is None else "noise",
        ranks=None if rank is None else (rank,),
        compared_ranks=ranks,
        records=len(common),
        first_common=common[0] if common else None,
        last_common=common[-1] if common else None,
        unit=bad.unit,
        equal_through=None if not common else common[-1] if unequal is None else common[unequal - 1] if unequal else None,
        first_unequal=None if unequal is None else common[unequal],
    )
    if unequal is None:
        return told
    limit = threshold(len(common), ranks)
    outside = _outside(table[:-1], first, last, limit)
    if outside is None:
        return told if len(common) >= noise.FEWEST else replace(told, kind="too-short")
    at = common[outside.start]
    return replace(
        told,
        kind="parts" if outside.end is None else "apart-for-a-while",
        step=at,
        until=None if outside.end is None else common[outside.end],
        good_value=float(first[outside.start]),
        bad_value=float(last[outside.start]),
        noise=outside.noise,
        threshold=limit,
        good_at=goods[0].evidence(metric, where[0][at]),
        bad_at=bad.evidence(metric, where[-1][at]),
    )


def _outside(goods: Values, good: Values, bad: Values, limit: float) -> _Outside | None:
    import numpy as np

    stride = max(1, -(-len(bad) // MOST))
    if stride > 1:
        found = _outside(goods[:, ::stride], good[::stride], bad[::stride], limit)
        if found is None:
            return None
        start = found.start * stride
        before = np.abs(bad - good)[max(0, start - stride + 1) : start + 1]
        early = int(np.argmax(~(before <= limit * found.noise)))
        end = None if found.end is None else found.end * stride
        return _Outside(max(0, start - stride + 1) + early, end, found.noise)
    lost = ~np.isfinite(bad) ^ ~np.isfinite(good)
    both = np.isfinite(bad) & np.isfinite(good)
    if not both.any() and not lost.any():
        return None
    gap = np.where(both, bad - np.where(both, good, 0), 0.0)
    floor = noise.ROUNDING * np.maximum(np.abs(_filled(good)), np.abs(_filled(bad)))
    if len(goods) > 1:
        repeats = np.array([_filled(g) for g in goods])
        varies = noise.spread(repeats) * math.sqrt(1 + 1 / len(goods))
        held = np.zeros(len(bad))
        own_at = lambda i: np.maximum(varies, floor)  # noqa: E731
    else:
        of_good = noise.own(_filled(good))
        of_bad = _of_bad(_filled(bad), of_good)
        held = noise.apart_anyway(gap)
        own_at = lambda i: np.maximum(np.hypot(of_good, of_bad[i]), floor)  # noqa: E731
    size = np.abs(gap)
    if len(goods) > 1:
        here = own_at(0)
    else:
        here = np.maximum(np.hypot(of_good, of_bad), np.maximum(held, floor))
    outside = (size > limit * here) | lost
    for i in np.flatnonzero(outside)[:CANDIDATES].tolist():
        level = np.maximum(own_at(i)[i:], held[i])
        out = (size[i:] > limit * level) | lost[i:]
        left = len(out)
        stays = left >= ENOUGH and out.mean() >= STAYS
        if left < ENOUGH:
            far = (size[i:] > FAR * limit * level) | lost[i:]
            stays = bool(far.all()) and (left >= ENOUGH_FAR or bool(lost[i]))
        if stays:
            return _Outside(i, None, float(max(here[i], 0.0)))
    return _for_a_while(outside, here)


def _for_a_while(outside: npt.NDArray[np.bool_], here: Values) -> _Outside | None:
    run = 0
    for i, out in enumerate(outside.tolist()):
        run = run + 1 if out else 0
        if run >= WHILE:
            start = i - run + 1
            end = i
            while end + 1 < len(outside) and outside[end + 1]:
                end += 1
            return _Outside(start, end, float(here[start]))
    return None


def _of_bad(bad: Values, of_good: Values) -> Values:
    """The bad run's noise before each record; at its start no more than thrice the good one's, since it may part there."""
    import numpy as np

    noise_of = noise.before(bad)
    early = min(noise.WINDOW, len(bad))
    noise_of[:early] = np.minimum(noise_of[:early], 3 * np.maximum(of_good[:early], np.median(of_good)))
    return np.asarray(noise_of)


def _filled(values: Values) -> Values:
    """The values with those that are not finite replaced by the last finite one before them."""
    import numpy as np

    good = np.isfinite(values)
    if good.all():
        return values
    if not good.any():
        return np.zeros_like(values)
    at = np.maximum.accumulate(np.where(good, np.arange(len(values)), -1))
    return np.asarray(values[np.where(at < 0, np.argmax(good), at)])


def summarised(partings: Sequence[Parting]) -> list[Parting]:
    """One parting a metric: the earliest of its ranks, with all ranks that part at the same step."""
    by_metric: dict[str, list[Parting]] = {}
    for p in partings:
        by_metric.setdefault(p.metric, []).append(p)
    order = {"parts": 0, "apart-for-a-while": 1, "noise": 2, "too-short": 3, "equal": 4}
    result = []
    for all_of_it in by_metric.values():
        best = min(all_of_it, key=lambda p: (order[p.kind], p.step if p.step is not None else p.first_unequal or 0))
        alike = [p for p in all_of_it if p.kind == best.kind and p.step == best.step]
        ranks = tuple(sorted({r for p in alike for r in p.ranks or ()}))
        unequal = [p for p in all_of_it if p.first_unequal is not None]
        first = min(unequal, key=lambda p: p.first_unequal or 0, default=best)
        result.append(
            replace(
                best,
                ranks=ranks or None,
                compared_ranks=len(all_of_it),
                first_unequal=first.first_unequal,
                equal_through=first.equal_through,
            )
        )
    return sorted(result, key=lambda p: (order[p.kind], p.step if p.step is not None else 0, p.metric))
