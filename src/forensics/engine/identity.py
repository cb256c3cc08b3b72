"""Which process is it: local ranks, devices, tasks and hosts become global ranks where the evidence allows.

A local rank, a device index or a Slurm task id is a global rank only where one host is seen or where a mapping is
printed; else it stays what it is, and the finding says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from forensics.engine import launched, whose, world_sizes
from forensics.engine.environment import stated_world
from forensics.engine.few import are_few, distinct
from forensics.engine.kernel import FACT, UNPLACED
from forensics.engine.peers import MISSED
from forensics.model import MAX_RANKS, Identity, Kind, Observation, RunData, Source, Traceback
from forensics.parsers.kernel.lines import read_line
from forensics.parsers.prefixes import from_ray, from_syslog, rank_list

if TYPE_CHECKING:
    import polars as pl

NCCL_INIT, HOST_DOWN, TASK_KILLED = "nccl-init", "node-failure", "host-oom-cgroup"
RUNS_ON = "runs-on-host"
_OF_LAUNCHERS = frozenset({whose.MAPPING, whose.WORKER_EXIT, "child-failed-error", "sigterm-to-children"})
# More devices than almost any server holds: a world that is larger has several hosts unless something shows otherwise.
DEVICES_OF_A_HOST = 8
_HOST = r"(?P<before>[\w.-]{0,200}?)(?P<number>\d{1,9})(?P<after>[A-Za-z-]{0,50}(?:\.[\w.-]{1,200})?)"
_NUMBERED_HOST = re.compile(_HOST)
_FIRST_HOST = re.compile(rf"\*\*\* (?:STEP|JOB) \S+ ON {_HOST} CANCELLED AT ")
_Launch = tuple[str, int]  # a launch folder, and the number of the attempt in its path
_RUN_FOLDER = re.compile(
    r"^(?P<folder>.*?)(?:^|/)attempt_(?P<attempt>\d+)/\d+/(?:[^/]+!/)?(?:(?:filtered_)?std(?:out|err)\.log|error\.json)$"
)


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a run, as far as they are known."""

    ranks: tuple[int, ...]  # global ranks that something names
    size: int | None  # stated by the run, or the number of ranks seen
    size_is_stated: bool
    nodes: tuple[str, ...]
    one_host: bool  # nothing points to a second host
    rank_of: dict[tuple[str | None, int], int]  # (node or None, local rank) -> global rank
    rank_of_pid: dict[tuple[str | None, int], int]  # (node or None, pid) -> global rank
    rank_of_bus: dict[tuple[str | None, str], int] = field(default_factory=dict)  # (node or None, PCI bus id) -> rank
    rank_of_device: dict[tuple[str | None, int], int] = field(default_factory=dict)  # (node, CUDA device) -> rank
    tasks_are_ranks: bool = False  # a Slurm task drives one rank, and bears its number
    devices_are_ranks: bool = True  # of one host: nothing says that its devices are not the ranks of the whole run
    host_of: Mapping[int, str] = field(default_factory=dict)  # rank -> host, where one alone is named with it
    single: bool = False  # there is but one process, as far as anything tells: naming its rank would tell nothing
    unheard: frozenset[int] = frozenset()  # of `ranks`: a file is named after them, in which nothing stands
    whole_host: str | None = None  # the one host on which all of the run is, where something says so
    listed: frozenset[int] = frozenset()  # ranks that a line names as taking part, whether or not they left a trace
    nccl_devices_are_ranks: bool = False  # of one host: its processes see the devices of others, and each has its own

    @property
    def known_size(self) -> int | None:
        """The number of processes, where it is stated or a process of each number below it was seen; else None.

        The highest rank that was seen says only that there are as many at least.
        """
        if self.size is None or self.size_is_stated or self.single:
            return self.size
        seen = {*self.ranks, *self.rank_of.values(), *self.listed}
        return self.size if 1 < self.size == len(seen) else None

    def apart(self, host: str | None, other: str | None) -> bool:
        """Whether two names are of two hosts: they are made in one way (`whose.apart`), or each is that of a rank."""
        if whose.apart(host, other):
            return True
        theirs = {whose.label(name) for name in self.host_of.values()}
        return bool(host and other) and len({whose.label(host or ""), whose.label(other or "")} & theirs) == 2

    def global_rank(self, identity: Identity) -> int | None:
        """The global rank of an identity; None where it cannot be known."""
        if identity.rank is not None:
            return identity.rank
        if identity.pid is not None:
            for pid_key in ((identity.node, identity.pid), (None, identity.pid)):
                rank = self.rank_of_pid.get(pid_key)
                if rank is not None and not self.apart(identity.node, self.host_of.get(rank)):
                    return rank
        if identity.local_rank is not None:
            for key in ((identity.node, identity.local_rank), (None, identity.local_rank)):
                if key in self.rank_of:
                    return self.rank_of[key]
            if self.one_host:
                return identity.local_rank
        if self.tasks_are_ranks and identity.task is not None:
            return identity.task
        if identity.device is not None:
            if (identity.node, identity.device) in self.rank_of_device:
                return self.rank_of_device[identity.node, identity.device]
            # In NCCL's lines (`host:pid:tid [0]`) each process that sees its own device only bears 0, of whatever rank.
            if self.one_host and self.devices_are_ranks and (identity.pid is None or self.nccl_devices_are_ranks):
                return identity.device
        return None

    def of(self, observation: Observation) -> int | None:
        if UNPLACED in observation.captures:
            return observation.identity.rank
        # The pid of a driver's message can be that of a monitor; the bus id is that of the card.
        if bus := pci_bus(observation.captures.get("bdf", "")):
            for key in ((observation.identity.node, bus), (None, bus)):
                if key in self.rank_of_bus:
                    return self.rank_of_bus[key]
        return self.global_rank(observation.identity)


