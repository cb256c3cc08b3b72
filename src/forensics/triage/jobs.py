"""Which jobs lie under the given paths: folders are walked by name, and no more of a file is read than its head."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from forensics.triage import layouts
from forensics.triage.layouts import Cut, Listing, natural
from forensics.triage.model import Job

DEEPEST = 8  # folders from a given path to a job
MOST_ENTRIES = 1_000_000  # of one folder
HEAD = 64 << 10  # bytes of a file that tell an array's tasks from the ranks of one job
HEADS = 4  # files that are looked at for this
# Folders that hold programs or caches: run.py skips them within a job too.
_NO_JOBS = frozenset({".git", "__pycache__", "site-packages", "node_modules", ".venv", "venv", ".mypy_cache", ".cache"})
_ARCHIVE = re.compile(r"\.(?:tar(?:\.(?:gz|xz|bz2|zst))?|t(?:gz|xz|bz2|zst)|zip)\Z", re.I)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class NoJobs(Exception):
    """The given paths hold no job; the message says why."""


class Files(Protocol):
    """What the search asks of a file system."""

    def listing(self, path: str) -> Listing | None:
        """The names in a folder; None where it cannot be listed."""

    def head(self, path: str, size: int) -> bytes:
        """The first bytes of a file; b"" where it cannot be read."""


@dataclass(slots=True)
class Notes:
    """What the search left out, counted by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, n: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + n

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{n:,} {reason}" for reason, n in self.counts.items())


class LocalFiles:
    """Folders of this machine. Symbolic links to folders are not followed."""

    def __init__(self, exclude: Sequence[str] = ()) -> None:
        self.exclude = tuple(exclude)

    def listing(self, path: str) -> Listing | None:
        folders: list[str] = []
        files: list[str] = []
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
                    except OSError:
                        continue
        except OSError:
            return None
        return Listing(tuple(sorted(folders, key=natural)), tuple(sorted(files, key=natural)))

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
    seen: set[str] = set()
    for path in paths:
        for job in _below(path, exclude, notes):
            if job.path not in seen:
                seen.add(job.path)
                yield job


def _is_url(path: str) -> bool:
    return _URL.match(path) is not None


def _below(path: str, exclude: Sequence[str], notes: Notes) -> Iterator[Job]:
    if _is_url(path):
        from forensics.triage.urls import RemoteFiles

        remote = RemoteFiles(path, exclude)
        yield from _Search(remote, exclude, notes, remote.joined, remote.shown).given(path.rstrip("/"))
        return
    if not Path(path).is_dir():
        yield Job(path=_slashes(path), layout="archive" if _ARCHIVE.search(path) else "file", parts=(path,))
        return
    yield from _Search(LocalFiles(exclude), exclude, notes, _joined, _slashes).given(path.rstrip("/") or "/")


def _joined(folder: str, name: str) -> str:
    return str(Path(folder) / name)


