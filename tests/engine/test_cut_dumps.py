"""Dumps that end early: what they hold counts, and what they lost blames nobody."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import polars as pl
import pytest

from forensics.engine.collectives import desync
from forensics.engine.pipeline import analyse
from forensics.model import Kind, Observation, Role, Source, Status
from forensics.parsers.flight_recorder import collectives, read_dump

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"


def with_cut(name: str, rank: int, folder: Path, keep: float) -> Path:
    """A copy of real dumps, of which the file of one rank is cut."""
    for file in (DATA / name).iterdir():
        data = file.read_bytes()
        end = int(len(data) * keep) if file.name.endswith(f"_{rank}") else len(data)
        (folder / file.name).write_bytes(data[:end])
    return folder


def compared(folder: Path) -> Observation:
    frames = []
    for file in sorted(folder.iterdir()):
        source = Source(file.name, file, Kind.FLIGHT_RECORDER, file.stat().st_size)
        frames.append(collectives(read_dump(file, source), source))
    (found,) = desync(pl.concat(frames), (), None)
    return found


@pytest.mark.parametrize("keep", [0.9, 0.6, 0.3])
def test_the_straggler_stays_the_one_that_is_known_to_be_behind(tmp_path: Path, keep: float) -> None:
    found = compared(with_cut("parked_rank2", 1, tmp_path, keep))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))


def test_counters_before_the_entries_say_how_far_the_rank_of_a_cut_dump_came(tmp_path: Path) -> None:
    found = compared(with_cut("parked_rank2", 2, tmp_path, 0.6))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))
    assert "#19" in (found.note or "")
    assert "on the host" in (found.note or "") and "device" not in (found.note or "")


@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_whose_last_calls_are_lost_is_not_called_behind(tmp_path: Path, rank: int) -> None:
    """JSON dumps hold their entries before the counters; only one rank is known to be behind."""
    for file in (DATA / "parked_rank2").iterdir():
        text = json.dumps(pickle.loads(file.read_bytes()), sort_keys=True)
        mine = file.name.endswith(f"_{rank}")
        (tmp_path / f"{file.name}.json").write_text(text[: int(len(text) * 0.6)] if mine else text)
    found = compared(tmp_path)
    expected = {1: "straggler-rank", 2: "collective-timeout"}[rank]  # as of a rank whose dump tells nothing
    assert (found.signature, found.culprits) == (expected, (2,))
    assert rank == 1 or (found.weight <= 0.6 and "no call can be read" in (found.note or ""))


def test_another_call_is_seen_in_what_is_left(tmp_path: Path) -> None:
    found = compared(with_cut("rank0_barrier", 1, tmp_path, 0.9))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (0,))


def test_coverage_says_how_far_a_cut_dump_was_read(tmp_path: Path) -> None:
    diagnosis = analyse([str(with_cut("parked_rank2", 1, tmp_path, 0.6))])
    (row,) = [c for c in diagnosis.coverage if c.status is Status.PARTIAL]
    assert row.path == "comm_lib_trace_rank_1"
    assert (row.reason or "").startswith("truncated: the first ") and " could be read, up to all_reduce #" in (
        row.reason or ""
    )
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", (2,))
