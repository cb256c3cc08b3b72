"""Nodes and GPUs that had hardware, host or network causes in several jobs, and which of them to drain.

Only causes count that lie in a machine: a node on which somebody's bug failed twice is no bad node. A node is compared
with the other nodes of the same triage, so that what happens everywhere (a bad image, a switch) drains nobody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forensics.triage.insight.model import DRAIN, WATCH, FlakyUnit, HardwareEvent, Share
from forensics.triage.insight.rows import once, seconds
from forensics.triage.insight.statistics import fisher_greater, holm, risk_ratio
from forensics.triage.model import JobResult, Sign

# Slugs of the catalogue whose cause lies in a machine or its network, and not in code, settings or a limit. Causes that
# a fault of the program or its settings brings about as well (an illegal access, a bus error, no visible GPU, Xid 13
# and 31) are not among them.
CAUSES = frozenset({
    "gpu-ctx-switch-timeout", "gpu-ecc-uncorrectable", "gpu-fell-off-bus", "gpu-hang", "gpu-hardware", "gpu-pmu-halt",
    "gpu-row-remap", "gpu-thermal-throttle", "gsp-firmware-crash", "nvlink-fatal-error", "nvswitch-nonfatal-error",
    "pcie-corrected-errors", "pcie-link-failure", "fabric-manager-not-ready", "nvml-driver-mismatch",
    "cuda-unknown-error", "mnnvl-imex-failure", "ib-link-flap", "nic-failure", "nic-degraded", "nccl-network-timeout",
    "nccl-connect-failed", "host-hardware-error", "host-errors-corrected", "host-cpu-stuck", "host-cpu-throttled",
    "node-failure", "task-blocked-in-kernel",
})  # fmt: skip
# Signatures of one's own count where their name begins like this.
PREFIXES = ("hardware-", "host-", "network-", "node-")
# Memory that a program took, and no trouble at all.
_NOT = frozenset({"host-oom", "host-oom-cgroup", "host-oom-ray-monitor", "host-booted"})
_OF_GPUS = ("gpu-", "gsp-", "nvlink-", "cuda-", "pcie-", "hardware-gpu")

LEVEL = 0.05
LEAST_INCIDENTS = 2
INCIDENT = 600.0  # seconds within which jobs on one node failed of one thing: a dead host takes all of its jobs along
MOST_SHOWN = 200
MOST_EVENTS = 100  # of one unit
_TOLD = ("xid", "code", "error", "what", "device", "port", "link")  # captures that say what it was


def is_hardware(slug: str) -> bool:
    """Whether a cause lies in a machine: `CAUSES`, or a signature of one's own whose name begins with PREFIXES."""
    return slug in CAUSES or (slug.startswith(PREFIXES) and slug not in _NOT)


@dataclass(frozen=True, slots=True)
class _Card:
    """A GPU. Of the three things that tell it, the first known one is its name."""

    node: str | None
    serial: str | None
    bus_id: str | None
    index: int | None

    @property
    def name(self) -> str:
        if self.serial is not None:
            return self.serial
        return f"{self.node or '?'} {self.bus_id if self.bus_id is not None else f'GPU {self.index}'}"


@dataclass(frozen=True, slots=True)
class _Hit:
    """One hardware sign of a job, at a node."""

    event: HardwareEvent
    node: str
    card: _Card | None


def flaky(results: Iterable[JobResult]) -> tuple[FlakyUnit, ...]:
    """Units with LEAST_INCIDENTS or more; those to drain first, then most incidents.

    A node is compared with the incidents of the other nodes, a GPU with those of their GPUs: what their disks and
    adapters had says nothing of it. How many GPUs they have is not known, which can only make it look better. A GPU
    that was moved counts in all nodes it was in. Where all incidents of a node are of one GPU, that GPU alone is named.
    """
    jobs = once(r for r in results if r.error is None)
    ran: Counter[str] = Counter(node for job in jobs for node in _nodes(job))
    serials = _serials(jobs)
    hits = [_with_serial(hit, serials) for job in jobs for hit in _hits(job)]
    on_node: dict[str, list[HardwareEvent]] = defaultdict(list)
    on_card: dict[_Card, list[HardwareEvent]] = defaultdict(list)
    for hit in hits:
        on_node[hit.node].append(hit.event)
        if hit.card is not None:
            on_card[hit.card].append(hit.event)
    lines = {node: _timeline(events) for node, events in on_node.items()}
    incidents = {node: _incidents(line) for node, line in lines.items()}
    of_gpus = {
        node: _incidents(_timeline([e for e in events if e.cause.startswith(_OF_GPUS)]))
        for node, events in on_node.items()
    }
    units = [
        _unit("node", _Card(node, None, None, None), (node,), node, line, ran, incidents)
        for node, line in lines.items()
    ]
    for card, nodes, events in _gathered(on_card):
        units.append(_unit("gpu", card, nodes, card.name, _timeline(events), ran, of_gpus))
    judged = _judged([u for u in units if u.incidents], len(ran) + len(on_card))
    kept = [u for u in _most_precise(judged) if u.incidents >= LEAST_INCIDENTS]
    kept.sort(key=lambda u: (u.advice != DRAIN, -u.incidents, u.adjusted if u.adjusted is not None else 1.0, u.name))
    return tuple(kept[:MOST_SHOWN])


