"""Flight Recorder dumps with one seeded fault: found, and where PyTorch's own analyser finds something, the same thing."""

from __future__ import annotations

import argparse
import contextlib
import logging
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.engine.collectives import desync
from forensics.model import Kind, Observation, Source
from forensics.parsers.flight_recorder import collectives, read_dump

OPS = ("all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast")
SIGNATURES = {
    "missing": {"straggler-rank", "rank-exited-early"},
    "op": {"collective-op-mismatch"},
    "size": {"collective-shape-mismatch"},
    "dtype": {"collective-dtype-mismatch"},
}
# What torch.distributed.flight_recorder calls them (MatchState).
THEIR_KINDS = {
    "op": "COLLECTIVE_TYPE_MISMATCH",
    "size": "SIZE_OR_SYNTAX_MISMATCH",
    "dtype": "COLLECTIVE_DTYPE_MISMATCH",
}


@dataclass(frozen=True)
class Call:
    group: str
    op: str
    size: int
    dtype: str = "Float"


@dataclass(frozen=True)
class Job:
    groups: dict[str, tuple[int, ...]]
    schedule: tuple[Call, ...]
    fault: str
    at: int  # index in the schedule
    rank: int  # who is at fault

    @property
    def world(self) -> int:
        return len(self.groups["0"])

    @property
    def seq(self) -> int:
        """The sequence number, in its group, of the call that goes wrong."""
        return sum(c.group == self.schedule[self.at].group for c in self.schedule[: self.at + 1])


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    world = draw(st.integers(3, 6))
    groups = {"0": tuple(range(world))}
    if world > 3 and draw(st.booleans()):
        members = draw(st.lists(st.integers(0, world - 1), min_size=3, max_size=world - 1, unique=True))
        groups["1"] = tuple(sorted(members))
    call = st.builds(Call, st.sampled_from(sorted(groups)), st.sampled_from(OPS), st.sampled_from((8, 64, 4096)))
    schedule = tuple(draw(st.lists(call, min_size=2, max_size=10)))
    at = draw(st.integers(0, len(schedule) - 1))
    rank = draw(st.sampled_from(groups[schedule[at].group]))
    return Job(groups, schedule, draw(st.sampled_from(sorted(SIGNATURES))), at, rank)


def wrong(call: Call, fault: str) -> Call:
    if fault == "op":
        return Call(call.group, "broadcast" if call.op != "broadcast" else "all_reduce", call.size, call.dtype)
    if fault == "size":
        return Call(call.group, call.op, call.size * 2, call.dtype)
    return Call(call.group, call.op, call.size, "BFloat16")


def run(job: Job) -> dict[int, list[dict[str, Any]]]:
    """Entries by rank, when nothing moves any more. Each rank waits for each of its calls."""
    programs: dict[int, list[tuple[int, Call]]] = {}
    for rank in range(job.world):
        mine = [(n, c) for n, c in enumerate(job.schedule) if rank in job.groups[c.group]]
        if rank == job.rank:
            mine = [(n, c) for n, c in mine if n < job.at or job.fault != "missing"]
            mine = [(n, wrong(c, job.fault) if n == job.at else c) for n, c in mine]
        programs[rank] = mine
    entries: dict[int, list[dict[str, Any]]] = {}
    for rank, program in programs.items():
        counts: dict[str, int] = {}
        made: list[dict[str, Any]] = []
        for n, call in program:
            counts[call.group] = counts.get(call.group, 0) + 1
            finished = n < job.at or not set(job.groups[call.group]) & stuck(job)
            made.append(entry(job, call, counts[call.group], len(made), finished))
            if not finished:
                break
        entries[rank] = made
    return entries


def stuck(job: Job) -> set[int]:
    """Ranks that go no further than the call that goes wrong."""
    return set(job.groups[job.schedule[job.at].group])


