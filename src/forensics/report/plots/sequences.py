"""The last collective of each rank, by process group: from Flight Recorder dumps and NCCL's log, else the watchdogs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from forensics.engine.collectives.calls import Group, groups_of
from forensics.engine.collectives.groups import default_name
from forensics.engine.collectives.observations import DEFAULT_GROUPS, title
from forensics.model import CALLED, Diagnosis, Role, RunData
from forensics.patterns import lazy
from forensics.report.plots.model import CollectiveProgress, Reached

GROUPS = 6  # process groups shown
ENTRIES = 24  # groups of ranks shown of each
_WAITS = ("waits in it", "timed out in it")
_MEMBERS = lazy(r"(?<=.) ranks [\d,-]+$", re.ASCII)  # of a group that has a name beside them


class Progress(NamedTuple):
    """How far the ranks of a run came in its collectives."""

    shown: tuple[CollectiveProgress, ...]  # the groups that tell most: those of the cause, then those waited in
    left_out: int  # groups beyond these
    last: Mapping[int, str]  # rank -> the call that it waits in, else its last one, of all groups


class _Told(NamedTuple):
    seq: int
    call: str
    state: str
    place: str


class _Last(NamedTuple):
    """One rank's end in one group; the greatest of several is what the rank is doing."""

    waits: bool
    time: float
    words: str


def sequences(data: RunData, diagnosis: Diagnosis) -> Progress:
    """The process groups of two ranks or more, and those that a cause names: these first, then those waited in."""
    roots = diagnosis.of_role(Role.ROOT)
    culprits = frozenset(rank for root in roots for rank in root.ranks or ())
    everyone = culprits | frozenset(range(diagnosis.run.world_size or 0))  # a culprit is a rank, however many there are
    blamed = {title((root.captures["group"], "")) for root in roots if "group" in root.captures}
    found: list[tuple[bool, CollectiveProgress]] = []  # (whether a cause names the group, it)
    last: dict[int, _Last] = {}
    if data.collectives.height:
        groups = groups_of(data.collectives)
        for group in groups:
            told = {rank: _of_group(group, rank) for rank in group.last}
            members = set(group.members) | (everyone if group.key[0] in DEFAULT_GROUPS else set())
            by = "NCCL log" if group.traced else "Flight Recorder"
            progress = _sequence(title(_short(group.key)), by, told, members - set(told), culprits)
            found.append((title(group.key) in blamed, progress))
            for rank, call in told.items():
                ended = _Last(call.state in _WAITS, _time(group, rank), _spoken(call, group.key, len(groups) > 1))
                last[rank] = max(last.get(rank, ended), ended)
    if not found:
        found = [(s.group in blamed, s) for s in _of_watchdogs(data, everyone, culprits)]
        for _, progress in found:
            for entry in progress.reached:
                ended = _Last(entry.state in _WAITS, 0.0, _words(entry.seq, entry.call, entry.state))
                last |= {rank: max(last.get(rank, ended), ended) for rank in entry.ranks}
    # A group of which one rank alone has a call is its own affair, unless that call is the fault.
    told_of = [(named, s) for named, s in found if named or sum(len(e.ranks) for e in s.reached) + len(s.silent) > 1]
    told_of.sort(key=lambda pair: _weight(*pair))
    shown = tuple(progress for _, progress in told_of[:GROUPS])
    return Progress(shown, len(told_of) - len(shown), {rank: ended.words for rank, ended in last.items()})


def _weight(named: bool, progress: CollectiveProgress) -> tuple[bool, ...]:
    """Sorts groups: named by a cause, with a culprit whom others wait for, waited in, with ranks that part."""
    waiting = any(entry.state in _WAITS for entry in progress.reached)
    idle = {rank for entry in progress.reached if entry.state not in _WAITS for rank in entry.ranks}
    awaited = waiting and bool({*idle, *progress.silent} & set(progress.culprits))
    behind = any(entry.behind for entry in progress.reached)
    return (
        not named, not awaited, not waiting, not behind,
        len(progress.reached) == 1, not progress.silent,
    )  # fmt: skip


def _of_group(group: Group, rank: int) -> _Told:
    """The call that a rank waits in, or else its last one."""
    call = group.waiting.get(rank, group.last[rank])
    state = "called" if call.state == CALLED else "done" if call.finished else "waits in it"
    return _Told(call.seq, call.op, state, call.place)


def _time(group: Group, rank: int) -> float:
    return group.waiting.get(rank, group.last[rank]).time or 0.0


def _short(key: tuple[str, str]) -> tuple[str, str]:
    """A group without its members, which the rows show."""
    return key[0], _MEMBERS.sub("", key[1])


def _words(seq: int, call: str, state: str) -> str:
    return f"#{seq}" + (f" {call}" if call else "") + f", {state}"


def _spoken(told: _Told, key: tuple[str, str], several: bool) -> str:
    """What a rank did last, with the group where that is not plain."""
    name = _short(key)[1] or key[0]
    within = f" ({name})" if several and key[0] not in DEFAULT_GROUPS else ""
    return _words(told.seq, told.call, told.state) + within


def _of_watchdogs(data: RunData, everyone: frozenset[int], culprits: frozenset[int]) -> list[CollectiveProgress]:
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
    return [
        _sequence(title((name, "")) if name else "", "watchdog", told,
                  set(everyone - set(told)) if name in ("", *DEFAULT_GROUPS) else set(), culprits)
        for name, told in sorted(groups.items())
    ]  # fmt: skip


def _sequence(
    group: str, told_by: str, told: Mapping[int, _Told], silent: set[int], culprits: frozenset[int]
) -> CollectiveProgress:
    """Ranks that say the same together, culprits apart. Behind are those below the furthest, where they are fewer."""
    same: dict[tuple[_Told, bool], list[int]] = {}
    for rank in sorted(told):
        same.setdefault((told[rank], rank in culprits), []).append(rank)
    furthest = max((t.seq for t, _ in same), default=0)
    late = sum(len(ranks) for (t, _), ranks in same.items() if t.seq < furthest)
    fewer = 2 * late < len(told)
    entries = [
        Reached(tuple(ranks), t.seq, t.call, t.state, t.place, fewer and t.seq < furthest)
        for (t, _), ranks in same.items()
    ]
    entries.sort(key=lambda e: (not e.behind, not culprits.issuperset(e.ranks), e.seq, len(e.ranks), e.ranks))
    return CollectiveProgress(
        group,
        told_by,
        tuple(entries[:ENTRIES]),
        tuple(sorted(silent)),
        max(0, len(entries) - ENTRIES),
        tuple(sorted(culprits & {*told, *silent})),
    )
