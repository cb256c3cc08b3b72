"""Flight Recorder dumps compared rank by rank: who made another call, who came from another line, who left no dump.

Ranks are compared inside one process group only: sequence numbers of different groups have nothing in common.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.collectives.calls import SAME_INPUT, Call, Group, declared, groups_of
from forensics.engine.collectives.logs import STOPS, TIMEOUTS, Logs
from forensics.engine.collectives.observations import (
    DEFAULT_GROUPS,
    at_place,
    base,
    in_group,
    no_majority,
    number,
    observe,
    plural,
    spoken,
    vote,
)
from forensics.engine.collectives.p2p import point_to_point
from forensics.engine.collectives.waits import ON_DEVICE, SCHEDULED, STARTED, inverted, waits
from forensics.model import UNRECORDED, Observation

if TYPE_CHECKING:
    import polars as pl

# Calls by which a log must end before the others' to be told: a program is often a few ahead of what its peers began.
FEWER = 8
TOGETHER = 2  # calls within which logs that were written at one time end


def from_dumps(table: pl.DataFrame, logs: Logs, everyone: frozenset[int], dumped: set[int]) -> list[Observation]:
    if table.is_empty():
        return []
    groups = groups_of(table)
    if not groups:
        return point_to_point(table, [], logs)
    differing = [group for group in groups if group.mismatch is not None]
    ends = _with_known_ends(table)
    if ends.height < table.height:
        table, groups = ends, groups_of(ends)
    known = {group.key: group for group in groups}
    later = {group.key: group for group in differing if _hung_before(group, known.get(group.key), logs, everyone)}
    found = [o for group in differing if group.key not in later and (o := _mismatch(group, logs)) is not None]
    settled = {group.key for group in differing} - set(later)
    calm = [group for group in groups if group.key not in settled]
    if not found:
        found += point_to_point(table, calm, logs)
    if not logs.trouble:  # how far each rank came when a log ended proves nothing where nothing waited
        if not found and not logs.raised:
            stopped = any(o.signature in STOPS for o in logs.observations)
            found += [o for group in calm if (o := _fewer_calls(group, stopped)) is not None][:1]
        calm = [group for group in calm if not group.traced]
        if found:
            return found
    if not found:
        found += [_with_later(o, later) for o in waits(calm, logs)]
    calm = [group for group in calm if not group.traced]
    if not found:
        found += inverted(calm)
    if not found:
        found += [o for group in calm if (o := _device_behind(group, logs)) is not None][:1]
    if not found:
        found += [o for group in calm if (o := _not_begun(group, calm, logs)) is not None][:1]
    if not found:
        found += [o for group in calm if (o := _other_line(group, logs)) is not None]
    if not found:
        found += _no_dump(table, calm, logs, everyone, dumped)
    return found


def _with_known_ends(table: pl.DataFrame) -> pl.DataFrame:
    """The rows without the calls of dumps that are cut: what their ranks called last is not known.

    Such a dump has a row without an op beside its calls; that row stays, as of a dump that could not be read.
    """
    import polars as pl

    unread = pl.col("op").is_null()
    return table.filter(unread | ~unread.any().over("rank", "source"))


def _hung_before(group: Group, known: Group | None, logs: Logs, everyone: Collection[int]) -> bool:
    """Whether a group hung in a call before the first one on which its ranks differ.

    NCCL's calls are enqueued and return at once: a program runs on past the one that hangs, and what its ranks do
    differently there is not what stopped them.

    known: the group as the dumps tell it whose ends are known; None where there are none. everyone: all ranks.
    """
    seq = group.mismatch
    if seq is None or known is None:
        return False
    missed = min(call.seq for call in known.last.values()) + 1  # which the slowest rank never called
    if known.traced:  # a log may also have been cut or copied early, so that its end proves something in trouble only
        return bool(logs.trouble) and (missed < seq or _timed_out_before(group, seq, logs, everyone))
    pending = [call.seq for call in known.waiting.values()]
    if missed < seq and any(call <= missed for call in pending):
        return True
    return len(pending) == len(known.last) and max(pending) < seq


def _timed_out_before(group: Group, seq: int, logs: Logs, everyone: Collection[int]) -> bool:
    """Whether a rank that differs from the others at `seq` timed out, at a lower number, in the others' operation.

    The numbers alone do not tell: a watchdog counts what PyTorch was asked for, NCCL the calls that this became.
    """
    if group.key[0] not in DEFAULT_GROUPS and group.members != frozenset(everyone):
        return False
    usual, odd = vote({rank: call.op for rank, call in group.at(seq).items()})
    return any(
        o.identity.rank in odd
        and o.signature in TIMEOUTS
        and o.captures.get("group", "0") in DEFAULT_GROUPS
        and (at := number(o.captures.get("seq"))) is not None
        and at < seq
        and _plain(o.captures.get("op", "")) == _plain(str(usual))
        for o in logs.observations
    )


def _plain(op: str) -> str:
    """One spelling for an operation: "_ALLGATHER_BASE" and "all_gather" are "allgather"."""
    return op.lower().replace("_", "").removesuffix("base")


def _with_later(o: Observation, later: Mapping[tuple[str, str], Group]) -> Observation:
    """A finding on a wait, with the calls that differ after it in words."""
    if not later:
        return o
    said = ", ".join(f"#{group.mismatch} of {in_group(key)}" for key, group in sorted(later.items())[:4])
    return replace(o, note=f"{o.note} Calls differ later as well, at {said}: that is not what hung first.")


def _mismatch(group: Group, logs: Logs) -> Observation | None:
    """Ranks that met at one sequence number with different calls."""
    if group.mismatch is None:
        return None
    calls = group.at(group.mismatch)
    helper = group.unnamed and all(call.dtypes == '["Long"]' and "gather" in call.op for call in calls.values())
    values: dict[int, str | None] = {}
    aspect = ""
    for aspect in ("op", "sizes", "dtypes"):
        values = {
            rank: getattr(call, aspect)
            for rank, call in calls.items()
            if (call.op != UNRECORDED if aspect == "op" else getattr(call, aspect) is not None)
            and (aspect != "sizes" or call.op in SAME_INPUT)
        }
        if len(set(values.values())) > 1:
            break
    else:  # nothing to compare: it was another column that differed
        return None
    voters: dict[int, Hashable] = dict(values)
    if aspect == "sizes":
        voters |= _enforce_votes(values, logs)
    _, odd = vote(voters)
    odd = tuple(rank for rank in odd if rank in values)
    crowd = [call for rank, call in calls.items() if rank not in odd]
    slug = {"sizes": "shape", "dtypes": "dtype"}.get(aspect, aspect)
    signature, weight = f"collective-{slug}-mismatch", 0.9
    if helper:
        signature, weight = "collective-desync", 0.5
    elif odd and _other_branch([calls[rank] for rank in odd], crowd):
        signature, weight = _branch(group, [calls[rank] for rank in odd], crowd, logs, slug)
    elif not odd and aspect == "op" and len({call.frame for call in calls.values()}) > 1:
        signature, weight = "collective-desync", 0.8
    if group.unnamed:
        weight = min(weight, 0.5)
    parts = defaultdict(list)
    for rank in sorted(calls):
        call = calls[rank]
        what = call.op if aspect == "op" else f"{call.op} of {values.get(rank)}"
        parts[what + (f" at {call.place}" if call.place else "")].append(rank)
    said = "; ".join(f"{spoken(ranks)} called {what}" for what, ranks in sorted(parts.items(), key=lambda p: len(p[1])))
    end = "" if odd else f" {no_majority(len(values))}"
    shown = [calls[rank] for rank in (*odd, *(r for r in sorted(calls) if r not in odd))]
    printed = {call.printed for call in calls.values()}
    at = f"#{group.mismatch}" + (f" ({one})" if len(printed) == 1 and (one := next(iter(printed))) else "")
    return observe(signature, weight, odd, shown, f"At {at} of {in_group(group.key)} {said}.{end}", group.mismatch)


def _fewer_calls(group: Group, stopped: bool) -> Observation | None:
    """A minority of ranks whose NCCL log ends many calls before those of all others, which end together.

    stopped: the run was ended from outside, when it may have hung. Then one call counts, where all others ended at the
    same one; nothing but the logs of all ranks shows that.
    """
    if not group.traced or group.unnamed or len(group.last) < 3 or set(group.last) != set(declared(group.key[1])):
        return None
    end = max(call.seq for call in group.last.values())
    fewer, together = (1, 0) if stopped else (FEWER, TOGETHER)
    behind = {rank: call for rank, call in group.last.items() if call.seq <= end - fewer}
    ahead = {rank: call for rank, call in group.last.items() if call.seq >= end - together}
    if not behind or 2 * len(behind) >= len(group.last) or len(behind) + len(ahead) < len(group.last):
        return None
    said = "; ".join(f"rank {rank} in {call.name}" for rank, call in sorted(behind.items())[:8])
    last = ahead[min(ahead)]
    most = end - min(call.seq for call in behind.values())
    many = "one call" if most == 1 else f"{'up to ' if len(behind) > 1 else ''}{most} calls"
    note = (
        f"the NCCL log of {spoken(behind)} ends {many} before those of the others: {said}, {spoken(ahead)} at "
        f"{last.name}. A log that was cut, or copied earlier, looks the same, and a program may be some calls ahead of "
        f"its GPU: it proves a lag only where the others are seen to wait"
    )
    if most < FEWER:
        note += ". So few calls may have been in a buffer still, or on their way, when the run was stopped"
    shown = [behind[rank] for rank in sorted(behind)] + [last]
    weight = 0.5 if most >= FEWER else 0.4
    return observe("nccl-calls-behind", weight, tuple(sorted(behind)), shown, note[0].upper() + note[1:], last.seq)


def _enforce_votes(values: Mapping[int, str | None], logs: Logs) -> dict[int, Hashable]:
    """Sides that ranks without a dump take: gloo aborts a rank that is sent more bytes than it expects.

    Its message gives both sizes; if their ratio is that of the two sizes seen, the rank expected the smaller one.
    """
    sizes = {text: _numel(text) for text in set(values.values()) if text}
    if len(sizes) != 2 or any(not n for n in sizes.values()):
        return {}
    (small, less), (_, more) = sorted(sizes.items(), key=lambda item: item[1])
    votes: dict[int, Hashable] = {}
    for o in logs.observations:
        got, expected, rank = number(o.captures.get("got")), number(o.captures.get("expected")), o.identity.rank
        if got and expected and rank is not None and rank not in values and got * less == expected * more:
            votes[rank] = small
    return votes


def _numel(text: str) -> int:
    total = 0
    for shape in re.findall(r"\[([\d, ]*)\]", text.removeprefix("[").removesuffix("]")):
        product = 1
        for size in re.findall(r"\d+", shape):
            product *= int(size)
        total += product
    return total


def _other_branch(odd: Sequence[Call], crowd: Sequence[Call]) -> bool:
    """Whether the odd ranks' calls stand on lines of code where nobody else's stands."""
    theirs = {call.frame for call in crowd}
    return bool(odd) and None not in theirs and all(c.frame is not None and c.frame not in theirs for c in odd)


def _branch(group: Group, odd: Sequence[Call], crowd: Sequence[Call], logs: Logs, what: str) -> tuple[str, float]:
    """What it is when some ranks were at another line of code: the name that the evidence proves, else the parent's."""
    ranks, others = [call.rank for call in odd], [call.rank for call in crowd]
    if logs.finished_before(ranks, others):
        return "uneven-inputs", 0.85
    if ranks == [0]:  # code for rank 0 only is what programs have; code for one other rank hardly exists
        return "rank-conditional-collective", 0.85
    seen = all(group.has(others, "frame", call.frame) for call in odd)
    if seen and all(group.has(ranks, "frame", call.frame) for call in crowd):
        return "uneven-inputs", 0.7  # the others come by that line as well: these ranks came early
    if what == "op" and any("barrier" in call.op for call in (*odd, *crowd)):
        return "collective-desync", 0.8
    return f"collective-{what}-mismatch", 0.85


