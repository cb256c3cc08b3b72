"""Processes that run one job at a time each, under limits of time and memory; a job costs at most its own worker.

Python's own pools end, or wait for ever, when a worker dies. Here the first unanswered job of a dead worker is tried
once more by itself; if that worker dies too, the job is the reason.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NoReturn

from forensics.triage.examine import Outcome, Setup, Task, Tools, error_row, examine
from forensics.triage.fingerprint import quick
from forensics.triage.model import CRASHED, OUT_OF_MEMORY, TIMED_OUT

AHEAD = 4  # tasks that a worker holds, so that it need not wait for the next one
TICK = 0.2  # seconds between looks at time and memory
RECYCLE = 2_000  # jobs of one worker
START = 120.0  # seconds that a worker may take until it is ready
MEBI = 1 << 20

Work = Callable[[Task], Outcome]
Make = Callable[[Setup], Work]


@dataclass(frozen=True, slots=True)
class Limits:
    """seconds and bytes (resident memory) that one job may take."""

    seconds: float = 300.0
    memory: int = 4 << 30

    def __str__(self) -> str:
        return f"{self.seconds:g} s, {self.memory / MEBI:.0f} MiB"


def make(setup: Setup) -> Work:
    """The work of an ordinary worker."""
    tools = Tools(setup)
    # Modules and the catalogue stay, and an analysis leaves few cycles: looking for garbage among them at the default
    # rate takes a twentieth of the time of small jobs.
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    return lambda task: examine(task, tools, time.time())


def run(
    tasks: Iterable[Task],
    setup: Setup,
    *,
    workers: int,
    limits: Limits = Limits(),
    make: Make = make,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Outcome]:
    """The outcome of every task, in the order in which they end.

    make: a function of a module, called once in each worker. Closing the generator ends the workers, and so does
    `stopped` for one that another thread waits for: it is asked every TICK.
    """
    pool = _Pool(tasks, setup, workers, limits, make)
    try:
        yield from pool.outcomes(stopped)
    finally:
        pool.end()


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    folder: str  # its temporary files
    held: deque[Task] = field(default_factory=deque)
    since: float = 0.0  # when the first task held was begun
    ready: bool = False
    done: int = 0
    alone: bool = False  # it tries a job again, and gets no other
    ended: str | None = None  # why it was ended by us


class _Pool:
    def __init__(self, tasks: Iterable[Task], setup: Setup, workers: int, limits: Limits, make: Make) -> None:
        self.tasks = iter(tasks)
        self.again: deque[Task] = deque()  # tasks of workers that died, that were not begun
        self.suspects: deque[Task] = deque()  # tasks with which a worker died
        self.setup, self.limits, self.make = setup, limits, make
        self.most = max(workers, 1)
        self.workers: list[_Worker] = []
        self.context = multiprocessing.get_context("spawn")
        self.exhausted = False
        self.failed_starts = 0

    def outcomes(self, stopped: Callable[[], bool]) -> Iterator[Outcome]:
        while not stopped():
            self._feed()
            if not self.workers:
                return
            ready = wait([w.pipe for w in self.workers], timeout=TICK)
            for worker in [w for w in self.workers if w.pipe in ready]:
                yield from self._answers(worker)
            yield from self._watch()

    def _next(self) -> Task | None:
        if self.again:
            return self.again.popleft()
        if not self.exhausted:
            task = next(self.tasks, None)
            if task is not None:
                return task
            self.exhausted = True
        return None

    def _feed(self) -> None:
        for worker in list(self.workers):
            if worker.alone or worker.done + len(worker.held) >= RECYCLE:
                if not worker.held and worker.ready:
                    self._retire(worker)
                continue
            while len(worker.held) < AHEAD and (task := self._next()) is not None:
                self._give(worker, task)
            if not worker.held and worker.ready:
                self._retire(worker)
        while len(self.workers) < self.most:
            alone = bool(self.suspects)
            task = self.suspects.popleft() if alone else self._next()
            if task is None:
                return
            # Where the first job is known, none of them may have to be analysed.
            worker = self._start(replace(self.setup, eager=not task.fingerprint))
            worker.alone = alone
            self._give(worker, task)

    def _give(self, worker: _Worker, task: Task) -> None:
        if not worker.held:
            worker.since = time.monotonic()
        worker.held.append(task)
        with contextlib.suppress(OSError):  # it has died, which is found out when it is listened to
            worker.pipe.send(task)

    def _start(self, setup: Setup) -> _Worker:
        ours, theirs = self.context.Pipe()
        folder = tempfile.mkdtemp(prefix="forensics-worker-")
        process = self.context.Process(
            target=_serve, args=(theirs, setup, self.make, folder, self.limits.memory), daemon=True
        )
        with _one_thread_a_worker():
            process.start()
        theirs.close()
        worker = _Worker(process, ours, folder, since=time.monotonic())
        self.workers.append(worker)
        return worker

    def _answers(self, worker: _Worker) -> Iterator[Outcome]:
        while True:
            try:
                if not worker.pipe.poll():
                    return
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                yield from self._died(worker)
                return
            worker.since = time.monotonic()
            if answer is None:
                worker.ready = True
                self.failed_starts = 0
                continue
            worker.held.popleft()
            worker.done += 1
            yield answer

    def _watch(self) -> Iterator[Outcome]:
        for worker in list(self.workers):
            spent = time.monotonic() - worker.since
            if worker.ready and worker.held and spent > self.limits.seconds:
                worker.ended = f"{TIMED_OUT}: more than {self.limits.seconds:g} seconds"
            elif not worker.ready and spent > START:
                worker.ended = f"{CRASHED}: the worker did not start"
            elif _resident(worker.process.pid) > self.limits.memory:
                worker.ended = f"{OUT_OF_MEMORY}: more than {self.limits.memory / MEBI:,.0f} MiB"
            if worker.ended is not None:
                worker.process.kill()
                yield from self._died(worker)

    def _died(self, worker: _Worker) -> Iterator[Outcome]:
        self._remove(worker)
        if not worker.ready and worker.ended is None:
            self.failed_starts += 1
            if self.failed_starts > 3:
                raise RuntimeError("workers do not start; FORENSICS_DEBUG=1 with one --jobs shows why")
            self.again.extend(worker.held)
            return
        if not worker.held:
            return
        first, *rest = worker.held
        self.again.extend(rest)
        if worker.ended is None and not worker.alone:
            self.suspects.append(first)
            return
        error = worker.ended or f"{CRASHED}: the worker ended by {_ending(worker.process.exitcode)}"
        yield Outcome(path=first.job.path, quick="", fingerprint="", modified=None, row=error_row(error), error=error)

    def _retire(self, worker: _Worker) -> None:
        with contextlib.suppress(OSError):
            worker.pipe.send(None)
        worker.process.join(1.0)
        self._remove(worker)

    def _remove(self, worker: _Worker) -> None:
        if worker in self.workers:
            self.workers.remove(worker)
        worker.process.join(0.5)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join(5.0)
        worker.pipe.close()
        shutil.rmtree(worker.folder, ignore_errors=True)

    def end(self) -> None:
        for worker in list(self.workers):
            worker.process.kill()
            self._remove(worker)


def given_up(task: Task, error: str) -> Outcome:
    """The outcome of a job whose analysis could not be ended."""
    key = quick(task.job.parts, time.time())
    return Outcome(
        path=task.job.path, quick=key.key, fingerprint="", modified=key.modified, row=error_row(error), error=error
    )


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit status {code}"


@contextlib.contextmanager
def _one_thread_a_worker() -> Iterator[None]:
    """polars reads the number of its threads once, when it is imported in the new process."""
    name = "POLARS_MAX_THREADS"
    before = os.environ.get(name)
    os.environ.setdefault(name, "1")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _resident(pid: int | None) -> int:
    """Bytes of memory that a process holds; 0 where that cannot be known."""
    if pid is None or sys.platform != "linux":
        return 0
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _serve(pipe: Connection, setup: Setup, make: Make, folder: str, memory: int) -> None:
    """A worker's life: get ready, answer tasks one by one, end when nothing more comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    tempfile.tempdir = folder
    _bound(memory)
    work = make(setup)
    _answer(pipe, None, folder)
    while True:
        try:
            task: Any = pipe.recv()
        except (EOFError, OSError):
            _orphaned(folder)
        if task is None:
            return
        _answer(pipe, work(task), folder)


def _answer(pipe: Connection, answer: Outcome | None, folder: str) -> None:
    try:
        pipe.send(answer)
    except OSError:  # a broken pipe
        _orphaned(folder)


def _orphaned(folder: str) -> NoReturn:
    """End a worker whose parent was killed, quietly: nobody is left to tell, or to remove its files."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _bound(memory: int) -> None:
    """A limit of the kernel's beside the parent's watch, which looks only now and then.

    Address space is always more than what is resident (libraries, threads' arenas): 4 GiB more is allowed.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = memory + (4 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))
