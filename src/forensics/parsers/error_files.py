"""torchelastic's error files: the exception of one worker as JSON, written by `@record` where its process ends.

    {"message": {"message": "KeyError: 'x'", "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1700000000"}}}

What the file holds is read as the log that it quotes, by the same scan and the same rules; every line of it is then
placed in the error file.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from forensics.engine.matcher import Matcher
from forensics.engine.scan import scan_span
from forensics.files import opened
from forensics.model import Evidence, Observation, Source, Traceback
from forensics.parsers.logs import read_log
from forensics.parsers.tracebacks import exception_of
from forensics.patterns import lazy

MAX_BYTES = 4 << 20
_SPEAKER = "process-seen"
_HEAD = lazy(rb'^\s*\{\s*"message"\s*:\s*(?:[{"]|null\b)')


class ErrorFile(NamedTuple):
    tracebacks: tuple[Traceback, ...] = ()
    observations: tuple[Observation, ...] = ()
    problem: str | None = None


def looks_like_error_file(head: bytes, name: str) -> bool:
    """Whether a file that starts with `head` is an error file of torchelastic.

    Its one key is "message"; a file that does not have torchelastic's usual name must hold the callstack's key as well.
    """
    if not _HEAD.match(head):
        return False
    usual = re.search(r"(?i)error[\w.-]*\.json$", name) is not None
    return b'"py_callstack"' in head or (usual and (b'"extraInfo"' in head or head.rstrip().endswith(b"}")))


def read(source: Source, matcher: Matcher, *, reference: float) -> ErrorFile:
    """What an error file says. Never raises for what the file holds: `problem` names what is wrong with it.

    reference: as in `logs.read_log`.
    """
    with opened(source.file) as raw:
        data = raw.read(MAX_BYTES + 1) or b""
    if len(data) > MAX_BYTES:
        return ErrorFile(problem=f"larger than {MAX_BYTES:,} bytes")
    try:
        record = json.loads(data.decode("utf-8", "replace"), strict=False)
        message = record["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ErrorFile(problem="cut off or damaged: it is no JSON object with a message")
    time: float | None = None
    stack = ""
    if isinstance(message, dict):
        extra = message.get("extraInfo")
        if isinstance(extra, dict):
            stack = str(extra.get("py_callstack") or "")
            time = _seconds(extra.get("timestamp"))
        message = message.get("message")
    text = message if isinstance(message, str) else ""
    if not (stack or text).strip():
        return ErrorFile(problem="it holds no message")
    line = 1 + data.count(b"\n", 0, max(0, data.find(b'"py_callstack"' if stack else b'"message"', 12)))
    found = _as_log(source, stack if "Traceback" in stack else text, matcher, reference)

    def here(evidence: Evidence) -> Evidence:
        return Evidence(source.path, line, None, evidence.text)

    tracebacks = [
        replace(
            t,
            header=here(t.header),
            final=here(t.final),
            time=time if t.time is None else t.time,
            zone_known=t.zone_known if t.time is not None else time is not None,
            timed=t.timed or time is not None,
        )
        for t in found.tracebacks
    ]
    if not tracebacks and (raised := _raised(text)) is not None:
        place = Evidence(source.path, line, None, text.splitlines()[0][:4000])
        tracebacks = [
            Traceback(
                exception=raised[0],
                message=raised[1],
                frames=(),
                header=place,
                final=place,
                identity=source.identity,
                time=time,
                zone_known=time is not None,
                timed=time is not None,
            )
        ]
    observations = [
        replace(
            o,
            evidence=tuple(here(e) for e in o.evidence),
            time=time if o.time is None else o.time,
            zone_known=o.zone_known if o.time is not None else time is not None,
            timed=o.timed or time is not None,
        )
        for o in found.observations
        if o.signature != _SPEAKER
    ]
    return ErrorFile(tuple(tracebacks), tuple(observations))


def _as_log(source: Source, text: str, matcher: Matcher, reference: float) -> ErrorFile:
    with tempfile.TemporaryDirectory(prefix="forensics-error-") as folder:
        file = Path(folder, "text")
        file.write_text(text.rstrip() + "\n", "utf-8", "replace", newline="")
        size = file.stat().st_size
        scan = scan_span(matcher.database, file, 0, size)
        found = read_log(replace(source, file=file, size=size), scan, matcher, reference=reference)
    return ErrorFile(found.tracebacks, found.observations)


def _raised(text: str) -> tuple[str, str] | None:
    first, _, rest = text.partition("\n")
    found = exception_of(first) or exception_of(first.strip() + ": ")
    return (found[0], f"{found[1]}\n{rest}".strip()[:4000]) if found else None


def _seconds(stamp: object) -> float | None:
    """The time that the record states, in seconds since the epoch; None where it is none."""
    try:
        seconds = float(str(stamp))
    except ValueError:
        return None
    return seconds if 1e8 < seconds < 1e11 else None
