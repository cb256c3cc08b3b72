"""The last collective of each rank, by process group: from Flight Recorder dumps and NCCL's log, else the watchdogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from forensics.engine.collectives.calls import Group, groups_of
from forensics.engine.collectives.groups import default_name
from forensics.engine.collectives.observations import DEFAULT_GROUPS, title
from forensics.model import CALLED, RunData
from forensics.report.plots.model import CollectiveProgress, Reached

GROUPS = 6  # process groups shown, those in which ranks part first
ENTRIES = 24  # groups of ranks shown of each


class _Told(NamedTuple):
    seq: int
    call: str
    state: str
    place: str


def sequences(data: RunData, world_size: int | None) -> tuple[CollectiveProgress, ...]:
    """One `CollectiveProgress` a process group with at least two ranks; groups whose ranks part go first."""
    found: list[CollectiveProgress] = []
    if data.collectives.height:
        for group in groups_of(data.collectives):
            told = {rank: _of_group(group, rank) for rank in group.last}
            members = set(group.members) | (set(range(world_size or 0)) if group.key[0] in DEFAULT_GROUPS else set())
            by = "NCCL log" if group.traced else "Flight Recorder"
            found.append(_sequence(title(group.key), by, told, members - set(told)))
    if not found:
        found = _of_watchdogs(data, world_size)
    found = [s for s in found if sum(len(entry.ranks) for entry in s.reached) + len(s.silent) > 1]
    found.sort(key=lambda s: (not any(e.behind for e in s.reached), len(s.reached) == 1, not s.silent))
    return tuple(found[:GROUPS])


def _of_group(group: Group, rank: int) -> _Told:
    """The call that a rank waits in, or else its last one."""
    call = group.waiting.get(rank, group.last[rank])
    state = "called" if call.state == CALLED else "done" if call.finished else "waits in it"
    return _Told(call.seq, call.op, state, call.place)


def _of_watchdogs(data: RunData, world_size: int | None) -> list[CollectiveProgress]:
    groups: dict[str, dict[int, _Told]] = {}
    for o in data.observations:
        rank, said = o.identity.rank, o.captures
        if rank is None or o.culprits:  # what was concluded on a rank, which did not print it
            continue
        if o.signature == "collective-timeout" and said.get("seq", "").isdigit():
            told = _Told(int(said["seq"]), said.get("op", "").lower(), "timed out in it", "")
        elif o.signature == "nccl-dump-signal" and said.get("enqueued", "").isdigit():
            told = _Told(int(said["enqueued"]), "", "enqueued it", "")
        else:
            continue
        ranks = groups.setdefault(default_name(said["group"]) if said.get("group") else "", {})
        known = ranks.get(rank)
        if known is None or (
            told.state == "timed out in it" and (told.seq, not told.call) < (known.seq, not known.call)
        ):
            ranks[rank] = told
    if "" in groups and len(groups) > 1:  # the line that names the operation does not name the group
        unnamed = groups.pop("")
        for ranks in groups.values():
            for rank, told in ranks.items():
                other = unnamed.get(rank)
                if other is not None and other.seq == told.seq and not told.call:
                    ranks[rank] = told._replace(call=other.call)
    everyone = set(range(world_size or 0))
    return [
        _sequence(title((name, "")) if name else "group not named", "watchdog", told,
                  everyone - set(told) if name in ("", *DEFAULT_GROUPS) else set())
        for name, told in sorted(groups.items())
    ]  # fmt: skip


def _sequence(group: str, told_by: str, told: Mapping[int, _Told], silent: set[int]) -> CollectiveProgress:
    """Ranks that say the same together. Behind are those below the furthest, where they are the fewer."""
    same: dict[_Told, list[int]] = {}
    for rank in sorted(told):
        same.setdefault(told[rank], []).append(rank)
    furthest = max((t.seq for t in same), default=0)
    late = sum(len(ranks) for t, ranks in same.items() if t.seq < furthest)
    fewer = 2 * late < len(told)
    entries = [
        Reached(tuple(ranks), t.seq, t.call, t.state, t.place, fewer and t.seq < furthest) for t, ranks in same.items()
    ]
    entries.sort(key=lambda e: (not e.behind, e.seq, len(e.ranks), e.ranks))
    return CollectiveProgress(
        group, told_by, tuple(entries[:ENTRIES]), tuple(sorted(silent)), max(0, len(entries) - ENTRIES)
    )
