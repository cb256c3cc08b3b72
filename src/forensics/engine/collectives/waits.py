"""Who waits for whom, over all process groups that left dumps.

A rank is blamed for being behind only where it waits for nobody else itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from forensics.engine.collectives.calls import Call, Group, declared
from forensics.engine.collectives.groups import WHOLE, default_name
from forensics.engine.collectives.logs import TIMEOUTS, Logs
from forensics.engine.collectives.observations import (
    DEFAULT_GROUPS,
    at_place,
    base,
    fix_of_ahead,
    in_group,
    no_majority,
    number,
    observe,
    plural,
    side_by_side,
    spoken,
    title,
    vote,
)
from forensics.model import CALLED, UNRECORDED, Observation

ON_DEVICE = "rank-stuck-on-device"
SCHEDULED, STARTED, COMPLETED = "scheduled", "started", "completed"  # states in a recorder of NCCL


def waits(groups: Sequence[Group], logs: Logs) -> list[Observation]:
    """Who waits for whom, over all groups: the ranks at the end of the chains, or the circle that they form."""
    assumed = not any(group.waiting for group in groups)
    if assumed and not logs.trouble:
        return []
    waiting = {group.key: dict(group.waiting) for group in groups}
    if assumed:
        for call in newest(groups).values():
            waiting[call.group][call.rank] = call
    for group in groups:
        if group.traced:
            waiting[group.key] = _first_missed(group)
    edges: dict[int, list[tuple[Group, Call, int]]] = defaultdict(list)
    from_start = {rank for group in groups for rank, seq in group.first.items() if seq <= 1}
    for group in groups:
        for rank, call in waiting[group.key].items():
            for peer in group.members:
                last = group.last.get(peer)
                if last.seq < call.seq if last is not None else peer in from_start:
                    edges[rank].append((group, call, peer))
    if not edges:
        return []
    targets = {peer for out in edges.values() for _, _, peer in out}
    waits_in: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for key, calls in waiting.items():
        for rank in calls:
            waits_in[rank].add(key)
    wanted_in: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for out in edges.values():
        for group, _, peer in out:
            wanted_in[peer].add(group.key)
    roots = {rank for rank in targets - set(edges) if assumed or waits_in[rank] <= wanted_in[rank]}
    if roots:
        return [_behind(edges, roots, groups, logs, assumed)]
    alone = _alone(targets - set(edges), groups, waiting)
    if alone:
        return [_apart(alone, edges, groups, logs)]
    core = _circle({rank: {peer for _, _, peer in out} for rank, out in edges.items()})
    if core:
        return [_circular({r: [e for e in edges[r] if e[2] in core] for r in core}, assumed)]
    return [_blocked_elsewhere(edges, targets, groups, waiting)]


def _first_missed(group: Group) -> dict[int, Call]:
    """Rank -> the call in which it waits, of a group whose calls come from NCCL's log.

    Programs run on past a call that hangs, so that it is not a rank's last one: it is the first one that some rank did
    not make.
    """
    missed = min(call.seq for call in group.last.values()) + 1
    return {**group.last, **group.at(missed)}


def _alone(
    ends: Collection[int], groups: Sequence[Group], waiting: Mapping[tuple[str, str], Mapping[int, Call]]
) -> dict[int, Call]:
    """Of the ranks at the ends of chains, those that wait alone in a group whose members no dump declares.

    With one member such a call would have returned: it has others, and they never made it.
    """
    found: dict[int, Call] = {}
    for group in groups:
        if group.key[0] in DEFAULT_GROUPS or declared(group.key[1]) or len(group.members) != 1:
            continue
        for rank, call in waiting[group.key].items():
            if rank in ends:
                found[rank] = call
    return found


def _apart(
    alone: Mapping[int, Call],
    edges: Mapping[int, Sequence[tuple[Group, Call, int]]],
    groups: Sequence[Group],
    logs: Logs,
) -> Observation:
    """Some ranks wait in a group of their own, and others wait for them elsewhere."""
    crowd = {rank: next(call for _, call, peer in out if peer in alone) for rank, out in edges.items()
             if any(peer in alone for _, _, peer in out)}  # fmt: skip
    odd = tuple(sorted(alone)) if len(alone) < len(crowd) else ()
    first, theirs = alone[min(alone)], crowd[min(crowd)]
    frames = {call.frame for group in groups for call in group.last.values() if call.rank not in alone}
    signature, weight = "collective-desync", 0.75
    if odd == (0,) and first.frame is not None and first.frame not in frames:
        signature, weight = "rank-conditional-collective", 0.8
    note = (
        f"{spoken(alone)} {plural(alone, 'waits', 'wait')} in {first.name} of {in_group(first.group)}{at_place(first)}"
        f", a group in which nobody else ever called anything, while {spoken(crowd)} "
        f"{plural(crowd, 'waits', 'wait')} in {theirs.name} of {in_group(theirs.group)}{at_place(theirs)}."
    )
    if not odd:
        note += f" {no_majority(len(alone) + len(crowd))}"
    weight *= 1.0 if logs.trouble else 0.9
    shown = [alone[r] for r in sorted(alone)] + [crowd[r] for r in sorted(crowd)]
    return observe(signature, weight, odd, shown, note, first.seq, first)


def newest(groups: Sequence[Group]) -> dict[int, Call]:
    last: dict[int, Call] = {}
    for group in groups:
        for rank, call in group.last.items():
            if rank not in last or (call.time or 0) >= (last[rank].time or 0):
                last[rank] = call
    return last


def _behind(
    edges: Mapping[int, list[tuple[Group, Call, int]]],
    roots: set[int],
    groups: Sequence[Group],
    logs: Logs,
    assumed: bool,
) -> Observation:
    """Some ranks wait for ranks that have not come: which side is to blame."""
    # Of the groups in which ranks wait for a root, the one is told whose ranks keep others waiting, else the largest.
    counts = Counter(group.key for out in edges.values() for group, _, peer in out if peer in roots)
    inner: Counter[tuple[str, str]] = Counter()
    for key in counts:
        here = {r for r, out in edges.items() if any(g.key == key and p in roots for g, _, p in out)}
        inner[key] = sum(peer in here for out in edges.values() for _, _, peer in out)
    key = max(counts, key=lambda k: (inner[k], counts[k], k))
    group = next(g for g in groups if g.key == key)
    waiters = {r: next(c for g, c, p in out if g.key == key and p in roots) for r, out in edges.items()
               if any(g.key == key and p in roots for g, _, p in out)}  # fmt: skip
    late = {peer for out in edges.values() for g, _, peer in out if g.key == key and peer in roots}
    fix: tuple[str, ...] = ()
    last_calls = newest(groups)
    stuck = min(waiters.values(), key=lambda call: call.seq)
    common = group.has(late, "frame", stuck.frame) or (
        stuck.frame is None and group.has(late, "op", stuck.op) and group.has(late, "input_sizes", stuck.sizes)
    )
    tail = f"{spoken(late)} {_has_come(late, group, last_calls)}"
    head = f"{spoken(waiters)} {plural(waiters, 'waits', 'wait')} in {stuck.name}{at_place(stuck)}"
    everyone_waiting = len(set(edges))
    shown = [last_calls[rank] for rank in sorted(late) if rank in last_calls]
    if len(roots) < everyone_waiting or (len(roots) == everyone_waiting and common):
        if logs.finished_before(late, list(waiters)):
            signature = "uneven-inputs"
        else:
            signature = "rank-exited-early" if logs.left(late) else "straggler-rank"
        weight = 0.85
        culprits = tuple(sorted(roots))
        first_line = _first_other_line(group, culprits)
        is_behind = plural(culprits, "is behind: it has", "are behind: they have")
        reached = (
            f" {spoken(culprits).capitalize()} {is_behind} not reached #{stuck.seq}." if set(culprits) == late else ""
        )
        note = f"{tail} while {head}.{reached}{first_line}"
        if not assumed:
            where, on_device = _where_it_hangs(culprits, groups, stuck, logs)
            note += where
            signature = ON_DEVICE if on_device and signature == "straggler-rank" else signature
    else:
        shown = [*waiters.values(), *shown]
        if not common and len(roots) > everyone_waiting:
            culprits = tuple(sorted(waiters))
            signature = "rank-conditional-collective" if stuck.frame is not None else "collective-desync"
            weight = 0.8
            fix = (fix_of_ahead(culprits, max(call.seq for call in waiters.values())),)
            is_ahead = f"{spoken(waiters)} {plural(waiters, 'is', 'are')} ahead"
            note = f"{head}, which no other rank ever called; {tail}: {is_ahead}."
        elif len(waiters) < len(late) and late <= set(group.waiting) and _finished_alone(waiters, late, group):
            culprits, signature, weight = tuple(sorted(waiters)), "collective-desync", 0.7
            before = min(group.waiting[rank].seq for rank in late)
            fix = (fix_of_ahead(culprits, before),)
            it = plural(culprits, "it is", "they are")
            note = f"{head}; {tail} and still {plural(late, 'waits', 'wait')} there. {spoken(culprits).capitalize()} "
            note += f"{plural(culprits, 'is', 'are')} ahead: {it} past #{before}, which has not ended for the others."
        else:
            culprits, signature, weight = (), "collective-timeout", 0.5
            idle = f"{plural(late, 'does', 'do')} not wait in any recorded collective"
            note = f"{head}; {tail} and {idle}: the recorder cannot tell which side is wrong."
    note += side_by_side([last_calls[rank] for rank in sorted(late) if rank in last_calls], waiters.values())
    if assumed:
        weight *= 0.7  # the dumps were made after the wait had ended: which calls hung is an inference
    elif not logs.trouble:
        weight *= 0.85  # a dump on request catches ranks in mid-step
    told = observe(signature, weight, culprits, shown + list(waiters.values()), note, stuck.seq, stuck)
    return replace(told, fix=fix)


def _finished_alone(ahead: Mapping[int, Call], late: Collection[int], group: Group) -> bool:
    """Whether ranks that are ahead have finished the one call in which all of the others still wait."""
    seqs = {group.waiting[rank].seq for rank in late}
    return len(seqs) == 1 and all(call.seq > max(seqs) for call in ahead.values())


def _where_it_hangs(culprits: Sequence[int], groups: Sequence[Group], stuck: Call, logs: Logs) -> tuple[str, bool]:
    """Whether the ranks that are behind are held up by their own program, or by the device or the network.

    In words, and whether it is the latter.
    """
    if stuck.state == CALLED:
        return "", False
    pending = [call for group in groups for rank, call in group.waiting.items() if rank in culprits]
    if not pending:
        its = plural(culprits, "it is", "they are")
        return f" Nothing is pending on {spoken(culprits)}: {its} held up in the program itself, on the host.", False
    # gloo asks no device, and calls that only counters tell of may have ended, unless the rank's own watchdog says that
    # they did not: neither shows where a rank hangs.
    asked = any(call.state == STARTED for call in pending) or any(
        group.has(culprits, "state", COMPLETED) for group in groups
    )
    lasts = [call for group in groups for rank, call in group.last.items() if rank in culprits]
    counted = any(call.op == UNRECORDED and not _timed_out(call, logs) for call in (*pending, *lasts))
    if {call.rank for call in pending} != set(culprits) or counted or not asked:
        return "", False
    oldest = min(pending, key=lambda call: (call.group != stuck.group, call.seq))
    has, hangs = plural(culprits, "it has", "they have"), plural(culprits, "it hangs", "they hang")
    return (
        f" What {has} pending, {oldest.name} of {in_group(oldest.group)}, is older than that: {hangs} on the device or "
        "in the network, and not in the program."
    ), True


def _timed_out(call: Call, logs: Logs) -> bool:
    """Whether the watchdog of a call's own rank says that it waited for it in vain."""
    group = default_name(call.group[0])
    return any(
        o.signature in TIMEOUTS
        and o.identity.rank == call.rank
        and number(o.captures.get("seq")) == call.seq
        and default_name(o.captures.get("group", WHOLE)) == group
        for o in logs.observations
    )


