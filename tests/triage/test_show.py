"""What `forensics triage` says on the terminal beside its tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.cli import main

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "train.log").write_text(OUT_OF_MEMORY)
    return tmp_path / "jobs"


def triage(jobs: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["triage", str(jobs), "--store", str(jobs.parent / "s.sqlite"), *arguments])


def test_filters_that_match_nothing_are_told(jobs: Path) -> None:
    done = triage(jobs, "--cause", "shm-exhausted")
    assert done.exit_code == 0
    assert done.stdout == "no job of 2 matches the filters; 0 known already\n"
    assert (
        "## Triage: no job of 2 matches the filters"
        in triage(jobs, "--cause", "shm-exhausted", "--format", "markdown").stdout
    )


def test_filters_that_match_some_say_of_how_many(jobs: Path) -> None:
    (jobs / "b" / "train.log").write_text("KeyError: 1\n")
    assert "\n1 of 2 jobs match the filters; " in triage(jobs, "--cause", "cuda-oom").stdout
    assert "\n2 jobs; 2 known already\n" in triage(jobs).stdout


def test_what_was_written_is_told_on_stderr(jobs: Path, tmp_path: Path) -> None:
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    assert triage(jobs, "-o", str(page)).stderr == f"wrote {page} (html, redacted, 2 jobs)\n"
    assert triage(jobs, "-o", str(table)).stderr == f"wrote {table} (csv, not redacted, 2 jobs)\n"
    assert triage(jobs, "-q", "-o", str(table)).stderr == ""


def test_an_empty_folder_holds_no_job(tmp_path: Path, jobs: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = triage(empty)
    assert done.exit_code == 2
    assert "no jobs were found" in done.stderr
    both = triage(jobs, str(empty))
    assert both.exit_code == 0
    assert "2 jobs; " in both.stdout
    assert "1 given folder that holds nothing" in both.stdout


def test_a_job_that_recovered_says_so(tmp_path: Path) -> None:
    for attempt, text in enumerate((OUT_OF_MEMORY, "step 10 loss 1.0\nstep 20 loss 0.9\nTraining complete.\n")):
        folder = tmp_path / "jobs" / "a" / "run_x1abcdef" / f"attempt_{attempt}" / "0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(f"step 1 loss 2.0\n{text}")
    row = triage(tmp_path / "jobs").stdout
    assert "cuda-oom (recovered)" in row
