"""Which of a job's tasks a kernel means by Slurm's control group: `/slurm/uid_1/job_7/step_0/task_2`.

Slurm counts these tasks through the whole job or on each host: jobacct_gather/cgroup by the job's number, task/cgroup
by the host's in 22.05 to 23.11 and by the job's since 24.05 (task_p_pre_launch_priv). On the first host both are one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace

from forensics.engine import whose
from forensics.engine.identity import task_list
from forensics.model import BYSTANDER, Observation, RunData

# Capture of a task of which is not known whether it is the job's number or the host's.
UNNUMBERED = "task_of_host_or_job"


def number(data: RunData) -> RunData:
    """The run with the job's number for the task of each kernel's line, and none where that cannot be told."""
    if not any(_in_group(o) for o in data.observations):
        return data
    tasks, ranks, hosts = _known(data)
    return replace(
        data, observations=tuple(_numbered(o, tasks, ranks, hosts) if _in_group(o) else o for o in data.observations)
    )


def _in_group(o: Observation) -> bool:
    return "slurm_job" in o.captures and o.captures.get("task", "").isdigit() and o.identity.task is not None


def _known(data: RunData) -> tuple[dict[str, set[int]], dict[str, set[int]], set[str]]:
    """First labels of hosts -> the tasks, and the ranks, that are known to be on them; all hosts that are named."""
    tasks: dict[str, set[int]] = defaultdict(set)
    ranks: dict[str, set[int]] = defaultdict(set)
    hosts = {whose.label(o.identity.node) for o in data.observations if o.identity.node and _in_group(o)}
    for identity in (*(s.identity for s in data.sources), *(o.identity for o in data.observations if not _in_group(o))):
        if identity.node:
            hosts.add(whose.label(identity.node))
            tasks[whose.label(identity.node)].update([] if identity.task is None else [identity.task])
            ranks[whose.label(identity.node)].update([] if identity.rank is None else [identity.rank])
    for o in data.observations:
        if "node" in o.captures and "srun: " in o.evidence[0].text and (told := task_list(o)):
            hosts.add(whose.label(o.captures["node"]))
            tasks[whose.label(o.captures["node"])].update(told)
    return tasks, ranks, hosts


def _numbered(
    o: Observation, tasks: Mapping[str, Set[int]], ranks: Mapping[str, Set[int]], hosts: Set[str]
) -> Observation:
    task = o.identity.task
    if task is None:
        return o
    host = whose.label(o.identity.node) if o.identity.node else None
    theirs = sorted(tasks.get(host or "", ()))
    if BYSTANDER in o.captures:  # a task of another job is none of the run's
        return replace(o, identity=replace(o.identity, task=None))
    if task in theirs or (not theirs and (len(hosts) < 2 or task in ranks.get(host or "", ()))):
        return o
    mine = theirs[task] if task < len(theirs) and _all_known(tasks) else None
    captures = {key: value for key, value in o.captures.items() if key != "task"}
    captures |= {UNNUMBERED: str(task)} if mine is None else {"task": str(mine)}
    return replace(o, identity=replace(o.identity, task=mine), captures=captures)


def _all_known(tasks: Mapping[str, Set[int]]) -> bool:
    """Whether the tasks of the hosts run from 0 without a gap, each on one host: none is missing but the last ones."""
    told = sorted(task for theirs in tasks.values() for task in theirs)
    return told == list(range(len(told)))
