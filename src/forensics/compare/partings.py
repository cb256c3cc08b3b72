"""The first step at which a metric of two runs parts, beyond what it varies by itself.

Two runs of the same code with other seeds, other hardware or another order of reductions never log the same numbers.
They part where the gap leaves its noise and stays out of it:

- gap: the logarithm of the ratio where all values are positive (the noise of losses, norms and times goes with their
  size), else the difference.
- noise: with several good runs the spread among them. With one, how much the gap varies (`noise.of_gap`): before the
  step, where enough records are, and else in the whole run or, if that is less, as the good run does around its own
  course. It is never less than the variation of the good run from record to record, nor than rounding.
- threshold: the largest of n Gaussian values stays below sqrt(2 ln n) standard deviations (the universal threshold of
  Donoho and Johnstone, Biometrika 81, 1994). n counts all records of all ranks that are compared.
- staying: from there to the end most records (STAYS) lie outside, and so do most of those that come next: the greatest
  noise of a long run lies outside by itself, and shortly before a parting it is not its beginning. A few last records
  are enough only where they lie far outside (FAR).
- a gap that no record shows by itself but that lasts, by as much as one record varies or more, is told by averages
  (`lasting`).
- a value that is not finite where that of the other side is needs no noise to be told, also where the curves go on as
  before. A gradient norm that is infinite for a step is an overflow that a loss scale answers, and is not told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forensics.compare import noise
from forensics.compare.curves import Curve
from forensics.compare.lasting import lasting
from forensics.compare.model import Parting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

STAYS = 0.75  # share of the records from the parting to the end that must lie outside
NEXT = 8  # records from the parting on of which more than half must
ENOUGH = 5  # records that must be left for that
FAR, ENOUGH_FAR = 3.0, 2  # times the threshold, and records, that are enough where fewer are left
WHILE, WHILE_SHARE = 8, 8  # records in a row outside, and which part of all, that are told although they come together
FEW = 16  # records below which nothing is known of noise that lasts, so that only what is FAR outside counts
# Logs print three to six digits, and TensorBoard keeps seven: a smaller relative gap is rounding or reduction order.
ROUNDING = 1e-3
MOST = 20_000  # records that are tested; of longer curves every nth, and the place is then looked up in all
CANDIDATES = 400


@dataclass(frozen=True, slots=True)
class _Outside:
    """What the test finds: indices into the common records."""

    start: int
    end: int | None  # last one outside, where the curves come together again
    noise: float
    averaged: bool = False  # it is the averages from `start` on that part, and not each record


def threshold(records: int, ranks: int = 1) -> float:
    """Multiples of the noise beyond which a gap is none of it, for so many records of so many ranks."""
    return math.sqrt(2 * math.log(max(records * ranks, 8)))


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
        equal_through=None
        if not common
        else common[-1]
        if unequal is None
        else common[unequal - 1]
        if unequal
        else None,
        first_unequal=None if unequal is None else common[unequal],
    )
    if unequal is None:
        return told
    limit = threshold(len(common), ranks)
    outside = _outside(table[:-1], first, last, limit, ranks)
    alone = _lost(table[:-1], last)
    if "grad" in metric.lower():  # mixed precision skips steps whose gradients overflow, and every run has other ones
        alone &= np.isnan(table).any(axis=0)
    if outside is None and len(lost := np.flatnonzero(alone)):
        at, until = common[int(lost[0])], common[int(lost[-1])]
        return replace(
            told,
            kind="not-finite",
            step=at,
            until=until,
            good_value=float(first[lost[0]]),
            bad_value=float(last[lost[0]]),
            good_at=goods[0].evidence(metric, where[0][at]),
            bad_at=bad.evidence(metric, where[-1][at]),
        )
    if outside is None:
        return told if len(common) >= noise.FEWEST else replace(told, kind="too-short")
    import numpy as np

    at = common[outside.start]
    behind = np.array([outside.start])
    if outside.averaged:
        behind = outside.start + np.flatnonzero((np.isfinite(first) & np.isfinite(last))[outside.start :])
    return replace(
        told,
        kind="parts" if outside.end is None else "apart-for-a-while",
        step=at,
        until=None if outside.end is None else common[outside.end],
        good_value=float(np.mean(first[behind])),
        bad_value=float(np.mean(last[behind])),
        average_over=len(behind) if outside.averaged else None,
        noise=outside.noise if math.isfinite(outside.noise) else None,
        threshold=None if outside.averaged else limit,
        good_at=goods[0].evidence(metric, where[0][at]),
        bad_at=bad.evidence(metric, where[-1][at]),
    )


def _outside(goods: Values, good: Values, bad: Values, limit: float, ranks: int) -> _Outside | None:
    """Where the test strikes. goods: runs × records; good: their median."""
    import numpy as np

    stride = max(1, -(-len(bad) // MOST))
    if stride > 1:
        found = _outside(goods[:, ::stride], good[::stride], bad[::stride], limit, ranks)
        return None if found is None else _looked_up(found, stride, good, bad, limit)
    lost = _lost(goods, bad)
    both = np.isfinite(bad) & np.isfinite(good)
    if not both.any():
        return _Outside(int(np.argmax(lost)), None, 0.0) if lost.all() else None
    ratios = bool((good[both] > 0).all() and (bad[both] > 0).all() and (goods[:, both] > 0).all())
    known = goods[:, both], good[both], bad[both]
    scaled = [np.log(v) for v in known] if ratios else list(known)
    gap = scaled[2] - scaled[1]
    floor = ROUNDING if ratios else ROUNDING * float(np.median(np.abs(np.concatenate(known[1:]))))
    least = max(floor, 0.0 if len(goods) > 1 else noise.of_curve(scaled[1], nearest=True))
    among = noise.of_repeats(scaled[0]) * math.sqrt(1 + 1 / len(goods)) if len(goods) > 1 else 0.0

    def on_average() -> _Outside | None:
        change = lasting(gap, max(among, floor), ranks)
        if change is None:
            return None
        start = int(np.flatnonzero(both)[change.start])
        return _Outside(start, None, _in_unit(change.noise, float(good[start]), ratios), averaged=True)

    if not lost.any() and not (np.abs(gap) > limit * least).any():
        return on_average()
    if len(goods) > 1:
        level = np.full(len(gap), among)
    else:
        whole, own = noise.of_gap(gap), math.sqrt(2) * noise.of_curve(scaled[1])
        level = np.minimum(whole, np.where(np.isnan(past := noise.before(gap)), own, past))
    level = np.maximum(level, least)
    size, at_level = np.zeros(len(bad)), np.full(len(bad), np.inf)
    size[both], at_level[both] = np.abs(gap), level
    at_level = np.where(np.isinf(at_level), np.median(level), at_level)
    if len(bad) < noise.FEWEST and len(goods) < 2:
        at_level = np.full(len(bad), np.inf)  # so few tell nothing of noise; only a lost value does
    outside = (size > limit * at_level) | lost
    for i in np.flatnonzero(outside)[:CANDIDATES].tolist():
        left = len(bad) - i
        times = 1.0 if left >= ENOUGH and len(bad) >= FEW else FAR
        out = (size[i:] > times * limit * at_level[i]) | lost[i:]
        if 2 * out[:NEXT].sum() <= len(out[:NEXT]):
            continue
        if out.mean() >= STAYS if left >= ENOUGH else bool(out.all()) and (left >= ENOUGH_FAR or bool(lost[i])):
            return _Outside(i, None, _in_unit(float(at_level[i]), float(good[i]), ratios))
    if (change := on_average()) is not None:
        return change
    return _for_a_while(outside, [_in_unit(float(s), float(g), ratios) for s, g in zip(at_level, good, strict=True)])


def _lost(goods: Values, bad: Values) -> npt.NDArray[np.bool_]:
    """Where the bad run's value is not finite and that of every good run is, or the other way round."""
    import numpy as np

    finite = np.isfinite(goods)
    return np.where(np.isfinite(bad), ~finite.any(axis=0), finite.all(axis=0))


