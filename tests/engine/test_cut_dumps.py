"""Dumps that end early: what they hold counts, and what they lost blames nobody."""

from __future__ import annotations

import json
import os
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


def of_nccl(rank: int, last: int) -> dict[str, object]:
    """A dump of NCCL's recorder: all calls are completed but the last one."""
    entries = [
        {
            "process_group": ["0", "default_pg"], "pg_id": 0, "collective_seq_id": n, "op_id": n, "is_p2p": False,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[1024]], "output_sizes": [[1024]],
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "time_created_ns": 1_795_000_000_000_000_000 + n,
            "state": "completed" if n < last else "scheduled", "retired": n < last,
            "frames": [{"filename": "t.py", "line": 50, "name": "step"}],
        }
        for n in range(1, last + 1)
    ]  # fmt: skip
    status = {"last_enqueued_collective": last, "last_started_collective": -1, "last_completed_collective": last - 1}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.4", "rank": rank, "pg_config": config, "pg_status": {"0": status}, "entries": entries}


@pytest.mark.parametrize(
    ("timed_out", "expected"), [(59, "rank-stuck-on-device"), (58, "straggler-rank"), (None, "straggler-rank")]
)
def test_the_watchdog_of_a_cut_dumps_rank_says_that_its_last_call_did_not_end(
    tmp_path: Path, timed_out: int | None, expected: str
) -> None:
    for rank in range(4):
        data = pickle.dumps(of_nccl(rank, 59 if rank == 2 else 60), protocol=2)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data[: int(len(data) * 0.66)] if rank == 2 else data)
    said = {0: 60, 1: 60, 3: 60, 2: timed_out}
    lines = [
        f"[rank{rank}]:[E514 10:18:22.100 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for "
        "600010 milliseconds before timing out.\n"
        for rank, seq in said.items()
        if seq is not None
    ]
    (tmp_path / "log.txt").write_text("".join(lines))
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks) == (expected, (2,))


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


class _Runs:
    """What a hostile dump holds in place of plain data."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("false",)


WATCHDOG = (
    "[rank{rank}]:[E514 10:18:22.100 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=60, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600021 milliseconds "
    "before timing out.\n"
    "[rank{rank}]:[E514 10:18:22.900 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group "
    "watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout\n"
)
LOST = (
    "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[192.0.2.2]:29531\n"
)


@pytest.mark.parametrize("said", [WATCHDOG, LOST])
def test_a_dump_that_is_refused_says_that_its_process_was_there(tmp_path: Path, said: str) -> None:
    """The process wrote it, so that it had not ended, whatever the file holds."""
    for rank in range(4):
        dump = of_nccl(rank, 60) if rank != 2 else _Runs()
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    (tmp_path / "train.log").write_text("".join(said.format(rank=rank) for rank in (0, 1, 3)))
    diagnosis = analyse([str(tmp_path)])
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("collective-timeout", (2,))
    refused = next(c for c in diagnosis.coverage if c.path.endswith("rank_2"))
    assert refused.status is Status.PARTIAL and "not plain data" in (refused.reason or "")
