"""The HTML reports of single jobs: made by worker processes under the limits of a job, for a folder or on demand."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from forensics.report.words import plural
from forensics.triage.examine import Outcome, Setup, Task, Tools, why
from forensics.triage.model import OUT_OF_MEMORY, UNREADABLE, Batch, Job
from forensics.triage.pool import Limits, Work
from forensics.triage.whole import write_whole

KEPT = 32 << 20  # bytes of reports that a server keeps
WAIT = 30.0  # seconds that a request waits for the report that is being made before it


class CannotReport(Exception):
    """Reports cannot be written; the message says why."""


def make_plain(setup: Setup) -> Work:
    """Work of a pool: a task's outcome holds the page of its job under `report`."""
    tools = Tools(setup)
    return lambda task: _outcome(task, tools, redact=False)


def make_redacted(setup: Setup) -> Work:
    """`make_plain`, redacted."""
    tools = Tools(setup)
    return lambda task: _outcome(task, tools, redact=True)


def _outcome(task: Task, tools: Tools, *, redact: bool) -> Outcome:
    report, error = b"", None
    try:
        with _own_folder():
            report = _page(task.job, tools, redact=redact).encode("utf-8", "replace")
    except MemoryError:
        error = f"{OUT_OF_MEMORY}: the report needs more memory than a job may take"
    except Exception as failure:
        error = why(failure)
    return Outcome(path=task.job.path, quick="", fingerprint="", modified=None, report=report, error=error)


@contextmanager
def _own_folder() -> Iterator[None]:
    """What an archive or a URL holds is unpacked in a folder that goes with the job."""
    folder, before = tempfile.mkdtemp(prefix="forensics-job-"), tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def _page(job: Job, tools: Tools, *, redact: bool) -> str:
    from forensics.engine import pipeline, reading
    from forensics.model import Kind
    from forensics.report import html
    from forensics.run import NothingToRead, discover

    run = discover(job.parts, reading.sniffers(), exclude=tools.setup.exclude)
    if not any(s.kind is not Kind.EMPTY for s in run.sources):
        raise NothingToRead(pipeline.why_nothing(run))
    data = reading.read(run, tools.matcher, pipeline.Options(threads=1))
    diagnosis = pipeline.explain_with_data(data, tools.catalogue).diagnosis
    diagnosis = replace(diagnosis, run=replace(diagnosis.run, path=job.path))
    material = html.gather(diagnosis, data)
    return html.render(html.redact(material) if redact else material)


def pages(
    jobs: Iterable[Job],
    setup: Setup,
    *,
    redact: bool,
    workers: int,
    limits: Limits,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Outcome]:
    """Each job's page, as the `report` of an outcome, in the order in which they are made; or its `error`."""
    from forensics.triage import pool

    make = make_redacted if redact else make_plain
    tasks = (Task(job=job) for job in jobs)
    yield from pool.run(tasks, setup, workers=workers, limits=limits, make=make, stopped=stopped)


def write_reports(
    batch: Batch,
    folder: Path,
    beside: Path,
    setup: Setup,
    *,
    redact: bool,
    workers: int,
    limits: Limits,
    progress: Callable[[int, int, int], None] | None = None,
) -> Batch:
    """Writes the report of each failed job into `folder`; the batch with their addresses relative to `beside`.

    A report that is there already, of the same content made by the same recipe, is not made again. beside: the folder
    of the page. Raises CannotReport.
    """
    names = _names(batch, setup.recipe, redact=redact)
    jobs = {path: batch.jobs[path] for path in names if path in batch.jobs}
    failed = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        base = quote(os.path.relpath(folder.resolve(), beside.resolve()).replace(os.sep, "/"))
        links = {path: f"{base}/{name}" for path, (name, known) in names.items() if known and _is_ours(folder / name)}
        wanted = [job for path, job in jobs.items() if path not in links]
        made = pages(wanted, setup, redact=redact, workers=workers, limits=limits)
        for done, outcome in enumerate(made, 1):
            name = names[outcome.path][0]
            if outcome.error is None:
                write_whole(folder / name, outcome.report)
                links[outcome.path] = f"{base}/{name}"
            else:
                failed += 1
            if progress is not None:
                progress(done, len(wanted), failed)
    except OSError as error:
        raise CannotReport(f"{error.filename or folder}: {error.strerror or error}") from None
    notes = (f"{plural(failed, 'report')} could not be made under the limits of a job",) if failed else ()
    return replace(batch, reports=dict(batch.reports) | links, notes=(*batch.notes, *notes))


