"""What NCCL's status service (`ncclras`, NCCL 2.24 and later) answers, as text or as JSON.

The text is made for people, and NCCL declares it unstable; the parts read here have kept their words from 2.24 to 2.30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from forensics.patterns import lazy

MAX_BYTES = 8 << 20
MOST = 4096  # ranks and processes that are taken from one answer

_GROUP = lazy(r"^#(\d+-\d+) \((?:0x)?([0-9a-f]+)", re.MULTILINE)
_DEAD = lazy(r"^DEAD\s*$(?P<body>.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_INCOMPLETE = lazy(r"^(?:#(?P<group>\d+-\d+) .*)?INCOMPLETE\s*$(?P<body>.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ERROR = lazy(r"^#(?P<group>\d+-\d+) .*\bERROR\s*$(?P<body>.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_MISMATCH = lazy(r"^#(?P<group>\d+-\d+) .*\bMISMATCH\s*$(?P<body>.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_PROCESS = lazy(r"Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpus>[\d, ]+)")
_MANAGED = r"(?: \d+(?: \(NVML \d+\))? managed by process (?P<pid>\d{1,9}) on node (?P<node>\S+))?"
_MISSING = lazy(rf"(?:Rank (?P<rank>\d+) -- GPU{_MANAGED}|[Tt]he missing rank: (?P<only>\d+))")
_REPORTED = lazy(rf"Rank (?P<rank>\d+) reported (?P<what>.*?) -- GPU{_MANAGED}")
_BLOCK = lazy(
    r"Communicator ranks have different (?:\[?(?P<op>\w+)\]? )?operation counts(?P<body>.*?)(?=Communicator ranks|\Z)",
    re.DOTALL,
)
_JOB = lazy(r"^\(total\) .*\n *\d{1,9} +[\d-]{1,19} +[\d-]{1,19} +\d{1,9} +(?P<gpus>\d{1,9})\s*$", re.MULTILINE)
_ROW = lazy(
    r"^ *(?P<group>\d{1,6}) +(?P<comms>\d{1,9}) +\d{1,9} +[\d-]{1,19} +(?P<ranks>\d{1,9}) +(?P<there>\d{1,9}) +[A-Z]",
    re.MULTILINE,
)
_LAUNCHED = r"(?:launched up to operation (?P<count>\d{1,18})|not launched any operations)"
_SEVERAL = lazy(rf"(?P<n>\d{{1,9}}) ranks? ha(?:ve|s) {_LAUNCHED}")
_ONE = lazy(rf"Rank (?P<rank>\d{{1,9}}) has {_LAUNCHED}(?: -- GPU{_MANAGED})?")
_LISTED = lazy(rf"Rank (?P<rank>\d{{1,9}}) -- GPU{_MANAGED}")
# ncclResult_t (nccl.h); 7, ncclInProgress, is none.
RESULTS = {
    1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument",
    5: "ncclInvalidUsage", 6: "ncclRemoteError",
}  # fmt: skip
_Process = tuple[str | None, int | None, int | None]  # host, pid, CUDA device


class Peer(NamedTuple):
    """A process that RAS cannot reach, or whose communicator data is missing."""

    rank: int | None  # inside the communicator
    pid: int | None
    node: str | None
    whole_job: bool = True  # the communicator is the largest of the answer, so that its ranks are global


@dataclass(frozen=True, slots=True)
class Behind:
    """A rank that has launched fewer operations of a communicator than most others."""

    rank: int
    op: str | None  # "AllReduce"; None where all operations are counted together (before 2.26)
    count: int
    others: int  # what the most ranks have launched
    whole_job: bool = True  # `rank` is the job's; else that of its communicator
    pid: int | None = None
    node: str | None = None


class Reported(NamedTuple):
    """What a rank says is wrong with its communicator. whole_job, pid, node: as in `Behind`."""

    rank: int
    what: str
    code: int | None = None  # a key of RESULTS, where it is told
    whole_job: bool = False
    pid: int | None = None
    node: str | None = None


class Answer(NamedTuple):
    version: str | None = None
    dead: tuple[Peer, ...] = ()
    missing: tuple[Peer, ...] = ()
    behind: tuple[Behind, ...] = ()
    errors: tuple[Reported, ...] = ()
    problem: str | None = None


def read(data: bytes) -> Answer:
    """One answer. Never raises for what it holds; `problem` says what is wrong with it."""
    if data.lstrip()[:1] == b"{":
        try:
            loaded = json.loads(data[:MAX_BYTES])
        except (ValueError, RecursionError):
            return Answer(problem="NCCL RAS: damaged or truncated JSON")
        return _from_json(loaded) if isinstance(loaded, dict) else Answer(problem="NCCL RAS: no answer in it")
    return _from_text(data[:MAX_BYTES].decode("utf-8", "replace"))


def _from_text(text: str) -> Answer:
    version = re.search(r"NCCL version (\S+) compiled", text)
    dead = [
        Peer(None, int(m["pid"]), m["node"]) for block in _DEAD.finditer(text) for m in _PROCESS.finditer(block["body"])
    ]
    whole = _whole_job(text)
    missing: list[Peer] = []
    for block in _INCOMPLETE.finditer(text):
        if block["group"] is None:
            missing += [Peer(None, int(m["pid"]), m["node"]) for m in _PROCESS.finditer(block["body"])]
        else:
            known = block["group"].partition("-")[0] in whole
            missing += [
                Peer(int(m["rank"] or m["only"]), *_manager(m), known) for m in _MISSING.finditer(block["body"])
            ]
    dead, missing = _joined(dead, missing)
    errors = [
        Reported(int(m["rank"]), m["what"], None, block["group"].partition("-")[0] in whole, *_manager(m))
        for block in _ERROR.finditer(text)
        for m in _REPORTED.finditer(block["body"])
    ]
    behind = [
        b
        for block in _MISMATCH.finditer(text)
        for m in _BLOCK.finditer(block["body"])
        for b in _late(m, block["group"].partition("-")[0] in whole)
    ]
    return Answer(
        version[1] if version else None, tuple(dead[:MOST]), tuple(missing[:MOST]), tuple(behind[:MOST]),
        tuple(errors[:MOST]),
    )  # fmt: skip


def _joined(dead: Sequence[Peer], missing: Sequence[Peer]) -> tuple[list[Peer], list[Peer]]:
    """(dead, missing) with one entry for a rank and its process, which an answer lists apart.

    An entry of a rank may leave its process out. Where one process is gone, and one rank of the job, they are the same;
    of several ranks of one host, the host is known.
    """
    gone = {(p.pid, p.node) for p in dead}
    processes = {(p.pid, p.node) for p in (*dead, *missing) if p.rank is None}
    ranks = {p.rank for p in missing if p.rank is not None and p.whole_job}
    hosts = {node for _, node in processes}

    def whose(p: Peer) -> Peer:
        if p.rank is None or p.pid is not None or not p.whole_job or not processes:
            return p
        if len(processes) == len(ranks) == 1:
            pid, node = next(iter(processes))
            return p._replace(pid=pid, node=node)
        return p._replace(node=next(iter(hosts))) if len(hosts) == 1 else p

    known = list(dict.fromkeys(whose(p) for p in missing if p.rank is not None))
    told = {(p.pid, p.node) for p in known if p.whole_job}
    alone = [p for p in (*dead, *missing) if p.rank is None and (p.pid, p.node) not in told]
    return (
        [p for p in (*alone, *known) if (p.pid, p.node) in gone],
        [p for p in (*alone, *known) if (p.pid, p.node) not in gone],
    )


def _whole_job(text: str) -> set[str]:
    """Groups of the table whose communicators have all GPUs of the job: ranks in them are the job's.

    The summary leaves out processes that are gone: with these, one communicator can have all.
    Where the summary is not there, those that are one communicator, of as many ranks as the largest.
    """
    rows = {m["group"]: (int(m["comms"]), int(m["ranks"]), int(m["there"])) for m in _ROW.finditer(text)}
    if (job := _JOB.search(text)) is not None:
        gpus = int(job["gpus"])
        return {n for n, (comms, ranks, there) in rows.items() if ranks == gpus or (comms == 1 and there == gpus)}
    most = max((ranks for _, ranks, _ in rows.values()), default=0)
    return {group for group, (comms, ranks, _) in rows.items() if comms == 1 and ranks == most}


def _late(block: re.Match[str], whole: bool) -> list[Behind]:
    """The ranks that a block names and that have launched less than the largest part of the ranks."""
    counts: dict[int, int] = {}
    named: dict[int, int] = {}
    managed: dict[int, tuple[int | None, str | None]] = {}
    current: int | None = None  # the count of the ranks that are listed below the line
    for line in block["body"].splitlines():
        if m := _SEVERAL.search(line):
            current = int(m["count"] or 0)
            counts[current] = int(m["n"])
        elif m := _ONE.search(line):
            named[int(m["rank"])] = int(m["count"] or 0)
            managed[int(m["rank"])] = _manager(m)
        elif current is not None and (m := _LISTED.search(line)):
            named[int(m["rank"])] = current
            managed[int(m["rank"])] = _manager(m)
    if not counts:
        return []
    usual = max(counts, key=lambda count: (counts[count], count))
    op = None if block["op"] in (None, "collective") else block["op"]
    return [
        Behind(rank, op, count, usual, whole, *managed[rank]) for rank, count in sorted(named.items()) if count < usual
    ]


def _manager(m: re.Match[str]) -> tuple[int | None, str | None]:
    """(pid, node) of the process that manages a rank's GPU."""
    return (int(m["pid"]) if m["pid"] else None), m["node"]


