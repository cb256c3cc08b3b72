"""The jobs in one archive: none of them hides that another failed."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from forensics.engine.reading import sniffers
from forensics.run import discover
from forensics.triage import within
from forensics.triage.examine import Setup, Task, Tools, examine
from forensics.triage.jobs import find

STEPS = "".join(f"2026-11-20 10:{n:02d}:00 step {n} loss {2 - n / 50:.2f}\n" for n in range(20))
DONE = STEPS + "2026-11-20 10:20:00 Training completed.\n"
RAISED = STEPS + (
    "Traceback (most recent call last):\n  File \"/opt/train.py\", line 9, in <module>\n    main()\nKeyError: 'y'\n"
)


def tar(file: Path, members: dict[str, str]) -> Path:
    with tarfile.open(file, "w:gz") as packed:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            packed.addfile(info, io.BytesIO(text.encode()))
    return file


def jobs(file: Path) -> list[str]:
    return list(within.jobs(discover([str(file)], sniffers())))


@pytest.mark.parametrize(
    ("members", "found"),
    [
        (["sweep/run_0/train.log", "sweep/run_1/train.log"], ["sweep/run_0", "sweep/run_1"]),
        (["logs/slurm-8812_0.out", "logs/slurm-8812_1.out"], ["logs/8812_0", "logs/8812_1"]),
        (
            ["m/multirun.yaml", *(f"m/{n}/{name}" for n in (0, 1) for name in (".hydra/config.yaml", "train.log"))],
            ["m/0", "m/1"],
        ),
        (["exp7/rank0.log", "exp7/rank1.log"], []),
        (["run_0/train.log", "run_0/gpu.log"], []),
        (["seed_0/train.log", "seed_1/weights.bin"], []),  # one of them left a log
    ],
)
def test_jobs_are_those_of_a_folder(tmp_path: Path, members: list[str], found: list[str]) -> None:
    assert jobs(tar(tmp_path / "a.tar.gz", dict.fromkeys(members, STEPS))) == found


def test_files_of_each_job_are_those_that_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for name in (
            "s/seed_0/train.log",
            "s/seed_0/gpu.log",
            "s/seed_1/train.log",
            "s/seed_1/model.pt",
            "s/readme.md",
        ):
            packed.writestr(name, STEPS)
    held = within.jobs(discover([str(file)], sniffers()))
    assert held["s/seed_0"] == {"a.zip!/s/seed_0/train.log", "a.zip!/s/seed_0/gpu.log"}
    assert held["s/seed_1"] == {"a.zip!/s/seed_1/train.log"}


def test_a_folder_with_an_archive_is_no_archive(tmp_path: Path) -> None:
    tar(tmp_path / "a.tar.gz", {"s/seed_0/train.log": STEPS, "s/seed_1/train.log": STEPS})
    (tmp_path / "train.log").write_text(STEPS)
    assert jobs(tmp_path) == []


@pytest.mark.parametrize(("first", "verdict"), [(RAISED, "failed"), (DONE, "healthy")])
def test_a_failed_job_makes_the_row_failed(tmp_path: Path, first: str, verdict: str) -> None:
    later = DONE.replace("2026-11-20", "2026-11-21")
    file = tar(tmp_path / "a.tar.gz", {"s/seed_0/train.log": first, "s/seed_1/train.log": later})
    (job,) = find([str(file)])
    row = examine(Task(job=job), Tools(Setup()), 0.0).row or ""
    assert f'"verdict":"{verdict}"' in row.replace('": "', '":"')
    assert ("In s/seed_0, one of 2 jobs in one archive: " in row) == (verdict == "failed")
