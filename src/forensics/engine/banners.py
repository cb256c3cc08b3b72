"""Where a log begins again: the lines with which a program introduced itself stand there once more.

Programs print the same few lines whenever they start: the command, their arguments, the size of the model. Where these
stand again further down in one file, the program was started again, whatever became of it before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def repeats(source: Source, first_step: int | None) -> tuple[int, ...]:
    """The lines (counted from 1) of a log at which its introduction stands again, in their order.

    first_step: the line of its first record of a step, before which the introduction ends; None where it has none.
    Empty for a file that is no log, larger than LARGEST, or one that cannot be read.
    """
    if source.kind is not Kind.LOG or source.size > LARGEST or source.gap is not None:
        return ()
    try:
        data = beginning(source.file, LARGEST)
    except OSError:
        return ()
    head = _introduction(data[:HEAD], first_step)
    if len(head) < FEWEST:
        return ()
    found: list[int] = []
    key = head[0].encode()
    at, number = data.find(b"\n") + 1, 2
    while at > 0 and (hit := data.find(key, at)) >= 0:
        begin = data.rfind(b"\n", 0, hit) + 1
        number += data.count(b"\n", at, begin)
        if _begins_with(head, data, begin):
            found.append(number)
        at = data.find(b"\n", hit) + 1
        number += 1
    return tuple(found)


def _introduction(data: bytes, first_step: int | None) -> list[str]:
    """The first lines of a file, without times and prefixes; fewer than LINES where two are the same."""
    lines = data.split(b"\n")[: first_step - 1 if first_step is not None else None]
    texts = (message(line) for line in lines)
    said = [text for text in texts if len(text) >= SHORTEST and not _WARNS.search(text)]
    head = list(dict.fromkeys(said[:LINES]))
    return [] if any(_TRACEBACK in text for text in head) else head


def _begins_with(head: Sequence[str], data: bytes, begin: int) -> bool:
    """Whether the lines of an introduction stand from an offset on, in their order."""
    left = list(head)
    at = begin
    for n in range(APART):
        end = data.find(b"\n", at)
        if message(data[at : end if end >= 0 else len(data)]) == left[0]:
            left.pop(0)
            if not left:
                return True
        elif n == 0:
            return False
        if end < 0:
            return False
        at = end + 1
    return False


def message(line: bytes) -> str:
    """What a line says, without the time and the writer in front of it."""
    return _STAMP.sub("", clean(line[:1000].decode("utf-8", "replace")).text.strip())
