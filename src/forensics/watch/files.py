"""The files of a live run: which there are, which grew, which were rotated, emptied or taken away.

Files are told apart by device and inode, and known again by their first bytes: a file that is renamed stays the same
one, a new one under an old name is new, one that became shorter or begins otherwise was emptied. Looking costs a
listing and a stat for each file; nothing is read of a file that did not change.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from forensics.files import beginning, opened
from forensics.kinds import Sniffers
from forensics.model import Coverage, Identity, Kind, Source
from forensics.path_identity import hosts_before_ranks, jobs_of_arrays, local_names, number_tasks
from forensics.run import SNIFF, examine, listing

PRINT = 512  # bytes at the beginning by which a file is known again
TRAIL = 512  # bytes before the place up to which a file was read, by which a copy of it is known

Key = tuple[int, int]  # device and inode


@dataclass(slots=True, eq=False)
class Followed:
    """One file and how far it was read."""

    source: Source
    key: Key
    told: Source | Coverage  # what its name and first bytes alone say it is
    size: int  # when it was last looked at
    mtime: float  # seconds since the epoch
    looked: int  # bytes that it had when its kind was told
    head: bytes = b""
    done: int = 0  # bytes that were read, to the end of a line
    newlines: int = 0  # in these bytes
    back: int = 0  # where the lines begin that are looked at again with those that follow them
    back_newlines: int = 0
    at_line: bool = True  # whether `done` is the end of a line, and not of a piece of one
    trail: bytes = b""
    reader: Any = None  # of event files
    form: str | None = None  # of metric files that grow by lines
    voted: frozenset[str] | None = None
    voted_at: int = 0  # bytes that there were when the prefixes were told
    first_time: float | None = None

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def readable(self) -> bool:
        return isinstance(self.told, Source)

    def restart(self) -> None:
        """Forget how far it was read."""
        self.done = self.newlines = self.back = self.back_newlines = self.voted_at = 0
        self.at_line, self.trail, self.head = True, b"", b""
        self.reader = self.form = self.voted = self.first_time = None


@dataclass(slots=True)
class Changes:
    """What has changed since the last look.

    gone: paths of files that are no longer there. moved: (old path, new path) of what was said under a name; all at
    once, and after `gone`. forgotten: paths whose content is to be read anew, or no longer there. grown: to be read,
    also files that are new. stirred: whether anything was written, also to a file that is not read.
    """

    gone: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    grown: list[Followed] = field(default_factory=list)
    stirred: bool = False

    def __bool__(self) -> bool:
        return bool(self.grown or self.moved or self.forgotten or self.gone)


class Files:
    """The files under the paths of a run, from look to look.

    own: files that are never read (the program's own output).
    """

    def __init__(
        self,
        paths: Sequence[str],
        sniffers: Sniffers,
        *,
        exclude: Sequence[str] = (),
        own: frozenset[Key] = frozenset(),
    ) -> None:
        self.paths = tuple(paths)
        self._sniffers = sniffers
        self._exclude = tuple(exclude)
        self._own = own
        self._known: dict[Key, Followed] = {}
        self._copies: dict[str, str] = {}  # path of a file -> that of the copy that was made of it

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[Followed]:
        """Every file that is followed, by path."""
        return sorted((f for f in self._known.values() if f.readable), key=lambda f: f.path)

    def look(self) -> Changes:
        """What has changed. Raises NothingToRead where a path of the run does not exist."""
        changes = Changes()
        before = dict(self._known)
        seen: dict[Key, tuple[Path, str, os.stat_result]] = {}
        for file, path in listing(self.paths, exclude=self._exclude):
            try:
                info = file.stat()
            except OSError:
                continue
            key = (info.st_dev, info.st_ino)
            if stat.S_ISREG(info.st_mode) and key not in self._own:
                seen.setdefault(key, (file, path, info))
        self._move(seen, changes)
        fresh = [self._add(key, *found, before) for key, found in seen.items() if key not in self._known]
        for key, (_, _, info) in seen.items():
            followed = self._known[key]
            if (followed.size, followed.mtime) != (info.st_size, info.st_mtime) or followed in fresh:
                self._changed(followed, info, changes, new=followed in fresh)
        for key in [k for k in self._known if k not in seen]:
            changes.gone.append(self._known.pop(key).path)
        if fresh or changes.moved:
            self._identify(changes)
        return changes

    def _move(self, seen: dict[Key, tuple[Path, str, os.stat_result]], changes: Changes) -> None:
        for key, (file, path, _) in seen.items():
            followed = self._known.get(key)
            if followed is None or followed.path == path:
                continue
            if not _begins_with(file, followed.head):  # another file under a number that was free again
                changes.gone.append(self._known.pop(key).path)
                continue
            changes.moved.append((followed.path, path))
            if (reader := followed.reader) is not None:
                reader.path = file
            told = followed.told
            if isinstance(told, Source):
                examined = examine(file, path, self._sniffers)
                identity = examined.identity if isinstance(examined, Source) else told.identity
                followed.told = told = replace(told, path=path, file=file, identity=identity)
                followed.source = told

    def _add(self, key: Key, file: Path, path: str, info: os.stat_result, before: dict[Key, Followed]) -> Followed:
        told = examine(file, path, self._sniffers)
        source = told if isinstance(told, Source) else Source(path, file, Kind.BINARY, info.st_size, Identity())
        followed = Followed(source, key, told, 0, 0.0, info.st_size)
        self._known[key] = followed
        origin = next((f for f in before.values() if _is_copy(followed, info.st_size, f)), None)
        if origin is not None:
            self._copies[origin.path] = path
            for name in ("done", "newlines", "back", "back_newlines", "at_line", "trail", "head", "form"):
                setattr(followed, name, getattr(origin, name))
        return followed

    def _changed(self, followed: Followed, info: os.stat_result, changes: Changes, *, new: bool) -> None:
        changes.stirred = True
        emptied = not new and (info.st_size < followed.done or not _begins_with(followed.source.file, followed.head))
        if emptied:
            copy = self._copies.pop(followed.path, None)
            if copy is not None:
                changes.moved.append((followed.path, copy))
            else:
                changes.forgotten.append(followed.path)
            followed.restart()
        followed.size, followed.mtime = info.st_size, info.st_mtime
        if not new and followed.looked < SNIFF and (emptied or info.st_size >= 2 * followed.looked):
            self._look_again(followed, changes)
        if followed.readable:
            followed.source = replace(followed.source, size=info.st_size)
            changes.grown.append(followed)

    def _look_again(self, followed: Followed, changes: Changes) -> None:
        """What a file is may show only when it has grown."""
        told = examine(followed.source.file, followed.path, self._sniffers)
        was = followed.told.kind if isinstance(followed.told, Source) else None
        followed.looked, followed.told = followed.size, told
        if (told.kind if isinstance(told, Source) else None) == was:
            return
        followed.restart()
        changes.forgotten.append(followed.path)
        if isinstance(told, Source):
            followed.source = replace(told, identity=followed.source.identity.over(told.identity))

    def _identify(self, changes: Changes) -> None:
        """Names are read together: whether a number is a rank shows by those beside it."""
        files = self.all()
        plain = [f.told for f in files if isinstance(f.told, Source)]
        for followed, named in zip(
            files, local_names(hosts_before_ranks(number_tasks(plain, jobs_of_arrays(plain)))), strict=True
        ):
            if followed.source.identity == named.identity and followed.source.kind == named.kind:
                continue
            followed.source = replace(named, size=followed.size)
            if followed.done and followed.path not in {path for _, path in changes.moved}:
                followed.restart()
                changes.forgotten.append(followed.path)
            if followed not in changes.grown:
                changes.grown.append(followed)


def _begins_with(file: Path, head: bytes) -> bool:
    if not head:
        return True
    try:
        return beginning(file, len(head)) == head
    except OSError:
        return False


def _is_copy(new: Followed, size: int, origin: Followed) -> bool:
    """Whether a new file holds what was read of another one, as the copies that rotation makes before it empties."""
    if not origin.done or size < origin.done or not origin.head or not _rotated_name(new.path, origin.path):
        return False
    return _begins_with(new.source.file, origin.head) and ends_with(new.source.file, origin.done, origin.trail)


def ends_with(file: Path, end: int, trail: bytes) -> bool:
    """Whether the bytes of a file before `end` are `trail`."""
    try:
        with opened(file) as stream:
            stream.seek(end - len(trail))
            return stream.read(len(trail)) == trail
    except OSError:
        return False


def _rotated_name(new: str, old: str) -> bool:
    """Whether a path is what rotation makes of another: `rank0.log.1`, `rank0.log-20261128`, `rank0.1.log`."""
    stem = re.escape(re.sub(r"\.[A-Za-z]+$", "", old))
    return re.match(rf"{stem}[._-]", new) is not None or re.match(rf"{re.escape(old)}[._-]", new) is not None
