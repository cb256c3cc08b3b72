"""The level that a record of a log states, in the forms of common loggers, and the error with which a log ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from forensics.files import opened
from forensics.model import Evidence, Source
from forensics.parsers.prefixes import clean, strip_ansi
from forensics.patterns import lazy

LAST_RECORDS = 50  # records before the end of a log among which a fatal one still is its end
LAST_ERRORS = 10  # and a mere error: a hint, a footer or a farewell may follow it
_HEAD = 200  # characters of a line within which its level stands
_TAIL = 64 << 10  # bytes of the end of a file that are looked at
_LONGEST = 64 << 10  # bytes of a JSON record that is parsed for its level


class Level(Enum):
    ERROR = "error"
    FATAL = "fatal"  # the program said that it gives up


class LastError(NamedTuple):
    text: str  # the message without what stands before it, where that is known; else the line
    lines_from_end: int  # 0 for the last line
    offset: int  # of the line in the bytes that were given


_FATAL_WORDS = frozenset(("fatal", "critical", "crit", "panic", "emergency", "emerg", "alert", "severe", "dpanic"))
_ERROR_WORDS = frozenset(("error", "err", "exception"))
SEVERE = _FATAL_WORDS | _ERROR_WORDS  # names of the levels of error and above, in lower case
_WORDS = "|".join(sorted(SEVERE, key=len, reverse=True))

# glog, klog, absl and c10 print `E1127 20:49:24.123 4242 file.cc:88]`, TensorFlow `2025-11-27 20:49:24.1: F
# file.cc:88]`, NeMo `[NeMo E 2025-11-27 ...]`, Tornado and Jupyter `[C 2025-11-27 20:49:24.123 ServerApp]`, and some
# formats of Python's logging `E 20:49:24`.
_LETTER = lazy(
    r"(?:^|[\[ :|])([EF])\d{4} \d\d:\d\d:\d\d(?:\.\d+)? +(?:\d+ )?\S+:\d+\] ?"
    r"|\d\d:\d\d:\d\d\.\d+: ([EF]) \S+:\d+\] ?"
    r"|\[NeMo ([EF]) \d{4}-[^\]]*\] ?"
    r"|^\[([EFC]) \d{2,4}-?\d\d-?\d\d \d\d:\d\d:\d\d[^\]]{0,60}\] ?"
    r"|^([EFC]) (?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)? "
)
_SYSLOG = lazy(r"\[\d+\]: <([0-3])>")  # of a journal's record (archives.collected)
# logfmt (Go's and Rust's loggers), and the brackets of spdlog, structlog and many formats of Python's logging.
_KEYED = lazy(rf'(?i)(?:^|[\s|])(?:level|lvl|levelname|severity|loglevel)="?({_WORDS})\b"?')
_BRACKETED = lazy(rf"(?i)[\[<]\s*({_WORDS})\s*[\]>]")
_MSG = lazy(r'\b(?:msg|message|event)=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
# A level in capitals stands at the beginning of a record, behind times and names. Other programs begin a message by it.
_CAPITALS = lazy(r".{0,200}?\b(FATAL|CRITICAL|PANIC|EMERGENCY|EMERG|ALERT|SEVERE|ERROR)\b")
_BEGINS = lazy(rf"(?i)\W{{0,4}}({_WORDS})(?: error)?: ")
_SENTENCE = lazy(r"\b[a-z]{2,} [a-z]{2,}\b")
# Python's last line of an exception names its class, behind what a system's log puts before it.
_EXCEPTION = lazy(r"(?:.{0,120}?[\]:Z] )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
# A loop that says nothing but that its loss is lost.
_LOSS_LOST = lazy(
    r"(?i)(?:.{0,60}[\]:|] ?)?(?:the )?(?:train(?:ing)? )?(?:loss (?:is|was|became|has become|turned|went|hit)(?: to)?"
    r" (?:nan|inf|infinite|non-?finite|not finite)|(?:nan|non-?finite) loss(?: (?:detected|encountered|found))?"
    r"|(?:detected|found|encountered|got)(?: a)? (?:nan|non-?finite)(?: in(?: the)?)? loss)"
    r"(?: (?:at|in|on) (?:step|iter(?:ation)?|epoch|batch)\W{0,2}\d{1,9})?[\s.!]{0,4}$"
)

_LEVELS = ("level", "levelname", "level_name", "severity", "log.level", "loglevel", "lvl")
MESSAGES = ("message", "msg", "event", "text", "MESSAGE")
_PINO = {50: Level.ERROR, 60: Level.FATAL}  # numbers of the levels of pino and bunyan
# Numbers of syslog (RFC 5424, section 6.2.1), as journald has them.
_PRIORITY = {"0": Level.FATAL, "1": Level.FATAL, "2": Level.FATAL, "3": Level.ERROR}


def level_of(line: str) -> tuple[Level, str] | None:
    """(level, message) of a line that is a record of level error or above; None for every other line."""
    line = strip_ansi(line).strip()
    brace = line.find("{") if line.endswith("}") and len(line) <= _LONGEST else -1
    if brace >= 0 and (record := _object(line[brace:])) is not None:
        return _of_record(record)
    head = line[:_HEAD]
    if m := _LETTER.search(head):
        return (Level.ERROR if "E" in m.groups() else Level.FATAL), line[m.end() :] or line
    if m := _SYSLOG.search(head):
        return _PRIORITY[m[1]], line[m.end() :] or line
    if (m := _KEYED.search(head)) and (said := _MSG.search(line)):
        return _level(m[1]), said[1] or said[2]
    for m in (_BRACKETED.search(head), _CAPITALS.match(head), _BEGINS.match(head)):
        if m is not None:
            return (Level.ERROR if spoken_of(head, m.start(1)) else _level(m[1])), line
    return (Level.ERROR, line) if _EXCEPTION.match(head) or _LOSS_LOST.match(head) else None


def spoken_of(line: str, at: int) -> bool:
    """Whether what stands at a place of a line is spoken of: words of a sentence stand before it."""
    return _SENTENCE.search(line, 0, at) is not None


def stated_level(record: Mapping[str, Any]) -> str | int | None:
    """The level that a JSON record states itself, or inside `record` (loguru) or `log` (ECS)."""
    for place in (record, record.get("record"), record.get("log")):
        if isinstance(place, Mapping):
            for key in _LEVELS:
                stated = place.get(key)
                stated = stated.get("name") if isinstance(stated, Mapping) else stated
                if isinstance(stated, (str, int)):
                    return stated
    return None


def last_error(tail: bytes) -> LastError | None:
    """The error with which a log ends: a fatal record among its last ones, or an error among the very last.

    tail: the end of a log, whole lines. Lines that are indented belong to the record above them.
    """
    lines = tail.split(b"\n")
    offset = len(tail) + 1
    records = 0
    for number, raw in enumerate(reversed(lines)):
        offset -= len(raw) + 1
        text = raw.rpartition(b"\r")[2] if b"\r" in raw.rstrip(b"\r") else raw
        if not text.strip():
            continue
        if records == LAST_RECORDS:
            break
        line = text.decode("utf-8", "replace")
        found = level_of(line) or (level_of(clean(line).text) if not records else None)
        if found is not None and (found[0] is Level.FATAL or records <= LAST_ERRORS):
            return LastError(found[1].strip()[:500], number, offset)
        if not line[0].isspace():
            records += 1
    return None


def of_file(source: Source) -> Evidence | None:
    """`last_error` of a file whose lines nothing has counted so far. Raises OSError where it cannot be read."""
    with opened(source.file) as raw:
        size = raw.seek(0, 2)
        begin = raw.seek(max(0, size - _TAIL))
        tail = raw.read(_TAIL) or b""
        first = tail.find(b"\n") + 1 if begin > 0 else 0
        if (found := last_error(tail[first:])) is None:
            return None
        raw.seek(0)
        offset = begin + first + found.offset
        line, left = 1, offset
        while left > 0 and (block := raw.read(min(left, 1 << 20))):
            line += block.count(b"\n")
            left -= len(block)
    return Evidence(source.path, line, offset, found.text)


def _level(word: str) -> Level:
    return Level.FATAL if word.lower() in _FATAL_WORDS else Level.ERROR


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _of_record(record: Mapping[str, Any]) -> tuple[Level, str] | None:
    message = next((v for key in MESSAGES if isinstance(v := record.get(key), str)), None)
    if message is None:
        return None
    stated = stated_level(record)
    if isinstance(stated, str):
        word = stated.strip().lower()
        return (_level(word), message) if word in SEVERE else None
    if stated in _PINO and "time" in record:
        return _PINO[stated], message
    level = _PRIORITY.get(str(record.get("PRIORITY")))
    return (level, message) if level is not None else None
