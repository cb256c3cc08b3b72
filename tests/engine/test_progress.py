"""A step counter that ends at its stated total is an end of the run; a bar of an epoch or of a loader is none."""

from __future__ import annotations

import polars as pl

from forensics.engine.progress import reached_total
from forensics.model import METRICS_COLUMNS, schema

Row = tuple[int, int | None, float | None, str, float]


def frame(rows: list[Row], source: str = "a.log") -> pl.DataFrame:
    table = [
        {
            "source": source,
            "line": line,
            "rank": 7,
            "attempt": 1,
            "step": step,
            "epoch": epoch,
            "time": 5.0,
            "name": name,
            "value": value,
        }
        for line, step, epoch, name, value in rows
    ]
    return pl.DataFrame(table, schema=schema(METRICS_COLUMNS))


def losses(last: int, total: float, epoch: float | None = None) -> list[Row]:
    rows: list[Row] = [(1, 1, epoch, "total_steps", total)]
    return rows + [(n, n, epoch, "loss", 2.0) for n in range(1, last + 1)]


def test_the_last_step_of_the_stated_ones_is_the_end() -> None:
    (end,) = reached_total(frame(losses(200, 200)))
    assert (end.signature, end.step, end.identity.rank, end.identity.attempt) == ("run-finished", 200, 7, 1)
    assert (end.evidence[0].file, end.evidence[0].line) == ("a.log", 200)


def test_a_run_that_is_on_its_way_has_no_end() -> None:
    assert reached_total(frame(losses(199, 200))) == ()
    assert reached_total(frame(losses(201, 200))) == ()
    assert reached_total(frame([])) == ()


def test_a_counter_of_batches_is_not_one_of_the_run() -> None:
    assert reached_total(frame(losses(50, 50, epoch=0.0))) == ()
    twice = losses(50, 50) + [(100 + n, n, None, "loss", 2.0) for n in range(1, 51)]
    assert reached_total(frame(twice)) == ()
    assert (
        len(
            reached_total(
                frame([(n, n, n / 25, "loss", 2.0) for n in range(1, 51)] + [(50, 50, 2.0, "total_steps", 50.0)])
            )
        )
        == 1
    )


def test_a_bar_needs_a_loss_somewhere_in_the_run() -> None:
    bar: list[Row] = [(n, None, None, "progress", float(n)) for n in range(1, 31)] + [
        (1, None, None, "total_steps", 30.0)
    ]
    assert reached_total(frame(bar)) == ()
    both = pl.concat([frame(bar), frame([(1, None, None, "loss", 1.0)], "b.log")])
    assert [o.evidence[0].file for o in reached_total(both)] == ["a.log"]


def test_a_handful_of_steps_is_no_run() -> None:
    assert reached_total(frame(losses(2, 2))) == ()
