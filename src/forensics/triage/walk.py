"""Which folders below a given path are jobs: docs/triage.md has the rule, `_Search._folder` is it.

From the deepest folders up: each says which jobs it holds, and the folder above keeps these, or takes them for parts
of its own one. Folders are told by name; no more of a file is read than its head, of four in a folder at most.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

from forensics.triage import folders as names
from forensics.triage import layouts
from forensics.triage.heads import Writers, runs_of_one, writers
from forensics.triage.layouts import Cut, Listing, natural
from forensics.triage.model import Job

DEEPEST = 8  # folders from a given path to a job
HEAD = 64 << 10  # bytes of a file that tell an array's tasks from the ranks of one job
NAMED = 3  # files that a note names
FRUITLESS = 16  # first sub-folders that hold no logs, after which the others are not opened
VARIANTS = 0.75  # of the sub-folders with runs that are named as jobs of a sweep are, where a folder is one
HEADS = 4  # files that are looked at for what they say of ranks
KEPT = 50_000  # listings that are remembered
RESUBMITTED = 2  # job ids among the logs of one folder that can be one job, submitted again
_TRAINING = re.compile(
    rb"(?i)\b(?:step|iter(?:ation)?|epoch)s?\b[^\n]{0,80}\bloss\b|^Traceback \(most recent call", re.M
)
_ARCHIVE = re.compile(r"\.(?:tar(?:\.(?:gz|xz|bz2|zst))?|t(?:gz|xz|bz2|zst)|zip)\Z", re.I)
# Layouts that are a job wherever they lie, also below a folder with logs of its own.
_SURE = frozenset({"hydra", "ray-tune", "mlflow", "nextflow", "parallel", "nni", "sacred", "jenkins"})


class Files(Protocol):
    """What the search asks of a file system."""

    def listing(self, path: str) -> Listing | None:
        """The names in a folder; None where it cannot be listed."""

    def head(self, path: str, size: int) -> bytes:
        """The first bytes of a file; b"" where it cannot be read."""


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


@dataclass(frozen=True, slots=True)
class _Inside:
    """A folder's sub-folders by what they are to it: each name is in one of these."""

    runs: Mapping[str, Found]  # folders that hold jobs, and by their names are no parts of one
    kept: Mapping[str, Found]  # `outputs/`, `runs/`, `logs/` and the like with what they hold
    processes: tuple[str, ...]  # ranks, machines, attempts
    logs: tuple[str, ...]  # further parts that hold logs
    rest: tuple[str, ...]  # no logs


def archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return _ARCHIVE.search(name) is not None


