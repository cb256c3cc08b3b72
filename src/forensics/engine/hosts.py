"""On which host a finding is: as its signs, the ranks that are to blame and launchers tell; None where none is sure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from forensics.engine.candidates import Candidate
from forensics.engine.collectives.addresses import common_host
from forensics.engine.hangs import is_hang, is_stop
from forensics.engine.identity import World, task_list
from forensics.engine.kernel import KILLED
from forensics.engine.survival import MEMORY_KILLS
from forensics.engine.whose import MPI_EXIT, SRUN_SAYS, WORKER_EXIT
from forensics.model import WAITED_FOR, Observation, RunData

SRUN_EXIT = "srun-task-exited"
_DAEMON = "slurmstepd: error: "
_NOTICE = re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT ")  # slurmstepd/req.c, slurmstepd/mgr.c


class Hosts:
    """Finds the hosts of candidates; holds what is known of those of ranks."""

    def __init__(self, data: RunData, world: World) -> None:
        self._world = world
        self.of_ranks = nodes_of_ranks(data, world)  # rank -> host, in any attempt
        self._in_attempt: dict[int, Mapping[int, str]] = {}
        attempts = {o.identity.attempt for o in data.observations if o.identity.attempt is not None}
        if len(attempts) > 1:  # a rank may be started on another host
            self._in_attempt = {n: self.of_ranks | nodes_of_ranks(data, world, n) for n in attempts}
        self._tables = hosts_in_tables(data, world)
        self._exited = _only_hosts(o for o in data.observations if o.signature == SRUN_EXIT)

    def of(self, c: Candidate) -> str | None:
        """The host of what a candidate tells of."""
        return self._shown(c) or self._only_host(c)

    def _only_host(self, c: Candidate) -> str | None:
        """For a root that no sign places: the host of the whole run, or the only one of which srun says that a task
        exited by itself."""
        placed = any(o.identity.node for o in c.observations) or any(self._host_in_attempt(r, c) for r in c.ranks or ())
        if placed or c.explained_by is not None:
            return None
        if self._world.whole_host is not None or c.everywhere:
            return self._world.whole_host
        if c.signature.name in MEMORY_KILLS:
            host = _of_killed_tasks(c) or (_of_notice(c) if self._world.one_host else None)
            if host is not None:
                return host if set(self._world.nodes) == {host} else None
        told = self._exited.get(c.attempt)
        return told[0] if told is not None and self._may_be_on(c, *told) else None

    def _of_others(self, c: Candidate, named: Collection[str]) -> bool:
        """Whether a hang's hosts are those of ranks that wait: of known other ones, or of any in a run of several."""
        waits = c.signature.name in WAITED_FOR and not self._world.one_host
        return waits or bool({*self.of_ranks.values()} - {*named})

    def _host_in_attempt(self, rank: int, c: Candidate) -> str | None:
        return _host_of(rank, self._in_attempt.get(c.attempt, self.of_ranks))

    def _may_be_on(self, c: Candidate, host: str, task: int | None) -> bool:
        """Whether nothing says that a candidate is of another host than the one on which a task exited."""
        if any(task is not None and o.identity.task not in (None, task) for o in c.observations):
            return False
        firsts = {rank - local for (node, local), rank in self._world.rank_of.items() if node == host}
        return not any(rank < first for rank in c.ranks or () for first in firsts)

    def _shown(self, c: Candidate) -> str | None:
        if c.lost_host is not None:
            return c.lost_host or None
        # Where all connections that broke end is told before where those are that report it.
        if c.signature.area == "nccl" and (end := common_host(c.observations)) is not None:
            return end
        if c.ranks:
            if len(machines := _machines_of_pods(c)) == 1:
                return machines.pop()
            printed = {self._tables.get(r) for r in c.ranks}
            if len(printed) == 1 and (host := printed.pop()):  # what a host calls itself, before a file's name
                return host
            known = {host for r in c.ranks if (host := self._host_in_attempt(r, c))}
            own = {
                o.identity.node
                for o in c.observations
                if o.identity.node
                and (
                    self._world.of(o) in c.ranks
                    or (
                        o.culprits
                        and {*o.culprits} <= {*c.ranks}
                        # A rank is on the host whose kernel killed a child of its.
                        and ("node" in o.captures or o.signature in KILLED)
                    )
                )
            }
            in_pods = any("pod" in o.captures for o in c.observations)
            # A pod's processes call the pod their host, and a rank may be started on another one after a failure.
            both = own if own and (in_pods or len(own) == 1) else known | own
            borrowed = all(self._world.of(o) is None and not o.culprits for o in c.observations)
            if not both and (borrowed or c.signature.area == "gpu"):  # a kernel speaks of the cards of its own host
                both = {o.identity.node for o in c.observations if o.identity.node and o.identity.rank is None}
            return next(iter(both)) if len(both) == 1 else None
        named = {o.identity.node for o in c.observations if o.identity.node}
        if is_stop(c) and not self._world.one_host and named == _hosts_of_notices(c.observations):
            return None
        if is_hang(c) and c.signature.area == "collectives" and self._of_others(c, named):
            return None  # where ranks wait says nothing of where the one is that they wait for
        if len(named) == 1:
            return next(iter(named))
        if named and (host := _printed_host(c.observations)):
            return host
        return None  # of several hosts none is proven


