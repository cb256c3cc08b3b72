"""Communicators of NCCL that were begun and never completed: the ranks that did not come to their set-up.

Each rank prints "Init START" when it begins and "Init COMPLETE" when all have come (NCCL 2.18 and later).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from forensics.engine.collectives.logs import Logs
from forensics.engine.collectives.observations import from_lines, ordered, plural, spoken
from forensics.model import MAX_RANKS, Observation
from forensics.parsers.nccl.lines import init

# What ranks print that wait in vain for others to come.
WAITED = (
    "collective-timeout", "nccl-bootstrap-failed", "nccl-connect-failed", "nccl-peer-closed", "nccl-watchdog-abort",
    "store-timeout", "store-connection-lost", "nccl-remote-error", "nccl-system-error",
)  # fmt: skip


def unborn(logs: Logs, everyone: Collection[int], present: Collection[int]) -> list[Observation]:
    """The ranks that never began a communicator which most of its ranks began and none completed.

    everyone: all ranks of the run. present: ranks that left a file or a line of any kind. Nothing is said where no rank
    complains of a wait: a log may end in the middle of a set-up that went on.
    """
    if not any(o.signature in WAITED for o in logs.observations):
        return []
    begun: dict[str, dict[int, Observation]] = defaultdict(dict)
    sizes: dict[str, int] = {}
    completed: set[str] = set()
    for o in logs.observations:
        if o.signature != "nccl-init" or not o.evidence or (birth := init(o.evidence[0].text)) is None:
            continue
        if birth.id is None or not 1 < birth.size <= MAX_RANKS:
            continue
        sizes[birth.id] = birth.size
        if birth.complete:
            completed.add(birth.id)
        else:
            begun[birth.id].setdefault(birth.rank, o)
    for key in sorted(set(begun) - completed, key=lambda key: -sizes[key]):
        missing = tuple(sorted(set(range(sizes[key])) - set(begun[key])))
        if not 0 < len(missing) < len(begun[key]):
            continue
        whole = sizes[key] == len(everyone)  # ranks of a smaller communicator are not those of the job
        seen = not whole or set(missing) <= set(present)
        note = (
            f"{spoken(begun[key])} {plural(begun[key], 'waits', 'wait')} in the set-up of NCCL's communicator of "
            f"{sizes[key]} ranks, which {spoken(missing)} never began."
        )
        signature = "rank-exited-early" if whole and logs.raised & set(missing) else "straggler-rank"
        return [from_lines(signature, 0.75 if seen else 0.5, missing if whole else (), ordered(begun[key], ()), note)]
    return []
