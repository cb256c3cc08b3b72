"""A run that dies before its first step after another one had ended: the steps of that one are not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

OF_TORCHRUN = "W0314 {}.412000 3120 site-packages/torch/distributed/run.py:792] "
ADVICE = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
END = "Training complete"
CRASH = [
    "building the model",
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 33, in <module>',
    "    ds = load(args.data)",
    "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/d2/train.arrow'",
]


def training(*, hour: int = 9) -> list[str]:
    return [f"2026-03-14 {hour:02}:12:{n // 2:02} step {n} loss {3 - n / 1000:.4f}" for n in range(0, 100, 10)]


def first_root(folder: Path, **files: list[str]) -> Finding:
    for name, lines in files.items():
        path = folder / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return analyse([str(folder)]).of_role(Role.ROOT)[0]


def banner(time: str) -> list[str]:
    return [OF_TORCHRUN.format(time) + text for text in ("", "*" * 41, ADVICE, "*" * 41)]


def appended(*, ended: bool, own: list[str] | None = None) -> list[str]:
    return [
        *banner("09:12:05"),
        *training(),
        *([END] if ended else CRASH[1:]),
        *banner("10:18:45"),
        *(own or []),
        *CRASH,
    ]


def test_appended_to_the_log_of_a_run_that_had_ended(tmp_path: Path) -> None:
    root = first_root(tmp_path, **{"nohup.out": appended(ended=True)})
    assert (root.attempt, root.step, root.step_is, root.step_unit) == (1, None, None, None)


def test_steps_of_its_own_count(tmp_path: Path) -> None:
    root = first_root(tmp_path, **{"nohup.out": appended(ended=True, own=training(hour=11)[:4])})
    assert root.step == 30


def test_one_that_takes_up_a_run_which_had_failed_is_of_that_run(tmp_path: Path) -> None:
    assert first_root(tmp_path, **{"nohup.out": appended(ended=False)}).step == 90


def test_an_end_that_is_followed_by_an_error_of_the_same_run(tmp_path: Path) -> None:
    assert first_root(tmp_path, **{"nohup.out": [*training(), END, *CRASH[1:]]}).step == 90


@pytest.mark.parametrize(
    ("names", "later"),
    [
        (("slurm_100.out", "slurm_101.out"), "Sat Mar 14 09:20:01 UTC 2026"),
        (("run1__train.log", "run2__train.log"), "2026-03-14 12:00:01 starting run2"),
    ],
    ids=["jobs", "folders"],
)
def test_a_log_of_its_own(tmp_path: Path, names: tuple[str, str], later: str) -> None:
    first, second = names
    root = first_root(tmp_path, **{first: [*training(), END], second: [later, *CRASH]})
    assert root.step is None


@pytest.mark.parametrize(
    "names", [("slurm_100.out", "slurm_100.err"), ("rank0.log", "rank1.log")], ids=["streams", "ranks"]
)
def test_another_stream_or_rank_of_the_run_that_ended(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = names
    root = first_root(tmp_path, **{first: [*training(), END], second: ["2026-03-14 12:00:01 closing", *CRASH]})
    assert root.step == 90


def test_a_log_that_begins_right_after_the_end_may_be_of_a_peer(tmp_path: Path) -> None:
    later = "2026-03-14 09:14:01 closing"
    root = first_root(tmp_path, **{"a1__train.log": [*training(), END], "a2__train.log": [later, *CRASH]})
    assert root.step == 90
