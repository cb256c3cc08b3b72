"""Python tracebacks as one event each, also where several ranks' lines interleave.

A traceback is followed from its header by the lines that bear the same prefix (so that other ranks' lines between them
do not break it). Without prefixes, lines that are neither a frame nor indented are passed over until a line that looks
like `Type: message` closes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forensics.model import Evidence, Identity, Traceback
from forensics.parsers.prefixes import clean, is_bare, segments

HEADER = r"Traceback \(most recent call"  # Sacred and others change the words after "call"
MAX_BYTES = 256 << 10  # a traceback of 1,000 recursive frames fits
MAX_LINES = 3000
STRAY = 40  # foreign lines in a row, without a prefix to tell them apart, before a traceback counts as cut off

NOBODY = Identity()

_FRAME = re.compile(r'^\s*(?:[│|>] ?)*\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_RICH_FRAME = re.compile(r"^[│|]\s*(?P<file>/[^:│]+\.py):(?P<line>\d+) in (?P<function>[\w.<>]+)")
_LEVEL = (
    r"(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTE|TIP|Epoch|Step|Iter|Loss|Rank|File|Traceback|During|The|Root|"
    r"Hint)"
)
_FINAL = re.compile(
    rf"^(?!{_LEVEL}\b)(?P<type>(?:[A-Za-z_]\w*\.)*(?:_?[A-Z]\w*|error|timeout|gaierror|herror))"
    r"(?::(?: (?P<message>.*))?)?$",
    re.S,
)
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_SPAWNED = re.compile(r"-- Process (\d{1,5}) terminated with the following error:\s*$")
# What CPython (sys.unraisablehook, atexit) and logging.Handler.handleError print above a traceback that ends nothing.
_IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b|Error in atexit\._run_exitfuncs:|--- Logging error ---")
# Ray raises what a remote worker raised, and says in the head of that traceback which one it was.
_REMOTE = re.compile(
    r"\bray::[^\s(]+\(\)\S* \(pid=(?P<pid>\d+)(?:, ip=(?P<node>[0-9a-fA-F.:]+))?(?:.*?\[rank=(?P<rank>\d+)\])?"
)
_STAMPS = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+\S*\s*|\s+\d+ (?=\[)")


def _pieces(data: bytes, marks: Sequence[bytes] = ()) -> Iterator[tuple[int, int, str]]:
    """(offset, newlines before it, text) of every piece: between newlines, carriage returns and glued prefixes.

    marks: what a line must hold to be worth decoding, as soon as it is known; others are passed over where neither
    escapes nor carriage returns are about.
    """
    at = newlines = 0
    plain = b"\x1b" not in data and b"\r" not in data
    while at <= len(data):
        if marks and plain:
            hit = data.find(marks[0], at)
            if hit < 0:
                return
            start = max(at, data.rfind(b"\n", at, hit) + 1)
            newlines += data.count(b"\n", at, start)
            at = start
        end = data.find(b"\n", at)
        raw = data[at : end if end >= 0 else len(data)]
        inner = at
        for piece in (raw,) if plain else raw.split(b"\r"):
            begin = inner
            first, *glued = segments(piece.decode("utf-8", "replace"))
            yield begin, newlines, first
            for text in glued:
                begin += len(first.encode())
                yield begin, newlines, text
                first = text
            inner += len(piece) + 1
        at += len(raw) + 1
        newlines += 1


def _writer(prefix: str) -> str:
    return _STAMPS.sub("", prefix)


def read_traceback(
    data: bytes,
    *,
    path: str,
    offset: int,
    line: int,
    voted: frozenset[str] = frozenset(),
    outer: Identity = NOBODY,
    reference: float = 0.0,
) -> Traceback | None:
    """The traceback whose header is the first piece of `data`; None if it is cut off before its last line.

    data: bytes from the header on (the caller bounds them by MAX_BYTES). offset, line: of its first byte in the file.
    """
    marks: list[bytes] = []
    pieces = _pieces(data[:MAX_BYTES], marks)
    # What another process had begun to write may stand before the header on its line.
    first = next((p for p in pieces if p[1] > 0 or "Traceback" in p[2]), None)
    if first is None:
        return None
    head = clean(first[2], voted, reference)
    if "call first" in head.text:
        return None  # gdb's py-bt: where a process stands, and no exception
    writer = _writer(head.prefix)
    # What every line of this writer holds saves the cleaning of the lines of thousands of others.
    mark = next((token for token in reversed(writer.split()) if token in head.prefix), "")
    if mark:
        marks.append(mark.encode())
    # A prefix without a time is the same on every line, and what is indented behind it bears no other.
    own = head.prefix if _writer(head.prefix) == head.prefix and first[2].startswith(head.prefix) else None
    boxed = "╭" in head.text
    # torchelastic's table holds tracebacks behind a label, and indents their lines by as much as the label.
    indented = head.text.lstrip().startswith(("Traceback", "traceback : Traceback"))
    indent = len(head.text) - len(head.text.lstrip()) if indented else 0
    frames: list[tuple[str, int, str]] = []
    stray = 0
    speaker = head.identity
    for at, newlines, raw in pieces:
        if newlines > MAX_LINES or stray > STRAY:
            return None
        if mark not in raw and "\x1b" not in raw:
            continue
        if own is not None and raw.startswith(own) and is_bare(body := raw[len(own) :]):
            current = head
        else:
            current = clean(raw, voted, reference)
            body = current.text
            if _writer(current.prefix) != writer:
                continue
        if "ray::" in body and (m := _REMOTE.search(body)):
            speaker = Identity(rank=int(m["rank"]) if m["rank"] else None, node=m["node"], pid=int(m["pid"]))
        text = body[indent:] if body[:indent].isspace() or not indent else body
        if not text.strip():
            continue
        if m := (_RICH_FRAME if boxed else _FRAME).match(text):
            frames.append((m["file"], int(m["line"]), (m["function"] or "").strip()))
            stray = 0
            continue
        if text[0] in " \t│╭╰|>" or text.startswith(("[Previous line repeated", "frame #")):
            stray = 0
            continue
        cut_off = at + len(raw.encode()) >= len(data) and ":" not in text
        if (m := _FINAL.match(text.rstrip())) and (
            _ends_like_an_exception(m["type"]) or ((frames or "." in m["type"]) and not cut_off)
        ):
            return Traceback(
                exception=m["type"],
                message=(m["message"] or "").strip()[:4000],
                frames=tuple(frames),
                header=Evidence(path, line, offset, head.text.strip()),
                final=Evidence(path, line + newlines, offset + at, text.rstrip()[:4000]),
                identity=speaker.over(outer),
                time=current.time if current.time is not None else head.time,
                zone_known=current.zone_known or head.zone_known,
            )
        if text.startswith("Traceback (most recent call"):
            return None  # another one begins before this one ended: each is read from its own header
        stray += 1
    return None


def exception_of(text: str) -> tuple[str, str] | None:
    """(type, message) where a line is the last one of a traceback beyond doubt; None otherwise."""
    m = _FINAL.match(text.rstrip())
    if m is None or m["message"] is None or not m["type"].endswith(("Error", "Exception", "Interrupt")):
        return None
    return m["type"], m["message"].strip()[:4000]


def _ends_like_an_exception(name: str) -> bool:
    return name.endswith(
        ("Error", "Exception", "Interrupt", "Exit", "Warning", "Failure", "Timeout", "error", "timeout")
    )


def chained(before: str) -> str | None:
    """How a traceback hangs on the one above it: "cause", "context", "ignored" or None.

    before: the text before its header.
    """
    tail = before[-600:]
    if _IGNORED.search(tail.rstrip().rpartition("\n")[2]):
        return "ignored"
    cause, context = tail.rfind(_CAUSE), tail.rfind(_CONTEXT)
    if max(cause, context) < 0:
        return None
    return "cause" if cause > context else "context"


def spawned(before: str) -> int | None:
    """The local rank whose traceback torch.multiprocessing.spawn passes on; `before` is the text before its header."""
    match = _SPAWNED.search(before[-200:])
    return int(match[1]) if match else None
