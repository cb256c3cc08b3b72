"""Records of JSON lines that quote a traceback or state an error: their strings are read as the log that they hold.

    {"ts": "2026-01-05T14:03:01Z", "level": "ERROR", "msg": "failed", "exc_info": "Traceback ...:\\n  File ..."}

python-json-logger, structlog, ECS and loguru write an exception as one string with escaped line ends, in which a scan
of the raw line finds no traceback; structlog can also write its frames as objects. The strings are unescaped, read by
the same scan and the same rules as any log, and every line of them is then placed at the line of its record. Where a
record holds one line of a traceback, those that follow its header are read together.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from forensics.engine.matcher import Matcher
from forensics.engine.scan import scan_span
from forensics.files import beginning, opened
from forensics.model import Evidence, Identity, Kind, Observation, Source, Traceback
from forensics.parsers.logs import read_log
from forensics.parsers.record_identity import identity_of
from forensics.parsers.severity import MESSAGES, SEVERE, stated_level
from forensics.parsers.tracebacks import exception_of
from forensics.patterns import lazy

HEAD = 16 << 10  # bytes by which records are told
MAX_RECORD = 1 << 20  # bytes of a line; a stack of a thousand frames has some 100,000
MAX_RECORDS = 2_000
_SPEAKER = "process-seen"
_HEADER = "Traceback (most recent call last):"
_QUOTES = _HEADER.encode() + rb"\n"  # as JSON escapes it
_ALONE = re.compile(rb'[" ]Traceback \(most recent call last\):(?:\\n)?"')  # a record a line of a traceback
FOLLOWED = 200  # records from such a header on whose messages are read
_TELLS = lazy(rb'"(?:message|msg|event|text)" ?: ?"[^"]* ')  # of two words at least
AT_ENDS = 200  # records at either end of a metric file whose messages are read, whatever their level
_ECS = b'"stack_trace"'
_STRUCTURED = b'"exc_type"'
_STATES_ERROR = lazy(rb'(?i)"(?:error|critical|fatal|exception|err)"')
_EXCEPTIONS = ("exception", "exc_info", "error")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_NO = (None, None, None)
MAX_CHAIN = 20  # exceptions of a structured traceback
_TIMES = ("@timestamp", "timestamp", "ts", "time", "asctime")
# What Kubernetes' runtimes, and we for other collectors (`archives.records`), put before each line of a program.
_FRONT = lazy(
    rb"(?:\xef\xbb\xbf)?\s*(?:\d{4}-[\dT:.-]{14,24}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr|-) [FP] )?"
    rb"(?:\[pod/\S{1,400}\] )?"
)
# Beside a time, what collectors keep of a line but its text: whose it is, how bad, and where it went.
_ABOUT = frozenset(
    "level levelname severity stream logger host hostname pod container labels service source tag kubernetes".split()
)
_KNOWN = (*MESSAGES, "log", "line", "exception", "exc_info", "@message")
_SAMPLE = 20  # records of the head that tell whether these hold a text
_FEWEST = 3


class Quoted(NamedTuple):
    tracebacks: tuple[Traceback, ...] = ()
    observations: tuple[Observation, ...] = ()
    problem: str | None = None


class _Record(NamedTuple):
    line: int  # from 1
    text: str
    identity: Identity
    time: float | None  # seconds since the epoch
    zone_known: bool


def begins_as_records(head: bytes) -> bool:
    """Whether a log begins with an object of JSON, so that it may be a log of JSON lines. head: its first bytes."""
    m = _FRONT.match(head)
    return m is not None and head.startswith(b'{"', m.end())


def without_text(head: bytes) -> str | None:
    """Why the records of a log hold nothing to read: no field of them is one in which a text is known to stand.

    head: the first bytes of the file. None where they hold a text, and for JSON that is no log: its records bear no
    times, or nothing of what collectors keep beside a line.
    """
    records = [r for line in head.split(b"\n")[: _SAMPLE + 1] if (r := _object(line)) is not None]
    if len(records) < _FEWEST or any(isinstance(r.get(key), str) for r in records for key in _KNOWN):
        return None
    logged = [r for r in records if not r.keys().isdisjoint(_TIMES) and not _ABOUT.isdisjoint(k.lower() for k in r)]
    held = sorted({key for r in logged for key, value in r.items() if isinstance(value, str) and " " in value})
    if 5 * len(logged) < 4 * len(records) or not held:
        return None
    named = ", ".join(key[:40] for key in held[:4])
    return f"its records (JSON) hold no text in a field that is known for one ({named}?): read as they are"


def _object(line: bytes) -> dict[str, Any] | None:
    """The object of JSON on a line, behind what a runtime put before it; None where it holds none."""
    m = _FRONT.match(line)
    start = m.end() if m is not None else 0
    if not line.startswith(b"{", start):
        return None
    try:
        record = json.loads(line[start:].decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read(source: Source, matcher: Matcher, *, reference: float) -> Quoted:
    """What the records of a log or a metric file quote; empty where none does. Never raises for what the file holds.

    Of a log only tracebacks are taken, as its own scan has read the messages; of metrics also messages of error levels,
    and of any level those with which it begins and ends.
    reference: as in `logs.read_log`.
    """
    records, problem = _records(source)
    if not records and source.kind is Kind.LOG:
        problem = problem or without_text(beginning(source.file, HEAD))
    if not records:
        return Quoted(problem=problem)
    owners: list[_Record] = []
    lines: list[str] = []
    for record in records:
        said = re.split(r"\r\n|\r|\n", record.text.rstrip())
        lines += said
        owners += [record] * len(said)
    with tempfile.TemporaryDirectory(prefix="forensics-json-") as folder:
        file = Path(folder, "text")
        file.write_text("\n".join(lines) + "\n", "utf-8", "replace", newline="")
        size = file.stat().st_size
        scan = scan_span(matcher.database, file, 0, size)
        found = read_log(replace(source, file=file, size=size), scan, matcher, reference=reference)

    def owner(evidence: Evidence) -> _Record:
        return owners[min((evidence.line or 1), len(owners)) - 1]

    def here(evidence: Evidence) -> Evidence:
        return Evidence(source.path, owner(evidence).line, None, evidence.text)

    tracebacks = [
        replace(
            t,
            header=here(t.header),
            final=here(t.final),
            identity=_known(t.identity, owner(t.header).identity),
            **_dated(t, owner(t.header)),
        )
        for t in found.tracebacks
    ]
    observations = [
        replace(
            o,
            evidence=tuple(here(e) for e in o.evidence),
            identity=_known(o.identity, owner(o.evidence[0]).identity),
            **_dated(o, owner(o.evidence[0])),
        )
        for o in found.observations
        if o.signature != _SPEAKER and o.evidence
    ]
    return Quoted(tuple(tracebacks), tuple(observations), problem)


def _records(source: Source) -> tuple[list[_Record], str | None]:
    records: list[_Record] = []
    first: list[tuple[int, bytes]] = []
    last: deque[tuple[int, bytes]] = deque(maxlen=AT_ENDS)
    problem = None
    with opened(source.file) as raw:
        number = left = 0
        while line := raw.readline(MAX_RECORD):
            number += 1
            if not line.endswith(b"\n") and len(line) == MAX_RECORD:
                while line and not line.endswith(b"\n"):
                    line = raw.readline(MAX_RECORD)
                continue
            left = FOLLOWED if _ALONE.search(line) else left
            if left:
                left -= 1
                if (said := _message(line, number)) is not None:
                    records.append(said)
                    left = 0 if exception_of(said.text) else left
                    continue
            told = _QUOTES in line or _ECS in line or _STRUCTURED in line
            told = told or (source.kind is Kind.METRICS and _STATES_ERROR.search(line) is not None)
            record = _record(line, number, source) if told else None
            if record is None:
                if source.kind is Kind.METRICS and _TELLS.search(line):
                    (first if len(first) < AT_ENDS else last).append((number, line))
                continue
            if len(records) < MAX_RECORDS:
                records.append(record)
            else:
                problem = f"records of errors beyond the first {MAX_RECORDS:,} not read"
    read = {record.line for record in records}
    at_ends = (_message(line, number) for number, line in (*first, *last) if number not in read)
    return sorted([*records, *(r for r in at_ends if r is not None)], key=lambda r: r.line), problem


def _message(line: bytes, number: int) -> _Record | None:
    """The message of a record of any level, as one line of what its program printed."""
    record = _object(line)
    text = next((v for key in MESSAGES if isinstance(v := record.get(key), str)), None) if record else None
    if record is None or text is None:
        return None
    return _Record(number, text, identity_of(record), *_time(record))


def _record(line: bytes, number: int, source: Source) -> _Record | None:
    """What a JSON line says that is to be read; None where it is no object, or its level is less than an error."""
    if (record := _object(line)) is None:
        return None
    stated = stated_level(record)
    level = stated.lower() if isinstance(stated, str) else None
    if level is not None and level not in SEVERE:
        return None
    stacks = [text for text in _strings(record) if _HEADER + "\n" in text]
    stacks = stacks or _ecs(record) or _structured(record)
    message = next((v for key in MESSAGES if isinstance(v := record.get(key), str)), None)
    if source.kind is Kind.METRICS and level is not None and message is not None and message not in stacks:
        stacks.insert(0, message)
    if not stacks:
        return None
    return _Record(number, "\n".join(stacks), identity_of(record), *_time(record))


def _ecs(record: dict[str, Any]) -> list[str]:
    """The traceback of ECS: ecs-logging writes frames without a header beside the exception's type and message."""
    error = record.get("error")
    if not isinstance(error, dict):
        return []
    frames, kind, message = (error.get(key) for key in ("stack_trace", "type", "message"))
    if not isinstance(frames, str) or not isinstance(kind, str) or not frames.lstrip().startswith('File "'):
        return []
    return [f"{_HEADER}\n{frames.rstrip()}\n{kind}: {message or ''}"]