def _in_unit(level: float, good: float, ratios: bool) -> float:
    """A noise in the metric's own unit."""
    return abs(good) * math.expm1(min(level, 50.0)) if ratios and math.isfinite(good) else level


def _looked_up(found: _Outside, stride: int, good: Values, bad: Values, limit: float) -> _Outside:
    """What was found among every nth record, with its first step among all."""
    import numpy as np

    at = found.start * stride
    if found.averaged:
        return replace(found, start=at)
    start = max(0, at - stride + 1)
    apart = np.abs(bad[start : at + 1] - good[start : at + 1])
    early = int(np.argmax(~(apart <= limit * found.noise)))
    return _Outside(start + early, None if found.end is None else found.end * stride, found.noise)


def _for_a_while(outside: npt.NDArray[np.bool_], level: Sequence[float]) -> _Outside | None:
    run, enough = 0, max(WHILE, len(outside) // WHILE_SHARE)
    for i, out in enumerate(outside.tolist()):
        run = run + 1 if out else 0
        if run >= enough:
            start = i - run + 1
            end = i
            while end + 1 < len(outside) and outside[end + 1]:
                end += 1
            return _Outside(start, end, level[start])
    return None


def summarised(partings: Sequence[Parting]) -> list[Parting]:
    """One parting a metric: the earliest of its ranks, with all ranks that part at the same step, and those later."""
    by_metric: dict[str, list[Parting]] = {}
    for p in partings:
        by_metric.setdefault(p.metric, []).append(p)
    order = {"parts": 0, "not-finite": 1, "apart-for-a-while": 2, "noise": 3, "too-short": 4, "equal": 5}
    result = []
    for all_of_it in by_metric.values():
        best = min(all_of_it, key=lambda p: (order[p.kind], p.step if p.step is not None else p.first_unequal or 0))
        alike = [p for p in all_of_it if p.kind == best.kind and p.step == best.step]
        ranks = tuple(sorted({r for p in alike for r in p.ranks or ()}))
        later = {r for p in all_of_it if best.differs and p.kind == best.kind for r in p.ranks or ()} - set(ranks)
        unequal = [p for p in all_of_it if p.first_unequal is not None]
        first = min(unequal, key=lambda p: p.first_unequal or 0, default=best)
        result.append(
            replace(
                best,
                ranks=ranks or None,
                compared_ranks=len(all_of_it),
                later=tuple(sorted(later)),
                first_unequal=first.first_unequal,
                equal_through=first.equal_through,
            )
        )
    return sorted(result, key=lambda p: (order[p.kind], p.step if p.step is not None else 0, p.metric))
