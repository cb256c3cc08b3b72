"""Where the ranks stood: stacks of living processes, and tracebacks of those whose wait was given up.

A rank that is in its own code while the others wait in a collective keeps them waiting. Where all of them wait, the one
that waits somewhere else is the odd one. The position of a rank is that of its main thread.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.engine.collectives.logs import PEER, Logs
from forensics.engine.collectives.observations import (
    SIDE_WORK,
    base,
    from_lines,
    from_tracebacks,
    ordered,
    plural,
    spoken,
    vote,
)
from forensics.engine.steps import StepClock
from forensics.model import Identity, Observation, Traceback
from forensics.parsers.stacks import SIGNATURE, is_native, is_standard, is_users
from forensics.patterns import lazy

# What a thread does, by the innermost frames that are not the user's: the first rule that fits one of them, from the
# inside out. The order matters: a checkpoint that gathers from all ranks waits in a collective.
_COLLECTIVE, _BACKWARD, _DEVICE = "in a collective", "in the backward pass", "waiting for the GPU"
ANYTHING, FILE_LOCK = "waiting for another thread or process", "waiting for a file lock"
# Backward and the GPU are waits as well: both end in the gradients' all-reduce of a data parallel run.
WAITING = (_COLLECTIVE, _BACKWARD, _DEVICE)
_DOES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy(pattern), what)
    for pattern, what in (
        (r"torch/distributed/(?!elastic|launcher|run\.py|checkpoint|rpc)|deepspeed/comm/|horovod/torch/", _COLLECTIVE),
        (r"torch/autograd/(?:__init__|graph)\.py", _BACKWARD),
        (r"torch/cuda/\S*:\S+ (?:synchronize|wait|wait_event|wait_stream)$", _DEVICE),
        (r"torch/utils/data/", "in the data loader"),
        (r"filelock/|portalocker/|fasteners/|file_baton\.py|(?:^|/)fcntl\.py", FILE_LOCK),
        (r"torch/serialization\.py:\S+ \w*save|safetensors/\S*:\S+ save|torch/distributed/checkpoint/", "saving"),
        (r"torch/serialization\.py:\S+ \w*load|safetensors/\S*:\S+ load", "loading"),
        (
            r"(?:^|/)(?:socket|ssl)\.py|(?:^|/)http/client\.py|urllib3?/|requests/|httpx/|botocore/|huggingface_hub/|s3fs/|gcsfs/",
            "on the network",
        ),
        (r"torch/_dynamo/|torch/_inductor/|triton/", "compiling"),
        (r"(?:^|/)subprocess\.py", "waiting for a child process"),
        (r"(?:^|/)(?:threading|queue|selectors)\.py|concurrent/futures/|multiprocessing/", ANYTHING),
    )
)
FEWEST_PROCESSES = 3  # whose stacks are compared where no ranks are known: of two, either may be the odd one
UNPLACED = 0.9  # what such a comparison weighs, of one in which the ranks are known
# Frames that say nothing about where in the program a rank is.
_PLUMBING = lazy(r"(?:^|/)torch/|(?:^|/)python3?[\d.]*/(?!site-packages|dist-packages)|^<|c10d_logger\.py")
_CALL = lazy(r"^(?P<file>.*):(?P<line>\d+|\?) (?P<function>.+)$")
# Deaths whose stack shows what the process was doing, as opposed to where it went wrong.
_ENDED_FROM_OUTSIDE = lazy(r"Abort|Terminat", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a rank's main thread stood."""

    rank: int
    frames: tuple[str, ...]  # "file:line function", innermost first
    does: str  # one of the above, or "" for the user's own code
    spot: str  # the frame that says where in the program it is

    @property
    def waits(self) -> bool:
        return self.does in WAITING

    @property
    def key(self) -> tuple[str, str]:
        return (self.does, base(self.spot))

    def __str__(self) -> str:
        call = ""
        if self.does == _COLLECTIVE:
            inner = next((f for f in self.frames if f.partition(":")[0].endswith("distributed_c10d.py")), "")
            call = f" ({inner.rpartition(' ')[2]})" if inner else ""
        return f"at {base(self.spot)}" + (f", {self.does}{call}" if self.does else "")


