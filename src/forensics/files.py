"""Opening the files of a run, which may change while they are read."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path


def opened(file: Path) -> FileIO:
    """A file opened for reading, without a buffer. Raises OSError, also for what is no regular file.

    A file that has become a named pipe or a device since it was found would make its reader wait, or never end. One of
    the kernel's own that has nothing to give gives None.
    """
    return FileIO(file, opener=_regular_only)


def buffered(file: Path) -> BufferedReader:
    """As `opened`, with a buffer: for readers that take a few bytes at a time. Raises OSError."""
    return BufferedReader(_Ending(file, opener=_regular_only))


def beginning(file: Path, size: int) -> bytes:
    """The first `size` bytes of a file, fewer where it has fewer. Raises OSError."""
    with buffered(file) as stream:
        return stream.read(size)


def printable(name: str) -> str:
    """A file's name as text, also where its bytes are no UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Ending(FileIO):
    """What has nothing to give now has ended, for no reader of a run's files waits for more."""

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        return super().readinto(buffer) or 0

    def readall(self) -> bytes:
        return super().readall() or b""


def _regular_only(path: str, flags: int) -> int:
    fd = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
    except BaseException:
        os.close(fd)
        raise
    return fd