def _other_line(group: Group, logs: Logs) -> Observation | None:
    """The same call, unfinished, from another line of code on some ranks: weak, since `if rank == 0: broadcast()
    else: broadcast()` is how people write it."""
    if group.frames is None:
        return None
    calls = {rank: call for rank, call in group.at(group.frames).items() if call.frame is not None}
    usual, odd = vote({rank: call.frame for rank, call in calls.items()})
    if usual is None or not odd:
        return None
    note = (
        f"At #{group.frames} of {in_group(group.key)}, which does not finish, {spoken(odd)} came from "
        f"{calls[odd[0]].place} and the others from {base(str(usual))}."
    )
    shown = [calls[rank] for rank in (*odd, *(r for r in sorted(calls) if r not in odd))]
    return observe("collective-desync", 0.45, odd, shown, note, group.frames)


def _device_behind(group: Group, logs: Logs) -> Observation | None:
    """Ranks that have enqueued as much as the others, and whose GPU has not finished what the others' have.

    Only where the recorder asks the device (NCCL): entries of gloo do not tell.
    """
    import polars as pl

    told = set(group.table.filter(pl.col("state") == "completed")["rank"].unique())
    pending = {rank: call.seq for rank, call in group.waiting.items() if rank in told}
    reached = {rank: pending.get(rank, call.seq + 1) for rank, call in group.last.items() if rank in told}
    usual, odd = vote(reached)
    late = tuple(rank for rank in odd if isinstance(usual, int) and reached[rank] < usual)
    if not late or late != odd or not set(late) <= set(pending):
        return None
    call = group.waiting[late[0]]
    note = (
        f"{spoken(late)} {plural(late, 'has', 'have')} enqueued as much as the others in {in_group(group.key)}, and "
        f"{plural(late, 'its', 'their')} GPU has not finished {call.name}{at_place(call)}, which all others have: "
        f"{plural(late, 'it hangs', 'they hang')} on the device or in the network, and not in the program."
    )
    peers = [group.waiting.get(rank, group.last[rank]) for rank in sorted(reached) if rank not in late]
    shown = [group.waiting[rank] for rank in late] + peers
    return observe(ON_DEVICE, 0.75 if logs.trouble else 0.45, late, shown, note, call.seq, call)


