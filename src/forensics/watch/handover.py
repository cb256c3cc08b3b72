"""The command of `--exec`: started for each news, without a shell, beside the watching."""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SECONDS = 60.0  # that one start may take, and that is waited for those under way at the end
WAITING = 100  # news that wait for their turn; those beyond are dropped, and that is said


@dataclass(frozen=True, slots=True)
class _Job:
    payload: bytes
    variables: Mapping[str, str]


class Handover:
    """Runs a command for news, one at a time, on a thread of its own.

    say: called with a sentence where the command cannot be started, fails or takes too long.
    """

    def __init__(self, command: Sequence[str], say: Callable[[str], None], *, seconds: float = SECONDS) -> None:
        self._command = list(command)
        self._say = say
        self._seconds = seconds
        self._jobs: queue.Queue[_Job | None] = queue.Queue(WAITING)
        self._said: set[str] = set()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name="forensics-exec", daemon=True)
        self._thread.start()

    def give(self, payload: str, variables: Mapping[str, str]) -> None:
        """Have the command run with `payload` on its standard input. Returns at once."""
        try:
            self._jobs.put_nowait(_Job(payload.encode("utf-8", "replace"), variables))
        except queue.Full:
            self._complain(f"more than {WAITING} news wait for it; some are dropped")

    def close(self, *, patience: float | None = None) -> None:
        """Wait for what is under way, at most `patience` seconds (by default as long as one start may take)."""
        end = time.monotonic() + (self._seconds if patience is None else patience)
        while self._thread.is_alive() and time.monotonic() < end:
            try:
                self._jobs.put(None, timeout=max(0.01, end - time.monotonic()))
                break
            except queue.Full:
                break
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive() and (running := self._running) is not None:
            _kill(running)
            self._complain("did not end in time, and was ended")

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(job)

    def _run(self, job: _Job) -> None:
        try:
            with subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **job.variables},
                start_new_session=True,  # so that Ctrl-C ends the watching and not a message on its way
            ) as process:
                self._running = process
                try:
                    process.communicate(job.payload, timeout=self._seconds)
                except subprocess.TimeoutExpired:
                    _kill(process)
                    self._complain(f"took more than {self._seconds:g} seconds, and was ended")
                    return
                except BrokenPipeError:
                    process.wait(self._seconds)
                if process.returncode:
                    self._complain(f"ended with status {process.returncode}")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._complain(f"{self._command[0]}: {getattr(error, 'strerror', None) or error}")
        finally:
            self._running = None

    def _complain(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(f"--exec: {what}")


def split(command: str) -> list[str]:
    """A command line as a shell would split it. Raises ValueError where it cannot, or nothing is left."""
    words = shlex.split(command)
    if not words:
        raise ValueError("is empty")
    return words


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        process.kill()
