"""Zero bytes with which a text ends.

A file system that had made room for a file's data before it wrote them (delayed allocation of ext4 and XFS) leaves
zeros there when its host loses power or is reset. Programs that make room in advance leave them too.
"""

from __future__ import annotations

from typing import NamedTuple

from forensics.files import opened
from forensics.model import Fact, Source

FACT = "zero_tail"
POWER_LOST = "as files do that were being written when their host lost power or was reset"
LEAST = 16  # a few are a program's own: strings of C end in one
_BLOCK = 1 << 20
_SHOWN = 500  # bytes of the line before them


class ZeroTail(NamedTuple):
    size: int  # bytes
    line: int  # in which it begins, 1-based
    said: str  # the beginning of that line


def at_end(source: Source) -> ZeroTail | None:
    """The zeros at the end of a file that holds other bytes before them. Raises OSError where it cannot be read."""
    with opened(source.file) as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - LEAST))
        if size <= LEAST or (stream.read(LEAST) or b"").strip(b"\0"):
            return None
        begin = size
        while begin > 0:
            low = max(0, begin - _BLOCK)
            stream.seek(low)
            block = stream.read(begin - low) or b""
            kept = len(block.rstrip(b"\0"))
            begin = low + kept
            if kept:
                break
        if begin == 0:
            return None
        stream.seek(max(0, begin - _SHOWN))
        said = (stream.read(min(begin, _SHOWN)) or b"").rpartition(b"\n")[2]
        stream.seek(0)
        lines, left = 1, begin
        while left > 0 and (block := stream.read(min(left, _BLOCK)) or b""):
            lines += block.count(b"\n")
            left -= len(block)
    return ZeroTail(size - begin, lines, said.decode("utf-8", "replace"))


def fact(source: Source) -> Fact | None:
    """What `at_end` finds, as a fact that `of` reads; None where the file cannot be read, of which coverage tells."""
    try:
        found = at_end(source)
    except OSError:
        return None
    return Fact(FACT, f"{found.size} {found.said}", source.path, found.line) if found is not None else None


def of(fact: Fact) -> ZeroTail:
    """The zeros that a fact of the name FACT tells of."""
    size, _, said = fact.value.partition(" ")
    return ZeroTail(int(size), fact.line or 1, said)
