"""Checkpoint files as streams; what was not fetched of a file is refused, and not read as zeros."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from forensics.archives.limits import Stop
from forensics.files import buffered


class Hole(Stop):
    """A read met the part of a file that was not fetched."""


class _Gapped(io.RawIOBase):
    def __init__(self, raw: BinaryIO, start: int, end: int) -> None:
        self._raw, self._start, self._end = raw, start, end

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def read(self, n: int = -1) -> bytes:
        at = self._raw.tell()
        data = self._raw.read(n)
        if at < self._end and at + len(data) > self._start:
            raise Hole("it lies in the part of the file that was not fetched")
        return data


@contextmanager
def opened(file: Path, gap: tuple[int, int] | None = None) -> Iterator[BinaryIO]:
    """The file for reading. gap: bytes [start, end) that are not here; a read that meets them raises Hole."""
    with buffered(file) as raw:
        view: Any = raw if gap is None else _Gapped(raw, *gap)
        yield view