def position(rank: int, frames: Sequence[str]) -> Position:
    """Read a stack. frames: "file:line function", innermost first."""
    does = ""
    for frame in frames:
        if (m := _CALL.match(frame)) is None:
            continue
        if is_users(m["file"]):
            break
        path = frame.replace("\\", "/")
        if what := next((what for pattern, what in _DOES if pattern.search(path)), None):
            does = what
            if what != ANYTHING:  # a wait as such says little: whose it is, the frames further out say
                break
    users = next((f for f in frames if (m := _CALL.match(f)) and is_users(m["file"])), None)
    packages = next((f for f in frames if not _is_plumbing(f)), None)
    # The user's line is the place; in a trainer, where it is one line for the whole run, the trainer's.
    spot = users or packages or (frames[0] if frames else "")
    if users is not None and packages is not None and packages != users:
        spot = packages if frames.index(packages) < frames.index(users) else users
    return Position(rank, tuple(frames), does, spot)


def _is_plumbing(frame: str) -> bool:
    if is_native(frame.partition(":")[0]):
        return True
    return _PLUMBING.search(frame.replace("\\", "/").split("-packages/")[-1]) is not None or is_standard(frame)


def still_standing(found: Sequence[Observation], steps: StepClock) -> list[Observation]:
    """The observations without stack dumps that training outlived.

    Where one rank went on after its n-th dump, the others' first n dumps are no sign of a hang either.
    """
    ordinals: dict[tuple[str, int | None], int] = Counter()
    number: dict[int, int] = {}
    outlived: dict[int | None, int] = {}
    for o in found:
        if o.signature != SIGNATURE:
            continue
        writer = (o.evidence[0].file, o.identity.rank)
        ordinals[writer] += 1
        number[id(o)] = ordinals[writer]
        if steps.goes_on_after(o, o.identity.rank):
            attempt = o.identity.attempt
            outlived[attempt] = max(outlived.get(attempt, 0), ordinals[writer])
    return [o for o in found if number.get(id(o), 1 << 30) > outlived.get(o.identity.attempt, 0)]


def stood(logs: Logs) -> tuple[dict[int, Position], dict[int, Observation]]:
    """The last position of each rank, of the kind of dump that most ranks have; empty where the run reached its end."""
    if any(o.signature == "run-finished" for o in logs.observations):
        return {}, {}
    kinds: dict[str, dict[int, Observation]] = defaultdict(dict)
    for o in logs.observations:
        if o.signature != SIGNATURE or o.identity.rank is None or not o.captures.get("frames"):
            continue
        if o.captures.get("kind") == "fatal" and not _ENDED_FROM_OUTSIDE.search(o.captures.get("reason", "")):
            continue
        kinds[o.captures.get("kind", "")][o.identity.rank] = o
    if not kinds:
        return {}, {}
    dumps = max(kinds.values(), key=len)
    return {r: position(r, o.captures["frames"].split("\n")) for r, o in dumps.items()}, dumps


def from_stack_dumps(logs: Logs) -> list[Observation]:
    """The rank whose stack is not where the others' are; the process, where no rank of several dumps is known."""
    where, dumps = stood(logs)
    if len(where) < 2:
        return _from_processes(logs)
    weight = 1.0 if logs.trouble or any(o.captures.get("kind") != "demand" for o in dumps.values()) else 0.85
    if (found := _apart(where, logs, weight)) is None:
        return []
    signature, weight, odd = found
    return [from_lines(signature, round(weight, 3), odd, ordered(dumps, odd), _compared(where, odd, spoken(odd)))]


def _apart(where: Mapping[int, Position], logs: Logs, weight: float) -> tuple[str, float, tuple[int, ...]] | None:
    """(signature, weight, the odd ones) of processes that do not stand where the others do; None where none does."""
    waiting = {r for r, p in where.items() if p.waits}
    busy = set(where) - waiting
    if waiting and busy and (len(busy) < len(waiting) or len(where) == 2):
        odd = tuple(sorted(busy))
        signature = "rank0-side-work" if odd == (0,) and _side_work(where, odd) else "straggler-rank"
        return signature, weight * (0.85 if len(where) > 2 else 0.75), odd
    usual, odd = vote({r: p.key for r, p in where.items()})
    if usual is None or not odd:
        return None
    crowd = [r for r in where if r not in odd]
    if all(where[r].waits for r in odd):
        # In the crowd's own code a wait for the GPU cannot be seen. What can be seen is work that is done late.
        if where[crowd[0]].does not in ("", *WAITING):
            return None
        return *_elsewhere(odd, crowd, logs, weight), odd
    if odd == (0,) and _side_work(where, odd):
        return "rank0-side-work", weight * 0.75, odd
    return "straggler-rank", weight * 0.7, odd


def _compared(where: Mapping[int, Position], odd: Sequence[int], who: str) -> str:
    crowd = [r for r in sorted(where) if r not in odd]
    (most, _), *_ = Counter(str(where[r]) for r in crowd).most_common(1)
    theirs = f"the others {plural(crowd, 'stands', 'stand')}"
    return f"The stack of {who} is {where[odd[0]]}; {theirs} {most}."


