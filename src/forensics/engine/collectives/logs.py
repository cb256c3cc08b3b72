"""What the ranks' logs state about collectives: timeouts, counters, fingerprints, silence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from forensics.engine.collectives.batches import have_fewer
from forensics.engine.collectives.groups import by_group, crossed, default_name, missing, of_timeouts
from forensics.engine.collectives.observations import (
    fix_of_ahead,
    fix_of_behind,
    from_lines,
    in_group,
    no_majority,
    number,
    ordered,
    plural,
    spoken,
    vote,
)
from forensics.engine.collectives.watchdogs import STUCK
from forensics.engine.hangs import printed_after, waited_long
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Observation, Traceback

# Operations with the same number of elements on every rank, as the watchdog prints them (c10d OpType).
SAME_NUMEL = (
    "ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER",
    "_REDUCE_SCATTER_BASE", "GATHER",
)  # fmt: skip
# Calls between two ranks: each pair counts its own, and a send meets a receive, so that neither is compared over ranks.
PAIRED = ("SEND", "RECV", "RECVANYSOURCE", "COALESCED")
# What a rank prints because a collective did not end, and because a peer's connection did.
TIMEOUTS = ("collective-timeout",)
SIGNAL = "nccl-dump-signal"
FINISHED = "run-finished"
STOPS = ("scheduler-time-limit", "external-sigterm", "keyboard-interrupt")  # how people and limits end a run that hangs
CLOSED = ("gloo-connection-closed", "nccl-watchdog-abort", "broken-pipe")
ANY_SOCKET = "broken-pipe"  # of one rank alone it is as likely a socket of its own code
# What an exception says that is about a peer and not about the rank that raised it.
PEER = (
    "Timed out waiting", "Connection closed by peer", "Connection reset by peer", "Read error", "NCCL",
    "Detected mismatch between collectives", "monitoredBarrier", "Application timeout caused pair closure",
)  # fmt: skip
FEWEST = 4  # ranks of a run in which all but one are enough to blame that one, where no group holds all of them
NEXT_TIME = (
    "set TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before torch 2.8) and TORCH_NCCL_DUMP_ON_TIMEOUT=1, "
    "and keep the dump and the log of every rank"
)


@dataclass(frozen=True, slots=True)
class Logs:
    """What the log observations say about collectives, by rank."""

    observations: tuple[Observation, ...]
    timed_out: Mapping[int, Observation]
    closed: Mapping[int, Observation]
    epochs: Mapping[int, Mapping[str, int]]  # rank -> epoch that it says it has finished -> its steps (-1 unknown)
    raised: frozenset[int]  # ranks with an exception of their own, not one about a peer
    stuck: frozenset[int] = frozenset()  # ranks whose watchdog hangs itself
    finished: Mapping[int, Observation] = field(default_factory=dict)  # ranks that say that they reached the end
    batches: Mapping[int, int] = field(default_factory=dict)  # rank -> how many it has, where the fewest have run out

    @property
    def trouble(self) -> bool:
        return bool(self.timed_out or self.closed or self.stuck)

    def left(self, ranks: Collection[int]) -> bool:
        """Whether these ranks went away, as opposed to being there and not coming."""
        return bool(self.raised & set(ranks)) or (bool(self.closed) and not self.timed_out)

    def _later(self, rank: int, epoch: str, steps: int) -> bool:
        theirs = self.epochs.get(rank, {})
        return epoch not in theirs or theirs[epoch] > steps >= 0

    def finished_before(self, ranks: Collection[int], others: Collection[int]) -> bool:
        """Whether each of `ranks` says that an epoch is over which none of `others` has finished, or in fewer steps.

        Or whether it has fewer batches than all of these, and has just come to the end of them.
        """

        def ahead(rank: int) -> bool:
            return any(
                all(self._later(other, epoch, steps) for other in others)
                for epoch, steps in self.epochs.get(rank, {}).items()
            )

        if have_fewer(self.batches, [*ranks], [*others]):
            return True
        return bool(ranks) and bool(others) and all(ahead(rank) for rank in ranks)


def read_logs(
    observations: Sequence[Observation],
    tracebacks: Sequence[Traceback],
    batches: Mapping[int, int] = MappingProxyType({}),
) -> Logs:
    """batches: `batches.at_the_end` of these observations."""
    timed_out: dict[int, Observation] = {}
    closed: dict[int, Observation] = {}
    finished: dict[int, Observation] = {}
    stuck: set[int] = set()
    epochs: dict[int, dict[str, int]] = defaultdict(dict)
    unnumbered: dict[tuple[int, str], int] = defaultdict(int)
    for o in observations:
        rank = o.identity.rank
        if rank is None:
            continue
        if o.signature in TIMEOUTS:
            timed_out.setdefault(rank, o)
        elif o.signature in CLOSED:
            closed.setdefault(rank, o)
        elif o.signature == STUCK:
            stuck.add(rank)
        elif o.signature == FINISHED:
            finished.setdefault(rank, o)
        elif o.signature == "epoch-finished":
            steps = number(o.captures.get("steps"))
            epoch = o.captures.get("epoch")
            if epoch is None:  # "epoch done": the n-th such line of a file is the n-th epoch
                unnumbered[rank, o.evidence[0].file] += 1
                epoch = f"#{unnumbered[rank, o.evidence[0].file]}"
            epochs[rank][epoch] = -1 if steps is None else steps
    if {o.signature for o in closed.values()} == {ANY_SOCKET} and len(closed) == 1:
        closed.clear()
    raised = {
        t.identity.rank
        for t in tracebacks
        if t.identity.rank is not None and not any(text in t.message for text in PEER)
    }
    return Logs(tuple(observations), timed_out, closed, epochs, frozenset(raised), frozenset(stuck), finished, batches)


def fingerprints(logs: Logs) -> list[Observation]:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL printed. Each rank names the first rank unlike itself: all are counted.

    A rank knows its own call. What it read of another one's may be a helper collective of the comparison itself (which
    says sequence number 0, and another operation), so that a rank's own line wins over what others say of it.
    """
    lines = [o for o in logs.observations if {"rank_a", "rank_b", "op_a", "op_b"} <= set(o.captures)]
    real = [o for o in lines if (o.captures.get("seq_a") == "0") == (o.captures.get("seq_b") == "0")]
    prints: dict[int, dict[str, str | None]] = {}
    for side, told in (("a", lines), ("b", real), ("b", [] if real else lines)):
        for o in told:
            if (rank := number(o.captures[f"rank_{side}"])) is not None:
                said = {what: o.captures.get(f"{what}_{side}") for what in ("op", "shape", "dtype", "seq")}
                prints.setdefault(rank, said)
    for what in ("op", "shape", "dtype", "seq"):
        values = {rank: said[what] for rank, said in prints.items() if said[what] is not None}
        if len(set(values.values())) > 1:
            break
    else:
        return []
    _, odd = vote(values)
    signature = "collective-desync" if what == "seq" else f"collective-{what}-mismatch"
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, value in sorted(values.items()):
        said = prints[rank]
        text = {"op": f"{value}", "shape": f"{said['op']} of [{value}]", "dtype": f"{said['op']} of {value}"}
        groups[text.get(what, f"collective #{value}")].append(rank)
    note = "; ".join(f"{spoken(ranks)} called {t}" for t, ranks in sorted(groups.items(), key=lambda g: len(g[1])))
    own = {rank for o in lines if (rank := number(o.captures["rank_a"])) is not None}
    seq = prints[min(own & set(values), default=min(values))]["seq"]
    end = "" if odd else f" {no_majority(len(values))}"
    if not odd and len(values) == 2:  # both are named: one of the two is at fault, and only the user can tell which
        odd = tuple(sorted(values))
    at = f"At #{seq} " if seq is not None and what != "seq" else ""
    first = sorted(real or lines, key=lambda o: o.identity.rank not in odd)
    return [from_lines(signature, 0.95, odd, first, f"{at}{note}.{end}")]


