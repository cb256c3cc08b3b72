"""Triage on a Ray cluster: the same work as on one machine, a task of Ray's for a handful of jobs.

The driver holds a bounded number of tasks in flight and writes the store; workers read the jobs themselves, so that
what crosses the network is paths one way and rows the other. Paths must mean the same on every node, or be URLs.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TextIO, cast

from forensics.triage.batch import Engine
from forensics.triage.examine import Outcome, Setup, Task, Tools, examine
from forensics.triage.model import CRASHED, TIMED_OUT
from forensics.triage.pool import MEBI, Limits, given_up
from forensics.triage.store import StoreError

CHUNK = 8  # jobs of one Ray task: a task costs about a millisecond
AHEAD = 4  # Ray tasks in flight for each CPU of the cluster
RETRIES = 3  # of a Ray task whose worker or node died

_loaded: dict[Setup, Tools] = {}  # of one worker process of Ray's, which outlives its tasks


def _work(setup: Setup, tasks: list[Task]) -> list[Outcome]:
    if setup not in _loaded:
        _loaded.clear()
        _loaded[setup] = Tools(setup)
    return [examine(task, _loaded[setup], time.time()) for task in tasks]


def ray_engine(workers: int | None, limits: Limits) -> Engine:
    """Ray as the engine: the cluster that RAY_ADDRESS names, else one of this machine with `workers` CPUs.

    Raises StoreError where Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise StoreError("--engine ray needs the extra: pip install '.[ray]' in a clone of the project") from None

    def run(tasks: Iterable[Task], setup: Setup) -> Iterator[Outcome]:
        from dataclasses import replace

        if not ray.is_initialized():
            ray.init(num_cpus=None if _has_address() else workers, log_to_driver=False, include_dashboard=False)
        shared = replace(setup, store=None)  # a file of this machine
        remote = ray.remote(num_cpus=1, max_retries=RETRIES, memory=_memory(limits))(_work)
        with quiet_threads():
            yield from _run(ray, remote, iter(tasks), shared, limits)

    return run


class _ByThread:
    """A standard output that is one thread's; what others print goes to another stream."""

    def __init__(self, own: TextIO, others: TextIO) -> None:
        self._thread = threading.get_ident()
        self._own = own
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if threading.get_ident() == self._thread else self._others, name)


@contextlib.contextmanager
def quiet_threads() -> Iterator[None]:
    """Keep what Ray's threads print of dead workers out of the results: it goes to standard error.

    Ray prints it also where `log_to_driver` is off (ray/_private/worker.py, print_to_stdstream).
    """
    own = sys.stdout
    with contextlib.redirect_stdout(cast("TextIO", _ByThread(own, sys.stderr))):
        yield


def _has_address() -> bool:
    import os

    return bool(os.environ.get("RAY_ADDRESS"))


def _memory(limits: Limits) -> int:
    """What Ray reserves a task, bytes: far below the limit, which few jobs come near."""
    return min(limits.memory, 256 * MEBI)


def _run(ray: Any, remote: Any, tasks: Iterator[Task], setup: Setup, limits: Limits) -> Iterator[Outcome]:
    most = max(int(ray.cluster_resources().get("CPU", 1)) * AHEAD, 2)
    flying: dict[Any, tuple[list[Task], float]] = {}
    single: list[Task] = []  # of a Ray task that failed as a whole: tried one by one, so that one job alone is blamed
    while True:
        while len(flying) < most:
            chunk = [single.pop()] if single else list(islice(tasks, CHUNK))
            if not chunk:
                break
            flying[remote.remote(setup, chunk)] = (chunk, time.monotonic())
        if not flying:
            return
        ready, _ = ray.wait(list(flying), num_returns=1, timeout=1.0)
        for reference in ready:
            chunk, _ = flying.pop(reference)
            try:
                yield from ray.get(reference)
            except Exception as error:  # of Ray: a worker that died, a node that is gone, memory
                if len(chunk) > 1:
                    single += chunk
                else:
                    yield given_up(chunk[0], f"{CRASHED}: {type(error).__name__}")
        for reference, (chunk, begun) in list(flying.items()):
            # A Ray task waits for a CPU first, and Ray does not say for how long.
            if time.monotonic() - begun > limits.seconds * (len(chunk) + AHEAD * CHUNK):
                flying.pop(reference)
                ray.cancel(reference, force=True)
                if len(chunk) > 1:
                    single += chunk
                else:
                    yield given_up(chunk[0], f"{TIMED_OUT}: more than {limits.seconds:g} seconds")
