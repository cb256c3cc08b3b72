"""What a run survived: handled errors, texts about crashes, old kernel lines; and what must not pass as survived."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from forensics.engine import candidates, causes
from forensics.engine.identity import World
from forensics.engine.steps import step_clock
from forensics.model import METRICS_COLUMNS, Evidence, Identity, Observation, schema
from forensics.signatures.schema import EvidenceRule, Signature


def signature(name: str, kind: str = "cause", severity: str = "fatal", area: str = "x", **fields: str) -> Signature:
    return Signature(name=name, area=area, title=name, kind=kind, severity=severity, why="w", **fields)  # type: ignore[arg-type]


CATALOGUE = {
    s.name: s
    for s in (
        signature("oom"),
        signature("store-error", severity="error"),
        signature("corrupt", area="checkpoints"),
        signature("rank-segfault"),
        signature("host-oom"),
        signature("time-limit", verdict="interrupted"),
        signature("leak", "echo", "warning"),
        signature("python-exception", "symptom", "error"),
        signature("run-finished", "milestone", "info"),
        signature("run-resumed", "milestone", "info"),
        signature("worker-group-restarted", "milestone", "info"),
    )
}
WORLD = World((), None, False, (), True, {}, {})


def seen(
    name: str, line: int, file: str = "a.log", time: float | None = None, text: str = "x", **more: object
) -> Observation:
    return Observation(
        signature=name,
        weight=0.9,
        evidence=(Evidence(file, line, line * 10, text),),
        identity=Identity(attempt=more.pop("attempt", None)),  # type: ignore[arg-type]
        time=time,
        **more,  # type: ignore[arg-type]
    )


def steps_of(file: str, rows: list[tuple[int, int]], time: float | None = None) -> list[dict[str, object]]:
    """rows: (line, step); with a time, one step a second from it on."""
    return [
        {"source": file, "line": line, "rank": None, "attempt": None, "step": step, "epoch": None,
         "time": None if time is None else time + i, "name": "loss", "value": 1.0}
        for i, (line, step) in enumerate(rows)
    ]  # fmt: skip


def judge(
    observations: list[Observation], rows: list[dict[str, object]]
) -> tuple[list[str], list[candidates.Candidate]]:
    clock = step_clock(pl.DataFrame(rows, schema=schema(METRICS_COLUMNS)), {})
    found = candidates.grouped(observations, CATALOGUE, WORLD)
    linked = causes.explain(found, CATALOGUE, clock, WORLD)
    return [c.signature.name for c in causes.roots(linked)], found


TRAINING = steps_of("a.log", [(n, n) for n in range(1, 40) if n != 20])


@pytest.mark.parametrize("name", ["oom", "store-error", "rank-segfault"])
def test_a_message_that_training_outlives_is_context(name: str) -> None:
    assert judge([seen(name, 20)], TRAINING)[0] == []


@pytest.mark.parametrize("name", ["oom", "store-error", "rank-segfault"])
def test_the_last_message_counts_though_earlier_ones_were_outlived(name: str) -> None:
    assert judge([seen(name, 10), seen(name, 20), seen(name, 50)], TRAINING)[0] == [name]


@pytest.mark.parametrize("name", ["oom", "store-error", "rank-segfault"])
def test_a_message_above_all_times_of_its_file_is_no_later_than_those_below(name: str) -> None:
    assert judge([seen(name, 2), seen(name, 50, time=90.0, timed=True)], TRAINING)[0] == [name]


def test_a_message_that_one_log_outlives_without_a_time_says_nothing_of_another_that_ends_of_it() -> None:
    rows = [*TRAINING, *steps_of("b.log", [(n, n) for n in range(1, 20)], 60.0)]
    ended = seen("oom", 25, "b.log", 90.0, timed=True)
    assert judge([ended, seen("oom", 20)], rows)[0] == ["oom"]
    assert judge([replace(ended, evidence=(Evidence("b.log", 10, 100, "x"),)), seen("oom", 20)], rows)[0] == []
    assert judge([replace(ended, evidence=(Evidence("b.err", 1, 0, "x"),)), seen("oom", 20)], rows)[0] == []


def test_two_more_steps_do_not_make_a_death_undone() -> None:
    rows = steps_of("a.log", [(n, n) for n in range(1, 23) if n != 20])
    assert judge([seen("rank-segfault", 20)], rows)[0] == ["rank-segfault"]
    assert judge([seen("oom", 20)], rows)[0] == []


def test_a_death_keeps_what_led_to_it() -> None:
    rows = steps_of("a.log", [(n, n) for n in range(1, 30)])
    assert "oom" in judge([seen("oom", 20), seen("rank-segfault", 40)], rows)[0]


def test_a_text_that_is_printed_again_and_again_means_nothing_before_the_end() -> None:
    texts = [seen("rank-segfault", n) for n in (5, 15, 25, 45)]
    assert judge([*texts, seen("run-finished", 46)], TRAINING)[0] == []
    assert judge([seen("rank-segfault", 45), seen("run-finished", 46)], TRAINING)[0] == ["rank-segfault"]


def test_a_failure_that_a_new_start_got_over_is_a_recovery() -> None:
    for mark, line in (("worker-group-restarted", 21), ("run-resumed", 22)):
        names, found = judge([seen("oom", 20), seen(mark, line), seen("run-finished", 60)], TRAINING)
        assert names == ["oom"]
        assert next(c for c in found if c.signature.name == "oom").recovered
    names, _ = judge([seen("oom", 20), seen("run-resumed", 22)], TRAINING)
    assert names == []  # goes on, and nothing says yet that it ended well


def test_a_checkpoint_that_could_not_be_read_while_resuming_is_handled() -> None:
    assert judge([seen("corrupt", 20), seen("run-resumed", 22), seen("run-finished", 60)], TRAINING)[0] == []


def test_other_files_of_the_process_show_that_it_went_on() -> None:
    rows = steps_of("out.log", [(n, n) for n in range(1, 50)], time=1000.0)
    assert judge([seen("oom", 3, "err.log", 1020.0, timed=True)], rows)[0] == []
    assert judge([seen("oom", 3, "err.log", 1020.0, timed=False)], rows)[0] == ["oom"]  # the time of an earlier line
    assert judge([seen("oom", 3, "err.log", 1048.0, timed=True)], rows)[0] == ["oom"]


def test_kernel_lines_from_days_before_are_of_another_run() -> None:
    day = 86400.0
    rows = steps_of("a.log", [(n, n) for n in range(1, 50)], time=10 * day)
    text = "[Mon Jan  5 01:00:25 2026] Out of memory: Killed process 911 (chrome)"
    assert judge([seen("host-oom", 3, "dmesg", 8 * day, text)], rows)[0] == []
    assert judge([seen("host-oom", 3, "dmesg", 10 * day - 3600, text)], rows)[0] == [
        "host-oom"
    ]  # another zone, perhaps
    assert judge([seen("host-oom", 3, "a.err", 8 * day, "Out of memory")], rows)[0] == ["host-oom"]


def test_an_interrupted_run_that_another_file_continues_is_context() -> None:
    rows = steps_of("one.log", [(n, n) for n in range(1, 31)]) + steps_of(
        "two.log", [(n, n + 25) for n in range(2, 40)]
    )
    stop = seen("time-limit", 35, "one.log")
    assert judge([stop, seen("run-resumed", 1, "two.log", step=25)], rows)[0] == []
    assert judge([stop], rows)[0] == ["time-limit"]
    assert judge([stop, seen("run-resumed", 1, "two.log", step=500)], rows)[0] == ["time-limit"]


def test_an_echo_below_the_end_of_the_run_is_context() -> None:
    assert judge([seen("run-finished", 45), seen("leak", 46)], TRAINING)[0] == []
    assert judge([seen("leak", 46)], TRAINING)[0] == ["leak"]
    assert judge([seen("run-finished", 45), seen("oom", 46)], TRAINING)[0] == ["oom"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("samples/step_100.txt", "Killed"),
        ("out/predictions.txt", "Segmentation fault (core dumped)"),
        ("README.md", "RuntimeError: CUDA out of memory"),
        ("eval/rows.jsonl", '{"prompt": "why?", "completion": "CUDA out of memory"}'),
    ],
)
def test_what_stands_in_samples_and_notes_is_no_sign(file: str, text: str) -> None:
    assert judge([seen("oom", 3, file, None, text)], TRAINING)[0] == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("samples/train.log", "CUDA out of memory"),
        ("logs/predictions", "CUDA out of memory"),
        ("run/rank0.txt", "CUDA out of memory"),
        ("c.jsonl", '{"level": "error", "messages": "x", "exc": "CUDA out of memory"}'),
        ("c-json.log", '{"log": "CUDA out of memory", "stream": "stderr", "output": ""}'),
    ],
)
def test_logs_are_logs_whatever_they_are_called(file: str, text: str) -> None:
    assert judge([seen("oom", 3, file, None, text)], TRAINING)[0] == ["oom"]


def test_an_exception_that_one_line_of_code_raised_often_is_handled_there() -> None:
    place = {"exception": "IndexError", "file": "/tmp/sol.py", "line": "1", "function": "f"}
    often = [seen("python-exception", n, captures=place) for n in (5, 10, 15, 20, 50)]
    assert judge(often, TRAINING)[0] == []
    assert judge([*often[:-1], seen("python-exception", 50, captures={**place, "line": "9"})], TRAINING)[0] == [
        "python-exception"
    ]
    assert judge(often[2:], TRAINING)[0] == ["python-exception"]


def numbers_of(file: str, rows: list[tuple[int, float]]) -> list[dict[str, object]]:
    """rows: (line, loss); the line is the step."""
    return [
        row | {"value": loss} for row, (_, loss) in zip(steps_of(file, [(n, n) for n, _ in rows]), rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("after", "roots"),
    [(1.0, []), (float("nan"), ["nan-said"]), (0.0, ["nan-said"])],
    ids=["finite", "nan", "zero, as HF Trainer prints NaN"],
)
def test_what_is_said_of_nan_is_context_where_finite_losses_follow(
    monkeypatch: pytest.MonkeyPatch, after: float, roots: list[str]
) -> None:
    said = signature("nan-said", area="numerics", verdict="diverged", evidence=(EvidenceRule("log", pattern="x"),))  # type: ignore[arg-type]
    monkeypatch.setitem(CATALOGUE, "nan-said", said)
    rows = numbers_of("a.log", [*((n, 1.0) for n in range(1, 20)), *((n, after) for n in range(21, 40))])
    assert judge([seen("nan-said", 20, rule=0)], rows)[0] == roots
