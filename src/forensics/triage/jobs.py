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
NAMED = 3  # files that a note names
MOST_NOTES = 20
HYDRA_LEVELS = 3  # from `outputs/` to a job: a date, a time, and one that users add
LOOKED_AT = 16  # folders without a run of Hydra's, after which none is looked for beside them
VARIANTS = 0.75  # of a folder's sub-folders that are named as jobs of a sweep are, where it holds one
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
    seen: set[tuple[str, ...]] = set()
    for path in paths:
        base = path if _is_url(path) else os.path.realpath(path)
        for job in _below(path, exclude, notes):
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


def _below(path: str, exclude: Sequence[str], notes: Notes) -> Iterator[Job]:
    if _is_url(path):
        from forensics.triage.urls import RemoteFiles

        remote = RemoteFiles(path, exclude)
        yield from _Search(remote, exclude, notes, remote.joined, remote.shown).given(path.rstrip("/"))
        return
    if not Path(path).is_dir():
        if any(fnmatch.fnmatch(Path(path).name, glob) for glob in exclude):
            notes.add("given file left out by --exclude")
            return
        yield Job(path=_slashes(path), layout="archive" if _ARCHIVE.search(path) else "file", parts=(path,))
        return
    yield from _Search(LocalFiles(exclude), exclude, notes, _joined, _slashes).given(path.rstrip("/") or "/")


def _joined(folder: str, name: str) -> str:
    return str(Path(folder) / name)


