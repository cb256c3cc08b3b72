"""Coverage says what a limit left out: streams of metrics, texts and sessions of an event file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from forensics.engine import observing
from forensics.engine.detectors import series
from forensics.model import METRICS_COLUMNS, Coverage, RunData, Status, schema
from forensics.parsers.tensorboard import events
from forensics.parsers.tensorboard.events import Rows


def _run(streams: int) -> RunData:
    columns = dict.fromkeys(METRICS_COLUMNS) | {"name": "loss", "value": 1.0}
    rows = [columns | {"source": f"r{n}.log", "rank": n} for n in range(streams)]
    return RunData(
        path="run", sources=(), observations=(), tracebacks=(), writers=(),
        metrics=pl.DataFrame(rows, schema=schema(METRICS_COLUMNS)), collectives=pl.DataFrame(),
        coverage=tuple(Coverage(f"r{n}.log", "log", 1, Status.READ) for n in range(streams)),
    )  # fmt: skip


def test_streams_beyond_the_limit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_STREAMS", 3)
    told = [row for row in observing.streams_left_out(_run(5)).coverage if row.status is Status.PARTIAL]
    assert [row.path for row in told] == ["r3.log", "r4.log"]
    assert told[0].reason == "metrics of 1 streams not looked at: more than 3 in the run"
    assert observing.streams_left_out(_run(3)).coverage == _run(3).coverage


def test_texts_and_sessions_beyond_the_limit_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    monkeypatch.setattr(events, "MAX_SESSIONS", 2)
    monkeypatch.setitem(events.LIMITS, "starts of sessions", 2)
    start = Event(step=1, wall_time=1.0, session_log=SessionLog(status=SessionLog.START)).SerializeToString()
    rows = Rows()
    assert rows.add([start] * 2) == [] and rows.problem() is None
    assert rows.add([start] * 3) == []
    assert rows.problem() == "3 starts of sessions beyond the first 2 left out"
