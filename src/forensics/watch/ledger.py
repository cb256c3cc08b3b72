"""What was told already: nothing is told twice, and what is over is told as over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from forensics.watch.news import News, Sign, State

ROUNDS = 3  # how often one thing may begin and end before no more is told of it
MORE_RANKS = 2  # how often further ranks of one thing are told
TRENDS = 3  # explanations that show a trend before it is told
MOST = 5_000  # things that are remembered; more than any catalogue has for some attempts

_Key = tuple[str, str, int | None]


@dataclass(slots=True)
class _Told:
    sign: Sign
    ranks: set[int]
    open: bool = True
    rounds: int = 1
    more: int = 0
    absent: bool = False  # it was not there at the last look


@dataclass(slots=True)
class Ledger:
    """Compares what is wrong now with what was told.

    A sign is told at the second look that shows it, and as over at the second that does not: a burst of lines can be
    cut by the first. A trend is told when it was there in TRENDS explanations, each with new records.
    """

    _told: dict[_Key, _Told] = field(default_factory=dict)
    _seen: dict[_Key, int] = field(default_factory=dict)  # what awaits being told: the explanation that showed it first
    waiting: bool = False  # something awaits its second look

    def compare(
        self,
        signs: Sequence[Sign],
        over: Collection[str],
        now: float,
        *,
        at_start: bool = False,
        at_once: bool = False,
        known: Collection[str] | None = None,
        explanation: int = 0,
    ) -> list[News]:
        """The news of a look.

        over: names of what turned out to do no harm. known: files of which anything is kept; what was seen in others is
        not over because it is seen no more. at_once: tell at the first look. explanation: its number, counted up when
        the run was explained anew.
        """
        news: list[News] = []
        seen: dict[_Key, int] = {}
        self.waiting = False
        present: set[_Key] = set()
        for sign in signs:
            key = self._key(sign)
            present.add(key)
            told = self._told.get(key)
            ranks = frozenset(sign.ranks or ())
            fresh = ranks if told is None or not told.open else ranks - told.ranks
            if told is not None and told.open:
                told.absent = False
                if not fresh or told.more >= MORE_RANKS or not told.ranks:
                    told.ranks |= ranks if told.ranks else set()
                    continue
            if told is not None and not told.open and told.rounds >= ROUNDS:
                continue
            first = seen[key] = self._seen.get(key, explanation)
            sure = explanation - first >= TRENDS - 1 if sign.trend else key in self._seen
            if not at_once and not sure:
                self.waiting = self.waiting or not sign.trend
                continue
            news.append(self._tell(key, told, sign, fresh, now, at_start))
        self._seen = seen
        news += self._ended(present, over, now, at_once, known)
        return news

    def open(self) -> list[Sign]:
        """What was told and is not over."""
        return [t.sign for t in self._told.values() if t.open]

    @property
    def count(self) -> int:
        """How many things were told."""
        return len(self._told)

    def _key(self, sign: Sign) -> _Key:
        """Attempts can be numbered anew when more is known; a sign at the same place is the same."""
        key = (sign.name, sign.subject or sign.title, sign.attempt)
        if key in self._told or sign.evidence is None or sign.evidence.line is None:
            return key
        place = (sign.evidence.file, sign.evidence.line)
        for other, told in self._told.items():
            e = told.sign.evidence
            if other[:2] == key[:2] and e is not None and (e.file, e.line) == place:
                return other
        return key

    def _tell(
        self, key: _Key, told: _Told | None, sign: Sign, fresh: frozenset[int], now: float, at_start: bool
    ) -> News:
        again = told is not None and not told.open
        if told is None:
            if len(self._told) >= MOST:
                del self._told[next(iter(self._told))]
            self._told[key] = _Told(sign, set(sign.ranks or ()))
        else:
            told.more += told.open
            told.rounds += not told.open
            told.open, told.absent, told.sign = True, False, sign
            told.ranks |= fresh
        shown = replace(sign, ranks=tuple(sorted(fresh))) if fresh else sign
        return News(State.STARTED, shown, now, at_start=at_start, again=again)

    def _ended(
        self, present: set[_Key], over: Collection[str], now: float, at_once: bool, known: Collection[str] | None
    ) -> list[News]:
        news = []
        for key, told in self._told.items():
            if key in present or not told.open:
                continue
            e = told.sign.evidence
            gone = e is not None and known is not None and e.file not in known
            if key[0] not in over and (not told.sign.lasting or gone):
                continue
            if not told.absent and not at_once:
                told.absent = self.waiting = True
                continue
            told.open = told.absent = False
            news.append(News(State.RECOVERED, replace(told.sign, ranks=tuple(sorted(told.ranks)) or None), now))
        return news