def _from_json(loaded: Mapping[str, Any]) -> Answer:
    version = loaded.get("nccl_version")
    comms = [c for c in _list(loaded.get("communicators")) if isinstance(c, dict)]
    largest = max((_int(c.get("size")) or 0 for c in comms), default=0)
    members = {_members(c) for c in comms if (_int(c.get("size")) or 0) == largest}
    one_set = len(members) == 1  # else they are parts of the job, and ranks in them are not the job's
    job = _job(comms, largest) if one_set else {}
    dead: list[Peer] = []
    missing: list[Peer] = []
    behind: list[Behind] = []
    errors: list[Reported] = []
    for comm in comms:
        whole = (_int(comm.get("size")) or 0) == largest and one_set

        def known(r: Mapping[str, Any], whole: bool = whole) -> int | None:
            """The job's rank of a member; None where it is not known."""
            return _int(r.get("rank")) if whole else job.get(_process(r))

        ranks = {
            n: r for r in _list(comm.get("ranks")) if isinstance(r, dict) and (n := _int(r.get("rank"))) is not None
        }
        for r in _list(comm.get("missing_ranks")):
            if isinstance(r, dict):
                status = r.get("status")
                gone = isinstance(status, dict) and status.get("considered_dead") is True
                own = known(r)
                rank = _int(r.get("rank")) if own is None else own
                peer = Peer(rank, _int(r.get("pid")), _text(r.get("host")), own is not None)
                (dead if gone else missing).append(peer)
        counts: dict[int, dict[str, int]] = {}
        for rank, r in ranks.items():
            launched = r.get("collective_counts")
            if isinstance(launched, dict):
                counts[rank] = {str(op)[:40]: n for op, value in launched.items() if (n := _int(value)) is not None}
            status = r.get("status")
            failed = _int(status.get("async_error")) if isinstance(status, dict) else None
            if failed and failed != 7:  # ncclInProgress
                own = known(r)
                what = f"asynchronous error {failed}" + (f" ({RESULTS[failed]})" if failed in RESULTS else "")
                shown = rank if own is None else own
                errors.append(Reported(shown, what, failed, own is not None, _int(r.get("pid")), _text(r.get("host"))))
        for late in _fewer(counts):
            own = known(ranks[late.rank])
            pid, node = _int(ranks[late.rank].get("pid")), _text(ranks[late.rank].get("host"))
            shown = late.rank if own is None else own
            behind.append(replace(late, rank=shown, whole_job=own is not None, pid=pid, node=node))
    found = Answer(
        _text(version), tuple(dict.fromkeys(dead)), tuple(dict.fromkeys(missing)), tuple(behind), tuple(errors)
    )
    return found._replace(**{name: getattr(found, name)[:MOST] for name in ("dead", "missing", "behind", "errors")})


