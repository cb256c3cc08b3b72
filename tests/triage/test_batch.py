"""A triage from folders to rows: labels, the store, crashes, kills."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options as EngineOptions
from forensics.engine.pipeline import analyse
from forensics.signatures.schema import SignatureError
from forensics.triage import command, pool
from forensics.triage.batch import Options, triage
from forensics.triage.codec import dumps, loads
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.filters import Filter, failing
from forensics.triage.jobs import find
from forensics.triage.model import Batch, Job
from forensics.triage.pool import Limits
from forensics.triage.show import csv_text, markdown, payload, terminal
from forensics.triage.store import Store, StoreError
from tests import sweep


def here(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine without processes."""
    tools = Tools(setup)
    return (examine(task, tools, time.time()) for task in tasks)


def refusing(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine that analyses nothing: only what is known comes through."""
    tools = Tools(setup)
    for task in tasks:
        outcome = examine(task, tools, time.time())
        assert outcome.row is None, task.job.path
        yield outcome


def options(store: Path, **changes: object) -> Options:
    return replace(Options(store=store, engine=here, limits=Limits()), **changes)  # type: ignore[arg-type]


def aged(folder: Path) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (1.7e9, 1.7e9))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[sweep.Expected], Batch]:
    root = tmp_path_factory.mktemp("sweep")
    expected = sweep.make(root / "jobs", 12)
    aged(root / "jobs")
    return root / "jobs", root / "store.sqlite", expected, triage([str(root / "jobs")], options(root / "store.sqlite"))


def test_every_label_is_right(made: tuple[Path, Path, list[sweep.Expected], Batch]) -> None:
    _, _, expected, batch = made
    assert len(batch.results) == len(expected)
    for row, truth in zip(batch.results, expected, strict=True):
        assert row.path.endswith(truth.name)
        assert (row.root in truth.causes) if truth.causes else row.root is None, (truth, row.root)


def test_a_second_triage_reads_nothing(made: tuple[Path, Path, list[sweep.Expected], Batch]) -> None:
    jobs, store, _, batch = made
    again = triage([str(jobs)], options(store, engine=refusing))
    assert again.results == batch.results
    assert again.reused == len(batch.results)


def test_only_what_changed_is_read(tmp_path: Path) -> None:
    sweep.make(tmp_path / "jobs", 2, seed=3)
    aged(tmp_path)
    first = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    log = next(p for p in sorted((tmp_path / "jobs/job-00001").rglob("*.log")) if p.stat().st_size)
    log.write_bytes(log.read_bytes() + b"one more line\n")
    second = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    assert second.reused == 1
    assert second.results[0] == first.results[0]
    assert second.results[1].fingerprint != first.results[1].fingerprint


def test_touched_and_moved_jobs_are_known_by_content(tmp_path: Path) -> None:
    sweep.make(tmp_path / "jobs", 1)
    triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    (tmp_path / "jobs").rename(tmp_path / "moved")
    aged(tmp_path / "moved")
    assert triage([str(tmp_path / "moved")], options(tmp_path / "s.sqlite", engine=refusing)).reused == 1


def test_two_equal_jobs_are_two_rows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "x.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    batch = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    assert [Path(r.path).name for r in batch.results] == ["a", "b"]
    assert batch.results[0].fingerprint == batch.results[1].fingerprint


def test_empty_job_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "jobs/a").mkdir(parents=True)
    (tmp_path / "jobs/b").mkdir()
    batch = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    assert [r.cause for r in batch.results] == ["(nothing)", "(nothing)"]


def test_rows_survive_json(made: tuple[Path, Path, list[sweep.Expected], Batch]) -> None:
    for row in made[3].results:
        assert loads(dumps(row)) == row


def test_outputs(made: tuple[Path, Path, list[sweep.Expected], Batch]) -> None:
    batch = made[3]
    evil = replace(batch.results[0], path='=cmd|" /C calc"!A0\x1b[31m', summary="<script>@everyone|x")
    batch = replace(batch, results=(evil, *batch.results[1:]))
    assert "'=cmd" in csv_text(batch)
    assert all("\x1b" not in text for text in (csv_text(batch), markdown(batch), terminal(batch, width=100)))
    assert len(json.loads(payload(batch))["jobs"]) == len(batch.results)
    assert all(len(line) <= 100 for line in terminal(batch, width=100).splitlines()[:-3])


def test_filters_and_failures(made: tuple[Path, Path, list[sweep.Expected], Batch]) -> None:
    rows = made[3].results
    first = next(r for r in rows if r.root)
    assert Filter(cause=(str(first.root),))(first)
    assert not Filter(cause=("no-such-cause",))(first)
    assert Filter(cause=first.codes[:1] or ("*",))(first)
    assert failing(["any"])(first) and not failing(["never"])(first) and not failing([])(first)


def test_a_store_within_the_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        triage([str(tmp_path)], options(tmp_path / "s.sqlite"))
    assert not (tmp_path / "s.sqlite").exists()


def test_no_store_of_another_program(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.sqlite") as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError):
        Store(tmp_path / "x.sqlite")
    (tmp_path / "y.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError):
        Store(tmp_path / "y.sqlite")


# --- workers that die


def bad(setup: Setup) -> pool.Work:
    def work(task: Task) -> Outcome:
        name = Path(task.job.path).name
        if name == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if name == "exit":
            os._exit(7)
        if name == "hang":
            time.sleep(600)
        if name == "eat":
            held = [bytearray(b"x") * (200 << 20)]
            time.sleep(600)
            held.clear()
        return Outcome(path=task.job.path, quick="", fingerprint="f", modified=None)

    return work


def test_a_bad_job_costs_its_own_row() -> None:
    names = ["a", "crash", "b", "exit", "c", "hang", "d", "eat", "e"]
    tasks = [Task(job=Job(path=n, layout="folder", parts=(n,))) for n in names]
    found = list(pool.run(tasks, Setup(), workers=2, limits=Limits(2.5, 150 << 20), make=bad))
    errors = {o.path: o.error.split(":")[0] for o in found if o.error}
    assert sorted(o.path for o in found) == sorted(names)
    assert errors == {"crash": "crashed", "exit": "crashed", "hang": "timeout", "eat": "memory"}


def test_a_signature_that_is_wrong_is_told_before_any_job(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/x.toml").write_text('name = "x"\n[[evidence')
    (tmp_path / "jobs/a").mkdir(parents=True)
    with pytest.raises(SignatureError, match=r"x\.toml"):
        triage(
            [str(tmp_path / "jobs")],
            options(tmp_path / "s.sqlite", signature_folders=(str(tmp_path / "own"),), engine=refusing),
        )


def test_what_a_job_unpacks_does_not_outlive_it(tmp_path: Path) -> None:
    import tarfile

    (tmp_path / "jobs/a").mkdir(parents=True)
    (tmp_path / "x.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    with tarfile.open(tmp_path / "jobs/a/logs.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "x.log", "x.log")
    tools = Tools(Setup())
    (job,) = find([str(tmp_path / "jobs/a")])
    outcome = examine(Task(job=job), tools, time.time())
    assert outcome.row is not None and loads(outcome.row).root == "cuda-oom"
    assert list(Path(tools._scratch.name).iterdir()) == []


def test_a_worker_without_a_parent_ends_quietly(tmp_path: Path) -> None:
    program = f"""
import multiprocessing, os, sys, tempfile
from forensics.triage import pool
from forensics.triage.examine import Outcome, Setup, Task
from forensics.triage.model import Job
ours, theirs = multiprocessing.Pipe()
ours.send(Task(job=Job(path="a", layout="folder", parts=("a",))))
def make(setup):
    def work(task):
        ours.close()
        return Outcome(path="a", quick="", fingerprint="", modified=None)
    return work
pool._serve(theirs, Setup(), make, {str(tmp_path / "own")!r}, 1 << 33)
print("went on", file=sys.stderr)
"""
    (tmp_path / "own").mkdir()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert not (tmp_path / "own").exists()


def test_the_command_of_exec_has_a_limit(
    made: tuple[Path, Path, list[sweep.Expected], Batch], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "EXEC_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(command.CannotWrite, match=r"more than 0\.5 seconds"):
        command.hand_over(made[3], f"sh -c '(sleep 1.5; touch {tmp_path}/late) & wait'")
    assert time.monotonic() - started < 1.4
    time.sleep(1.3)
    assert not (tmp_path / "late").exists()  # what it started has ended with it
    command.hand_over(made[3], f"sh -c 'cat > {tmp_path}/got'")
    assert len(json.loads((tmp_path / "got").read_text())["jobs"]) == len(made[3].results)
    with pytest.raises(command.CannotWrite, match="status 3"):
        command.hand_over(made[3], "sh -c 'exit 3'")


RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.04 GiB is free. Including non-PyTorch memory, this process has 78.05 GiB memory in use."
)


@pytest.mark.parametrize(("end", "root"), [("KeyError: 'x'", "python-exception"), (OOM, "cuda-oom")])
def test_a_guess_does_not_hide_the_folder_that_failed(tmp_path: Path, end: str, root: str) -> None:
    jobs = tmp_path / "jobs"

    def build(n: int, hour: int, end: str) -> None:
        folder = jobs / "nightly" / "builds" / str(n)
        folder.mkdir(parents=True)
        steps = (
            f"2026-11-20 {hour:02d}:{m:02d}:00,000 INFO train.py:9 step {m} loss {2 - m / 99:.3f}\n" for m in range(30)
        )
        (folder / "output.log").write_text("".join(steps) + end)

    raised = f"{RAISED}{end}\n"
    build(0, 3, raised)
    build(1, 3, "2026-11-20 03:30:00,000 INFO train.py:9 Training complete: 30 steps in 0:30:00\n")
    assert analyse([str(jobs)], EngineOptions()).verdict == "failed"
    (found,) = triage([str(jobs)], Options(store=tmp_path / "s", engine=here, limits=Limits())).results
    assert (found.verdict, found.root) == ("failed", root)
    assert "In builds/0, one of 2 folders read as one job" in found.summary
    assert found.evidence is not None and found.evidence.file == "builds/0/output.log"
    assert found.started is not None and found.ended is not None and found.ended.startswith("2026-11-20T03:30")
    for log in jobs.rglob("*.log"):
        log.write_text(log.read_text().replace(raised, "INFO done\n"))
    (found,) = triage([str(jobs)], Options(store=tmp_path / "s2", engine=here, limits=Limits())).results
    assert found.verdict == "healthy"


def test_a_guess_does_not_hide_the_compressed_log_that_failed(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    steps = "".join(f"2026-11-20 03:{m:02d}:00,000 INFO train.py:9 step {m} loss {2 - m / 99:.3f}\n" for m in range(30))
    for n, end in ((1, f"{RAISED}{OOM}\n"), (2, "2026-11-20 03:30:00,000 INFO train.py:9 Training complete\n")):
        (jobs / f"exp{n}.log.gz").write_bytes(gzip.compress((steps + end).encode()))
    (found,) = triage([str(jobs)], Options(store=tmp_path / "s", engine=here, limits=Limits())).results
    assert (found.verdict, found.root) == ("failed", "cuda-oom")
    assert "In exp1.log.gz, one of 2 logs read as one job" in found.summary
