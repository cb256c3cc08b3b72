"""Records of JSON lines that quote a traceback or state an error: their strings are read as the log that they hold.

    {"ts": "2026-01-05T14:03:01Z", "level": "ERROR", "msg": "failed", "exc_info": "Traceback ...:\\n  File ..."}

python-json-logger, structlog, ECS and loguru write an exception as one string with escaped line ends, in which a scan
of the raw line finds no traceback; structlog can also write its frames as objects. The strings are unescaped, read by
the same scan and the same rules as any log, and every line of them is then placed at the line of its record.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from forensics.engine.matcher import Matcher
from forensics.engine.scan import scan_span
from forensics.files import opened
from forensics.model import Evidence, Identity, Kind, Observation, Source, Traceback
from forensics.parsers.logs import read_log
from forensics.parsers.severity import MESSAGES, SEVERE, stated_level
from forensics.patterns import lazy

MAX_RECORD = 1 << 20  # bytes of a line; a stack of a thousand frames has some 100,000
MAX_RECORDS = 2_000
_SPEAKER = "process-seen"
_HEADER = "Traceback (most recent call last):"
_QUOTES = _HEADER.encode() + rb"\n"  # as JSON escapes it
_ECS = b'"stack_trace"'
_STRUCTURED = b'"exc_type"'
_SEVERE = frozenset(("error", "critical", "fatal", "exception", "err"))
_STATES_ERROR = lazy(rb'(?i)"(?:error|critical|fatal|exception|err)"')
_EXCEPTIONS = ("exception", "exc_info", "error")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_NO = (None, None, None)
MAX_CHAIN = 20  # exceptions of a structured traceback
_LEVELS = ("level", "levelname", "level_name", "severity", "log.level", "loglevel", "lvl")
_MESSAGES = ("message", "msg", "event", "text")
_TIMES = ("@timestamp", "timestamp", "ts", "time", "asctime")
_RANKS = ("rank", "global_rank")


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


def read(source: Source, matcher: Matcher, *, reference: float) -> Quoted:
    """What the records of a log or a metric file quote; empty where none does. Never raises for what the file holds.

    Of a log only tracebacks are taken, as its own scan has read the messages; of metrics also messages of error levels.
    reference: as in `logs.read_log`.
    """
    records, problem = _records(source)
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
    with opened(source.file) as raw:
        number = 0
        while line := raw.readline(MAX_RECORD):
            number += 1
            if not line.endswith(b"\n") and len(line) == MAX_RECORD:
                while line and not line.endswith(b"\n"):
                    line = raw.readline(MAX_RECORD)
                continue
            told = _QUOTES in line or _ECS in line or _STRUCTURED in line
            told = told or (source.kind is Kind.METRICS and _STATES_ERROR.search(line) is not None)
            if not told or (record := _record(line, number, source)) is None:
                continue
            if len(records) == MAX_RECORDS:
                return records, f"records of errors beyond the first {MAX_RECORDS:,} not read"
            records.append(record)
    return records, None


def _record(line: bytes, number: int, source: Source) -> _Record | None:
    """What a JSON line says that is to be read; None where it is no object, or its level is less than an error."""
    try:
        record = json.loads(line.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
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
    rank = next((v for key in _RANKS if type(v := record.get(key)) is int and v >= 0), None)
    return _Record(number, "\n".join(stacks), Identity(rank=rank), *_time(record))


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
    return stated if stated.rank is not None or record.rank is None else replace(stated, rank=record.rank)


def _dated(row: Traceback | Observation, record: _Record) -> dict[str, Any]:
    if row.time is not None or record.time is None:
        return {}
    return {"time": record.time, "zone_known": record.zone_known, "timed": True}
