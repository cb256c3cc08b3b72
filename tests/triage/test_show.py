"""What `forensics triage` says on the terminal beside its tables."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from forensics.cli import main

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        # Of two contents: one that both had would be known already where the first is stored in time.
        (tmp_path / "jobs" / name / "train.log").write_text(f"job {name}\n{OUT_OF_MEMORY}")
    return tmp_path / "jobs"


def triage(jobs: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["triage", str(jobs), "--store", str(jobs.parent / "s.sqlite"), *arguments])


def test_filters_that_match_nothing_are_told(jobs: Path) -> None:
    done = triage(jobs, "--cause", "shm-exhausted")
    assert done.exit_code == 0
    assert done.stdout == "no job of 2 matches the filters; 0 taken from the store\n"
    assert (
        "## Triage: no job of 2 matches the filters"
        in triage(jobs, "--cause", "shm-exhausted", "--format", "markdown").stdout
    )


def test_filters_that_match_some_say_of_how_many(jobs: Path) -> None:
    (jobs / "b" / "train.log").write_text("KeyError: 1\n")
    assert "\n1 of 2 jobs match the filters; " in triage(jobs, "--cause", "cuda-oom").stdout
    assert "\n2 jobs; 2 taken from the store\n" in triage(jobs).stdout


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


def test_why_a_job_was_not_analysed_is_said(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    (tmp_path / "jobs/a/train.log").write_text(OUT_OF_MEMORY)
    done = triage(tmp_path / "jobs")
    assert f"\n2 jobs not analysed, nothing: nothing to analyse (no files) ({tmp_path}/jobs/b)\n" in done.stdout


def test_notes_go_to_standard_error_where_the_output_has_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        # Of two contents: one that both had would be known already where the first is stored in time.
        (tmp_path / "jobs" / name / "train.log").write_text(f"job {name}\n{OUT_OF_MEMORY}")
    (tmp_path / "jobs/notes.txt").write_text("x")
    said = f"1 file beside the jobs of {tmp_path}/jobs left out (notes.txt)\n"
    assert triage(tmp_path / "jobs", "--format", "jsonl").stderr == said
    assert triage(tmp_path / "jobs", "-o", str(tmp_path / "t.csv")).stderr.endswith(said)
    assert triage(tmp_path / "jobs", "--format", "jsonl", "-q").stderr == ""
    assert triage(tmp_path / "jobs", "--format", "json").stderr == ""


def test_a_url_that_cannot_be_reached_is_no_job(jobs: Path) -> None:
    pytest.importorskip("fsspec")
    done = triage(jobs, "memory://nothing-here")
    assert done.exit_code == 2 and "memory://nothing-here: no such bucket, folder or file" in done.stderr


def test_a_job_that_recovered_says_so(tmp_path: Path) -> None:
    for attempt, text in enumerate((OUT_OF_MEMORY, "step 10 loss 1.0\nstep 20 loss 0.9\nTraining complete.\n")):
        folder = tmp_path / "jobs" / "a" / "run_x1abcdef" / f"attempt_{attempt}" / "0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(f"step 1 loss 2.0\n{text}")
    row = triage(tmp_path / "jobs").stdout
    assert "cuda-oom (recovered)" in row


def test_what_failed_stands_first(jobs: Path) -> None:
    (jobs / "a" / "train.log").write_text("step 10 loss 1.0\nstep 20 loss 0.9\nTraining complete.\n")
    rows = triage(jobs).stdout.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in rows] == ["cause", "cuda-oom", "(healthy)"]


def test_an_epoch_stands_where_no_step_is_known(tmp_path: Path, jobs: Path) -> None:
    records = [f'{{"epoch": {n // 4}, "batch": {n % 4}, "loss": {2 - n / 40}}}' for n in range(24)]
    (jobs / "a" / "train.log").unlink()
    (jobs / "a" / "train.jsonl").write_text(
        "\n".join([*records, '{"level": "error", "epoch": 6, "msg": "RuntimeError: CUDA error: out of memory"}', ""])
    )
    rows = triage(jobs).stdout
    assert re.search(r"^cuda-\S+ +- +- +epoch 5 ", rows, re.M), rows
    table = list(csv.DictReader(io.StringIO(triage(jobs, "--format", "csv").stdout)))
    told = {Path(row["path"]).name: (row["step"], row["epoch"]) for row in table}
    assert told["a"] == ("", "5.0")
    assert all(epoch == "" for name, (_, epoch) in told.items() if name != "a")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_keep_to_the_width(jobs: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    (jobs / "a" / "train.log").write_text("NVRM: Xid (PCI:0000:4b:00): 79, GPU has fallen off the bus.\n")
    assert max(map(len, triage(jobs).stdout.splitlines()[:8])) <= width


def test_one_job_by_two_names_is_one(jobs: Path) -> None:
    assert "\n2 jobs; " in triage(jobs, f"{jobs}/../jobs", str(jobs / "a")).stdout
    other = jobs.parent / "other" / "a"
    other.mkdir(parents=True)
    (other / "train.log").write_text(OUT_OF_MEMORY)
    assert "\n3 jobs; " in triage(jobs, str(other.parent)).stdout


def test_an_output_is_whole_or_not_there(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = jobs.parent / "t.csv"
    table.write_text("before")
    table.chmod(0o640)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        assert triage(jobs, "-o", str(table)).exit_code != 0
    assert table.read_text() == "before"
    assert triage(jobs, "-o", str(table)).exit_code == 0
    assert table.read_text().startswith("path,") and table.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in jobs.parent.iterdir() if p.name.startswith(".")) == []


def test_links_and_devices_stay_what_they_are(jobs: Path) -> None:
    link, target = jobs.parent / "link.csv", jobs.parent / "target.csv"
    link.symlink_to(target)
    assert triage(jobs, "-o", str(link)).exit_code == 0
    assert link.is_symlink() and target.read_text().startswith("path,")
    assert triage(jobs, "-o", "/dev/null", "--format", "csv").exit_code == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "html", "parquet"])
def test_a_full_disk_is_told(jobs: Path, suffix: str) -> None:
    link = jobs.parent / f"full.{suffix}"
    link.symlink_to("/dev/full")
    command = [sys.executable, "-m", "forensics", "triage", str(jobs), "--store", str(jobs.parent / "s.sqlite")]
    done = subprocess.run([*command, "-o", str(link)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "cannot write: No space left on device" in done.stderr


@pytest.mark.parametrize(("command", "said"), [("", "names no command"), ("'x", "no closing quotation")])
def test_a_command_that_is_none_is_told_before_any_work(jobs: Path, command: str, said: str) -> None:
    done = triage(jobs, "--exec", command)
    assert done.exit_code == 2 and said in done.stderr and not done.stdout


def test_a_missing_command_is_named(jobs: Path) -> None:
    assert "no-such-command: No such file" in triage(jobs, "--exec", "no-such-command x").stderr


def test_a_closed_pipe_is_no_failure(jobs: Path) -> None:
    command = f"{sys.executable} -m forensics triage {jobs} --store {jobs.parent / 's.sqlite'} --format jsonl"
    script = f"set -o pipefail; {command} {{}} | true"
    for more, status in (("", 0), ("--fail-on cuda-oom", 1)):
        done = subprocess.run(["bash", "-c", script.format(more)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (status, "")


def test_tables_have_nodes_and_labels(jobs: Path) -> None:
    (jobs / "a" / "train.log").write_text(
        "submitit INFO (2026-11-20 01:00:00,121) - Starting with JobEnvironment(job_id=7_1, hostname=gpu-7, local_rank=0(1), node=0(1), global_rank=0(1))\nargs: Namespace(lr=0.1, name='é')\n"
        + OUT_OF_MEMORY
    )
    first, second = csv.DictReader(io.StringIO(triage(jobs, "--format", "csv").stdout))
    assert first["nodes"] == "gpu-7" and json.loads(first["labels"]) == {"hparam.lr": "0.1"}
    assert second["nodes"] == "" and json.loads(second["labels"]) == {}
    table = jobs.parent / "t.parquet"
    assert triage(jobs, "-o", str(table)).exit_code == 0
    frame = pl.read_parquet(table)
    assert frame["nodes"].to_list() == ["gpu-7", ""] and json.loads(frame["labels"][0]) == {"hparam.lr": "0.1"}


def test_groups_can_be_named(jobs: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "data.py", line 3, in load\n    x\nOwnError: shard 3\n'
    (jobs / "a" / "train.log").write_text(raised)
    (found,) = json.loads(triage(jobs, "--format", "json").stdout)["unknown"]
    assert "1 of 2 jobs match" in triage(jobs, "--cause", found["name"]).stdout
    assert "1 of 2 jobs match" in triage(jobs, "--cause", "ownerror-*").stdout
    assert triage(jobs, "--fail-on", found["name"]).exit_code == 1
    assert triage(jobs, "--verdict", "healthy", "--fail-on", "ownerror-*").exit_code == 0
    for option in ("--cause", "--fail-on"):
        done = triage(jobs, option, "ownerror-load-00000000")
        assert done.exit_code == 2 and found["name"] in done.stderr


def test_numbers_of_labels_are_met_however_they_are_written(jobs: Path) -> None:
    (jobs / "a" / "config.yaml").write_text("optim:\n  lr: 1e-2\n")
    assert "1 of 2 jobs match" in triage(jobs, "--label", "hparam.optim.lr=0.01").stdout
    assert "no job of 2 matches" in triage(jobs, "--label", "hparam.optim.lr=0.02").stdout
