"""A triage from folders to rows: labels, the store, crashes, kills."""

from __future__ import annotations

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

from forensics.triage import pool
from forensics.triage.batch import Options, triage
from forensics.triage.codec import dumps, loads
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.filters import Filter, failing
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


# --- triages that are killed


def _run(jobs: Path, store: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "forensics", "triage", str(jobs), "--store", str(store), "-j", "1", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_killed_ten_times_and_resumed(tmp_path: Path) -> None:
    import random

    sweep.make(tmp_path / "jobs", 200)
    aged(tmp_path / "jobs")
    draw = random.Random(5)
    kept = 0
    for _ in range(10):
        run = _run(tmp_path / "jobs", tmp_path / "s.sqlite")
        time.sleep(draw.uniform(1.0, 3.0))
        run.kill()
        run.communicate()
        if (tmp_path / "s.sqlite").exists():
            with sqlite3.connect(tmp_path / "s.sqlite") as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                now = db.execute("SELECT count(*) FROM jobs").fetchone()[0]
            assert now >= kept
            kept = now
    out, _ = _run(tmp_path / "jobs", tmp_path / "s.sqlite", "--format", "jsonl").communicate()
    rows = [json.loads(line)["job"] for line in out.splitlines()]
    whole, _ = _run(tmp_path / "jobs", tmp_path / "t.sqlite", "--format", "jsonl").communicate()
    assert len({r["path"] for r in rows}) == len(rows) == 200
    assert out == whole


@pytest.mark.slow
def test_two_triages_at_once(tmp_path: Path) -> None:
    sweep.make(tmp_path / "jobs", 60)
    aged(tmp_path / "jobs")
    runs = [_run(tmp_path / "jobs", tmp_path / "s.sqlite", "--format", "jsonl") for _ in range(3)]
    outs = [run.communicate()[0] for run in runs]
    assert all(run.returncode == 0 for run in runs)
    assert outs[0] == outs[1] == outs[2]
    assert len(outs[0].splitlines()) == 60


@pytest.mark.slow
def test_ray_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    sweep.make(tmp_path / "jobs", 40)
    aged(tmp_path / "jobs")
    out, _ = _run(tmp_path / "jobs", tmp_path / "s.sqlite", "--format", "jsonl").communicate()
    ray, err = _run(tmp_path / "jobs", tmp_path / "t.sqlite", "--format", "jsonl", "--engine", "ray").communicate()
    assert ray == out, err[-2000:]


@pytest.mark.slow
def test_ray_survives_a_killed_worker(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from forensics.triage.rays import ray_engine

    sweep.make(tmp_path / "jobs", 40)
    aged(tmp_path / "jobs")
    plain = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite"))
    killed: list[int] = []
    whose = ray.remote(lambda: os.getpid())  # one of the workers that run the jobs too

    def murderous(done: int, total: int, errors: int) -> None:
        if done >= 8 and not killed:
            killed.append(ray.get(whose.remote()))
            os.kill(killed[0], signal.SIGKILL)

    try:
        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
        found = triage(
            [str(tmp_path / "jobs")],
            options(tmp_path / "t.sqlite", engine=ray_engine(2, Limits()), progress=murderous),
        )
    finally:
        ray.shutdown()
    assert killed
    assert list(map(dumps, found.results)) == list(map(dumps, plain.results))
