"""Roots and cascades on hand-made observations: order, clocks, attempts, what was survived."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from forensics.engine import candidates, causes
from forensics.engine.identity import World, in_their_attempts, know_world, number_attempts
from forensics.engine.observing import often_enough
from forensics.engine.steps import StepClock, step_clock
from forensics.model import (
    COLLECTIVES_COLUMNS,
    METRICS_COLUMNS,
    Evidence,
    Identity,
    Kind,
    Observation,
    RunData,
    Source,
    Writer,
    schema,
)
from forensics.signatures.schema import EvidenceRule, Signature, load_catalogue


def signature(name: str, kind: str, **fields: object) -> Signature:
    return Signature(
        name=name, area="x", title=name, kind=kind, severity=str(fields.pop("severity", "fatal")), why="w", **fields
    )  # type: ignore[arg-type]


COMPARED = EvidenceRule(source="collectives", detector="desync")
CATALOGUE = {
    s.name: s
    for s in (
        signature("disk-full", "cause", causes=("corrupt",)),
        signature("corrupt", "cause"),
        signature("oom", "cause", specificity=40),
        signature("cudnn-oom", "cause", parent="oom"),
        signature("timeout", "symptom"),
        signature("python-exception", "symptom", specificity=20),
        signature("closed", "echo", severity="error"),
        signature("spike", "cause", verdict="suspect", severity="warning"),
        signature("run-finished", "milestone", severity="info"),
        signature("hang", "symptom", severity="error", evidence=(COMPARED,), specificity=20),
        signature("straggler", "cause", severity="error", parent="hang", evidence=(COMPARED,)),
        signature("mismatch", "cause", severity="error", evidence=(COMPARED,), causes=("hang",)),
        signature("sigterm", "symptom", severity="error", verdict="interrupted", causes=("hang",), specificity=35),
    )
}


def seen(
    name: str, rank: int | None = 0, time: float | None = 100.0, line: int = 1, attempt: int = 0, **more: object
) -> Observation:
    return Observation(
        signature=name,
        weight=float(more.pop("weight", 0.9)),  # type: ignore[arg-type]
        evidence=(Evidence(str(more.pop("file", f"rank{rank}.log")), line, line * 10, name),),
        identity=Identity(rank=rank, attempt=attempt),
        time=time,
        **more,  # type: ignore[arg-type]
    )


def world(size: int = 8) -> World:
    return World(tuple(range(size)), size, True, (), True, {}, {})


def metrics(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    table = [
        {
            "source": source,
            "line": line,
            "rank": rank,
            "attempt": None,
            "step": step,
            "epoch": None,
            "time": None,
            "name": "loss",
            "value": 1.0,
        }
        for source, line, rank, step in rows
    ]
    return pl.DataFrame(table, schema=schema(METRICS_COLUMNS))


def link(*observations: Observation, table: pl.DataFrame | None = None) -> list[candidates.Candidate]:
    frame = table if table is not None else metrics()
    found = candidates.grouped(observations, CATALOGUE, world())
    return causes.roots(causes.explain(found, CATALOGUE, step_clock(frame, {}), world()))


def names(found: list[candidates.Candidate]) -> list[str]:
    return [c.signature.name for c in found]


def test_the_cause_wins_over_louder_and_earlier_lines() -> None:
    found = link(*(seen("timeout", r, 50.0) for r in range(7)), seen("oom", 7, 110.0), seen("closed", 3, 40.0))
    assert names(found) == ["oom"]
    assert found[0].ranks == (7,)
    assert {c.signature.name for c in found[0].explains} == {"timeout", "closed"}


def test_a_cause_long_after_the_symptom_does_not_explain_it() -> None:
    assert names(link(seen("timeout", 0, 100.0), seen("oom", 1, 5000.0))) == ["oom", "timeout"]


def test_an_effect_without_a_time_of_its_own_may_have_come_long_after_the_last_one_above_it() -> None:
    last_seen, own = seen("timeout", 1, 100.0), seen("timeout", 1, 100.0, timed=True)
    assert names(link(last_seen, seen("oom", 1, 5000.0))) == ["oom"]
    assert names(link(own, seen("oom", 1, 5000.0))) == ["oom", "timeout"]
    assert names(link(last_seen, seen("timeout", 1, 200.0, timed=True), seen("oom", 1, 5000.0))) == ["oom", "timeout"]


def test_a_child_absorbs_its_parent() -> None:
    assert names(link(seen("oom", 1), seen("cudnn-oom", 1))) == ["cudnn-oom"]


def test_a_disk_full_in_the_first_attempt_explains_the_corrupt_file_of_the_second() -> None:
    found = link(seen("corrupt", 0, None, attempt=1), seen("disk-full", 0, None, attempt=0))
    assert names(found) == ["disk-full"]
    assert found[0].attempt == 0


def test_a_later_attempts_cause_explains_nothing_before_it() -> None:
    assert set(names(link(seen("corrupt", 0, None, attempt=0), seen("disk-full", 0, None, attempt=1)))) == {
        "corrupt",
        "disk-full",
    }


def test_what_only_makes_a_run_suspect_explains_no_crash() -> None:
    found = link(seen("spike", 1, 10.0), seen("python-exception", 2, 20.0))
    assert set(names(found)) == {"spike", "python-exception"}


def test_the_first_symptom_explains_the_later_ones() -> None:
    first = seen("python-exception", 2, 20.0, captures={"exception": "KeyError"})
    later = seen("python-exception", 5, 30.0, captures={"exception": "RuntimeError"})
    found = link(later, first)
    assert [c.subject for c in found] == ["KeyError"]
    assert found[0].ranks == (2,)


@pytest.mark.parametrize("hang", ["hang", "straggler", "mismatch"])
def test_a_hang_that_somebody_ended(hang: str) -> None:
    found = link(seen("sigterm", None, 130.0), seen(hang, 2, 100.0, culprits=(2,)))
    assert names(found) == [hang]
    assert [c.signature.name for c in found[0].explains] == ["sigterm"]
    assert causes.ended_by_a_stop(found[0])


@pytest.mark.parametrize("hang", ["hang", "straggler"])
@pytest.mark.parametrize("after", [-3.0, 2.0, 60.0, 600.0])
def test_a_stop_that_made_the_others_hang(hang: str, after: float) -> None:
    """The last call of those that wait may be a step older than the stop."""
    found = link(seen("sigterm", None, 100.0), seen(hang, 2, 100.0 + after, culprits=(2,)))
    assert names(found) == ["sigterm"]
    assert not causes.ended_by_a_stop(found[0])


def test_a_timeout_is_told_long_after_the_wait_began() -> None:
    told = seen("hang", 0, 700.0, captures={"timeout_ms": "600000"})
    assert names(link(told, seen("sigterm", None, 101.0))) == ["sigterm"]
    assert names(link(told, seen("sigterm", None, 400.0))) == ["hang"]


def test_clocks_of_unlike_zones_are_not_compared() -> None:
    """A dump says UTC; the launcher's line, some other zone. By lines of one file it can still be told."""
    late = seen("hang", 2, 9000.0, culprits=(2,), zone_known=True, file="all.log", line=5)
    assert names(link(late, seen("sigterm", None, 100.0, file="all.log", line=9))) == ["hang"]
    same = seen("hang", 2, 80.0, culprits=(2,), zone_known=True)
    assert names(link(same, seen("sigterm", None, 100.0))) == ["hang"]


