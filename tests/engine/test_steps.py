"""Which records count training steps, and which count something else."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from forensics.engine import few
from forensics.engine.steps import counting_training, step_clock
from forensics.model import METRICS_COLUMNS, schema

Record = tuple[int | None, int, str]  # line, step, name


@pytest.fixture(params=["by rows", "by columns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by columns":
        monkeypatch.setattr(few, "FEW", -1)


def table(records: list[Record]) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [("tb", n, None, None, step, None, None, name, 1.0) for n, step, name in records]
    return pl.DataFrame(rows, schema=schema(METRICS_COLUMNS), orient="row")


def steps(records: list[Record]) -> list[int]:
    return [mark.step for mark in step_clock(table(records), {}).marks.get("tb", ())]


def by_epoch(epochs: int, every: int = 100) -> list[Record]:
    found: list[Record] = []
    for epoch in range(epochs):
        found += [(None, step, "loss") for step in range(epoch * every, (epoch + 1) * every, 10)]
        found.append((None, epoch, "eval_loss"))
    return found


@pytest.mark.usefixtures("way")
def test_a_held_out_metric_by_epochs_is_no_global_step() -> None:
    assert steps(by_epoch(5)) == list(range(0, 500, 10))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["weights/mean", "accuracy", "hp/score"])
def test_a_late_series_does_not_move_the_clock_back(name: str) -> None:
    late: list[Record] = [(None, 0, name), (None, 100, name)]
    assert steps(by_epoch(5) + late)[-1] == 490
    assert counting_training(table(by_epoch(5) + late))["step"][-1] == 490


@pytest.mark.usefixtures("way")
def test_a_run_that_goes_back_moves_it_back() -> None:
    again: list[Record] = [(None, step, "loss") for step in (205, 215)]
    assert steps(by_epoch(5) + again)[-3:] == [490, 205, 215]
    # A held-out metric by epochs goes back with it, and is still no step.
    assert steps([*by_epoch(5), *again, (None, 2, "eval_loss")])[-3:] == [490, 205, 215]


@pytest.mark.usefixtures("way")
def test_a_held_out_metric_by_steps_counts() -> None:
    records: list[Record] = [(None, step, name) for step in range(0, 50, 10) for name in ("loss", "eval_loss")]
    alone: list[Record] = [(None, step, "eval_loss") for step in range(3)]
    assert steps(records) == [0, 10, 20, 30, 40]
    assert steps(alone) == [0, 1, 2]


@pytest.mark.usefixtures("way")
def test_an_axis_of_samples_is_none() -> None:
    records: list[Record] = []
    for step in range(1, 4):
        records += [(None, step, "loss"), (None, 256 * step, "lm loss vs samples")]
    assert steps(records) == [1, 2, 3]


@pytest.mark.usefixtures("way")
def test_phases_of_a_text_count_each_for_itself() -> None:
    records: list[Record] = [(n, n, "loss") for n in range(1, 40)] + [(40 + n, n, "reward") for n in range(1, 5)]
    assert steps(records)[-1] == 4
    assert steps([(n, n, "loss") for n in range(1, 40)] + [(41, 2, "eval_loss")])[-1] == 39


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("bars", "last"),
    [
        ([4650], 200),  # the batches of an evaluation
        ([15, 30], 200),
        ([201, 203, 207], 207),  # the training's own bar goes on from its records
    ],
)
def test_bars_of_other_things_are_no_steps(bars: list[int], last: int) -> None:
    own: list[Record] = [(step, step, "loss") for step in range(1, 201)]
    beside: list[Record] = [(201 + n, bar, "progress") for n, bar in enumerate(bars)]
    assert steps(own + beside)[-1] == last


@pytest.mark.usefixtures("way")
def test_where_bars_alone_count_they_are_the_steps() -> None:
    assert steps([(n, 100 * n, "progress") for n in range(5)]) == [0, 100, 200, 300, 400]