class Search:
    """The walk below one given path. joined: makes a path of a folder's and a name; shown: how rows show a path."""

    def __init__(
        self, files: Files, exclude: Sequence[str], joined: Callable[[str, str], str], shown: Callable[[str], str]
    ) -> None:
        self._files = files
        self._exclude = exclude
        self._joined = joined
        self._shown = shown
        self._seen: dict[str, Listing | None] = {}

    def given(self, path: str) -> Found:
        """The jobs below a given path; the path itself where it holds one."""
        listing = self._list(path)
        if listing is None:  # analysing it will say what is wrong
            return self._one(path, "folder")
        place = self._shown(path)
        links = f"link{'s' * (listing.links != 1)} to folders in {place} not followed; give it as {place}/*"
        notes = Found(notes=(Note(listing.links, links),) if listing.links else ())
        if not listing.folders and not listing.files:
            return (
                notes if self._exclude or listing.links else Found(notes=(Note(1, "given folder that holds nothing"),))
            )
        found = self._folder(path, "", listing, 0) + notes
        return found if found.jobs else self._one(path, "folder") + found

    # What is in a folder

    def _list(self, path: str) -> Listing | None:
        if path not in self._seen:
            if len(self._seen) >= KEPT:
                self._seen.clear()
            self._seen[path] = self._files.listing(path)
        return self._seen[path]

    def _visible(self, path: str, listing: Listing) -> list[str]:
        shown = [name for name in listing.folders if names.may_hold_jobs(name)]
        if not self._exclude:
            return shown
        return [n for n in shown if not any(fnmatch.fnmatch(self._joined(path, n), glob) for glob in self._exclude)]

    def _heads(self, paths: Iterable[str]) -> list[bytes]:
        return [self._files.head(path, HEAD) for path in list(paths)[:HEADS]]

    def _first_log(self, path: str, levels: int = 2) -> str | None:
        """A log in a folder or in its sub-folders; None where the first few hold none."""
        listing = self._list(path)
        if listing is None:
            return None
        for name in listing.files:
            if layouts.may_be_log(name):
                return self._joined(path, name)
        for name in self._visible(path, listing)[:HEADS] if levels > 0 else ():
            if found := self._first_log(self._joined(path, name), levels - 1):
                return found
        return None

    def _one(self, path: str, layout: str, labels: Mapping[str, str] = {}) -> Found:
        named = names.settings(self._shown(path).rpartition("/")[2]) if layout == "folder" else {}
        stated = {f"hparam.{name}": value for name, value in named.items()}
        return Found((Job(path=self._shown(path), layout=layout, parts=(path,), labels={**stated, **labels}),))

    def _own_logs(self, path: str, files: Sequence[str]) -> Found:
        """A row for the logs of a folder itself, beside those of its sub-folders: what they tell must not be lost."""
        if not files:
            return Found()
        parts = tuple(self._joined(path, name) for name in files)
        return Found((Job(path=self._shown(path), layout="files", parts=parts),))

    def _trains(self, path: str, name: str) -> bool:
        """Whether a log's first bytes hold steps of a training, or a traceback."""
        return any(map(_TRAINING.search, self._heads([self._joined(path, name)])))

    def _each(self, path: str, children: Iterable[str], layout: str) -> Found:
        return _sum(self._one(self._joined(path, name), layout) for name in children)

    # The rule

    def _folder(self, path: str, name: str, listing: Listing, depth: int) -> Found:
        """The jobs of a folder. name: "" for a given path. depth: folders from the given one."""
        known = self._known(path, name, listing, depth)
        if known is not None:
            return known
        visible = self._visible(path, listing)
        if not visible or depth >= DEEPEST:
            return self._leaf(path, name, listing, depth)
        inside = self._inside(path, visible, depth)
        held = [*inside.runs.values(), *inside.kept.values()]
        own = [file for file in listing.files if layouts.may_be_log(file)]
        apart = [job for found in held for job in found.jobs if job.layout in _SURE - ({"mlflow"} if own else set())]
        if len(apart) > 1:
            return self._collection(path, listing, inside, depth)
        if len(self._whole(path, layouts.scheduler_jobs(listing.files, arrays_only=depth > 0)[0])) > 1:
            return self._collection(path, listing, inside, depth)
        # A log of its own is a run's beside `run_2`, and no run's beside `seed_2`; one in `logs/` is no run's.
        if self._logs_of_others(path, listing, own, inside, depth):
            return self._collection(path, listing, inside, depth)
        trials = sum(map(names.is_trial if own else names.is_variant, inside.runs))
        if trials > 1 and trials >= VARIANTS * len(inside.runs) and not inside.processes:
            return self._collection(path, listing, inside, depth)
        if inside.processes and not (depth == 0 and inside.runs):
            return self._whole_run(path, listing, inside, depth)
        if self._around(path, listing, own, inside, depth):
            return self._whole_run(path, listing, inside, depth)
        logs_within = any(len(found.jobs) == 1 and names.is_logs(n) for n, found in inside.kept.items())
        if (own and not all(map(layouts.is_study_log, own))) or (depth > 0 and (logs_within or inside.logs)):
            named = sum(not names.is_part(n) for n in inside.runs)
            several = depth == 0 and (named > 1 or (not inside.kept and self._rows(visible)))
            if several:
                told = [file for file in own if self._trains(path, file)]
                rest = replace(listing, files=tuple(file for file in listing.files if file not in told))
                return self._collection(path, rest, inside, depth) + self._own_logs(path, told)
            if depth == 0 and visible == ["wandb"] and (found := self._wandb(path, inside)).jobs:
                return found + self._archives(path, listing.files)
            return self._whole_run(path, listing, inside, depth)
        return self._without_logs(path, name, listing, inside, depth)

    def _without_logs(self, path: str, name: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """A folder without logs of its own (of what starts runs at most): what its sub-folders are decides."""
        held = _sum([*inside.runs.values(), *(f for f in inside.kept.values() if _holds_several(f))])
        others = [n for n in inside.rest if not names.is_part(n) and not names.is_inert(n)]
        if not inside.runs and not (depth == 0 and others):  # parts of one run, unless they hold several
            if len(held.jobs) > 1 and (depth == 0 or not self._again(inside, held)):
                return self._collection(path, listing, inside, depth)
            if depth > 0 and len(held.jobs) == 1 and held.jobs[0].layout in _SURE:
                return held
            if held.jobs or inside.kept or inside.logs or depth == 0:
                return self._whole_run(path, listing, inside, depth)
            return Found()
        if depth > 0 and len(held.jobs) == 1 and not names.is_day(name):
            return held if held.jobs[0].layout in _SURE else self._merged(path, held, Found())
        if len(inside.runs) > 1 and not inside.kept:
            if depth > 0 and self._restarted(name, inside):
                return self._one(path, "folder") + self._note(path, len(inside.runs))
            together, clear = self._together(path, name, inside, depth)
            if together:
                note = Found() if clear else self._note(path, len(inside.runs))
                return self._merged(path, _sum(inside.runs.values()), note)
        return self._collection(path, listing, inside, depth)

    def _again(self, inside: _Inside, held: Found) -> bool:
        """Whether jobs of a scheduler are one that was submitted again: they share checkpoints."""
        ids = all(job.layout == "slurm" and "array_task" not in job.labels for job in held.jobs)
        return ids and any(map(names.is_state, inside.rest))

    def _restarted(self, name: str, inside: _Inside) -> bool:
        """Whether sub-folders are attempts: they share checkpoints, or lie in a folder that is named as a run is."""
        if all(map(names.is_dated, inside.runs)):
            return names.is_run(name) or any(map(names.is_state, inside.rest))
        return all(names.is_dated(n) or names.is_count(n) for n in inside.runs) and any(
            map(names.is_state, inside.rest)
        )

    def _together(self, path: str, name: str, inside: _Inside, depth: int) -> tuple[bool, bool]:
        """(Whether sub-folders that each hold logs are parts of one run, whether that is certain)."""
        runs = list(inside.runs)
        most = VARIANTS * len(runs)
        if sum(map(names.is_version, runs)) == len(runs):
            return False, True
        if depth > 0 and names.is_pod(name):
            return True, True
        if _evaluated(inside.runs):
            return True, True
        if all(map(names.is_fold, runs)):
            return depth > 0 and not self._have_settings(path, runs), False
        if sum(map(names.is_variant, runs)) >= most or sum(map(names.is_dated, runs)) >= most:
            return False, True
        if names.is_calendar(self._shown(path), runs) or (depth > 0 and all(map(names.is_role, runs))):
            return not names.is_calendar(self._shown(path), runs), True
        if any(len(found.jobs) > 1 for found in inside.runs.values()):
            return False, True
        logs = [log for n in runs[:HEADS] if (log := self._first_log(self._joined(path, n)))]
        if depth == 0 and not all(map(names.is_host, runs)):
            # Jobs, as the folders of a given path are, unless each says which rank of one world it is.
            return writers(self._heads(logs), len(runs), stated=True) is Writers.RANKS, True
        wrote = writers(self._heads(logs), len(runs))
        if wrote is not Writers.UNKNOWN:
            return wrote is Writers.RANKS, True
        if self._have_settings(path, runs):
            return False, True
        if all(map(names.is_host, runs)) or names.counted(runs):
            return True, False
        return depth > 1 and names.is_logs(name), False

    def _have_settings(self, path: str, folders: Iterable[str]) -> bool:
        """Whether each folder holds a log and the settings of a run beside it, as the ranks of one run do not."""
        return all(self._has_settings(self._joined(path, name)) for name in folders)

    def _has_settings(self, path: str) -> bool:
        listing = self._list(path)
        return (
            listing is not None and layouts.has_settings(listing.files) and any(map(layouts.may_be_log, listing.files))
        )

    def _training(self, jobs: Iterable[Job]) -> int:
        """How many of the first jobs left a log whose first bytes hold steps of a training, or a traceback."""
        logs = [log for job in islice(jobs, FRUITLESS) if (log := self._first_log(job.parts[0]))]
        return sum(_TRAINING.search(self._files.head(log, HEAD)) is not None for log in logs)

    def _around(self, path: str, listing: Listing, own: Sequence[str], inside: _Inside, depth: int) -> bool:
        """Whether a folder is one run by what its logs hold, also where they are named as those of several runs.

        Its own log, or the one in `logs/` beside its settings, is that of a training, and none of the sub-folders' is.
        """
        jobs = [job for found in inside.runs.values() for job in found.jobs]
        if not jobs or inside.processes or any(map(names.is_variant, inside.runs)):
            return False
        if depth > 0 and own and not all(map(layouts.is_study_log, own)):
            return False  # it is one, whatever they hold
        within = [job for n, found in inside.kept.items() if names.is_logs(n) for job in found.jobs]
        logs = [file for file in own if self._trains(path, file)]
        mine = bool(logs) or (layouts.has_settings(listing.files) and len(within) == 1 and self._training(within) == 1)
        return mine and not self._training(jobs)

    def _logs_of_others(self, path: str, listing: Listing, own: Sequence[str], inside: _Inside, depth: int) -> bool:
        """Whether logs in `logs/`, `data/` and the like are of no run that the folder is: several others train there.

        Those do it that hold settings of their own, and none of the logs in the parts is one of a training.
        """
        if depth == 0 or own or inside.processes or not (inside.logs or inside.kept):
            return False
        held = [found for found in (*inside.runs.values(), *inside.kept.values()) if len(found.jobs) > 1]
        jobs = [job for found in held for job in found.jobs]
        stated = [job for job in jobs if self._has_settings(job.parts[0])]
        parts = [self._joined(path, name) for name in inside.logs]
        parts += [f.jobs[0].parts[0] for n, f in inside.kept.items() if names.is_logs(n) and len(f.jobs) == 1]
        alone = [log for part in parts if (log := self._first_log(part))]
        if len(stated) < 2 or not alone or any(map(_TRAINING.search, self._heads(alone))):
            return False
        return self._training(stated) > 1

    def _inside(self, path: str, visible: Sequence[str], depth: int) -> _Inside:
        """What the sub-folders hold. After a few without logs the others are taken for the same."""
        runs: dict[str, Found] = {}
        kept: dict[str, Found] = {}
        processes: list[str] = []
        logs: list[str] = []
        rest: list[str] = []
        for number, name in enumerate(visible):
            child = self._joined(path, name)
            fruitless = depth > 0 and number >= FRUITLESS and not (runs or kept or processes or logs)
            below = None if fruitless else self._list(child)
            if below is None:
                rest.append(name)
            elif names.is_process(name):
                (processes if self._first_log(child) else rest).append(name)
            elif names.is_numbered_state(name) or self._inert(child, name):
                rest.append(name)
            else:
                found = self._folder(child, name, below, depth + 1)
                version = names.is_version(name) and (found.jobs or layouts.has_traces(below.files))
                if version and not found.jobs:
                    found = self._one(child, "folder")
                if not found.jobs:
                    rest.append(name)
                elif names.is_container(name) or names.is_logs(name) or (names.is_inert(name) and len(found.jobs) > 1):
                    kept[name] = found
                elif version or not names.is_part(name) or len(found.jobs) > 1:
                    runs[name] = found
                else:
                    logs.append(name)
        for name in self._alone(path, [*processes, *(n for n in rest if names.is_numbered_state(n))]):
            runs[name] = self._one(self._joined(path, name), "folder")
        processes = [name for name in processes if name not in runs]
        rest = [name for name in rest if name not in runs]
        ids = {layouts.wandb_id(job.parts[0].rpartition("/")[2]) for job in kept.get("wandb", Found()).jobs}
        if len(ids) == 1:  # one run, which may have been resumed
            kept["wandb"] = Found(kept["wandb"].jobs[:1])
        return _Inside(runs, kept, tuple(processes), tuple(logs), tuple(rest))

    def _inert(self, path: str, name: str) -> bool:
        """Whether a folder is one of code, settings, data or checkpoints, and holds no log."""
        return names.is_inert(name) and not names.is_container(name) and not self._first_log(path)

    def _alone(self, path: str, counted: Sequence[str]) -> list[str]:
        """Folders named as parts are (`gpu4`, `gpu8`, `epoch10`), of which each holds the log of a job that was alone.

        Ranks and machines are numbered without a gap, or say how many they are.
        """
        numbers = sorted(int(m[0]) for name in counted if (m := re.search(r"\d+\Z", name)))
        if len(numbers) < 2 or numbers[-1] - numbers[0] < len(numbers):
            return []
        logs = {name: log for name in counted if (log := self._first_log(self._joined(path, name), 0))}
        return list(logs) if len(logs) > 1 and runs_of_one(self._heads(logs.values())) else []

    def _collection(self, path: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """A row for each job of the sub-folders, and for those that are named as jobs are but left nothing."""
        held = {**inside.runs, **inside.kept}
        ran = {*inside.processes, *inside.logs}
        # Beside jobs of a launcher's layout, what it did not write is none.
        launcher = self._of_launcher(path, inside, depth)
        logs = [n for n, f in inside.kept.items() if launcher and names.is_logs(n) and not self._training(f.jobs)]
        held = {name: below for name, below in held.items() if name not in logs}
        found: list[Found] = []
        left: list[str] = []
        for name in self._visible(path, listing):
            child = self._joined(path, name)
            if name in held:
                found.append(held[name])
            elif name in logs:
                left.append(name)
            elif name in ran or self._may_be_job(child, name, depth, launcher) or self._first_log(child, 1):
                found.append(self._one(child, "folder"))
            else:
                left.append(name)
        return _sum(found) + self._left_out(path, left) + self._beside(path, listing)

    def _of_launcher(self, path: str, inside: _Inside, depth: int) -> bool:
        """Whether all jobs lie as one launcher lays them; below a given path, in folders that are not the jobs'."""
        jobs = [job for found in inside.runs.values() for job in found.jobs] or [
            job for found in inside.kept.values() for job in found.jobs
        ]
        first = {self._joined(path, name) for name in inside.runs}
        return all(job.layout in _SURE for job in jobs) and (
            depth > 0 or (bool(jobs) and first.isdisjoint(job.parts[0] for job in jobs))
        )

    def _may_be_job(self, path: str, name: str, depth: int, launcher: bool) -> bool:
        """Whether a folder without logs beside jobs may be a job that ended before it wrote one."""
        if launcher or names.is_inert(name):
            return False
        if depth == 0 or names.is_variant(name) or (listing := self._list(path)) is None:
            return True
        inner = [self._list(self._joined(path, n)) for n in self._visible(path, listing)[:HEADS]]
        files = [*listing.files, *(file for below in inner if below is not None for file in below.files)]
        return not files or not all(map(layouts.is_data, files))

    def _rows(self, visible: Sequence[str]) -> bool:
        """Whether a given folder's sub-folders are named as jobs are, though none holds a log that is known as one."""
        jobs = [name for name in visible if not names.is_part(name) and not names.is_inert(name)]
        return len(jobs) > 1 and layouts.alike(jobs)

    def _whole_run(self, path: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """One job, with a note where what lies in it could be several."""
        count = len(inside.runs) if len(inside.runs) > 1 else sum(len(below.jobs) for below in inside.runs.values())
        several = {name: len(below.jobs) for name, below in inside.kept.items() if len(below.jobs) > 1}
        notes = _sum(self._note(self._joined(path, name), number) for name, number in several.items())
        notes += self._note(path, count) if count > 1 else Found()
        found = self._merged(path, _sum([*inside.runs.values(), *(inside.kept[name] for name in several)]), notes)
        return found + self._note_logs(path, listing) if depth == 0 else found

    def _merged(self, path: str, held: Found, notes: Found) -> Found:
        """One job of what sub-folders hold. It is a guess where notes say so, or a job in it is one."""
        guesses = Found(notes=tuple(note for note in held.notes if note.guess)) + notes
        (job,) = self._one(path, "folder").jobs
        if guesses.notes:
            each = (job.guessed or (job.parts if len(job.parts) == 1 else ()) for job in held.jobs)
            job = replace(job, guessed=tuple(chain.from_iterable(each)))
        return Found((job,)) + guesses

    def _leaf(self, path: str, name: str, listing: Listing, depth: int) -> Found:
        """A folder without folders: archives, logs of jobs that were alone, or one job if it holds a log."""
        archives = [file for file in listing.files if archive(file)]
        if archives and (depth == 0 or len(archives) > 1):
            documents = all(map(layouts.is_document, (n for n in listing.files if n not in archives)))
            if documents and (depth == 0 or layouts.alike(archives)):
                return self._archives(path, listing.files)
        if (depth == 0 or (depth == 1 and names.is_logs(name))) and (apart := self._apart(path, listing.files)).jobs:
            return apart
        if depth == 0:
            return self._one(path, "folder") + self._note_logs(path, listing)
        if not archives and not any(map(layouts.may_be_log, listing.files)):
            return Found()
        return self._one(path, "folder") + self._note_logs(path, listing)

    # Known layouts

    def _known(self, path: str, name: str, listing: Listing, depth: int) -> Found | None:
        """The jobs of a folder whose layout is known; None where it is not."""
        if layouts.is_hydra_sweep(listing):
            return self._hydra_sweep(path, listing)
        for is_job, layout in _JOBS:
            if is_job(listing):
                return self._one(path, layout)
        if layouts.is_tune_experiment(listing):
            trials = self._visible(path, listing)
            return self._each(path, trials, "ray-tune") if trials else self._one(path, "ray-tune")
        if layouts.is_torchrun(listing):
            return self._one(path, "torchrun")
        if layouts.is_wandb_run(name):
            return self._one(path, "wandb")
        runs = [n for n in listing.folders if layouts.is_wandb_run(n)]
        if runs and all(n in runs or n.startswith((".", "sweep-")) for n in listing.folders):
            return self._each(path, runs, "wandb")
        if pods := layouts.operator_jobs(listing.files):
            taken = {entry for cut in pods for entry in cut.entries}
            return self._cut(path, pods, "pods") + self._archives(path, [n for n in listing.files if n not in taken])
        if layouts.is_snakemake(listing) and len((rules := self._rule_logs(path, 0)).jobs) > 1:
            return rules
        if listing.folders and (agents := self._agents(path, name, listing)) is not None:
            return agents
        if (streams := self._streams(path, listing, depth)) is not None:
            return streams
        tasks = self._whole(path, layouts.tasks_of(name, listing.files))
        if len(tasks) > 1:
            return self._cut(path, tasks, "slurm")
        cuts, rest = layouts.scheduler_jobs(listing.files, arrays_only=depth > 0 and not self._many(listing))
        if cuts and all(map(names.is_part, listing.folders)):
            return self._scheduler(path, cuts, rest)
        return None

    def _many(self, listing: Listing) -> bool:
        """Whether a folder holds a scheduler's logs alone, and too many for one job that was submitted again."""
        cuts, rest = layouts.scheduler_jobs(listing.files)
        return len(cuts) > RESUBMITTED and not listing.folders and all(map(layouts.is_script, rest))

    def _streams(self, path: str, listing: Listing, depth: int) -> Found | None:
        """Jobs whose output lies in `out/` and `err/`; None where there are no such folders, or they show none."""
        streams = [n for n in listing.folders if names.is_stream(n)]
        if len(streams) != 2 or any(not names.is_part(n) and n not in streams for n in listing.folders):
            return None
        found: dict[str, list[Cut]] = {}
        for folder in streams:
            below = self._list(self._joined(path, folder))
            arrays = depth > 0 and below is not None and not self._many(below)
            cuts = layouts.scheduler_jobs(below.files, arrays_only=arrays)[0] if below is not None else ()
            for cut in cuts:
                entries = tuple(self._joined(folder, entry) for entry in cut.entries)
                found.setdefault(cut.name, []).append(Cut(cut.name, entries, cut.labels))
        if len(found) < 2:
            return None
        whole = [Cut(n, tuple(e for cut in cuts for e in cut.entries), cuts[0].labels) for n, cuts in found.items()]
        return self._cut(path, sorted(whole, key=lambda cut: natural(cut.name)), "slurm")

    def _hydra_sweep(self, path: str, listing: Listing) -> Found:
        """Children are jobs; with a sub-folder pattern of several levels, their children are."""
        logs = self._submitit(path) if ".submitit" in listing.folders else {}
        found: list[Found] = []
        for name in self._visible(path, listing):
            child = self._joined(path, name)
            below = self._list(child)
            inner = self._hydra_below(child, below, logs, 1) if below is not None and below.folders else Found()
            found.append(inner if inner.jobs else self._hydra_job(child, logs))
        # Jobs that ended before Hydra made their folder: those of which submitit alone has a log.
        ran = {job.labels.get("job_id") for f in found for job in f.jobs}
        if not found or ran != {None}:
            found += [self._one(logs[job], "hydra", {"job_id": job}) for job in logs if job not in ran]
        return _sum(found)

    def _hydra_below(self, path: str, listing: Listing, logs: Mapping[str, str], depth: int) -> Found:
        if layouts.is_hydra_job(listing):
            return self._hydra_job(path, logs)
        children = [self._joined(path, n) for n in listing.folders if depth < DEEPEST and not n.startswith(".")]
        inner = [(child, self._list(child)) for child in children]
        return _sum(self._hydra_below(child, below, logs, depth + 1) for child, below in inner if below is not None)

    def _hydra_job(self, path: str, logs: Mapping[str, str]) -> Found:
        parts = [path]
        labels: dict[str, str] = {}
        if logs:
            stated = self._files.head(self._joined(self._joined(path, ".hydra"), "hydra.yaml"), HEAD)
            # Within `hydra.job`, of which `id` and `num` are the launcher's.
            if (m := re.search(rb"^    id: '?\"?([\w.-]{1,64})", stated, re.M)) and m[1].decode() in logs:
                labels["job_id"] = m[1].decode()
                parts.append(logs[labels["job_id"]])
        return Found((Job(path=self._shown(path), layout="hydra", parts=tuple(parts), labels=labels),))

    def _submitit(self, path: str) -> dict[str, str]:
        """Job id of submitit -> the folder with its output."""
        folder = self._joined(path, ".submitit")
        listing = self._list(folder)
        return {name: self._joined(folder, name) for name in listing.folders} if listing is not None else {}

    def _wandb(self, path: str, inside: _Inside) -> Found:
        """The runs in `wandb/` where it is all that a program left beside its files; none where it is one run."""
        found = inside.kept.get("wandb", Found())
        return found if len(found.jobs) > 1 else Found()

    def _rule_logs(self, path: str, depth: int) -> Found:
        """One job a log below `logs/` of a folder in which Snakemake ran."""
        folder = self._joined(path, "logs") if depth == 0 else path
        listing = self._list(folder)
        if listing is None:
            return Found()
        logs = [name for name in listing.files if layouts.may_be_log(name)]
        inner = [self._joined(folder, n) for n in self._visible(folder, listing)] if depth < DEEPEST else []
        return self._each(folder, logs, "snakemake") + _sum(self._rule_logs(child, depth + 1) for child in inner)

    def _agents(self, path: str, name: str, listing: Listing) -> Found | None:
        """Jobs of a folder that was given to several `torchrun --log-dir`."""
        agents = [n for n in listing.folders if not n.startswith(".")]
        if not agents or not all(map(layouts.is_agent, agents)):
            return None
        below = [self._list(self._joined(path, n)) for n in agents]
        if not all(found is not None and layouts.is_torchrun(found) for found in below):
            return None
        cuts = layouts.torchrun_jobs(agents)
        if name and names.is_part(name) and len(cuts) > 1:  # of one run: its machines, or its attempts
            return self._one(path, "torchrun") + self._note(path, len(cuts))
        return self._cut(path, cuts, "torchrun")

    def _cut(self, path: str, cuts: Sequence[Cut], layout: str) -> Found:
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

    def _scheduler(self, path: str, cuts: Sequence[Cut], rest: Sequence[str]) -> Found:
        """One job a task of an array, or a job id; files numbered by rank are put together."""
        whole = self._whole(path, cuts)
        if len(whole) == 1:  # the whole folder is one job, with whatever else lies in it
            return self._one(path, "folder", whole[0].labels)
        return self._cut(path, whole, "slurm") + self._archives(path, rest)

    def _whole(self, path: str, cuts: Sequence[Cut]) -> list[Cut]:
        """The cuts with the ranks of one job put together, in natural order."""
        ranks = {
            job: members
            for job, members in layouts.may_be_ranks(cuts).items()
            if writers(
                self._heads(self._joined(path, cut.entries[0]) for cut in members),
                len(members),
                stated=layouts.is_named_as_array(members),
            )
            is Writers.RANKS
        }
        whole = [cut for cut in cuts if cut.labels["job_id"] not in ranks or "array_task" not in cut.labels]
        for job, members in ranks.items():
            whole.append(Cut(job, tuple(entry for cut in members for entry in cut.entries), {"job_id": job}))
        return sorted(whole, key=lambda cut: natural(cut.name))

    def _apart(self, path: str, files: Sequence[str]) -> Found:
        """Jobs of which each wrote one log, with a number in its name, and said that it was alone; none where not."""
        logs = layouts.numbered_logs(files)
        if not runs_of_one(self._heads(self._joined(path, name) for name in logs)):
            return Found()
        cuts = layouts.by_stem([name for name in files if layouts.may_be_log(name)])
        taken = {entry for cut in cuts for entry in cut.entries}
        return self._cut(path, cuts, "file") + self._archives(path, [name for name in files if name not in taken])

    # What lies beside jobs

    def _beside(self, path: str, listing: Listing) -> Found:
        """Jobs among the files that lie beside job folders: a scheduler's, and archives."""
        cuts, rest = layouts.scheduler_jobs(listing.files)
        taken = set(listing.folders)
        # A job's name is its path here; a folder may have the name already.
        whole = [
            cut if cut.name not in taken else Cut(cut.entries[0], cut.entries, cut.labels)
            for cut in self._whole(path, cuts)
        ]
        return self._cut(path, whole, "slurm") + self._archives(path, rest)

    def _archives(self, path: str, files: Sequence[str]) -> Found:
        left = [name for name in files if not archive(name)]
        found = self._each(path, filter(archive, files), "archive")
        if not left:
            return found
        what = f"file{'s' * (len(left) != 1)} beside the jobs of {self._shown(path)} left out"
        named = some(sorted(left, key=lambda name: not layouts.is_log(name)))
        return found + Found(notes=(Note(len(left), f"{what} ({named})"),))

    def _left_out(self, path: str, left: Sequence[str]) -> Found:
        what = f"folder{'s' * (len(left) != 1)} beside the jobs of {self._shown(path)} left out"
        return Found(notes=(Note(len(left), f"{what} ({some(left)})"),)) if left else Found()

    def _note(self, path: str, count: int) -> Found:
        place = self._shown(path)
        text = f"folders below {place} each hold logs and are read as one job; give {place}/* to split it"
        return Found(notes=(Note(count, text, guess=True),))

    def _note_logs(self, path: str, listing: Listing) -> Found:
        """A note where logs that are taken for one job's can be of several, since nothing but the user can tell."""
        alike = layouts.numbered_logs(listing.files)
        if not alike or writers(self._heads(self._joined(path, n) for n in alike), len(alike)) is Writers.RANKS:
            return Found()
        what = f"logs of {self._shown(path)} are read as one job ({some(alike)})"
        return Found(notes=(Note(len(alike), f"{what}; name the files in place of the folder to have one job each"),))


_JOBS: tuple[tuple[Callable[[Listing], bool], str], ...] = (
    (layouts.is_hydra_job, "hydra"),
    (layouts.is_tune_trial, "ray-tune"),
    (layouts.is_mlflow_run, "mlflow"),
    (layouts.is_nextflow_task, "nextflow"),
    (layouts.is_parallel_job, "parallel"),
    (layouts.is_nni_trial, "nni"),
    (layouts.is_sacred_run, "sacred"),
    (layouts.is_jenkins_build, "jenkins"),
    (layouts.is_azureml_run, "azureml"),
)


def _evaluated(runs: Mapping[str, Found]) -> bool:
    """Whether sub-folders are one training and the evaluations of what it made."""
    trained = [name for name in runs if names.is_training(name)]
    rest = [name for name in runs if name not in trained]
    return len(trained) == 1 and len(runs[trained[0]].jobs) == 1 and bool(rest) and all(map(names.is_evaluations, rest))


def _sum(found: Iterable[Found]) -> Found:
    every = list(found)
    return Found(tuple(job for f in every for job in f.jobs), tuple(note for f in every for note in f.notes))


def _holds_several(found: Found) -> bool:
    """Whether what `outputs/`, `logs/` and the like hold is more than the logs of the run that they lie in."""
    return len(found.jobs) > 1 or any(job.layout in _SURE for job in found.jobs)


def some(listed: Sequence[str]) -> str:
    """A few names for a note."""
    more = ", ..." if len(listed) > NAMED else ""
    return ", ".join(readable(name if len(name) <= 60 else f"{name[:59]}…") for name in listed[:NAMED]) + more


def readable(path: str) -> str:
    """A path as rows show it: what is no UTF-8 replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
