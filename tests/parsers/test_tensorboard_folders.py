"""Event files of one folder: a run that was launched again, and what is none."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
from event_files import T0, VERSION, event, record, simple

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Identity, Kind, Role, Source, Verdict
from forensics.parsers import tensorboard as tb

FIRST = "events.out.tfevents.1700000000.host.10.0"
LATER = "events.out.tfevents.1700009000.host.11.0"
SAME_PROCESS = "events.out.tfevents.1700009000.host.10.1"
HOURS = 9_000.0  # between the starts of two files


def losses(begin: int, end: int, nan_from: int | None = None, start: float = 0.0, tag: str = "train/loss") -> bytes:
    """A loss that falls, a step a second from `start` on."""
    values = [(n, math.nan if nan_from is not None and n >= nan_from else 3 - n / 200) for n in range(begin, end)]
    return VERSION + b"".join(record(event(n, simple(tag, value), time=T0 + start + n - begin)) for n, value in values)


def launches(tmp_path: Path, files: dict[str, bytes]) -> tuple[dict[str, list[int | None]], list[int | None]]:
    """(file -> its attempts, steps of the launches that were told) of files in one folder."""
    frames: list[pl.DataFrame] = []
    sources: list[Source] = []
    for name, data in files.items():
        (tmp_path / name.replace("/", "_")).write_bytes(data)
        source = Source(name, tmp_path / name.replace("/", "_"), Kind.TENSORBOARD, len(data), Identity())
        sources.append(source)
        frames.append(tb.metrics(tb.read_events(source.file), source))
    found = tb.launches(frames, sources)
    attempts = {str(f["source"][0]): sorted(f["attempt"].unique().to_list(), key=str) for f in found.metrics}
    return attempts, [o.step for o in found.observations]


def run(folder: Path, **files: bytes) -> Diagnosis:
    for name, data in files.items():
        (folder / {"first": FIRST, "later": LATER, "same": SAME_PROCESS}[name]).write_bytes(data)
    return analyse([str(folder)], Options(threads=1))


def test_a_file_that_goes_back_is_of_the_next_attempt(tmp_path: Path) -> None:
    files = {f"tb/{LATER}": losses(200, 400, start=HOURS), f"tb/{FIRST}": losses(0, 300)}
    attempts, steps = launches(tmp_path, files)
    assert attempts == {f"tb/{FIRST}": [0], f"tb/{LATER}": [1]}
    assert steps == [200]


def test_another_process_may_begin_anew(tmp_path: Path) -> None:
    attempts, steps = launches(tmp_path, {FIRST: losses(0, 300), LATER: losses(0, 400, start=HOURS)})
    assert attempts == {FIRST: [0], LATER: [1]}
    assert steps == [0]


@pytest.mark.parametrize(
    "files",
    [
        {FIRST: losses(0, 300), LATER: losses(200, 400, start=200.0)},  # two writers at a time
        {FIRST: losses(0, 300), SAME_PROCESS: losses(0, 300, start=HOURS)},  # the next fold of one program
        {FIRST: losses(0, 300), LATER: losses(300, 400, start=HOURS)},  # goes on, and supersedes nothing
        {FIRST: losses(0, 300), LATER: losses(20, 40, start=HOURS, tag="test/acc")},  # something else
        {f"a/{FIRST}": losses(0, 300), f"b/{LATER}": losses(200, 400, start=HOURS)},  # runs of their own
        {FIRST: losses(0, 300)},
    ],
)
def test_what_is_no_later_attempt(tmp_path: Path, files: dict[str, bytes]) -> None:
    attempts, steps = launches(tmp_path, files)
    assert set(map(tuple, attempts.values())) == {(None,)}
    assert steps == []


def test_a_lost_loss_that_a_later_launch_trained_past(tmp_path: Path) -> None:
    found = run(tmp_path, first=losses(0, 301, nan_from=260), later=losses(200, 401, start=HOURS))
    assert found.verdict is Verdict.HEALTHY
    assert not found.of_role(Role.ROOT)
    assert "nan-loss" in [f.name for f in found.of_role(Role.CONTEXT)]


@pytest.mark.parametrize(
    "later",
    [
        losses(200, 401, nan_from=330, start=HOURS),  # lost again, later
        losses(200, 401, nan_from=262, start=HOURS),  # hardly past it
        losses(200, 255, start=HOURS),  # has not come to where it was lost
        losses(200, 401, start=200.0),  # another writer of the same time
    ],
)
def test_a_loss_that_stays_lost(tmp_path: Path, later: bytes) -> None:
    found = run(tmp_path, first=losses(0, 301, nan_from=260), later=later)
    assert found.verdict is Verdict.DIVERGED
    assert [(f.attempt, f.step) for f in found.of_role(Role.ROOT)] == [(0, 260)]


def test_a_second_launch_that_is_lost_counts(tmp_path: Path) -> None:
    found = run(tmp_path, first=losses(0, 301), later=losses(200, 401, nan_from=260, start=HOURS))
    assert found.verdict is Verdict.DIVERGED
    assert [(f.attempt, f.step) for f in found.of_role(Role.ROOT)] == [(1, 260)]
