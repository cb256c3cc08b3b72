"""Small files that spare the next start work: in the user's cache folder, never trusted further than their key.

Whoever cannot write there, or finds a file of another user, or a damaged one, just computes again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

KEEP = 8  # files of one kind that stay: a few versions and catalogues of one user


def folder() -> Path:
    """`$XDG_CACHE_HOME/forensics`, by default `~/.cache/forensics`."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "forensics"
    try:
        return Path.home() / ".cache" / "forensics"
    except RuntimeError:  # no home directory, as in some containers
        return Path("/nonexistent")


def load(name: str) -> bytes | None:
    """The content of a cached file, or None."""
    file = folder() / name
    try:
        if os.name == "posix" and file.stat().st_uid != os.getuid():
            return None
        return file.read_bytes()
    except OSError:
        return None


def store(kind: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all; older ones of its `kind` (the start of their names) are removed."""
    file = folder() / name
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = file.with_suffix(f".{os.getpid()}.tmp")
        partial.write_bytes(data)
        partial.replace(file)
        for old in sorted(file.parent.glob(f"{kind}-*"), key=lambda p: p.stat().st_mtime)[:-KEEP]:
            old.unlink(missing_ok=True)
