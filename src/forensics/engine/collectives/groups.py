"""Who waits in which process group, and who is missing in each, as the numbers in the ranks' own lines tell.

Ranks that wait at the same time may wait in different groups: each group's wait is one of its own, and who is missing
in one may be waiting in another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import NamedTuple

from forensics.engine.collectives.observations import DEFAULT_GROUPS, from_lines, in_group, number, plural, spoken
from forensics.model import Observation
from forensics.patterns import lazy

# `[PG 1 Rank 2]`, `[PG ID 2 PG GUID 5(dp) Rank 2]`: the number inside the group.
_NUMBER_IN_GROUP = lazy(r"\[PG [^\]]{1,160}\bRank (\d{1,6})\]")
# The index that a process gave the group, which is its own: another process may give it to another group.
_INDEX_OF_GROUP = lazy(r"\[PG ID (\d{1,9}) PG GUID ")
# What is gathered from all members, or scattered to them, is as many times as large as a member's part.
_SPREAD = lazy(r"OpType=_(ALLGATHER|REDUCE_SCATTER)_BASE, NumelIn=(\d{1,18}), NumelOut=(\d{1,18})")
CREATED = "process-group-created"
WHOLE = "0"  # the group of all ranks
FEWEST = 3  # members by which the spacing of a group is known
TOLD = 8  # groups that a note names


def default_name(group: str) -> str:
    return WHOLE if group in DEFAULT_GROUPS else group


class Group(NamedTuple):
    """The ranks that timed out in one process group."""

    name: str
    numbers: Mapping[int, int | None]  # rank -> its number inside the group; None where its line does not say
    lines: Mapping[int, Observation]
    members: Mapping[int, int] = MappingProxyType({})  # rank -> number of all members, where they say so; else nothing
    size: int = 0  # 0 where it is not known

    @property
    def ranks(self) -> frozenset[int]:
        return frozenset(self.numbers)

    @property
    def where(self) -> str:
        """ "group 5 at #301"."""
        seqs = {o.captures["seq"] for o in self.lines.values() if "seq" in o.captures}
        return in_group((self.name, "")) + (f" at #{seqs.pop()}" if len(seqs) == 1 else "")

    def is_whole(self, everyone: Collection[int]) -> bool:
        """Whether it holds all ranks: the default one, and one in which most ranks bear their own numbers."""
        if self.members:
            return self.members.keys() >= set(everyone)
        if self.size:
            return self.size >= len(everyone)
        own = all(n == rank for rank, n in self.numbers.items())
        return self.name == WHOLE or (2 * len(self.numbers) > len(everyone) and own)

    @property
    def spacing(self) -> tuple[int, int] | None:
        """(rank of number 0, ranks from one number to the next); None where its lines do not show it.

        torch numbers a group's members in the order of their ranks (new_group sorts them). Where the ranks of those
        that are known are evenly spaced, so are those between them.
        """
        known = sorted((n, rank) for rank, n in self.numbers.items() if n is not None)
        steps = {(b - a) / (m - n) for (n, a), (m, b) in pairwise(known) if m != n}
        if len(known) != len(self.numbers) or len(steps) != 1 or not (step := steps.pop()).is_integer() or step < 1:
            return None
        return known[0][1] - int(step) * known[0][0], int(step)

    def absent(self, everyone: Collection[int], size: int = 0) -> dict[int, int]:
        """rank -> number of the members that did not time out in it, up to the last one that did, or to a size."""
        if self.members:
            return {rank: n for rank, n in self.members.items() if rank not in self.numbers}
        if self.name == WHOLE:
            return {rank: rank for rank in everyone if rank not in self.numbers}
        if (spacing := self.spacing) is None:
            return {}
        first, step = spacing
        numbers = [n for n in self.numbers.values() if n is not None]
        members = {first + step * n: n for n in range(max(size, self.size, max(numbers) + 1))}
        missing = {rank: n for rank, n in members.items() if rank not in self.numbers}
        return missing if missing.keys() <= set(everyone) else {}


@dataclass(frozen=True, slots=True)
class _Created:
    """What ranks said of the process groups that they created, with TORCH_CPP_LOG_LEVEL=INFO."""

    names: dict[tuple[int, str], str] = field(default_factory=dict)  # rank, its index of the group -> the group's name
    members: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # name -> rank -> number
    sizes: dict[str, int] = field(default_factory=dict)  # name -> ranks

    def of(self, name: str, lines: Mapping[int, Observation]) -> tuple[Mapping[int, int], int]:
        """(rank -> number of all members, or nothing; size, or 0) of the group in which these ranks timed out."""
        known = {self._name(rank, name, o) for rank, o in lines.items()}
        if len(known) != 1 or (size := self.sizes.get(one := known.pop(), 0)) < 2:
            return {}, 0
        members = self.members[one]
        whole = len(members) == size and lines.keys() <= members.keys()
        return (members if whole else {}), size

    def _name(self, rank: int, name: str, o: Observation) -> str:
        m = _INDEX_OF_GROUP.search(o.evidence[0].text)
        return self.names.get((rank, m.group(1)), name) if m is not None else name


def _created(observations: Iterable[Observation]) -> _Created:
    found = _Created()
    for o in observations:
        rank, size, of = (number(o.captures.get(name)) for name in ("global_rank", "size", "number"))
        if o.signature != CREATED or rank is None or size is None or of is None:
            continue
        name = default_name(o.captures["group"])
        found.members[name][rank] = of
        found.sizes[name] = size
        if (m := _INDEX_OF_GROUP.search(o.evidence[0].text)) is not None:
            found.names[rank, m.group(1)] = name
    return found


def of_timeouts(observations: Sequence[Observation], signatures: Collection[str]) -> list[Group]:
    """The groups in which ranks timed out, by name."""
    created = _created(observations)
    sizes = _sizes_of_calls(observations, signatures)
    numbers: dict[str, dict[int, int | None]] = defaultdict(dict)
    lines: dict[str, dict[int, Observation]] = defaultdict(dict)
    for o in observations:
        if o.signature in signatures and o.identity.rank is not None and "group" in o.captures:
            m = _NUMBER_IN_GROUP.search(o.evidence[0].text)
            name = default_name(o.captures["group"])
            numbers[name][o.identity.rank] = int(m.group(1)) if m is not None else None
            lines[name].setdefault(o.identity.rank, o)
    found = []
    for name in sorted(numbers):
        members, size = created.of(name, lines[name])
        told = {sizes.get((rank, o.captures.get("seq"))) for rank, o in lines[name].items()}
        found.append(Group(name, numbers[name], lines[name], members, size or (len(told) == 1 and told.pop()) or 0))
    return found


def _sizes_of_calls(
    observations: Iterable[Observation], signatures: Collection[str]
) -> dict[tuple[int, str | None], int]:
    """(rank, number of the call) -> members of its group, where the elements that went in and out tell."""
    sizes: dict[tuple[int, str | None], int] = {}
    for o in observations:
        if o.signature in signatures and o.identity.rank is not None and (m := _SPREAD.search(o.evidence[0].text)):
            part, whole = sorted((int(m[2]), int(m[3])))
            gathers = (m[1] == "ALLGATHER") == (int(m[2]) <= int(m[3]))
            if gathers and part and whole % part == 0 and whole > part:
                sizes[o.identity.rank, o.captures.get("seq")] = whole // part
    return sizes


def missing(groups: Sequence[Group], everyone: Collection[int], waiting: Collection[int]) -> Observation | None:
    """Members that are missing in groups of a part of the ranks, all groups together; None where none is known to be.

    waiting: ranks that complain of a wait themselves; they are no missing ones. A group of the same spacing as another
    is as large where the rank that is then missing in it waits nowhere.
    """
    sizes: dict[int, int] = defaultdict(int)
    for group in groups:
        if (spacing := group.spacing) is not None and len(group.numbers) >= FEWEST:
            sizes[spacing[1]] = max(sizes[spacing[1]], *((n or 0) + 1 for n in group.numbers.values()))
    gone: dict[str, dict[int, int]] = {}
    for group in groups:
        if group.members:
            absent = group.absent(everyone)
            if 0 < len(absent) < len(group.numbers) and not set(absent) & set(waiting):
                gone[group.name] = absent
            continue
        if len(group.numbers) < FEWEST or (spacing := group.spacing) is None:
            continue
        for size in (sizes[spacing[1]], 0):
            absent = group.absent(everyone, size)
            if 0 < len(absent) < len(group.numbers) and not set(absent) & set(waiting):
                gone[group.name] = absent
                break
    if not gone:
        return None
    told = [_without(group, gone[group.name]) for group in groups if group.name in gone]
    culprits = tuple(sorted({rank for ranks in gone.values() for rank in ranks}))
    lines = [group.lines[rank] for group in groups if group.name in gone for rank in sorted(group.lines)]
    others = _apart([group for group in groups if group.name not in gone])
    weight = 0.65 if all(group.members for group in groups if group.name in gone) else 0.55
    return from_lines("collective-timeout", weight, culprits, lines, " ".join([*told, *others]))


def _without(group: Group, absent: Mapping[int, int]) -> str:
    if group.members:
        text = (
            f"{spoken(group.ranks)} timed out in {group.where}; {spoken(absent)}, by what its members printed when it "
            f"was created {plural(absent, 'the only other one', 'the others')}, printed nothing of the kind."
        )
        return text[:1].upper() + text[1:]
    which = f"number{plural(absent, '', 's')} {', '.join(str(n) for n in sorted(absent.values()))}"
    text = (
        f"{spoken(group.ranks)} timed out in {group.where}, evenly spaced by their numbers in it; {which} of it, which "
        f"by the spacing {plural(absent, 'is', 'are')} {spoken(absent)}, printed nothing of the kind."
    )
    return text[:1].upper() + text[1:]


def _apart(groups: Sequence[Group]) -> list[str]:
    return [
        f"{spoken(g.ranks).capitalize()} timed out in {g.where}, where nobody is known to be missing."
        for g in groups[:TOLD]
    ]


def by_group(groups: Sequence[Group]) -> str:
    """Who waits in which group: "ranks 0-3 in group 1 at #88; ranks 4-7 in group 2 at #88"."""
    more = f"; {len(groups) - TOLD} more groups" if len(groups) > TOLD else ""
    return "; ".join(f"{spoken(g.ranks)} in {g.where}" for g in groups[:TOLD]) + more


def crossed(groups: Sequence[Group], everyone: Collection[int]) -> Observation | None:
    """Two groups that wait for members that wait in the other: their ranks call the groups in different orders."""
    for a, b in combinations(groups, 2):
        in_a, in_b = a.absent(everyone), b.absent(everyone)
        if a.ranks & b.ranks or not in_a or not in_b:
            continue
        if in_a.keys() <= b.ranks and in_b.keys() <= a.ranks:
            note = (
                f"{spoken(a.ranks)} {plural(a.ranks, 'waits', 'wait')} in {a.where} for {spoken(in_a)}, "
                f"{plural(in_a, 'which waits', 'which wait')} in {b.where} for {spoken(in_b)}: a circle, in which no "
                "rank is late. The lines do not show which order is the usual one."
            )
            lines = [*(a.lines[r] for r in sorted(a.ranks)[:2]), *(b.lines[r] for r in sorted(b.ranks)[:2])]
            return from_lines("subgroup-order-mismatch", 0.75, (), lines, note)
    return None
