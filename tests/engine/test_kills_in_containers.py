"""One kill under two numbers: the kernel counts the processes of a host, and a launcher those of its container."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = "".join(f"2026-06-01 02:{n:02}:00,000 INFO step {n}0 loss {7 - n / 9:.4f}\n" for n in range(1, 7))
FAILED = (
    "E0601 02:06:40.920000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: {n} "
    "(pid: {pid}) of binary: /usr/bin/python\n"
)
ROW = (
    "  time      : 2026-06-01_02:06:40\n  host      : pod-7f\n  rank      : {n} (local_rank: {n})\n"
    "  exitcode  : -9 (pid: {pid})\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID {pid}\n"
)
HEAD = "t.py FAILED\n-----\nFailures:\n{others}-----\nRoot Cause (first observed failure):\n[0]:\n"
KILLED = (
    "[812733.118211] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg={group},"
    "task_memcg={group},task={name},pid={pid},uid=1000\n"
    "[812733.118211] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:291334312kB, "
    "anon-rss:201334312kB, file-rss:72004kB, shmem-rss:1048kB, UID:1000 pgtables:412300kB oom_score_adj:0\n"
)
POD, JOB = "/kubepods.slice/kubepods-burstable.slice/cri-containerd-77aa.scope", "/slurm/uid_1000/job_5"


def root(folder: Path, kernel: str, ranks: tuple[int, ...] = (2,), pid: int = 77) -> tuple[str, tuple[int, ...] | None]:
    others = "".join(f"[{n}]:\n{ROW.format(n=n, pid=pid + n)}" for n in ranks[1:]) or "  <NO_OTHER_FAILURES>\n"
    first = ROW.format(n=ranks[0], pid=pid)
    log = STEPS + FAILED.format(n=ranks[0], pid=pid) + HEAD.format(others=others) + first
    (folder / "pod.log").write_text(log)
    (folder / "node-dmesg.txt").write_text(kernel)
    found = analyse([str(folder)], Options()).of_role(Role.ROOT)[0]
    return found.name, found.ranks


@pytest.mark.parametrize(("pid", "group"), [(881231, POD), (71234, POD), (881231, JOB)])
def test_the_one_kill_is_of_the_one_rank_that_was_killed(tmp_path: Path, pid: int, group: str) -> None:
    assert root(tmp_path, KILLED.format(pid=pid, group=group, name="python")) == ("host-oom-cgroup", (2,))


def test_of_two_killed_ranks_it_is_none(tmp_path: Path) -> None:
    kernel = KILLED.format(pid=881231, group=POD, name="python")
    assert root(tmp_path, kernel, ranks=(2, 3))[1] != (2,)


def test_of_two_kills_none_is_told(tmp_path: Path) -> None:
    kernel = KILLED.format(pid=881231, group=POD, name="python") + KILLED.format(pid=881299, group=POD, name="python")
    assert root(tmp_path, kernel) == ("host-oom-cgroup", None)


def test_on_a_host_without_containers_another_number_is_another_process(tmp_path: Path) -> None:
    assert root(tmp_path, KILLED.format(pid=3315, group=JOB, name="python"), pid=2201)[1] is None


def test_a_worker_of_a_loader_is_no_rank(tmp_path: Path) -> None:
    assert root(tmp_path, KILLED.format(pid=881231, group=POD, name="pt_data_worker"))[1] is None
