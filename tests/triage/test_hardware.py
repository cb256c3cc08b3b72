"""Which machines to drain: those that fail more often than the others, of what lies in a machine."""

from __future__ import annotations

import random
from dataclasses import replace

from forensics.signatures.schema import load_catalogue
from forensics.triage.hosts import on_machines
from forensics.triage.insight.hardware import CAUSES, flaky, is_hardware
from forensics.triage.insight.model import DRAIN, WATCH, Insights
from forensics.triage.insight.tables import hardware_lines
from forensics.triage.model import Device, JobResult, Sign
from tests.triage.rows import fault, row


def healthy(start: int, count: int, nodes: int = 8) -> list[JobResult]:
    return [row(n, nodes=(f"node-{n % nodes}",)) for n in range(start, start + count)]


def test_slugs_are_the_catalogues() -> None:
    catalogue = load_catalogue()
    assert set(catalogue) >= CAUSES
    assert not is_hardware("host-oom") and not is_hardware("cuda-oom") and not is_hardware("python-exception")
    assert is_hardware("hardware-psu-tripped") and is_hardware("gpu-fell-off-bus")
    assert not [s.name for s in catalogue.values() if is_hardware(s.name) and s.name not in CAUSES]


def test_a_node_that_fails_again_is_to_be_drained() -> None:
    rows = [*healthy(0, 64), *(fault(100 + n, "host-hardware-error", "node-3", 10 * n) for n in range(3))]
    random.Random(1).shuffle(rows)
    (unit,) = flaky(rows)
    assert (unit.kind, unit.name, unit.advice, unit.incidents) == ("node", "node-3", DRAIN, 3)
    assert unit.jobs == ("runs/100", "runs/101", "runs/102")
    assert [e.seconds for e in unit.events] == sorted(e.seconds or 0 for e in unit.events)
    assert (unit.here.hits, unit.here.jobs, unit.elsewhere.hits, unit.elsewhere.jobs) == (3, 11, 0, 56)
    assert unit.adjusted is not None and unit.p is not None and unit.p < unit.adjusted <= 0.05
    assert unit.causes == (("host-hardware-error", 3),)


def test_somebodys_bug_is_no_hardware_fault() -> None:
    rows = healthy(0, 60)
    for slug in ("cuda-oom", "host-oom", "python-exception", "cuda-illegal-memory-access"):
        rows += [fault(100 + n, slug, "node-3", n) for n in range(2)]
    assert flaky(rows) == ()


def test_what_follows_from_a_bug_is_not_counted() -> None:
    def after(n: int) -> JobResult:
        hit = fault(100 + n, "cuda-illegal-memory-access", "node-3", 10 * n)
        return replace(hit, signs=(*hit.signs, Sign(name="gpu-hang", role="cascade", severity="fatal", confidence=0.9)))

    assert flaky([*healthy(0, 60), *map(after, range(4))]) == ()


def test_what_happens_everywhere_drains_nobody() -> None:
    rows = [fault(n, "nic-failure", f"node-{n % 8}", n) for n in range(40)]
    units = flaky(rows)
    assert len(units) == 8 and {u.advice for u in units} == {WATCH}


def test_once_is_nothing_and_one_incident_is_once() -> None:
    assert flaky([*healthy(0, 60), fault(100, "node-failure", "node-3", 1)]) == ()
    same = fault(100, "node-failure", "node-3", 1)
    together = [replace(same, path=f"runs/{n}", fingerprint=f"{n:064x}") for n in range(100, 104)]
    assert flaky([*healthy(0, 60), *together]) == ()
    (unit,) = flaky([*healthy(0, 60), *together, fault(110, "node-failure", "node-3", 9)])
    assert unit.incidents == 2 and len(unit.events) == 5


def test_copies_of_a_job_are_one() -> None:
    hit = fault(100, "node-failure", "node-3", 1)
    assert flaky([*healthy(0, 60), hit, replace(hit, path="copy/100")]) == ()


def test_a_node_is_guessed_only_where_there_is_one() -> None:
    lone = [replace(fault(100 + n, "gpu-hang", None, 5 * n), nodes=("node-3",)) for n in range(2)]
    assert [u.name for u in flaky([*healthy(0, 60), *lone])] == ["node-3"]
    two = [replace(fault(100 + n, "gpu-hang", None, 5 * n), nodes=("node-3", "node-4")) for n in range(2)]
    assert flaky([*healthy(0, 60), *two]) == ()


