"""A sweep of known causes: every label right under noise, the same bytes on every engine, and after every death."""

from __future__ import annotations

import hashlib
import json
import os
import random
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
from forensics.triage.batch import Options, local_engine, triage
from forensics.triage.codec import dumps, loads
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.jobs import find
from forensics.triage.model import Batch
from forensics.triage.pool import Limits
from tests import sweep


def here(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
    """An engine without processes."""
    tools = Tools(setup)
    return (examine(task, tools, time.time()) for task in tasks)


def options(store: Path, **changes: object) -> Options:
    return replace(Options(store=store, engine=here, limits=Limits()), **changes)  # type: ignore[arg-type]


def rows_of(batch: Batch) -> list[str]:
    return list(map(dumps, batch.results))


def digest(folder: Path) -> dict[str, str]:
    """Job -> a hash of the names, times and content of its files."""
    found = {}
    for job in sorted(folder.iterdir()):
        whole = hashlib.sha256()
        for file in sorted(p for p in job.rglob("*") if p.is_file()):
            whole.update(f"{file.relative_to(job)} {file.stat().st_mtime_ns}".encode() + file.read_bytes())
        found[job.name] = whole.hexdigest()
    return found


# --- the sweep itself


def test_the_same_seed_makes_the_same_jobs_however_many(tmp_path: Path) -> None:
    for name, count, seed in (("a", 6, 1), ("b", 9, 1), ("c", 6, 2)):
        sweep.make(tmp_path / name, count, seed)
    a, b, c = (digest(tmp_path / name) for name in "abc")
    assert a.items() <= b.items() and len(b) == 9
    assert not set(a.values()) & set(c.values())


def test_circumstances_are_other_ones(tmp_path: Path) -> None:
    expected = sweep.make_each(tmp_path)
    strides = {e.slack for e in expected}
    assert len(strides) > 1
    for job in expected:
        texts = b"".join(p.read_bytes() for p in (tmp_path / job.name).rglob("*.log"))
        for old in (b"2026-11-2", b"W1128 00", b"/tmp/run/", b"node-0 ", b"(pid: 18)"):
            assert old not in texts, (job, old)


def test_every_sample_is_called_by_its_cause_under_noise(tmp_path: Path) -> None:
    expected = sweep.make_each(tmp_path, seed=7)
    tools = Tools(Setup())
    jobs = {Path(job.path).name: job for job in find([str(tmp_path)])}
    faults = []
    for one in expected:
        row = examine(Task(job=jobs[one.name]), tools, time.time()).row
        assert row is not None
        result = loads(row)
        faults.append(sweep.wrong(one, result.root, result.ranks, result.step))
    assert [fault for fault in faults if fault is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_three_hundred_jobs_are_called_by_their_causes(tmp_path: Path, seed: int) -> None:
    expected = sweep.make(tmp_path / "jobs", 300, seed)
    batch = triage([str(tmp_path / "jobs")], options(tmp_path / "s.sqlite", engine=local_engine(2, Limits())))
    told = zip(expected, batch.results, strict=True)
    assert [f for e, r in told if (f := sweep.wrong(e, r.root, r.ranks, r.step)) is not None] == []


@pytest.mark.slow
def test_memory_of_a_worker_does_not_grow(tmp_path: Path) -> None:
    sweep.make(tmp_path, 60)
    tools = Tools(Setup())
    tasks = [Task(job=job) for job in find([str(tmp_path)])]
    held = []
    for _ in range(4):
        for task in tasks:
            examine(task, tools, time.time())
        held.append(pool._resident(os.getpid()))
    assert held[-1] - held[0] < 12 << 20, held


# --- engines


def _run(jobs: Path, store: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "forensics", "triage", str(jobs), "--store", str(store), "-j", "1", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """(folder of forty jobs, their rows)"""
    root = tmp_path_factory.mktemp("forty")
    sweep.make(root / "jobs", 40)
    return root / "jobs", rows_of(triage([str(root / "jobs")], options(root / "s.sqlite")))


@pytest.mark.slow
def test_every_engine_gives_the_same_bytes(tmp_path: Path, forty: tuple[Path, list[str]]) -> None:
    jobs, rows = forty
    outs = {}
    for name, more in {"one": (), "two": ("-j", "2"), "ray": ("--engine", "ray", "-j", "2")}.items():
        if name == "ray":
            pytest.importorskip("ray")
        run = _run(jobs, tmp_path / f"{name}.sqlite", "--format", "jsonl", *more)
        outs[name], err = run.communicate()
        assert run.returncode == 0, err[-2000:]
    assert outs["one"] == outs["two"] == outs["ray"]
    printed = [json.loads(line)["job"] for line in outs["one"].splitlines()]
    assert [row.pop("cause") is not None for row in printed] == [True] * 40
    assert printed == list(map(json.loads, rows))


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path, forty: tuple[Path, list[str]]) -> None:
    jobs, rows = forty
    killed: list[int] = []

    def murderous(done: int, total: int, errors: int) -> None:
        if done in (5, 20):
            pid = random.Random(done).choice(sorted(_children(os.getpid(), "spawn_main")))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    engine = local_engine(2, Limits())
    found = triage([str(jobs)], options(tmp_path / "t.sqlite", engine=engine, progress=murderous))
    assert len(killed) == 2
    assert rows_of(found) == rows


def _children(parent: int, title: str) -> list[int]:
    """Processes below `parent` whose command line holds `title`."""
    parents: dict[int, int] = {}
    titled = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(state[1])
        if title in command and state[0] != "Z":
            titled.append(int(entry.name))

    def below(pid: int) -> bool:
        while (pid := parents.get(pid, 0)) > 1:
            if pid == parent:
                return True
        return False

    return [pid for pid in titled if below(pid)]


@pytest.mark.slow
def test_a_ray_worker_that_is_killed_at_work_costs_nothing(tmp_path: Path, forty: tuple[Path, list[str]]) -> None:
    ray = pytest.importorskip("ray")
    from forensics.triage.rays import ray_engine

    jobs, rows = forty
    killed: list[int] = []

    def murderous(done: int, total: int, errors: int) -> None:
        # Ray names a worker's process after the task that it runs, and "IDLE" without one.
        if not killed and (working := _children(os.getpid(), "ray::_work")):
            killed.append(working[0])
            os.kill(working[0], signal.SIGKILL)

    try:
        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
        found = triage([str(jobs)], options(tmp_path / "t.sqlite", engine=ray_engine(2, Limits()), progress=murderous))
    finally:
        ray.shutdown()
    assert killed
    assert rows_of(found) == rows


# --- triages that are killed, and several at once


def _kept(store: Path) -> tuple[dict[str, float], int]:
    """(job -> when it was first kept; contents) of a store that must be whole."""
    if not store.exists():
        return {}, 0
    with sqlite3.connect(store, timeout=30) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone():
            return {}, 0
        jobs = dict(db.execute("SELECT path, first_seen FROM jobs").fetchall())
        contents = db.execute("SELECT count(*) FROM results").fetchone()[0]
    return jobs, int(contents)


@pytest.mark.slow
def test_killed_ten_times_and_resumed(tmp_path: Path) -> None:
    jobs, store = tmp_path / "jobs", tmp_path / "s.sqlite"
    sweep.make(jobs, 240)
    draw = random.Random(5)
    before: dict[str, float] = {}
    halfway = 0
    for _ in range(10):
        run = _run(jobs, store)
        waited = time.monotonic() + 60
        while len(_kept(store)[0]) <= len(before) < 240 and run.poll() is None and time.monotonic() < waited:
            time.sleep(0.02)
        time.sleep(draw.uniform(0.0, 0.6))
        run.kill()
        run.communicate()
        now, contents = _kept(store)
        assert now.items() >= before.items()  # nothing is lost, and nothing written over
        assert contents <= len(now)
        halfway += len(before) < len(now) < 240
        before = now
    assert halfway >= 3  # else the kills came too late to show anything
    analysed = 0

    def counting(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
        nonlocal analysed
        for outcome in here(tasks, setup):
            analysed += outcome.row is not None
            yield outcome

    resumed = triage([str(jobs)], options(store, engine=counting))
    assert analysed == 240 - len(before)  # nothing twice
    assert resumed.reused == len(before)
    whole = triage([str(jobs)], options(tmp_path / "t.sqlite"))
    assert rows_of(resumed) == rows_of(whole)
    assert len({row.path for row in resumed.results}) == 240


@pytest.mark.slow
def test_three_triages_at_once_on_one_store(tmp_path: Path) -> None:
    jobs, store = tmp_path / "jobs", tmp_path / "s.sqlite"
    sweep.make(jobs, 60)
    runs = [_run(jobs, store, "--format", "jsonl") for _ in range(3)]
    outs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outs[0][1][-2000:]
    alone, _ = _run(jobs, tmp_path / "t.sqlite", "--format", "jsonl").communicate()
    assert {out for out, _ in outs} == {alone}
    kept, contents = _kept(store)
    assert len(kept) == 60 and contents == len({json.loads(x)["job"]["fingerprint"] for x in alone.splitlines()})
