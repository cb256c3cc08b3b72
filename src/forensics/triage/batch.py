"""A whole triage: find the jobs, ask the store, have the rest analysed, keep it, count causes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from forensics.triage.examine import Outcome, Setup, Task, Tools, recipe_of
from forensics.triage.filters import Filter, check_groups
from forensics.triage.hosts import joined
from forensics.triage.insight.found import insights, related
from forensics.triage.jobs import NoJobs, Notes, find
from forensics.triage.layouts import natural
from forensics.triage.model import Batch, CauseCount, Job, JobResult
from forensics.triage.pool import Limits
from forensics.triage.store import History, Store, StoreError, default_file

COMMIT_ROWS = 64  # outcomes that are kept in one transaction
COMMIT_SECONDS = 0.5  # after which fewer are: what a killed triage has to do again


class Engine(Protocol):
    """What runs tasks; outcomes come in any order."""

    def __call__(self, tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """store: None is the user's own; a temporary one where there is no cache folder."""

    store: Path | None = None
    rerun: bool = False
    exclude: tuple[str, ...] = ()
    signature_folders: tuple[str, ...] = ()
    limits: Limits
    engine: Engine
    wanted: Callable[[JobResult], bool] = lambda result: True
    groups: tuple[str, ...] = ()  # names of unknown groups that have to be there
    progress: Callable[[int, int, int], None] | None = None  # (jobs done, jobs in all, errors)


def triage(paths: Sequence[str], options: Options) -> Batch:
    """Triage the jobs under `paths`.

    Raises NoJobs where there are none, StoreError where the store cannot be used, SignatureError where a user's
    signature is none, filters.Unknown where there is no group of a name.
    """
    from forensics import remote

    with contextlib.ExitStack() as stack:
        file = options.store or default_file()
        if file is None:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forensics-store-"))) / "triage.sqlite"
        refuse_store_within(file, paths)
        if options.signature_folders:  # what is wrong with one is said here once, and not by each worker
            Tools(Setup(signature_folders=options.signature_folders))
        store = Store(file)
        stack.callback(store.close)
        notes = Notes()
        jobs = list(find(paths, exclude=options.exclude, notes=notes))
        if not jobs:
            raise NoJobs("; ".join((f"{' '.join(paths)[:300]}: no jobs were found", *notes.lines())))
        recipe = recipe_of(options.signature_folders, options.exclude)
        reused = run_all(jobs, store, recipe, options)
        ordered = sorted(jobs, key=lambda job: natural(job.path))
        rows, damaged = _rows(ordered, store, recipe, options)
        every = joined(rows)
        if damaged:
            notes.add(f"row{'s' * (damaged != 1)} of the store could not be read: analysed again", damaged)
        found = insights(every)
        check_groups(options.groups, found.unknown)
        wanted = options.wanted.among(found.unknown) if isinstance(options.wanted, Filter) else options.wanted
        results = tuple(filter(wanted, every))
        return Batch(
            paths=tuple(map(remote.shown, paths)),
            results=results,
            causes=count(results, store.history()),
            made=time.time(),
            found=len(jobs),
            reused=max(reused - damaged, 0),
            store=str(file),
            notes=notes.lines(),
            jobs={job.path: job for job in jobs},
            insights=related(found, frozenset(r.path for r in results)),
        )


def _rows(jobs: Sequence[Job], store: Store, recipe: str, options: Options) -> tuple[tuple[JobResult, ...], int]:
    """(The rows of jobs, how many the store had in a form that cannot be read: these are analysed again)."""
    rows = {row.path: row for row in store.results(jobs, recipe)}
    if damaged := [job for job in jobs if job.path not in rows]:
        store.forget(damaged, recipe)
        run_all(damaged, store, recipe, replace(options, rerun=True))
        rows |= {row.path: row for row in store.results(damaged, recipe)}
    return tuple(rows[job.path] for job in jobs if job.path in rows), len(damaged)


