"""A run of which only the end is told: the root is that the evidence does not reach, with what is known of the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forensics.engine.candidates import Candidate
from forensics.engine.ending import said_before
from forensics.engine.order import SAME_CLOCK
from forensics.engine.whose import WORKER_EXIT
from forensics.model import RunData
from forensics.signatures.schema import Signature

INSUFFICIENT = "insufficient-evidence"
ABORTED = -6  # as torchelastic writes an end by SIGABRT


def with_stand_in(top: list[Candidate], catalogue: Mapping[str, Signature], data: RunData) -> list[Candidate]:
    """Echoes alone are no cause: the root is then that the evidence does not reach."""
    if not top or top[0].signature.kind != "echo" or INSUFFICIENT not in catalogue:
        return top
    echo = top[0]
    signs = list(echo.observations)
    told: list[str] = []
    ended = _ended_first(data, echo.attempt)
    if ended is not None:
        rank, code = ended
        told.append(f"the launcher saw rank {rank} end first, by itself, with exit code {code}: its log comes first")
    said = said_before((e for c in top for o in c.observations for e in o.evidence), data)
    if said is not None and (said.file, said.line) not in _places(data):
        told.append(f"the last error printed before that, which no signature knows: {said.text[:200]}")
        key = echo.key  # the one whose evidence is shown first
        signs = [replace(o, evidence=(said, *o.evidence)) if o is key else o for o in signs]
    if told:
        signs[0] = replace(signs[0], note="; ".join(told))
    # Any exception ends a process with 1, also that of a peer which lost its connection.
    alone = ended is not None and (ended[1] != 1 or _aborts(data, echo.attempt))
    ranks = (ended[0],) if ended is not None and alone else None
    stand_in = Candidate(catalogue[INSUFFICIENT], echo.attempt, signs, ranks, False, echo.time, explains=list(top))
    for c in top:
        c.explained_by = stand_in
    return [stand_in]


def _places(data: RunData) -> set[tuple[str, int | None]]:
    """Where lines stand that signatures know."""
    return {(e.file, e.line) for o in data.observations for e in o.evidence}


def _aborts(data: RunData, attempt: int) -> bool:
    exits = (o for o in data.observations if o.signature == WORKER_EXIT and (o.identity.attempt or 0) == attempt)
    return any(o.captures["exitcode"] == str(ABORTED) for o in exits)


def _ended_first(data: RunData, attempt: int) -> tuple[int, int] | None:
    """(rank, exit code) of the one worker that a launcher saw end by itself; None where it was several, or a signal.

    Of several tables the first counts where the workers of the others aborted after it, as those do that lose a peer.
    """
    rows = {
        (o.identity.rank, int(o.captures["exitcode"])): o.time
        for o in data.observations
        if o.signature == WORKER_EXIT and (o.identity.attempt or 0) == attempt
    }
    ended = [(rank, code, time) for (rank, code), time in rows.items() if code != ABORTED]
    if len(ended) != 1:
        return None
    ((rank, code, time),) = ended
    for (_, other), later in rows.items():
        if other == ABORTED and (time is None or later is None or later <= time + SAME_CLOCK):
            return None
    return (rank, code) if rank is not None and 0 < code < 128 else None