def _not_begun(group: Group, groups: Sequence[Group], logs: Logs) -> Observation | None:
    """Ranks whose GPU has not begun the call in which most others' GPUs are, though all ranks have enqueued it.

    A call is "started" once the GPU has reached it, which the recorder sees only where it times calls
    (TORCH_NCCL_ENABLE_TIMING): elsewhere every pending call is "scheduled" on all ranks. PyTorch's own analyser calls
    this COLLECTIVE_STATE_MISMATCH, and blames whoever differs from the first rank. Nobody is named here whose GPU is
    in a call of another group: what holds it up is the wait there.
    """
    calls = group.waiting
    if set(calls) != set(group.members) or len({call.seq for call in calls.values()}) != 1:
        return None
    usual, late = vote({rank: call.state for rank, call in calls.items()})
    if usual != STARTED or not late or any(calls[rank].state != SCHEDULED for rank in late):
        return None
    if any(call.state == STARTED for other in groups for rank, call in other.waiting.items() if rank in late):
        return None
    call = calls[late[0]]
    others = [rank for rank in calls if rank not in late]
    note = (
        f"All ranks of {in_group(group.key)} have enqueued {call.name}{at_place(call)}; the recorders of "
        f"{spoken(others)} say that it is started, {plural(late, 'that', 'those')} of {spoken(late)} only that it is "
        f"scheduled: {plural(late, 'its', 'their')} GPU has not come to it, and is held up by work that was enqueued "
        f"before it."
    )
    shown = [calls[rank] for rank in (*late, *sorted(others))]
    return observe(ON_DEVICE, 0.7 if logs.trouble else 0.45, late, shown, note, call.seq, call)