def _structured(record: dict[str, Any]) -> list[str]:
    """The traceback of structlog's `dict_tracebacks`: a list of exceptions, the last raised first, each with frames.

    `is_cause` says that an exception is the direct cause of the one before it in the list (structlog/tracebacks.py).
    """
    raised = next((v for key in _EXCEPTIONS if _are_exceptions(v := record.get(key))), None)
    if raised is None:
        return []
    parts: list[str] = []
    for n, one in reversed(list(enumerate(raised))):
        parts += [
            _HEADER,
            *_frames(one["frames"]),
            f"{one['exc_type']}: {one.get('exc_value') or ''}".removesuffix(": "),
        ]
        if n:
            parts += ["", _CAUSE if one.get("is_cause") is True else _CONTEXT, ""]
    return ["\n".join(parts)]


def _are_exceptions(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= MAX_CHAIN
        and all(isinstance(v, dict) and isinstance(v.get("exc_type"), str) and _frames(v.get("frames")) for v in value)
    )


def _frames(frames: Any) -> list[str]:
    """Frames as lines of a traceback; those that stand for left out ones have no line number."""
    lines: list[str] = []
    for frame in frames if isinstance(frames, list) else ():
        file, number, name = (frame.get(k) for k in ("filename", "lineno", "name")) if isinstance(frame, dict) else _NO
        if isinstance(file, str) and type(number) is int and number > 0 and isinstance(name, str):
            lines.append(f'  File "{file}", line {number}, in {name}')
            if isinstance(code := frame.get("line"), str) and code.strip():
                lines.append(f"    {code.strip()}")
    return lines


def _strings(value: Any, depth: int = 4) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for inner in value.values():
            yield from _strings(inner, depth - 1)


def _time(record: dict[str, Any]) -> tuple[float | None, bool]:
    """(seconds since the epoch, whether the zone is known) of the stamp that a record bears."""
    stamp = next((record[key] for key in _TIMES if isinstance(record.get(key), (str, int, float))), None)
    if isinstance(stamp, str):
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            return None, False
        known = moment.tzinfo is not None
        return (moment if known else moment.replace(tzinfo=UTC)).timestamp(), known
    if stamp is not None and 1e8 < stamp < 1e11:
        return float(stamp), True
    return None, False


def _known(stated: Identity, record: Identity) -> Identity:
    rank = stated.rank if stated.rank is not None else record.rank
    node = stated.node if stated.node is not None else record.node
    return stated if (rank, node) == (stated.rank, stated.node) else replace(stated, rank=rank, node=node)


def _dated(row: Traceback | Observation, record: _Record) -> dict[str, Any]:
    if row.time is not None or record.time is None:
        return {}
    return {"time": record.time, "zone_known": record.zone_known, "timed": True}
