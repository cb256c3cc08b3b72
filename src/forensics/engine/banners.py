"""Where a log begins again: the lines with which a program introduced itself stand there once more.

Programs print the same few lines whenever they start: the command, their arguments, the size of the model. Where these
stand again further down in one file, the program was started again, whatever became of it before. Where they stand
there with other numbers, it may have been started with other settings, or another rank introduces itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from forensics.files import beginning
from forensics.model import Kind, Source
from forensics.parsers.prefixes import clean

LARGEST = 32 << 20  # bytes of a file that is looked through
HEAD = 64 << 10  # bytes at its beginning in which it introduces itself
LINES = 3  # lines of the introduction that are compared
FEWEST = 2  # a single line may be the head of a table, or what any worker prints
APART = 20  # lines within which they stand again, between those of other ranks
SHORTEST = 4  # characters of a line that says anything
# A time in front of a message, also behind a level or in brackets: it differs where the rest is the same.
_STAMP = re.compile(
    r"^\[?(?:\w+[ :]+)?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ :|-]*"
)
# Warnings come from every process that begins, loaders' workers among them, and at the end of many.
_WARNS = re.compile(r"(?i)\bwarn|deprecat")
_TRACEBACK = "Traceback (most recent call last)"
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
KEY = 8  # bytes at least of the beginning of a line by which it is looked for
MOST = 1_000  # lines that begin so: of more, what stands there to the letter is enough


class Again(NamedTuple):
    """Where the introduction of a log stands again."""

    line: int  # counted from 1
    same: bool  # to the letter; else with other numbers
    later: float | None = None  # seconds after the first time, by the lines' own times; None where they bear none


def repeats(source: Source, ends: int | None) -> tuple[Again, ...]:
    """Where the introduction of a log stands again, in the order of its lines.

    ends: the line of its first record of a step, or of a failure, before which the introduction ends; None where it has
    none.
    Empty for a file that is no log, larger than LARGEST, or one that cannot be read.
    """
    if source.kind is not Kind.LOG or source.size > LARGEST or source.gap is not None:
        return ()
    try:
        data = beginning(source.file, LARGEST)
    except OSError:
        return ()
    head = _introduction(data[:HEAD], ends)
    if len(head) < FEWEST:
        return ()
    found: list[Again] = []
    began = _time(data, 0)
    key = _NUMBER.split(head[0], maxsplit=1)[0].encode()
    if len(key) < KEY or data.count(key) > MOST:
        key = head[0].encode()
    at, number = data.find(b"\n") + 1, 2
    while at > 0 and (hit := data.find(key, at)) >= 0:
        begin = data.rfind(b"\n", 0, hit) + 1
        number += data.count(b"\n", at, begin)
        if (same := _begins_with(head, data, begin)) is not None:
            again = _time(data, begin)
            found.append(Again(number, same, again - began if again is not None and began is not None else None))
        at = data.find(b"\n", hit) + 1
        number += 1
    return tuple(found)


def _introduction(data: bytes, ends: int | None) -> list[str]:
    """The first lines of a file up to a traceback, without times and prefixes; fewer than LINES where two are one."""
    lines = data.split(b"\n")[: ends - 1 if ends is not None else None]
    texts = itertools.takewhile(lambda text: _TRACEBACK not in text, map(message, lines))
    said = [text for text in texts if len(text) >= SHORTEST and not _WARNS.search(text)]
    return list(dict.fromkeys(said[:LINES]))


def _begins_with(head: Sequence[str], data: bytes, begin: int) -> bool | None:
    """Whether the lines of an introduction stand from an offset on, in their order, to the letter; None where they
    do not, whatever their numbers.
    """
    left = list(head)
    same = True
    at = begin
    for n in range(APART):
        end = data.find(b"\n", at)
        text = message(data[at : end if end >= 0 else len(data)])
        if text == left[0] or _NUMBER.sub("#", text) == _NUMBER.sub("#", left[0]):
            same = same and text == left[0]
            left.pop(0)
            if not left:
                return same
        elif n == 0:
            return None
        if end < 0:
            return None
        at = end + 1
    return None


def _time(data: bytes, begin: int) -> float | None:
    """The first time that the lines of an introduction bear, which stands from an offset on (seconds)."""
    at = begin
    for _ in range(LINES):
        end = data.find(b"\n", at)
        line = data[at : end if end >= 0 else len(data)]
        if (time := clean(line[:1000].decode("utf-8", "replace")).time) is not None:
            return time
        if end < 0:
            return None
        at = end + 1
    return None


def message(line: bytes) -> str:
    """What a line says, without the time and the writer in front of it."""
    return _STAMP.sub("", clean(line[:1000].decode("utf-8", "replace")).text.strip())