def test_what_the_missing_rank_said_itself_is_the_reason() -> None:
    waiting = seen("hang", 0, 700.0, culprits=(3,), weight=0.95)
    assert names(link(waiting, seen("python-exception", 3, 90.0, weight=0.8))) == ["python-exception"]
    assert names(link(waiting, seen("python-exception", 3, None, weight=0.8))) == ["python-exception"]
    assert set(names(link(waiting, seen("python-exception", 4, 90.0, weight=0.8)))) == {"hang", "python-exception"}
    assert names(link(waiting, seen("python-exception", 3, 900.0, weight=0.8))) == ["hang"]


def test_every_rank_is_nobody() -> None:
    (found,) = link(*(seen("oom", r) for r in range(8)))
    assert found.ranks is None
    assert found.everywhere


def test_survived_trouble_is_context() -> None:
    table = metrics(("rank0.log", 1, 0, 10), ("rank0.log", 9, 0, 11), ("rank0.log", 10, 0, 12))
    observation = seen("python-exception", 0, None, line=5)
    found = candidates.grouped([observation], CATALOGUE, world())
    assert causes.roots(causes.explain(found, CATALOGUE, step_clock(table, {}), world())) == []
    assert found[0].context


def test_another_ranks_progress_is_no_survival() -> None:
    table = metrics(("all.log", 1, 0, 10), ("all.log", 9, 1, 11), ("all.log", 10, 1, 12))
    assert names(link(seen("python-exception", 0, None, line=5, file="all.log"), table=table)) == ["python-exception"]


