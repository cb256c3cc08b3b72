"""Where the ranks stood."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.engine.collectives.logs import PEER, Logs
from forensics.engine.collectives.observations import SIDE_WORK, base, from_lines, from_tracebacks, ordered, spoken, vote
from forensics.model import Observation, Traceback


def from_tracebacks_of_waits(tracebacks: Sequence[Traceback], logs: Logs) -> list[Observation]:
    """Where the ranks stood when their wait was given up, by their tracebacks: it should be one line of code."""
    stood: dict[int, Traceback] = {}
    for t in tracebacks:
        if t.identity.rank is not None and not t.chained and any(text in t.message for text in PEER):
            stood.setdefault(t.identity.rank, t)
    kinds = {
        rank: frame[2]
        for rank, t in stood.items()
        if (frame := next((f for f in reversed(t.frames) if f[0].endswith("distributed_c10d.py")), None)) is not None
        and frame[2] in ("send", "recv") and "Timed out" in t.message
    }  # fmt: skip
    if {"send", "recv"} <= set(kinds.values()):
        said = "; ".join(f"rank {rank} in {kind}" for rank, kind in sorted(kinds.items())[:8])
        note = f"Senders and receivers wait at the same time ({said}): a tag, a size or a peer does not fit."
        shown = [stood[rank] for rank in sorted(kinds)]
        return [from_tracebacks("p2p-mismatch", 0.8, (), shown, note)]
    places = {r: f"{frame[0]}:{frame[1]} {frame[2]}" for r, t in stood.items() if (frame := t.user_frame) is not None}
    if len(places) < 2 or len(set(places.values())) < 2:
        return []
    usual, odd = vote(places)
    if usual is None:
        return []
    if logs.finished_before(odd, [rank for rank in places if rank not in odd]):
        signature, weight = "uneven-inputs", 0.8
    elif odd == (0,):
        signature, weight = "rank-conditional-collective", 0.7
    else:
        signature, weight = "collective-desync", 0.6
    note = f"{spoken(odd)} waited at {base(places[odd[0]])}, the others at {base(str(usual))}."
    shown = [stood[rank] for rank in (*odd, *(r for r in sorted(places) if r not in odd))]
    return [from_tracebacks(signature, weight, odd, shown, note)]


def from_stack_dumps(logs: Logs) -> list[Observation]:
    """Stacks that faulthandler printed on every rank: the rank that stands elsewhere keeps the others waiting."""
    tops: dict[int, Observation] = {}
    for o in logs.observations:
        if o.signature == "stack-dump" and o.identity.rank is not None and {"file", "function"} <= set(o.captures):
            tops.setdefault(o.identity.rank, o)
    places = {
        rank: f"{o.captures['file']}:{o.captures.get('lineno', '?')} {o.captures['function']}"
        for rank, o in tops.items()
    }
    usual, odd = vote(places)
    if usual is None or not odd:
        return []
    note = f"The stack of {spoken(odd)} stands at {base(places[odd[0]])}, the others' at {base(str(usual))}."
    side = odd == (0,) and SIDE_WORK.search(tops[0].captures["function"]) is not None
    return [from_lines("rank0-side-work" if side else "straggler-rank", 0.8, odd, ordered(tops, odd), note)]
