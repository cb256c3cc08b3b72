"""Ranks whose records, or calls, end before those of all others, where everybody went silent.

A host may enqueue some steps more before it has to wait for a peer that stands still, and logs may show every tenth
step only: the rank that stands still is then several steps behind, and not one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from forensics.engine.collectives.observations import vote
from forensics.files import buffered
from forensics.model import Source

# Records by which others may be ahead of a rank that they wait for. CUDA takes about a thousand kernels into a queue
# before a launch blocks, which is a step or a few of any model worth several ranks; a rank that ended long before had
# other reasons to be silent (its log was cut, or nobody waited for it).
FARTHEST = 16
RECORDS = 2  # that others made since, where a rank stopped clearly before them
PAGE = 4096  # bytes: what is held back in a buffer, or lost with a host's cache, begins at a multiple of this
FEWEST_TURNS = 0.5  # part of a shared file's records that follow one of another rank, where none is held back


@dataclass(frozen=True, slots=True)
class End:
    """Where the records of a rank end.

    before: the last but one step; stride: between its records; time: of its last record, seconds; whole: whether its
    log shows no sign that something of it was held back in a buffer when it was killed; at_once: whether it shows that
    nothing was.
    """

    step: int
    before: int
    stride: int
    time: float | None
    file: str
    line: int | None
    whole: bool
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Apart:
    """Ranks at another step than the majority. ahead: else they are behind; by: the steps between."""

    ranks: tuple[int, ...]
    step: int
    usual: int
    ahead: bool
    one_record: bool  # whether the next record would have been the majority's last one


def apart(ends: Mapping[int, End]) -> Apart | None:
    """The minority of three ranks or more that is behind all others, or ahead of them; None where there is none.

    More than one record behind they are a third at most, at one step and below all others, their next record was due
    by the majority's last one, and their clocks agree that they ended first.
    """
    usual, odd = vote({rank: end.step for rank, end in ends.items()})
    if len(ends) < 3 or not odd or not isinstance(usual, int):
        return None
    others = [end for rank, end in ends.items() if rank not in odd]
    if {ends[rank].step for rank in odd} == {end.before for end in others} and max(e.before for e in others) < usual:
        return Apart(odd, ends[odd[0]].step, usual, ahead=False, one_record=True)
    if 3 * len(odd) > len(ends):
        return None
    stride = max(end.stride for end in others)
    if all(ends[rank].step > usual for rank in odd):
        step = max(ends[rank].step for rank in odd)
        farthest = tuple(rank for rank in odd if ends[rank].step == step)
        same = all(ends[rank].stride == stride for rank in farthest)
        return Apart(farthest, step, usual, ahead=True, one_record=False) if same and step - usual > stride else None
    if any(ends[rank].step > usual for rank in odd):
        return None
    step = min(ends[rank].step for rank in odd)
    farthest = tuple(rank for rank in odd if ends[rank].step == step)
    first = min((end.time for rank, end in ends.items() if rank not in farthest and end.time is not None), default=None)
    for end in (ends[rank] for rank in farthest):
        due = end.step + end.stride <= usual and (usual - end.step) <= FARTHEST * stride
        if not due or not end.whole or end.time is None or first is None or end.time >= first:
            return None
    return Apart(farthest, step, usual, ahead=False, one_record=False)


def clearly(odd: Apart, ends: Mapping[int, End], least: float) -> bool:
    """Whether ranks stopped while the others made several more records, and each was written at once.

    That alone shows that the others came to wait for them, whatever is known of when the run was stopped: a stop from
    outside ends all ranks within `least` seconds of each other, and none goes on for long without its peers.
    """
    if odd.ahead or odd.one_record or not all(ends[rank].at_once for rank in odd.ranks):
        return False
    own = [ends[rank] for rank in odd.ranks]
    rest = [end for end in ends.values() if end.step == odd.usual]
    stride = max(end.stride for end in (*own, *rest))
    stopped = max((end.time for end in own if end.time is not None), default=None)
    went_on = min((end.time for end in rest if end.time is not None), default=None)
    if stopped is None or went_on is None:
        return False
    return odd.usual - odd.step >= RECORDS * stride and went_on - stopped > least


def behind_in_calls(last: Sequence[Mapping[int, int]]) -> tuple[int, ...]:
    """The minority of ranks whose last call comes before that of all others. last: rank -> number, of each group.

    A rank that waits in one group for a member which did not come is behind in its other groups: only ranks that are
    nowhere ahead of another one are named.
    """
    behind: set[int] = set()
    waited: set[int] = set()
    for numbers in last:
        usual, odd = vote(numbers)
        if len(numbers) < 3 or not odd or not isinstance(usual, int):
            continue
        if any(numbers[rank] > usual for rank in odd):
            return ()
        if any(numbers[rank] < usual - 1 for rank in odd) and 3 * len(odd) > len(numbers):
            return ()
        behind.update(odd)
        waited.update(numbers.keys() - set(odd))
    everyone = {rank for numbers in last for rank in numbers}
    found = behind - waited
    return tuple(sorted(found)) if 2 * len(found) < len(everyone) else ()


def unheld(source: Source) -> bool:
    """Whether a log ends where its program ended a line, and not where a full buffer was written."""
    if source.size < PAGE:
        return source.size > 0
    try:
        with buffered(source.file) as stream:
            stream.seek(source.size - 1)
            return source.size % PAGE != 0 and stream.read(1) == b"\n"
    except (OSError, ValueError):
        return False


def in_turns(ranks: Sequence[int | None]) -> bool:
    """Whether records of several ranks in one file stand between each other, as lines written at once do."""
    turns = sum(a != b for a, b in pairwise(ranks))
    return turns >= FEWEST_TURNS * (len(ranks) - 1)


def stride_of(steps: Sequence[int]) -> int:
    """The usual step between the last records, at least 1."""
    last = steps[-(FARTHEST + 1) :]
    moves = sorted(b - a for a, b in pairwise(last) if b > a)
    return moves[len(moves) // 2] if moves else 1
