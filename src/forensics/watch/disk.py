"""Room on the file systems that a run writes to: the ones its folders lie on.

What is told is what a run can run into: no room (or no inodes) left, nearly none, or so little that it will be used up
soon at the pace of the last minutes. A large disk that is nearly full and stays so is not told.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NEARLY = 0.01  # share of a file system that is free, below which it is nearly full
LITTLE = 10 << 30  # bytes that are not little, whatever the share; a checkpoint of a model of 1 B parameters has 12 GB
TIGHT = 0.10  # share that is free, below which the pace is looked at
SOON = 1800.0  # seconds in which it would be full
PACE = 300.0  # seconds that the pace is measured over at least: a checkpoint is written in bursts
KEPT = 1800.0  # seconds of measurements that are kept


@dataclass(frozen=True, slots=True)
class Room:
    """What statvfs says of a file system, for a user without privileges. device: its number."""

    device: int
    free: int  # bytes
    size: int  # bytes
    inodes: int | None  # free ones; None where the file system does not count them


@dataclass(frozen=True, slots=True)
class Filling:
    """A file system that is full or about to be."""

    folder: str
    free: int
    size: int
    what: str
    full: bool = False  # nothing more can be written


def room(folder: Path) -> Room | None:
    """The room of the file system that a folder lies on; None where it cannot be told."""
    try:
        v = os.statvfs(folder)
        device = folder.stat().st_dev
    except (OSError, AttributeError):
        return None
    return Room(device, v.f_bavail * v.f_frsize, v.f_blocks * v.f_frsize, v.f_favail if v.f_files else None)


@dataclass(slots=True)
class Disk:
    """The room of the file systems of some folders from look to look."""

    folders: Sequence[Path]
    measure: Callable[[Path], Room | None] = room
    _past: dict[int, deque[tuple[float, int]]] = field(default_factory=dict)

    def look(self, now: float) -> list[Filling]:
        """The file systems that are full or about to be. now: seconds of a clock that does not jump."""
        found = []
        seen: set[int] = set()
        for folder in self.folders:
            have = self.measure(folder)
            if have is None or have.device in seen or not have.size:
                continue
            seen.add(have.device)
            past = self._past.setdefault(have.device, deque())
            past.append((now, have.free))
            while past[0][0] < now - KEPT:
                past.popleft()
            what = _trouble(have, past)
            if what is not None:
                full = have.free == 0 or have.inodes == 0
                found.append(Filling(str(folder), have.free, have.size, what, full))
        return found


def _trouble(have: Room, past: deque[tuple[float, int]]) -> str | None:
    if have.free == 0:
        return "no room is left"
    if have.inodes == 0:
        return "no inodes are left"
    share = have.free / have.size
    if share < NEARLY and have.free < LITTLE:
        return "it is nearly full"
    (began, free), (ended, _) = past[0], past[-1]
    if share >= TIGHT or ended - began < PACE or free <= have.free:
        return None
    left = have.free * (ended - began) / (free - have.free)
    if left >= SOON:
        return None
    return f"it will be full in {max(1, round(left / 60))} min at the pace of the last {(ended - began) / 60:.0f} min"
