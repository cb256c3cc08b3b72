"""What `forensics watch` does between its options and its outputs: looks, waits, tells, and ends with a status."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from forensics.model import Verdict
from forensics.report.inert import inert
from forensics.report.jsonreport import escaped
from forensics.report.words import plural
from forensics.run import NothingToRead
from forensics.watch import show
from forensics.watch.interrupts import READING, Interrupts
from forensics.watch.live import seconds
from forensics.watch.news import SCHEMA_VERSION, News
from forensics.watch.redacted import Redacting

if TYPE_CHECKING:
    from forensics.watch.handover import Handover
    from forensics.watch.watcher import Watcher

REST = 9.0  # times the length of a look that is waited at least: looking takes a tenth of a core at most,
MOST_REST = 10.0  # unless it takes longer than this many intervals
SETTLE = 0.5  # seconds after which what was seen first is looked at again before it is told


class Why(StrEnum):
    """Why a watch ended."""

    ONCE = "once"
    ENDED = "ended"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    GONE = "gone"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """once: one look. until_finished: end when the run has ended. timeout: seconds to watch at most; None for ever, 0
    for the first look only.
    """

    run: str
    json: bool = False
    colour: bool = False
    once: bool = False
    until_finished: bool = False
    timeout: float | None = None
    interval: float = 5.0
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """The diagnosis of the whole run, as `analyze` prints it, and its verdict. text: one line of JSON, or a report.
    ended: whether anything says that the run came to its end.
    """

    text: str
    verdict: Verdict
    ended: bool


class Output:
    """Standard output, a line at a time. A reader that has gone away ends the watch and is no error."""

    def __init__(self) -> None:
        self.closed = False

    def line(self, text: str) -> None:
        """Write a line, or lines. Raises OSError for a disk that is full."""
        if self.closed or sys.stdout is None:  # without any from the start, a command may still be told
            return
        try:
            sys.stdout.buffer.write(text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n"))
            sys.stdout.buffer.flush()
        except OSError as error:
            self.closed = True
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno not in (errno.EPIPE, errno.EINVAL):
                raise


class Watch:
    """One watch, from its first look to its summary.

    whole: makes the diagnosis of the whole run; raises NothingToRead. bad: whether a verdict has status 1.
    """

    def __init__(
        self,
        watcher: Watcher,
        options: Options,
        whole: Callable[[], Whole],
        status: Callable[[Verdict], int],
        handover: Handover | None = None,
        redacting: Redacting | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watcher = watcher
        self._options = options
        self._whole = whole
        self._status = status
        self._handover = handover
        self._redacting = redacting
        self._clock = clock
        self._out = Output()
        self._cost = 0.0  # seconds that the last look took
        self._looked = False
        self._faulty = False
        self._verdict: Verdict | None = None
        self._end_said = False  # whether the run, or its diagnosis, says that it came to its end
        self._cut = False  # the last look was ended before it was done
        self._reported = False  # the run had ended and was reported, and has not gone on
        self._reported_at: float | None = None  # of the last word then

    def run(self) -> int:
        """Watch until there is a reason to end. Returns the exit status; raises NothingToRead at the first look."""
        began = self._clock()
        with Interrupts(self._hurry) as interrupts:
            why = self._go_on(began, interrupts)
            interrupts.at_leisure()
            if self._handover is not None:
                with contextlib.suppress(KeyboardInterrupt):
                    self._handover.close()
        status = self._result(why)
        self._summary(why, self._clock() - began, status)
        return status

    def _hurry(self) -> None:
        self._watcher.until = self._watcher.clock() + READING

    def _go_on(self, began: float, interrupts: Interrupts) -> Why:
        deadline = began + self._options.timeout if self._options.timeout is not None else None
        try:
            self._look()
            self._say(f"watching {self._options.run}: {plural(self._watcher.files, 'file')}; Ctrl-C ends it")
            if self._options.once:
                return Why.ONCE
            while not interrupts.asked:
                if (why := self._step(deadline, interrupts)) is not None:
                    return why
            return self._last(Why.INTERRUPTED)
        except KeyboardInterrupt:
            self._cut = True
            return Why.INTERRUPTED

    def _step(self, deadline: float | None, interrupts: Interrupts) -> Why | None:
        if self._ended() and self._options.until_finished:
            return Why.ENDED
        if self._out.closed:
            return Why.CLOSED
        now = self._clock()
        if deadline is not None and now >= deadline:
            return self._last(Why.TIMEOUT)
        usual = self._options.interval
        rest = max(usual, min(REST * self._cost, MOST_REST * usual))
        wait = min(usual, SETTLE) if self._watcher.waiting else rest
        interrupts.sleep(max(0.0, min(wait, deadline - now) if deadline is not None else wait))
        if interrupts.asked:
            return None
        try:
            self._look()
        except NothingToRead as error:
            self._say(str(error))
            return Why.GONE
        return None

    def _look(self) -> None:
        begin = self._clock()
        self._tell(self._watcher.look())
        self._cost = self._clock() - begin if self._looked else 0.0  # the first one reads all, and loads modules
        self._looked = True
        if self._watcher.fault is not None and not self._faulty:
            self._faulty = True
            self._say(f"a fault of forensics, not of your run; watching goes on: {self._watcher.fault}")

    def _last(self, why: Why) -> Why:
        with contextlib.suppress(NothingToRead):
            self._tell(self._watcher.look(last=True))
        return why

    def _ended(self) -> bool:
        """Whether the run has ended; its diagnosis is printed when that shows, and again if it went on and ended."""
        ended = self._watcher.ended()
        if ended is None:
            self._reported = False
            return False
        if not self._reported or self._reported_at != self._watcher.written:
            self._reported, self._reported_at = True, self._watcher.written
            self._verdict = None
            try:
                self._tell(self._watcher.look(last=True))
                if (ended := self._watcher.ended()) is None:  # it has written in between
                    self._reported = False
                    return False
                whole = self._whole()
            except NothingToRead as error:
                self._say(str(error))
                return True
            self._verdict, self._end_said = whole.verdict, whole.ended or ended == "finished"
            if self._options.json:
                head = {"schema_version": SCHEMA_VERSION, "event": "diagnosis", "run": self._options.run, "why": ended}
                self._out.line(f"{json.dumps(head)[:-1]}, {json.dumps('report')}: {whole.text.strip()}}}")
            else:
                self._out.line("\n" + whole.text)
        return True

    def _tell(self, news: list[News]) -> None:
        for one in news:
            shown = self._redacting.news(one) if self._redacting is not None else one
            payload = show.json_line(shown, self._options.run)
            self._out.line(payload if self._options.json else show.line(shown, colour=self._options.colour))
            if self._handover is not None:
                self._handover.give(payload + "\n", show.variables(shown, self._options.run))

    def _result(self, why: Why) -> int:
        if (verdict := self._decisive()) is not None:
            return self._status(verdict)
        if self._watcher.open:
            return 1
        if self._unread:
            return 3
        if not self._watcher.files and not self._watcher.told:
            return 2
        return 3 if self._options.until_finished and why is not Why.ENDED else 0

    def _decisive(self) -> Verdict | None:
        """The verdict, unless the run has gone on since, or something is not over and nothing says that it came to its
        end: of a run that hangs, an analysis of what it wrote may see no more than that it trained.
        """
        if self._verdict is None or not self._reported:
            return None
        decides = self._end_said or not self._watcher.open or self._status(self._verdict) == 1
        return self._verdict if decides else None

    @property
    def _unread(self) -> bool:
        """Whether the watch was made to end before all that was there was read and told."""
        return self._cut or self._watcher.cut

    def _summary(self, why: Why, lasted: float, status: int) -> None:
        left = self._watcher.open
        if self._options.json:
            end = {
                "schema_version": SCHEMA_VERSION,
                "event": "end",
                "run": self._options.run,
                "why": why.value,
                "seconds": round(lasted, 1),
                "files": self._watcher.files,
                "told": self._watcher.told,
                "open": sorted({s.name for s in left}),
                "verdict": self._verdict.value if self._verdict is not None else None,
                "status": status,
            }
            self._out.line(escaped(json.dumps(end, ensure_ascii=False)))
        names = ", ".join(sorted({s.name for s in left}))
        told = f"{self._watcher.told} told" if self._watcher.told else "nothing to tell"
        still = f"; not over: {names}" if names and self._decisive() is None else ""
        unread = "; not all that was there was read" if self._unread else ""
        files = plural(self._watcher.files, "file")
        self._say(f"watched {files} for {seconds(lasted)} ({why.value}): {told}{still}{unread}")
        if status == 2:
            complain("nothing to watch: no file of a run was there")

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            complain(text)


def complain(text: str) -> None:
    """A line on stderr."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(inert(text), file=sys.stderr, flush=True)


def seconds_of(text: str) -> float:
    """Seconds of "90", "90s", "15m", "2h", "3d". Raises ValueError."""
    units = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    span = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd]?)", text.strip())
    if span is None:
        raise ValueError(f"{text!r} is no span of time such as 90, 15m or 2h")
    return float(span[1]) * units[span[2]]


def own_output() -> frozenset[tuple[int, int]]:
    """Device and inode of what standard output and error go to: a file of the run that must not be read as such."""
    found = set()
    for number in (1, 2):
        with contextlib.suppress(OSError):
            info = os.fstat(number)
            found.add((info.st_dev, info.st_ino))
    return frozenset(found)
