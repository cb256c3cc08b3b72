"""Hosts whose clocks disagree: how far they are off is measured, set right where it is sure, and admitted where not."""

from __future__ import annotations

import random

import pytest

from forensics.engine import causes, clocks
from forensics.engine.identity import World
from forensics.engine.steps import StepClock
from forensics.model import Evidence, Identity, Observation
from forensics.signatures.schema import Signature


def seen(noise: float, events: int = 40, **offsets: float) -> dict[str, dict[clocks.Key, float]]:
    r = random.Random(3)
    return {
        host: {("step", n): 1000.0 + 10 * n + offset + r.uniform(-noise, noise) for n in range(events)}
        for host, offset in offsets.items()
    }


def test_offsets_are_measured_against_the_clock_in_the_middle() -> None:
    found = clocks.estimate(seen(0.3, a=0, b=300, c=0.2, d=-120))
    assert found["b"].seconds == pytest.approx(300, abs=1)
    assert found["d"].seconds == pytest.approx(-120, abs=1)
    assert [host for host, offset in sorted(found.items()) if offset.sure] == ["b", "d"]
    assert all(offset.bound < 2 for offset in found.values())


def test_few_or_scattered_events_are_not_sure() -> None:
    assert clocks.estimate(seen(0.1, clocks.EVENTS - 1, a=0, b=300)) == {}
    assert not any(offset.sure for offset in clocks.estimate(seen(60, a=0, b=20)).values())
    assert clocks.estimate({}) == {}
    assert clocks.estimate(seen(0.1, a=0)) == {}


def test_one_late_event_among_many_changes_nothing() -> None:
    times = seen(0.1, a=0, b=0)
    times["b"]["step", 7] += 5000
    assert not any(offset.sure for offset in clocks.estimate(times).values())


def symptom(name: str) -> Signature:
    return Signature(name=name, area="x", title=name, kind="symptom", severity="error", why="w")


CATALOGUE = {s.name: s for s in (symptom("one"), symptom("other"))}
WORLD = World((), None, False, (), False, {}, {})


def notes(apart: float, offsets: dict[str, clocks.Offset], nodes: tuple[str, str] = ("a", "b")) -> list[str | None]:
    told = [
        Observation(
            signature=name,
            weight=0.9,
            evidence=(Evidence(f"{node}.log", 1, 0, "x"),),
            identity=Identity(node=node),
            time=1000.0 + n * apart,
        )
        for n, (name, node) in enumerate(zip(("one", "other"), nodes, strict=True))
    ]
    linked = causes.explain(causes.candidates(told, CATALOGUE, WORLD), CATALOGUE, StepClock({}, {}, {}), WORLD)
    clocks.doubt(linked, offsets, {})
    return [o.note for c in linked for o in c.observations if o.note]


def test_an_order_that_clocks_cannot_tell_is_admitted() -> None:
    measured = clocks.Offset(0.0, 1.0, 40)
    told = notes(3, {})
    assert len(told) == 1 and told[0] is not None and "which came first is not known" in told[0]
    assert notes(3, {"a": measured}) == told
    assert notes(3, {"a": measured, "b": measured._replace(seconds=200.0)}) == []
    assert notes(300, {}) == []
    assert notes(3, {}, ("a", "a")) == []