def _job(comms: Sequence[Mapping[str, Any]], largest: int) -> dict[_Process, int]:
    """Process and device -> rank in the communicator of all ranks; what several ranks share is left out."""
    found: dict[_Process, int] = {}
    shared: set[_Process] = set()
    comm = next((c for c in comms if (_int(c.get("size")) or 0) == largest), {})
    for r in (r for name in ("ranks", "missing_ranks") for r in _list(comm.get(name)) if isinstance(r, dict)):
        rank, process = _int(r.get("rank")), _process(r)
        if rank is not None:
            shared.update({process} if process in found else ())
            found[process] = rank
    return {process: rank for process, rank in found.items() if process not in shared}


def _process(rank: Mapping[str, Any]) -> _Process:
    return _text(rank.get("host")), _int(rank.get("pid")), _int(rank.get("cuda_dev"))


def _members(comm: Mapping[str, Any]) -> frozenset[tuple[int | None, str | None, int | None]]:
    """Which process has which rank of a communicator."""
    ranks = [r for name in ("ranks", "missing_ranks") for r in _list(comm.get(name)) if isinstance(r, dict)]
    return frozenset((_int(r.get("rank")), _text(r.get("host")), _int(r.get("pid"))) for r in ranks)


def _fewer(counts: Mapping[int, Mapping[str, int]]) -> list[Behind]:
    """Ranks that have launched fewer operations of one kind than more than half of their communicator."""
    found = []
    for op in sorted({op for launched in counts.values() for op in launched}):
        values = sorted(launched.get(op, 0) for launched in counts.values())
        usual = values[len(values) // 2]
        late = [Behind(r, op, c.get(op, 0), usual) for r, c in sorted(counts.items()) if c.get(op, 0) < usual]
        found += late if 2 * len(late) < len(values) else []
    return found


def _list(value: Any) -> list[Any]:
    return value[:MOST] if isinstance(value, list) else []


def _int(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**63 else None


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None
