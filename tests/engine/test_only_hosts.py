"""The host of a root whose own lines name none, where the run is known to be on one."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = "".join(f"2026-11-24 09:{n:02}:00,000 INFO step {n}0 loss {7 - n / 9:.4f}\n" for n in range(1, 17))
INIT = (
    "{host}:{pid}:{pid} [{n}] NCCL INFO comm 0x55c03e8a0 rank {n} nranks 4 cudaDev {n} nvmlDev {n} busId {n}b000 "
    "commId 0x5ae77eb5ea4ec1ee - Init COMPLETE\n"
)
SWITCH = "[Tue Nov 24 09:16:30 2026] nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 32 LTSSM Fault Up\n"
OVER = (
    "slurmstepd: error: Step 8123.0 exceeded memory limit (17179869 > 16777216), being killed\n"
    "slurmstepd: error: Exceeded job memory limit\n"
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
)


def node(folder: Path, files: dict[str, str]) -> tuple[str, str | None]:
    for name, text in files.items():
        (folder / name).write_text(text)
    root = analyse([str(folder)], Options()).of_role(Role.ROOT)[0]
    return root.name, root.node


@pytest.mark.parametrize(
    ("hosts", "expected"), [("aaaa", "dgx-a"), ("aabb", None), ("aaa", None)]
)  # fmt: skip
def test_a_kernel_log_is_of_the_host_on_which_all_ranks_are(tmp_path: Path, hosts: str, expected: str | None) -> None:
    inits = "".join(INIT.format(host=f"dgx-{host}", pid=1000 + n, n=n) for n, host in enumerate(hosts))
    log = inits + STEPS
    assert node(tmp_path, {"train.log": log, "dmesg.txt": SWITCH}) == ("nvlink-fatal-error", expected)


def test_the_one_host_of_killed_tasks_is_that_of_the_kill(tmp_path: Path) -> None:
    log = STEPS + OVER + "srun: error: c12: task 0: Killed\n"
    assert node(tmp_path, {"o.txt": log}) == ("host-oom-cgroup", "c12")


def test_of_two_hosts_of_killed_tasks_it_is_none(tmp_path: Path) -> None:
    log = STEPS + OVER + "srun: error: c12: task 0: Killed\nsrun: error: c13: task 1: Killed\n"
    assert node(tmp_path, {"o.txt": log}) == ("host-oom-cgroup", None)


LIMIT = "slurmstepd: error: Job 7 exceeded memory limit (131072512 > 131072000), being killed\n"
NOTICE = "slurmstepd: error: *** JOB 7 ON c12 CANCELLED AT 2026-03-14T09:14:40 ***\n"


@pytest.mark.parametrize(
    ("before", "node"), [("", "c12"), ("export NNODES=2 GPUS_PER_NODE=4\n", None)], ids=["one host", "several"]
)
def test_the_host_of_a_memory_limit_is_that_of_the_notice_beside_it(
    tmp_path: Path, before: str, node: str | None
) -> None:
    lines = "".join(f"2026-03-14 09:12:{n:02} step {n} loss {3 - n / 100:.3f}\n" for n in range(30))
    (tmp_path / "slurm-7.out").write_text(before + lines + LIMIT + NOTICE)
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.node) == ("host-oom-cgroup", node)


def test_the_host_of_those_who_wait_is_not_that_of_ranks_of_which_there_is_no_log(tmp_path: Path) -> None:
    waits = (
        "[rank{0}]:[E314 09:24:35.110350654 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=501, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for "
        "600086 milliseconds before timing out.\n"
    )
    head = "+ torchrun --nnodes 2 --nproc_per_node 4 --node_rank 0 train.py\n"
    (tmp_path / "node0.log").write_text(head + "".join(map(waits.format, range(4))))
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks, root.node) == ("collective-timeout", None, None)
