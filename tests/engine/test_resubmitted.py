"""Logs that one script leaves each time that it is started anew are runs of their own: the end of one is not another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Analysis, Options, analyse_with_data
from forensics.model import Verdict

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB\n"
)
DONE = "Training complete.\n"


def log(hour: int, end: str, first: int = 0, count: int = 20) -> str:
    lines = [f"2026-05-14 {hour:02d}:{n:02d}:00 step {first + 10 * n} loss {3 - n / 50:.3f}\n" for n in range(count)]
    return "".join(lines) + end


def analysed(folder: Path, **logs: str) -> Analysis:
    for name, text in logs.items():
        (folder / name).write_text(text)
    return analyse_with_data([str(folder)], Options(cache=False))


def test_a_job_that_failed_and_the_one_that_was_submitted_after_it(tmp_path: Path) -> None:
    logs = {"slurm-4700.out": log(8, OOM), "slurm-4711.out": log(10, DONE, count=50)}
    found = analysed(tmp_path, **logs)
    assert found.runs == ("slurm-4700.out", "slurm-4711.out") and found.told_of == "slurm-4700.out"
    assert found.diagnosis.findings[0].name == "cuda-oom"
    assert found.diagnosis.run.ended is not None and found.diagnosis.run.ended.startswith("2026-05-14T08:19")


def test_each_job_has_its_own_second_stream(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n    d["x"]\nKeyError: \'x\'\n'
    found = analysed(
        tmp_path,
        **{"train-4700.out": log(8, DONE), "train-4711.out": log(10, ""), "train-4711.err": raised},
    )
    assert found.told_of == "train-4711.out"
    assert found.diagnosis.findings[0].name == "python-exception"


def test_logs_named_by_the_day_that_all_ended_well(tmp_path: Path) -> None:
    found = analysed(tmp_path, **{"2026-05-13_0800.log": log(8, DONE), "2026-05-14_1000.log": log(10, DONE)})
    assert len(found.runs) == 2 and found.told_of is None
    assert found.diagnosis.verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    "logs",
    [
        {"slurm-4700.out": log(8, OOM), "slurm-4711.out": log(10, DONE, first=100)},
        {"rank_0.log": log(8, OOM), "rank_1.log": log(8, DONE)},
        {"slurm-4700.out": log(8, OOM), "slurm-4711.out": log(8, DONE)},
        {"slurm-4700.out": log(8, OOM), "eval-4711.out": log(10, DONE)},
        {"slurm-4700.out": log(8, OOM)},
    ],
    ids=["it goes on", "ranks", "at one time", "of two scripts", "one"],
)
def test_other_logs_are_not_taken_apart(tmp_path: Path, logs: dict[str, str]) -> None:
    assert analysed(tmp_path, **logs).runs == ()


def test_ranks_that_each_have_a_dated_folder_are_one_run(tmp_path: Path) -> None:
    for rank in range(3):
        folder = tmp_path / "wandb" / f"run-20261120_08000{rank}-id{rank}" / "files"
        folder.mkdir(parents=True)
        end = OOM if rank == 1 else ""
        text = "".join(f"[rank {rank}] step {10 * n} loss {3 - n / 50:.3f}\n" for n in range(20))
        (folder / "output.log").write_text(text + end)
    found = analyse_with_data([str(tmp_path)], Options(cache=False))
    assert not found.runs and found.diagnosis.findings[0].ranks == (1,)
