"""Whose a kernel's line is: of a host, a card or a process that is known to be none of the run's.

A folder of logs often holds kernel logs of hosts on which the run was not, and of what else ran on its own. Containers
have names and process numbers of their own: another name is another host's only where both follow one scheme and every
rank's host is known, and another number is never proof by itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forensics.engine import whose
from forensics.engine.identity import World, kernel_sources, pci_bus
from forensics.engine.kernel import FOREIGN, KILLED, UNPLACED
from forensics.engine.kernel.clock import SAID_BY_PROGRAMS
from forensics.model import Observation, RunData
from forensics.parsers.kernel import xid

# Values of the capture FOREIGN; VICTIM is also the capture that says where those that were killed were.
HOST, CARD, PROCESS, VICTIM = "host", "gpu", "process", "victim"
# Capture of a line of another process, where the process of each rank that may be meant is known.
KNOWN = "processes_known"
# What else than an exit code says of a process that a signal ended it.
SAID = {"-9": ("sigkill-unknown-sender",), "-11": ("rank-segfault",)}
TAKEN = "Host {node} is taken to be {host}: the run and its kernel logs name one each"
# The driver's messages that name a GPU. An SXid names a switch, and PCIe's own messages any device.
_OF_A_CARD = re.compile(r"\bXid \(|NVRM: GPU ")


@dataclass(frozen=True, slots=True)
class Owned:
    """What is known of the run's hosts, cards and processes."""

    hosts: frozenset[str]
    every_host: bool  # each rank's host is known
    cards: Mapping[str | None, frozenset[str]]  # host, or None for all -> PCI bus ids; empty where a rank has none
    pids: Mapping[str | None, frozenset[int]]  # host, or None for all -> processes that the run names
    one_host: bool
    every_process: bool  # the process of each rank is known
    identified: frozenset[tuple[str | None, str]]  # (host or None, PCI bus id) of ranks whose process is known
    # signal as an exit code -> hosts of the processes that ended by it; None stands for one whose host is not known
    dead: Mapping[str, frozenset[str | None]] = field(default_factory=dict)


def owned(data: RunData, world: World, of_kernel: Iterable[Observation], children: Iterable[int]) -> Owned:
    """What the run's own files say. of_kernel: the kernel's lines; children: processes that ranks call theirs."""
    kernels = kernel_sources(data)
    system = {id(o) for o in of_kernel}
    hosts: set[str] = {s.identity.node for s in data.sources if s.identity.node and s.path not in kernels}
    placed: set[int] = set()
    pids: dict[str | None, set[int]] = defaultdict(set)
    for o in data.observations:
        if id(o) in system or o.evidence[0].file in kernels:
            continue
        if o.identity.node:
            hosts.add(o.identity.node)
            if (rank := world.global_rank(o.identity)) is not None:
                placed.add(rank)
        pid = o.captures.get("pid", "")
        for number in (int(pid) if pid.isdigit() else None, o.identity.pid):
            if number is not None:
                pids[o.identity.node].add(number)
    for node, number in world.rank_of_pid:
        pids[node].add(number)
    every = set().union(*pids.values(), children)
    cards: dict[str | None, set[str]] = defaultdict(set)
    everyone = set(range(world.size)) if world.size is not None and world.size_is_stated else None
    if everyone and everyone <= set(world.rank_of_bus.values()):
        for node, bus in world.rank_of_bus:
            cards[node].add(bus)
            cards[None].add(bus)
    with_process = set(world.rank_of_pid.values())
    return Owned(
        hosts=frozenset(hosts),
        every_host=everyone is not None and everyone <= placed,
        cards={node: frozenset(buses) for node, buses in cards.items()},
        pids={node: frozenset(numbers) for node, numbers in pids.items()} | {None: frozenset(every)},
        one_host=world.one_host,
        every_process=everyone is not None and everyone <= with_process,
        identified=frozenset(place for place, rank in world.rank_of_bus.items() if rank in with_process),
        dead=_dead((o for o in data.observations if id(o) not in system and o.evidence[0].file not in kernels), world),
    )


def _dead(observations: Iterable[Observation], world: World) -> dict[str, frozenset[str | None]]:
    """The hosts of the processes that launchers saw end by a signal, by what their lines or their ranks tell.

    Several lines tell of one process under its pid, and one of them of its host.
    """
    hosts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # signal -> process -> its hosts
    for o in observations:
        rank, code, pid = world.of(o), o.captures.get("exitcode", ""), o.captures.get("pid", "")
        for signal in set(KILLED.values()):
            ended = code in (signal, str(128 - int(signal)))
            if ended or (not code and rank is not None and o.signature in SAID.get(signal, ())):
                host = o.identity.node or (world.host_of.get(rank) if rank is not None else None)
                hosts[signal][f"pid {pid}" if pid else f"rank {rank}"].update([host] if host else [])
    return {
        signal: frozenset(host for told in processes.values() for host in (*told, *([] if told else [None])))
        for signal, processes in hosts.items()
    }


