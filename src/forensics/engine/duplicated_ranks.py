"""Processes that were started with one and the same rank, where each says which one it was given.

torch itself does not say so. Two of rank 0 on one host: the second finds the port taken. Two of another rank: they
overwrite each other's keys in the store, and everybody waits for the rank that nobody has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from forensics.model import Identity, Observation

SIGNATURE, ANNOUNCED = "duplicate-rank-launch", "rank-announced"
# How processes that wait for a rank fail.
FAILED = frozenset(
    ("rendezvous-timeout", "store-timeout", "address-in-use", "gloo-connect-failed", "nccl-bootstrap-failed",
     "collective-timeout", "store-connection-lost")
)  # fmt: skip
WEIGHT = 0.85
MOST = 4096  # processes


class _Process(NamedTuple):
    """What announces a rank: a file, and within it a process id where one is printed."""

    file: str
    pid: str | None


def told(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, and one for each attempt in which so many processes came as were to, and some rank twice.

    Only where none of its processes came to a step, all that tell the size of the world tell one, and ranks are left
    over that nobody has. Announcements of one file count up to its first failure: behind it a launch may begin anew.
    """
    found = list(observations)
    failures = [o for o in observations if o.signature in FAILED and o.evidence]
    if not failures or any(o.step is not None for o in failures):
        return found
    by_attempt: dict[int | None, list[Observation]] = defaultdict(list)
    for o in observations:
        if o.signature == ANNOUNCED and o.evidence and o.captures.get("own_rank", "").isdecimal():
            by_attempt[o.identity.attempt].append(o)
    for attempt, announced in by_attempt.items():
        failed = [o for o in failures if o.identity.attempt in (attempt, None)]
        if failed and (sign := _twice(announced, failed)) is not None:
            found.append(sign)
    return found


def _twice(announced: Sequence[Observation], failures: Sequence[Observation]) -> Observation | None:
    first_failure: dict[str, int] = {}
    for o in failures:
        line = o.evidence[0].line or 0
        first_failure[o.evidence[0].file] = min(line, first_failure.get(o.evidence[0].file, line))
    processes: dict[_Process, dict[int, Observation]] = defaultdict(dict)
    pids: Mapping[tuple[str, int | None], str] = {
        (e.file, e.line): pid for o in announced if (pid := o.captures.get("pid")) for e in o.evidence[:1]
    }
    stated = {o.captures.get("world_size", "") for o in announced} - {""}
    for o in announced:
        place = o.evidence[0]
        if (place.line or 0) < first_failure.get(place.file, 1 << 62):
            process = _Process(place.file, pids.get((place.file, place.line)))
            processes[process].setdefault(int(o.captures["own_rank"]), o)
    if len(stated) != 1 or not (text := next(iter(stated))).isdecimal():
        return None
    size = int(text)
    if len(processes) != size or size > MOST or any(len(ranks) != 1 for ranks in processes.values()):
        return None
    of_rank: dict[int, list[Observation]] = defaultdict(list)
    for ranks in processes.values():
        for own, o in ranks.items():
            of_rank[own].append(o)
    twice = {own: seen for own, seen in of_rank.items() if len(seen) > 1}
    if not twice or max(of_rank) >= size or any(_one_by_one(seen, failures) for seen in twice.values()):
        return None
    rank, seen = min(twice.items())
    missing = sorted(set(range(size)) - of_rank.keys())
    note = (
        f"{len(seen)} of the {size} processes say that they are rank {rank}, and none says that it is rank"
        f" {', '.join(map(str, missing[:8]))}"
    )
    return Observation(
        signature=SIGNATURE,
        weight=WEIGHT,
        evidence=tuple(o.evidence[0] for o in seen[:4]),
        identity=Identity(attempt=seen[0].identity.attempt),
        culprits=(),
        time=min((o.time for o in seen if o.time is not None), default=None),
        captures={"duplicate": str(rank)},
        note=note,
    )


def _one_by_one(seen: Sequence[Observation], failures: Sequence[Observation]) -> bool:
    """Whether one of the processes came when another had failed already, as in a launch that was repeated."""
    ends: dict[str, float] = {}
    for o in failures:
        if o.time is not None:
            ends[o.evidence[0].file] = min(o.time, ends.get(o.evidence[0].file, o.time))
    began = [(o.evidence[0].file, o.time) for o in seen if o.time is not None]
    return any(start > end for file, start in began for other, end in ends.items() if other != file)