def _no_dump(
    table: pl.DataFrame, groups: Sequence[Group], logs: Logs, everyone: frozenset[int], dumped: set[int]
) -> list[Observation]:
    """Nobody who left a dump is behind. A rank that left none may be, or one whose dump tells no call.

    Such a dump (cut off, damaged, of a recorder that was off) has one row without an op.
    """
    stuck = [(group, dict(group.waiting)) for group in groups if group.waiting and not group.unnamed]
    if not stuck:
        return []
    group, calls = max(stuck, key=lambda item: (len(item[1]), item[0].key[0] in DEFAULT_GROUPS, item[0].key))
    call = min(calls.values(), key=lambda c: c.seq)
    whole = group.key[0] in DEFAULT_GROUPS and not declared(group.key[1])
    members = everyone if whole else group.members
    told = {rank for rank in table.filter(table["op"].is_not_null())["rank"].to_list() if rank is not None}
    gone = sorted(members - (dumped & told))
    shown = sorted(calls.values(), key=lambda c: c.rank)
    head = f"{spoken(calls)} {plural(calls, 'waits', 'wait')} in {call.name}{at_place(call)}"
    left = _left(gone, dumped)
    if gone and len(gone) < len(members & told):
        if logs.finished_before(gone, sorted(calls)):
            note = f"{head}; {spoken(gone)} had come to the end of an epoch that the others had not, and {left}."
            return [observe("uneven-inputs", 0.75, tuple(gone), shown, note, call.seq, call)]
        if set(gone) <= set(logs.finished) and not set(calls) & set(logs.finished):
            said = logs.finished[gone[0]].evidence[0]
            note = f'{head}; {spoken(gone)} had said that all was done ("{said.text.strip()[:120]}"), and {left}.'
            found = observe("rank-exited-early", 0.75, tuple(gone), shown, note, call.seq, call)
            return [replace(found, evidence=(said, *found.evidence))]
        silent = not any(o.identity.rank in gone for o in logs.observations)
        # A watchdog that stops its process after its own time-out lost nobody, and who left a dump was still there.
        lost = logs.closed.keys() - logs.timed_out.keys()
        early = silent and not dumped & set(gone) and bool(lost) and len(lost) >= len(logs.timed_out)
        signature = "rank-exited-early" if early else "collective-timeout"
        note = f"{head} and nobody with a dump is behind; {left}."
        return [observe(signature, 0.6, tuple(gone), shown, note, call.seq, call)]
    if len(calls) < 2 and not (logs.trouble and set(calls) == members):
        return []
    if gone:
        why = left
    elif set(calls) == members:
        why = "every rank has called it: it hangs on the device or in the network (a link, a GPU, a kernel before it)"
    else:
        why = "suspect a link, a GPU, or a call that the recorder does not show"
    note = f"{head}, and no rank that left a dump is behind or different: nobody can be named ({why})."
    return [observe("collective-timeout", 0.5 if logs.trouble else 0.4, (), shown, note, call.seq, call)]


def _left(gone: Sequence[int], dumped: Collection[int]) -> str:
    """What is missing of ranks whose calls are not known, in words."""
    none, silent = [r for r in gone if r not in dumped], [r for r in gone if r in dumped]
    parts = [f"{spoken(none)} left no dump (or it was not collected)"] if none else []
    if silent:
        parts.append(f"no call can be read in the {plural(silent, 'dump', 'dumps')} of {spoken(silent)}")
    return ", and ".join(parts)
