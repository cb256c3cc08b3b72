"""Kernel logs written as JSON, turned into the lines that journalctl and dmesg print without it.

`journalctl -o json` writes one object a line, whose MESSAGE is a string, a list of bytes where it holds control
characters or is no UTF-8, or a list of these where a field was given twice; `-o json-pretty` spreads each over several
lines; `dmesg --json` is one object whose "dmesg" list holds records with the seconds since boot. Files of the first
kind are scanned as they are, and only the records that were hit are decoded; the others are small and read in full.
"""

from __future__ import annotations

import contextlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from forensics.engine.scan import KEEP, Hit, Scan
from forensics.files import buffered

WHOLE = 64 << 20  # bytes of a file that are read where it has to be read in full (a ring buffer holds 16 MB at most)
BYTES_READ = 256 << 20  # bytes of a journal that are searched for messages given as bytes
RECORDS = 400_000  # of such a file; a ring buffer of 16 MB holds fewer
MAX_HITS = 4096  # lines taken from records that were decoded beside the scan
MESSAGE = 16 << 10  # characters of one message that are kept
RECORD = 256 << 10  # bytes of one record of a journal
_DMESG = re.compile(rb'^\s*\{\s*"dmesg"\s*:\s*\[')
_JOURNAL = re.compile(
    rb'"(?:__REALTIME_TIMESTAMP|_SOURCE_REALTIME_TIMESTAMP|__CURSOR|_TRANSPORT|SYSLOG_IDENTIFIER|_BOOT_ID)"\s*:'
)
_RECORD = re.compile(rb'"msg"\s*:\s*"((?:[^"\\\n]|\\.){0,65536})')
_TIME = re.compile(rb'"time"\s*:\s*(\d{1,10}(?:\.\d{1,9})?)')
_AS_BYTES = re.compile(rb'"MESSAGE"\s{0,8}:\s{0,8}\[')  # journals before systemd 236 print spaces around it
_DMESG_END = re.compile(rb"\]\s*\}\s*\Z")
CUT = "cut off in its last record"


@dataclass(frozen=True, slots=True)
class Record:
    """One message as a line of text, and where its record begins in the file."""

    text: str
    offset: int


def form_of(head: bytes) -> str | None:
    """ "dmesg", "journal" (a record a line) or "journal pretty", from a file's first bytes; None for anything else."""
    if _DMESG.match(head):
        return "dmesg"
    start = head.lstrip()
    if not start.startswith(b"{") or b'"MESSAGE"' not in head or not _JOURNAL.search(head):
        return None
    return "journal pretty" if start[1:2] in (b"\n", b"\r") else "journal"


def decode(line: bytes) -> tuple[str, ...]:
    """A record of a journal as lines of text, one for each line of its message; empty if it is none. Never raises."""
    if len(line) > RECORD:
        return ()
    try:
        record = json.loads(line.decode("utf-8", "replace").strip().removeprefix("data: "))
    except (ValueError, RecursionError):
        return ()
    return _lines_of(record) if isinstance(record, dict) else ()


def _lines_of(record: dict[str, Any]) -> tuple[str, ...]:
    message = text_of(record.get("MESSAGE"))
    if message is None:
        return ()
    head = front_of(record)
    return tuple(head + part for part in message[:MESSAGE].splitlines()[:64] if part.strip())


def front_of(record: Mapping[str, Any]) -> str:
    """What journalctl prints before the message of a record: time, host, program and pid, or since boot."""
    stamp = _stamp(record.get("__REALTIME_TIMESTAMP") or record.get("_SOURCE_REALTIME_TIMESTAMP"))
    tag = _word(record.get("SYSLOG_IDENTIFIER") or record.get("_COMM"))
    if record.get("_TRANSPORT") == "kernel":
        tag = "kernel"
    pid = _word(record.get("_PID") or record.get("SYSLOG_PID"))
    host = _word(record.get("_HOSTNAME"))
    front = f"{stamp} {host} {tag or 'unknown'}" if host else f"{stamp} {tag or 'unknown'}"
    if pid and pid.isdigit() and tag != "kernel":
        front += f"[{pid}]"
    since_boot = ""
    if tag == "kernel" and (micros := _word(record.get("_SOURCE_MONOTONIC_TIMESTAMP"))) and micros.isdigit():
        since_boot = f"[{int(micros[:17]) / 1e6:.6f}] "
    return f"{front}: {since_boot}" if stamp else since_boot


