"""A rank that dies on one host, and what the ranks of another host say of it by a clock of another zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role


def lost(hour: int, minute: int) -> str:
    head = f"E305 {hour:02d}:{minute:02d}:10.000000000 ProcessGroupNCCL.cpp:2103] [PG ID 0 PG GUID 0(default_pg) Rank"
    return "".join(
        f"[rank{rank}]:[{head} {rank}] Process group watchdog thread terminated with exception: NCCL error: remote "
        "process exited or there was a network error, NCCL version 2.21.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        for rank in range(4)
    )


def report(hour: int, minute: int, rank: int, host: str) -> str:
    stamp = f"0305 {hour:02d}:{minute:02d}"
    return (
        f"E{stamp}:09.000000 231 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -9) "
        f"local_rank: {rank % 4} (pid: 992) of binary: /usr/bin/python3\n"
        "Root Cause (first observed failure):\n[0]:\n"
        f"  time      : 2025-03-05_{hour:02d}:{minute:02d}:08\n  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {rank % 4})\n  exitcode  : -9 (pid: 992)\n  error_file: <N/A>\n"
        "  traceback : Signal 9 (SIGKILL) received by PID 992\n"
    )


@pytest.mark.parametrize(
    ("hour", "minute", "names"),
    [
        (10, 1, ["sigkill-unknown-sender"]),
        (9, 1, ["sigkill-unknown-sender"]),
        (7, 1, ["sigkill-unknown-sender"]),
        (9, 40, ["sigkill-unknown-sender", "nccl-remote-error"]),  # no zones lie so far apart
    ],
)
def test_a_loss_that_is_told_by_another_zone_follows(tmp_path: Path, hour: int, minute: int, names: list[str]) -> None:
    (tmp_path / "nodeA.log").write_text(lost(hour, minute))
    (tmp_path / "nodeB.log").write_text(report(10, 1, 5, "nodeB"))
    assert [f.name for f in analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)] == names


@pytest.mark.parametrize(("hour", "minute", "more"), [(7, 1, []), (8, 33, ["rank-exited-early"])])
def test_that_a_rank_was_gone_by_another_zone_follows_from_its_own_error(
    tmp_path: Path, hour: int, minute: int, more: list[str]
) -> None:
    steps = [f"2025-03-05 10:00:{n:02d} [rank{r}] step {n} loss 2.{90 - n}" for n in range(40) for r in (4, 5)]
    raised = ["Traceback (most recent call last):", '  File "/w/t.py", line 10, in main', "    loss.backward()"]
    raised += ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB."]
    (tmp_path / "nodeA.log").write_text(lost(hour, minute))
    (tmp_path / "nodeB.log").write_text("\n".join([*steps, *(f"[rank5]: {line}" for line in raised)]) + "\n")
    names = [f.name for f in analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)]
    assert names[0] == "cuda-oom" and [n for n in names[1:] if n == "rank-exited-early"] == more
