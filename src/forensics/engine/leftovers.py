"""A process of an earlier attempt that still holds a GPU's memory or the port: what a later one dies of follows from
that attempt.

torch lists the processes that hold memory of a full card. One of them that the logs of an earlier attempt name, and
those of the attempt itself do not, outlived the end of that attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine import whose
from forensics.engine.graph import depends_on, link
from forensics.engine.shared_gpus import SHARED, listed
from forensics.engine.survival import ENDS_A_RUN

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate
    from forensics.engine.identity import World
    from forensics.model import Observation

_NOTE = "process {pid}, which holds {memory} of the card, is {whose} of attempt {attempt} and has not ended"
PORT_TAKEN = "address-in-use"
_Process = tuple[str | None, int]  # host, pid


def follow(found: Sequence[Candidate], live: Sequence[Candidate], world: World) -> None:
    """Link each such end to what ended the earlier attempt, where anything tells; live: the most telling first."""
    for c in live:
        # The store of the attempt before listened on it, and whoever it started may hold it still.
        if c.signature.name == PORT_TAKEN and c.attempt > 0 and c.explained_by is None:
            ended = (e for e in live if e.attempt == c.attempt - 1 and _ended(e) and not depends_on(e, c))
            if (cause := next(ended, None)) is not None:
                link(cause, c)
    shared = [c for c in live if c.signature.name == SHARED and c.attempt > 0 and c.explained_by is None]
    if not shared:
        return
    known = _processes(found)
    for c in shared:
        own = known[c.attempt]
        for attempt in range(c.attempt - 1, -1, -1):
            left = [(o, pid) for o in c.observations if (pid := _left(o, known[attempt], own)) is not None]
            if not left:
                continue
            o, process = left[0]
            rank = world.rank_of_pid.get(process)
            note = _NOTE.format(
                pid=process[1],
                memory=listed(o)[process[1]],
                whose=f"rank {rank}" if rank is not None else "a process",
                attempt=attempt,
            )
            key = c.observations[0]
            c.observations[0] = replace(key, note=f"{key.note}. {note}" if key.note else note)
            cause = next((e for e in live if e.attempt == attempt and _ended(e) and not depends_on(e, c)), None)
            if cause is not None:
                cause.yields, cause.overcome = None, False
                link(cause, c)
            break


def _ended(c: Candidate) -> bool:
    """Whether it may be what ended an attempt."""
    return c.signature.kind in ("cause", "symptom") and c.signature.verdict in ENDS_A_RUN and c.explained_by is None


def _left(o: Observation, earlier: set[_Process], own: set[_Process]) -> _Process | None:
    """The process of an earlier attempt that a message lists; None where it lists none."""
    for pid in listed(o):
        mine = any(number == pid for _, number in own)
        for node, number in sorted(earlier, key=str) if not mine else ():
            if number == pid and not whose.apart(node, o.identity.node):
                return node, number
    return None


def _processes(found: Sequence[Candidate]) -> dict[int, set[_Process]]:
    """Attempt -> processes that its logs name."""
    known: dict[int, set[_Process]] = defaultdict(set)
    for c in found:
        for o in c.observations:
            pid = o.captures.get("pid", "")
            named = {o.identity.pid, int(pid) if pid.isdigit() else None} - {None}
            for number in named:
                if number is not None:
                    known[c.attempt].add((o.identity.node, number))
    return known
