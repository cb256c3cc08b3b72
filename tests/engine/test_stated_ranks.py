"""Ranks that launchers, runtimes and services of other makers name: in tables, in the line above, in lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=====================================================
train.py FAILED
-----------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-07_05:30:20
  host      : node-0
  rank      : 1 (local_rank: 1)
  exitcode  : -{number} (pid: 7103)
  error_file: <N/A>
  traceback : Signal {number} ({name}) received by PID 7103
=====================================================
"""
BUSY = """\
[ERROR] 2024-05-21-11:57:54 (PID:4141, Device:3, RankID:11) ERR02200 DIST call hccl api failed.
EJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process. Reason: Maybe the last training process is running.
"""
UNCONNECTED = """\
RuntimeError: create_config:HCCLUtils.cpp:140 HCCL function error: hcclCommInitRootInfoConfig(n, &rootInfo, rank, config, &(comm->hcclComm_)), error code is 1
[ERROR] 2025-10-09-08:38:05 (PID:237, Device:3, RankID:3) ERR02200 DIST call hccl api failed.
[PID: 237] 2025-10-09-08:38:04.978.003 Communication_Error_Ranktable_Detect(EI0015): Failed to collect cluster information of the communicator based on rootInfo detection. Reason: No rank in the communicator can connect to the root node within the timeout period. List of unconnected ranks: "[1,7,]".
"""
BARRIER = """\
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: 0_async_write_complete.0.1. This usually happens because a task triggered the barrier too early or too slowly.
# of tasks that reached the barrier: 14/16.
The first task at the barrier: /job:jax_worker/replica:0/task:13. Some timed out task names:
/job:jax_worker/replica:0/task:6
/job:jax_worker/replica:0/task:2
"""
GAUDI = """\
[rank6]: RuntimeError: [Rank:6] FATAL ERROR :: MODULE:PT_BRIDGE Exception in Launch thread...
[rank6]: Check $HABANA_LOGS/ for detailsGraph compile failed. synStatus=synStatus 26 [Generic failure].
[rank2]: Traceback (most recent call last):
[rank2]:   File "/w/train.py", line 79, in wrapper
[rank2]:     return func()
[rank2]: RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].
"""


def root_of(folder: Path, text: str) -> Finding:
    (folder / "train.log").write_text(text)
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


@pytest.mark.parametrize(
    ("text", "name", "ranks"),
    [
        (TABLE.format(number=6, name="SIGABRT"), "rank-sigabrt", (1,)),
        (TABLE.format(number=11, name="SIGSEGV"), "rank-segfault", (1,)),
        (TABLE.format(number=7, name="SIGBUS"), "rank-sigbus", (1,)),
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.\n", "rank-sigbus", (2,)),
        (BUSY, "npu-busy", (11,)),
        (UNCONNECTED, "rendezvous-timeout", (1, 7)),
        (BARRIER, "monitored-barrier-timeout", (2, 6)),
        (GAUDI, "gaudi-error", (6,)),
    ],
)
def test_the_rank_that_is_named(tmp_path: Path, text: str, name: str, ranks: tuple[int, ...]) -> None:
    root = root_of(tmp_path, text)
    assert (root.name, root.ranks) == (name, ranks)


def test_a_rank_that_waited_is_not_blamed(tmp_path: Path) -> None:
    root = root_of(
        tmp_path,
        "[ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:1) ERR01100 OPS call acl api failed.\n"
        "EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: Remote Rank did not send"
        " the data in time. Please check the reason for the rank being stuck\n",
    )
    assert (root.name, root.ranks) == ("hccl-timeout", None)
