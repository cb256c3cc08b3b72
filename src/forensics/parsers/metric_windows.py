"""Which part of a large file of metrics is read: both ends, windows in between, and where numbers stop being finite.

A record takes a hundred times its bytes while it is read, so that a file of some hundred megabytes would fill the
memory. The curve that windows show is the same.
"""

from __future__ import annotations

from bisect import bisect_right
from io import FileIO
from typing import NamedTuple

WHOLE = 8 << 20  # bytes up to which a file is read in full, and about as many of a larger one
EDGE = 1 << 20  # bytes at either end
WINDOW = 64 << 10  # bytes of each window in between
BLOCK = 4 << 20  # bytes a read
# How JSON and CSV writers print what is not finite; the first place of each is read.
NONFINITE = (b"NaN", b"Infinity", b",nan", b",inf", b",-inf")


class Part(NamedTuple):
    """What was read of a file, as lines that follow each other.

    starts: for each window (its first line in `data`, that line's number in the file), both from 1, ascending.
    whole: whether it is all of the file. size: bytes of the file.
    """

    data: bytes
    starts: tuple[tuple[int, int], ...]
    whole: bool
    size: int

    def line(self, number: int) -> int:
        """The number in the file of a line of `data`."""
        own, real = self.starts[max(bisect_right(self.starts, (number, 1 << 62)) - 1, 0)]
        return real + number - own


def read_part(file: FileIO) -> Part:
    """The file, or windows of it where it is larger than WHOLE, cut at line ends. Raises OSError."""
    head = _read(file, 0, WHOLE + 1)
    if len(head) <= WHOLE:
        return Part(head, ((1, 1),), True, len(head))
    newlines, onsets, size = _survey(file)
    pieces: list[bytes] = []
    starts: list[tuple[int, int]] = []
    own = 1
    for start, end in _windows(size, onsets):
        # One byte more tells whether a line begins at the start.
        data = _read(file, max(0, start - 1), end - max(0, start - 1))
        begin = data.find(b"\n") + 1 if start else 0
        stop = data.rfind(b"\n") + 1 if end < size else len(data)
        if begin >= stop:  # a document in a single line
            begin, stop = 0, len(data)
        at = max(0, start - 1) + begin
        block = at // BLOCK
        real = newlines[min(block, len(newlines) - 1)] + _read(file, block * BLOCK, at % BLOCK).count(b"\n") + 1
        piece = data[begin:stop]
        piece += b"" if piece.endswith(b"\n") else b"\n"
        starts.append((own, real))
        pieces.append(piece)
        own += piece.count(b"\n")
    return Part(b"".join(pieces), tuple(starts), False, size)


def _read(file: FileIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    parts = []
    while size > 0 and (data := file.read(min(size, BLOCK))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _survey(file: FileIO) -> tuple[list[int], list[int], int]:
    """(newlines before each block, offsets of the first values that are not finite, bytes in all)."""
    newlines, found, size, total = [0], dict[bytes, int](), 0, 0
    while data := _read(file, size, BLOCK):
        for text in NONFINITE:
            if text not in found and (at := data.find(text)) >= 0:
                found[text] = size + at
        total += data.count(b"\n")
        newlines.append(total)
        size += len(data)
    return newlines, list(found.values()), size


def _windows(size: int, onsets: list[int]) -> list[tuple[int, int]]:
    """(start, end) of the windows, ascending and apart."""
    inner = (WHOLE - 2 * EDGE) // WINDOW
    stride = (size - 2 * EDGE) / (inner + 1)
    spans = [(0, EDGE), (size - EDGE, size)]
    spans += [
        (int(EDGE + stride * (i + 1)) - WINDOW // 2, int(EDGE + stride * (i + 1)) + WINDOW // 2) for i in range(inner)
    ]
    spans += [(max(0, at - WINDOW), min(at + WINDOW, size)) for at in onsets]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
