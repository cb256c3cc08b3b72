"""Collective calls from NCCL's own log (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=COLL), as rows like those of dumps.

A line is printed when a call is made, and nothing when it ends: the lines say how far each program came and what it
called. The printed operation count is that of launched plans, which several calls share; so calls are counted by their
place in the log, and by the printed count only where a log was too large to be read from its beginning.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forensics.files import buffered
from forensics.model import CALLED, COLLECTIVES_COLUMNS, MAX_RANKS, Source, schema
from forensics.parsers.nccl.lines import Init, init, parse
from forensics.patterns import lazy
from forensics.rank_ranges import rank_ranges

if TYPE_CHECKING:
    import polars as pl

BUDGET = 32 << 20  # bytes of all logs together that are read for calls
LEAST = 1 << 20  # bytes of any one log: of a larger one its head, for the communicators, and its end
EDGE = 64 << 10  # bytes at either end of a log in which a call must stand for the log to be read
KEEP = 2000  # newest calls of a rank in a communicator, as many as Flight Recorder keeps
MAX_LINE = 4096
INFO = b"NCCL INFO "
MAX_SPEAKERS = 4096  # prefixes of lines that are remembered: of a process one a thread, where none bears a time
LONGEST = 200  # characters of a communicator's key

_WANTED = lazy(rb"opCount [0-9a-f]|- Init (?:START|COMPLETE)")
_CALL = lazy(
    r"(?P<op>[A-Z]\w*): opCount (?P<count>[0-9a-f]{1,16}) sendbuff \S+ recvbuff \S+ count (?P<size>\d{1,18}) "
    r"datatype (?P<dtype>\d+) op \d+ root -?\d+ comm (?P<comm>0x[0-9a-f]+) "
    r"\[nranks=(?P<ranks>\d{1,7})\](?: stream \S+ task \d+ globalrank (?P<rank>\d{1,7})\b)?",
    re.ASCII,
)  # RCCL (enqueue.cc) ends the line with what it calls the global rank: that in the communicator
# ncclDataType_t, as the recorder of PyTorch names them.
DTYPES = (
    "Char", "Byte", "Int", "UInt32", "Long", "UInt64", "Half", "Float", "Double", "BFloat16", "Float8_e4m3fn",
    "Float8_e5m2",
)  # fmt: skip
OPS = {
    "AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "Broadcast": "broadcast",
    "Bcast": "broadcast", "Reduce": "reduce", "AlltoAll": "all_to_all", "Gather": "gather", "Scatter": "scatter",
}  # fmt: skip
P2P = ("Send", "Recv")


@dataclass(frozen=True, slots=True)
class _Call:
    index: int  # of the calls of this rank in this communicator, from 1, where the log was read from its beginning
    count: int  # as printed
    nth: int  # of the calls with this count, from 0
    op: str
    size: int
    dtype: str
    line: int | None


@dataclass(slots=True)
class _Process:
    """What one process printed."""

    source: Source
    whole: bool
    comms: dict[str, tuple[str, Init]] = field(default_factory=dict)  # pointer -> (key, birth), as of now
    births: dict[str, Init] = field(default_factory=dict)  # key -> birth
    nameless: Counter[int] = field(default_factory=Counter)  # size -> communicators that bear no id
    unknown: dict[str, str] = field(default_factory=dict)  # pointers without a birth -> key
    calls: dict[str, deque[_Call]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=KEEP)))
    made: Counter[str] = field(default_factory=Counter)
    same: dict[str, tuple[int, int]] = field(default_factory=dict)  # key -> (count, calls with it)
    sizes: dict[str, int] = field(default_factory=dict)  # key -> ranks of the communicator
    told: dict[str, int] = field(default_factory=dict)  # key -> rank in it, as RCCL's calls bear it
    p2p: set[str] = field(default_factory=set)


def collective_calls(
    sources: Sequence[Source], stated: int | None = None, budget: int = BUDGET
) -> tuple[pl.DataFrame | None, dict[str, str]]:
    """(rows of model.COLLECTIVES_COLUMNS or None, path -> what was not read) of the calls in some logs.

    sources: logs, of any number of processes each. stated: the world size, where the run states it. budget: bytes that
    are read of all of them together. Rows have a rank only where it is known: from a communicator of all ranks, or from
    the file.
    """
    wanted = [s for s in sources if _has_calls(s)]
    if not wanted:
        return None, {}
    limit = max(LEAST, budget // len(wanted))
    processes: list[_Process] = []
    cut: dict[str, str] = {}
    for source in wanted:
        processes += _read(source, limit)
        if source.size > limit:
            cut[source.path] = f"NCCL calls read from the last {limit >> 20} MiB"
    return _frame(processes, stated), cut


def _has_calls(source: Source) -> bool:
    try:
        with buffered(source.file) as file:
            head = file.read(EDGE)
            file.seek(max(0, source.size - EDGE))
            return b": opCount " in head or b": opCount " in file.read(EDGE)
    except OSError:
        return False


def _read(source: Source, limit: int) -> list[_Process]:
    processes: dict[tuple[str, int], _Process] = {}
    speakers: dict[bytes, _Process | None] = {}  # what stands before "NCCL INFO" -> whose it is
    try:
        with buffered(source.file) as file:
            if source.size <= limit:
                parts = [file.read(limit)]
            else:
                parts = [file.read(min(LEAST, limit // 4))]
                file.seek(source.size - limit)
                parts.append(file.read(limit))
    except OSError:
        return []
    whole = len(parts) == 1
    for n, data in enumerate(parts):
        line, counted, done = 1, 0, -1
        for hit in _WANTED.finditer(data):
            start = data.rfind(b"\n", max(0, hit.start() - MAX_LINE), hit.start()) + 1
            if start <= done:  # several on one line
                continue
            done = start
            end = data.find(b"\n", hit.end(), hit.end() + MAX_LINE)
            head, info, message = data[start : end if end >= 0 else hit.end() + MAX_LINE].partition(INFO)
            line, counted = line + data.count(b"\n", counted, start), start
            if not info:
                continue
            if len(speakers) > MAX_SPEAKERS:
                speakers.clear()
            if head not in speakers:
                spoken = parse((head + info).decode("utf-8", "replace"))
                speakers[head] = (
                    processes.setdefault((spoken.host, spoken.pid), _Process(source, whole)) if spoken else None
                )
            if (process := speakers[head]) is None:
                continue
            text = message.decode("ascii", "replace")
            if hit[0].startswith(b"-"):
                if (birth := init(text)) is not None:
                    _born(process, birth)
            elif (n == 0) == whole and (call := _CALL.match(text)) is not None:
                _called(process, call, line if whole else None)
    return list(processes.values())


def _born(process: _Process, birth: Init) -> None:
    known = process.comms.get(birth.comm)
    if known is not None and not known[1].complete and birth.complete:
        key = known[0]  # the second line of the same birth; that of a split communicator no longer says whose it is
    elif birth.id is not None:
        key = birth.id
    elif birth.parent is not None:
        key = f"{process.comms[birth.parent][0] if birth.parent in process.comms else '?'} split {birth.split}"[
            :LONGEST
        ]
    else:
        key = _nameless(process, birth.size)
    process.comms[birth.comm] = (key, birth)
    process.births[key] = birth


def _nameless(process: _Process, size: int) -> str:
    """A key for a communicator that bears no id: the n-th one of its size in its process, which it is on all ranks."""
    process.nameless[size] += 1
    return f"{size} ranks #{process.nameless[size]}"


def _called(process: _Process, call: re.Match[str], line: int | None) -> None:
    comm, ranks = call["comm"], int(call["ranks"])
    if comm in process.comms:
        key = process.comms[comm][0]
    else:
        if comm not in process.unknown:
            process.unknown[comm] = _nameless(process, ranks)
        key = process.unknown[comm]
    process.sizes[key] = ranks
    if call["rank"] is not None:
        process.told[key] = int(call["rank"])
    if call["op"] in P2P:
        process.p2p.add(key)
        return
    count = int(call["count"], 16)
    before, nth = process.same.get(key, (-1, 0))
    nth = nth + 1 if before == count else 0
    process.same[key] = (count, nth)
    process.made[key] += 1
    dtype = int(call["dtype"])
    process.calls[key].append(
        _Call(
            process.made[key], count, nth, OPS.get(call["op"], call["op"]), int(call["size"]),
            DTYPES[dtype] if dtype < len(DTYPES) else f"type {dtype}", line,
        )
    )  # fmt: skip


def _ranks(processes: Sequence[_Process], stated: int | None) -> dict[int, int]:
    """Place in `processes` -> global rank: that in a communicator of all ranks, else the one that the file bears.

    The rank in a communicator is known by its birth, or by RCCL's calls in one that is of the stated size.
    """
    world = stated or max((b.size for p in processes for b in p.births.values()), default=0)
    of_file = Counter(p.source.path for p in processes)
    member_of = [frozenset(key for key, b in p.births.items() if b.size == world) for p in processes]
    # Communicators of that size that share no process are parts of a larger job: ranks in them are not the job's.
    sets = [keys for keys in member_of if keys]
    trusted = stated is not None or bool(sets and frozenset.intersection(*sets))
    found = {}
    for n, process in enumerate(processes):
        rank = next((process.births[key].rank for key in sorted(member_of[n])), None) if trusted else None
        if rank is None and stated is not None:
            rank = next((r for key, r in sorted(process.told.items()) if process.sizes[key] == stated), None)
        if rank is None and of_file[process.source.path] == 1:
            rank = process.source.identity.rank
        if rank is not None and rank < MAX_RANKS:
            found[n] = rank
    return found


def _frame(processes: Sequence[_Process], stated: int | None) -> pl.DataFrame | None:
    import polars as pl

    rank_of = _ranks(processes, stated)
    callers: dict[str, dict[int, _Process]] = defaultdict(dict)
    born: dict[str, set[int]] = defaultdict(set)
    for n, rank in rank_of.items():
        for key in processes[n].calls:
            callers[key][rank] = processes[n]
        for key in processes[n].births:
            born[key].add(rank)
    columns: dict[str, list[Any]] = {name: [] for name in COLLECTIVES_COLUMNS}
    for key, mine in sorted(callers.items()):
        if len(mine) < 2:
            continue
        numbers = _numbers(key, mine)
        size = next(iter(mine.values())).sizes[key]
        members = born[key] | set(mine)
        desc = f"ranks {rank_ranges(members, separator=',', pair='-')}" if len(members) == size else ""
        for rank, process in mine.items():
            calls = [c for c in process.calls[key] if (c.index if numbers is None else (c.count, c.nth) in numbers)]
            for n, c in enumerate(calls):
                row = {
                    "source": process.source.path,
                    "rank": rank,
                    "group": f"NCCL {key}",
                    "group_desc": desc,
                    "seq": c.index if numbers is None else numbers[c.count, c.nth],
                    "op": c.op,
                    "input_sizes": f"[[{c.size}]]",
                    "dtypes": f'["{c.dtype}"]',
                    "state": CALLED,
                    "retired": n < len(calls) - 1,
                    "is_p2p": False,
                    "line": c.line,
                    "printed": f"opCount {c.count:x}",
                }
                for name, values in columns.items():
                    values.append(row.get(name))
    return pl.DataFrame(columns, schema=schema(COLLECTIVES_COLUMNS)) if columns["rank"] else None


def _numbers(key: str, processes: Mapping[int, _Process]) -> Mapping[tuple[int, int], int] | None:
    """(printed count, nth with it) -> number, for a communicator whose logs were not all read from the beginning.

    None where they were. Empty where nothing can be compared: sends and receives move the printed count as well, and
    each rank has its own.
    """
    if all(p.whole for p in processes.values()):
        return None
    if any(key in p.p2p for p in processes.values()):
        return {}
    # Of the first count in a cut log some calls may be missing.
    first = max((p.calls[key][0].count + 1 for p in processes.values() if not p.whole), default=0)
    seen = sorted({(c.count, c.nth) for p in processes.values() for c in p.calls[key] if c.count >= first})
    return {pair: n for n, pair in enumerate(seen, 1)}
