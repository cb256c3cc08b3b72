"""The jobs of folders that lie as a launcher, a sweep or a scheduler lays them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from forensics.triage import folders as names
from forensics.triage import layouts, processes
from forensics.triage.accounts import with_accounts
from forensics.triage.found import Found, Rows, total
from forensics.triage.heads import Writers, are_all_rank_zero, may_be_jobs, runs_of_one, writers
from forensics.triage.layouts import Cut, Listing, natural
from forensics.triage.model import Job
from forensics.triage.tree import FIRST, HEAD, Files, Tree, of_training

DEEPEST = 8  # folders from a given path to a job
_FLAG = re.compile(r"^([A-Za-z_][\w.-]{0,60}): ([^\s{\[|>&*!][^\n]{0,80}?)[ \r]*$", re.M)
RESUBMITTED = 2  # job ids among the logs of one folder that can be one job, submitted again


class Known:
    """Finds jobs by layout. joined: makes a path of a folder's and a name; shown: how rows show a path."""

    def __init__(
        self, files: Files, tree: Tree, make: Rows, joined: Callable[[str, str], str], shown: Callable[[str], str]
    ) -> None:
        self._files = files
        self._tree = tree
        self._make = make
        self._joined = joined
        self._shown = shown

    def known(self, path: str, name: str, listing: Listing, depth: int) -> Found | None:
        """The jobs of a folder whose layout is known; None where it is not."""
        if layouts.is_hydra_sweep(listing):
            return self._hydra_sweep(path, listing)
        for is_job, layout in _JOBS:
            if is_job(listing):
                return self._make.one(path, layout)
        if layouts.may_be_guild_run(listing) and self._is_guild_run(path):
            return self._make.one(path, "guild", self._guild_flags(path))
        if layouts.is_tune_experiment(listing):
            trials = self._tree.visible(path, listing)
            return self._make.each(path, trials, "ray-tune") if trials else self._make.one(path, "ray-tune")
        if layouts.is_torchrun(listing):
            return self._make.one(path, "torchrun")
        if layouts.is_wandb_run(name):
            return self._make.one(path, "wandb")
        runs = [n for n in listing.folders if layouts.is_wandb_run(n)]
        if runs and all(n in runs or n.startswith((".", "sweep-")) for n in listing.folders):
            return self._make.each(path, runs, "wandb")
        if pods := processes.operator_jobs(listing.files):
            taken = {entry for cut in pods for entry in cut.entries}
            return self._make.cut(path, pods, "pods") + self._others(path, [n for n in listing.files if n not in taken])
        visible = self._tree.visible(path, listing)
        if pods := processes.pod_folders([n for n in visible if not names.is_inert(n)]):
            return self._make.cut(path, pods, "pods") if len(pods) > 1 else self._make.one(path, "folder")
        layout, launched = layouts.launched_jobs(listing.files)
        heads = self._tree.heads(self._joined(path, cut.entries[0]) for cut in launched)
        if launched and writers(heads, len(launched)) is not Writers.RANKS:
            taken = {entry for cut in launched for entry in cut.entries}
            return self._make.cut(path, launched, layout) + self._make.archives(
                path, [n for n in listing.files if n not in taken]
            )
        if layouts.is_snakemake(listing) and len((rules := self._rule_logs(path, 0)).jobs) > 1:
            return rules
        if listing.folders and (agents := self._agents(path, name, listing)) is not None:
            return agents
        if (streams := self._streams(path, listing, depth)) is not None:
            return streams
        tasks = self.whole(path, layouts.tasks_of(name, listing.files))
        if len(tasks) > 1:
            return self._make.cut(path, tasks, "slurm")
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
            below = self._tree.listing(self._joined(path, folder))
            arrays = depth > 0 and below is not None and not self._many(below)
            cuts = layouts.scheduler_jobs(below.files, arrays_only=arrays)[0] if below is not None else ()
            for cut in cuts:
                entries = tuple(self._joined(folder, entry) for entry in cut.entries)
                found.setdefault(cut.name, []).append(Cut(cut.name, entries, cut.labels))
        if len(found) < 2:
            return None
        whole = [Cut(n, tuple(e for cut in cuts for e in cut.entries), cuts[0].labels) for n, cuts in found.items()]
        return self._make.cut(path, sorted(whole, key=lambda cut: natural(cut.name)), "slurm")

    def _is_guild_run(self, path: str) -> bool:
        """Whether the hidden folder is that of a run; a home of Guild AI has one of the same name."""
        within = self._tree.listing(self._joined(path, ".guild"))
        return within is not None and layouts.is_guild_state(within)

    def _guild_flags(self, path: str) -> dict[str, str]:
        """The flags that Guild AI started a run with: plain scalars, a line each."""
        flags = self._joined(self._joined(self._joined(path, ".guild"), "attrs"), "flags")
        stated = self._files.head(flags, HEAD).decode("utf-8", "replace")
        return {f"hparam.{m[1]}": m[2].strip("'\"") for m in _FLAG.finditer(stated)}

    def _hydra_sweep(self, path: str, listing: Listing) -> Found:
        """Children are jobs; with a sub-folder pattern of several levels, their children are."""
        logs = self._submitit(path) if ".submitit" in listing.folders else {}
        found: list[Found] = []
        for name in self._tree.visible(path, listing):
            child = self._joined(path, name)
            below = self._tree.listing(child)
            inner = self._hydra_below(child, below, logs, 1) if below is not None and below.folders else Found()
            found.append(inner if inner.jobs else self._hydra_job(child, logs))
        # Jobs that ended before Hydra made their folder: those of which submitit alone has a log.
        ran = {job.labels.get("job_id") for f in found for job in f.jobs}
        if not found or ran != {None}:
            found += [self._make.one(logs[job], "hydra", {"job_id": job}) for job in logs if job not in ran]
        return total(found)

    def _hydra_below(self, path: str, listing: Listing, logs: Mapping[str, str], depth: int) -> Found:
        if layouts.is_hydra_job(listing):
            return self._hydra_job(path, logs)
        children = [self._joined(path, n) for n in listing.folders if depth < DEEPEST and not n.startswith(".")]
        inner = [(child, self._tree.listing(child)) for child in children]
        return total(self._hydra_below(child, below, logs, depth + 1) for child, below in inner if below is not None)

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
        listing = self._tree.listing(folder)
        return {name: self._joined(folder, name) for name in listing.folders} if listing is not None else {}

    def _rule_logs(self, path: str, depth: int) -> Found:
        """One job a log below `logs/` of a folder in which Snakemake ran."""
        folder = self._joined(path, "logs") if depth == 0 else path
        listing = self._tree.listing(folder)
        if listing is None:
            return Found()
        logs = self._tree.logs(folder, listing)
        inner = [self._joined(folder, n) for n in self._tree.visible(folder, listing)] if depth < DEEPEST else []
        return self._make.each(folder, logs, "snakemake") + total(self._rule_logs(child, depth + 1) for child in inner)

    def _agents(self, path: str, name: str, listing: Listing) -> Found | None:
        """Jobs of a folder that was given to several `torchrun --log-dir`."""
        agents = [n for n in listing.folders if not n.startswith(".")]
        if not agents or not all(map(layouts.is_agent, agents)):
            return None
        below = [self._tree.listing(self._joined(path, n)) for n in agents]
        if not all(found is not None and layouts.is_torchrun(found) for found in below):
            return None
        cuts = layouts.torchrun_jobs(agents)
        if name and names.is_part(name) and len(cuts) > 1:  # of one run: its machines, or its attempts
            return self._make.one(path, "torchrun") + self._make.note(path, len(cuts))
        return self._make.cut(path, cuts, "torchrun")

    def _scheduler(self, path: str, cuts: Sequence[Cut], rest: Sequence[str]) -> Found:
        """One job a task of an array, or a job id; files numbered by rank are put together."""
        whole = self.whole(path, cuts)
        if len(whole) == 1:  # the whole folder is one job, with whatever else lies in it
            return self._make.one(path, "folder", whole[0].labels)
        whole, rest = with_accounts(whole, rest, lambda name: self._tree.head(self._joined(path, name)))
        return self._make.cut(path, whole, "slurm") + self._make.archives(path, rest)

    def whole(self, path: str, cuts: Sequence[Cut]) -> list[Cut]:
        """The cuts with the ranks of one job put together, in natural order."""
        ranks = {
            job: members
            for job, members in layouts.may_be_ranks(cuts).items()
            if writers(
                self._tree.heads(self._joined(path, cut.entries[0]) for cut in members),
                len(members),
                stated=layouts.is_named_as_array(members),
            )
            is Writers.RANKS
        }
        whole = [cut for cut in cuts if cut.labels["job_id"] not in ranks or "array_task" not in cut.labels]
        for job, members in ranks.items():
            whole.append(Cut(job, tuple(entry for cut in members for entry in cut.entries), {"job_id": job}))
        return sorted(whole, key=lambda cut: natural(cut.name))

    def apart(self, path: str, files: Sequence[str]) -> Found:
        """Jobs of which each wrote one log, with a number in its name; none where that is not sure.

        Each says that it was alone, or, where the number is none of a process or machine, that it is a rank 0.
        """
        every = self._tree.logs(path, Listing((), tuple(files)))
        logs = layouts.numbered_logs(every, processes=True)
        if not runs_of_one(self._tree.heads(self._joined(path, name) for name in logs)):
            logs = layouts.numbered_logs(every)
            if not are_all_rank_zero(self._tree.heads(self._joined(path, name) for name in logs)):
                return Found()
        cuts = layouts.by_stem(every)
        taken = {entry for cut in cuts for entry in cut.entries}
        return self._make.cut(path, cuts, "file") + self._make.archives(
            path, [name for name in files if name not in taken]
        )

    def flat(self, path: str, files: Sequence[str]) -> Found:
        """Jobs of which each wrote its own log beside the others' (`> $model.log`); none where that is not sure.

        Their names are those of no kind of log, machine or process, most of them trained, and none says that it is of
        several. What is numbered from 0 or 1 without a gap may be ranks; trials and notebooks are not.
        """
        logs = [n for n in self._tree.logs(path, Listing((), tuple(files))) if not layouts.is_study_log(n)]
        left = [name for name in files if name not in logs]
        if ranked := self._numbered(path, logs):
            return self._make.cut(path, ranked, "file") + self._make.archives(path, left)
        cuts = layouts.by_stem(logs)
        stems = [cut.name for cut in cuts]
        sweep = layouts.are_of_a_sweep(logs)
        if len(cuts) < 2:
            return Found()
        if not sweep and any(layouts.is_kind_of_log(n) or names.is_part(n) or names.is_host(n) for n in stems):
            return Found()
        numbered = len(layouts.numbered_logs([f"{stem}.log" for stem in stems])) == len(stems)
        if numbered and names.counted_within(stems) and not sweep:
            return Found()
        heads = [self._tree.head(self._joined(path, cut.entries[0])) for cut in cuts[:FIRST]]
        trained = sum(map(of_training, heads))
        settings = 2 * sum(names.is_trial(n) or bool(names.settings(n)) for n in stems) >= len(stems)
        if trained < 2 or 2 * trained < len(heads) or not may_be_jobs(heads, of_a_sweep=settings):
            return Found()
        return self._make.cut(path, cuts, "file") + self._make.archives(path, left)

    def _numbered(self, path: str, logs: Sequence[str]) -> tuple[Cut, ...]:
        """Jobs of which each process or machine wrote a log; () where names and first bytes do not show them."""
        found = processes.numbered_jobs(logs)
        if found.sure or not found.cuts:
            return found.cuts
        heads = [self._tree.head(self._joined(path, cut.entries[0])) for cut in found.cuts[:FIRST]]
        trained = sum(map(of_training, heads))
        if trained < 2 or 2 * trained < len(heads):
            return ()
        # A name in place of a job's can be a machine's, of one world.
        return () if found.local and writers(heads, len(logs)) is Writers.RANKS else found.cuts

    def _others(self, path: str, files: Sequence[str]) -> Found:
        """Logs beside those of jobs by their pods: a job each where its name is of no kind of log, and it trained.

        Of many the first are asked, and the others are jobs where most of these are.
        """
        logs = [n for n in files if layouts.may_be_log(n) and not layouts.is_study_log(n)]
        own = [cut for cut in layouts.by_stem(logs) if not layouts.is_kind_of_log(cut.name)]
        cuts = [cut for cut in own[:FIRST] if self._tree.trains(path, cut.entries[0])]
        cuts += own[FIRST:] if 2 * len(cuts) > FIRST else []
        taken = {entry for cut in cuts for entry in cut.entries}
        return self._make.cut(path, cuts, "file") + self._make.archives(path, [n for n in files if n not in taken])


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
