"""The number that Slurm's control group has for a task may be the job's or the host's."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

STEPS = "".join(f"2026-05-14 10:00:{n:02},000 INFO step {n} loss {2 - n / 100:.3f}\n" for n in range(30))
KERNEL = (
    "[Thu May 14 10:00:30 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
    "oom_memcg=/slurm/uid_5/job_42/step_0,task_memcg=/slurm/uid_5/job_42/step_0/task_{task},task=python3,pid=77001,uid=5\n"
    "[Thu May 14 10:00:30 2026] Memory cgroup out of memory: Killed process 77001 (python3) total-vm:98000000kB, "
    "anon-rss:67000000kB, file-rss:48492kB, shmem-rss:0kB, UID:5 pgtables:146875kB oom_score_adj:0\n"
)


def root(folder: Path) -> Finding:
    (found,) = analyse([str(folder)]).of_role(Role.ROOT)
    assert found.name == "host-oom-cgroup"
    return found


def of_tasks(folder: Path, tasks: dict[int, str]) -> None:
    """A log for each task, in the folder of its host."""
    for task, host in tasks.items():
        (folder / host).mkdir(exist_ok=True)
        (folder / host / f"slurm-42_{task}.out").write_text(STEPS)


@pytest.mark.parametrize(
    ("host", "task", "rank"),
    [
        ("n12", 0, 2),  # the host's first
        ("n12", 3, 3),  # the job's
        ("n11", 1, 1),
    ],
)
def test_a_task_is_the_jobs_or_the_one_that_the_host_counts(tmp_path: Path, host: str, task: int, rank: int) -> None:
    of_tasks(tmp_path, {0: "n11", 1: "n11", 2: "n12", 3: "n12"})
    (tmp_path / host / "dmesg.txt").write_text(KERNEL.format(task=task))
    assert root(tmp_path).ranks == (rank,)


def test_what_a_host_counts_is_told_by_srun(tmp_path: Path) -> None:
    ends = "srun: error: n12: task 2: Killed\nsrun: error: n11: tasks 0-1: Terminated\nsrun: error: n12: task 3: Terminated\n"
    (tmp_path / "slurm-42.out").write_text("world_size=4\n" + STEPS + ends)
    (tmp_path / "dmesg-n12.txt").write_text(KERNEL.format(task=0))
    assert root(tmp_path).ranks == (2,)


def test_where_tasks_of_the_host_are_missing_its_number_names_no_rank(tmp_path: Path) -> None:
    ends = "srun: error: n11: tasks 0-3: Terminated\nsrun: error: n12: tasks 6-7: Terminated\n"
    (tmp_path / "slurm-42.out").write_text("world_size=8\n" + STEPS + ends)
    (tmp_path / "dmesg-n12.txt").write_text(KERNEL.format(task=0))
    found = root(tmp_path)
    assert found.ranks is None and found.node == "n12"


def test_where_the_host_is_not_known_its_number_names_no_rank(tmp_path: Path) -> None:
    of_tasks(tmp_path, {0: "n11", 1: "n11", 2: "n12", 3: "n12"})
    (tmp_path / "dmesg.txt").write_text(KERNEL.format(task=1))
    assert root(tmp_path).ranks is None


def test_a_kill_of_another_job_is_none_of_a_run_whose_logs_are_of_tasks(tmp_path: Path) -> None:
    of_tasks(tmp_path, {0: "n11", 1: "n11", 2: "n12", 3: "n12"})
    (tmp_path / "n12" / "dmesg.txt").write_text(KERNEL.format(task=2).replace("job_42/", "job_999/"))
    found = analyse([str(tmp_path)])
    assert not found.of_role(Role.ROOT)
    (context,) = [f for f in found.findings if f.name == "host-oom-cgroup"]
    assert context.role is Role.CONTEXT and context.ranks is None


def test_a_task_of_an_array_has_a_number_of_its_own(tmp_path: Path) -> None:
    of_tasks(tmp_path, {0: "n11", 1: "n11", 2: "n12", 3: "n12"})
    (tmp_path / "n12" / "dmesg.txt").write_text(KERNEL.format(task=0).replace("job_42/", "job_45/"))
    root(tmp_path)
