"""What ranks print after they had lost a peer, or were told to end: it follows from another rank's failure.

A rank that has lost a peer, or got SIGTERM, saves what it can, raises as it does, loses its loaders and its pipes. None
of that brought about the end of the rank that was lost. A notice counts for what stands below it: for its own rank, or
for all that a file holds where a launcher says that it ends everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forensics.engine.aftermath import OF_OTHERS
from forensics.engine.borrowed import KILLED
from forensics.engine.candidates import Candidate, sum_up_without
from forensics.engine.graph import depends_on, link, may_precede, stands_above
from forensics.engine.hangs import is_hang, is_stop
from forensics.engine.identity import World
from forensics.engine.own_failures import is_own_failure
from forensics.engine.peers import GONE, LOST_PEER
from forensics.engine.survival import DEATHS, MEMORY_KILLS
from forensics.engine.teardowns import BY_LAUNCHER, ends_a_step
from forensics.model import Observation

# Ends of a process that are told by others, and that no peer's end brings about.
TOLD_ENDS = frozenset({"rank-segfault", "rank-sigbus", "rank-sigill", "rank-sigfpe"}) | MEMORY_KILLS | KILLED


@dataclass(frozen=True, slots=True)
class Notices:
    """The lines by which ranks know that they are to end."""

    of_ranks: Mapping[tuple[int, int], Sequence[Observation]]  # attempt and rank -> its words
    of_files: Mapping[tuple[int, str], Sequence[Observation]]  # attempt and file -> a launcher's words to all of it

    def before(self, o: Observation, rank: int | None, attempt: int) -> bool:
        """Whether a notice stands above a sign, or bears an earlier time, of the same rank or to all of its file."""
        own = self.of_ranks.get((attempt, rank), ()) if rank is not None else ()
        everybody = self.of_files.get((attempt, o.evidence[0].file), ())
        return any(_printed_after(o, n) for n in own) or any(o.evidence[0].is_below(n.evidence[0]) for n in everybody)


def notices(live: Sequence[Candidate], world: World) -> Notices:
    """What candidates say of peers that are gone, and of the end to which ranks are asked."""
    of_ranks: dict[tuple[int, int], list[Observation]] = defaultdict(list)
    of_files: dict[tuple[int, str], list[Observation]] = defaultdict(list)
    for c in live:
        lost = c.signature.name in GONE or c.of_peers
        for o in c.observations if lost or is_stop(c) or c.signature.kind == "echo" else ():
            rank = world.of(o)
            stops = is_stop(c) or c.signature.name == BY_LAUNCHER
            if rank is not None and (lost or (stops and o.identity.rank is not None)):
                of_ranks[c.attempt, rank].append(o)
            elif rank is None and (stops or ends_a_step(o)):
                of_files[c.attempt, o.evidence[0].file].append(o)
    return Notices(
        {key: _first_of(signs) for key, signs in of_ranks.items()},
        {key: _first_of(signs) for key, signs in of_files.items()},
    )


def _first_of(signs: Sequence[Observation]) -> list[Observation]:
    """Of many notices the first one of each file, and the earliest: what is after any of them is after one of these."""
    first: dict[str, Observation] = {}
    for o in signs:
        e = o.evidence[0]
        if e.line is not None and (e.file not in first or e.line < (first[e.file].evidence[0].line or 0)):
            first[e.file] = o
    timed = [o for o in signs if o.timed and o.time is not None]
    return [*first.values(), *([min(timed, key=lambda o: o.time or 0.0)] if timed else [])]


def set_apart(live: Sequence[Candidate], world: World) -> None:
    """Let a failure that some ranks met after a notice, and others before any, be of these others."""
    known = notices(live, world)
    for c in live:
        if not is_own_failure(c):
            continue
        after = [o for o in c.observations if known.before(o, world.of(o), c.attempt)]
        first = {world.of(o) for o in c.observations} - {world.of(o) for o in after}
        if after and first - {None}:
            sum_up_without(c, after, world)


def follow(live: Sequence[Candidate], world: World) -> None:
    """Link what a rank printed below a notice to the failure of another rank that printed its own without one."""
    known = notices(live, world)
    if not known.of_ranks and not known.of_files:
        return
    sources = [o for o in live if _ends_its_rank(o) and not _all_after(o, known, world)]
    for c in live:
        if c.explained_by is not None or not is_own_failure(c) or c.signature.area in OF_OTHERS:
            continue
        if not _all_after(c, known, world):
            continue
        own = _ranks(c, world)
        apart = [o for o in sources if o.ranks and not set(o.ranks) & own]
        for o in (*apart, *_stops(c, live, world), *_losses(c, live, world)):
            if o.attempt == c.attempt and o is not c and may_precede(o, c) and not depends_on(o, c):
                link(o, c)
                break


def said_when_stopped(live: Sequence[Candidate]) -> None:
    """What ranks meet below the line in which a launcher stops them follows from the error of another rank above it.

    Handlers of SIGTERM raise, save, and run out of memory or disk as they do.
    """
    for stop in (c for c in live if c.signature.name == BY_LAUNCHER):
        for c in live:
            if not is_own_failure(c) or c.explained_by is not None or not _came_after(stop, c):
                continue
            for o in live:
                apart = o.ranks and c.ranks and not set(o.ranks) & set(c.ranks)
                own = is_own_failure(o) and o.attempt == c.attempt and _came_after(o, stop)
                if apart and own and o.signature.name not in (*LOST_PEER, *DEATHS) and not depends_on(o, c):
                    link(o, c)
                    break


def _stops(c: Candidate, live: Sequence[Candidate], world: World) -> list[Candidate]:
    """What stopped the run from outside before all signs of a failure."""
    alone = [stop for stop in live if is_stop(stop) and stop.attempt == c.attempt and stop.signature.kind != "echo"]
    return [stop for stop in alone if _all_after(c, notices([stop], world), world)]


def _losses(c: Candidate, live: Sequence[Candidate], world: World) -> list[Candidate]:
    """The words of ranks for a peer that is gone, before all signs of a failure, where another rank says nothing.

    Where ranks gave up a wait, the lost one may have been the one that raised and hung as it cleaned up.
    """
    if any(is_hang(o) and o.attempt == c.attempt for o in live):
        return []
    losses = [o for o in live if o.signature.name in GONE and o.attempt == c.attempt]
    said = {rank for o in losses for sign in o.observations if (rank := world.of(sign)) is not None}
    everyone = set(range(world.size)) if world.size is not None and world.size_is_stated else set(world.ranks)
    if not everyone - said - _ranks(c, world):
        return []
    return [loss for loss in losses if _all_after(c, notices([loss], world), world)]


def _ends_its_rank(c: Candidate) -> bool:
    s = c.signature
    told = s.kind in ("cause", "symptom") and s.verdict == "failed" and not is_hang(c)
    if s.name in TOLD_ENDS:
        return told
    return is_own_failure(c) and s.severity in ("fatal", "error") and s.name not in GONE


def _all_after(c: Candidate, known: Notices, world: World) -> bool:
    if c.signature.name in TOLD_ENDS and all("exitcode" in o.captures for o in c.observations):
        return False  # a launcher that tells of an end as it tells of the others' stop
    return all(known.before(o, world.of(o), c.attempt) for o in c.observations)


def _ranks(c: Candidate, world: World) -> set[int]:
    return {*(c.ranks or ()), *(rank for o in c.observations if (rank := world.of(o)) is not None)}


def _printed_after(o: Observation, notice: Observation) -> bool:
    if o.evidence[0].file == notice.evidence[0].file:
        return o.evidence[0].is_below(notice.evidence[0])
    return o.timed and notice.timed and o.time is not None and notice.time is not None and o.time > notice.time


def _came_after(a: Candidate, b: Candidate) -> bool:
    """Whether all of b stands below the first sign of a in its file, or bears a later stamp."""
    if stands_above(a, b):
        return True
    first = min((o.time for o in a.observations if o.timed and o.time is not None), default=None)
    stamps = [o.time for o in b.observations if o.timed and o.time is not None]
    return first is not None and len(stamps) == len(b.observations) and min(stamps) > first
