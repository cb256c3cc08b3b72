"""What unpacking may cost, and what became of an archive."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 20
MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may unpack. The defaults are far above what logs of 1,000 ranks need."""

    total: int = 4 << 30  # bytes that are unpacked in all
    ratio: int = 300  # unpacked to packed bytes of one archive, once it has given more than `free`
    free: int = 64 * MEBI
    members: int = 50_000  # of one archive
    name: int = 1024  # characters of a member's name
    rows: int = 200  # members of one archive that were left out and are reported one by one
    head: int = MEBI  # bytes of one tar header with its extensions, or one entry of a zip's list
    memory: int = 256 * MEBI  # of an xz or zstd decoder
    disk: int = 512 * MEBI  # left free where the temporary folder is
    depth: int = 4  # archives within each other: a.zip!/logs.tar.gz!/rank0.log.gz!/rank0.log are three


DEFAULT = Limits()


class Stop(Exception):
    """Reading an archive ends here; the message says why. What was unpacked before stays."""


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    file: Path
    problem: str | None = None


@dataclass(slots=True)
class Unpacked:
    """What became of one archive, filled while its members are taken."""

    skipped: list[tuple[str, str]] = field(default_factory=list)  # (member, reason)
    more: Counter[str] = field(default_factory=Counter)  # reasons of members beyond `Limits.rows`
    count: int = 0
    problem: str | None = None  # why the rest of it was not read

    def skip(self, name: str, reason: str, limits: Limits) -> None:
        if len(self.skipped) < limits.rows:
            self.skipped.append((name[: limits.name], reason))
        else:
            self.more[reason] += 1
