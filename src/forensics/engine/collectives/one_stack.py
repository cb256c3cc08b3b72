"""The stack of one process of several, where nothing else tells of a wait: told as where it stood, and no more."""

from __future__ import annotations

from collections.abc import Collection

from forensics.engine.collectives.logs import Logs
from forensics.engine.collectives.observations import from_lines, spoken
from forensics.engine.collectives.stacks import stood
from forensics.model import Observation

SIGNATURE = "stack-of-one-rank"
WEIGHT = 0.5
_UNASKED = ("timeout", "fatal")  # kinds of stacks that a timer and the interpreter's death print


def of_one_rank(logs: Logs, everyone: Collection[int]) -> list[Observation]:
    """Where the only rank stood whose stack was asked for, in a run of several that shows no trouble otherwise."""
    where, dumps = stood(logs)
    if len(where) != 1 or len(everyone) < 2 or logs.trouble:
        return []
    ((rank, dump),) = dumps.items()
    if dump.captures.get("kind") in _UNASKED:
        return []
    others = spoken(set(everyone) - {rank})
    note = f"Rank {rank} stood {where[rank]}; where {others} stood, nothing tells. By itself that is no hang."
    return [from_lines(SIGNATURE, WEIGHT, (rank,), [dump], note)]