def lagging(logs: Logs, everyone: Collection[int]) -> list[Observation]:
    """What the NCCL watchdogs printed: who is stuck where, and who only said how far it had come.

    everyone: all ranks of the run, as far as they are known.
    """
    stuck: dict[str, dict[int, Observation]] = defaultdict(dict)  # group -> rank -> its first timeout
    unknown: dict[int, list[Observation]] = defaultdict(list)
    timeouts = [o for o in logs.observations if o.signature in TIMEOUTS and "seq" in o.captures]
    paired = {(o.identity.rank, o.captures["seq"]) for o in timeouts if o.captures.get("op") in PAIRED}
    for o in timeouts:
        rank = o.identity.rank
        if rank is None or (rank, o.captures["seq"]) in paired:
            continue
        if group := o.captures.get("group"):
            known = stuck[default_name(group)].get(rank)
            if known is None or int(o.captures["seq"]) < int(known.captures["seq"]):
                stuck[default_name(group)][rank] = o
        else:
            unknown[rank].append(o)
    apart = [_stuck_apart(group, ranks, unknown) for group, ranks in sorted(stuck.items())]
    found = [_out_of_data(o, ranks, logs) for o, ranks in zip(apart, (r for _, r in sorted(stuck.items())), strict=True)
             if o is not None]  # fmt: skip
    found += _behind_in_logs(logs, stuck, unknown, len(everyone))
    if found or stuck:
        return found
    # Without a group in the line only equal numbers are comparable, and only if every rank prints one.
    firsts = {rank: min(lines, key=lambda o: int(o.captures["seq"])) for rank, lines in unknown.items()}
    if len({o.captures["seq"] for o in firsts.values()}) == 1:
        one = _stuck_apart(None, firsts, unknown)
        found += [_out_of_data(one, firsts, logs)] if one is not None else []
    elif firsts.keys() == everyone and (odd := _one_call_apart(unknown)) is not None:
        one = _stuck_apart(None, firsts, unknown)
        found += [replace(one, weight=0.6)] if one is not None and one.culprits == (odd,) else []
    return found