def text_of(value: Any) -> str | None:
    """A field's value as text: a string, a list of bytes, or the first of several values."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(type(v) is int and 0 <= v < 256 for v in value[:MESSAGE]):
            return bytes(value[:MESSAGE]).decode("utf-8", "replace")
        return text_of(value[0]) if isinstance(value[0], (str, list)) and value[0] is not value else None
    return None


def _word(value: Any) -> str | None:
    text = text_of(value)
    return re.sub(r"[^\w./@-]", "_", text[:128]) if text else None


def _stamp(value: Any) -> str | None:
    """Microseconds since the epoch as ISO 8601 in UTC."""
    text = text_of(value)
    if text is None or not text.isdigit() or len(text) > 17:
        return None
    try:
        return datetime.fromtimestamp(int(text) / 1e6, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return None


def dmesg_records(data: bytes) -> Iterator[Record]:
    """The records of `dmesg --json`, also of a file that is cut off."""
    before = 0
    for m in _RECORD.finditer(data):
        stamps = _TIME.findall(data, max(before, m.start() - 400), m.start())
        before = m.end()
        message = m.group(1).decode("utf-8", "replace")
        if "\\" in message:
            with contextlib.suppress(ValueError):
                message = json.loads(f'"{message}"')
        first = message[:MESSAGE].split("\n")[0]
        yield Record(f"[{float(stamps[-1]):13.6f}] {first}" if stamps else first, m.start())


def pretty_records(data: bytes) -> Iterator[Record]:
    """The records of `journalctl -o json-pretty`."""
    starts = [m.start() for m in re.finditer(rb"^\{", data, re.M)]
    for start, end in pairwise([*starts, len(data)]):
        at = data.find(b'"MESSAGE"', start, end)
        for text in decode(data[start:end]):
            yield Record(text, at if at >= 0 else start)


def unfold(file: Path, head: bytes, scan: Scan, search: Callable[[Any, Callable[..., Any]], None]) -> Scan:
    """The scan of a log, with the records of a JSON form as lines of text. Any other file's scan comes back as it is.

    head: the first bytes of the file. search: the database's scan, called with bytes and a function for each match.
    The lines of text stand at the line and offset of their record, so that a reader of the file finds them.
    """
    form = form_of(head)
    if form is None:
        return scan
    if form == "journal":
        hits = []
        for hit in scan.hits:
            texts = decode(hit.data)
            hits += [hit._replace(data=text.encode("utf-8", "replace")) for text in texts] if texts else [hit]
        problem = scan.problem or (CUT if _ends_in_a_record(file) else None)
        return replace(scan, hits=hits + _given_as_bytes(file, search), problem=problem)
    try:
        with buffered(file) as stream:
            data = stream.read(WHOLE)
    except OSError:
        return scan
    records = list(islice((dmesg_records if form == "dmesg" else pretty_records)(data), RECORDS + 1))
    hits, counts = _hits(data, records[:RECORDS], search)
    problem = scan.problem
    if scan.bytes > WHOLE or len(records) > RECORDS:
        problem = problem or f"only the first {WHOLE >> 20} MB and {RECORDS:,} records were read"
    elif not (_DMESG_END.search(data, max(0, len(data) - 4096)) if form == "dmesg" else _pretty_ends(data)):
        problem = problem or CUT
    return replace(scan, hits=hits, counts=counts, problem=problem)


def _pretty_ends(data: bytes) -> bool:
    """Whether the last record of a pretty journal is whole."""
    start = data.rfind(b"\n{") + 1
    return len(data) - start > RECORD or _is_json(data[start:])


def _ends_in_a_record(file: Path) -> bool:
    """Whether a journal's last line begins a record and does not end it."""
    try:
        with buffered(file) as stream:
            before = max(0, stream.seek(0, 2) - RECORD)
            stream.seek(before)
            tail = stream.read(RECORD).rstrip()
    except OSError:
        return False
    start = tail.rfind(b"\n") + 1
    return (start > 0 or not before) and tail[start : start + 1] == b"{" and not _is_json(tail[start:])


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _numbers(data: bytes, offsets: Iterable[int], before: int = 0) -> dict[int, int]:
    """Offset -> number of its line, counted from 1 behind `before` lines."""
    numbers, at, number = {}, 0, before + 1
    for offset in sorted(set(offsets)):
        number += data.count(b"\n", at, offset)
        at = offset
        numbers[offset] = number
    return numbers


