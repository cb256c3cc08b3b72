"""Logs of Docker's json-file driver, as the lines that containers printed.

    {"log":"step 1 loss 2.0\\n","stream":"stdout","time":"2026-03-01T10:00:00.123456789Z"}

A record holds one line, or a piece of 16 KiB of a longer one, which then has no line end (moby:
daemon/logger/jsonfilelog, daemon/logger/copier.go). Collectors that follow such files add keys of their own, and may
name the time otherwise. Each line gets the head that Kubernetes' runtimes give it (`<time> <stream> F <line>`), which
`parsers.prefixes` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

RECORD = 1 << 20  # bytes of one record; longer ones are passed over
LINE = 1 << 20  # characters of one line that was put together; the rest stands on the next
_TIMES = ("time", "@timestamp", "timestamp")
_STREAMS = ("stdout", "stderr")
_KEYS = re.compile(rb'\s*\{(?=[^\n]*"log"\s*:\s*")[^\n]*"stream"\s*:\s*"std(?:out|err)"')
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$", re.ASCII)


def looks_like_records(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a log of Docker: its first whole line is such a record."""
    if not _KEYS.match(head):
        return False
    first = head.lstrip().split(b"\n", 1)[0]
    return _record(first) is not None


def text(raw: BinaryIO) -> Iterator[bytes]:
    """The lines of a log of Docker, one for each record, so that their numbers are those of the records.

    Of a line in pieces the last one's place bears it whole, and the others are empty. What is no record stays as it is.
    """
    pieces = dict.fromkeys(_STREAMS, "")
    while line := raw.readline(RECORD):
        if not line.endswith(b"\n") and len(line) == RECORD:
            while line and not line.endswith(b"\n"):
                line = raw.readline(RECORD)
            yield b"\n"
            continue
        record = _record(line)
        if record is None:
            yield line if line.endswith(b"\n") else line + b"\n"
            continue
        said, stream, time = record
        said = pieces[stream] + said
        if not said.endswith("\n") and len(said) < LINE:
            pieces[stream] = said
            yield b"\n"
            continue
        pieces[stream] = ""
        yield _shown(said, stream, time)
    for stream, said in pieces.items():
        if said:
            yield _shown(said, stream, "")


def _shown(said: str, stream: str, time: str) -> bytes:
    head = f"{time} {stream} F " if time else ""
    return (head + said.removesuffix("\n").removesuffix("\r") + "\n").encode("utf-8", "replace")


def _record(line: bytes) -> tuple[str, str, str] | None:
    """(text, stream, time or "") of a record; None where a line is none. Never raises."""
    try:
        record: Any = json.loads(line.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    said, stream = record.get("log"), record.get("stream")
    if not isinstance(said, str) or stream not in _STREAMS:
        return None
    stamps = (value for key in _TIMES if isinstance(value := record.get(key), str) and _STAMP.match(value))
    return said, stream, next(stamps, "")