def _gathered(
    on_card: Mapping[_Card, list[HardwareEvent]],
) -> Iterator[tuple[_Card, tuple[str, ...], list[HardwareEvent]]]:
    """(GPU, the nodes it was in, what it had) for each that a node is known of; the node it was seen in last, last.

    A serial number goes with its card into another node. A bus id does not: in another node it is another card.
    """
    parts: dict[object, list[tuple[float, _Card]]] = defaultdict(list)
    for card, events in on_card.items():
        if card.node is not None:
            latest = max((e.seconds for e in events if e.seconds is not None), default=-1.0)
            parts[card.serial if card.serial is not None else card].append((latest, card))
    for found in parts.values():
        cards = [card for _, card in sorted(found, key=lambda part: (part[0], part[1].node or ""))]
        last = cards[-1]
        slot = next((c.bus_id for c in reversed(cards) if c.node == last.node and c.bus_id is not None), None)
        nodes = dict.fromkeys(c.node for c in reversed(cards) if c.node is not None)
        yield replace(last, bus_id=slot), tuple(nodes)[::-1], [e for card in cards for e in on_card[card]]


def _nodes(job: JobResult) -> frozenset[str]:
    named = {*job.nodes, *(s.node for s in job.signs)}
    return frozenset(node for node in named if node)


def _hits(job: JobResult) -> Iterator[_Hit]:
    """Hardware signs that a node can be named for; of a job on one node, that node."""
    nodes = _nodes(job)
    only = next(iter(nodes)) if len(nodes) == 1 else None
    of_hardware = any(s.role == "root" and is_hardware(s.name) for s in job.signs)
    for sign in job.signs:
        node = sign.node or only
        if node is None or not is_hardware(sign.name):
            continue
        event = HardwareEvent(
            job=job.path,
            time=sign.time or job.time or job.ended,
            seconds=seconds(sign.time or job.time or job.ended),
            cause=sign.name,
            role=sign.role,
            what=_what(sign),
            # What follows from somebody's bug is no fault of the machine.
            counted=sign.role == "root" or (sign.role == "cascade" and of_hardware),
        )
        cards = _cards(job, sign, node)
        yield _Hit(event, node, cards[0] if len(cards) == 1 else None)


def _serials(jobs: Iterable[JobResult]) -> dict[tuple[str, str], str]:
    """(node, bus id) -> the serial or UUID that all jobs give for it; a card that was changed has none here."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for job in jobs:
        nodes = _nodes(job)
        only = next(iter(nodes)) if len(nodes) == 1 else None
        for device in job.devices:
            node = device.node or only
            if node and device.bus_id and device.serial:
                found[node, device.bus_id].add(device.serial)
    return {slot: next(iter(names)) for slot, names in found.items() if len(names) == 1}


def _with_serial(hit: _Hit, serials: Mapping[tuple[str, str], str]) -> _Hit:
    """A hit of a card that its job names by its bus id alone, with the serial that other jobs give for it."""
    card = hit.card
    if card is None or card.node is None or card.bus_id is None or card.serial is not None:
        return hit
    return replace(hit, card=replace(card, serial=serials.get((card.node, card.bus_id))))


def _what(sign: Sign) -> str:
    told = [f"{name} {sign.captures[name]}" for name in _TOLD if sign.captures.get(name)]
    if bus := _bus(sign):
        told.append(f"PCI {bus}")
    if sign.devices:
        told.append(f"GPU {', '.join(map(str, sign.devices[:8]))}")
    if sign.ranks:
        told.append(f"rank {', '.join(map(str, sign.ranks[:8]))}")
    return ", ".join(told).replace("xid ", "Xid ")[:120]


def _bus(sign: Sign) -> str | None:
    from forensics.engine.identity import pci_bus

    return next((bus for name in ("bdf", "bus_id", "bus") if (bus := pci_bus(sign.captures.get(name, "")))), None)


def _cards(job: JobResult, sign: Sign, node: str) -> list[_Card]:
    """The GPUs that a sign names: by bus id, serial or index, with what the job's other lines say of them."""
    if not sign.name.startswith(_OF_GPUS):
        return []  # a bus id of an adapter
    bus, serial = _bus(sign), sign.captures.get("serial") or sign.captures.get("uuid")
    if bus is None and serial is None and not sign.devices:
        return _only_card(job, node)
    found = []
    for index in sign.devices or (None,):
        known = [
            d for d in job.devices
            if d.node in (node, None)
            and ((bus is not None and d.bus_id == bus) or (serial is not None and d.serial == serial)
                 or (bus is None and serial is None and d.index == index))
        ]  # fmt: skip
        found.append(
            _Card(
                node,
                serial or next((d.serial for d in known if d.serial), None),
                bus or next((d.bus_id for d in known if d.bus_id), None),
                None if bus or serial else index,
            )
        )
    return list(dict.fromkeys(found))


