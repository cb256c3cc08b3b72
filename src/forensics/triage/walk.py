"""Which folders below a given path are jobs: docs/triage.md has the rule, `Search._folder` is it.

From the deepest folders up: each says which jobs it holds, and the folder above keeps these, or takes them for parts
of its own one. Folders are told by name; no more of a file is read than its head, of four in a folder at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from forensics.triage import folders as names
from forensics.triage import layouts
from forensics.triage.accounts import with_accounts
from forensics.triage.found import Found, Note, Rows, archive, in_one, some, total, with_settings
from forensics.triage.heads import Writers, runs_of_one, tells_a_rank, world_of, writers
from forensics.triage.known import DEEPEST, Known
from forensics.triage.layouts import Cut, Listing
from forensics.triage.model import Job
from forensics.triage.tree import FIRST, HEADS, Files, Tree, of_training

FRUITLESS = 16  # first sub-folders that hold no logs, after which the others are not opened
VARIANTS = 0.75  # of the sub-folders with runs that are named as jobs of a sweep are, where a folder is one
# Layouts that are a job wherever they lie, also below a folder with logs of its own.
_SURE = frozenset({"hydra", "ray-tune", "mlflow", "nextflow", "parallel", "nni", "sacred", "jenkins"})


@dataclass(frozen=True, slots=True)
class _Inside:
    """A folder's sub-folders by what they are to it: each name is in one of these."""

    runs: Mapping[str, Found]  # folders that hold jobs, and by their names are no parts of one
    kept: Mapping[str, Found]  # `outputs/`, `runs/`, `logs/` and the like with what they hold
    processes: tuple[str, ...]  # ranks, machines, attempts
    logs: Mapping[str, Found]  # further parts that hold logs
    rest: tuple[str, ...]  # no logs


