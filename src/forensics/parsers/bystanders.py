"""Signs about others: what a host or a cluster says of another job, pod, node or container than the run's own.

A kernel log and slurmd's are of a host with all its jobs, `kubectl get events` and `get pods` of a namespace,
`docker ps -a` of all containers. Where the run's own job, pod or container is known, a sign about another one says
nothing about how this run ended. It gets the capture BYSTANDER with the other's name; where the run's own bear the same
sign, it is left out. Where the run's own is not known, nothing is another's, but the ends of several jobs in a log of
slurmctld beside a run that finished; what a list tells of a pod that nothing ties to the run gets the capture UNTIED
with the pod's name. Rows of `sacct` are `accounting`'s.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.files import beginning
from forensics.model import BYSTANDER, UNTIED, Fact, Kind, Observation, Source
from forensics.parsers import kube_events, pods, run_pods
from forensics.patterns import lazy

MAX_BYTES = 4 << 20  # of a listing
# Facts and names of files that hold a job's own number. That of `slurm-%A_%a.out` is the array's, and a task of it has
# another one.
_OWN_JOB = frozenset(("env.SLURM_JOB_ID", "env.SLURM_JOBID"))
_OWN_FILE = lazy(r"(?:^|/)slurm-(?P<job>\d{1,12})\.(?:out|err|log)(?:$|[./!])", re.ASCII)
# `slurm-%j_%t.out` of the job's tasks; `slurm-%A_%a.out` of an array looks the same.
_OWN_TASK = lazy(r"(?:^|/)slurm-(?P<job>\d{1,12})_(?P<task>\d{1,6})\.(?:out|err|log)(?:$|[./!])", re.ASCII)
# PBS names a job's output after the job: train.o4242, train.e4242.
_OWN_FILE_OF_PBS = lazy(r"(?:^|/)[^/]{1,200}\.[oe](?P<job>\d{1,12})(?:$|[./!])", re.ASCII)
# What PBS says of how a job ended, and the head of the job that it is said of: `qstat -f` and its JSON, `tracejob`.
_PBS_END = "Exit_status"
_PBS_HEAD = lazy(r"(?:Job Id: |Job: |\s{0,40}\")(?P<job>\d{1,12})(?:\[\d*\])?\.", re.ASCII)
# slurmd and slurmctld: "Detected 1 oom_kill event in StepId=9990.batch", "JobId=9990 ...", and what a step's own daemon
# says, behind its time: "[2026-05-14T10:04:11.103] [9990.batch] error: ...". A kernel's seconds look alike.
_JOB = lazy(
    r"\b(?:StepId|JobId)=(?:\d{1,12}_\d{1,7}\()?(?P<of>\d{1,12})\b"
    r"|^\[\d{4}-\d\d-\d\dT[\d:.]{8,16}\] \[(?P<by>\d{1,12})\.(?:batch|extern|interactive|\d{1,10})\] ",
    re.ASCII,
)
# slurmctld, of a job that ended: "_job_complete: JobId=552 WTERMSIG 9", "Time limit exhausted for JobId=551_3(554)"; of
# a task of an array its own number stands in the brackets.
_COMPLETED = lazy(
    r"\b(?:_?job_complete: JobI[dD]=|Time limit exhausted for (?:JobI[dD]=|job ))(?:\d+_\d+\()?(?P<job>\d{1,12})\b",
    re.ASCII,
)
FINISHED = "run-finished"
# What a step says of itself in the output of its job, from slurmstepd/req.c and srun/launch.c (older: "job step 42.0").
_OWN_STEP = lazy(
    r"\bslurmstepd: error: \*\*\* (?:STEP|JOB) (?P<stepd>\d{1,12})[.+ ]"
    r"|\bsrun: (?:launch/slurm: \w+: )?(?:Force )?Terminat(?:ing|ed) (?:StepId=|job step )(?P<srun>\d{1,12})[.+]",
    re.ASCII,
)
# The run's own processes that were killed, by what its launcher says: the kernel's word may then be of these where the
# job's number is that of another component of a heterogeneous job. These follow the first one's, and are 128 at most
# (slurm/slurm.h: MAX_HET_JOB_COMPONENTS).
_KILLED = frozenset(("-9", "137"))
_COMPONENTS = 128
_KILLS = frozenset(("host-oom", "host-oom-cgroup", "sigkill-unknown-sender"))
# `docker ps -a`: the name is the last column.
_CONTAINERS = lazy(r"CONTAINER ID\s+IMAGE\s.*\bNAMES\s*$")
_CONTAINER = lazy(
    r"[0-9a-f]{12}\s{2,}\S.*\b(?:Exited|Up|Created|Dead|Restarting|Paused)\b.*\s(?P<name>[A-Za-z0-9][\w.-]+)\s*$"
)
# What the pods or containers of one job have in common: the name before the role and the first index. More of it may be
# the job's own ("llama-3-worker-0"), and may as well be a part's ("sft-workers-0-1-x7k2p" of a JobSet).
_OF_JOB = lazy(
    r"(?P<job>[A-Za-z0-9].*?)[-_](?:(?:worker|master|launcher|chief|ps|head|node|trainer|replica)[-_])?\d{1,6}(?:[-_]|$)"
)


def marked(
    observations: Sequence[Observation], sources: Sequence[Source], facts: Iterable[Fact] = ()
) -> list[Observation]:
    """The observations, with BYSTANDER on those about others; without these where the run's own bear the same sign."""
    listed = _of_listings(observations, sources)
    of_jobs = {**_of_jobs(observations, sources, facts), **_of_pbs(observations, sources)}
    of_others = {**of_jobs, **listed.others}
    own = {o.signature for n, o in enumerate(observations) if n not in of_others}

    def told(n: int, o: Observation) -> Observation:
        if n in of_others:
            return replace(o, captures={**o.captures, BYSTANDER: of_others[n]})
        return replace(o, captures={**o.captures, UNTIED: listed.untied[n]}) if n in listed.untied else o

    return [told(n, o) for n, o in enumerate(observations) if n not in of_others or o.signature not in own]


