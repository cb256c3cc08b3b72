"""Hosts whose clocks disagree: how far they are off is measured, set right where it is sure, and admitted where not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from forensics.engine import candidates, causes, clocks
from forensics.engine.identity import World
from forensics.engine.pipeline import Options, analyse
from forensics.engine.steps import StepClock
from forensics.model import Evidence, Finding, Identity, Observation, Role
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
    linked = causes.explain(candidates.grouped(told, CATALOGUE, WORLD), CATALOGUE, StepClock({}, {}, {}), WORLD)
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


RAISED = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 88, in <module>',
    "    main()",
    '  File "/opt/train/train.py", line 60, in main',
    "    step(batch)",
]


def stamp(seconds: float) -> str:
    return f"2026-11-20 08:{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def log(rank: int, error: str | None, at: float, *, ahead: float = 0, steps: int = 40) -> str:
    """A rank's log: a step every two seconds, and an error `at` seconds, by a clock that is `ahead`."""
    lines = [f"{stamp(2 * n + ahead)} [rank{rank}] step {n} loss {2 + 3 / n:.3f}" for n in range(1, steps + 1)]
    lines += [f"{stamp(at + ahead)} [rank{rank}]: {text}" for text in (*RAISED, error)] if error else []
    return "\n".join(lines) + "\n"


def diagnosed(folder: Path, **files: str) -> list[Finding]:
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return list(analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT))


@pytest.mark.parametrize(
    ("errors", "names"),
    [
        (("ValueError: bad sample", "RuntimeError: shapes"), ["ValueError", "RuntimeError"]),
        (("OSError: [Errno 28] No space left on device: '/data/a.pt'", "KeyError: 'y'"), ["disk-full", "KeyError"]),
    ],
)
def test_errors_of_one_second_are_a_tie(tmp_path: Path, errors: tuple[str, str], names: list[str]) -> None:
    found = diagnosed(tmp_path, rank0=log(0, errors[0], 90), rank1=log(1, errors[1], 90))
    assert [f.ranks for f in found] == [(0,), (1,)]
    for f in found:
        assert any("in the same second" in n and all(name in n for name in names) for n in f.notes)


def test_errors_seconds_apart_are_no_tie(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, rank0=log(0, "ValueError: x", 92), rank1=log(1, "RuntimeError: y", 90))
    assert [f.ranks for f in found] == [(1,)]
    assert not any("same second" in note for note in found[0].notes)


@pytest.mark.parametrize("ahead", [95, 0])
def test_a_culprit_whose_clock_is_ahead_comes_first(tmp_path: Path, ahead: float) -> None:
    """No file names its host: each rank's own steps show how far its clock is off."""
    found = diagnosed(
        tmp_path,
        rank0=log(0, "RuntimeError: peer went away", 93),
        rank1=log(1, "RuntimeError: peer went away", 93),
        rank2=log(2, "ValueError: bad sample", 90, ahead=ahead),
    )
    assert [f.ranks for f in found] == [(2,)]
    assert any("rank 2 is 95 s ahead" in note for note in found[0].notes) is (ahead == 95)


def test_a_rank_that_is_always_a_little_late_has_no_other_clock(tmp_path: Path) -> None:
    found = diagnosed(
        tmp_path, rank0=log(0, "ValueError: x", 92), rank1=log(1, None, 0, ahead=4), rank2=log(2, None, 0)
    )
    assert not any("clock" in note for f in found for note in f.notes)
