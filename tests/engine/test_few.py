"""A small table and a large one are read in two ways, which must give the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine import attempts, counters, diagnosis, ending, few, identity, successive
from forensics.engine.detectors import loss_shape, nonfinite, resume, series
from forensics.engine.detectors.names import how_many, remembered_names
from forensics.engine.few import Same
from forensics.engine.progress import reached_total
from forensics.engine.steps import counting_training, step_clock
from forensics.model import COLLECTIVES_COLUMNS, METRICS_COLUMNS, Identity, Kind, RunData, Source, Writer, schema
from forensics.triage import hours

_NUMBERS = st.sampled_from([0.0, 1.0, 2.5, 10.0, 40.0, -1.0, float("nan"), float("inf")])
FILES = ["a.log", "b.log", "tb"]
_ROWS = st.lists(
    st.tuples(
        st.sampled_from(FILES),
        st.one_of(st.none(), st.integers(1, 5)),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(0, 1)),
        st.one_of(st.none(), st.integers(0, 40)),
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])),
        st.one_of(st.none(), st.sampled_from([1.7e9, 1.7e9 + 5])),
        st.sampled_from(
            "loss,lr,grad_norm,progress,total_steps,reward,nan_steps,own/name,eval_loss,lm loss vs samples".split(",")
        ),
        _NUMBERS,
    ),
    max_size=24,
)


def table(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema(METRICS_COLUMNS), orient="row")


def run(metrics: pl.DataFrame) -> RunData:
    """A run with these records alone, of which two files are logs."""
    sources = tuple(Source(path=path, file=Path(path), kind=Kind.LOG, size=1) for path in FILES[:2])
    writers = tuple(
        Writer(source=path, identity=Identity(), first_time=None, last_time=None, last_line="", bytes=1)
        for path in FILES[:2]
    )
    empty = pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS))
    return RunData(
        path="run",
        sources=sources,
        observations=(),
        tracebacks=(),
        writers=writers,
        metrics=metrics,
        collectives=empty,
        coverage=(),
    )


def both(rows: list[tuple[Any, ...]], ask: Callable[[pl.DataFrame], Any]) -> tuple[str, str]:
    """The answers by rows and by columns; as text, since NaN is no NaN's equal."""
    by_rows = repr(ask(table(rows)))
    before, few.FEW = few.FEW, -1
    try:
        return by_rows, repr(ask(table(rows)))
    finally:
        few.FEW = before


ASKED: dict[str, Callable[[pl.DataFrame], Any]] = {
    "streams": lambda t: [
        (s.source, s.rank, s.binary, s.lines, s.steps, s.epochs, s.times, s.attempts, s.columns, sorted(s.names))
        for s in series.streams(t, ("loss", "lr", "own/name"))
    ],
    "names": lambda t: remembered_names(Same(t)),
    "counting": lambda t: counting_training(t).rows(),
    "step clock": lambda t: step_clock(t, {}),
    "how many": lambda t: [how_many(t, "loss", **b) for b in ({"above": 0.0, "most": 2.5}, {"least": 10.0}, {})],
    "reached total": reached_total,
    "may resume": resume._may_resume,
    "worth a look": nonfinite._worth_a_look,
    "counting anew": lambda t: sorted(attempts._counting_anew(t)),
    "events": lambda t: attempts.events(run(t), {}, FILES),
    "every event": lambda t: [
        (sorted(map(repr, recorded.steps)), dict(recorded.totals)) for recorded in [attempts._recorded(t, FILES[:2])]
    ],
    "spans": lambda t: attempts._recorded_spans(t),
    "counted": lambda t: [
        (path, *count[:4], sorted(count.names)) for path, count in successive.counted(run(t), FILES[1:]).items()
    ],
    "last records": lambda t: sorted(ending._last_records(run(t)).items()),
    "progress": lambda t: diagnosis._advanced(t),
    "parts": lambda t: hours.parts_of(run(t)),
    "batches": lambda t: sorted(counters.counting_batches(t)),
    "numbered rows": lambda t: identity._numbered_rows(t, {"a.log": 3, "b.log": None}).rows(),
    "ranked rows": lambda t: identity._ranked_rows(t, {"a.log": 3}).rows(),
    "ranks": lambda t: sorted(few.distinct(t["rank"]), key=str),
    "norms differ": lambda t: loss_shape.grad_norms_differ(t, (), agreed=1),
}


@pytest.mark.parametrize("what", ASKED)
@settings(max_examples=25, deadline=None)
@given(rows=_ROWS)
def test_by_rows_and_by_columns(what: str, rows: list[tuple[Any, ...]]) -> None:
    by_rows, by_columns = both(rows, ASKED[what])
    assert by_rows == by_columns


def test_a_large_table_is_none() -> None:
    rows = [("a.log", n, None, None, n, None, None, "loss", 1.0) for n in range(few.FEW + 1)]
    assert few.few(table(rows)) is None
    assert len(few.few(table(rows[1:])) or ()) == few.FEW
