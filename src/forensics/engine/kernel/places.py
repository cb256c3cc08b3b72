"""Which GPU, process and rank a kernel line speaks of, by what the run's own files say of devices and processes.

A PCI bus id is a rank's where NCCL's init lines say so (engine.identity). Else nvidia-smi's listings give the GPU's
index and the processes on it, and the kernel's own lines the card's UUID. Nothing is assumed beyond that: an index is a
local rank only where the run has one process for each GPU of one host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from forensics.engine import whose
from forensics.engine.identity import World, kernel_sources, pci_bus
from forensics.engine.kernel import KILLED, UNPLACED, in_words_of_kernel, owners
from forensics.engine.kernel.cards import LISTED, Place, cards
from forensics.model import Identity, Observation, RunData
from forensics.parsers.kernel import xid
from forensics.parsers.kernel.lines import read_line

# Signs that one process is another one's child: its parent, a rank, names it by its pid.
CHILDREN = (
    "dataloader-worker-killed",
    "dataloader-worker-segfault",
    "dataloader-worker-lost",
    "background-worker-died",
)


@dataclass(frozen=True, slots=True)
class Listing:
    """GPUs of the run's hosts as nvidia-smi and the driver list them."""

    index: Mapping[Place, int] = field(default_factory=dict)
    pids: Mapping[tuple[str | None, int], frozenset[int]] = field(default_factory=dict)  # (node, index) -> processes
    number: Mapping[str | None, int] = field(default_factory=dict)  # node -> GPUs listed

    def of(self, node: str | None, bus: str, one_host: bool) -> int | None:
        """The index of a GPU; where line or listing names no host, only in a run of one host."""
        if node is not None and (node, bus) in self.index:
            return self.index[node, bus]
        told = {i for (n, b), i in self.index.items() if b == bus and (n is None or node is None or n == node)}
        return next(iter(told)) if one_host and len(told) == 1 else None


def listing(observations: Iterable[Observation]) -> Listing:
    """What nvidia-smi's tables, lists and reports say; contradictions are left out."""
    marks = [o for o in observations if o.signature == LISTED]
    told: dict[Place, set[int]] = defaultdict(set)
    bus_of_uuid: dict[str, set[Place]] = defaultdict(set)
    index_of_uuid: dict[str, set[int]] = defaultdict(set)
    pids: dict[tuple[str | None, int], set[int]] = defaultdict(set)
    blocks: dict[str, list[tuple[int, Place]]] = defaultdict(list)
    attached: dict[str, int] = {}
    for o in marks:
        node, got = o.identity.node, o.captures
        bus = pci_bus(got.get("bus", "").lower())
        gpu = int(got["gpu"]) if got.get("gpu", "").isdigit() else None
        uuid = got.get("uuid", "").lower()
        if got.get("attached", "").isdigit():
            attached[o.evidence[0].file] = int(got["attached"])
        if bus is not None and gpu is not None:
            told[node, bus].add(gpu)
        elif bus is not None and not uuid:
            blocks[o.evidence[0].file].append((o.evidence[0].line or 0, (node, bus)))
        if bus is not None and uuid:
            bus_of_uuid[uuid].add((node, bus))
        if gpu is not None and uuid:
            index_of_uuid[uuid].add(gpu)
        if gpu is not None and got.get("pid", "").isdigit():
            pids[node, gpu].add(int(got["pid"]))
    for file, members in blocks.items():  # nvidia-smi -q: a block for each GPU, in the order of their indices
        ordered = list(dict.fromkeys(place for _, place in sorted(members)))
        if attached.get(file) == len(ordered):
            for n, place in enumerate(ordered):
                told[place].add(n)
    for uuid, places in bus_of_uuid.items():
        if len(places) == 1 and len(index_of_uuid[uuid]) == 1:
            told[next(iter(places))].add(next(iter(index_of_uuid[uuid])))
    index = {place: next(iter(gpus)) for place, gpus in told.items() if len(gpus) == 1}
    number: dict[str | None, int] = defaultdict(int)
    for node, _ in index:
        number[node] += 1
    return Listing(index, {key: frozenset(group) for key, group in pids.items()}, dict(number))


def place(data: RunData, world: World) -> RunData:
    """The run with kernel observations under its own names of hosts, with devices and pids where files prove them."""
    known, named_cards = listing(data.observations), cards(data.observations)
    kernels = [o for o in data.observations if _of_kernel(o)]
    system, named = {id(o) for o in kernels}, {o.identity.node for o in kernels} - {None}
    aliases = _aliases(data, system)
    parents = _parents(data.observations)
    workers = _workers(data.observations, world)
    children = {*parents, *(pid for pids in known.pids.values() for pid in pids)}
    own = owners.owned(data, world, kernels, children)
    # A kernel log in a host's folder is that host's, whatever the kernel calls it.
    folders = {s.path: s.identity.node for s in data.sources if s.identity.node in own.hosts}
    at_work = _at_work(kernels)
    saying = owners.saying((o for o in data.observations if id(o) not in system), world)
    observations = []
    for o in data.observations:
        if o.signature == LISTED:
            observations.append(o)
            continue
        by_kernel = id(o) in system
        if by_kernel:
            node = aliases.get(o.identity.node or "")
            if node is None and o.identity.node not in own.hosts:
                node = folders.get(o.evidence[0].file)
            o = replace(o, identity=replace(o.identity, node=node)) if node is not None else o
            o = owners.claimed(o, own, len(named))
            o = owners.of_another_process(o, saying, world)
        if UNPLACED in o.captures:
            observations.append(o)
            continue
        if (bus := pci_bus(o.captures.get("bdf", ""))) is not None:
            o = _on_gpu(o, bus, known, world)
            o = _on_card_of_a_rank(o, at_work.get((o.evidence[0].file, bus), frozenset()), world)
        pid = o.captures.get("pid", "")
        if pid.isdigit() and o.identity.rank is None and o.culprits is None and by_kernel:
            told = parents.get(int(pid), set())
            known_rank = world.global_rank(replace(o.identity, device=None))
            if len(told) == 1 and known_rank is None:
                o = replace(o, culprits=tuple(told))
            elif known_rank is None and (worker := _worker(o, int(pid), workers)) is not None:
                o = replace(o, identity=replace(o.identity, rank=worker.rank, local_rank=worker.local_rank))
        observations.append(named_cards.named(o, world))
    return replace(data, observations=tuple(owners.of_victims(observations, own, _of_kernel)))


