"""Logs of several jobs in one folder, of which each pod, machine or process of a job wrote one: told by their names.

Sources of the forms:
- kubelet: `/var/log/containers/<pod>_<namespace>_<container>-<64 hexadecimals>.log`; Kubeflow's operators name the pods
  of a job `<job>-<role>-<n>` (training-operator, pkg/controller.v1/common/pod.go), JobSet
  `<job>-<role>-<n>-<index>-<five characters>`, a Job's or KubeRay's pods end in five characters of the alphabet of
  k8s.io/apimachinery, pkg/util/rand: no vowels, no 0, 1 and 3.
- What people write `kubectl logs` of them to: `<pod>.log`, with the namespace before it and a `_` between, which no
  pod's name holds (RFC 1123), or the container behind it.
- What people write beside each other by hand: `<job>_node0.log`, `<job>_rank3.log`, `<job>_gpu0.out`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forensics.parsers.pod_names import MADE_UP, OF_JOBSET, ROLES
from forensics.triage.folders import is_host, is_role
from forensics.triage.layouts import Cut, by_stem, is_kind_of_log, natural, stem

_CONTAINER_LOG = re.compile(
    rf"(?:(?P<job>[a-z0-9][a-z0-9.-]*?)-(?:{ROLES}|server|scheduler)-\d+"
    rf"|{OF_JOBSET})_(?P<namespace>[a-z0-9-]+)_[a-z0-9-]+-[0-9a-f]{{64}}\.log\Z"
)
# What `kubectl logs` of such pods is written to, under the pods' names.
_POD_LOG = re.compile(
    r"(?:(?P<before>[a-z0-9][a-z0-9-]*)_)?(?P<job>[a-z0-9][a-z0-9.-]*?)"
    rf"-(?:{ROLES})(?:-\d+|(?:-[a-z0-9]+){{0,3}}-{MADE_UP}{{5}})"
    r"(?:[-.][a-z][a-z0-9-]*|_[a-z][a-z0-9-]*|_(?P<behind>[a-z][a-z0-9-]*)_[a-z][a-z0-9-]*)?"
    r"\.(?:log|txt)(?:\.(?:gz|xz|bz2|zst))?\Z"
)
_POD = re.compile(
    rf"(?P<job>[a-z0-9][a-z0-9.-]*?)-(?P<role>{ROLES})"
    rf"(?:-\d+|(?:-[a-z0-9]+){{0,3}}-{MADE_UP}{{5}})\Z"
)
_JOBSET_LOG = re.compile(rf"{OF_JOBSET}\.(?:log|txt)(?:\.(?:gz|xz|bz2|zst))?\Z")
# The numbers behind these count what one job has of them.
_OF_A_JOB = r"(?:(?:global|node|machine)_?)?rank|node|host|worker|trainer|pod|server|machine"
# And behind these what one machine has.
_OF_A_MACHINE = r"local_?rank|gpu|cuda|device|proc(?:ess)?"
_NUMBERED = re.compile(
    rf"(?P<job>.*?[A-Za-z].*?)(?P<parts>(?:[-_.](?:{_OF_A_JOB}|{_OF_A_MACHINE})s?[-_.=]?\d{{1,6}})+)\Z", re.I
)
_NUMBERED_FIRST = re.compile(
    rf"(?P<parts>(?:(?:{_OF_A_JOB}|{_OF_A_MACHINE})s?[-_.=]?\d{{1,6}}[-_.])+)(?P<job>[A-Za-z].*)\Z", re.I
)
_LOCAL = re.compile(rf"(?:\A|[-_.])(?:{_OF_A_MACHINE})s?[-_.=]?\d{{1,6}}[-_.]?\Z", re.I)
# What else stands before or behind a rank than a job: what each process of one writes several logs of.
_OF_A_PROCESS = re.compile(
    r"(?:py)?torch(?:run)?\Z|elastic\Z|python\Z|app\Z|program\Z|comms?\Z|pg\Z|fr\Z|(?:data)?loader\Z|sampler\Z"
    r"|(?:timer|trace|stat|event|alert)s?\Z|perf\Z|progress\Z|history\Z|health\Z|watchdog\Z|heartbeats?\Z",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Logs by the jobs that their names tell of. sure: names alone show it, whatever the logs hold."""

    cuts: tuple[Cut, ...] = ()
    sure: bool = False
    local: bool = False  # a job can be a machine, whose processes the numbers count