def refuse_store_within(file: Path, paths: Sequence[str]) -> None:
    """Raises StoreError where the store would lie in a folder that is analysed, which is never written to."""
    target = file.resolve()
    for path in paths:
        if "://" not in path and Path(path).is_dir() and target.is_relative_to(Path(path).resolve()):
            raise StoreError(f"{file}: lies in {path}, which is analysed; name another place with --store")


def run_all(jobs: Sequence[Job], store: Store, recipe: str, options: Options) -> int:
    """Have every job analysed whose content or recipe is new, and keep the outcomes. Returns how many were reused."""
    setup = Setup(
        signature_folders=options.signature_folders,
        exclude=options.exclude,
        recipe=recipe,
        store=str(store.file) if not options.rerun else None,
    )
    limits = str(options.limits)
    by_path = {job.path: job for job in jobs}
    waiting: list[tuple[Job, Outcome]] = []
    done = reused = errors = 0
    written = time.monotonic()
    outcomes = options.engine(_tasks(jobs, store, recipe, limits, options.rerun), setup)
    try:
        for outcome in outcomes:
            waiting.append((by_path[outcome.path], outcome))
            done += 1
            reused += outcome.row is None
            errors += outcome.error is not None
            if len(waiting) >= COMMIT_ROWS or time.monotonic() - written > COMMIT_SECONDS:
                store.write(waiting, recipe, limits, time.time())
                waiting, written = [], time.monotonic()
            if options.progress is not None:
                options.progress(done, len(jobs), errors)
    finally:
        if waiting:
            store.write(waiting, recipe, limits, time.time())
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()
    return reused


def _tasks(jobs: Sequence[Job], store: Store, recipe: str, limits: str, rerun: bool) -> Iterator[Task]:
    for start in range(0, len(jobs), 500):
        yield from store.tasks(jobs[start : start + 500], recipe, limits, rerun=rerun)


def count(results: Sequence[JobResult], history: dict[str, History] | None = None) -> tuple[CauseCount, ...]:
    """Causes, most jobs first, then most GPU-hours, then by name; healthy rows last.

    history: what the store knows of earlier triages; without it, first and last are those of `results`.
    """
    groups: dict[str, list[JobResult]] = defaultdict(list)
    for result in results:
        groups[result.cause].append(result)
    counts = []
    for cause, members in groups.items():
        hours = [r.gpu_hours for r in members if r.gpu_hours is not None]
        times = [t for r in members if (t := r.time or r.ended) is not None]
        known = (history or {}).get(cause)
        sure = max(members, key=lambda r: r.confidence or 0.0)
        counts.append(
            CauseCount(
                cause=cause,
                title=_common_title(members, sure),
                severity=sure.severity,
                jobs=len(members),
                gpu_hours=round(sum(hours), 3),
                gpu_hours_known=len(hours),
                first=known.first if known is not None else min(times, default=None),
                last=known.last if known is not None else max(times, default=None),
                example=sure.path,
            )
        )
    return tuple(
        sorted(counts, key=lambda c: (c.cause in ("(healthy)", "(recovered)"), -c.jobs, -c.gpu_hours, c.cause))
    )


def _common_title(members: Sequence[JobResult], sure: JobResult) -> str | None:
    """The title that all jobs of a cause share; else what their titles begin with, up to what is one job's own.

    A title is that of its signature, or "<title>: <what it is about>" (engine/diagnosis.py).
    """
    titles = {r.title for r in members if r.title is not None}
    if len(titles) < 2:
        return sure.title
    shared = []
    for parts in zip(*(title.split(": ") for title in titles), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ": ".join(shared) or sure.title


def local_engine(workers: int | None, limits: Limits) -> Engine:
    """Processes of this machine; workers: None for one a CPU."""
    from forensics.triage import pool

    def run(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
        return pool.run(tasks, setup, workers=workers or len(os.sched_getaffinity(0)), limits=limits)

    return run


def engine_of(name: str, workers: int | None, limits: Limits) -> Engine:
    """The engine of that name: "local" or "ray". Raises StoreError where it is not installed."""
    if name == "ray":
        from forensics.triage.rays import ray_engine

        return ray_engine(workers, limits)
    return local_engine(workers, limits)
