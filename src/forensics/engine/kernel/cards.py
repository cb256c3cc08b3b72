"""Which card it is: the serial number and the UUID of a GPU on which a fault was found, for whoever has to replace it.

`nvidia-smi -q` lists both under the PCI bus id, its csv and `rocm-smi` beside it. A fault names its GPU by the bus id,
or is of a rank whose bus id NCCL says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forensics.engine.identity import World, pci_bus
from forensics.model import Observation

LISTED = "gpu-listed"
BOARD_SERIAL = "board_serial"  # capture: the driver's word of the GPU that it named on the line above
# Signatures whose next question is which card it is.
OF_CARDS = frozenset(
    "gpu-ecc-uncorrectable gpu-fell-off-bus gpu-hang gpu-hardware gpu-row-remap gpu-thermal-throttle gpu-xid-other "
    "gpu-pmu-halt gsp-firmware-crash nvlink-fatal-error pcie-link-failure gpu-kernel-exception "
    "cuda-unknown-error".split()
)

Place = tuple[str | None, str]  # (node, PCI bus id)


@dataclass(frozen=True, slots=True)
class Cards:
    """What listings say of the cards of the run's hosts; contradictions are left out."""

    serial: Mapping[Place, str] = field(default_factory=dict)
    uuid: Mapping[Place, str] = field(default_factory=dict)

    def named(self, o: Observation, world: World) -> Observation:
        """A sign of a fault of a GPU with the card's serial number and UUID, where they are known."""
        if o.signature not in OF_CARDS:
            return o
        bus = pci_bus(o.captures.get("bdf", ""))
        place = (o.identity.node, bus) if bus is not None else _of_rank(o, world)
        if place is None:
            return o
        told = {
            "serial": self._of(self.serial, place, world.one_host),
            "gpu_uuid": self._of(self.uuid, place, world.one_host),
        }
        if not any(told.values()):
            return o
        words = [f"the serial number {told['serial']}"] if told["serial"] else []
        words += [f"the UUID {told['gpu_uuid']}"] if told["gpu_uuid"] else []
        # First of all, as a long note is cut at its end.
        note = f"The GPU at {place[1]} has {' and '.join(words)}"
        captures = {**o.captures, **{name: value for name, value in told.items() if value}}
        return replace(o, captures=captures, note=f"{note}. {o.note}" if o.note else note)

    def _of(self, table: Mapping[Place, str], place: Place, one_host: bool) -> str | None:
        """What a table says of a GPU; where the line or the listing names no host, only in a run of one host."""
        node, bus = place
        if node is not None and place in table:
            return table[place]
        told = {value for (n, b), value in table.items() if b == bus and (n is None or node is None or n == node)}
        return next(iter(told)) if one_host and len(told) == 1 else None


def cards(observations: Iterable[Observation]) -> Cards:
    """The cards that listings among the observations tell of."""
    serial: dict[Place, set[str]] = defaultdict(set)
    uuid: dict[Place, set[str]] = defaultdict(set)
    by_file: dict[str, list[Observation]] = defaultdict(list)
    for o in observations:
        if o.signature == LISTED:
            by_file[o.evidence[0].file].append(o)
    for marks in by_file.values():
        for place, got in _placed(sorted(marks, key=lambda o: o.evidence[0].line or 0)):
            for table, name in ((serial, "serial"), (uuid, "uuid")):
                if got.get(name):
                    table[place].add(got[name])
    return Cards(
        {place: next(iter(found)) for place, found in serial.items() if len(found) == 1},
        {place: next(iter(found)) for place, found in uuid.items() if len(found) == 1},
    )


def _placed(marks: Sequence[Observation]) -> list[tuple[Place, Mapping[str, str]]]:
    """(GPU, what is said of it) of the lines of one file, in their order."""
    found: list[tuple[Place, Mapping[str, str]]] = []
    buses = {o.captures["gpu"]: bus for o in marks if "gpu" in o.captures and (bus := _bus(o)) is not None}
    block: str | None = None
    driver: dict[str | None, str] = {}  # host -> the GPU that its driver named last
    for o in marks:
        bus = _bus(o)
        if bus is not None and "uuid" in o.captures:
            driver[o.identity.node] = bus
        if BOARD_SERIAL in o.captures:  # the line below that
            if (of := driver.get(o.identity.node)) is not None:
                found.append(((o.identity.node, of), {"serial": o.captures[BOARD_SERIAL]}))
            continue
        if bus is None:
            bus = buses.get(o.captures["gpu"]) if "gpu" in o.captures else block
        elif "gpu" not in o.captures and "uuid" not in o.captures:
            block = bus  # nvidia-smi -q: what follows is of this GPU
        if bus is not None:
            found.append(((o.identity.node, bus), o.captures))
    return found


def _bus(o: Observation) -> str | None:
    return pci_bus(o.captures.get("bus", "").lower())


def _of_rank(o: Observation, world: World) -> Place | None:
    """The GPU of the one rank that a sign is of, by what NCCL says."""
    rank = o.culprits[0] if o.culprits is not None and len(o.culprits) == 1 else world.of(o)
    places = {place for place, of in world.rank_of_bus.items() if rank is not None and of == rank}
    buses = {bus for _, bus in places}
    nodes = {node for node, _ in places if node is not None}
    return (next(iter(nodes)) if len(nodes) == 1 else None, next(iter(buses))) if len(buses) == 1 else None
