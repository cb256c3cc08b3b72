"""Which jobs lie under the given paths: folders are walked by name, and no more of a file is read than its head."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forensics.triage import layouts
from forensics.triage.found import archive, readable
from forensics.triage.layouts import Listing, natural
from forensics.triage.model import Job
from forensics.triage.walk import Search

MOST_ENTRIES = 1_000_000  # of one folder
MOST_NOTES = 20
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class NoJobs(Exception):
    """The given paths hold no job; the message says why."""


@dataclass(slots=True)
class Notes:
    """What the search left out, counted by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, n: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + n

    def lines(self) -> tuple[str, ...]:
        """At most MOST_NOTES of them, and how many there are beside."""
        lines = [f"{n:,} {reason}" for reason, n in self.counts.items()]
        more = len(lines) - MOST_NOTES
        return (*lines[:MOST_NOTES], *((f"{more:,} further notes of this kind",) if more > 0 else ()))


class LocalFiles:
    """Folders of this machine. Symbolic links to folders are not followed."""

    def __init__(self, exclude: Sequence[str] = ()) -> None:
        self.exclude = tuple(exclude)

    def listing(self, path: str) -> Listing | None:
        folders: list[str] = []
        files: list[str] = []
        links = 0
        try:
            with os.scandir(path) as entries:
                for number, entry in enumerate(entries):
                    if number >= MOST_ENTRIES:
                        break
                    if any(fnmatch.fnmatch(entry.name, glob) for glob in self.exclude):
                        continue
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.name)
                        elif entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
                        else:
                            links += entry.is_dir()
                    except OSError:
                        continue
        except OSError:
            return None
        return Listing(tuple(sorted(folders, key=natural)), tuple(sorted(files, key=natural)), links)

    def head(self, path: str, size: int) -> bytes:
        from forensics.files import beginning

        try:
            return beginning(Path(path), size)
        except OSError:
            return b""


def find(paths: Sequence[str], *, exclude: Sequence[str] = (), notes: Notes | None = None) -> Iterator[Job]:
    """Every job under the paths, in natural order within each; a path that two of them name comes once.

    exclude: globs on names and paths of folders and files. Raises NoJobs where a path does not exist.
    """
    notes = notes if notes is not None else Notes()
    for path in paths:  # before any work is done
        if not _is_url(path) and not os.path.lexists(path or "\0"):
            raise NoJobs(f"{path[:300]}: no such file or directory" if path else "an empty path was given")
    seen: set[tuple[str, ...]] = set()
    together = _given_together(paths)
    for path in paths:
        base = path if _is_url(path) else os.path.realpath(path)
        for job in _below(path, exclude, notes, together):
            place = tuple(_under(base, path, part) for part in job.parts)
            if place not in seen:
                seen.add(place)
                yield job


def _under(base: str, path: str, part: str) -> str:
    """The place of a part of a job that was found under a given path. base: the place of that path."""
    if _is_url(part):
        return part
    given = str(Path(path)).rstrip(os.sep)  # as parts are made from it
    if part == given or part.startswith(given + os.sep):
        return base.rstrip(os.sep) + part[len(given) :].rstrip(os.sep)
    return os.path.realpath(part)


def _is_url(path: str) -> bool:
    return _URL.match(path) is not None


def _given_together(paths: Sequence[str]) -> dict[str, Job]:
    """Given file -> the job that it is of together with others of the given files: the streams of one."""
    of_folder: dict[str, dict[str, str]] = {}
    for path in paths:
        if not _is_url(path) and Path(path).is_file() and not archive(path):
            of_folder.setdefault(str(Path(path).parent), {})[Path(path).name] = path
    found: dict[str, Job] = {}
    for folder, files in of_folder.items():
        jobs, rest = layouts.scheduler_jobs(sorted(files, key=natural))
        named = [("slurm", cut) for cut in jobs] + [("file", cut) for cut in layouts.by_stem(rest)]
        for layout, cut in named:
            if len(cut.entries) > 1:
                parts = tuple(files[entry] for entry in cut.entries)
                job = Job(path=_slashes(_joined(folder, cut.name)), layout=layout, parts=parts, labels=cut.labels)
                found |= dict.fromkeys(parts, job)
    return found


def _below(path: str, exclude: Sequence[str], notes: Notes, together: Mapping[str, Job]) -> Iterator[Job]:
    if _is_url(path):
        from forensics.triage.urls import RemoteFiles

        remote = RemoteFiles(path, exclude)
        found = Search(remote, exclude, remote.joined, remote.shown).given(path.rstrip("/"))
    elif Path(path).is_dir():
        found = Search(LocalFiles(exclude), exclude, _joined, _slashes).given(path.rstrip("/") or "/")
    elif any(fnmatch.fnmatch(Path(path).name, glob) for glob in exclude):
        notes.add("given file left out by --exclude")
        return
    elif path in together:
        yield together[path]
        return
    else:
        yield Job(path=_slashes(path), layout="archive" if archive(path) else "file", parts=(path,))
        return
    for note in found.notes:
        notes.add(note.text, note.count)
    yield from found.jobs


def _joined(folder: str, name: str) -> str:
    return str(Path(folder) / name)


def _slashes(path: str) -> str:
    return readable(path.replace(os.sep, "/") if os.sep != "/" else path)