def test_a_gpu_is_named_where_all_incidents_are_its_own() -> None:
    def on(n: int, bus: str) -> JobResult:
        hit = fault(100 + n, "gpu-fell-off-bus", "node-3", 10 * n)
        sign = replace(hit.signs[0], captures={"bdf": f"{bus}.0", "xid": "79"})
        known = Device(node="node-3", bus_id=bus, serial="1320921000001" if bus == "0000:3b:00" else None)
        return replace(hit, signs=(sign,), devices=(known,))

    (unit,) = flaky([*healthy(0, 60), *(on(n, "0000:3b:00") for n in range(3))])
    assert (unit.kind, unit.name, unit.node, unit.bus_id) == ("gpu", "1320921000001", "node-3", "0000:3b:00")
    assert unit.advice == DRAIN and unit.events[0].what == "Xid 79, PCI 0000:3b:00"
    units = flaky([*healthy(0, 60), on(0, "0000:3b:00"), on(1, "0000:3b:00"), on(2, "0000:5e:00")])
    assert [(u.kind, u.incidents) for u in units] == [("node", 3), ("gpu", 2)]


def test_the_only_gpu_of_a_job_is_the_one_that_failed() -> None:
    def on(n: int, *buses: str) -> JobResult:
        cards = tuple(Device(node="node-3", bus_id=bus, listed=True) for bus in buses)
        return replace(fault(100 + n, "gpu-ecc-uncorrectable", "node-3", 10 * n), devices=cards)

    (unit,) = flaky([*healthy(0, 60), *(on(n, "0000:3b:00") for n in range(3))])
    assert (unit.kind, unit.name) == ("gpu", "node-3 0000:3b:00")
    (unit,) = flaky([*healthy(0, 60), *(on(n, "0000:3b:00", "0000:5e:00") for n in range(3))])
    assert (unit.kind, unit.name) == ("node", "node-3")
    spread = [replace(on(n, "0000:3b:00"), nodes=("node-3", "node-4")) for n in range(3)]
    assert [u.kind for u in flaky([*healthy(0, 60), *spread])] == ["node"]


def on_card(n: int, hour: int, *, serial: str | None = None) -> JobResult:
    hit = fault(100 + n, "gpu-fell-off-bus", "node-3", hour)
    sign = replace(hit.signs[0], captures={"bdf": "0000:3b:00.0", "xid": "79"})
    return replace(hit, signs=(sign,), devices=(Device(node="node-3", bus_id="0000:3b:00", serial=serial),))


def test_a_gpu_is_held_against_gpus() -> None:
    """What happened to disks and adapters of other nodes does not make a GPU look better."""
    others = [fault(200 + n, "nic-failure", f"node-{4 + n % 4}", 12 * n) for n in range(12)]
    rows = [*(r for r in healthy(0, 56) if r.nodes != ("node-3",)), *others]
    rows += [row(300 + n, nodes=("node-3",)) for n in range(3)]
    gpu = next(u for u in flaky([*rows, *(on_card(n, 20 * n) for n in range(4))]) if u.kind == "gpu")
    assert (gpu.elsewhere.hits, gpu.here.hits, gpu.here.jobs, gpu.advice) == (0, 4, 7, DRAIN)
    nodes = [fault(100 + n, "nic-failure", "node-3", 20 * n) for n in range(4)]
    (node,) = [u for u in flaky([*rows, *nodes]) if u.node == "node-3"]
    assert node.elsewhere.hits == 12


def test_a_gpu_has_one_name_where_some_jobs_give_its_serial() -> None:
    hits = [on_card(0, 0, serial="1320921000001"), on_card(1, 20), on_card(2, 40)]
    (unit,) = flaky([*healthy(0, 60), *hits])
    assert (unit.name, unit.incidents) == ("1320921000001", 3)
    changed = [*hits, on_card(3, 60, serial="1320921000002"), on_card(4, 80, serial="1320921000002")]
    units = {u.name: u.incidents for u in flaky([*healthy(0, 60), *changed]) if u.kind == "gpu"}
    assert units == {"node-3 0000:3b:00": 2, "1320921000002": 2}


