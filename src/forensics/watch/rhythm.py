"""Who writes how often, and who has been silent for longer than its own rhythm explains.

The rule is that of the phi accrual failure detector (Hayashibara et al., SRDS 2004), which takes the intervals between
signs of life as normally distributed and gives a process up when its silence would be as rare as one in 10^8 (phi is 8
by default in Cassandra and Akka). Saving and evaluating make long intervals that are rare, which no normal distribution
has: so a silence must also be twice as long as the longest interval so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

DEVIATIONS = 5.612  # of a normal distribution beyond which one in 10^8 lies
LONGEST = 2.0
FEWEST = 8  # intervals from which on a rhythm is known
KEPT = 256  # intervals that are kept of each
SEEDED = 64  # intervals that are taken from the times in lines
LOOKS = 3  # looks that a silence lasts at least: what is written between two of them is seen at the second


@dataclass(slots=True)
class _Beat:
    last: float
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    longest: float = 0.0

    def limit(self, least: float) -> float | None:
        if len(self.gaps) < FEWEST:
            return None
        return max(fmean(self.gaps) + DEVIATIONS * pstdev(self.gaps), LONGEST * self.longest, least)


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence that its rhythm does not explain; seconds."""

    who: Hashable
    lasts: float
    usual: float  # mean interval before


class Rhythm:
    """Times at which each process (or file) wrote. least: seconds below which no silence counts."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._beats: dict[Hashable, _Beat] = {}

    def note(self, who: Hashable, when: float) -> None:
        """Somebody wrote; when: seconds."""
        beat = self._beats.get(who)
        if beat is None:
            self._beats[who] = _Beat(when)
            return
        if (gap := when - beat.last) > 0:
            beat.gaps.append(gap)
            beat.longest = max(beat.longest, gap)
            beat.last = when

    def seed(self, who: Hashable, gaps: Sequence[float], spread: float = 0.0) -> None:
        """Intervals (seconds) that the run itself tells of, by the times in its lines, as long as no rhythm is known.

        spread: seconds between the first and last line of what came at once: a buffer that was emptied, and the next
        one takes as long to fill.
        """
        beat = self._beats.get(who)
        if beat is None or len(beat.gaps) >= FEWEST:
            return
        beat.longest = max(beat.longest, spread)
        for gap in gaps[-SEEDED:]:
            if gap > 0:
                beat.gaps.append(gap)
                beat.longest = max(beat.longest, gap)

    def ranks(self) -> set[int]:
        """The ranks that ever wrote."""
        return {who for who in self._beats if isinstance(who, int)}

    def known(self, who: Hashable) -> bool:
        """Whether enough intervals are known to tell an unusual silence."""
        beat = self._beats.get(who)
        return beat is not None and len(beat.gaps) >= FEWEST

    def last(self, who: Hashable) -> float | None:
        """When somebody last wrote."""
        beat = self._beats.get(who)
        return beat.last if beat is not None else None

    def limit(self, who: Hashable, interval: float) -> float | None:
        """Seconds from which on a silence is none of the usual; None where the rhythm is not known."""
        beat = self._beats.get(who)
        return beat.limit(max(self._least, LOOKS * interval)) if beat is not None else None

    def silent(self, who: Hashable, now: float, interval: float) -> Silence | None:
        """The silence of one, where it is longer than usual."""
        limit, beat = self.limit(who, interval), self._beats.get(who)
        if limit is None or beat is None or now - beat.last <= limit:
            return None
        return Silence(who, now - beat.last, fmean(beat.gaps))

    def alone(self, group: Iterable[Hashable], now: float, interval: float) -> list[Silence]:
        """Those of a group that are silent while most of the group goes on: it wrote in the later half of the silence.

        Without that, those with the shortest rhythm would be blamed when all of them stop.
        """
        members = [who for who in group if who in self._beats]
        found = [s for who in members if (s := self.silent(who, now, interval)) is not None]
        chosen = []
        for silence in found:
            since = now - silence.lasts / 2
            going = sum(1 for who in members if self._beats[who].last > since)
            if 2 * going >= len(members) - len(found) + 1 and going >= len(found) and going > 0:
                chosen.append(silence)
        return chosen