def _names(batch: Batch, recipe: str, *, redact: bool) -> dict[str, tuple[str, bool]]:
    """Path of each failed job -> (name of its report, whether a file of that name must be its report).

    The name tells content and recipe, and nothing of the path, which can hold what a shared report must not. Of jobs
    with the same content it is numbered, and which of them has which number can change with the next triage.
    """
    failed = [r for r in batch.results if r.failed and r.error is None]
    alike = Counter(r.fingerprint for r in failed)
    seen: Counter[str] = Counter()
    names = {}
    for r in failed:
        seen[r.fingerprint] += 1
        text = f"{r.fingerprint}\0{recipe}\0{redact}\0{seen[r.fingerprint]}"
        names[r.path] = (f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.html", alike[r.fingerprint] == 1)
    return names


def _is_ours(file: Path) -> bool:
    from forensics.report.own import is_report

    try:
        with file.open("rb") as opened:
            return is_report(opened.read(4096))
    except FileNotFoundError:
        return False


class Busy(Exception):
    """Another report is being made."""


@dataclass(frozen=True, slots=True)
class _Kept:
    state: str  # the quick key of the files that it was made from
    outcome: Outcome


class Maker:
    """Reports on demand: one at a time, each in a process under limits, the last ones kept.

    given: the paths of the triage; a job that has come to lie elsewhere (a link that took its place) is not read.
    """

    def __init__(self, setup: Setup, limits: Limits, *, redact: bool, given: Sequence[str]) -> None:
        self.setup, self.limits, self.redact = setup, limits, redact
        self.given = tuple(os.path.realpath(path) for path in given if "://" not in path)
        self._one = threading.Lock()
        self._stop = threading.Event()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def report(self, job: Job) -> Outcome:
        """The page of a job under `report`, or an `error`. Raises Busy."""
        from forensics.triage.fingerprint import quick

        if not self._within(job):
            return self._failed(job, f"{UNREADABLE}: it does not lie in the given paths any more")
        if not self._one.acquire(timeout=WAIT):
            raise Busy
        try:
            if self._stop.is_set():
                raise Busy
            state = quick(job.parts, time.time()).key
            kept = self._kept.get(job.path)
            if kept is not None and state and kept.state == state:
                self._kept.move_to_end(job.path)
                return kept.outcome
            outcome = self._made(job)
            self._keep(job.path, _Kept(state, outcome))
            return outcome
        finally:
            self._one.release()

    def _made(self, job: Job) -> Outcome:
        made = pages([job], self.setup, redact=self.redact, workers=1, limits=self.limits, stopped=self._stop.is_set)
        for outcome in made:
            return outcome
        raise Busy

    def _keep(self, path: str, kept: _Kept) -> None:
        self._kept[path] = kept
        self._kept.move_to_end(path)
        while len(self._kept) > 1 and sum(len(k.outcome.report) + 1000 for k in self._kept.values()) > KEPT:
            self._kept.popitem(last=False)

    def _within(self, job: Job) -> bool:
        for part in job.parts:
            if "://" in part:
                continue
            place = Path(os.path.realpath(part))
            if not any(place.is_relative_to(given) for given in self.given):
                return False
        return True

    def _failed(self, job: Job, error: str) -> Outcome:
        return Outcome(path=job.path, quick="", fingerprint="", modified=None, error=error)

    def close(self) -> None:
        """Ends the report that is being made, with its process, and makes no more."""
        self._stop.set()
        if self._one.acquire(timeout=10.0):
            self._one.release()


def addresses(paths: Iterable[str]) -> Mapping[str, str]:
    """Path of a job -> what a served page calls it: a hash, so that an address can only name what is in the table."""
    return {path: hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:24] for path in paths}