def _of_jobs(observations: Sequence[Observation], sources: Sequence[Source], facts: Iterable[Fact]) -> dict[int, str]:
    """Place among the observations -> the Slurm job that the sign is about, where that is none of the run's."""
    files = {s.path: m["job"] for s in sources if (m := _OWN_FILE.search(s.path)) is not None}
    files |= {f.source: f.value for f in facts if f.name in _OWN_JOB and f.value.isdecimal()}
    for o in observations:
        text = o.evidence[0].text
        if ("slurmstepd: " in text or "srun: " in text) and (m := _OWN_STEP.search(text)) is not None:
            files.setdefault(o.evidence[0].file, m["stepd"] or m["srun"])
    tasks = {} if files else _jobs_of_tasks(sources)
    files |= tasks
    if not files:
        return _of_a_controller(observations, sources)
    own = set(files.values())
    told = {n: job for n, o in enumerate(observations) if o.evidence[0].file not in files and (job := _job(o))}
    killed = any(
        n not in told and (o.signature in _KILLS or o.captures.get("exitcode") in _KILLED)
        for n, o in enumerate(observations)
    )
    return {
        n: f"job {job}"
        for n, job in told.items()
        if job not in own
        and not ((killed or tasks) and observations[n].signature in _KILLS and _may_be_component(job, own))
    }


def _jobs_of_tasks(sources: Sequence[Source]) -> dict[str, str]:
    """Path -> job of files that are named after it and one of its tasks, which several are.

    A task of an array has a number of its own, which follows the array's.
    """
    named = {s.path: m for s in sources if s.identity.task is not None and (m := _OWN_TASK.search(s.path)) is not None}
    tasks = {(m["job"], m["task"]) for m in named.values()}
    return {path: m["job"] for path, m in named.items()} if len(tasks) > 1 else {}