def of_other_processes(some: Sequence[Observation], others: Sequence[Observation], world: World) -> bool:
    """Whether no process is behind signs of both kinds: by their ranks, else by hosts and local ranks, else by files.

    False where that cannot be told. The two streams of one process lie in two files.
    """
    for process in (world.of, _place, _file):
        known, other = {process(o) for o in some}, {process(o) for o in others}
        if None not in known | other:
            return not known & other
    return False


def _place(o: Observation) -> tuple[str, int] | None:
    node, local = o.identity.node, o.identity.local_rank
    return (node, local) if node is not None and local is not None else None


def _file(o: Observation) -> str:
    return whose.without_stream(o.evidence[0].file)


def pci_bus(text: str) -> str | None:
    """A PCI bus id as the kernel prints it (0000:57:00.0) or as NCCL does (57000), as "0000:57:00"; None if it is none.

    NCCL prints the number domain << 20 | bus << 12 | device << 4 | function in hex without leading zeros
    (busIdToInt64 in its utils).
    """
    if m := re.fullmatch(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?", text):
        return f"{int(m[1] or '0', 16):04x}:{int(m[2], 16):02x}:{int(m[3], 16):02x}"
    if re.fullmatch(r"[0-9a-f]{4,12}", text):
        number = int(text, 16)
        return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"
    return None


def stated_size(observations: Iterable[Observation]) -> int | None:
    """The largest world size that a line states; None without any."""
    sizes = [int(o.captures["world_size"]) for o in observations if o.captures.get("world_size", "").isdecimal()]
    return max((size for size in sizes if size <= MAX_RANKS), default=None)


def kernel_sources(data: RunData) -> frozenset[str]:
    """Paths of a run's kernel logs, whose names of hosts and files need not be of the run."""
    return frozenset(fact.source for fact in data.facts if fact.name == FACT)


def _of_a_process(o: Observation, kernels: Collection[str]) -> bool:
    """Whether a process of the run wrote a line, and not the system of a host. kernels: paths of such systems' logs."""
    return o.evidence[0].file not in kernels and not from_syslog(f"{o.evidence[0].text} ")  # a prefix lost its blank


def _several_hosts(hosts: int, identities: Sequence[Identity], stated: int | None) -> bool:
    """True where anything points to a second host: then a local rank says nothing about the global one by itself."""
    locals_seen = {i.local_rank for i in identities if i.local_rank is not None}
    shifted = any(i.rank != i.local_rank for i in identities if i.local_rank is not None and i.rank is not None)
    beyond = bool(locals_seen) and stated is not None and stated > max(locals_seen) + 1
    return hosts > 1 or shifted or beyond


def _hosts_once(names: Collection[str]) -> list[str]:
    """Names of hosts in order, without those with a domain where the one host of that name stands without it too."""
    full: dict[str, list[str]] = defaultdict(list)
    for name in names:
        label, _, domain = name.partition(".")
        if domain and label in names and not label.isdigit():
            full[label].append(name)
    return sorted(set(names) - {own[0] for own in full.values() if len(own) == 1})


def know_world(data: RunData) -> World:
    """Everything the run says about who took part."""
    identities: list[Identity] = [
        *(s.identity for s in data.sources),
        *(o.identity for o in data.observations),
        *(t.identity for t in data.tracebacks),
    ]
    ranks = {i.rank for i in identities if i.rank is not None}
    for o in data.observations:
        ranks.update(o.culprits or ())
    if data.metrics.height:
        ranks.update(r for r in distinct(data.metrics["rank"]) if r is not None)
    if data.collectives.height:
        ranks.update(r for r in distinct(data.collectives["rank"]) if r is not None)
    ranks = {rank for rank in ranks if 0 <= rank < MAX_RANKS}
    kernels = kernel_sources(data)
    with_host = [o for o in data.observations if o.identity.node and UNPLACED not in o.captures]
    # Where a job says that it runs is no second host to one that its log is named by, such as a pod.
    homes = {s.path: s.identity.node for s in data.sources if s.identity.node}
    with_host = [
        o
        for o in with_host
        if o.signature != RUNS_ON or homes.get(o.evidence[0].file, o.identity.node) == o.identity.node
    ]
    # A kernel's log names its host as the administrator does, which may be another name for a host that is known.
    system = {o.identity.node for o in with_host if from_syslog(o.evidence[0].text)}
    of_run = {s.identity.node for s in data.sources if s.identity.node and s.path not in kernels}
    # A pod is a host to its processes, and where it runs is no second one.
    if pods := {o.captures["pod"] for o in with_host if "pod" in o.captures}:
        pods &= of_run.union(*(whose.path_names(s.path) for s in data.sources))
        with_host = [o for o in with_host if o.captures.get("pod") not in pods or o.identity.node in pods]
        # Where a pod runs that is none of those whose logs are here tells of another job's hosts.
        of_others = {id(o) for o in with_host if o.captures.get("pod", "") not in {"", *pods}} if of_run else set()
        with_host = [o for o in with_host if id(o) not in of_others]
    named = {*of_run, *(o.identity.node for o in with_host), *(t.identity.node for t in data.tracebacks)}
    nodes = _hosts_once({node for node in named if node})
    printing = [o for o in with_host if o.identity.node not in system or _of_a_process(o, kernels)]
    of_run |= {node for o in printing if (node := o.identity.node)}
    stated = stated_size(data.observations) or stated_world(data.facts) or world_sizes.of_hosts(data)
    locals_seen = {i.local_rank for i in identities if i.local_rank is not None}
    tasks = {i.task for i in identities if i.task is not None}
    rank_of = whose.local_ranks(data.observations)
    listed = {node for node, _ in rank_of if node}
    several = _several_hosts(max(len(of_run), len(system), len(listed)), identities, stated)
    several = several or launched.several(data.observations)
    named_ranks = {i.rank for i in identities if i.rank is not None}
    if several and not named_ranks and ranks and ranks <= locals_seen:
        ranks = set()  # numbers of processes on their hosts, which rows of metrics hold as ranks
    mapped = set(rank_of.values())  # they take part, and may still have left no trace
    clashes: set[tuple[str | None, int]] = set()
    rank_of_pid: dict[tuple[str | None, int], int] = {}
    for i in identities:
        if i.rank is not None and i.local_rank is not None:
            key = (i.node, i.local_rank)
            if rank_of.setdefault(key, i.rank) != i.rank:
                clashes.add(key)
    for o in data.observations:
        rank, local, pid = (o.captures.get(k, "") for k in ("rank", "local_rank", "pid"))
        if rank.isdigit() and o.signature == whose.MAPPING:
            mapped.add(int(rank))
        if listed_ranks := o.captures.get("taking_part"):
            mapped.update(rank_list(listed_ranks))
        if rank.isdigit() and local.isdigit():
            rank_of.setdefault((o.identity.node, int(local)), int(rank))
        if rank.isdigit() and pid.isdigit():
            rank_of_pid.setdefault((o.identity.node, int(pid)), int(rank))
    rank_of_pid |= whose.processes(data.observations, rank_of, one_host=not several)
    for key in clashes:
        del rank_of[key]
    if not clashes:
        places = [(i.node, i.local_rank) for i in identities]
        rank_of |= whose.neighbours(rank_of, places)
        rank_of |= (block := whose.last_block(rank_of, places, stated))
        mapped |= set(block.values())
    told: dict[int, set[str]] = defaultdict(set)
    for i in identities:
        if i.rank is not None and i.node:
            told[i.rank].add(i.node)
    rank_of_bus: dict[tuple[str | None, str], int] = {}
    inits: list[tuple[str | None, int, int]] = []
    nranks = [int(o.captures["nranks"]) for o in data.observations if o.signature == NCCL_INIT]
    largest = max((n for n in nranks if n <= MAX_RANKS), default=0)
    for o in data.observations:
        # Ranks of smaller communicators count within their group; the largest one is the whole world.
        if o.signature != NCCL_INIT or int(o.captures["nranks"]) != largest:
            continue
        rank_in_world = int(o.captures["comm_rank"])
        if rank_in_world >= largest:
            continue
        ranks.add(rank_in_world)
        if o.identity.node:
            told[rank_in_world].add(o.identity.node)
        if o.captures.get("cuda_device", "").isdigit():
            inits.append((o.identity.node, int(o.captures["cuda_device"]), rank_in_world))
        if o.identity.pid is not None:
            rank_of_pid.setdefault((o.identity.node, o.identity.pid), rank_in_world)
        if bus := pci_bus(o.captures.get("bus", "")):
            rank_of_bus.setdefault((o.identity.node, bus), rank_in_world)
    for o in data.observations:
        # A program that prints the card of its rank.
        if (
            o.signature == whose.ANNOUNCED
            and o.identity.rank is not None
            and (bus := pci_bus(o.captures.get("bus", "")))
        ):
            rank_of_bus.setdefault((o.identity.node, bus), o.identity.rank)
    stated = max(stated or 0, largest) or None
    for table in (rank_of_pid, rank_of_bus):
        _without_node(table)
    size = stated or _seen_size(ranks | mapped, identities)
    tasks_are_ranks = _tasks_are_ranks(
        identities,
        size,
        several,
        many_on_a_host=_many_tasks_on_a_host(data.observations) or _more_tasks_than_hosts(data.observations),
        many_files_of_a_host=_many_files_on_a_host(data.sources),
        silent=_silent_tasks(data.observations, data.tracebacks, ranks),
    )
    if not several:
        ranks |= locals_seen
    if tasks_are_ranks:
        ranks |= tasks
        mapped |= _listed_tasks(data.observations)  # srun tells what became of them, and they may have printed nothing
    size = stated or _seen_size(ranks | mapped, identities)
    devices = {i.device for i in identities if i.device is not None}
    launches = any(o.signature in _OF_LAUNCHERS for o in data.observations)
    others = launches or len(devices) > 1 or _see_several_devices(identities)  # NCCL is for several
    # A process that is alone may use any card of its host.
    alone = stated == 1 or not (stated or ranks or mapped or locals_seen or others)
    return World(
        ranks=tuple(sorted(ranks)),
        size=size,
        size_is_stated=stated is not None,
        nodes=tuple(nodes),
        one_host=not several,
        rank_of=rank_of,
        rank_of_pid=rank_of_pid,
        rank_of_bus=rank_of_bus,
        rank_of_device=whose.devices(inits, rank_of),
        tasks_are_ranks=tasks_are_ranks,
        unheard=_unheard(data, identities, tasks_are_ranks),
        listed=frozenset(mapped),
        whole_host=(
            _whole_host(data.observations, of_run, locals_seen, size) or _host_of_all(told, stated)
            if not several
            else None
        ),
        single=size == 1 and (stated == 1 or not any(prints_its_rank(i) for i in identities)),
        devices_are_ranks=(size is None or size <= DEVICES_OF_A_HOST or len(locals_seen) >= size)
        and not alone
        and not any(from_ray(o.evidence[0].text) for o in data.observations)
        and not any("ray::" in t.header.text for t in data.tracebacks),
        nccl_devices_are_ranks=(stated is not None or len(ranks | mapped) > 1 or _see_several_devices(identities))
        and not _share_a_device(identities),
        host_of={rank: next(iter(hosts)) for rank, hosts in told.items() if len({whose.label(h) for h in hosts}) == 1},
    )


def _whole_host(
    observations: Iterable[Observation], named: Collection[str | None], locals_seen: Collection[int], size: int | None
) -> str | None:
    """The only host that the run names, where a scheduler says that the job ran there or it holds all local ranks."""
    hosts = {node for node in named if node}
    if len(hosts) != 1:
        return None
    all_here = size is not None and len(locals_seen) >= size
    small = size is None or size <= DEVICES_OF_A_HOST
    placed = small and any(o.signature == RUNS_ON and o.identity.node in hosts for o in observations)
    return next(iter(hosts)) if all_here or placed else None


def _host_of_all(told: Mapping[int, Collection[str]], size: int | None) -> str | None:
    """The one host that lines name with each rank of a world of a stated size."""
    if size is None or not all(told.get(rank) for rank in range(size)):
        return None
    hosts = {host for names in told.values() for host in names}
    return hosts.pop() if len(hosts) == 1 else None


def _unheard(data: RunData, identities: Sequence[Identity], tasks_are_ranks: bool) -> frozenset[int]:
    """The ranks of which there are files, all of them empty, and no word anywhere else."""

    def rank(identity: Identity) -> int | None:
        return identity.rank if identity.rank is not None or not tasks_are_ranks else identity.task

    empty = {rank(s.identity) for s in data.sources if s.kind is Kind.EMPTY}
    if not empty:
        return frozenset()
    spoke = {rank(s.identity) for s in data.sources if s.kind is not Kind.EMPTY}
    spoke |= {rank(identity) for identity in identities[len(data.sources) :]}
    if data.metrics.height:
        spoke |= distinct(data.metrics["rank"])
    return frozenset(r for r in empty - spoke if r is not None)


def _seen_size(ranks: Collection[int], identities: Sequence[Identity]) -> int | None:
    """How many processes the ranks show that were seen.

    None where there are none, and where rank 0 alone is printed: that is done where there are others.
    """
    if set(ranks) == {0} and any(map(prints_its_rank, identities)):
        return None
    return max(ranks, default=-1) + 1 or None


def prints_its_rank(identity: Identity) -> bool:
    """Whether a rank is printed, or a file's name, and not taken from an index on the host."""
    return identity.rank is not None and {identity.local_rank, identity.device, identity.task} == {None}


def _see_several_devices(identities: Iterable[Identity]) -> bool:
    """Whether a process of NCCL's lines has another device than its first one."""
    return any(i.device for i in identities if i.pid is not None)


def _share_a_device(identities: Iterable[Identity]) -> bool:
    """Whether several processes of a host bear one device number, as where each sees its own device only."""
    pids: dict[tuple[str | None, int | None, int], set[int]] = defaultdict(set)
    for i in identities:
        if i.device is not None and i.pid is not None:
            pids[i.node, i.attempt, i.device].add(i.pid)
    return any(len(group) > 1 for group in pids.values())


def _many_tasks_on_a_host(observations: Iterable[Observation]) -> bool:
    """Whether srun says of one host that it ran several tasks: `srun: error: n6: tasks 0-7: Terminated`."""
    for o in observations:
        tasks = o.captures.get("tasks") or o.captures.get("task") or ""
        if re.search(r"[-,]", tasks) and not re.search(r"[\[,]", o.captures.get("node", "[")):
            return True
    return False


def _more_tasks_than_hosts(observations: Sequence[Observation]) -> bool:
    """Whether a task's number is higher than that of its host among the hosts of its step can be.

    Slurm's lists of hosts are in order, the first one's daemon tells of a step's end (nodeid 0, slurmstepd/req.c), and
    tasks are counted through them: with one task on each, task 9 is nine hosts behind the first, and not on the next.
    """
    firsts = [m for o in observations if (m := _FIRST_HOST.search(o.evidence[0].text))]
    for o in observations if firsts else ():
        m = _NUMBERED_HOST.fullmatch(o.captures.get("node", "")) if whose.SRUN_SAYS in o.evidence[0].text else None
        tasks = task_list(o) if m is not None else ()
        for first in firsts if m is not None and tasks else ():
            one_scheme = m is not None and (m["before"], m["after"]) == (first["before"], first["after"])
            apart = int(m["number"]) - int(first["number"]) if m is not None and one_scheme else -1
            if 0 <= apart < max(tasks):
                return True
    return False


def _many_files_on_a_host(sources: Iterable[Source]) -> bool:
    """Whether files are named after several tasks of one host."""
    tasks: dict[str, set[int]] = defaultdict(set)
    for s in sources:
        if s.identity.node is not None and s.identity.task is not None:
            tasks[s.identity.node].add(s.identity.task)
    return any(len(own) > 1 for own in tasks.values())


def _listed_tasks(observations: Iterable[Observation]) -> set[int]:
    """All tasks that lines of srun's name, by ranges also: `tasks 0-7: Terminated`."""
    told = (o.captures.get("tasks") or o.captures.get("task") or "" for o in observations)
    return {task for tasks in told for task in rank_list(tasks.strip("[]")) if task < MAX_RANKS}


def _silent_tasks(observations: Sequence[Observation], tracebacks: Sequence[Traceback], ranks: Collection[int]) -> bool:
    """Whether the tasks of which srun tells in one line are just the ranks that say of no failure while most others do.

    A task that drives several ranks, its number above 0, drives none that bears that number.
    """
    failed = {t.identity.rank for t in tracebacks} | {o.identity.rank for o in observations if o.signature in MISSED}
    silent = set(ranks) - failed
    if not silent or 2 * len(silent) > len(ranks):
        return False
    told = (task_list(o) for o in observations)
    return any(max(tasks) > 0 and set(tasks) == silent for tasks in told if tasks)


def task_list(o: Observation) -> tuple[int, ...]:
    """The tasks that a line of srun's names; empty where it names none, or several hosts with theirs."""
    if re.search(r"[\[,]", o.captures.get("node", "[")):
        return ()
    return tuple(rank_list((o.captures.get("tasks") or o.captures.get("task") or "").strip("[]")))


def _tasks_are_ranks(
    identities: Sequence[Identity],
    size: int | None,
    several: bool,
    *,
    many_on_a_host: bool = False,
    many_files_of_a_host: bool = False,
    silent: bool = False,
) -> bool:
    """Whether each Slurm task drives one rank, so that its number is that rank's.

    The other common way is one task a host, which drives the ranks of all its devices. Then tasks are half as many as
    ranks or fewer, and only task 0 bears the number of one of its ranks. silent: see `_silent_tasks`.
    """
    tasks = {i.task for i in identities if i.task is not None}
    both = {(i.task, i.rank) for i in identities if i.task is not None and i.rank is not None}
    if any(task != rank for task, rank in both):
        return False
    if silent:
        return True
    if not tasks:
        return many_on_a_host
    if any(task for task, _ in both) or many_on_a_host:
        return True
    if size is None:
        return not several or many_files_of_a_host
    return 2 * (max(tasks) + 1) > size


def _without_node(table: dict[tuple[str | None, Any], int]) -> None:
    """Let a key be found without its node where only one node has it: kernel logs often name no host."""
    ranks: dict[Any, set[int]] = {}
    for (_, key), rank in table.items():
        ranks.setdefault(key, set()).add(rank)
    table.update({(None, key): found.pop() for key, found in ranks.items() if len(found) == 1})


def _in_order(spans: Mapping[_Launch, tuple[float, float]]) -> dict[_Launch, int]:
    """(folder, attempt of its path) -> attempt of the run, by the times between which each was written."""
    whole: dict[str, tuple[float, float]] = {}
    for (folder, _), (low, high) in spans.items():
        begin, end = whole.get(folder, (low, high))
        whole[folder] = (min(begin, low), max(end, high))
    launches: list[set[str]] = []
    last = float("-inf")
    for folder, (low, high) in sorted(whole.items(), key=lambda item: (item[1][0], item[0])):
        if low > last:
            launches.append(set())
        launches[-1].add(folder)
        last = max(last, high)
    number: dict[_Launch, int] = {}
    for folders in launches:
        first = max(number.values(), default=-1) + 1
        of_launch = _of_launch({key: span for key, span in spans.items() if key[0] in folders})
        number |= {key: first + n for key, n in of_launch.items()}
    return number


def _of_launch(spans: Mapping[_Launch, tuple[float, float]]) -> dict[_Launch, int]:
    """The attempts of one launch.

    Nodes that have been there from beginning to end count alike. One that joins later begins at 0 nevertheless: it is
    of the attempt with which its times overlap. Two attempts of one folder are never one, whatever clocks say.
    """
    counted: dict[str, list[int]] = defaultdict(list)
    for folder, attempt in sorted(spans):
        counted[folder].append(attempt)
    first, *others = counted.values()
    if all(attempts == first for attempts in others):
        return {(folder, attempt): attempt for folder, attempt in spans}
    number: dict[_Launch, int] = {}
    n, end = min(attempt for _, attempt in spans) - 1, float("-inf")
    nodes: set[str] = set()  # folders that have taken part in attempt n
    for key, (low, high) in sorted(spans.items(), key=lambda item: (item[1][0], item[0])):
        if low > end or key[0] in nodes:
            n, end, nodes = n + 1, high, {key[0]}
        else:
            end = max(end, high)
            nodes.add(key[0])
        number[key] = n
    return number


def number_attempts(data: RunData) -> RunData:
    """Give every source, and what was read from it, its attempt: launches that follow each other count on.

    Launch folders (`<run id>_<random>/attempt_N/`) whose times overlap are the nodes of one launch, which number their
    attempts alike; those that follow each other are one launch after the other.
    """
    spans: dict[_Launch, tuple[float, float]] = {}
    for writer in data.writers:
        m = _RUN_FOLDER.match(writer.source)
        if m is None or writer.first_time is None or writer.last_time is None:
            continue
        key = (m["folder"], int(m["attempt"]))
        low, high = spans.get(key, (writer.first_time, writer.last_time))
        spans[key] = (min(low, writer.first_time), max(high, writer.last_time))
    number = _in_order(spans)
    of_source: dict[str, int | None] = {}
    for source in data.sources:
        m = _RUN_FOLDER.match(source.path)
        of_source[source.path] = (
            number.get((m["folder"], int(m["attempt"])), int(m["attempt"])) if m else source.identity.attempt
        )
    named = sorted({a for a in of_source.values() if a is not None})
    if named and named[0] == 1 and not number:  # attempt1, attempt2: people count from 1
        of_source = {path: None if a is None else a - 1 for path, a in of_source.items()}

    def numbered(identity: Identity, path: str) -> Identity:
        attempt = of_source.get(path)
        return identity if identity.attempt == attempt else replace(identity, attempt=attempt)

    sources = tuple(replace(s, identity=numbered(s.identity, s.path)) for s in data.sources)
    return replace(
        data,
        metrics=_numbered_rows(data.metrics, of_source),
        sources=sources,
        observations=tuple(_with(o, numbered(o.identity, o.evidence[0].file)) for o in data.observations),
        tracebacks=tuple(replace(t, identity=numbered(t.identity, t.header.file)) for t in data.tracebacks),
        writers=tuple(replace(w, identity=numbered(w.identity, w.source)) for w in data.writers),
    )


def _with_culprits(o: Observation, world: World, hosts: whose.Hosts) -> Observation:
    """An observation that names a pod, a host that went down or another process, with the ranks of these."""
    told = o.captures
    if "pod" in told and o.culprits in (None, ()) and (rank := hosts.of_pod(told["pod"])) is not None:
        return replace(o, identity=replace(o.identity, rank=rank), culprits=(rank,))
    if o.signature == TASK_KILLED and o.culprits in (None, ()) and o.identity.task is None and world.tasks_are_ranks:
        tasks = task_list(o)
        if tasks and world.size is not None and len(tasks) < world.size:  # what ends all of them names none
            return replace(o, culprits=tasks)
    if o.culprits is None and (alone := _alone_on_its_host(o, world, hosts)) is not None:
        return replace(o, culprits=(alone,))
    if o.culprits != ():
        return o
    if told.get("victim", "").isdigit():
        rank = world.rank_of_pid.get((o.identity.node, int(told["victim"])))
        return o if rank is None else replace(o, culprits=(rank,))
    if o.signature == HOST_DOWN and "node" in told and (ranks := hosts.all_ranks(told["node"], world.size)):
        return replace(o, culprits=ranks)
    return o


def _alone_on_its_host(o: Observation, world: World, hosts: whose.Hosts) -> int | None:
    """The rank that a kernel's line without a process befalls: the only one on its host, of several with one each."""
    line = read_line(o.evidence[0].text) if o.identity.node is not None and world.of(o) is None else None
    if line is None or not line.by_kernel or o.identity.node is None or o.captures.get("pid", "").isdigit():
        return None
    ranks = hosts.all_ranks(o.identity.node, world.size) if world.size != 1 and UNPLACED not in o.captures else ()
    return ranks[0] if len(ranks) == 1 else None


def _with(o: Observation, identity: Identity) -> Observation:
    """The observation with that identity: the same object where it has it, as nearly all have."""
    return o if o.identity is identity else replace(o, identity=identity)


def _numbered_rows(metrics: pl.DataFrame, of_source: Mapping[str, int | None]) -> pl.DataFrame:
    """The metrics with the attempts of their sources."""
    import polars as pl

    known = {path: attempt for path, attempt in of_source.items() if attempt is not None}
    if not metrics.height or not known:
        return metrics
    if are_few(metrics):
        pairs = zip(metrics["source"].to_list(), metrics["attempt"].to_list(), strict=True)
        return metrics.with_columns(pl.Series("attempt", [known.get(path, own) for path, own in pairs], pl.Int32))
    attempts = pl.col("source").replace_strict(known, default=None, return_dtype=pl.Int32)
    return metrics.with_columns(pl.coalesce(attempts, "attempt").alias("attempt"))


def in_their_attempts(observations: Iterable[Observation], sources: Iterable[Source]) -> list[Observation]:
    """Observations that were made of several lines or of numbers, with the attempt of the source of their key line."""
    of_source = {s.path: s.identity.attempt for s in sources}
    return [
        o
        if o.identity.attempt is not None or (attempt := of_source.get(o.evidence[0].file)) is None
        else replace(o, identity=replace(o.identity, attempt=attempt))
        for o in observations
    ]


def _local_to_global(metrics: pl.DataFrame, sources: Iterable[Source], world: World) -> pl.DataFrame:
    """The metrics with local ranks of a node's merged log as global ones, where the node's map is known.

    Lines such as `[default3]:step 7` name a local rank only, and their rows bear it as their rank. A number that is one
    of the node's global ranks is taken for that.
    """
    import polars as pl

    if not metrics.height or world.one_host:
        return metrics
    of_node: dict[str, dict[int, int]] = {}
    for (node, local), rank in world.rank_of.items():
        if node is not None:
            of_node.setdefault(node, {})[local] = rank
    column = as_it_is = pl.col("rank")
    for source in sources:
        known = of_node.get(source.identity.node or "", {})
        wrong = {local: rank for local, rank in known.items() if local != rank and local not in known.values()}
        if wrong and source.identity.rank is None and source.identity.local_rank is None:
            mine = pl.col("source") == source.path
            named = pl.col("rank").replace_strict(wrong, default=pl.col("rank"), return_dtype=pl.Int32)
            column = pl.when(mine).then(named).otherwise(column)
    return metrics if column is as_it_is else metrics.with_columns(column.alias("rank"))


def _ranked_rows(metrics: pl.DataFrame, of_source: Mapping[str, int]) -> pl.DataFrame:
    """The metrics with the ranks of their sources, where they bear none."""
    import polars as pl

    if not metrics.height or not of_source:
        return metrics
    if are_few(metrics):
        pairs = zip(metrics["source"].to_list(), metrics["rank"].to_list(), strict=True)
        ranks = [of_source.get(path) if own is None else own for path, own in pairs]
        return metrics.with_columns(pl.Series("rank", ranks, pl.Int32))
    named = pl.col("source").replace_strict(of_source, default=None, return_dtype=pl.Int32)
    return metrics.with_columns(pl.coalesce("rank", named).alias("rank"))


def place_ranks(data: RunData, world: World) -> RunData:
    """Give every observation, traceback, writer and metric row its global rank, where it can be known."""
    data = replace(data, observations=tuple(whose.reraised(data.observations)))
    alone = whose.writers(data.observations)
    sections = whose.Sections(data.observations)
    folders = whose.folders(data.observations)
    in_files = whose.locals_in_files(data.observations)

    writing: dict[str, set[int]] = defaultdict(set)
    for (file, _), writer in alone.items():
        writing[file].add(writer)
    # The rank that alone writes a file, whatever host its lines name.
    files = {file: next(iter(ranks)) for file, ranks in writing.items() if len(ranks) == 1}
    files = {twin: rank for file, rank in files.items() if (twin := whose.other_stream(file))} | files

    # In the file of a rank other than 0 a launcher speaks of its own host's first process, which is that rank.
    named_by = {s.path: s.identity.rank for s in data.sources if s.identity.rank and s.identity.local_rank is None}
    tables = whose.Tables(data.observations, world.global_rank)

    def placed(identity: Identity, path: str, line: int | None = None) -> Identity:
        rank = sections.rank(path, line)
        if rank is None and identity.rank is None:
            rank = alone.get((path, identity.node), files.get(path))
        if rank is None and identity.rank is None and identity.local_rank == 0:
            rank = named_by.get(path)
        if rank is None and identity.rank is None and (folder := whose.worker_folder(path)):
            rank = folders.get(folder)
        known = identity if identity.device is None else replace(identity, device=None)
        if identity is not known and rank is None and world.global_rank(known) is None:
            guessed = (identity.node, identity.device) not in world.rank_of_device
            if guessed and tables.speak_against(world.global_rank(identity), path, line):
                identity = known
        if rank is None and identity.rank is None and world.global_rank(known) is None:
            index = identity.local_rank if identity.local_rank is not None else identity.device
            rank = in_files.get((path, index)) if index is not None else None
        if rank is None:
            rank = world.global_rank(identity)
        if rank is None:
            rank = sections.rank_of_error(path, line, identity)
        return identity if rank == identity.rank else replace(identity, rank=rank)

    sources = tuple(replace(s, identity=placed(s.identity, s.path)) for s in data.sources)
    tracebacks = [replace(t, identity=placed(t.identity, t.header.file, t.header.line)) for t in data.tracebacks]

    def place_of(o: Observation) -> tuple[str, int | None]:
        return o.evidence[0].file, o.evidence[0].line

    def in_traceback(o: Observation, raised: Mapping[tuple[str, int | None], Identity]) -> Observation:
        """What the last line of a traceback says, said by the process that raised it."""
        if o.identity.rank is not None or (by := raised.get(place_of(o))) is None:
            return o
        return replace(o, identity=o.identity.over(by)) if by.rank is not None or by.pid is not None else o

    raised = whose.last_lines(tracebacks)
    observations = [in_traceback(o, raised) for o in data.observations]
    observations = [_with(o, placed(o.identity, *place_of(o))) for o in map(sections.quoted, observations)]
    ends = {(t.final.file, t.final.line): n for n, t in enumerate(tracebacks)}
    told = {ends[at]: rank for o in observations if (at := place_of(o)) in ends and (rank := world.of(o)) is not None}
    failed = whose.failed_workers(tracebacks, observations)
    failed |= whose.failed_tasks(tracebacks, observations) if world.tasks_are_ranks else {}
    failed |= whose.failed_by_mpi(tracebacks, observations)
    for n, worker in failed.items():
        if told.get(n, worker.rank) == worker.rank:
            tracebacks[n] = replace(tracebacks[n], identity=tracebacks[n].identity.over(replace(worker, pid=None)))
    raised = whose.last_lines(tracebacks)
    observations = [in_traceback(o, raised) for o in observations]
    hosts = whose.Hosts(sources, observations, world.tasks_are_ranks)
    observations = [_with_culprits(o, world, hosts) for o in observations]
    of_source = {s.path: s.identity.rank for s in sources if s.identity.rank is not None}
    metrics = _ranked_rows(_local_to_global(data.metrics, data.sources, world), of_source)
    return replace(
        data,
        sources=sources,
        observations=tuple(observations),
        tracebacks=tuple(tracebacks),
        writers=tuple(replace(w, identity=placed(w.identity, w.source)) for w in data.writers),
        metrics=metrics,
    )
