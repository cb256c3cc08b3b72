"""Opening the files of a run, which may change while they are read."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


def opened(file: Path) -> FileIO:
    """A file opened for reading, without a buffer. Raises OSError.

    A file that has become a named pipe, or is one of the kernel's own, does not make its reader wait: it ends.
    """
    return FileIO(file, opener=_without_waiting)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