def test_steps_come_from_the_same_file_by_line_then_from_the_same_rank() -> None:
    table = metrics(("rank2/stdout.log", 1, 2, 40), ("rank2/stdout.log", 2, 2, 41), ("rank0.log", 1, 0, 99))
    clock = step_clock(table, {})
    assert clock.last_before(seen("oom", 2, None, file="rank2/stderr.log"), 2) == (41, "global step", None)
    assert clock.last_before(seen("oom", 0, None, line=5, file="rank0.log"), 0) == (99, "global step", None)


def data(sources: list[Source], writers: list[Writer] = [], observations: list[Observation] = []) -> RunData:  # noqa: B006
    return RunData(
        path=".",
        sources=tuple(sources),
        observations=tuple(observations),
        tracebacks=(),
        writers=tuple(writers),
        metrics=metrics(),
        collectives=pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS)),
        coverage=(),
    )


def source(path: str, **identity: object) -> Source:
    from pathlib import Path

    return Source(path, Path(path), Kind.LOG, 1, Identity(**identity))  # type: ignore[arg-type]


def test_a_host_with_and_without_its_domain_is_one() -> None:
    names = ["n0", "n0.lab.net", "n1.lab.net"]
    found = know_world(data([source(f"{name}/a", local_rank=0, node=name) for name in names]))
    assert found.nodes == ("n0", "n1.lab.net")
    apart = ["n0", "n0.lab.net", "n0.other.net"]
    found = know_world(data([source(f"{name}/a", local_rank=0, node=name) for name in apart]))
    assert found.nodes == tuple(apart)


def test_a_local_rank_is_a_rank_on_one_host_only() -> None:
    one = know_world(data([source("a", local_rank=0), source("b", local_rank=1)]))
    assert one.global_rank(Identity(local_rank=1)) == 1
    two = know_world(data([source("n0/a", local_rank=0, node="n0"), source("n1/a", local_rank=0, node="n1")]))
    assert two.global_rank(Identity(local_rank=1)) is None


def test_a_printed_mapping_joins_local_and_global_rank() -> None:
    o = seen("timeout", None, captures={"rank": "13", "local_rank": "5"})
    w = know_world(data([source("n0", node="n0"), source("n1", node="n1")], observations=[o]))
    assert w.global_rank(Identity(local_rank=5)) == 13


def numbered_by(spans: dict[str, tuple[float, float]]) -> list[int | None]:
    """The attempts of launch folders' attempts, each written between two times."""
    paths = {name: f"{name}/0/stdout.log" for name in spans}
    writers = [
        Writer(source=paths[name], identity=Identity(), first_time=low, last_time=high, last_line="", bytes=1)
        for name, (low, high) in spans.items()
    ]
    sources = [source(path, local_rank=0, attempt=int(path.partition("attempt_")[2][0])) for path in paths.values()]
    return [s.identity.attempt for s in number_attempts(data(sources, writers)).sources]


