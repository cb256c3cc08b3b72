"""Which process a launcher saw die first: what orders errors of different ranks where no clock and no line does.

torchelastic names it twice: in the line in which it finds a worker dead, and at the end of its table ("Root Cause
(first observed failure)"), by the time of the exception where the worker records its errors. Each agent tells of its
own workers: agents that name different ones say nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forensics.engine import order
from forensics.engine.candidates import Candidate
from forensics.engine.identity import World
from forensics.engine.own_failures import is_own_failure
from forensics.engine.survival import DEATHS
from forensics.engine.whose import WORKER_EXIT
from forensics.model import Observation

_FIRST_SEEN = "failed (exitcode: "
_HEADING = "Root Cause (first observed failure)"
_FARTHEST = 6  # lines from the heading to the rank in the row below it
LATER = "the launcher saw rank {rank} die first, and nothing tells that this came before that rank's own error"


@dataclass(frozen=True, slots=True)
class _Table:
    """What launchers' tables tell of one attempt."""

    first: int  # the rank in the row of the first failure
    times: Mapping[int, float]  # rank -> when it was seen dead, or raised

    def says_later(self, ranks: Sequence[int], *, one_host: bool) -> bool:
        """Whether all these ranks died later than the first one.

        An agent looks after its workers from time to time: of those that it found dead at once it names the lowest. Who
        has no row of its own ended only when it was stopped, unless another agent's table may hold it.
        """
        began = self.times.get(self.first)
        return began is not None and all(self.times[r] > began if r in self.times else one_host for r in ranks)


def sees_first(o: Observation) -> bool:
    """Whether it is the line in which an agent finds the first of its workers dead."""
    return "local_rank" in o.captures and _FIRST_SEEN in o.evidence[0].text


def mark(found: Sequence[Candidate], live: Sequence[Candidate], world: World, times: order.Timeline) -> None:
    """Put errors behind that of the rank that a launcher saw die first, unless a clock says that they came earlier."""
    tables = _tables(found, world)
    errors = [c for c in live if tables and c.ranks and is_own_failure(c) and c.signature.name not in DEATHS]
    for own in errors:
        table = tables.get(own.attempt)
        if table is None or own.ranks != (table.first,) or own.late:
            continue
        for c in errors:
            ranks = c.ranks or ()
            if c.attempt != own.attempt or table.first in ranks or c.yields is not None:
                continue
            if table.says_later(ranks, one_host=world.one_host) and not _before(c, own, times):
                c.yields, c.follows = LATER.format(rank=table.first), own


def _before(c: Candidate, own: Candidate, times: order.Timeline) -> bool:
    """Whether a clock or one file says that an error came before another."""
    first, other = c.observations[0], own.observations[0]
    return times.precedes(first, other) or other.evidence[0].is_below(first.evidence[0])


def _tables(found: Sequence[Candidate], world: World) -> Mapping[int, _Table]:
    """Attempt -> what its tables tell, where they agree on the first that died."""
    named: dict[int, set[int | None]] = defaultdict(set)
    times: dict[int, dict[int, float]] = defaultdict(dict)
    headings: dict[tuple[int, str], list[int]] = defaultdict(list)
    rows: list[tuple[int, Observation]] = []
    for c in found:
        for o in c.observations:
            e = o.evidence[0]
            if _HEADING in e.text and e.line is not None:
                headings[c.attempt, e.file].append(e.line)
            elif sees_first(o):
                named[c.attempt].add(world.of(o))
            elif c.signature.name == WORKER_EXIT and e.line is not None:
                rows.append((c.attempt, o))
    for attempt, o in rows:
        rank, line = world.of(o), o.evidence[0].line or 0
        if rank is not None and o.time is not None:
            times[attempt][rank] = o.time
        if any(0 < line - at <= _FARTHEST for at in headings[attempt, o.evidence[0].file]):
            named[attempt].add(rank)
    first = {n: next(iter(ranks)) for n, ranks in named.items() if len(ranks) == 1}
    return {n: _Table(rank, times[n]) for n, rank in first.items() if rank is not None}
