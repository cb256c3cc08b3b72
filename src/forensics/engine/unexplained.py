"""A run of which only the end is told: the root is that the evidence does not reach, with what is known of the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine.candidates import Candidate
from forensics.engine.ending import said_before
from forensics.engine.identity import World
from forensics.engine.worker_ends import ABORTED, End, ends, first_by_itself, undecided
from forensics.model import RunData
from forensics.rank_ranges import rank_ranges
from forensics.signatures.schema import Signature

INSUFFICIENT = "insufficient-evidence"


def with_stand_in(
    top: list[Candidate], catalogue: Mapping[str, Signature], data: RunData, world: World
) -> list[Candidate]:
    """Echoes alone are no cause: the root is then that the evidence does not reach."""
    if not top or top[0].signature.kind != "echo" or INSUFFICIENT not in catalogue:
        return top
    echo = top[0]
    signs = list(echo.observations)
    told: list[str] = []
    workers = ends(data.observations, echo.attempt, world)
    first = first_by_itself(workers)
    if first is not None:
        told.append(
            f"the launcher saw rank {first.rank} end first, by itself, with exit code {first.code}: its log comes first"
        )
    elif undecided(workers):
        told.append(_in_words(workers))
    said = said_before((e for c in top for o in c.observations for e in o.evidence), data)
    if said is not None and (said.file, said.line) not in _places(data):
        told.append(f"the last error printed before that, which no signature knows: {said.text[:200]}")
        key = echo.key  # the one whose evidence is shown first
        signs = [replace(o, evidence=(said, *o.evidence)) if o is key else o for o in signs]
    if told:
        signs[0] = replace(signs[0], note="; ".join(told))
    ranks = (first.rank,) if first is not None and _alone(first, workers, world) else None
    stand_in = Candidate(catalogue[INSUFFICIENT], echo.attempt, signs, ranks, False, echo.time, explains=list(top))
    for c in top:
        c.explained_by = stand_in
    return [stand_in]


def _places(data: RunData) -> set[tuple[str, int | None]]:
    """Where lines stand that signatures know."""
    return {(e.file, e.line) for o in data.observations for e in o.evidence}


def _alone(first: End, workers: Sequence[End], world: World) -> bool:
    """Whether the first worker to end is the one to look at.

    Any exception ends a process with 1, also that of a peer which lost its connection: then it is where others of the
    launcher aborted after it, as those do that lose a peer, or were stopped on the one host of the run.
    """
    if first.code != 1 or any(end.code == ABORTED for end in workers):
        return True
    srun = first.time is None
    return any(end.code < 0 for end in workers) and (srun or world.one_host)


def _in_words(workers: Sequence[End]) -> str:
    """What launchers tell of workers that ended by themselves beside others that aborted, where nothing orders them."""
    own = [end.rank for end in workers if end.by_itself]
    aborted = [end.rank for end in workers if end.code == ABORTED]
    ended = f"rank{'s' if len(own) > 1 else ''} {rank_ranges(own)} ended with an exit code"
    told = f"{ended} and {rank_ranges(aborted)} aborted"
    return f"{told}; the launcher does not tell which came first, and watchdogs abort ranks that lost a peer"