def _only_card(job: JobResult, node: str) -> list[_Card]:
    """The GPU of a job that lists one and no more, on one node: what it had, that one had."""
    if _nodes(job) != {node}:
        return []
    listed = {(d.serial, d.bus_id) for d in job.devices if d.listed}
    serials, slots = ({name for name in names if name} for names in zip(*listed, strict=True)) if listed else ((), ())
    if not listed or len(serials) > 1 or len(slots) > 1:
        return []
    return [_Card(node, next(iter(serials), None), next(iter(slots), None), None)]


def _timeline(events: Sequence[HardwareEvent]) -> tuple[HardwareEvent, ...]:
    """Earliest first; of each job its gravest sign of a cause, and of each incident the first job counted."""
    order = {"root": 0, "cascade": 1, "context": 2}
    gravest: dict[tuple[str, str], HardwareEvent] = {}
    for event in events:
        key = (event.job, event.cause)
        if key not in gravest or order.get(event.role, 3) < order.get(gravest[key].role, 3):
            gravest[key] = event
    ordered = sorted(
        gravest.values(),
        key=lambda e: (e.seconds if e.seconds is not None else float("inf"), order.get(e.role, 3), e.job, e.cause),
    )
    line: list[HardwareEvent] = []
    counted: set[str] = set()
    last: float | None = None
    for event in ordered:
        if event.counted:
            together = last is not None and event.seconds is not None and event.seconds - last < INCIDENT
            if event.seconds is not None:
                last = event.seconds
            event = replace(event, counted=not together and event.job not in counted)
            counted.add(event.job)
        line.append(event)
    return tuple(line)


def _incidents(line: Sequence[HardwareEvent]) -> int:
    return sum(event.counted for event in line)


def _unit(
    kind: str,
    card: _Card,
    nodes: Sequence[str],
    name: str,
    line: tuple[HardwareEvent, ...],
    ran: Mapping[str, int],
    incidents: Mapping[str, int],
) -> FlakyUnit:
    count = _incidents(line)
    jobs = sum(ran.get(node, 0) for node in nodes)
    of_all = sum(incidents.get(node, 0) for node in nodes)
    here = Share(hits=count, jobs=max(jobs, count))
    elsewhere = Share(hits=sum(incidents.values()) - of_all, jobs=sum(ran.values()) - jobs)
    causes: dict[str, set[str]] = defaultdict(set)
    for event in line:
        if event.role == "root" or event.counted:
            causes[event.cause].add(event.job)
    ratio = low = high = p = None
    if elsewhere.jobs:
        ratio, low, high = risk_ratio(here.hits, here.jobs, elsewhere.hits, elsewhere.jobs)
        p = fisher_greater(here.hits, here.jobs, here.hits + elsewhere.hits, here.jobs + elsewhere.jobs)
    return FlakyUnit(
        kind=kind,
        name=name,
        node=card.node,
        before=tuple(nodes[:-1]),
        bus_id=card.bus_id,
        serial=card.serial,
        index=card.index,
        advice=WATCH,
        incidents=count,
        here=here,
        elsewhere=elsewhere,
        ratio=ratio,
        low=low,
        high=high,
        p=p,
        adjusted=None,
        causes=tuple((c, len(jobs)) for c, jobs in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0]))),
        events=line[:MOST_EVENTS],
        jobs=tuple(dict.fromkeys(event.job for event in line if event.counted)),
    )


def _judged(units: Sequence[FlakyUnit], looked_at: int) -> list[FlakyUnit]:
    """With p corrected for all nodes and GPUs that could have had incidents, and the advice that follows from it."""
    tested = [u for u in units if u.p is not None]
    ps = holm([u.p for u in tested if u.p is not None], looked_at)
    adjusted = dict(zip((id(u) for u in tested), ps, strict=True))
    judged = []
    for unit in units:
        sure = adjusted.get(id(unit))
        enough = sure is not None and sure <= LEVEL and unit.incidents >= LEAST_INCIDENTS
        judged.append(replace(unit, adjusted=sure, advice=DRAIN if enough else WATCH))
    return judged


def _most_precise(units: Sequence[FlakyUnit]) -> Iterator[FlakyUnit]:
    """Without nodes all of whose incidents are of one GPU that is named."""
    of_cards: dict[str, list[frozenset[str]]] = defaultdict(list)
    for unit in units:
        for node in (unit.node, *unit.before) if unit.kind == "gpu" else ():
            of_cards[node or ""].append(frozenset(unit.jobs))
    for unit in units:
        if unit.kind == "gpu" or not any(jobs.issuperset(unit.jobs) for jobs in of_cards[unit.node or ""]):
            yield unit
