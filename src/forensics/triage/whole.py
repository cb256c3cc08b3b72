"""Files that are written whole or not at all, also where the program is ended or the disk is full."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write_whole(file: Path, data: bytes) -> None:
    """Write a file as `whole_file` does. Raises OSError."""
    with whole_file(file) as out:
        out.write(data)


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """A file beside its place, moved there at the end; devices and pipes are written to. Raises OSError.

    What was there keeps its mode, and a link to it stays a link. In a folder where no file can be made, one that is
    there is written over.
    """
    target = Path(os.path.realpath(file))
    handle, name = (None, "") if target.exists() and not target.is_file() else _beside(target)
    if handle is None:
        with target.open("wb") as out:
            yield out
        return
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        os.chmod(name, _mode(target))  # noqa: PTH101 - mkstemp's own mode lets nobody else read what is to be shared
        os.replace(name, target)  # noqa: PTH105
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _beside(target: Path) -> tuple[int | None, str]:
    try:
        return tempfile.mkstemp(prefix=".forensics-", dir=target.parent)
    except PermissionError:
        return None, ""


def _mode(target: Path) -> int:
    """The mode of what is there, else that of new files."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