def _one_call_apart(lines: Mapping[int, Sequence[Observation]]) -> int | None:
    """The one rank that is a call ahead or behind of all others, which wait in the same call; None where there is none.

    lines: rank -> its timeouts. Those before torch 2.3 name no group. A rank that waits in a smaller group, which may
    count otherwise, waits for others all the same, and these are in the one call that it did not make. A rank that
    tells of several numbers may be several, each of a group of its own.
    """
    calls = {rank: {(int(o.captures["seq"]), o.captures.get("op"), o.captures.get("numel")) for o in own}
             for rank, own in lines.items()}  # fmt: skip
    if len(calls) < FEWEST or any(len(told) != 1 for told in calls.values()):
        return None
    seqs = {rank: next(iter(told))[0] for rank, told in calls.items()}
    _, odd = vote(seqs)
    if len(odd) != 1:
        return None
    others = set().union(*(told for rank, told in calls.items() if rank != odd[0]))
    return odd[0] if len(others) == 1 and abs(seqs[odd[0]] - next(iter(others))[0]) == 1 else None


def _out_of_data(o: Observation, ranks: Collection[int], logs: Logs) -> Observation:
    """Ranks that are stuck apart from the others, as ranks that ran out of batches where that is what they did."""
    odd = o.culprits or ()
    if not odd or not logs.finished_before(odd, [rank for rank in ranks if rank not in odd]):
        return o
    note = f"{o.note} {spoken(odd).capitalize()} had come to the end of an epoch that the others had not."
    return replace(o, signature="uneven-inputs", note=note, fix=())