def test_launches_that_follow_each_other_are_attempts_and_nodes_of_one_launch_are_not() -> None:
    spans = {"a/attempt_0": (0.0, 10.0), "b/attempt_0": (1.0, 11.0), "c/attempt_0": (20.0, 30.0)}
    assert numbered_by(spans) == [0, 0, 1]


def test_two_attempts_of_one_folder_are_two_though_the_clock_of_another_node_bridges_them() -> None:
    spans = {
        "a/attempt_0": (0.0, 98.0),
        "a/attempt_1": (115.0, 233.0),
        "b/attempt_0": (40.0, 138.0),
        "b/attempt_1": (155.0, 273.0),
    }
    assert numbered_by(spans) == [0, 1, 0, 1]
    assert numbered_by({"a/attempt_0": (0.0, 98.0), "a/attempt_1": (98.0, 200.0)}) == [0, 1]
    # The clock of b is ahead by more than attempt 0 lasted.
    spans = {"a/attempt_0": (0.0, 20.0), "a/attempt_1": (25.0, 90.0), "b/attempt_0": (40.0, 60.0)}
    assert numbered_by(spans | {"b/attempt_1": (65.0, 130.0)}) == [0, 1, 0, 1]


def test_a_node_that_joins_later_is_of_the_attempt_with_which_it_overlaps() -> None:
    spans = {"a/attempt_0": (0.0, 20.0), "a/attempt_1": (25.0, 90.0), "b/attempt_0": (26.0, 90.0)}
    assert numbered_by(spans) == [0, 1, 1]


def test_metrics_and_what_is_made_of_them_follow_the_attempt_of_their_source() -> None:
    paths = ["r/attempt_0/0/stdout.log", "r/attempt_1/0/stdout.log"]
    table = metrics((paths[0], 1, 0, 1), (paths[1], 1, 0, 2), ("train.log", 1, 0, 3))
    run = replace(data([source(paths[0], attempt=0), source(paths[1], attempt=1), source("train.log")]), metrics=table)
    numbered = number_attempts(run)
    assert numbered.metrics["attempt"].to_list() == [0, 1, None]
    made = [seen("spike", file=path, attempt=None) for path in (*paths, "train.log")]  # type: ignore[arg-type]
    assert [o.identity.attempt for o in in_their_attempts(made, numbered.sources)] == [0, 1, None]


def test_each_rule_is_counted_by_itself() -> None:
    often = EvidenceRule(source="log", pattern="x", at_least=3)
    once = EvidenceRule(source="log", pattern="y")
    known = {"spike": signature("spike", "cause", evidence=(often, once))}
    rare = [seen("spike", line=n, rule=0) for n in (1, 2)]
    assert often_enough([*rare, seen("spike", line=9, rule=1)], known) == [seen("spike", line=9, rule=1)]
    assert len(often_enough([*rare, seen("spike", line=3, rule=0)], known)) == 3
    assert len(often_enough([seen("spike", rule=0, count=3)], known)) == 1
    assert len(often_enough([seen("spike")], known)) == 1


def test_what_a_rank_raised_above_a_launchers_stop_is_its_reason_and_what_is_raised_below_is_not() -> None:
    shipped, nowhere = load_catalogue(), World((), None, False, (), True, {}, {})
    catalogue = {name: shipped[name] for name in ("python-exception", "external-sigterm")}

    def root(raised_at: int) -> str:
        said = [
            Observation(signature="python-exception", weight=0.8, evidence=(Evidence("a.log", raised_at, 0, "E"),)),
            Observation(signature="external-sigterm", weight=0.9, evidence=(Evidence("a.log", 20, 0, "S"),)),
        ]
        found = candidates.grouped(said, catalogue, nowhere)
        linked = causes.explain(found, catalogue, StepClock({}, {}, {}), nowhere)
        return causes.roots(linked)[0].signature.name

    assert root(10) == "python-exception"
    assert root(30) == "external-sigterm"