def _from_processes(logs: Logs) -> list[Observation]:
    """The process whose stack is not where the others' are, of dumps that name processes and no ranks.

    Which rank it has, nothing says: who is told to be behind are processes, and three at least have to be seen.
    """
    if any(o.signature == "run-finished" for o in logs.observations):
        return []
    last: dict[tuple[str | None, int], Observation] = {}
    for o in logs.observations:
        if o.signature == SIGNATURE and o.identity.pid is not None and o.captures.get("frames"):
            last[o.identity.node, o.identity.pid] = o
    dumps = dict(enumerate(last.values(), 1))  # from 1, as none of them is known to be rank 0
    where = {n: position(n, o.captures["frames"].split("\n")) for n, o in dumps.items()}
    if len(where) < FEWEST_PROCESSES or (found := _apart(where, logs, UNPLACED)) is None:
        return []
    signature, weight, odd = found
    names = [_process(dumps[n].identity) for n in odd[:4]]
    who = f"{'process' if len(odd) == 1 else 'processes'} {', '.join(names)}" + (" and others" if len(odd) > 4 else "")
    hint = "Its rank stands in its environment: tr '\\0' '\\n' < /proc/<pid>/environ | grep RANK."
    told = from_lines(signature, round(weight, 3), (), ordered(dumps, odd), f"{_compared(where, odd, who)} {hint}")
    own = dumps[odd[0]].identity if len(odd) == 1 else None
    return [told if own is None else replace(told, identity=replace(own, attempt=told.identity.attempt))]


def _process(identity: Identity) -> str:
    return f"{identity.pid} on {identity.node}" if identity.node else str(identity.pid)


def _elsewhere(odd: Sequence[int], crowd: Sequence[int], logs: Logs, weight: float) -> tuple[str, float]:
    """What it is when a minority waits where the majority does not."""
    if logs.finished_before(odd, crowd):
        return "uneven-inputs", weight * 0.8
    if tuple(odd) == (0,):
        return "rank-conditional-collective", weight * 0.75
    return "collective-desync", weight * 0.65


def _side_work(where: Mapping[int, Position], odd: Sequence[int]) -> bool:
    """Whether the odd rank saves, evaluates or transfers, by functions that the others are not in as well."""
    others = {frame.rpartition(" ")[2] for r, p in where.items() if r not in odd for frame in p.frames}
    mine = where[odd[0]]
    if mine.does in ("saving", "on the network"):
        return True
    return any(SIDE_WORK.search(f) for frame in mine.frames if (f := frame.rpartition(" ")[2]) not in others)


def with_positions(found: Sequence[Observation], logs: Logs) -> list[Observation]:
    """The findings, with what the blamed rank was doing by its stack."""
    where, dumps = stood(logs)
    told = []
    for o in found:
        rank = o.culprits[0] if o.culprits is not None and len(o.culprits) == 1 else None
        if rank in where and o.note and (dumps[rank].evidence[0] not in o.evidence):
            note = f"{o.note} The stack of rank {rank} is {where[rank]}."
            o = replace(o, note=note, evidence=(*o.evidence, dumps[rank].evidence[0]))
        told.append(o)
    return told


def from_waits(tracebacks: Sequence[Traceback], logs: Logs) -> list[Observation]:
    """Where the ranks stood when their wait was given up, by their tracebacks: it should be one line of code."""
    stacks: dict[int, Traceback] = {}
    for t in tracebacks:
        if t.identity.rank is not None and not t.chained and any(text in t.message for text in PEER):
            stacks.setdefault(t.identity.rank, t)
    kinds = {
        rank: frame[2]
        for rank, t in stacks.items()
        if (frame := next((f for f in reversed(t.frames) if f[0].endswith("distributed_c10d.py")), None)) is not None
        and frame[2] in ("send", "recv") and "Timed out" in t.message
    }  # fmt: skip
    if {"send", "recv"} <= set(kinds.values()):
        said = "; ".join(f"rank {rank} in {kind}" for rank, kind in sorted(kinds.items())[:8])
        note = f"Senders and receivers wait at the same time ({said}): a tag, a size or a peer does not fit."
        shown = [stacks[rank] for rank in sorted(kinds)]
        return [from_tracebacks("p2p-mismatch", 0.8, (), shown, note)]
    places = {r: f"{frame[0]}:{frame[1]} {frame[2]}" for r, t in stacks.items() if (frame := t.user_frame) is not None}
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
    shown = [stacks[rank] for rank in (*odd, *(r for r in sorted(places) if r not in odd))]
    return [from_tracebacks(signature, weight, odd, shown, note)]