def _stuck_apart(
    group: str | None, ranks: Mapping[int, Observation], details: Mapping[int, Sequence[Observation]]
) -> Observation | None:
    """Ranks of one group that are stuck at different numbers, or at one number in different calls."""
    where = "" if group is None else f" of {in_group((group, ''))}"
    seqs = {rank: int(o.captures["seq"]) for rank, o in ranks.items()}
    if len(set(seqs.values())) > 1:
        _, odd = vote(seqs)
        at: dict[int, list[int]] = defaultdict(list)
        for rank, seq in seqs.items():
            at[seq].append(rank)
        said = "; ".join(f"{spoken(there)} at #{seq}" for seq, there in sorted(at.items())[:8])
        end, fix = _directions(seqs, odd) if odd else (f" {no_majority(len(seqs))}", ())
        note = f"The ranks are stuck apart{where}: {said}.{end}"
        return replace(from_lines("collective-desync", 0.7, odd, ordered(ranks, odd), note), fix=fix)
    calls = {}
    for rank, o in ranks.items():
        same = [d for d in (o, *details.get(rank, ())) if "op" in d.captures and d.captures["seq"] == o.captures["seq"]]
        if len({(d.captures["op"], d.captures.get("numel")) for d in same}) == 1:
            calls[rank] = same[0]
    for what in ("op", "numel"):
        values = {
            rank: o.captures[what]
            for rank, o in calls.items()
            if what in o.captures and (what == "op" or o.captures["op"] in SAME_NUMEL)
        }
        if len(values) == len(ranks) and len(set(values.values())) > 1:
            _, odd = vote(values)
            inside: dict[str, list[int]] = defaultdict(list)
            for rank, value in values.items():
                size = f" of {value} elements" if what == "numel" else ""
                inside[f"{calls[rank].captures['op']}{size}"].append(rank)
            few_first = sorted(inside.items(), key=lambda item: (len(item[1]), min(item[1])))
            said = "; ".join(f"{spoken(there)} in {call}" for call, there in few_first[:8])
            signature = "collective-op-mismatch" if what == "op" else "collective-shape-mismatch"
            end = "" if odd else f" {no_majority(len(values))}"
            seq = next(iter(seqs.values()))
            return from_lines(
                signature, 0.8 if group else 0.6, odd, ordered(calls, odd), f"At #{seq}{where} {said}.{end}"
            )
    return None


def _directions(seqs: Mapping[int, int], odd: Collection[int]) -> tuple[str, tuple[str, ...]]:
    """Which of the odd ranks are ahead of the number where all the rest wait, and which are behind: in words, and what
    to do about either.

    seqs: rank -> number of the call in which it waits; all ranks outside `odd` share one.
    """
    usual = next(seq for rank, seq in seqs.items() if rank not in odd)
    ahead = [rank for rank in odd if seqs[rank] > usual]
    behind = [rank for rank in odd if seqs[rank] < usual]
    said = ""
    fix = ((fix_of_ahead(ahead, usual),) if ahead else ()) + ((fix_of_behind(behind, usual),) if behind else ())
    if ahead:
        it = plural(ahead, "it is", "they are")
        said += (
            f" {spoken(ahead).capitalize()} {plural(ahead, 'is', 'are')} ahead: {it} past #{usual}, in which the "
            "others wait, and made a call that those did not make, or did not wait for them in one."
        )
    if behind:
        it = plural(behind, "it has", "they have")
        said += (
            f" {spoken(behind).capitalize()} {plural(behind, 'is', 'are')} behind: {it} not reached #{usual}, in which "
            f"the others wait, and skipped a call of theirs or {plural(behind, 'hangs', 'hang')} in an earlier one."
        )
    return said, fix