def _slashes(path: str) -> str:
    shown = path.replace(os.sep, "/") if os.sep != "/" else path
    return shown.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Search:
    def __init__(
        self,
        files: Files,
        exclude: Sequence[str],
        notes: Notes,
        joined: Callable[[str, str], str],
        shown: Callable[[str], str],
    ) -> None:
        self.files = files
        self.exclude = exclude
        self.notes = notes
        self.joined = joined
        self.shown = shown

    def given(self, path: str) -> Iterator[Job]:
        listing = self.files.listing(path)
        if listing is None:
            yield Job(path=self.shown(path), layout="folder", parts=(path,))  # analysing it will say what is wrong
            return
        found = self._known(path, listing, 0)
        if found is None:
            found = self._first_level(path, listing, 0)
        yield from found

    def _one(self, path: str, layout: str, labels: Mapping[str, str] = {}) -> Iterator[Job]:
        yield Job(path=self.shown(path), layout=layout, parts=(path,), labels=dict(labels))

    def _known(self, path: str, listing: Listing, depth: int) -> Iterator[Job] | None:
        """The jobs of a folder whose layout is known; None where it is not."""
        if layouts.is_hydra_sweep(listing):
            return self._hydra_sweep(path, listing)
        if layouts.is_hydra_job(listing):
            return self._one(path, "hydra")
        if layouts.is_tune_trial(listing):
            return self._one(path, "ray-tune")
        if layouts.is_tune_experiment(listing):
            return self._tune(path, listing, depth)
        if layouts.is_torchrun(listing):
            return self._one(path, "torchrun")
        runs = [name for name in listing.folders if layouts.is_wandb_run(name)]
        if runs and len(runs) == len([n for n in listing.folders if not n.startswith(".")]):
            return (job for name in runs for job in self._one(self.joined(path, name), "wandb"))
        if listing.folders and (agents := self._agents(path, listing)) is not None:
            return agents
        cuts, rest = layouts.scheduler_jobs(listing.files, arrays_only=depth > 0)
        if cuts and all(map(layouts.is_part, listing.folders)):
            return self._scheduler(path, cuts, rest)
        return None

    def _hydra_sweep(self, path: str, listing: Listing) -> Iterator[Job]:
        """Children are jobs; with a sub-folder pattern of several levels, their children are."""
        logs = self._submitit(path) if ".submitit" in listing.folders else {}
        for name in listing.folders:
            if name.startswith(".") or name in _NO_JOBS:
                continue
            child = self.joined(path, name)
            below = self.files.listing(child)
            if below is None or layouts.is_hydra_job(below) or not below.folders:
                yield self._hydra_job(child, logs)
                continue
            inner = list(self._hydra_below(child, below, logs, 1))
            if inner:
                yield from inner
            else:
                yield self._hydra_job(child, logs)

    def _hydra_below(self, path: str, listing: Listing, logs: Mapping[str, str], depth: int) -> Iterator[Job]:
        if layouts.is_hydra_job(listing):
            yield self._hydra_job(path, logs)
            return
        for name in listing.folders if depth < DEEPEST else ():
            child = self.joined(path, name)
            if not name.startswith(".") and (below := self.files.listing(child)) is not None:
                yield from self._hydra_below(child, below, logs, depth + 1)

    def _hydra_job(self, path: str, logs: Mapping[str, str]) -> Job:
        parts = [path]
        labels: dict[str, str] = {}
        if logs:
            stated = self.files.head(self.joined(self.joined(path, ".hydra"), "hydra.yaml"), HEAD)
            # Within `hydra.job`, of which `id` and `num` are the launcher's.
            if (m := re.search(rb"^    id: '?\"?([\w.-]{1,64})", stated, re.M)) and m[1].decode() in logs:
                labels["job_id"] = m[1].decode()
                parts.append(logs[labels["job_id"]])
        return Job(path=self.shown(path), layout="hydra", parts=tuple(parts), labels=labels)

    def _submitit(self, path: str) -> dict[str, str]:
        """Job id of submitit -> the folder with its output."""
        folder = self.joined(path, ".submitit")
        listing = self.files.listing(folder)
        return {name: self.joined(folder, name) for name in listing.folders} if listing is not None else {}

    def _tune(self, path: str, listing: Listing, depth: int) -> Iterator[Job]:
        trials = [name for name in listing.folders if not name.startswith(".") and name not in _NO_JOBS]
        if not trials:
            yield from self._one(path, "ray-tune")
        for name in trials:
            yield from self._one(self.joined(path, name), "ray-tune")

    def _agents(self, path: str, listing: Listing) -> Iterator[Job] | None:
        """Jobs of a folder that was given to several `torchrun --log-dir`."""
        agents = []
        for name in listing.folders:
            if name.startswith("."):
                continue
            if not layouts.is_agent(name):
                return None
            below = self.files.listing(self.joined(path, name))
            if below is None or not layouts.is_torchrun(below):
                return None
            agents.append(name)
        if not agents:
            return None
        return self._cut(path, layouts.torchrun_jobs(agents), "torchrun")

    def _cut(self, path: str, cuts: Sequence[Cut], layout: str) -> Iterator[Job]:
        for cut in cuts:
            parts = tuple(self.joined(path, entry) for entry in cut.entries)
            yield Job(path=self.shown(self.joined(path, cut.name)), layout=layout, parts=parts, labels=dict(cut.labels))

    def _scheduler(self, path: str, cuts: Sequence[Cut], rest: Sequence[str]) -> Iterator[Job]:
        """One job a task of an array, or a job id; files numbered by rank are put together."""
        whole: list[Cut] = []
        ranks: dict[str, list[Cut]] = {}
        for job, members in layouts.may_be_ranks(cuts).items():
            some = (entry for cut in members[:HEADS] for entry in cut.entries[:1])
            if layouts.ranks_of_one_job((self.files.head(self.joined(path, e), HEAD) for e in some), len(members)):
                ranks[job] = members
        for cut in cuts:
            if cut.labels["job_id"] not in ranks or "array_task" not in cut.labels:
                whole.append(cut)
        for job, members in ranks.items():
            whole.append(Cut(job, tuple(entry for cut in members for entry in cut.entries), {"job_id": job}))
        if len(whole) == 1:  # the whole folder is one job, with whatever else lies in it
            yield from self._one(path, "folder", whole[0].labels)
            return
        yield from self._cut(path, sorted(whole, key=lambda cut: natural(cut.name)), "slurm")
        yield from self._archives(path, rest)

    def _archives(self, path: str, files: Sequence[str]) -> Iterator[Job]:
        left = 0
        for name in files:
            if _ARCHIVE.search(name):
                yield from self._one(self.joined(path, name), "archive")
            else:
                left += 1
        if left:
            self.notes.add(f"file{'s' * (left != 1)} beside the jobs of {self.shown(path)} left out", left)

    def _first_level(self, path: str, listing: Listing, depth: int) -> Iterator[Job]:
        """A folder of an unknown layout: what its sub-folders know, else one job each; one run where they are parts."""
        folders = [n for n in listing.folders if not n.startswith(".") and n not in _NO_JOBS]
        if not folders:
            archives = [name for name in listing.files if _ARCHIVE.search(name)]
            if archives and len(archives) == len(listing.files):
                yield from self._archives(path, listing.files)
            else:
                yield from self._one(path, "folder")
            return
        # `wandb/` alone beside a program's files holds the runs; beside other folders it is a part of one run.
        if folders == ["wandb"]:
            inner = self.files.listing(self.joined(path, "wandb"))
            if inner is not None and len([n for n in inner.folders if layouts.is_wandb_run(n)]) > 1:
                yield from self._wandb(self.joined(path, "wandb"), inner)
                return
        if layouts.is_one_run(listing):
            yield from self._one(path, "folder")
            return
        for name in folders:
            child = self.joined(path, name)
            if any(fnmatch.fnmatch(child, glob) for glob in self.exclude):
                continue
            below = self.files.listing(child)
            if below is None:
                yield from self._one(child, "folder")
                continue
            yield from self._child(child, name, below, depth + 1)
        yield from self._archives(path, listing.files)

    def _wandb(self, path: str, listing: Listing) -> Iterator[Job]:
        for name in listing.folders:
            if layouts.is_wandb_run(name):
                yield from self._one(self.joined(path, name), "wandb")

    def _child(self, path: str, name: str, listing: Listing, depth: int) -> Iterator[Job]:
        """A first-level folder: its jobs where it is a sweep or a date by itself, else one job."""
        known = self._known(path, listing, depth)
        if known is not None:
            yield from known
            return
        visible = [n for n in listing.folders if not n.startswith(".") and n not in _NO_JOBS]
        inner = depth < DEEPEST and bool(visible) and not layouts.is_one_run(listing)
        if inner and (layouts.is_date(name) or self._holds_sweeps(path, visible)):
            yield from self._first_level(path, listing, depth)
            return
        yield from self._one(path, "folder")

    def _holds_sweeps(self, path: str, names: Sequence[str]) -> bool:
        """Whether a folder's sub-folders are sweeps, or dates with sweeps in them; the first few tell."""
        for name in names[:HEADS]:
            child = self.joined(path, name)
            below = self.files.listing(child)
            if below is None:
                continue
            if layouts.is_date(name) and any(layouts.is_date(n) for n in below.folders):
                return True
            if layouts.is_hydra_sweep(below) or layouts.is_hydra_job(below) or layouts.is_tune_experiment(below):
                return True
            if layouts.is_tune_trial(below):
                return True
        return False