def entry(job: Job, call: Call, seq: int, record: int, finished: bool) -> dict[str, Any]:
    outputs = {"_all_gather_base": call.size * len(job.groups[call.group])}
    inputs = {"_reduce_scatter_base": call.size * len(job.groups[call.group])}
    return {
        "frames": [{"name": "step", "filename": "/app/train.py", "line": 88}],
        "record_id": record,
        "pg_id": int(call.group),
        "process_group": (call.group, "default_pg" if call.group == "0" else "undefined"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{call.op}",
        "time_created_ns": 10**18 + record * 10**9,
        "input_sizes": [[inputs.get(call.op, call.size)]],
        "input_dtypes": [call.dtype],
        "output_sizes": [[outputs.get(call.op, call.size)]],
        "output_dtypes": [call.dtype],
        "state": "completed" if finished else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 10**18 if finished else None,
        "retired": finished,
        "timeout_ms": 600000,
        "is_p2p": False,
    }


def counters(entries: list[dict[str, Any]]) -> dict[str, int]:
    done = [e["collective_seq_id"] for e in entries if e["retired"]]
    enqueued = max((e["collective_seq_id"] for e in entries), default=-1)
    return {
        "last_enqueued_collective": enqueued,
        "last_started_collective": -1,
        "last_completed_collective": max(done, default=-1),
    }


def write(job: Job, folder: Path, without: int | None = None) -> None:
    config = {
        name: {"name": name, "desc": "default_pg" if name == "0" else "undefined", "ranks": str(list(members))}
        for name, members in job.groups.items()
    }
    for rank, entries in run(job).items():
        mine = {name: group for name, group in config.items() if rank in job.groups[name]}
        status = {"0": counters([e for e in entries if e["process_group"][0] == "0"])}
        dump = {"version": "2.10", "pg_config": mine, "comm_lib_version": "", "pg_status": status, "entries": entries}
        if rank != without:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, 2))


def ours(folder: Path) -> tuple[Observation, ...]:
    frames = []
    for file in sorted(folder.iterdir()):
        source = Source(file.name, file, Kind.FLIGHT_RECORDER, file.stat().st_size)
        frames.append(collectives(read_dump(file, source), source))
    return desync(pl.concat(frames), (), None)


def theirs(folder: Path) -> list[tuple[str, int, set[int], str]]:
    """(group, sequence id, missing ranks, kinds of mismatch) of every collective that PyTorch's analyser complains of."""
    builder = pytest.importorskip("torch.distributed.flight_recorder.components.builder")
    loader = pytest.importorskip("torch.distributed.flight_recorder.components.loader")
    asked = argparse.Namespace(
        trace_dir=str(folder), prefix="nccl_trace_rank_", verbose=False, just_print_entries=False,
        allow_incomplete_ranks=False, mismatch_cap=10,
    )  # fmt: skip
    logging.disable(logging.CRITICAL)
    try:
        details, version = loader.read_dir(asked)
        found = builder.build_db(details, asked, version).collectives
    finally:
        logging.disable(logging.NOTSET)
    return [
        (c.pg_desc.partition(":")[0], c.collective_seq_id, set(c.missing_ranks or ()), str(c.type_of_mismatch))
        for c in found
        if not c.pass_check
    ]


@given(jobs())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_seeded_fault_is_found(job: Job) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(job, Path(folder))
        found = ours(Path(folder))
    assert len(found) == 1, [(o.signature, o.note) for o in found]
    assert found[0].culprits == (job.rank,)
    assert found[0].signature in SIGNATURES[job.fault] | {"collective-timeout"}
    assert found[0].captures["seq"] == str(job.seq)


@given(jobs())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_analyser_of_pytorch_finds_is_found(job: Job) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(job, Path(folder))
        complaints = theirs(Path(folder))
        found = ours(Path(folder))
    group = job.schedule[job.at].group
    here = [c for c in complaints if (c[0], c[1]) == (group, job.seq)]
    if not here:
        return
    assert found and found[0].captures["seq"] == str(job.seq)
    for _, _, missing, kinds in here:
        if job.fault == "missing":
            assert missing == {job.rank} == set(found[0].culprits or ())
        elif THEIR_KINDS[job.fault] in kinds:
            assert found[0].signature in SIGNATURES[job.fault]


MISSING = Job({"0": (0, 1, 2, 3)}, (Call("0", "all_reduce", 8),) * 3, "missing", 2, 1)


def test_a_dump_that_is_missing_stops_the_analyser_of_pytorch_only(tmp_path: Path) -> None:
    write(MISSING, tmp_path, without=1)
    with pytest.raises(AssertionError, match="Missing dump files"):
        theirs(tmp_path)
    (found,) = ours(tmp_path)
    assert found.signature == "collective-timeout"
    assert found.culprits == (1,)
    assert found.weight < 0.7  # a file can be missing for other reasons than its rank


def test_real_gloo_dumps_are_answered_whatever_the_analyser_of_pytorch_does(tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "flight_recorder" / "parked_rank2"
    for file in data.iterdir():
        (tmp_path / file.name.replace("comm_lib", "nccl")).write_bytes(file.read_bytes())
    with contextlib.suppress(KeyError, AssertionError):  # torch 2.13: KeyError, of the default group's name
        theirs(tmp_path)
    (found,) = ours(tmp_path)
    assert found.culprits == (2,)