def _behind_in_logs(
    logs: Logs,
    stuck: Mapping[str, Mapping[int, Observation]],
    unknown: Mapping[int, Sequence[Observation]],
    size: int,
) -> list[Observation]:
    """Ranks that timed out in nothing, and said on being told of the timeout that they had enqueued less.

    Where all the rest of the run's `size` ranks completed one number, the minority that waits in the next is ahead.

    Those counters are the default group's, whatever group hangs.
    """
    victims = dict(stuck.get("0", {}))
    if not stuck:
        victims = {r: min(lines, key=lambda o: int(o.captures["seq"])) for r, lines in unknown.items()}
        if len({o.captures["seq"] for o in victims.values()}) > 1:
            return []
    if not victims:
        return []
    seq = min(int(o.captures["seq"]) for o in victims.values())
    counted = {
        rank: (o, enqueued)
        for o in logs.observations
        if o.signature == SIGNAL and (rank := o.identity.rank) is not None and rank not in logs.timed_out
        and (enqueued := number(o.captures.get("enqueued"))) is not None
        and default_name(o.captures.get("group", "0")) == "0"
    }  # fmt: skip
    behind = {rank: o for rank, (o, enqueued) in counted.items() if enqueued < seq}
    if not behind:
        return []
    if (ahead := _ahead(victims, behind, seq, size)) is not None:
        return [ahead]
    said = "; ".join(f"rank {r} had enqueued up to #{o.captures['enqueued']}" for r, o in sorted(behind.items())[:8])
    minority = len(behind) < len(victims) + len(counted) - len(behind)  # who got there waits, whoever says so first
    end = " They are no minority, so that nobody is blamed for it."
    if minority:
        is_behind, has = plural(behind, "is behind: it has", "are behind: they have"), f"not reached #{seq}"
        end = f" {spoken(behind).capitalize()} {is_behind} {has}."
    return [
        from_lines(
            "straggler-rank",
            0.85 if minority else 0.5,
            tuple(sorted(behind)) if minority else (),
            ordered(behind, ()),
            f"{spoken(victims)} timed out in #{seq}, and {said}.{end}",
        )
    ]


def _ahead(
    victims: Mapping[int, Observation], behind: Mapping[int, Observation], seq: int, size: int
) -> Observation | None:
    """A minority that timed out in the call after the one that all others had completed, with nothing pending there."""
    ends = {(number(o.captures.get("enqueued")), number(o.captures.get("completed"))) for o in behind.values()}
    if (
        ends != {(seq - 1, seq - 1)}
        or len(victims) >= len(behind)
        or len(victims) + len(behind) < size
        or {int(o.captures["seq"]) for o in victims.values()} != {seq}
    ):
        return None
    alone = tuple(sorted(victims))
    note = (
        f"{spoken(alone)} {plural(alone, 'is', 'are')} ahead: {plural(alone, 'it', 'they')} alone entered #{seq} and "
        f"timed out there, while {spoken(behind)} had completed #{seq - 1} and called nothing after it. "
        f"Either {plural(alone, 'it', 'they')} made a call that the others do not make, or those are held up before it."
    )
    signature = "rank-conditional-collective" if alone == (0,) else "collective-desync"
    lines = [*ordered(victims, ()), *ordered(behind, ())]
    return replace(from_lines(signature, 0.7, alone, lines, note), fix=(fix_of_ahead(alone, seq),))


def _not_after(o: Observation, others: Sequence[Observation]) -> bool:
    """Whether no clock says that a line was printed after all of the others."""
    times = [other.time for other in others if other.time is not None]
    return o.time is None or not times or o.time <= max(times)


def _lost_with_them(logs: Logs) -> set[int]:
    """The ranks that lost a connection; not those that lost it only when the others had given up long before."""
    times = [o.time for o in logs.timed_out.values() if o.time is not None]
    last = max(times) + CLOCK_SLACK if times else float("inf")
    return {rank for rank, o in logs.closed.items() if o.time is None or not o.timed or o.time <= last}


def _lost_afterwards(logs: Logs) -> set[int]:
    """The ranks that lost a connection after another one had given up its wait, and had given up none themselves."""
    if not waited_long(logs.timed_out.values()):
        return set()
    first = min(logs.timed_out.values(), key=lambda o: o.time if o.time is not None else float("inf"))
    return {rank for rank, o in logs.closed.items() if printed_after(o, first)} - set(logs.timed_out)