def _of_notice(c: Candidate) -> str | None:
    """The host whose slurmstepd says that a job exceeded its memory limit, where its notice of the job's end names it.

    Both come from one daemon in a job of one host.
    """
    if not all(o.evidence[0].text.startswith(_DAEMON) for o in c.observations):
        return None
    hosts = _hosts_of_notices([o for e in c.explains for o in e.observations])
    return hosts.pop() if len(hosts) == 1 else None


def _hosts_of_notices(observations: Sequence[Observation]) -> set[str]:
    """The hosts that Slurm's notices of a job's end name: the first one of the job, whose daemon tells of all of it."""
    return {o.identity.node for o in observations if o.identity.node and _NOTICE.search(o.evidence[0].text)}


def _printed_host(observations: Sequence[Observation]) -> str | None:
    """The one host that the lines themselves name, where the others are what the same files are called."""
    by_line = {
        (o.evidence[0].file, node)
        for o in observations
        if (node := o.identity.node) and node in o.evidence[0].text.split(":")
    }
    hosts = {node for _, node in by_line}
    files = {file for file, _ in by_line}
    return hosts.pop() if len(hosts) == 1 and {o.evidence[0].file for o in observations} <= files else None


def _machines_of_pods(c: Candidate) -> set[str]:
    """The machines on which Kubernetes says that the pods of some signs ran; to its processes a pod is the host."""
    placed = ((o.identity.node, o.captures["pod"]) for o in c.observations if "pod" in o.captures)
    return {node for node, pod in placed if node and node != pod and not pod.endswith(f"-{node}")}


def _only_hosts(srun: Iterable[Observation]) -> dict[int, tuple[str, int | None]]:
    """Attempt -> the one host of which srun says that tasks of it exited with a status by themselves.

    With it the task, where it was one alone.
    """
    hosts: dict[int, dict[str, set[int | None]]] = {}
    for o in srun:
        if o.identity.node and "exitcode" in o.captures:
            tasks = task_list(o)
            task = tasks[0] if len(tasks) == 1 else None
            hosts.setdefault(o.identity.attempt or 0, {}).setdefault(o.identity.node, set()).add(task)
    found = {}
    for attempt, told in hosts.items():
        if len(told) == 1:
            ((host, exited),) = told.items()
            found[attempt] = (host, next(iter(exited)) if len(exited) == 1 else None)
    return found


def _of_killed_tasks(c: Candidate) -> str | None:
    """The one host of which srun says that a signal ended tasks of it, where a memory kill explains that."""
    told = [o for e in c.explains for o in e.observations if SRUN_SAYS in o.evidence[0].text and o.identity.node]
    hosts = {
        o.identity.node for o in told if o.evidence[0].text.endswith(": Killed") or o.captures.get("exitcode") == "137"
    }
    return hosts.pop() if len(hosts) == 1 == len({o.identity.node for o in told}) else None


def _host_of(rank: int, nodes: Mapping[int, str]) -> str | None:
    """The host of a rank: as it is known, or that of the ranks on both sides of it, whose hosts hold them in blocks."""
    if rank in nodes:
        return nodes[rank]
    below, above = nodes.get(rank - 1), nodes.get(rank + 1)
    return below if below == above else None


def nodes_of_ranks(data: RunData, world: World, attempt: int | None = None) -> dict[int, str]:
    """rank -> host, where something names both; of one attempt, if any is asked for."""
    nodes: dict[int, str] = {}
    for identity in (*(s.identity for s in data.sources), *(o.identity for o in data.observations)):
        if attempt is not None and identity.attempt != attempt:
            continue
        rank = world.global_rank(identity)
        if rank is not None and identity.node:
            nodes.setdefault(rank, identity.node)
    return nodes


def hosts_in_tables(data: RunData, world: World) -> dict[int, str]:
    """rank -> host as launchers print it of workers that failed; without ranks of which tables or lines disagree.

    They are the rows of torchelastic's tables, what an MPI launcher says of a rank that ended, and what srun says of
    the tasks of a host where a task is a rank.
    """
    told: dict[int, set[str]] = {}
    for o in data.observations if world.tasks_are_ranks else ():
        for task in task_list(o) if o.identity.node and SRUN_SAYS in o.evidence[0].text else ():
            told.setdefault(task, set()).add(o.identity.node or "")
    for o in data.observations:
        rank = o.identity.rank
        if o.signature == MPI_EXIT and o.captures.get("rank", "").isdecimal():
            rank = int(o.captures["rank"])
        if o.signature in (WORKER_EXIT, MPI_EXIT) and rank is not None and o.identity.node:
            told.setdefault(rank, set()).add(o.identity.node)
    return {rank: next(iter(hosts)) for rank, hosts in told.items() if len(hosts) == 1}
