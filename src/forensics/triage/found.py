"""What a folder was found to hold: the rows of jobs, and notes on what was left out or could be read otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.triage import folders as names
from forensics.triage import layouts
from forensics.triage.layouts import Cut
from forensics.triage.model import Job

NAMED = 3  # files that a note names
_NAMED = frozenset({"folder", "file", "slurm"})  # layouts whose jobs' settings stand in names alone
_ARCHIVE = re.compile(r"\.(?:tar(?:\.(?:gz|xz|bz2|zst))?|t(?:gz|xz|bz2|zst)|zip)\Z", re.I)


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was left out, or could be read otherwise: `count` of what `text` says."""

    count: int
    text: str
    guess: bool = False  # what is one row here can be several


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs of a folder; none where it holds no logs."""

    jobs: tuple[Job, ...] = ()
    notes: tuple[Note, ...] = ()

    def __add__(self, other: Found) -> Found:
        return Found(self.jobs + other.jobs, self.notes + other.notes)


def archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return _ARCHIVE.search(name) is not None


class Rows:
    """Makes rows and notes of paths. joined: makes a path of a folder's and a name; shown: how rows show a path."""

    def __init__(self, joined: Callable[[str, str], str], shown: Callable[[str], str]) -> None:
        self._joined = joined
        self._shown = shown

    def one(self, path: str, layout: str, labels: Mapping[str, str] = {}) -> Found:
        return Found((Job(path=self._shown(path), layout=layout, parts=(path,), labels=labels),))

    def own_logs(self, path: str, files: Sequence[str]) -> Found:
        """A row for the logs of a folder itself, beside those of its sub-folders: what they tell must not be lost."""
        if not files:
            return Found()
        parts = tuple(self._joined(path, name) for name in files)
        return Found((Job(path=self._shown(path), layout="files", parts=parts),))

    def each(self, path: str, children: Iterable[str], layout: str) -> Found:
        return total(self.one(self._joined(path, name), layout) for name in children)

    def cut(self, path: str, cuts: Sequence[Cut], layout: str) -> Found:
        return Found(
            tuple(
                Job(
                    path=self._shown(self._joined(path, cut.name)),
                    layout=layout,
                    parts=tuple(self._joined(path, entry) for entry in cut.entries),
                    labels=dict(cut.labels),
                )
                for cut in cuts
            )
        )

    def archives(self, path: str, files: Sequence[str]) -> Found:
        left = [name for name in files if not archive(name)]
        found = self.each(path, filter(archive, files), "archive")
        if not left:
            return found
        what = f"file{'s' * (len(left) != 1)} beside the jobs of {self._shown(path)} left out"
        named = some(sorted(left, key=lambda name: not layouts.is_log(name)))
        return found + Found(notes=(Note(len(left), f"{what} ({named})"),))

    def left_out(self, path: str, left: Sequence[str]) -> Found:
        what = f"folder{'s' * (len(left) != 1)} beside the jobs of {self._shown(path)} left out"
        return Found(notes=(Note(len(left), f"{what} ({some(left)})"),)) if left else Found()

    def note(self, path: str, count: int) -> Found:
        place = self._shown(path)
        text = f"folders below {place} each hold logs and are read as one job; give {place}/* to split it"
        return Found(notes=(Note(count, text, guess=True),))


def total(found: Iterable[Found]) -> Found:
    every = list(found)
    return Found(tuple(job for f in every for job in f.jobs), tuple(note for f in every for note in f.notes))


def with_settings(job: Job, given: str) -> Job:
    """A job with the settings that the folders are named by in which it lies below a given path (as rows show it).

    Launchers that write settings down name their folders as they like, and say more.
    """
    if job.layout not in _NAMED:
        return job
    below = job.path.removeprefix(given).strip("/") or given.rpartition("/")[2]
    named = {name: value for folder in below.split("/") for name, value in names.settings(folder).items()}
    stated = {f"hparam.{name}": value for name, value in named.items()}
    return replace(job, labels={**stated, **job.labels}) if stated else job


def in_one(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """The jobs, with what a scheduler wrote of one put to the folder that the job itself named by its id.

    Nothing is put together where several folders, or logs, bear the id.
    """
    logs: dict[str, list[Job]] = {}
    folders: dict[str, list[Job]] = {}
    for job in jobs:
        if job.layout == "slurm":
            task = job.labels.get("array_task")
            name = job.labels.get("job_id", "") + (f"_{task}" if task is not None else "")
            logs.setdefault(name, []).append(job)
        else:
            folders.setdefault(job.path.rpartition("/")[2], []).append(job)
    pairs = {name: (logs[name][0], folders[name][0]) for name in logs.keys() & folders.keys() if name}
    pairs = {name: pair for name, pair in pairs.items() if len(logs[name]) == len(folders[name]) == 1}
    whole = {
        folder.path: replace(folder, parts=(*folder.parts, *log.parts), labels={**log.labels, **folder.labels})
        for log, folder in pairs.values()
    }
    put = {log.path for log, _ in pairs.values()}
    return tuple(
        whole.get(job.path, job) if job.layout != "slurm" else job
        for job in jobs
        if job.layout != "slurm" or job.path not in put
    )


def some(listed: Sequence[str]) -> str:
    """A few names for a note."""
    more = ", ..." if len(listed) > NAMED else ""
    return ", ".join(readable(name if len(name) <= 60 else f"{name[:59]}…") for name in listed[:NAMED]) + more


def readable(path: str) -> str:
    """A path as rows show it: what is no UTF-8 replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
