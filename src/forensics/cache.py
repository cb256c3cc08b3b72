"""Small files that spare the next start work: in the user's cache folder, never trusted further than their key.

Whoever cannot write there, or finds a file of another user, or a damaged one, just computes again. A file begins with
the checksum of what follows: a catalogue that lost an entry would be valid JSON, and a run would look healthy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

KEEP = 8  # files of one kind that stay: a few versions and catalogues of one user
LARGEST = 64 << 20  # bytes; what is kept here is some hundred kilobytes
_SUM = hashlib.sha256().digest_size


def folder() -> Path | None:
    """`$XDG_CACHE_HOME/forensics`, by default `~/.cache/forensics`; None where neither is an absolute path.

    The XDG base directory specification has relative paths ignored; one would lie in the folder that is analysed.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "forensics"
    try:
        home = Path.home()
    except RuntimeError:  # no home directory, as in some containers
        return None
    return home / ".cache" / "forensics" if home.is_absolute() else None


def load(name: str) -> bytes | None:
    """The content of a cached file, or None."""
    if (base := folder()) is None:
        return None
    try:
        # Without O_NONBLOCK a named pipe in its place would wait for a writer.
        fd = os.open(base / name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST:
            return None
        if os.name == "posix" and info.st_uid != os.getuid():
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(LARGEST)
    except OSError:
        return None
    finally:
        os.close(fd)
    content = data[_SUM:]
    return content if hashlib.sha256(content).digest() == data[:_SUM] else None


def store(kind: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all; older ones of its `kind` (the start of their names) are removed."""
    if (base := folder()) is None:
        return
    file = base / name
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.write_bytes(hashlib.sha256(data).digest() + data)
        partial.replace(file)
        for old in sorted(base.glob(f"{kind}-*"), key=lambda p: p.stat().st_mtime)[:-KEEP]:
            old.unlink(missing_ok=True)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
