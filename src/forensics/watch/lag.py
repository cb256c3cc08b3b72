"""Ranks whose step counter stays behind that of their peers, and goes on falling behind.

Ranks of one job differ by what their output buffers hold, by how often they log, and by a step in the middle of a
collective. So a rank is behind only where its distance is larger than all that was usual for it, is several records,
and has grown from look to look while it went on writing; one that stands still is a matter of silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

RECORDS = 5.0  # records of its own that a rank must be behind
USUAL = 1.5  # times the largest distance that was usual
GROWING = 3  # looks in a row at which the distance grew
CAUGHT_UP = 2.0  # records within which it has caught up
FEWEST_RANKS = 3  # the median of two ranks says nothing
LOOKS = 64  # looks at which distances are remembered


@dataclass(slots=True)
class _Rank:
    step: int
    first: int
    records: int = 1
    lags: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS))
    behind: bool = False

    @property
    def stride(self) -> float:
        return max(1.0, (self.step - self.first) / max(self.records - 1, 1))


@dataclass(frozen=True, slots=True)
class Behind:
    """A rank that falls behind: its step, and the median of all."""

    rank: int
    step: int
    others: float


class Progress:
    """The step of each rank from look to look."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}
        self._median: float | None = None

    def note(self, steps: Mapping[int, tuple[int, int]]) -> None:
        """The new records of a look: rank -> (highest step, how many steps were recorded)."""
        moved: set[int] = set()
        for rank, (step, records) in steps.items():
            known = self._ranks.get(rank)
            if known is None or step < known.first:  # a counter that starts anew
                self._ranks[rank] = _Rank(step, step)
                continue
            if step > known.step:
                known.step = step
                known.records += records
                moved.add(rank)
        if len(self._ranks) < FEWEST_RANKS:
            return
        now = median(r.step for r in self._ranks.values())
        if self._median is not None and now < self._median:  # an attempt began: distances of the old one say nothing
            for own in self._ranks.values():
                own.lags.clear()
                own.behind = False
        advanced = self._median is None or now > self._median
        self._median = now
        for number, own in self._ranks.items():
            self._measure(own, now - own.step, advanced=advanced, moved=number in moved)

    def _measure(self, rank: _Rank, lag: float, *, advanced: bool, moved: bool) -> None:
        if rank.behind:
            rank.behind = lag > CAUGHT_UP * rank.stride
            if not rank.behind:
                rank.lags.clear()
            return
        if not moved or not (advanced or lag > 0):
            return
        rank.lags.append(lag)
        lags = list(rank.lags)
        if len(lags) < 2 * GROWING:
            return
        # While a rank falls behind steadily what is usual grows with it: the older half is what it is compared with.
        usual = max(map(abs, lags[: len(lags) // 2]))
        grows = all(b > a for a, b in pairwise(lags[-GROWING - 1 :]))
        rank.behind = grows and lag >= RECORDS * rank.stride and lag > USUAL * usual

    def behind(self) -> list[Behind]:
        """The ranks that are behind now."""
        middle = self._median or 0.0
        return [Behind(n, r.step, middle) for n, r in sorted(self._ranks.items()) if r.behind]

    def step_of(self, rank: int) -> int | None:
        """The last step that a rank recorded."""
        return self._ranks[rank].step if rank in self._ranks else None

    def last(self) -> list[int]:
        """The ranks with the lowest step, where ranks differ."""
        if len({r.step for r in self._ranks.values()}) < 2:
            return []
        lowest = min(r.step for r in self._ranks.values())
        return sorted(n for n, r in self._ranks.items() if r.step == lowest)