def _told_only(logs: Logs) -> dict[int, Observation]:
    """The ranks that say no more than that they heard of the others' timeouts, after these were all over.

    Whoever waits in the same call gives up by itself. Not ranks that say that they had come as far.
    """
    ends = [o.time for o in logs.timed_out.values()]
    seqs = [int(o.captures["seq"]) for o in logs.timed_out.values() if "seq" in o.captures]
    signals: dict[int, list[Observation]] = defaultdict(list)
    for o in logs.observations:
        rank = o.identity.rank
        if o.signature == SIGNAL and rank is not None and rank not in logs.timed_out and rank not in logs.closed:
            signals[rank].append(o)
    last = max((end for end in ends if end is not None), default=None)
    return {
        rank: lines[0]
        for rank, lines in signals.items()
        if not any((n := number(o.captures.get("enqueued"))) is not None and n >= min(seqs, default=0) for o in lines)
        and (last is None or all(o.time is None or o.time >= last for o in lines))
    }


def _on_a_host_of_their_own(ranks: Collection[int], others: Collection[int], hosts: Mapping[int, str]) -> str | None:
    """The host of all of `ranks`, where several are known and none of `others` is on it."""
    own, theirs = {hosts.get(rank) for rank in ranks}, {hosts.get(rank) for rank in others}
    return own.pop() if len(own) == 1 and None not in own | theirs and not own & theirs else None


def _are_merged(logs: Logs) -> bool:
    """Whether each file in which ranks say that they timed out holds those of several."""
    ranks: dict[str, set[int]] = defaultdict(set)
    for rank, o in logs.timed_out.items():
        ranks[o.evidence[0].file].add(rank)
    return all(len(own) > 1 for own in ranks.values())