def _has_come(late: Collection[int], group: Group, newest: Mapping[int, Call]) -> str:
    lasts = [group.last[rank] for rank in sorted(late) if rank in group.last]
    if not lasts:
        return f"never called a collective of {in_group(group.key)}"
    seqs = sorted({call.seq for call in lasts})
    upto = f"#{seqs[0]}" if len(seqs) == 1 else f"#{seqs[0]} to #{seqs[-1]}"
    places = {newest[rank].place for rank in late if rank in newest} - {""}
    last_call = f" (last call at {places.pop()})" if len(places) == 1 else ""
    return f"enqueued up to {upto} of {in_group(group.key)}{last_call}"


def _first_other_line(group: Group, culprits: Sequence[int]) -> str:
    """Where the ranks that are behind first called from another line than the rest, if their buffers show it."""
    import polars as pl

    table = group.table.filter(pl.col("frame").is_not_null())
    split = table.group_by("seq").agg(pl.col("frame").n_unique()).filter(pl.col("frame") > 1)
    if split.is_empty():
        return ""
    seq = min(split["seq"].to_list())
    calls = group.at(seq)
    usual, odd = vote({rank: call.frame for rank, call in calls.items()})
    if usual is None or not odd or not set(odd) <= set(culprits):
        return ""
    call = calls[odd[0]]
    return f" Already at #{seq} {spoken(odd)} called {call.op} from {call.place}, the others from {base(str(usual))}."