def _of_kernel(o: Observation) -> bool:
    line = read_line(o.evidence[0].text)
    return line.by_kernel if line is not None else in_words_of_kernel(o.evidence[0].text)


def _at_work(kernels: Iterable[Observation]) -> dict[tuple[str, str], frozenset[int]]:
    """(kernel log, PCI bus id) -> the processes that the driver names as those whose work was on that GPU."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for o in kernels:
        bus, number = pci_bus(o.captures.get("bdf", "")), o.captures.get("xid", "")
        if bus is not None and o.identity.pid is not None and number.isdigit() and int(number) in xid.OF_THE_PROCESS:
            found[o.evidence[0].file, bus].add(o.identity.pid)
    return {place: frozenset(pids) for place, pids in found.items()}


def _on_card_of_a_rank(o: Observation, at_work: Set[int], world: World) -> Observation:
    """A fault of a GPU with the process that alone had work there, where that is a rank's and nothing else tells one.

    What a fault of hardware names is whoever called the driver. What the driver clears away then is the work of the
    process that used the GPU.
    """
    if len(at_work) != 1 or o.identity.pid is not None or world.of(o) is not None:
        return o
    identity = replace(o.identity, pid=next(iter(at_work)))
    return o if world.global_rank(identity) is None else replace(o, identity=identity)


def _on_gpu(o: Observation, bus: str, known: Listing, world: World) -> Observation:
    """An observation of a GPU with its index, and with its process where one alone used it."""
    if (gpu := known.of(o.identity.node, bus, world.one_host)) is None:
        return o
    identity = o.identity
    proven = any(key in world.rank_of_bus for key in ((identity.node, bus), (None, bus)))
    if not proven and identity.pid is None:
        on_it = known.pids.get((identity.node, gpu)) or known.pids.get((None, gpu)) or frozenset()
        if len(on_it) == 1:
            identity = replace(identity, pid=next(iter(on_it)))
    listed = known.number.get(identity.node) or known.number.get(None)
    if not proven and identity.device is None and world.one_host and world.size is not None and world.size == listed:
        identity = replace(identity, device=gpu)
    return replace(o, identity=identity, captures={**o.captures, "gpu": str(gpu)})


def _aliases(data: RunData, system: Set[int]) -> dict[str, str]:
    """Name of a host in a kernel log -> the run's name for it, where both have one part before the first dot.

    system: the kernel's lines, by their id().
    """
    logs = kernel_sources(data)
    of_kernel = {o.identity.node for o in data.observations if o.identity.node and id(o) in system}
    of_run = {s.identity.node for s in data.sources if s.identity.node and s.path not in logs}
    of_run |= {o.identity.node for o in data.observations if o.identity.node and id(o) not in system}
    found = {}
    for node in of_kernel - of_run:
        same = {n for n in of_run if n and n.split(".")[0] == node.split(".")[0]}
        if len(same) == 1:
            found[node] = next(iter(same))
    return found


def _workers(observations: Sequence[Observation], world: World) -> dict[int, set[tuple[Identity, str | None]]]:
    """pid -> (rank or local rank with its host, exit code) of the workers that a launcher reports by their pids."""
    found: dict[int, set[tuple[Identity, str | None]]] = defaultdict(set)
    for o in observations:
        got = o.captures
        if not got.get("pid", "").isdigit() or _of_kernel(o):
            continue
        rank = int(got["rank"]) if got.get("rank", "").isdigit() else o.identity.rank
        local = int(got["local_rank"]) if got.get("local_rank", "").isdigit() else None
        if "exitcode" in got and (rank is not None or local is not None):
            host = o.identity.node or (world.host_of.get(rank) if rank is not None else None)
            found[int(got["pid"])].add((Identity(rank=rank, local_rank=local, node=host), got["exitcode"]))
    return found


def _worker(o: Observation, pid: int, workers: Mapping[int, set[tuple[Identity, str | None]]]) -> Identity | None:
    """The worker that a kernel line names by its pid, where the launcher saw it end as that line says.

    Containers count their processes anew, so that a pid alone may be another host's or container's.
    """
    code = KILLED.get(o.signature)
    told = [
        identity
        for identity, exit_code in workers.get(pid, ())
        if (code is None or exit_code == code) and not whose.apart(o.identity.node, identity.node)
    ]
    ranks = {i.rank for i in told if i.rank is not None}
    locals_ = {i.local_rank for i in told if i.local_rank is not None}
    if len(ranks) == 1:
        return Identity(rank=next(iter(ranks)))
    return Identity(local_rank=next(iter(locals_))) if not ranks and len(locals_) == 1 else None


def _parents(observations: Sequence[Observation]) -> dict[int, set[int]]:
    """pid of a rank's child -> ranks that name it in their own log."""
    found: dict[int, set[int]] = defaultdict(set)
    for o in observations:
        pid = o.captures.get("pid", "")
        if o.signature in CHILDREN and pid.isdigit() and o.identity.rank is not None:
            found[int(pid)].add(o.identity.rank)
    return found
