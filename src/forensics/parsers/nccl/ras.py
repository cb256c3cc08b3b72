"""What NCCL's status service (`ncclras`, NCCL 2.24 and later) answers, as text or as JSON.

The text is made for people, and NCCL declares it unstable; the parts read here have kept their words from 2.24 to 2.30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
_MISSING = lazy(r"(?:Rank (?P<rank>\d+) -- GPU|[Tt]he missing rank: (?P<only>\d+))")
_REPORTED = lazy(r"Rank (?P<rank>\d+) reported (?P<what>.*?) -- GPU")
_BLOCK = lazy(
    r"Communicator ranks have different (?:\[?(?P<op>\w+)\]? )?operation counts(?P<body>.*?)(?=Communicator ranks|\Z)",
    re.DOTALL,
)
_JOB = lazy(r"^\(total\) .*\n *\d{1,9} +[\d-]{1,19} +[\d-]{1,19} +\d{1,9} +(?P<gpus>\d{1,9})\s*$", re.MULTILINE)
_ROW = lazy(
    r"^ *(?P<group>\d{1,6}) +(?P<comms>\d{1,9}) +\d{1,9} +[\d-]{1,19} +(?P<ranks>\d{1,9}) +\d{1,9} +[A-Z]", re.MULTILINE
)
_LAUNCHED = r"(?:launched up to operation (?P<count>\d{1,18})|not launched any operations)"
_SEVERAL = lazy(rf"(?P<n>\d{{1,9}}) ranks? ha(?:ve|s) {_LAUNCHED}")
_ONE = lazy(rf"Rank (?P<rank>\d{{1,9}}) has {_LAUNCHED}")
_LISTED = lazy(r"Rank (?P<rank>\d{1,9}) -- GPU")


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
    whole_job: bool = True


class Answer(NamedTuple):
    version: str | None = None
    dead: tuple[Peer, ...] = ()
    missing: tuple[Peer, ...] = ()
    behind: tuple[Behind, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()  # (rank, what it reported)
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
            missing += [Peer(int(m["rank"] or m["only"]), None, None, known) for m in _MISSING.finditer(block["body"])]
    errors = [(int(m["rank"]), m["what"]) for block in _ERROR.finditer(text) for m in _REPORTED.finditer(block["body"])]
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


def _whole_job(text: str) -> set[str]:
    """Groups of the table whose communicators have all GPUs of the job: ranks in them are the job's.

    Where the summary is not there, those that are one communicator, of as many ranks as the largest.
    """
    rows = {m["group"]: (int(m["comms"]), int(m["ranks"])) for m in _ROW.finditer(text)}
    if (job := _JOB.search(text)) is not None:
        return {group for group, (_, ranks) in rows.items() if ranks == int(job["gpus"])}
    most = max((ranks for _, ranks in rows.values()), default=0)
    return {group for group, (comms, ranks) in rows.items() if comms == 1 and ranks == most}


def _late(block: re.Match[str], whole: bool) -> list[Behind]:
    """The ranks that a block names and that have launched less than the largest part of the ranks."""
    counts: dict[int, int] = {}
    named: dict[int, int] = {}
    current: int | None = None  # the count of the ranks that are listed below the line
    for line in block["body"].splitlines():
        if m := _SEVERAL.search(line):
            current = int(m["count"] or 0)
            counts[current] = int(m["n"])
        elif m := _ONE.search(line):
            named[int(m["rank"])] = int(m["count"] or 0)
        elif current is not None and (m := _LISTED.search(line)):
            named[int(m["rank"])] = current
    if not counts:
        return []
    usual = max(counts, key=lambda count: (counts[count], count))
    op = None if block["op"] in (None, "collective") else block["op"]
    return [Behind(rank, op, count, usual, whole) for rank, count in sorted(named.items()) if count < usual]


def _from_json(loaded: Mapping[str, Any]) -> Answer:
    version = loaded.get("nccl_version")
    comms = [c for c in _list(loaded.get("communicators")) if isinstance(c, dict)]
    largest = max((_int(c.get("size")) or 0 for c in comms), default=0)
    members = {_members(c) for c in comms if (_int(c.get("size")) or 0) == largest}
    one_set = len(members) == 1  # else they are parts of the job, and ranks in them are not the job's
    dead: list[Peer] = []
    missing: list[Peer] = []
    behind: list[Behind] = []
    errors: list[tuple[int, str]] = []
    for comm in comms:
        whole = (_int(comm.get("size")) or 0) == largest and one_set
        for r in _list(comm.get("missing_ranks")):
            if isinstance(r, dict):
                status = r.get("status")
                gone = isinstance(status, dict) and status.get("considered_dead") is True
                peer = Peer(_int(r.get("rank")), _int(r.get("pid")), _text(r.get("host")), whole)
                (dead if gone else missing).append(peer)
        counts: dict[int, dict[str, int]] = {}
        for r in _list(comm.get("ranks")):
            rank = _int(r.get("rank")) if isinstance(r, dict) else None
            if rank is None:
                continue
            launched = r.get("collective_counts")
            if isinstance(launched, dict):
                counts[rank] = {str(op)[:40]: n for op, value in launched.items() if (n := _int(value)) is not None}
            status = r.get("status")
            failed = _int(status.get("async_error")) if isinstance(status, dict) else None
            if failed and failed != 7:  # ncclInProgress
                errors.append((rank, f"asynchronous error {failed}"))
        behind += _fewer(counts, whole)
    return Answer(_text(version), tuple(dead[:MOST]), tuple(missing[:MOST]), tuple(behind[:MOST]), tuple(errors[:MOST]))


def _members(comm: Mapping[str, Any]) -> frozenset[tuple[int | None, str | None, int | None]]:
    """Which process has which rank of a communicator."""
    ranks = [r for name in ("ranks", "missing_ranks") for r in _list(comm.get(name)) if isinstance(r, dict)]
    return frozenset((_int(r.get("rank")), _text(r.get("host")), _int(r.get("pid"))) for r in ranks)


def _fewer(counts: Mapping[int, Mapping[str, int]], whole: bool) -> list[Behind]:
    """Ranks that have launched fewer operations of one kind than more than half of their communicator."""
    found = []
    for op in sorted({op for launched in counts.values() for op in launched}):
        values = sorted(launched.get(op, 0) for launched in counts.values())
        usual = values[len(values) // 2]
        late = [Behind(r, op, c.get(op, 0), usual, whole) for r, c in sorted(counts.items()) if c.get(op, 0) < usual]
        found += late if 2 * len(late) < len(values) else []
    return found


def _list(value: Any) -> list[Any]:
    return value[:MOST] if isinstance(value, list) else []


def _int(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**63 else None


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None
