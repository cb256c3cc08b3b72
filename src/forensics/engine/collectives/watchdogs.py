"""Ranks whose NCCL watchdog got stuck: the odd ones among those that wait, or the same wait as everybody's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from forensics.engine.collectives.observations import plural, spoken
from forensics.model import Observation

STUCK, TIMEOUT = "nccl-watchdog-stuck", "collective-timeout"


def told_apart(observations: Sequence[Observation], world: Collection[int] | None) -> list[Observation]:
    """The observations, with lines on a stuck watchdog as what they show.

    Where a minority of ranks prints them, and nothing else on a wait, these ranks are what differs: the lines stay and
    say what the others did. Where a rank's collective timed out as well, its watchdog hangs in the abort; where most
    ranks print them, one thing holds all watchdogs up (a GPU, the network). Both become observations of
    `collective-timeout`, with nobody blamed.

    world: all global ranks of the run; without it, ranks of which nothing was heard do not count.
    """
    if not any(o.signature == STUCK for o in observations):
        return list(observations)
    stuck: dict[int | None, set[int]] = defaultdict(set)
    waited: dict[int | None, set[int]] = defaultdict(set)
    heard = {o.identity.rank for o in observations if o.identity.rank is not None}
    for o in observations:
        if o.identity.rank is not None and o.signature in (STUCK, TIMEOUT):
            (stuck if o.signature == STUCK else waited)[o.identity.attempt].add(o.identity.rank)
    everyone = len(world) if world is not None else len(heard)
    odd = {
        attempt: alone
        for attempt, ranks in stuck.items()
        if (alone := ranks - waited[attempt])
        and (len(alone) < len(waited[attempt]) if waited[attempt] else 2 * len(alone) < everyone)
    }
    found = []
    for o in observations:
        if o.signature != STUCK:
            found.append(o)
        elif o.identity.rank is None or o.identity.rank in odd.get(o.identity.attempt, ()):
            found.append(replace(o, note=o.note or _note(o, waited[o.identity.attempt])))
        else:
            found.append(replace(o, signature=TIMEOUT, culprits=(), rule=None))
    return found


def _note(stuck: Observation, waited: Collection[int]) -> str:
    rank, seconds = stuck.identity.rank, stuck.captures.get("stuck_s")
    whose = f"The watchdog of rank {rank}" if rank is not None else "A watchdog"
    lasted = f" for {seconds} s" if seconds is not None else ""
    note = f"{whose} made no progress itself{lasted}"
    if waited:
        did = f"{plural(waited, 'waits', 'wait')} in a collective that timed out"
        note += f", while {spoken(waited)} {did}"
    return f"{note}."
