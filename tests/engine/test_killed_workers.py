"""A DataLoader's worker that the kernel killed, and kills of other processes on its host."""

from __future__ import annotations

from pathlib import Path

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

LOST = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 255, in main',
    "    train_one_epoch(model, loader)",
    '  File "/opt/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data',
    "    raise RuntimeError(",
    "RuntimeError: DataLoader worker (pid 5123) is killed by signal: Killed. ",
]
KILLED = (
    "[Thu Nov 20 {} 2025] Memory cgroup out of memory: Killed process {} ({}) total-vm:91234567kB, anon-rss:61234567kB, "
    "file-rss:1234kB, shmem-rss:0kB, UID:1000 pgtables:123456kB oom_score_adj:0"
)


def root(folder: Path, killed: str) -> str:
    steps = [f"2025-11-20 10:00:{n:02},400 - trainer - INFO - step {n}0 loss {7 - n / 40:.4f}" for n in range(1, 41)]
    (folder / "train.log").write_text("\n".join([*steps, *LOST]) + "\n")
    (folder / "dmesg.txt").write_text(killed + "\n")
    return analyse([str(folder)], Options()).of_role(Role.ROOT)[0].name


def test_a_kill_of_the_worker_in_the_second_of_the_last_step_is_its_cause(tmp_path: Path) -> None:
    assert root(tmp_path, KILLED.format("10:00:40", 5123, "pt_data_worker")) == "host-oom-cgroup"


def test_a_kill_of_another_program_is_not(tmp_path: Path) -> None:
    assert root(tmp_path, KILLED.format("09:10:40", 999, "java")) == "dataloader-worker-killed"


def test_a_kill_that_a_restart_made_good_is_no_cause(tmp_path: Path) -> None:
    killed = KILLED.format("10:00:40", 5123, "pt_data_worker")
    assert root(tmp_path, killed) == "host-oom-cgroup"
    restarted = "[2025-11-20 10:01:00,000] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group FAILED. 2/3 attempts left; will restart worker group"
    again = [f"2025-11-20 10:02:{n:02},400 - trainer - INFO - step {n}0 loss {7 - n / 40:.4f}" for n in range(1, 50)]
    with (tmp_path / "train.log").open("a") as log:
        log.write(
            "\n".join([restarted, *again, "2025-11-20 10:03:00,000 - trainer - INFO - Training completed."]) + "\n"
        )
    assert analyse([str(tmp_path)], Options()).verdict.value in ("recovered", "healthy")
