"""What dumps prove of a rank stays the cause where its own watchdog was the first to abort."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role
from forensics.signatures.schema import load_catalogue

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-10-14_10:02:20
  host      : host-a
  rank      : {rank} (local_rank: {rank})
  exitcode  : -6 (pid: {pid})
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID {pid}
============================================================
"""


def dump(rank: int, op: str, dtype: str) -> str:
    """The last call of a rank, as torch 2.5 and later write it."""
    entry = {
        "record_id": 9,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 9,
        "p2p_seq_id": 0,
        "op_id": 9,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 1_791_969_123_360_000_000,
        "input_sizes": [[1024]],
        "input_dtypes": [dtype],
        "output_sizes": [[1024]],
        "output_dtypes": [dtype],
        "state": "started",
        "time_discovered_started_ns": 1_791_969_123_360_100_000,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [],
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return json.dumps({"version": "2.4", "pg_config": groups, "entries": [entry]})


@pytest.mark.parametrize("aborted", [0, 2])
@pytest.mark.parametrize(
    ("odd", "name"),
    [(("all_gather", "Float"), "collective-op-mismatch"), (("all_reduce", "Half"), "collective-dtype-mismatch")],
)
def test_a_mismatch_that_dumps_prove_outranks_the_abort(
    tmp_path: Path, odd: tuple[str, str], name: str, aborted: int
) -> None:
    lines = []
    for rank in range(4):
        op, dtype = odd if rank == 2 else ("all_reduce", "Float")
        (tmp_path / f"trace_rank{rank}.json").write_text(dump(rank, op, dtype))
        lines.append(
            f"[rank{rank}]:[E1014 10:02:1{rank}.004512 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) "
            "ran for 600037 milliseconds before timing out."
        )
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n" + TABLE.format(rank=aborted, pid=2300 + aborted))
    found, *others = analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)
    assert (found.name, found.ranks, others) == (name, (2,), [])


def test_what_dumps_prove_can_end_in_an_abort_of_any_rank() -> None:
    proved = {
        s.name: s.causes
        for s in load_catalogue().values()
        if "monitored-barrier-timeout" in s.causes or s.name.endswith("-mismatch")
        if "collective-timeout" in s.causes and any(e.source == "collectives" for e in s.evidence)
    }
    assert len(proved) >= 8
    assert [name for name, causes in proved.items() if "rank-sigabrt" not in causes] == []
