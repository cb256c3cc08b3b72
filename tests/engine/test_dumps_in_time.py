"""Flight Recorder dumps against the run's time, and the stacks of a process's own timer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from forensics.engine.collectives import desync
from forensics.engine.pipeline import analyse
from forensics.model import COLLECTIVES_COLUMNS, METRICS_COLUMNS, Evidence, Identity, Observation, Role, schema

EARLIER = "flight-recorder-earlier"
START = 1_772_445_600.0  # 10:00 UTC of some day, in seconds since the epoch


def dumps(newest: float, last: int = 100) -> pl.DataFrame:
    """Four ranks, rank 2 one call behind; a call a second, the newest one at `newest` (seconds since START)."""
    rows = [
        {
            "source": f"trace_{rank}", "rank": rank, "group": "0", "group_desc": "default_pg", "seq": seq,
            "op": "all_reduce", "input_sizes": "[[64]]", "output_sizes": "[[64]]", "dtypes": '["Float"]',
            "state": "completed" if seq < last else "started", "retired": seq < last,
            "time": START + newest - (last - seq), "is_p2p": False, "frame": "/app/train.py:88 step",
        }
        for rank in range(4)
        for seq in range(last - 20, last + (rank != 2))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=schema(COLLECTIVES_COLUMNS))


def steps(seconds: Sequence[float]) -> pl.DataFrame:
    rows = [
        {"source": f"rank{r}.log", "line": n, "rank": r, "step": n, "time": START + s, "name": "loss", "value": 1.0}
        for r in range(4)
        for n, s in enumerate(seconds, 1)
    ]
    return pl.DataFrame(rows, schema=schema(METRICS_COLUMNS))


def said(signature: str, rank: int, **captures: str) -> Observation:
    return Observation(
        signature=signature,
        weight=0.9,
        evidence=(Evidence(f"rank{rank}.log", 9, 0, signature),),
        identity=Identity(rank=rank),
        culprits=(),
        captures=captures,
    )


def names(found: Sequence[Observation]) -> list[str]:
    return [o.signature for o in found]


EVEN = [2.0 * n for n in range(600)]  # a step every two seconds, for 20 minutes


def test_training_that_goes_on_after_the_dumps() -> None:
    found = desync(dumps(100), (), range(4), metrics=steps(EVEN))
    assert names(found) == [EARLIER]
    assert "18 min before the run's last step" in (found[0].note or "")


def test_dumps_from_before_the_run() -> None:
    (found,) = desync(dumps(-17_900), (), range(4), metrics=steps(EVEN))
    assert found.signature == EARLIER
    assert "before its first step" in (found.note or "")


@pytest.mark.parametrize(
    "newest",
    [
        1198,  # the last step
        1198 + 600,  # an evaluation that prints nothing
        1198 - 8 * 3600,  # logs of a zone that is 8 hours ahead, which do not say so
        1198 - 5.5 * 3600 + 20,
        1198 + 7 * 3600,
    ],
)
def test_dumps_that_may_be_of_the_runs_end_count(newest: float) -> None:
    assert names(desync(dumps(newest), (), range(4), metrics=steps(EVEN))) == ["straggler-rank"]


@pytest.mark.parametrize("hours", [15, 24, 25, 30 * 24])
def test_dumps_that_no_zone_brings_to_the_run_are_of_another(hours: int) -> None:
    found = desync(dumps(1198 - hours * 3600), (), range(4), metrics=steps(EVEN))
    assert names(found) == [EARLIER]


@pytest.mark.parametrize("hours", [8, 14, -12])
def test_dumps_that_some_zone_brings_to_the_runs_end_count(hours: int) -> None:
    assert names(desync(dumps(1198 - hours * 3600), (), range(4), metrics=steps(EVEN))) == ["straggler-rank"]


def test_seldom_steps_prove_nothing() -> None:
    seldom = [600.0 * n for n in range(6)]
    assert names(desync(dumps(2300), (), range(4), metrics=steps(seldom))) == ["straggler-rank"]


def test_a_run_that_timed_out_is_not_judged_by_its_steps() -> None:
    timeouts = [said("collective-timeout", rank, seq="100", op="ALLREDUCE") for rank in (0, 1, 3)]
    found = desync(dumps(100), timeouts, range(4), metrics=steps(EVEN))
    assert EARLIER not in names(found)
    assert [o.culprits for o in found] == [(2,)]


def test_the_end_of_the_run_needs_no_zone() -> None:
    newest = 1198 - 8 * 3600
    ends = [said("run-finished", rank) for rank in range(4)]
    assert names(desync(dumps(newest), ends, range(4), metrics=steps(EVEN))) == [EARLIER]
    assert EARLIER not in names(desync(dumps(newest), ends[:1], range(4), metrics=steps(EVEN)))


def test_the_end_of_a_run_whose_steps_have_no_times() -> None:
    ends = [said("run-finished", rank) for rank in range(4)]
    (found,) = desync(dumps(100), ends, range(4))
    assert found.signature == EARLIER
    assert "came to its end" in (found.note or "")


def test_an_end_without_times_that_proves_nothing() -> None:
    ends = [said("run-finished", rank) for rank in range(4)]
    assert EARLIER not in names(desync(dumps(100), ends[:3], range(4)))
    assert EARLIER not in names(desync(dumps(100), [*ends, said("external-sigterm", 0)], range(4)))
    before = [replace(o, time=START + 90) for o in ends]  # the calls are of after the end: the last barrier hangs
    assert EARLIER not in names(desync(dumps(100), before, range(4)))


def test_watchdogs_that_speak_of_far_later_calls() -> None:
    timeouts = [said("collective-timeout", rank, seq="812", op="ALLREDUCE") for rank in (1, 2, 3)]
    found = desync(dumps(100), timeouts, range(4), present=range(4))
    assert names(found)[0] == EARLIER
    assert "#812" in (found[0].note or "")
    assert [o.culprits for o in found[1:]] == [(0,)]


@pytest.mark.parametrize("seq", ["100", "110"])
def test_watchdogs_near_the_dumps(seq: str) -> None:
    timeouts = [said("collective-timeout", rank, seq=seq, op="ALLREDUCE") for rank in (0, 1, 3)]
    assert EARLIER not in names(desync(dumps(100), timeouts, range(4)))


STEP = "2026-03-02 10:{:02}:{:02} INFO train: step {} | loss 2.{:04}\n"
BEFORE = "".join(STEP.format(n // 30, 2 * n % 60, n, 9000 - n) for n in range(40))
DUMP = """\
Timeout (0:05:00)!
Thread 0x00007f3c6a7fc640 (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 324 in wait

Thread 0x00007f3d8b7fe000 (most recent call first):
  File "/usr/lib/python3.10/site-packages/h5py/_hl/dataset.py", line 841 in __getitem__
  File "/app/data.py", line {} in __getitem__
  File "/app/train.py", line 99 in <module>
"""
AFTER = "".join(STEP.format(20 + n // 30, 2 * n % 60, n, 9000 - n) for n in range(40, 60))


def test_a_timer_that_finds_the_process_in_one_place(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(BEFORE + DUMP.format(60) * 3)
    diagnosis = analyse([str(tmp_path)])
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (diagnosis.verdict.value, root.name) == ("hung", "silent-hang")
    assert "data.py:60 __getitem__" in " ".join(root.notes)


@pytest.mark.parametrize(
    "text",
    [
        BEFORE + DUMP.format(60) * 3 + AFTER,  # it went on
        BEFORE + DUMP.format(60) + AFTER,  # once: a slow call
        BEFORE + DUMP.format(60) + DUMP.format(75),  # it gets on
        DUMP.format(60) * 3,  # nothing says that it would have printed anything
    ],
)
def test_a_timer_that_proves_no_hang(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.log").write_text(text)
    assert "silent-hang" not in {f.name for f in analyse([str(tmp_path)]).findings}
