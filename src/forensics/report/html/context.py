"""The lines around a piece of evidence, read from the run's own files when a report is made."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forensics.model import Diagnosis, Evidence, Kind, RunData, Source
from forensics.parsers.prefixes import strip_ansi
from forensics.patterns import lazy

AROUND = 3  # lines before and after
_REACH = 16 << 10  # bytes that are looked at to either side
_LONGEST = 2000  # bytes of a line
_MOST = 120  # places, of all findings together
_EACH = 8  # places a finding
_COUNTED = 64 << 20  # bytes of all files that are read to count lines where a place has no offset
_MORE = 24  # further lines of evidence that has several


@dataclass(frozen=True, slots=True)
class Context:
    """Consecutive lines of a file: (1-based number, text, whether it is the evidence)."""

    file: str
    line: int
    lines: tuple[tuple[int, str, bool], ...]


Place = tuple[str, int]


def contexts(diagnosis: Diagnosis, data: RunData) -> dict[Place, Context]:
    """(file, line) -> the lines around it, for the evidence that a report shows in full; text raw.

    Only logs are read again: in a configuration the neighbours of a line have nothing to do with it, and may be secret.
    What cannot be read any more (a file that was moved or cut since) is left out.
    """
    sources = {s.path: s for s in data.sources if s.kind is Kind.LOG}
    found: dict[Place, Context] = {}
    budget = _COUNTED
    for evidence in _shown(diagnosis):
        source = sources.get(evidence.file)
        if source is None or evidence.line is None or (evidence.file, evidence.line) in found:
            continue
        if len(found) >= _MOST:
            break
        try:
            offset = evidence.offset
            if offset is None:
                offset, read = _start_of(source.file, evidence.line, budget)
                budget -= read
            context = _around(source, evidence, offset) if offset is not None else None
        except (OSError, ValueError):
            continue
        if context is not None:
            found[evidence.file, evidence.line] = context
    return found


def _shown(diagnosis: Diagnosis) -> Iterator[Evidence]:
    for finding in diagnosis.findings:
        yield from finding.evidence[:_EACH]


def _open(path: Path) -> int:
    """A file descriptor of a regular file; a pipe or device that took its place would block. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("no regular file")
    return handle


def _start_of(path: Path, line: int, budget: int) -> tuple[int | None, int]:
    """(offset of a line, bytes read to find it); no offset where the budget or the file ends before it."""
    with os.fdopen(_open(path), "rb") as file:
        left, at = line - 1, 0
        while left > 0 and at < budget:
            block = file.read(1 << 20)
            if not block:
                return None, at
            count = block.count(b"\n")
            if count < left:
                left -= count
                at += len(block)
                continue
            place = -1
            for _ in range(left):
                place = block.index(b"\n", place + 1)
            return at + place + 1, at + len(block)
        return (0 if line == 1 else None), at


def _around(source: Source, evidence: Evidence, offset: int) -> Context | None:
    with os.fdopen(_open(source.file), "rb") as file:
        begin = max(0, offset - _REACH)
        file.seek(begin)
        before, after = file.read(offset - begin), file.read(_REACH)
    if not after or evidence.line is None:
        return None
    start = before.rfind(b"\n") + 1  # of the line in which the offset lies
    if start == 0 and begin > 0:
        before, after = b"", before[-_LONGEST:] + after
    else:
        before, after = before[:start], before[start:] + after
    above = before.split(b"\n")[:-1][-AROUND:]
    if begin > 0 and len(above) == before.count(b"\n"):
        above = above[1:]  # its beginning lies outside of what was read
    several = min(evidence.text.strip("\n").count("\n"), _MORE)
    below = after.split(b"\n")[: 1 + several + AROUND]
    if not below[-1]:
        below = below[:-1]
    first = evidence.line - len(above)
    lines = tuple(
        (first + n, _text(line), n == len(above)) for n, line in enumerate((*above, *below)) if line.strip(b"\0\r ")
    )
    return Context(evidence.file, evidence.line, lines) if any(key for _, _, key in lines) else None


def _text(line: bytes) -> str:
    """A line as text: without colours, which would part names from values; of a progress bar what stood there last."""
    line = line.removesuffix(b"\r")
    text = line[-_LONGEST:] if b"\r" in line[-_LONGEST:] else line[:_LONGEST]
    text = text.rsplit(b"\r", 1)[-1]
    return strip_ansi(text.decode("utf-8", "surrogateescape"))


_BEGIN, _END = lazy(r"-----BEGIN [A-Z0-9 ]{3,40}-----"), lazy(r"-----END [A-Z0-9 ]{3,40}-----")
# A line of a key whose head stands outside of the lines that are shown.
_ENCODED = lazy(r"\s*[A-Za-z0-9+/_-]{40,}={0,2}\s*\Z", re.ASCII)
HIDDEN = "(a line of a key or certificate)"


def without_keys(context: Context) -> Context:
    """The context with lines that may be part of a PEM block hidden: redaction knows them by their first line only."""
    lines: list[tuple[int, str, bool]] = []
    inside = False
    for number, text, key in context.lines:
        inside = inside or _BEGIN.search(text) is not None
        hide = inside or _ENCODED.match(text) is not None
        if _END.search(text):
            inside = False
        lines.append((number, HIDDEN if hide else text, key))
    return Context(context.file, context.line, tuple(lines))
