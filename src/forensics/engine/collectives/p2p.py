"""Sends and receives that do not end: which of them do not fit, and whom the chain of waits leads to.

In a pipeline each stage waits for the one before it: the stage at the end of the chain is the one to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forensics.engine.collectives.calls import Call, Group, calls_of, declared, prepared
from forensics.engine.collectives.logs import Logs
from forensics.engine.collectives.observations import at_place, in_group, observe, plural, side_by_side, spoken
from forensics.engine.collectives.waits import ON_DEVICE
from forensics.model import Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

MOST_CALLS = 4  # that a note names
ALONE = 0.5  # weight of one rank that waits for one other, where nothing but the dumps speaks of a hang
_P2P = lazy(r"(send|recv) (\d+)(?:->|<-)(\d+)")

_Half = tuple[tuple[str, str], int, int]  # group, rank, peer
# (group, rank, peer) -> what the rank has not finished with the peer: ("send" | "recv", call)
Pending = Mapping[_Half, Sequence[tuple[str, Call]]]
OTHER = {"send": "recv", "recv": "send"}


def point_to_point(table: pl.DataFrame, groups: Sequence[Group], logs: Logs) -> list[Observation]:
    """Unfinished sends and receives that do not fit, or the rank at the end of the chain of those that wait.

    groups: the collectives of the same dumps, in which ranks may wait for each other as well.
    """
    pending = _pending(table)
    if not pending:
        return []
    return _unfitting(pending, _Made(table)) or _chain(
        pending, groups, set(table.filter(table["op"].is_not_null())["rank"].drop_nulls()), logs, table
    )


def _pending(table: pl.DataFrame) -> dict[_Half, list[tuple[str, Call]]]:
    import polars as pl

    return _halves(prepared(table).filter(pl.col("is_p2p").fill_null(False) & ~pl.col("finished")))


def _halves(rows: pl.DataFrame) -> dict[_Half, list[tuple[str, Call]]]:
    """Sends and receives by the rank that made them and the one at the other end, in the order of the dump."""
    import polars as pl

    halves: dict[_Half, list[tuple[str, Call]]] = defaultdict(list)
    for call in calls_of(rows.with_columns(pl.col("group", "group_desc").fill_null(""))):
        match = _P2P.search(call.op)
        if match is None:
            continue
        members = declared(call.group[1])
        peer = int(match.group(3))  # counted inside the group
        other = members[peer] if peer < len(members) else peer
        halves[call.group, call.rank, other].append((match.group(1), call))
    return dict(halves)


class _Made:
    """The halves of exchanges that the dumps hold, finished or not."""

    def __init__(self, table: pl.DataFrame) -> None:
        import polars as pl

        self._of = _halves(prepared(table).filter(pl.col("is_p2p").fill_null(False)))
        self._oldest: dict[tuple[tuple[str, str], int], int] = {}  # (group, rank) -> its first number that is left
        for (group, rank, _), halves in self._of.items():
            numbers = [call.seq for _, call in halves]
            self._oldest[group, rank] = min(*numbers, self._oldest.get((group, rank), numbers[0]))

    def _both(self, waiter: Call, peer: int) -> tuple[list[Call], list[Call], bool]:
        """(the waiter's halves, those that the peer made for them, whether both buffers still hold the first ones).

        The n-th send of one rank to another meets the n-th receive there from it. Sequence numbers do not tell: each
        rank counts its own.
        """
        match = _P2P.search(waiter.op)
        kind = match.group(1) if match is not None else ""
        mine = [c for said, c in self._of.get((waiter.group, waiter.rank, peer), ()) if said == kind]
        theirs = [c for said, c in self._of.get((waiter.group, peer, waiter.rank), ()) if said == OTHER.get(kind)]
        oldest = (self._oldest.get((waiter.group, one), 2) for one in (waiter.rank, peer))
        return mine, theirs, bool(mine) and all(number <= 1 for number in oldest)

    def other_half(self, waiter: Call, peer: int) -> tuple[bool, Call | None]:
        """(whether the buffers tell, the half that the peer made for a rank's call)."""
        mine, theirs, whole = self._both(waiter, peer)
        place = next((n for n, call in enumerate(mine) if call is waiter or call == waiter), None)
        if not whole or place is None:
            return False, None
        return True, theirs[place] if place < len(theirs) else None

    def owed(self, waiter: Call, peer: int) -> bool:
        """Whether a rank has made its half of an exchange with the one that waits before, and not this time.

        Where a buffer has dropped its oldest calls, the newest half that the peer made must be older than the call.
        """
        mine, theirs, whole = self._both(waiter, peer)
        if whole:
            return bool(theirs) and len(theirs) < len(mine)
        stamps = [call.time for call in theirs if call.time is not None]
        return waiter.time is not None and bool(stamps) and max(stamps) < waiter.time

    def met(self, waiter: Call, peer: int) -> bool:
        """Whether the peer has made, and finished, the half for which a rank still waits."""
        mine, theirs, whole = self._both(waiter, peer)
        return whole and len(theirs) >= len(mine) and all(call.state == "completed" for call in theirs[: len(mine)])


def _unfitting(pending: Pending, made: _Made) -> list[Observation]:
    """Two ranks that wait for each other in calls that cannot meet."""
    for (group, rank, peer), mine in sorted(pending.items(), key=lambda item: item[0]):
        theirs = pending.get((group, peer, rank), [])
        if rank > peer or not theirs:
            continue
        kinds, other_kinds = {kind for kind, _ in mine}, {kind for kind, _ in theirs}
        if kinds == other_kinds and len(kinds) == 1:
            a, b = mine[0][1], theirs[0][1]
            note = f"Rank {rank} and rank {peer} both wait in {kinds.pop()} for each other."
        elif (unlike := _unlike(mine, theirs, peer, made)) is not None:
            a, b = unlike
            what, other = (a.sizes, b.sizes) if a.sizes != b.sizes else (a.dtypes, b.dtypes)
            note = f"Rank {rank} is in {a.op} of {what}, rank {peer} in {b.op} of {other}."
        else:
            continue
        return [observe("p2p-mismatch", 0.85, (), [a, b], f"{note} Two ranks give no majority.", a.seq, a)]
    return _half_missing(pending, made)


def _unlike(
    mine: Sequence[tuple[str, Call]], theirs: Sequence[tuple[str, Call]], peer: int, made: _Made
) -> tuple[Call, Call] | None:
    """The first send and receive of two ranks that meet and differ in size or type."""
    for kind, call in mine:
        there = [other for said, other in theirs if said == OTHER[kind]]
        told, half = made.other_half(call, peer)
        if told:
            meets = half if half in there else None
        else:  # the first that both wait in, if the two have as many
            here = [one for said, one in mine if said == kind]
            meets = there[0] if call == here[0] and len(here) == len(there) else None
        if meets is not None and (call.sizes != meets.sizes or call.dtypes != meets.dtypes):
            return call, meets
    return None


def _half_missing(pending: Pending, made: _Made) -> list[Observation]:
    """Two ranks that wait in one batch each, which meet in one exchange, and one of which lacks another.

    A batch ends as a whole: the rank that lacks a half in its own cannot make it later.
    """
    first: dict[tuple[tuple[str, str], int], int] = {}
    for (group, rank, _), halves in pending.items():
        oldest = min(call.seq for _, call in halves)
        first[group, rank] = min(oldest, first.get((group, rank), oldest))
    for (group, rank, peer), mine in sorted(pending.items(), key=lambda item: item[0]):
        batch = [call for _, call in mine if call.seq == first[group, rank]]
        met = [(call, *made.other_half(call, peer)) for call in batch]
        lone = [call for call, told, half in met if told and half is None]
        there = [half for _, _, half in met if half is not None and half.seq == first.get((group, peer))]
        waits = [half for half in there if not half.finished]
        if lone and waits:
            note = (
                f"Rank {rank} is in {lone[0].op}{at_place(lone[0])}, for which rank {peer} never made the other half: "
                f"it waits for rank {rank} in {waits[0].op}{at_place(waits[0])}, in a batch without it. Two ranks give "
                "no majority."
            )
            return [observe("p2p-mismatch", 0.8, (), [lone[0], waits[0]], note, lone[0].seq, lone[0])]
    return []


def _by_call(waiters: Mapping[int, Call]) -> str:
    """Who waits in which call: "ranks 0-1 wait in all_reduce #7 of group a at t.py:4, and rank 5 waits in recv ..."."""
    together: dict[tuple[tuple[str, str], str, int, str], list[int]] = defaultdict(list)
    for rank, call in waiters.items():
        together[call.group, call.name, call.seq, at_place(call)].append(rank)
    parts = [
        f"{spoken(ranks)} {plural(ranks, 'waits', 'wait')} in {name} of {in_group(group)}{place}"
        for (group, name, _, place), ranks in list(together.items())[:MOST_CALLS]
    ]
    more = f" and {len(together) - MOST_CALLS} more such calls" if len(together) > MOST_CALLS else ""
    return ", and ".join(parts) + more


def _held(held: Sequence[tuple[int, Call]]) -> list[Observation]:
    """Ranks whose exchange has ended at its other end, and not on their own GPU."""
    if not held:
        return []
    ranks = tuple(sorted({call.rank for _, call in held}))
    peer, first = held[0]
    note = (
        f"Rank {first.rank} waits in {first.name}{at_place(first)}, of which rank {peer} has made and finished the "
        f"other half: {plural(ranks, 'it hangs', 'they hang')} on the device or in the network, and nobody is late."
    )
    return [observe(ON_DEVICE, 0.6, ranks, [call for _, call in held], note, first.seq, first)]


def _chain(
    pending: Pending, groups: Sequence[Group], dumped: set[int], logs: Logs, table: pl.DataFrame
) -> list[Observation]:
    """The ranks that others wait for, and that wait for nobody themselves."""
    edges: dict[int, dict[int, Call]] = defaultdict(dict)
    made = _Made(table)
    held: list[tuple[int, Call]] = []
    for (group, rank, peer), mine in pending.items():
        if (group, peer, rank) in pending:  # a peer that is in the matching call does not keep it waiting
            continue
        if all(made.met(call, peer) for _, call in mine):
            held.append((peer, mine[0][1]))
        else:
            edges[rank].setdefault(peer, mine[0][1])
    if not edges:
        return _held(held) if logs.trouble else []
    for one in groups:
        for rank, call in one.waiting.items():
            for peer in one.members:
                last = one.last.get(peer)
                if peer != rank and last is not None and last.seq < call.seq:
                    edges[rank].setdefault(peer, call)
    wanted = {peer for out in edges.values() for peer in out}
    roots = tuple(sorted(wanted - set(edges)))
    if not roots:
        first = {rank: next(iter(out.values())) for rank, out in sorted(edges.items())}
        chain = "; ".join(f"rank {rank} in {call.name}{at_place(call)}" for rank, call in list(first.items())[:8])
        note = (
            f"The ranks wait for each other in a circle: {chain}. Sends, receives and collectives are called in orders "
            "that do not fit."
        )
        return [observe("p2p-mismatch", 0.7, (), first.values(), note, None)]
    few = len(roots) >= len(edges) and not logs.trouble  # so may a dump on request look, of a run that goes on
    if few and (
        len(roots) > 1 or not all(made.owed(call, roots[0]) for out in edges.values() for call in out.values())
    ):
        return []
    waiters = {rank: out[peer] for rank, out in sorted(edges.items()) for peer in roots if peer in out}
    gone = [rank for rank in roots if rank not in dumped]
    call = next(iter(waiters.values()))
    theirs = [one.last[rank] for rank in roots for one in groups if rank in one.last]
    what = (
        plural(gone, "left no dump that tells a call", "left no dumps that tell a call")
        if gone
        else f"{plural(roots, 'waits', 'wait')} for nobody"
    )
    note = f"{_by_call(waiters)} for {spoken(roots)}, and {spoken(roots)} {what}."
    others = sorted(set(edges) - set(waiters))
    if others:
        behind = f"{plural(others, 'waits', 'wait')} behind {plural(waiters, 'it', 'them')}"
        note += f" {spoken(others).capitalize()} {behind}."
    note += side_by_side(theirs, waiters.values())
    weight = (0.55 if gone else 0.75) * (1 if logs.trouble else 0.85)
    if few:
        weight = min(weight, ALONE)
        note += f" {spoken(roots).capitalize()} made the other half of each such exchange before, and not of this one."
    culprits = roots if len(roots) <= len(edges) else ()
    return [observe("straggler-rank", weight, culprits, [*theirs, *waiters.values()], note, call.seq, call)]
