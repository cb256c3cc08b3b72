"""How a finding about collectives is put: the vote that names the odd rank, the observation, the words.

Ranks are only ever blamed by majority; a tie names nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from forensics.model import Identity, Observation, Traceback
from forensics.parsers.prefixes import rank_list
from forensics.patterns import lazy
from forensics.rank_ranges import SHORT, rank_ranges

if TYPE_CHECKING:
    from forensics.engine.collectives.calls import Call

DEFAULT_GROUPS = ("0", "default_pg")
MAX_EVIDENCE = 4
_MEMBERS = lazy(r"(?<=\branks )[\d,-]+$", re.ASCII)  # in a description, as parsers.flight_recorder writes it
# Functions in which rank 0 is often alone.
SIDE_WORK = lazy(r"save|checkpoint|ckpt|eval|valid|upload|download|push_to_hub|export", re.IGNORECASE)


def vote(values: Mapping[int, Hashable]) -> tuple[Hashable | None, tuple[int, ...]]:
    """What more than half of the ranks say, and the ranks that say something else; (None, ()) without a majority."""
    if not values:
        return None, ()
    (value, count), *_ = Counter(values.values()).most_common()
    if 2 * count <= len(values):
        return None, ()
    return value, tuple(sorted(rank for rank, other in values.items() if other != value))


def observe(
    signature: str,
    weight: float,
    culprits: Sequence[int],
    calls: Iterable[Call],
    note: str,
    seq: int | None,
    about: Call | None = None,
) -> Observation:
    shown = _both_sides(list(dict.fromkeys(calls)), culprits)
    about = about or (shown[0] if shown else None)
    captures = {"op": about.op, "group": title(about.group)} if about is not None else {}
    if seq is not None:
        captures["seq"] = str(seq)
    return Observation(
        signature=signature,
        weight=round(weight, 3),
        evidence=tuple(call.evidence() for call in shown),
        identity=Identity(rank=culprits[0] if len(culprits) == 1 else None),
        culprits=tuple(culprits),
        time=min((call.time for call in shown if call.time is not None), default=None),
        zone_known=True,
        captures=captures,
        note=note[:1].upper() + note[1:],
    )


def _both_sides(calls: Sequence[Call], culprits: Collection[int]) -> list[Call]:
    """At most MAX_EVIDENCE calls, in order; where there are more, one of a rank that is not blamed is among them."""
    shown = list(calls[:MAX_EVIDENCE])
    if len(calls) > MAX_EVIDENCE and all(call.rank in culprits for call in shown):
        peer = next((call for call in calls if call.rank not in culprits), None)
        shown[-1:] = [peer or shown[-1]]
    return shown


def side_by_side(blamed: Iterable[Call], peers: Iterable[Call]) -> str:
    """A sentence with the stacks of both sides; "" where one of them recorded none.

    "Stacks, innermost call first: rank 2 at train.py:90 load < train.py:140 main; ranks 0-1, 3 at train.py:88 step <
    train.py:140 main."
    """
    sides = []
    for calls in (list(blamed), list(peers)):
        ranks_at: dict[str, list[int]] = {}
        for call in calls:
            if call.frame is not None:
                ranks_at.setdefault(call.path, []).append(call.rank)
        sides += [f"{spoken(ranks)} at {path}" for path, ranks in list(ranks_at.items())[:2]]
        if not ranks_at:
            return ""
    return f" Stacks, innermost call first: {'; '.join(sides)}."


def from_lines(
    signature: str, weight: float, culprits: Sequence[int], lines: Sequence[Observation], note: str
) -> Observation:
    key = lines[0]
    return Observation(
        signature=signature,
        weight=weight,
        evidence=tuple(dict.fromkeys(o.evidence[0] for o in lines if o.evidence))[:MAX_EVIDENCE],
        identity=Identity(rank=culprits[0]) if len(culprits) == 1 else Identity(attempt=key.identity.attempt),
        culprits=tuple(culprits),
        time=min((o.time for o in lines if o.time is not None), default=None),
        zone_known=all(o.zone_known for o in lines),
        captures={k: v for k, v in key.captures.items() if k in ("seq", "op", "group", "timeout_ms", "numel")},
        note=note[:1].upper() + note[1:],
    )


def from_tracebacks(
    signature: str, weight: float, culprits: Sequence[int], stacks: Sequence[Traceback], note: str
) -> Observation:
    return Observation(
        signature=signature,
        weight=weight,
        evidence=tuple(t.final for t in stacks)[:MAX_EVIDENCE],
        identity=Identity(rank=culprits[0]) if len(culprits) == 1 else Identity(attempt=stacks[0].identity.attempt),
        culprits=tuple(culprits),
        time=min((t.time for t in stacks if t.time is not None), default=None),
        zone_known=all(t.zone_known for t in stacks),
        note=note[:1].upper() + note[1:],
    )


def ordered(observations: Mapping[int, Observation], first: Collection[int]) -> list[Observation]:
    return [observations[rank] for rank in sorted(observations, key=lambda rank: (rank not in first, rank))]


def number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None


def spoken(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0-3, 8"."""
    known = sorted(set(ranks))
    return f"{'rank' if len(known) == 1 else 'ranks'} {rank_ranges(known, pair='-')}"


def plural(ranks: Collection[int], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def title(key: Hashable) -> str:
    """A process group as people read it: "65 (tp_64 ranks 512-519)"; of many ranges of members the first."""
    name, desc = key if isinstance(key, tuple) else (str(key), "")
    if name in DEFAULT_GROUPS:
        return "default_pg"
    members = _MEMBERS.search(desc)
    if members is not None and members[0].count(",") >= SHORT:
        desc = desc[: members.start()] + rank_ranges(rank_list(members[0]), separator=",", limit=SHORT)
    return f"{name} ({desc})" if desc and desc != name else str(name)


def in_group(key: tuple[str, str]) -> str:
    return "the default group" if key[0] in DEFAULT_GROUPS else f"group {title(key)}"


def at_place(call: Call) -> str:
    return f" at {call.place}" if call.place else ""


def base(frame: str) -> str:
    return frame.rsplit("/", 1)[-1]


def fix_of_ahead(ranks: Collection[int], seq: int) -> str:
    """What to do about ranks that are further than all others. seq: the number of the call where the ways part."""
    return (
        f"Find the call at or before #{seq} that {spoken(ranks)} made alone, or in which {plural(ranks, 'it', 'they')} "
        "did not wait for the others: a branch on the rank or on data, one more batch, a retry after an exception that "
        "was caught, a wait that was skipped."
    )


def fix_of_behind(ranks: Collection[int], seq: int) -> str:
    """What to do about ranks that have not come to the call in which all others wait. seq: that call's number."""
    its, stands, it = plural(ranks, "its", "their"), plural(ranks, "stands", "stand"), plural(ranks, "it", "they")
    return (
        f"See where {spoken(ranks)} {stands} short of #{seq}: py-spy dump --pid shows whether {its} program lags "
        f"(data, storage, a lock) or is in a collective. If {it} made the same calls up to there, look at {its} GPU "
        "and links (dmesg for Xid, nvidia-smi -q -d ECC,PERFORMANCE, ibstat); else a call of the others was skipped."
    )


def no_majority(count: int) -> str:
    return "Two ranks give no majority." if count == 2 else "No side is the majority, so that nobody can be named."