def claimed(o: Observation, known: Owned, hosts_of_kernels: int) -> Observation:
    """A kernel's line with what it is of, where that is none of the run's; it then names no rank.

    hosts_of_kernels: of how many hosts the run holds kernel logs that name them.
    """
    node = o.identity.node
    if node is not None and known.hosts and node not in known.hosts:
        alike = any(whose.scheme(node) == whose.scheme(host) for host in known.hosts)
        if alike and known.every_host:
            return _unplaced(o, {FOREIGN: HOST})
        if _no_victim_of(o, known):
            return _of_another(o, known)
        if alike or len(known.hosts) > 1 or hosts_of_kernels > 1:
            return _unplaced(o, {})
        (host,) = known.hosts
        note = TAKEN.format(node=node, host=host)
        o = replace(o, identity=replace(o.identity, node=host), note=f"{o.note}. {note}" if o.note else note)
        node = host
    pid, number = o.captures.get("pid", ""), o.captures.get("xid", "")
    names_it = pid.isdigit() and (o.signature in KILLED or (number.isdigit() and int(number) in xid.OF_THE_PROCESS))
    if _no_victim_of(o, known):
        return _of_another(o, known)
    if names_it and int(pid) in known.pids[None]:
        return o
    at = node if node in known.cards else None
    bus = pci_bus(o.captures.get("bdf", ""))
    if bus is not None and known.cards and bus not in known.cards[at] and _OF_A_CARD.search(o.evidence[0].text):
        return _unplaced(o, {FOREIGN: CARD})
    if names_it and known.pids[None]:
        sure = known.every_process or bool({(node, bus), (None, bus)} & known.identified)
        return replace(o, captures={**o.captures, FOREIGN: PROCESS, **({KNOWN: "yes"} if sure else {})})
    return o


def saying(observations: Iterable[Observation], world: World) -> dict[str, frozenset[int | None]]:
    """Signature -> the ranks whose own lines tell of it; None stands for a line of nobody known."""
    found: dict[str, set[int | None]] = defaultdict(set)
    for o in observations:
        found[o.signature].add(world.of(o))
    return {name: frozenset(ranks) for name, ranks in found.items()}


def of_another_process(o: Observation, said: Mapping[str, frozenset[int | None]], world: World) -> Observation:
    """A line of another process than the run's, apart from what ranks say of their own cards: it then names no rank.

    A rank in a container is known by another number. Where its card is meant, and it tells of the same, it is that one.
    """
    if o.captures.get(FOREIGN) != PROCESS or KNOWN not in o.captures or o.signature in KILLED:
        return o
    ranks = frozenset().union(*(said.get(name, ()) for name in (o.signature, *SAID_BY_PROGRAMS.get(o.signature, ()))))
    return o if not ranks or {None, world.of(o)} & ranks else _unplaced(o, {})


def of_victims(
    observations: Sequence[Observation], known: Owned, of_kernel: Callable[[Observation], bool]
) -> list[Observation]:
    """The observations without kills of other processes, where one is of a process that the run's own files name.

    A kernel keeps its lines for weeks: with such a kill of a data base the run's would seem to be as old.
    """

    def is_of_run(o: Observation) -> bool:
        pid = o.captures.get("pid", "")
        return pid.isdigit() and int(pid) in known.pids[None] and FOREIGN not in o.captures and of_kernel(o)

    own = {o.signature for o in observations if o.signature in KILLED and is_of_run(o)}
    return [o for o in observations if o.signature not in own or o.captures.get(FOREIGN) != PROCESS]


def _no_victim_of(o: Observation, known: Owned) -> bool:
    """Whether a line is of a process that was killed, and all that launchers saw end so were on other hosts."""
    node, pid = o.identity.node, o.captures.get("pid", "")
    if pid.isdigit() and int(pid) in known.pids.get(node, frozenset()):
        return False
    theirs = known.dead.get(KILLED.get(o.signature, ""), frozenset())
    return bool(theirs) and all(whose.apart(node, host) for host in theirs)


def _of_another(o: Observation, known: Owned) -> Observation:
    theirs = sorted(host for host in known.dead[KILLED[o.signature]] if host)
    return _unplaced(o, {FOREIGN: VICTIM, VICTIM: ", ".join(theirs[:3])})


def _unplaced(o: Observation, marks: Mapping[str, str]) -> Observation:
    identity = replace(o.identity, rank=None, local_rank=None, pid=None, device=None)
    return replace(o, identity=identity, culprits=(), captures={**o.captures, UNPLACED: "yes", **marks})