def moved(n: int, node: str, hour: int, serial: str | None) -> JobResult:
    hit = on_card(n, hour)
    return replace(
        hit,
        node=node,
        nodes=(node,),
        signs=tuple(replace(s, node=node) for s in hit.signs),
        devices=(Device(node=node, bus_id="0000:3b:00", serial=serial),),
    )


def test_a_gpu_that_moves_takes_its_incidents_along() -> None:
    serial = "1320921000001"
    hits = [moved(n, "node-3" if n < 3 else "node-5", 20 * n, serial) for n in range(5)]
    (unit,) = flaky([*healthy(0, 60), *hits])
    assert (unit.kind, unit.name, unit.incidents, unit.advice) == ("gpu", serial, 5, DRAIN)
    assert (unit.node, unit.before, unit.bus_id) == ("node-5", ("node-3",), "0000:3b:00")
    assert (unit.here.hits, unit.elsewhere.hits) == (5, 0)
    (line, *_) = hardware_lines(Insights(hardware=(unit,)), 1)
    assert f"5 incidents in {unit.here.jobs} jobs of its nodes" in line
    back = [*hits, moved(5, "node-3", 200, serial)]
    (unit,) = flaky([*healthy(0, 60), *back])
    assert (unit.node, unit.before) == ("node-3", ("node-5",))


def test_one_slot_of_two_nodes_is_no_card() -> None:
    hits = [moved(n, "node-3" if n % 2 else "node-5", 20 * n, None) for n in range(6)]
    units = flaky([*healthy(0, 60), *hits])
    assert sorted((u.name, u.incidents) for u in units) == [("node-3 0000:3b:00", 3), ("node-5 0000:3b:00", 3)]


def test_a_node_is_named_beside_a_gpu_that_moved_on() -> None:
    """What else the node had is no fault of the GPU."""
    hits = [moved(n, "node-3" if n < 2 else "node-5", 20 * n, "1320921000001") for n in range(4)]
    own = [fault(300 + n, "nic-failure", "node-3", 300 + 20 * n) for n in range(2)]
    units = {u.name: u.incidents for u in flaky([*healthy(0, 60), *hits, *own])}
    assert units == {"1320921000001": 4, "node-3": 4}


def test_survived_signs_stand_in_the_timeline_and_do_not_count() -> None:
    hits = [fault(100 + n, "gpu-ecc-uncorrectable", "node-3", 10 * n) for n in range(2)]
    mild = Sign(name="gpu-row-remap", role="context", severity="info", confidence=0.9, node="node-3")
    (unit,) = flaky([*healthy(0, 60), *hits, row(200, nodes=("node-3",), signs=(mild,))])
    assert unit.incidents == 2
    assert [(e.cause, e.counted) for e in unit.events][-1] == ("gpu-row-remap", False)
    assert unit.causes == (("gpu-ecc-uncorrectable", 2),)
    only = [row(200 + n, nodes=("node-3",), signs=(mild,)) for n in range(5)]
    assert flaky([*healthy(0, 60), *only]) == ()


def test_chance_drains_few() -> None:
    drained = 0
    for seed in range(200):
        draw = random.Random(seed)
        rows = []
        for n in range(60):
            node = f"node-{draw.randrange(10)}"
            rows.append(fault(n, "gpu-hang", node, n) if draw.random() < 0.15 else row(n, nodes=(node,)))
        drained += any(u.advice == DRAIN for u in flaky(rows))
    assert drained <= 10


def test_what_several_jobs_call_by_a_role_is_no_machine() -> None:
    for name in ("worker-0", "localhost", "pod-3", "node-0"):
        rows = [*healthy(0, 64), *(fault(100 + n, "host-hardware-error", name, 10 * n) for n in range(3))]
        assert flaky(rows) and not flaky(on_machines(rows))


def test_numbered_nodes_are_machines_where_none_is_counted_from_zero() -> None:
    rows = [row(n, nodes=(f"node-{1 + n % 8}",)) for n in range(64)]
    rows += [fault(100 + n, "host-hardware-error", "node-3", 10 * n) for n in range(3)]
    assert on_machines(rows) == tuple(rows)
    assert [u.name for u in flaky(on_machines(rows))] == ["node-3"]
