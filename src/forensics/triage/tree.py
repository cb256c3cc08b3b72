"""A folder of jobs as the search sees it: names, remembered, and a few first bytes of files."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from forensics.archives.formats import RECORDS, compression, format_of
from forensics.triage import folders as names
from forensics.triage import layouts
from forensics.triage.layouts import Listing
from forensics.triage.model import Job

HEAD = 64 << 10  # bytes of a file that tell an array's tasks from the ranks of one job
HEADS = 4  # files that are looked at for what they say of ranks
KEPT = 50_000  # listings that are remembered
FIRST = 16  # jobs of a folder that are looked at for a training
MOST_TOLD = 256  # files of a folder that are looked at where no name is that of a log
_TRAINING = re.compile(
    rb"(?i)\b(?:step|iter(?:ation)?|epoch)s?\b[^\n]{0,80}\bloss\b|\bloss\b[^\n]{0,160}\bepoch['\": ]"
    rb"|(?:^|[\]:|Z] ?)Traceback \(most recent call",
    re.M,
)


class Files(Protocol):
    """What the search asks of a file system."""

    def listing(self, path: str) -> Listing | None:
        """The names in a folder; None where it cannot be listed."""

    def head(self, path: str, size: int) -> bytes:
        """The first bytes of a file; b"" where it cannot be read."""


def of_training(head: bytes) -> bool:
    """Whether a log's first bytes hold steps of a training, or a traceback."""
    words = head.lower()  # the search takes ten times as long
    return (b"loss" in words or b"traceback" in words) and _TRAINING.search(head) is not None


def text_of(head: bytes, name: str) -> bytes:
    """The text in the first bytes of a file: unpacked where it is compressed, without the JSON of log collectors."""
    head = _unpacked(head)
    return head.replace(b"\\n", b"\n").replace(b'"', b"\n") if format_of(head, name) in RECORDS else head


def _unpacked(head: bytes) -> bytes:
    what = compression(head)
    if what is None:
        return head
    from forensics.archives.streams import unpacked_start

    return unpacked_start(head, what, HEAD)


class Tree:
    """Reads below the given paths. joined: makes a path of a folder's and a name. Not to be shared between threads."""

    def __init__(self, files: Files, exclude: Sequence[str], joined: Callable[[str, str], str]) -> None:
        self._files = files
        self._exclude = exclude
        self._joined = joined
        self._seen: dict[str, Listing | None] = {}
        self._told: dict[str, frozenset[str]] = {}  # folder -> its logs that only their content tells

    def listing(self, path: str) -> Listing | None:
        if path not in self._seen:
            if len(self._seen) >= KEPT:
                self._seen.clear()
            self._seen[path] = self._files.listing(path)
        return self._seen[path]

    def visible(self, path: str, listing: Listing) -> list[str]:
        shown = [name for name in listing.folders if names.may_hold_jobs(name)]
        if not self._exclude:
            return shown
        return [n for n in shown if not any(fnmatch.fnmatch(self._joined(path, n), glob) for glob in self._exclude)]

    def heads(self, paths: Iterable[str]) -> list[bytes]:
        return [self.head(path) for path in list(paths)[:HEADS]]

    def head(self, path: str) -> bytes:
        """The first bytes of a file, unpacked where it is compressed."""
        return text_of(self._files.head(path, HEAD), path.rpartition("/")[2])

    def logs(self, path: str, listing: Listing) -> tuple[str, ...]:
        """The logs in a folder: files that are named as such; where none is, those that the analysis reads as one.

        Of these the first bytes must hold steps of a training, or a traceback. Logs of what starts runs do not count as
        named.
        """
        named = tuple(filter(layouts.may_be_log, listing.files))
        if not all(map(layouts.is_study_log, named)):
            return named
        if path not in self._told:
            self._told[path] = self._told_by_content(path, listing)
        told = self._told[path]
        return tuple(name for name in listing.files if name in told or name in named)

    def _told_by_content(self, path: str, listing: Listing) -> frozenset[str]:
        others = [name for name in listing.files if layouts.may_hold_log(name)]
        last = len(others) - 1
        looked = dict.fromkeys(others[last * n // (HEADS - 1)] for n in range(HEADS)) if others else {}
        if not any(self._is_log(path, name) for name in looked):
            return frozenset()
        return frozenset(name for name in others[:MOST_TOLD] if self._is_log(path, name))

    def _is_log(self, path: str, name: str) -> bool:
        """Whether a file holds a training or a traceback, and the analysis reads it."""
        from forensics.triage.heads import is_read

        head = self._files.head(self._joined(path, name), HEAD)
        return of_training(text_of(head, name)) and is_read(_unpacked(head), name)

    def first_log(self, path: str, levels: int = 2, *, named: bool = False) -> str | None:
        """A log in a folder or in its sub-folders; None where the first few hold none. named: told by names alone.

        A log that is given is itself one.
        """
        listing = self.listing(path)
        if listing is None:  # a job can be a file
            return path if layouts.may_be_log(path.rpartition("/")[2]) else None
        logs = filter(layouts.may_be_log, listing.files) if named else self.logs(path, listing)
        if log := next(iter(logs), None):
            return self._joined(path, log)
        for name in self.visible(path, listing)[:HEADS] if levels > 0 else ():
            if found := self.first_log(self._joined(path, name), levels - 1, named=named):
                return found
        return None

    def trains(self, path: str, name: str) -> bool:
        """Whether a log's first bytes hold steps of a training, or a traceback."""
        return any(map(of_training, self.heads([self._joined(path, name)])))

    def have_settings(self, path: str, folders: Iterable[str]) -> bool:
        """Whether each folder holds a log and the settings of a run beside it, as the ranks of one run do not."""
        return all(self.has_settings(self._joined(path, name)) for name in folders)

    def has_settings(self, path: str) -> bool:
        listing = self.listing(path)
        return listing is not None and layouts.has_settings(listing.files) and bool(self.logs(path, listing))

    def training(self, jobs: Iterable[Job]) -> int:
        """How many of the first jobs left a log whose first bytes hold steps of a training, or a traceback."""
        logs = [log for job in islice(jobs, FIRST) if (log := self.first_log(job.parts[0]))]
        return sum(of_training(self.head(log)) for log in logs)
