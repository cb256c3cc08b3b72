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