def _circle(edges: Mapping[int, set[int]]) -> set[int]:
    """The ranks that wait for each other in a circle: those left when all that wait for nobody, or are not waited for,
    are taken away."""
    core = set(edges)
    while True:
        out = {rank: edges[rank] & core for rank in core}
        wanted = {peer for peers in out.values() for peer in peers}
        kept = {rank for rank in core if out[rank] and rank in wanted}
        if kept == core:
            return core
        core = kept


def _circular(edges: Mapping[int, Sequence[tuple[Group, Call, int]]], assumed: bool) -> Observation:
    """Ranks wait for each other across groups: they call the groups' collectives in different orders."""
    odd = []
    judged = 0
    for rank, out in edges.items():
        group, call, _ = out[0]
        wanted = [g for peer_out in edges.values() for g, _, peer in peer_out if peer == rank and g.key != group.key]
        usual = _usually_first(rank, group, call, wanted)
        if usual is not None:
            judged += 1
            if not usual:
                odd.append(rank)
    culprits = tuple(sorted(odd)) if judged == len(edges) and 0 < 2 * len(odd) <= len(edges) else ()
    calls = [out[0][1] for out in edges.values()]
    chain = "; ".join(
        f"rank {rank} waits in {out[0][1].name} of {title(out[0][0].key)} for {spoken({p for _, _, p in out})}"
        for rank, out in sorted(edges.items())[:8]
    )
    how = (
        f" {spoken(culprits).capitalize()} turned the order round in which {plural(culprits, 'it has', 'they have')} "
        "called these groups before."
        if culprits
        else " The buffers do not show which order is the usual one."
    )
    _, apart = vote({rank: (out[0][1].group, out[0][1].seq) for rank, out in edges.items()})
    signature, weight = "subgroup-order-mismatch", 0.9
    crowd = [rank for rank in edges if rank not in apart]
    minority = [edges[rank][0] for rank in apart]
    if minority and not any(call.frame is None or g.has(crowd, "frame", call.frame) for g, call, _ in minority):
        # No order is turned round where the others never make the minority's call at all.
        culprits, where = apart, plural(apart, "waits", "wait")
        how = f" From where {spoken(apart)} {where}, {spoken(crowd)} never called."
        signature, weight = ("rank-conditional-collective", 0.8) if apart == (0,) else ("collective-desync", 0.75)
    first = sorted(calls, key=lambda call: (call.rank not in culprits, call.rank))
    note = f"A circle of waits: {chain}.{how}"
    return observe(signature, round(weight * (0.7 if assumed else 1), 3), culprits, first, note, None)