def _hits(
    data: bytes,
    records: Sequence[Record],
    search: Callable[[Any, Callable[..., Any]], None],
    shift: int = 0,
    before: int = 0,
) -> tuple[list[Hit], dict[int, int]]:
    """(lines among some records in which a pattern of the database matches, how many there are of each pattern).

    shift, before: bytes and lines of the file before `data`, in which the records lie.
    """
    starts, parts, at = [], [], 0
    for record in records:
        encoded = record.text.encode("utf-8", "replace") + b"\n"
        starts.append(at)
        parts.append(encoded)
        at += len(encoded)
    text = b"".join(parts)
    found: set[tuple[int, int]] = set()
    if text:
        search(text, lambda pattern, _s, to, _f, _c: found.add((bisect_right(starts, max(to - 1, 0)) - 1, pattern)))
    kept: dict[int, list[int]] = {}
    for n, pattern in sorted(found):
        kept.setdefault(pattern, []).append(n)
    # As in the scan itself: the first of a pattern that floods a log are kept, and the last one.
    few = {pattern: ns if len(ns) <= KEEP else [*ns[: KEEP - 1], ns[-1]] for pattern, ns in kept.items()}
    numbers = _numbers(data, (records[n].offset for ns in few.values() for n in ns), before)
    return [
        Hit(pattern, shift + records[n].offset, numbers[records[n].offset], parts[n][:-1])
        for pattern, ns in few.items()
        for n in ns
    ], {pattern: len(ns) for pattern, ns in kept.items()}


def _given_as_bytes(file: Path, search: Callable[[Any, Callable[..., Any]], None]) -> list[Hit]:
    """The hits in records of a journal whose message is a list of bytes, in which the scan sees numbers only."""
    hits: list[Hit] = []
    number, position, rest = 0, 0, b""
    try:
        with buffered(file) as stream:
            while position < BYTES_READ and (block := stream.read(8 << 20)):
                data = rest + block
                cut = data.rfind(b"\n") + 1
                if not cut and len(data) <= RECORD:
                    rest = data
                    continue
                cut = cut or len(data)
                records, found = [], _AS_BYTES.search(data, 0, cut)
                while found is not None:
                    start = data.rfind(b"\n", 0, found.start()) + 1
                    end = data.find(b"\n", found.start(), cut)
                    end = end if end >= 0 else cut
                    records += [Record(text, start) for text in decode(data[start:end])]
                    found = _AS_BYTES.search(data, end, cut)
                if records:
                    hits += _hits(data, records, search, position, number)[0]
                number += data.count(b"\n", 0, cut)
                position += cut
                rest = data[cut:]
                if len(hits) >= MAX_HITS:
                    break
            if rest and _AS_BYTES.search(rest):
                records = [Record(text, 0) for text in decode(rest)]
                hits += _hits(rest, records, search, position, number)[0]
    except OSError:
        pass
    return hits
