"""Throughput that collapses: the last records are all slower than a third of what was usual.

A third, and all of the last `RECENT` records: evaluation, saving and compilation slow down single records, and ramps of
batch size or sequence length change a rate by less within so few. More than that many can have come between two looks:
then the stretch of slow records up to now is measured by those before it, or by what was usual at an earlier look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from forensics.model import Evidence

if TYPE_CHECKING:
    import polars as pl

SLOWER = 3.0
RECENT = 8  # records that must all be slow
USUAL = 32  # records before them from which on it is known what is usual
BACK = 200  # records that tell what is usual, at most
RECOVERED = 1.5  # times slower than usual, below which it is over
_RATES = ("throughput", "step_time")


@dataclass(frozen=True, slots=True)
class Slow:
    """A source and rank whose rate collapsed: usual and present rate, in what the metric counts per second."""

    source: str
    rank: int | None
    metric: str
    usual: float
    now: float
    step: int | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Usual:
    """What is usual of a rate. lowest: only one record in twenty is slower; single slow records are usual, too."""

    middle: float
    lowest: float

    def collapsed(self, recent: Sequence[float]) -> bool:
        """Whether all of these are too slow."""
        return max(recent) * SLOWER < self.middle and max(recent) < self.lowest


class Pace:
    """Which series are slow, from look to look."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int | None], _Usual] = {}  # of those that were not slow, at the last look
        self._usual: dict[tuple[str, int | None], float] = {}

    def look(self, metrics: pl.DataFrame) -> list[Slow]:
        """The series that are slow now. metrics: METRICS_COLUMNS, rows of one source in written order."""
        import polars as pl

        rows = metrics.filter(pl.col("name").is_in(_RATES) & pl.col("value").is_finite() & (pl.col("value") > 0))
        if rows.is_empty():
            return []
        found = []
        last = rows.group_by("source", "rank", "name", maintain_order=True).agg(
            pl.col("value").tail(BACK + RECENT), pl.col("line").last(), pl.col("step").last()
        )
        done: set[tuple[str, int | None]] = set()
        for source, rank, name, values, line, step in last.sort("name", descending=True).iter_rows():
            if (source, rank) in done:  # throughput comes first, and says the same
                continue
            done.add((source, rank))
            rates = [1 / v if name == "step_time" else v for v in values]
            slow = self._slow((source, rank), rates)
            if slow is not None:
                usual, now = slow
                shown = f"{name} {values[-1]:g}, usually {1 / usual if name == 'step_time' else usual:g}"
                found.append(Slow(source, rank, name, usual, now, step, Evidence(source, line, None, shown)))
        return found

    def _slow(self, who: tuple[str, int | None], rates: Sequence[float]) -> tuple[float, float] | None:
        recent = rates[-RECENT:]
        if (usual := self._usual.get(who)) is not None:
            if usual < RECOVERED * median(recent):
                del self._usual[who]
                return None
            return usual, median(recent)
        usual_now = _usual(rates[:-RECENT])
        before = _usual_before(rates, self._before.get(who))
        for usual_then in (usual_now, before):
            if usual_then is not None and usual_then.collapsed(recent):
                self._usual[who] = usual_then.middle
                return usual_then.middle, median(recent)
        if usual_now is not None:
            self._before[who] = usual_now
        return None


def _usual(rates: Sequence[float]) -> _Usual | None:
    return _Usual(median(rates), sorted(rates)[len(rates) // 20]) if len(rates) >= USUAL else None


def _usual_before(rates: Sequence[float], remembered: _Usual | None) -> _Usual | None:
    """What was usual before the stretch of records that are as slow as the last ones, if that began at once.

    remembered: of an earlier look; it counts where that stretch has pushed out what came before it, and not where the
    file has begun anew.
    """
    start = len(rates) - RECENT
    limit = RECOVERED * max(rates[-RECENT:])
    while start > 0 and rates[start - 1] < limit:
        start -= 1
    usual = _usual(rates[:start])
    if usual is None:
        return remembered if len(rates) >= BACK else None
    # A rate that falls slowly was not usual just before: that is a ramp.
    return usual if RECOVERED * median(rates[:start][-RECENT:]) > usual.middle else None