def silent(
    logs: Logs,
    everyone: frozenset[int],
    present: frozenset[int],
    hosts: Mapping[int, str] = MappingProxyType({}),
    *,
    tell_nobody: bool,
) -> list[Observation]:
    """Ranks of which nothing was heard while the others timed out or lost their connections.

    hosts: rank -> host. Ranks that are no minority are blamed where they are all of one host, and it is theirs alone.
    """
    groups = of_timeouts(logs.observations, TIMEOUTS)
    late = _lost_afterwards(logs)
    complaining = set(logs.timed_out) | _lost_with_them(logs) | late
    complaining |= {o.identity.rank for o in logs.observations
                    if o.signature == SIGNAL and o.identity.rank is not None}  # fmt: skip
    if not complaining or logs.stuck:  # the rank whose own watchdog hangs is what differs
        return []
    lines = list(logs.timed_out.values()) or list(logs.closed.values())
    if (circle := crossed(groups, everyone)) is not None:
        return [circle]
    whole = not groups or any(group.is_whole(everyone) for group in groups)
    gaps = None if whole else missing(groups, everyone, complaining)
    rest = everyone - complaining
    # The one rank of which nothing is heard is in each chain of waits, whatever the groups: some group waits for it.
    # One of which there is nothing at all has a log of its own, which may be lost, unless the logs hold several each.
    here = rest <= present or _are_merged(logs)
    whole = whole or (gaps is None and len(rest) == 1 and len(everyone) >= FEWEST and here)
    quiet = sorted(rest) if whole else []
    lost = [rank for rank in quiet if rank not in present]
    if lost and len(lost) < len(quiet):  # of some there is nothing at all: a log that is lost proves little
        quiet = [rank for rank in quiet if rank in present]
    did = "timed out" if logs.timed_out else "lost their connection"
    if quiet and logs.finished_before(quiet, sorted(complaining)):
        note = f"{spoken(complaining)} {did}; {spoken(quiet)} had come to the end of an epoch that the others had not."
        return [from_lines("uneven-inputs", 0.75, tuple(quiet), lines, note)]
    ended = {rank for rank, o in logs.finished.items() if _not_after(o, lines)}
    if 0 < len(quiet) < len(complaining) and set(quiet) <= ended and not complaining & set(logs.finished):
        said = logs.finished[quiet[0]]
        note = f"{spoken(complaining)} {did}; {spoken(quiet)} had said before that all was done."
        return [from_lines("rank-exited-early", 0.75, tuple(quiet), [said, *lines], note)]
    # A connection is closed by somebody: where all but one complain of it, it was that one, also where they are two.
    gone = not logs.timed_out or len(_lost_with_them(logs) - late) > len(logs.timed_out)
    # Not where of others there is no log at all: any of them may have closed it.
    # Of two ranks that both wait, both time out: the one that says nothing did not come, where its log is there.
    alone = len(quiet) == 1 and set(lost) <= set(quiet) and (not logs.timed_out or (len(everyone) == 2 and not lost))
    if quiet and (alone or len(quiet) < len(complaining)):
        signature = "rank-exited-early" if gone else "collective-timeout"
        did = "lost their connection" if gone else "timed out"
        note = f"{spoken(complaining)} {did}; {spoken(quiet)} printed nothing of the kind: look there first."
        if len(groups) > 1 and not gone:
            note += f" They waited in {len(groups)} process groups: {by_group(groups)}."
        if lost and len(lost) < len(everyone) and not set(lost) & set(quiet):
            note += f" Of {spoken(lost)} there is no log at all."
        return [from_lines(signature, 0.55, tuple(quiet), lines, note)]
    alone_on = _on_a_host_of_their_own(quiet, complaining, hosts) if logs.timed_out and not lost else None
    if len(quiet) > 1 and alone_on is not None:
        note = (
            f"{spoken(complaining)} timed out; {spoken(quiet)} printed nothing of the kind, and "
            f"are all the ranks of {alone_on}: look there first."
        )
        return [from_lines("collective-timeout", 0.5, tuple(quiet), lines, note)]
    if gaps is not None:
        return [gaps]
    told = _told_only(logs)
    if whole and not rest and 0 < 2 * len(told) < len(logs.timed_out):
        note = (
            f"{spoken(logs.timed_out)} timed out; {spoken(told)} did not, and only heard of it: look there first, as "
            "whoever waits in the same call gives up by itself."
        )
        return [from_lines("collective-timeout", 0.55, tuple(sorted(told)), [*lines, *told.values()], note)]
    if whole and not rest and 0 < len(late) < len(logs.timed_out):
        # Whoever waits in the same call gives up as well: who had not, came to it last, or never.
        note = (
            f"{spoken(logs.timed_out)} timed out; {spoken(late)} did not, and lost {plural(late, 'its', 'their')} "
            "connections only when the others had given up: look there first."
        )
        after = [logs.closed[rank] for rank in sorted(late)]
        return [from_lines("collective-timeout", 0.55, tuple(sorted(late)), [*lines, *after], note)]
    if not tell_nobody or not logs.timed_out:
        return []
    seqs = sorted({int(o.captures["seq"]) for o in logs.timed_out.values() if "seq" in o.captures})
    where = f" at #{seqs[0]}" if len(seqs) == 1 else ""
    apart = ""
    if len(seqs) > 1 and not groups:
        numbers = ", ".join(f"#{seq}" for seq in seqs[:4])
        apart = f" The numbers ({numbers}) may be those of different groups, which the lines do not name."
    half = ""
    if quiet:
        logged = "though their logs are there" if set(quiet) <= present else "and their logs may be missing"
        half = f" Of {spoken(quiet)} there is nothing of the kind, {logged}; they are no minority, so none is blamed."
    who = f"{spoken(logs.timed_out)} timed out{where}"
    if len(groups) > 1:
        who = f"These are waits in {len(groups)} process groups ({by_group(groups)})"
    note = f"{who}, and the log names no rank that is missing: {NEXT_TIME}.{half}{apart}"
    return [from_lines("collective-timeout", 0.6, (), lines, note)]