def _may_be_component(job: str, own: Iterable[str]) -> bool:
    """Whether a job's number may be that of a further component of a heterogeneous job, or of an array's task."""
    return any(0 < int(job) - int(number) < _COMPONENTS for number in own)


def _of_pbs(observations: Sequence[Observation], sources: Sequence[Source]) -> dict[int, str]:
    """The same of PBS. Of several jobs in one list, where no log is named after one of them, none is known to be the
    run's."""
    by_file: dict[str, list[int]] = {}
    for n, o in enumerate(observations):
        if _PBS_END in o.evidence[0].text and o.evidence[0].line is not None:
            by_file.setdefault(o.evidence[0].file, []).append(n)
    own = {m["job"] for s in sources if (m := _OWN_FILE_OF_PBS.search(s.path)) is not None} if by_file else set()
    found: dict[int, str] = {}
    for source in sources if by_file else ():
        if source.path not in by_file:
            continue
        try:
            lines = beginning(source.file, MAX_BYTES).decode("utf-8", "replace").split("\n")
        except OSError:
            continue
        heads = [(at, m["job"]) for at, line in enumerate(lines, 1) if (m := _PBS_HEAD.match(line)) is not None]
        jobs = {job for _, job in heads}
        known = jobs & own or (jobs if len(jobs) == 1 and not own else set())
        for n in by_file[source.path]:
            job = next((job for at, job in reversed(heads) if at <= (observations[n].evidence[0].line or 0)), None)
            if job is not None and job not in known:
                found[n] = f"job {job}"
    return found


def _of_a_controller(observations: Sequence[Observation], sources: Sequence[Source]) -> dict[int, str]:
    """Place among the observations -> the Slurm job of which slurmctld tells the end, where it tells of several jobs
    and the run's own log says that it finished.

    slurmctld's log is of a cluster with all its jobs: what it says of one of them is of the run only where it is alone.
    """
    told = {n: m["job"] for n, o in enumerate(observations) if (m := _COMPLETED.search(o.evidence[0].text))}
    files = {observations[n].evidence[0].file for n in told}
    if not any(o.signature == FINISHED and o.evidence[0].file not in files for o in observations):
        return {}
    jobs = {s.path: _jobs_in(s) for s in sources if s.path in files}
    return {n: f"job {job}" for n, job in told.items() if len(jobs.get(observations[n].evidence[0].file, ())) > 1}


def _jobs_in(source: Source) -> set[str]:
    """The jobs of which a log of slurmctld tells the end; none where it cannot be read."""
    try:
        return set(_COMPLETED.findall(beginning(source.file, MAX_BYTES).decode("utf-8", "replace")))
    except OSError:
        return set()


def _job(o: Observation) -> str | None:
    """The Slurm job that a sign names, by its control group or in the words of Slurm's daemons."""
    if (job := o.captures.get("slurm_job")) is not None:
        return job
    m = _JOB.search(o.evidence[0].text)
    return None if m is None else m["of"] or m["by"]


@dataclass(frozen=True, slots=True)
class _Listed:
    """Signs in listings, by their place among the observations."""

    others: dict[int, str]  # pod, node or container of the sign, where the run's own are known and it is none of them
    untied: dict[int, str]  # pod of the sign, where nothing says whose it is


