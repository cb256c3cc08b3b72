"""Ctrl-C and SIGTERM: the first is kept in mind until what is being done is done, or has taken too long."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

PATIENCE = 8.0  # seconds that are left after the first signal; Docker, the least patient, kills after 10
READING = 5.0  # of these for reading, so that what was read is explained in the rest


class _Woken(Exception):
    """A signal came during a sleep."""


class Interrupts:
    """While it is entered, the first SIGINT or SIGTERM (schedulers and service managers send that one) ends a sleep and
    sets `asked`; a second one, or `PATIENCE` seconds, raise KeyboardInterrupt wherever the program is.

    asked_at: called at the first one. In other threads than the main one nothing is changed.
    """

    def __init__(self, asked_at: Callable[[], None] | None = None) -> None:
        self.asked = False
        self._asked_at = asked_at
        self._sleeping = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGALRM", None)):
            # A shell starts what runs in the background with SIGINT ignored, and means it.
            if number is not None and (number != signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alarm(0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than to the first signal."""
        with contextlib.suppress(_Woken):
            self._sleeping = True
            if not self.asked:
                time.sleep(seconds)
        self._sleeping = False

    def at_leisure(self) -> None:
        """What comes now may take its time; signals do as before."""
        self._alarm(0.0)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        if number == getattr(signal, "SIGALRM", None):
            return
        self.asked = True
        self._alarm(PATIENCE)
        if self._asked_at is not None:
            self._asked_at()
        if self._sleeping:
            raise _Woken

    def _alarm(self, seconds: float) -> None:
        if self._before and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)
