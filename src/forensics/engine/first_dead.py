"""Which process a launcher saw die first: what orders errors of different ranks where no clock and no line does.

torchelastic names it twice: in the line in which it finds a worker dead, and at the end of its table ("Root Cause
(first observed failure)"), by the time of the exception where the worker records its errors. Each agent tells of its
own workers: agents that name different ones say nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from forensics.engine import order
from forensics.engine.candidates import Candidate
from forensics.engine.identity import World
from forensics.engine.own_failures import is_own_failure
from forensics.engine.survival import DEATHS
from forensics.engine.whose import WORKER_EXIT
from forensics.model import Observation

FIRST_SEEN = "failed (exitcode: "
_HEADING = "Root Cause (first observed failure)"
_FARTHEST = 6  # lines from the heading to the rank in the row below it
LATER = "the launcher saw rank {rank} die first, and nothing tells that this came before that rank's own error"


def mark(found: Sequence[Candidate], live: Sequence[Candidate], world: World, times: order.Timeline) -> None:
    """Put errors behind that of the rank that a launcher saw die first, unless a clock says that they came earlier."""
    first = _first(found, world)
    errors = [c for c in live if first and c.ranks and is_own_failure(c) and c.signature.name not in DEATHS]
    for own in errors:
        rank = first.get(own.attempt)
        if own.ranks != (rank,) or own.late:
            continue
        for c in errors:
            if c.attempt != own.attempt or rank in (c.ranks or ()) or c.yields is not None:
                continue
            if not _before(c, own, times):
                c.yields, c.follows = LATER.format(rank=rank), own


def _before(c: Candidate, own: Candidate, times: order.Timeline) -> bool:
    """Whether a clock or one file says that an error came before another."""
    if times.precedes(c.observations[0], own.observations[0]):
        return True
    a, b = c.observations[0].evidence[0], own.observations[0].evidence[0]
    return a.file == b.file and a.line is not None and b.line is not None and a.line < b.line


def _first(found: Sequence[Candidate], world: World) -> Mapping[int, int]:
    """Attempt -> the one rank that launchers saw die first."""
    named: dict[int, set[int | None]] = defaultdict(set)
    headings: dict[tuple[int, str], list[int]] = defaultdict(list)
    rows: list[tuple[int, Observation]] = []
    for c in found:
        for o in c.observations:
            e = o.evidence[0]
            if _HEADING in e.text and e.line is not None:
                headings[c.attempt, e.file].append(e.line)
            elif FIRST_SEEN in e.text and "local_rank" in o.captures:
                named[c.attempt].add(world.of(o))
            elif c.signature.name == WORKER_EXIT and e.line is not None:
                rows.append((c.attempt, o))
    for attempt, o in rows:
        line = o.evidence[0].line or 0
        if any(0 < line - at <= _FARTHEST for at in headings[attempt, o.evidence[0].file]):
            named[attempt].add(world.of(o))
    return {n: rank for n, ranks in named.items() if len(ranks) == 1 and (rank := next(iter(ranks))) is not None}
