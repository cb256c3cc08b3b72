"""The lines around a piece of evidence, read from the run's own files when a report is made."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.model import Diagnosis, Evidence, Kind, RunData, Source
from forensics.parsers.prefixes import strip_ansi
from forensics.patterns import lazy

AROUND = 3  # lines before and after
FURTHER = 60  # lines before and after those, which are never shown: a PEM block of RSA with 4,096 bits has 52
_REACH = 16 << 10  # bytes that are looked at to either side
_LONGEST = 2000  # bytes of a line
_MOST = 120  # places, of all findings together
_EACH = 8  # places a finding
_COUNTED = 64 << 20  # bytes of all files that are read to count lines where a place has no offset
_MORE = 24  # further lines of evidence that has several


@dataclass(frozen=True, slots=True)
class Context:
    """Consecutive lines of a file: (1-based number, text, whether it is the evidence).

    above, below: the lines before and after them, never shown. They tell redaction what those shown are: the rest of a
    key, the value of an option. A redacted context has none.
    """

    file: str
    line: int
    lines: tuple[tuple[int, str, bool], ...]
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


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
    preceding = before.split(b"\n")[:-1]
    if begin > 0:
        preceding = preceding[1:]  # its beginning lies outside of what was read
    above = preceding[-AROUND:]
    several = min(evidence.text.strip("\n").count("\n"), _MORE)
    following = after.split(b"\n")
    shown = 1 + several + AROUND
    below = following[:shown]
    if not below[-1]:
        below = below[:-1]
    first = evidence.line - len(above)
    lines = tuple(
        (first + n, _text(line), n == len(above)) for n, line in enumerate((*above, *below)) if line.strip(b"\0\r ")
    )
    if not any(key for _, _, key in lines):
        return None
    further = (preceding[: len(preceding) - len(above)][-FURTHER:], following[shown:][:FURTHER])
    return Context(evidence.file, evidence.line, lines, *(tuple(map(_text, texts)) for texts in further))


def _text(line: bytes) -> str:
    """A line as text: without colours, which would part names from values; of a progress bar what stood there last."""
    line = line.removesuffix(b"\r")
    text = line[-_LONGEST:] if b"\r" in line[-_LONGEST:] else line[:_LONGEST]
    text = text.rsplit(b"\r", 1)[-1]
    return strip_ansi(text.decode("utf-8", "surrogateescape"))


_BEGIN, _END = lazy(r"-----BEGIN [A-Z0-9 ]{3,40}-----"), lazy(r"-----END [A-Z0-9 ]{3,40}-----")
# What a line of a key ends with, behind whatever a logger puts before it; the last line is shorter, often padded.
_BODY = lazy(
    r"(?:\A|[\s:|>\"'\]])(?:[A-Za-z0-9+/_-]{16,}={0,2}|[A-Za-z0-9+/_-]{2,}={1,2})\s*\Z|\A\s*"
    r"(?:\w+-\w+: \S.*)?\Z",
    re.ASCII,
)
_LONGEST_KEY = 120  # lines
# A line of nothing else, of a key whose ends stand outside of what was read.
_ENCODED = lazy(r"\s*([A-Za-z0-9+/_-]{40,}={0,2})\s*\Z", re.ASCII)
_KIND = (("lower", str.islower), ("upper", str.isupper), ("digit", str.isdigit))
# Of neighbours in random base64 64 % are of different kinds (small letter, capital, digit, sign); in paths and names of
# classes a third at most.
_MIXED = 0.45
HIDDEN = "(a line of a key or certificate)"


def _kind(letter: str) -> str:
    return next((name for name, test in _KIND if test(letter)), "sign")


def _random(text: str) -> bool:
    """Whether a long word is one of base64, and no path, name or hexadecimal sum."""
    kinds = [_kind(letter) for letter in text.rstrip("=")]
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    return {"lower", "upper", "digit"} <= set(kinds) and changes >= _MIXED * len(kinds)


def _keys(texts: Sequence[str]) -> set[int]:
    """Which of consecutive lines are part of a PEM block, or look as if."""
    found = {at for at, text in enumerate(texts) if (m := _ENCODED.match(text)) is not None and _random(m[1])}
    for at, text in enumerate(texts):
        if _BEGIN.search(text):
            block = texts[at : at + _LONGEST_KEY]
            end = next((n for n, line in enumerate(block) if _END.search(line)), None)
            if end is None:
                end = sum(1 for _ in itertools.takewhile(_BODY.search, block[1:]))
            found.update(range(at, at + end + 1))
        elif _END.search(text) and at not in found:
            body = itertools.takewhile(lambda n: _BODY.search(texts[n]) is not None, range(at - 2, -1, -1))
            found.update({at, max(0, at - 1), *body})
    return found


def without_keys(context: Context) -> Context:
    """The context with lines that may be part of a PEM block hidden: redaction knows them by their first line only."""
    texts = [*context.above, *(text for _, text, _ in context.lines), *context.below]
    hidden = _keys(texts)
    texts = [HIDDEN if at in hidden else text for at, text in enumerate(texts)]
    first, last = len(context.above), len(context.above) + len(context.lines)
    lines = tuple((n, text, key) for (n, _, key), text in zip(context.lines, texts[first:last], strict=True))
    return replace(context, lines=lines, above=tuple(texts[:first]), below=tuple(texts[last:]))