class Search:
    """The walk below one given path. joined: makes a path of a folder's and a name; shown: how rows show a path."""

    def __init__(
        self, files: Files, exclude: Sequence[str], joined: Callable[[str, str], str], shown: Callable[[str], str]
    ) -> None:
        self._exclude = exclude
        self._joined = joined
        self._shown = shown
        self._tree = Tree(files, exclude, joined)
        self._make = Rows(joined, shown)
        self._layouts = Known(files, self._tree, self._make, joined, shown)

    def given(self, path: str) -> Found:
        """The jobs below a given path; the path itself where it holds one."""
        listing = self._tree.listing(path)
        if listing is None:  # analysing it will say what is wrong
            return self._make.one(path, "folder")
        place = self._shown(path)
        links = f"link{'s' * (listing.links != 1)} to folders in {place} not followed; give it as {place}/*"
        notes = Found(notes=(Note(listing.links, links),) if listing.links else ())
        if not listing.folders and not listing.files:
            return (
                notes if self._exclude or listing.links else Found(notes=(Note(1, "given folder that holds nothing"),))
            )
        found = self._folder(path, "", listing, 0) + notes
        if len(found.jobs) == 1 and (below := self._without_any_log(path, listing)).jobs:
            found = below + notes
        found = found if found.jobs else self._make.one(path, "folder") + found
        return Found(tuple(with_settings(job, place) for job in in_one(found.jobs)), found.notes)

    def _without_any_log(self, path: str, listing: Listing) -> Found:
        """The jobs of the only folder in a given one, where no log lies at all and they are several; none where not.

        Then names alone tell, as they do in a folder that is given itself.
        """
        visible = self._tree.visible(path, listing)
        if len(visible) != 1 or listing.files or self._tree.first_log(path, DEEPEST):
            return Found()
        child = self._joined(path, visible[0])
        below = self._tree.listing(child)
        found = self._folder(child, "", below, 0) if below is not None else Found()
        if below is not None and len(found.jobs) == 1:
            found = self._without_any_log(child, below)
        return found if len(found.jobs) > 1 else Found()

    # The rule

    def _folder(self, path: str, name: str, listing: Listing, depth: int) -> Found:
        """The jobs of a folder. name: "" for a given path. depth: folders from the given one."""
        known = self._layouts.known(path, name, listing, depth)
        if known is not None:
            return known
        visible = self._tree.visible(path, listing)
        if not visible or depth >= DEEPEST:
            return self._leaf(path, name, listing, depth)
        inside = self._inside(path, visible, depth)
        held = [*inside.runs.values(), *inside.kept.values()]
        own = self._tree.logs(path, listing)
        apart = [job for found in held for job in found.jobs if job.layout in _SURE - ({"mlflow"} if own else set())]
        if len(apart) > 1:
            return self._collection(path, listing, inside, depth)
        if len(self._layouts.whole(path, layouts.scheduler_jobs(listing.files, arrays_only=depth > 0)[0])) > 1:
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
        if not inside.processes and (flat := self._with_folders(path, listing, own)).jobs:
            return flat
        if own and (flat := self._beside_no_logs(path, name, listing, inside, depth)).jobs:
            return flat
        logs_within = any(len(found.jobs) == 1 and names.is_logs(n) for n, found in inside.kept.items())
        if (own and not all(map(layouts.is_study_log, own))) or (depth > 0 and (logs_within or inside.logs)):
            named = sum(not names.is_part(n) for n in inside.runs)
            several = depth == 0 and (named > 1 or (not inside.kept and self._rows(visible)))
            if several:
                told = [file for file in own if self._tree.trains(path, file)]
                rest = replace(listing, files=tuple(file for file in listing.files if file not in told))
                return self._collection(path, rest, inside, depth) + self._make.own_logs(path, told)
            if depth == 0 and visible == ["wandb"] and (found := self._wandb(path, inside)).jobs:
                return found + self._make.archives(path, listing.files)
            return self._whole_run(path, listing, inside, depth)
        return self._without_logs(path, name, listing, inside, depth)

    def _without_logs(self, path: str, name: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """A folder without logs of its own (of what starts runs at most): what its sub-folders are decides."""
        held = total([*inside.runs.values(), *(f for f in inside.kept.values() if _holds_several(f))])
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
                return self._make.one(path, "folder") + self._make.note(path, len(inside.runs))
            together, clear = self._together(path, name, inside, depth)
            if together:
                note = Found() if clear else self._make.note(path, len(inside.runs))
                return self._merged(path, total(inside.runs.values()), note)
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
            return depth > 0 and not self._tree.have_settings(path, runs), False
        if sum(map(names.is_variant, runs)) >= most or sum(map(names.is_dated, runs)) >= most:
            return False, True
        if names.is_calendar(self._shown(path), runs) or (depth > 0 and all(map(names.is_role, runs))):
            return not names.is_calendar(self._shown(path), runs), True
        if any(len(found.jobs) > 1 for found in inside.runs.values()):
            return False, True
        if all(self._holds_its_world(self._joined(path, n)) for n in runs[:HEADS]):
            return False, True
        logs = [log for n in runs[:HEADS] if (log := self._tree.first_log(self._joined(path, n)))]
        if depth == 0 and not all(map(names.is_host, runs)):
            # Jobs, as the folders of a given path are, unless each says which rank of one world it is.
            return writers(self._tree.heads(logs), len(runs), stated=True) is Writers.RANKS, True
        wrote = writers(self._tree.heads(logs), len(runs))
        if wrote is not Writers.UNKNOWN:
            return wrote is Writers.RANKS, True
        if self._tree.have_settings(path, runs):
            return False, True
        if all(map(names.is_host, runs)) or names.counted(runs):
            return True, False
        return depth > 1 and names.is_logs(name), False

    def _holds_its_world(self, folder: str) -> bool:
        """Whether a folder holds a log for each process of the world that the first of them speaks of."""
        listing = self._tree.listing(folder)
        logs = self._tree.logs(folder, listing) if listing is not None else ()
        return len(logs) > 1 and len(logs) >= world_of(self._tree.head(self._joined(folder, logs[0]))) > 1

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
        logs = [file for file in own if self._tree.trains(path, file)]
        mine = bool(logs) or (
            layouts.has_settings(listing.files) and len(within) == 1 and self._tree.training(within) == 1
        )
        return mine and not self._tree.training(jobs)

    def _logs_of_others(self, path: str, listing: Listing, own: Sequence[str], inside: _Inside, depth: int) -> bool:
        """Whether logs in `logs/`, `data/` and the like are of no run that the folder is: several others train there.

        Those do it that hold settings of their own, and none of the logs in the parts is one of a training.
        """
        if depth == 0 or own or inside.processes or not (inside.logs or inside.kept):
            return False
        held = [found for found in (*inside.runs.values(), *inside.kept.values()) if len(found.jobs) > 1]
        jobs = [job for found in held for job in found.jobs]
        stated = [job for job in jobs if self._tree.has_settings(job.parts[0])]
        parts = [self._joined(path, name) for name in inside.logs]
        parts += [f.jobs[0].parts[0] for n, f in inside.kept.items() if names.is_logs(n) and len(f.jobs) == 1]
        alone = [log for part in parts if (log := self._tree.first_log(part))]
        if len(stated) < 2 or not alone or any(map(of_training, self._tree.heads(alone))):
            return False
        return self._tree.training(stated) > 1

    def _inside(self, path: str, visible: Sequence[str], depth: int) -> _Inside:
        """What the sub-folders hold. After a few without logs the others are taken for the same."""
        runs: dict[str, Found] = {}
        kept: dict[str, Found] = {}
        processes: list[str] = []
        logs: dict[str, Found] = {}
        rest: list[str] = []
        adapters = names.are_adapter_ranks(visible)
        for number, name in enumerate(visible):
            child = self._joined(path, name)
            fruitless = depth > 0 and number >= FRUITLESS and not (runs or kept or processes or logs)
            below = None if fruitless else self._tree.listing(child)
            if below is None:
                rest.append(name)
            elif names.is_process(name) and not adapters:
                (processes if self._tree.first_log(child) else rest).append(name)
            elif names.is_numbered_state(name) or self._inert(child, name):
                rest.append(name)
            else:
                found = self._folder(child, name, below, depth + 1)
                version = names.is_version(name) and (found.jobs or layouts.has_traces(below.files))
                if version and not found.jobs:
                    found = self._make.one(child, "folder")
                if not found.jobs:
                    rest.append(name)
                elif names.is_container(name) or names.is_logs(name) or (names.is_inert(name) and len(found.jobs) > 1):
                    kept[name] = found
                elif version or adapters or not names.is_part(name) or len(found.jobs) > 1:
                    runs[name] = found
                else:
                    logs[name] = found
        machines = self._machines(path, [name for name in processes if names.is_machine(name)], depth)
        kept |= machines
        processes = [name for name in processes if name not in machines]
        for name in self._alone(path, [*processes, *(n for n in rest if names.is_numbered_state(n))]):
            runs[name] = self._make.one(self._joined(path, name), "folder")
        processes = [name for name in processes if name not in runs]
        rest = [name for name in rest if name not in runs]
        ids = {layouts.wandb_id(job.parts[0].rpartition("/")[2]) for job in kept.get("wandb", Found()).jobs}
        if len(ids) == 1:  # one run, which may have been resumed
            kept["wandb"] = Found(kept["wandb"].jobs[:1])
        return _Inside(runs, kept, tuple(processes), logs, tuple(rest))

    def _machines(self, path: str, machines: Sequence[str], depth: int) -> Mapping[str, Found]:
        """What folders of machines or GPUs hold, where it was collected from several and one of them holds jobs.

        Jobs train in folders of their own there; the processes of a run that a machine had do not. A job that lies
        below several machines is a row.
        """
        found: dict[str, Found] = {}
        for name in machines:
            child = self._joined(path, name)
            if (listing := self._tree.listing(child)) is not None:
                found[name] = self._folder(child, name, listing, depth + 1)
        if not any(self._trained_apart(below.jobs) for below in found.values()):
            return {}
        jobs = [(name, self._tail(path, name, job), job) for name, below in found.items() for job in below.jobs]
        same: dict[str, list[Job]] = {}
        for _, tail, job in jobs:
            same.setdefault(tail, []).append(job)
        spread = {tail: self._spread(path, tail, of) for tail, of in same.items() if tail and self._of_one(tail, of)}
        kept: dict[str, list[Job]] = {name: [] for name in found}
        for name, tail, job in jobs:
            if tail not in spread:
                kept[name].append(job)
            elif job is same[tail][0]:
                kept[name].append(spread[tail])
        return {name: Found(tuple(kept[name]), below.notes) for name, below in found.items()}

    def _tail(self, path: str, name: str, job: Job) -> str:
        """A job's path below one of a folder's sub-folders; "" for that itself."""
        return job.path.removeprefix(self._shown(self._joined(path, name))).lstrip("/")

    def _trained_apart(self, jobs: Sequence[Job]) -> bool:
        """Whether jobs are two or more of which most trained; W&B's and torchrun's folders can be attempts of one."""
        apart = [job for job in jobs if job.layout in {"folder", "file", "slurm", *_SURE}]
        trained = self._tree.training(apart)
        return trained > 1 and 2 * trained >= min(len(jobs), FIRST)

    def _of_one(self, tail: str, jobs: Sequence[Job]) -> bool:
        """Whether what lies under one name below several machines is one job: by a job's id, or what the logs say."""
        if len(jobs) < 2:
            return False
        wrote = writers(self._tree.heads(log for job in jobs if (log := self._tree.first_log(job.parts[0]))), len(jobs))
        return wrote is Writers.RANKS or (wrote is Writers.UNKNOWN and names.is_id(tail))

    def _spread(self, path: str, tail: str, jobs: Sequence[Job]) -> Job:
        shown = self._shown(self._joined(path, tail))
        return replace(jobs[0], path=shown, parts=tuple(chain.from_iterable(job.parts for job in jobs)))

    def _inert(self, path: str, name: str) -> bool:
        """Whether a folder is one of code, settings, data or checkpoints, and holds no log."""
        return names.is_inert(name) and not names.is_container(name) and not self._tree.first_log(path, named=True)

    def _alone(self, path: str, counted: Sequence[str]) -> list[str]:
        """Folders named as parts are (`gpu4`, `gpu8`, `epoch10`), of which each holds the log of a job that was alone.

        Ranks and machines are numbered without a gap, or say how many they are.
        """
        numbers = sorted(int(m[0]) for name in counted if (m := re.search(r"\d+\Z", name)))
        if len(numbers) < 2 or numbers[-1] - numbers[0] < len(numbers):
            return []
        logs = {name: log for name in counted if (log := self._tree.first_log(self._joined(path, name), 0))}
        return list(logs) if len(logs) > 1 and runs_of_one(self._tree.heads(logs.values())) else []

    def _collection(self, path: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """A row for each job of the sub-folders, and for those that are named as jobs are but left nothing."""
        held = {**inside.runs, **inside.kept}
        ran = {*inside.processes, *inside.logs}
        # Beside jobs of a launcher's layout, what it did not write is none.
        launcher = self._of_launcher(path, inside, depth)
        logs = [n for n, f in inside.kept.items() if launcher and names.is_logs(n) and not self._tree.training(f.jobs)]
        held = {name: below for name, below in held.items() if name not in logs}
        found: list[Found] = []
        left: list[str] = []
        for name in self._tree.visible(path, listing):
            child = self._joined(path, name)
            if name in held:
                found.append(held[name])
            elif name in logs:
                left.append(name)
            elif name in ran or self._may_be_job(child, name, depth, launcher) or self._tree.first_log(child, 1):
                found.append(self._make.one(child, "folder"))
            else:
                left.append(name)
        return total(found) + self._make.left_out(path, left) + self._beside(path, listing)

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
        if depth == 0 or names.is_variant(name) or (listing := self._tree.listing(path)) is None:
            return True
        inner = [self._tree.listing(self._joined(path, n)) for n in self._tree.visible(path, listing)[:HEADS]]
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
        notes = total(self._make.note(self._joined(path, name), number) for name, number in several.items())
        notes += self._make.note(path, count) if count > 1 else Found()
        held = [*inside.runs.values(), *(inside.kept[name] for name in several)]
        if not held and not self._tree.logs(path, listing):  # what is unsure of its parts is so of it
            parts = (*inside.kept.values(), *inside.logs.values())
            held = [found for found in parts if any(note.guess for note in found.notes)]
        if not held and (unsure := self._unsure(path, listing, inside)):
            held = [self._make.one(self._joined(path, name), "folder") for name in unsure]
            notes += self._make.note(path, len(unsure))
        found = self._merged(path, total(held), notes)
        return found if held else self._with_guessed_logs(path, listing, found)

    def _unsure(self, path: str, listing: Listing, inside: _Inside) -> tuple[str, ...]:
        """Folders named as machines or GPUs, of which each can be a job: they trained, and none says it is a rank."""
        logs = {name: self._tree.first_log(self._joined(path, name)) for name in inside.processes}
        if len(logs) < 2 or not all(map(names.is_machine, logs)) or self._tree.logs(path, listing):
            return ()
        heads = self._tree.heads(log for log in logs.values() if log)
        unsure = sum(map(of_training, heads)) > 1 and not any(map(tells_a_rank, heads))
        return inside.processes if unsure else ()

    def _merged(self, path: str, held: Found, notes: Found) -> Found:
        """One job of what sub-folders hold. It is a guess where notes say so, or a job in it is one."""
        guesses = Found(notes=tuple(note for note in held.notes if note.guess)) + notes
        (job,) = self._make.one(path, "folder").jobs
        if guesses.notes:
            each = (job.guessed or (job.parts if len(job.parts) == 1 else ()) for job in held.jobs)
            job = replace(job, guessed=tuple(chain.from_iterable(each)))
        return Found((job,)) + guesses

    def _leaf(self, path: str, name: str, listing: Listing, depth: int) -> Found:
        """A folder without folders: archives, logs of jobs that were alone, or one job if it holds a log."""
        archives = [file for file in listing.files if archive(file)]
        if archives and (depth == 0 or len(archives) > 1):
            documents = all(map(layouts.is_unread, (n for n in listing.files if n not in archives)))
            documents = documents and not self._tree.logs(path, listing)
            if documents and (depth == 0 or layouts.alike(archives)):
                return self._make.archives(path, listing.files)
        if (apart := self._side_by_side(path, name, listing, depth)).jobs:
            return apart
        if depth > 0 and not archives and not self._tree.logs(path, listing):
            return Found()
        return self._with_guessed_logs(path, listing, self._make.one(path, "folder"))

    def _side_by_side(self, path: str, name: str, listing: Listing, depth: int) -> Found:
        """Jobs of which each left its logs beside those of the others; none where that is not sure."""
        if depth == 0 or (depth == 1 and names.is_logs(name)):
            apart = self._layouts.apart(path, listing.files)
            return apart if apart.jobs else self._layouts.flat(path, listing.files)
        return self._layouts.flat(path, listing.files) if self._own_words(listing) else Found()

    def _beside_no_logs(self, path: str, name: str, listing: Listing, inside: _Inside, depth: int) -> Found:
        """Jobs by their logs, beside folders without any: code, data, what the jobs made. None where that is not sure.

        A job's folder among the latter (`bert.log`, `out/bert/`) is its own. Checkpoints and curves under other names
        than those of the logs are of the run that this is, and so are any checkpoints below the given folder. What W&B
        kept of the jobs in one folder is left out: it does not say of which.
        """
        if inside.runs or inside.kept.keys() - {"wandb"} or inside.processes or inside.logs:
            return Found()
        if depth > 0 and any(map(names.is_state, inside.rest)):
            return Found()
        found = self._side_by_side(path, name, listing, depth)
        tracked = sum(len(below.jobs) for below in inside.kept.values())
        if not found.jobs or (inside.kept and (depth > 0 or tracked < len(found.jobs))):
            return Found()
        made = {folder: self._tree.listing(self._joined(path, folder)) for folder in inside.rest[:FRUITLESS]}
        own = [job.path.rpartition("/")[2] for job in found.jobs]
        jobs_of, lengths = set(own), {len(job) for job in own}
        for folder, below in made.items():
            kept = [*below.folders, *below.files] if below is not None and names.is_of_runs(folder) else []
            if kept and not any(entry[:n] in jobs_of for entry in kept for n in lengths):
                return Found()
        theirs = [n for n in made if names.is_state(n) or not names.is_inert(n)]
        beside: dict[str, list[str]] = {job: [] for job in own}  # by job, the folders of its own in these
        holding = set()
        for folder in sorted(theirs):
            below = made[folder]
            for inner in below.folders if below is not None else ():
                if inner in beside:
                    beside[inner].append(self._joined(self._joined(path, folder), inner))
                    holding.add(folder)
        jobs = tuple(replace(job, parts=(*job.parts, *beside[name])) for job, name in zip(found.jobs, own, strict=True))
        left = [n for n in theirs if n not in holding and not names.is_part(n)]
        return Found(jobs, found.notes) + self._make.left_out(path, [*inside.kept, *left])

    @staticmethod
    def _own_words(listing: Listing) -> bool:
        """Whether files are not those of one run, by its settings, nor told apart by numbers alone as ranks are."""
        if layouts.has_settings(listing.files):
            return False
        return not layouts.alike(listing.files) or layouts.are_of_a_sweep(listing.files)

    def _with_folders(self, path: str, listing: Listing, own: Sequence[str]) -> Found:
        """Jobs of which each left a log and a folder of one name (`sft-a.log`, `sft-a/`); none where most did not."""
        found = self._layouts.flat(path, own)
        beside = {self._joined(path, name): name for name in listing.folders}
        stems = {job.path: folder for job in found.jobs for folder in beside if self._shown(folder) == job.path}
        if 2 * len(stems) < len(found.jobs) or not stems:
            return Found()
        jobs = tuple(
            replace(job, parts=(*job.parts, stems[job.path])) if job.path in stems else job for job in found.jobs
        )
        left = [name for folder, name in beside.items() if folder not in stems.values() and not names.is_part(name)]
        return Found(jobs, found.notes) + self._make.left_out(path, left)

    def _wandb(self, path: str, inside: _Inside) -> Found:
        """The runs in `wandb/` where it is all that a program left beside its files; none where it is one run."""
        found = inside.kept.get("wandb", Found())
        return found if len(found.jobs) > 1 else Found()

    # What lies beside jobs

    def _beside(self, path: str, listing: Listing) -> Found:
        """Jobs among the files that lie beside job folders: a scheduler's, and archives."""
        cuts, rest = layouts.scheduler_jobs(listing.files)
        taken = set(listing.folders)
        # A job's name is its path here; a folder may have the name already.
        whole = [
            cut if cut.name not in taken else Cut(cut.entries[0], cut.entries, cut.labels)
            for cut in self._layouts.whole(path, cuts)
        ]
        whole, rest = with_accounts(whole, rest, lambda name: self._tree.head(self._joined(path, name)))
        return self._make.cut(path, whole, "slurm") + self._make.archives(path, rest)

    def _with_guessed_logs(self, path: str, listing: Listing, found: Found) -> Found:
        """A row with a note where the logs of a folder can be of several jobs, since nothing but the user can tell."""
        logs = self._guessed_logs(path, listing)
        if not logs:
            return found
        what = f"logs of {self._shown(path)} are read as one job ({some(logs)})"
        text = f"{what}; name the files in place of the folder to have one job each"
        (job,) = found.jobs
        job = replace(job, guessed=job.guessed or tuple(self._joined(path, name) for name in logs))
        return Found((job,), (*found.notes, Note(len(logs), text, guess=True)))

    def _guessed_logs(self, path: str, listing: Listing) -> tuple[str, ...]:
        """Logs of which each can be a job: numbered ones, and others of which two trained and none tells a rank."""
        logs = self._tree.logs(path, listing)
        alike = layouts.numbered_logs(logs)
        if alike:
            wrote = writers(self._tree.heads(self._joined(path, name) for name in alike), len(alike))
            return () if wrote is Writers.RANKS else alike
        slots = layouts.numbered_logs([name for name in logs if layouts.is_of_a_slot(name)], processes=True)
        if slots:
            wrote_these = self._tree.heads(self._joined(path, name) for name in slots)
            unsure = sum(map(of_training, wrote_these)) > 1 and not any(map(tells_a_rank, wrote_these))
            return slots if unsure else ()
        own = [name for name in logs if not layouts.is_kind_of_log(layouts.stem(name))]
        heads = {name: self._tree.head(self._joined(path, name)) for name in own[:FIRST]}
        trained = {layouts.stem(name) for name, head in heads.items() if of_training(head)}
        return tuple(own) if len(trained) > 1 and not any(map(tells_a_rank, heads.values())) else ()


def _evaluated(runs: Mapping[str, Found]) -> bool:
    """Whether sub-folders are one training and the evaluations of what it made."""
    trained = [name for name in runs if names.is_training(name)]
    rest = [name for name in runs if name not in trained]
    return len(trained) == 1 and len(runs[trained[0]].jobs) == 1 and bool(rest) and all(map(names.is_evaluations, rest))


def _holds_several(found: Found) -> bool:
    """Whether what `outputs/`, `logs/` and the like hold is more than the logs of the run that they lie in."""
    return len(found.jobs) > 1 or any(job.layout in _SURE for job in found.jobs)