def _of_listings(observations: Sequence[Observation], sources: Sequence[Source]) -> _Listed:
    by_file: dict[str, list[int]] = {}
    for n, o in enumerate(observations):
        text = o.evidence[0].text
        if "pod" in o.captures or pods.node_of_event(text) is not None or _CONTAINER.match(text) is not None:
            by_file.setdefault(o.evidence[0].file, []).append(n)
    files = {s.path: s for s in sources}
    logs = [s for s in sources if s.kind is Kind.LOG] if by_file else []
    own = {s.path: run_pods.named_in(s) for s in logs[: run_pods.MAX_LOGS]}
    found = _Listed({}, {})
    for path, places in by_file.items():
        if path not in files:
            continue
        try:
            text = beginning(files[path].file, MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        others = [s.path for s in logs if s.path != path]
        names = {name for other in others for name in _names(other)}
        said = set().union(*(named for other, named in own.items() if other != path))
        told = _others(text, {n: observations[n] for n in places}, names, said)
        found.others.update(told.others)
        found.untied.update(told.untied if others else {})
    return found


def _others(text: str, signs: Mapping[int, Observation], names: set[str], own: Collection[str]) -> _Listed:
    """`_of_listings` of one text. names: after which the run's logs are named; own: pods that they say they are of."""
    objects = kube_events.pods_of(text)
    nodes = {**{pod: set[str]() for pod in objects}, **pods.listed(text)}
    jobs = {_job_of(pod) for pod in nodes.keys() & (names | set(own))} or _jobs_of_both(nodes, names | set(own))
    # Where the list has none of the run's pods, their names tell: begun with another word, a pod is of another job,
    # unless only files are named so, and the pod does a part of such work as well.
    named = {*own, *run_pods.replicas(names)}
    family = [nodes[pod] for pod in nodes if _is_of(pod, jobs)]
    placed = set().union(*family) if all(family) else set()  # of a pod without a node nothing tells where it was
    containers = _containers(text)
    containers_jobs = {_job_of(name) for name in containers & names}
    known = jobs or named or run_pods.likely_the_runs(nodes.keys(), map(_job_of, nodes))
    found = _Listed({}, {})
    for n, o in signs.items():
        row = _CONTAINER.match(o.evidence[0].text)
        pod, node = o.captures.get("pod"), pods.node_of_event(o.evidence[0].text)
        if pod is not None and (not _is_of(pod, jobs) if jobs else _is_apart(pod, named, own)):
            found.others[n] = f"pod {pod}"
        elif pod is not None and not known and (pod in objects or pods.is_row(o.evidence[0].text)):
            found.untied[n] = pod
        elif node is not None and placed and node not in placed:
            found.others[n] = f"node {node}"
        elif row is not None and containers_jobs and not _is_of(row["name"], containers_jobs):
            found.others[n] = f"container {row['name']}"
    return found


def _is_apart(pod: str, named: Collection[str], own: Collection[str]) -> bool:
    """Whether a pod is of another job than those that the run's logs are named after, or say that they are of."""
    return bool(named) and not run_pods.may_be_of(pod, named) and (bool(own) or not run_pods.is_replica(pod))


def _jobs_of_both(listed: Iterable[str], names: Iterable[str]) -> set[str]:
    """The jobs of which pods are listed and logs named after other ones: `ft-worker-1.log` beside `ft-master-0`."""

    def jobs(some: Iterable[str]) -> set[str]:
        return {m["job"] for name in some if (m := _OF_JOB.match(name)) is not None}

    return jobs(listed) & jobs(names)


def _containers(text: str) -> set[str]:
    """The names in a table of `docker ps`; none where its head is not there."""
    lines = text.split("\n")
    if not any(_CONTAINERS.match(line) for line in lines):
        return set()
    return {m["name"] for line in lines if (m := _CONTAINER.match(line)) is not None}


def _names(path: str) -> Iterator[str]:
    """What a log may be named after: the parts of its path, up to their first "." and up to their first "_"."""
    for part in path.split("/"):
        stem = part.split(".", 1)[0]
        yield from (stem, stem.split("_", 1)[0])


def _job_of(name: str) -> str:
    m = _OF_JOB.match(name)
    return m["job"] if m is not None else re.split(r"[-_]", name, maxsplit=1)[0]


def _is_of(name: str, jobs: Iterable[str]) -> bool:
    return any(name == job or name.startswith((f"{job}-", f"{job}_")) for job in jobs)