def operator_jobs(files: Sequence[str]) -> tuple[Cut, ...]:
    """The jobs whose pods left logs in the kubelet's folder, by the names that operators give; () where not two.

    Also of logs under the names of pods alone, unless what stands for a job there is a kind of log or a stage of a run.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for file in files:
        if m := _CONTAINER_LOG.match(file):
            found.setdefault((m["namespace"], m["job"] or m["set"]), []).append(file)
        elif m := _JOBSET_LOG.match(file):
            found.setdefault(("", m["set"]), []).append(file)
        elif (m := _POD_LOG.match(file)) and not is_kind_of_log(m["job"]):
            found.setdefault((m["before"] or m["behind"] or "", m["job"]), []).append(file)
    if len(found) < 2:
        return ()
    spaces = {namespace for namespace, _ in found}
    return tuple(
        Cut(job if len(spaces) == 1 else f"{namespace}/{job}".lstrip("/"), tuple(members))
        for (namespace, job), members in sorted(found.items())
    )


def pod_folders(folders: Sequence[str]) -> tuple[Cut, ...]:
    """The jobs of folders that are named by their pods; () unless all are, and one job at least shows two roles."""
    found: dict[str, list[str]] = {}
    roles: dict[str, set[str]] = {}
    for folder in folders:
        m = _POD.match(folder)
        if m is None or is_kind_of_log(m["job"]):
            return ()
        found.setdefault(m["job"], []).append(folder)
        roles.setdefault(m["job"], set()).add(m["role"])
    if all(len(each) == 1 for each in roles.values()):
        return ()
    return tuple(Cut(job, tuple(members)) for job, members in sorted(found.items()))


def numbered_jobs(logs: Sequence[str]) -> Jobs:
    """Jobs of which each process or machine wrote a log under the job's name (`bert_rank0.log`, `node1_bert.log`).

    Logs beside them without such a number are a job each. None where the names do not show two jobs: those of one run
    have no number twice, but for what several kinds of logs are called.
    """
    found: dict[str, dict[str, list[str]]] = {}
    others: list[str] = []
    local = behind = True
    for file in logs:
        m = _NUMBERED.match(stem(file)) or _NUMBERED_FIRST.match(stem(file))
        if m is None:
            others.append(file)
            continue
        if is_kind_of_log(m["job"]) or _OF_A_PROCESS.match(m["job"]) or is_host(m["job"]) or is_role(m["job"]):
            return Jobs()
        behind = behind and m.start("job") == 0
        local = local and _LOCAL.search(m["parts"]) is not None
        number = "_".join(str(int(n)) for n in re.findall(r"\d+", m["parts"]))
        found.setdefault(m["job"], {}).setdefault(number, []).append(file)
    if not found or any(is_kind_of_log(stem(file)) or is_host(stem(file)) for file in others):
        return Jobs()
    if not _apart(found, others, local):
        return Jobs()
    numbers = {tuple(sorted(members, key=int)) for members in found.values() if all("_" not in n for n in members)}
    same = behind and len(found) > 1 and not others and len(numbers) == 1 and not local
    sure = same and (first := numbers.pop()) == tuple(map(str, range(max(len(first), 2))))
    cuts = [Cut(job, tuple(f for files in members.values() for f in files)) for job, members in found.items()]
    return Jobs(tuple(sorted((*cuts, *by_stem(others)), key=lambda cut: natural(cut.name))), sure, local)


def _apart(found: Mapping[str, Mapping[str, Sequence[str]]], others: Sequence[str], local: bool) -> bool:
    """Whether names are those of several jobs: each shares a number with another, or is the only one beside logs of
    no number. Where numbers are those of GPUs, jobs of one log each may have got different ones."""
    if len(found) == 1:
        (members,) = found.values()
        return bool(others) and len(members) > 1
    jobs_with = Counter(n for members in found.values() for n in members)
    if all(any(jobs_with[n] > 1 for n in members) for members in found.values()):
        return True
    return local and all(len(members) == 1 for members in found.values())