def _usually_first(rank: int, group: Group, call: Call, wanted: Sequence[Group]) -> bool | None:
    """Whether a rank's group was due before the one in which it is wanted: the group that was used longest ago is.

    None where its buffer does not hold an earlier call of both.
    """
    import polars as pl

    before = group.table.filter((pl.col("rank") == rank) & (pl.col("seq") < call.seq))["time"].max()
    for other in wanted:
        last = other.last.get(rank)
        if last is not None and last.time is not None and isinstance(before, float):
            return before <= last.time
    return None


def _blocked_elsewhere(
    edges: Mapping[int, Sequence[tuple[Group, Call, int]]],
    targets: Collection[int],
    groups: Sequence[Group],
    waiting: Mapping[tuple[str, str], Mapping[int, Call]],
) -> Observation:
    """The ranks that are waited for wait in a collective that all its members have called."""
    ends = set(targets) - set(edges)
    stuck = [call for calls in waiting.values() for rank, call in calls.items() if rank in ends]
    first = min(stuck, key=lambda call: call.time or 0)
    note = (
        f"The waits end in {first.name} of {in_group(first.group)}, which every rank of that group has called and "
        "which does not finish: the hang is inside it (network, GPU, or a rank without a dump), not in a missing call."
    )
    return observe("collective-timeout", 0.6, (), stuck, note, first.seq, first)


def inverted(groups: Sequence[Group]) -> list[Observation]:
    """Two groups' collectives, called in opposite orders, both unfinished. NCCL calls return at once, so no rank is
    behind in either."""
    by_rank: dict[int, list[Call]] = defaultdict(list)
    for group in groups:
        for rank, call in group.waiting.items():
            if call.time is not None:
                by_rank[rank].append(call)
    order: dict[tuple[tuple[str, str], int, tuple[str, str], int], dict[int, bool]] = defaultdict(dict)
    held: dict[int, list[Call]] = {}
    for rank, calls in by_rank.items():
        calls = held[rank] = sorted(calls, key=lambda call: call.group)[:8]
        for i, a in enumerate(calls):
            for b in calls[i + 1 :]:
                if a.time != b.time:
                    order[a.group, a.seq, b.group, b.seq][rank] = (a.time or 0) < (b.time or 0)
    for (a_key, a_seq, b_key, b_seq), ranks in sorted(order.items()):
        if len(set(ranks.values())) < 2:
            continue
        _, odd = vote(ranks)
        sides = [spoken(r for r, first in ranks.items() if first is side) for side in (True, False)]
        pair = f"#{a_seq} of {title(a_key)} before #{b_seq} of {title(b_key)}"
        note = f"{sides[0]} called {pair}, {sides[1]} the other way round; neither finishes."
        shown = [call for rank in (*odd, *sorted(ranks)) for call in held[rank] if call.group in (a_key, b_key)]
        return [observe("subgroup-order-mismatch", 0.8, odd, shown, note, None)]
    return []
