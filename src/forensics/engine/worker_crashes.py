"""Crashes that the kernel reports of a DataLoader's worker, to which older versions of torch give no name of its own.

The kernel calls such a worker as it calls the trainer. Where the DataLoader says that it lost the process of that
number, it was a worker, and no rank, that crashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forensics.model import Observation

LOST = "dataloader-worker-killed"  # its lines name the worker by its pid
CRASHED = "rank-segfault"
OF_A_WORKER = "dataloader-worker-segfault"


def told(found: Sequence[Observation]) -> list[Observation]:
    """The observations, with the crashes of processes that a DataLoader missed as those of its workers."""
    hosts: dict[str, set[str | None]] = {}
    for o in found:
        if o.signature == LOST and "pid" in o.captures:
            hosts.setdefault(o.captures["pid"], set()).add(o.identity.node)
    if not hosts:
        return list(found)
    return [
        replace(o, signature=OF_A_WORKER, rule=None)
        if o.signature == CRASHED and _is_of(o, hosts.get(o.captures.get("pid", ""), set()))
        else o
        for o in found
    ]


def _is_of(o: Observation, hosts: set[str | None]) -> bool:
    """Whether a crash that the kernel reports may be on one of the hosts. Pids count anew on each."""
    by_kernel = "process" in o.captures
    return by_kernel and bool(hosts) and (o.identity.node is None or bool(hosts & {None, o.identity.node}))