def _some(names: Sequence[str]) -> str:
    """A few names for a note."""
    more = ", ..." if len(names) > NAMED else ""
    return ", ".join(_slashes(name if len(name) <= 60 else f"{name[:59]}…") for name in names[:NAMED]) + more


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
        if not listing.folders and not listing.files:
            if not self.exclude:
                self.notes.add("given folder that holds nothing")
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
        if (streams := self._streams(path, listing, depth)) is not None:
            return streams
        cuts, rest = layouts.scheduler_jobs(listing.files, arrays_only=depth > 0)
        if cuts and all(map(layouts.is_part, listing.folders)):
            return self._scheduler(path, cuts, rest)
        if not listing.folders and self._archives_alone(listing):
            return self._archives(path, listing.files)
        return None

    def _archives_alone(self, listing: Listing) -> bool:
        """Whether a folder holds archives, and beside them texts about them at most."""
        archives = [name for name in listing.files if _ARCHIVE.search(name)]
        rest = [name for name in listing.files if not _ARCHIVE.search(name)]
        return len(archives) > 1 and layouts.alike(archives) and all(map(layouts.is_document, rest))

    def _streams(self, path: str, listing: Listing, depth: int) -> Iterator[Job] | None:
        """Jobs whose output lies in `out/` and `err/`; None where there are no such folders, or they show none."""
        folders = [name for name in listing.folders if layouts.is_stream(name)]
        if len(folders) != 2 or any(not layouts.is_part(n) and n not in folders for n in listing.folders):
            return None
        found: dict[str, list[Cut]] = {}
        for folder in folders:
            below = self.files.listing(self.joined(path, folder))
            cuts, _ = layouts.scheduler_jobs(below.files, arrays_only=depth > 0) if below is not None else ((), ())
            for cut in cuts:
                entries = tuple(self.joined(folder, entry) for entry in cut.entries)
                found.setdefault(cut.name, []).append(Cut(cut.name, entries, cut.labels))
        if len(found) < 2:
            return None
        whole = [Cut(n, tuple(e for cut in cuts for e in cut.entries), cuts[0].labels) for n, cuts in found.items()]
        return self._cut(path, sorted(whole, key=lambda cut: natural(cut.name)), "slurm")

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
        whole = self._whole(path, cuts)
        if len(whole) == 1:  # the whole folder is one job, with whatever else lies in it
            yield from self._one(path, "folder", whole[0].labels)
            return
        yield from self._cut(path, whole, "slurm")
        yield from self._archives(path, rest)

    def _whole(self, path: str, cuts: Sequence[Cut]) -> list[Cut]:
        """The cuts with the ranks of one job put together, in natural order."""
        whole: list[Cut] = []
        ranks: dict[str, list[Cut]] = {}
        for job, members in layouts.may_be_ranks(cuts).items():
            heads = {
                cut.labels["array_task"]: self.files.head(self.joined(path, cut.entries[0]), HEAD)
                for cut in members[:HEADS]
            }
            together = layouts.ranks_of_one_job(heads.values(), len(members))
            if together and (not layouts.is_named_as_array(members) or layouts.each_is_its_rank(heads)):
                ranks[job] = members
        for cut in cuts:
            if cut.labels["job_id"] not in ranks or "array_task" not in cut.labels:
                whole.append(cut)
        for job, members in ranks.items():
            whole.append(Cut(job, tuple(entry for cut in members for entry in cut.entries), {"job_id": job}))
        return sorted(whole, key=lambda cut: natural(cut.name))

    def _beside(self, path: str, listing: Listing) -> Iterator[Job]:
        """Jobs among the files that lie beside job folders: a scheduler's, and archives."""
        cuts, rest = layouts.scheduler_jobs(listing.files)
        taken = set(listing.folders)
        for cut in self._whole(path, cuts):
            # A job's name is its path here; a folder may have the name already.
            named = cut if cut.name not in taken else Cut(cut.entries[0], cut.entries, cut.labels)
            yield from self._cut(path, [named], "slurm")
        yield from self._archives(path, rest)

    def _archives(self, path: str, files: Sequence[str]) -> Iterator[Job]:
        left = []
        for name in files:
            if _ARCHIVE.search(name):
                yield from self._one(self.joined(path, name), "archive")
            else:
                left.append(name)
        if left:
            what = f"file{'s' * (len(left) != 1)} beside the jobs of {self.shown(path)} left out"
            self.notes.add(f"{what} ({_some(sorted(left, key=lambda n: not layouts.is_log(n)))})", len(left))

    def _first_level(self, path: str, listing: Listing, depth: int) -> Iterator[Job]:
        """A folder of an unknown layout: what its sub-folders know, else one job each; one run where they are parts."""
        folders = [n for n in listing.folders if not n.startswith(".") and n not in _NO_JOBS]
        if not folders:
            archives = [name for name in listing.files if _ARCHIVE.search(name)]
            if archives and all(map(layouts.is_document, (n for n in listing.files if n not in archives))):
                yield from self._archives(path, listing.files)
            elif apart := self._apart(path, listing.files):
                yield from apart
            else:
                self._note_logs(path, listing, depth)
                yield from self._one(path, "folder")
            return
        # `wandb/` alone beside a program's files holds the runs, whatever else the files are.
        if folders == ["wandb"]:
            inner = self.files.listing(self.joined(path, "wandb"))
            runs = [n for n in inner.folders if layouts.is_wandb_run(n)] if inner is not None else []
            if len(set(map(layouts.wandb_id, runs))) > 1:
                for name in runs:
                    yield from self._one(self.joined(self.joined(path, "wandb"), name), "wandb")
                yield from self._archives(path, listing.files)
                return
        if layouts.is_one_run(listing):
            yield from self._run_or_project(path, listing, depth)
            return
        beside = len(layouts.scheduler_jobs(listing.files)[0]) > 1
        left: list[str] = []
        for name in folders:
            child = self.joined(path, name)
            if any(fnmatch.fnmatch(child, glob) for glob in self.exclude):
                continue
            below = self.files.listing(child)
            if below is None:
                yield from self._one(child, "folder")
                continue
            if (beside or len(folders) > 1) and layouts.is_inert(name) and not self._holds_logs(child, below):
                left.append(name)  # what the program of the jobs consists of
                continue
            yield from self._child(child, name, below, depth + 1)
        if left:
            what = f"folder{'s' * (len(left) != 1)} beside the jobs of {self.shown(path)} left out"
            self.notes.add(f"{what} ({_some(left)})", len(left))
        yield from self._beside(path, listing)

    def _holds_logs(self, path: str, listing: Listing) -> bool:
        """Whether logs lie in a folder or in one of its first sub-folders."""
        if any(map(layouts.is_log, listing.files)):
            return True
        inner = (self.files.listing(self.joined(path, name)) for name in listing.folders[:HEADS])
        return any(below is not None and any(map(layouts.is_log, below.files)) for below in inner)

    def _apart(self, path: str, files: Sequence[str]) -> list[Job]:
        """Jobs of which each wrote one log, with a number in its name, and said that it was alone; [] where not."""
        logs = layouts.numbered_logs(files)
        if not layouts.runs_of_one(self.files.head(self.joined(path, name), HEAD) for name in logs[:HEADS]):
            return []
        cuts = layouts.by_stem([name for name in files if layouts.is_log(name)])
        taken = {entry for cut in cuts for entry in cut.entries}
        return [*self._cut(path, cuts, "file"), *self._archives(path, [name for name in files if name not in taken])]

    def _run_or_project(self, path: str, listing: Listing, depth: int) -> Iterator[Job]:
        """A folder whose sub-folders are what one run consists of: one job, unless they hold several runs."""
        jobs, left = self._held(path, listing, depth)
        if not jobs:
            self._note_logs(path, listing, depth)
            yield from self._one(path, "folder")
            return
        yield from jobs
        if left:
            what = f"folder{'s' * (len(left) != 1)} beside the jobs of {self.shown(path)} left out"
            self.notes.add(f"{what} ({_some(left)})", len(left))
        yield from self._archives(path, listing.files)

    def _held(self, path: str, listing: Listing, depth: int) -> tuple[list[Job], list[str]]:
        """(the jobs in `outputs/`, `runs/`, `wandb/` and the like; folders beside them); no jobs where they hold one.

        Several folders with `.hydra/` are several runs wherever they lie. For all else the folder must have no log of
        its own, and no folder of ranks, nodes or logs: then it is one run, and what lies below are its parts.
        """
        names = [n for n in listing.folders if not n.startswith(".") and n not in _NO_JOBS]
        if depth >= DEEPEST:
            return [], []
        bare = not any(map(layouts.is_log, listing.files))
        bare = bare and all(layouts.is_inert(n) or layouts.is_container(n) or layouts.is_logs(n) for n in names)
        jobs: list[Job] = []
        left: list[str] = []
        for name in names:
            child = self.joined(path, name)
            below = self.files.listing(child) if layouts.is_container(name) or layouts.is_logs(name) else None
            inner = self._runs_in(child, below, bare and not layouts.is_logs(name), depth + 1) if below else []
            if not inner and bare and below:
                inner = self._submitted(child, below, depth)
            jobs += inner
            if not inner and not layouts.is_inert(name):
                left.append(name)
        return (jobs, left) if len(jobs) > 1 else ([], [])

    def _submitted(self, path: str, listing: Listing, depth: int) -> list[Job]:
        """Jobs of a scheduler that writes into a folder below the given one; [] where there are not two.

        Job ids alone are jobs where a folder was given for many; deeper down, one job was submitted again.
        """
        cuts, rest = layouts.scheduler_jobs(listing.files, arrays_only=depth > 0)
        whole = self._whole(path, cuts)
        if len(whole) > 1:
            return [*self._cut(path, whole, "slurm"), *self._archives(path, rest)]
        jobs: list[Job] = []
        for name in listing.folders:
            below = self.files.listing(self.joined(path, name))
            tasks = layouts.tasks_of(name, below.files) if below is not None else ()
            jobs += self._cut(self.joined(path, name), self._whole(self.joined(path, name), tasks), "slurm")
        if len(jobs) > 1:
            return jobs
        return self._apart(path, listing.files) if depth == 0 and not listing.folders else []

    def _runs_in(self, path: str, listing: Listing, bare: bool, depth: int) -> list[Job]:
        """The runs in a folder that projects keep them in; [] where there are not two, or it cannot be told."""
        hydra = list(self._hydra_runs(path, listing, 0))
        if len(hydra) > 1:
            return hydra
        if not bare or any(map(layouts.is_log, listing.files)):
            return []
        runs = [name for name in listing.folders if layouts.is_wandb_run(name)]
        if runs:
            several = len({layouts.wandb_id(name) for name in runs}) > 1
            return [job for name in runs for job in self._one(self.joined(path, name), "wandb")] if several else []
        known = self._known(path, listing, depth)
        if known is not None and len(jobs := list(known)) > 1:
            return jobs
        kept = [n for n in listing.folders if not n.startswith(".")]
        named = [n for n in kept if not layouts.is_part(n) or layouts.is_version(n)]
        if len(named) < 2 or len(named) < len(kept):
            return []
        inner = [(name, self.files.listing(self.joined(path, name))) for name in named]
        if not all(below is not None and any(map(layouts.is_log, below.files)) for _, below in inner):
            return []
        return [job for name, _ in inner for job in self._one(self.joined(path, name), "folder")]

    def _hydra_runs(self, path: str, listing: Listing, depth: int) -> Iterator[Job]:
        """Folders with `.hydra/` at most three levels below (`outputs/<date>/<time>`, sweeps in it)."""
        found = False
        for number, name in enumerate(listing.folders if depth < HYDRA_LEVELS else ()):
            if name.startswith(".") or name in _NO_JOBS:
                continue
            if number >= LOOKED_AT and not found:
                return
            child = self.joined(path, name)
            below = self.files.listing(child)
            if below is None:
                continue
            found = found or layouts.is_hydra_sweep(below) or layouts.is_hydra_job(below)
            if layouts.is_hydra_sweep(below):
                yield from self._hydra_sweep(child, below)
            elif layouts.is_hydra_job(below):
                yield from self._one(child, "hydra")
            else:
                for job in self._hydra_runs(child, below, depth + 1):
                    found = True
                    yield job

    def _note_logs(self, path: str, listing: Listing, depth: int) -> None:
        """A note where what is taken for one job can be several, since nothing but the user can tell."""
        if depth > 0:
            return
        alike = layouts.numbered_logs(listing.files)
        heads = (self.files.head(self.joined(path, name), HEAD) for name in alike[:HEADS])
        if alike and not layouts.ranks_of_one_job(heads, len(alike)):
            self.notes.add(
                f"logs of {self.shown(path)} are read as one job ({_some(alike)}); "
                "name the files in place of the folder to have one job each",
                len(alike),
            )
        for name in filter(layouts.is_container, listing.folders):
            below = self.files.listing(self.joined(path, name))
            kept = [n for n in below.folders if not n.startswith(".")] if below else []
            if len(kept) > 1:
                self.notes.add(
                    f"folders of {self.shown(self.joined(path, name))} are read as one job ({_some(kept)}); "
                    "name the folders to have one job each",
                    len(kept),
                )

    def _child(self, path: str, name: str, listing: Listing, depth: int) -> Iterator[Job]:
        """A first-level folder: its jobs where it is a sweep or a date by itself, else one job."""
        known = self._known(path, listing, depth)
        if known is not None:
            yield from known
            return
        visible = [n for n in listing.folders if not n.startswith(".") and n not in _NO_JOBS]
        if visible and layouts.is_one_run(listing):
            yield from self._run_or_project(path, listing, depth)
            return
        inner = depth < DEEPEST and bool(visible)
        dated = layouts.is_date(name) or layouts.is_calendar(self.shown(path), visible)
        if inner and (dated or self._holds_sweeps(path, visible) or self._holds_variants(path, listing, visible)):
            yield from self._first_level(path, listing, depth)
            return
        yield from self._one(path, "folder")

    def _holds_variants(self, path: str, listing: Listing, names: Sequence[str]) -> bool:
        """Whether a folder without logs of its own holds several that are named as jobs of a sweep, each with logs."""
        named = [name for name in names if layouts.is_variant(name)]
        if len(named) < 2 or len(named) < VARIANTS * len(names) or any(map(layouts.is_log, listing.files)):
            return False
        inner = (self.files.listing(self.joined(path, name)) for name in named[:HEADS])
        return all(below is not None and any(map(layouts.may_be_log, below.files)) for below in inner)

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
