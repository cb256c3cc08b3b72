"""How often a run recorded its steps, and how much of a log its program may not have written yet when it was killed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from forensics.engine import behind
from forensics.engine.steps import StepClock
from forensics.files import buffered
from forensics.model import Kind, RunData, Source

LEAST = 300.0  # seconds: a silence is at least this long
# Seconds that an evaluation or a save takes of which no line tells: a longer log shows no silence shorter than that.
UNTOLD = 1800.0
FEWEST = 8  # intervals between records from which on their rhythm is known
TIMES_USUAL, TIMES_LONGEST = 10.0, 2.0  # a silence is longer than so many usual intervals, and longest ones
# Python and C keep this much of what a program prints to a file or pipe until they write it (bytes): a process that is
# killed takes it along, so that a log may end that much too early.
_BUFFER, _BUFFERS = 8192, 1.5
_SMALLEST_BUFFER = 4096  # bytes: a page, which C's streams take for a file or pipe (glibc, st_blksize)
# Python writes what it has kept at the end of the last line that fits into its buffer (io.TextIOWrapper): what it wrote
# first is shorter than that by no more than a line. Lines of records are no longer than this (bytes).
_LINE = 1024
_TAIL = 2048  # bytes: a few lines
# Times as logging.Formatter prints them unless told otherwise; its handlers flush after each record.
_OF_LOGGING = re.compile(rb"\d\d:\d\d:\d\d,\d{3}(?!\d)")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often one writer recorded a step, in seconds.

    pause: how long it may be silent by its rhythm and its buffer; limit: what a silence must exceed to be one.
    """

    usual: float
    longest: float
    pause: float
    limit: float


def rhythms(data: RunData, clock: StepClock, attempt: int, cut: Mapping[str, int]) -> Iterable[Rhythm]:
    """The rhythm of each writer (file and rank) of an attempt that recorded steps with times.

    cut: log -> where the words about the run's end begin (bytes), which others than its program may have written.
    """
    logs = {s.path: s for s in data.sources if s.kind is Kind.LOG}
    for path, marks in clock.marks.items():
        if path not in logs:
            continue
        records: dict[int | None, list[tuple[float, int]]] = defaultdict(list)
        for mark in marks:
            if mark.time is not None and clock.attempt_of(path, mark) == attempt:
                records[mark.rank].append((mark.time, mark.step))
        at_once = written_at_once(logs[path], cut.get(path))
        # Each rank of a shared file has a buffer of its own, but where their records stand between each other.
        shared = len(records) > 1 and behind.in_turns([mark.rank for mark in marks])
        for rows in records.values():
            moves = [(b - a, n - m) for (a, m), (b, n) in pairwise(rows) if b >= a and n > m]
            if len(moves) < FEWEST:
                continue
            stride = median(n for _, n in moves)  # a large file is read in parts: what lies between them is no pause
            gaps = [seconds for seconds, n in moves if n <= stride]
            usual, longest = median(seconds for seconds, _ in moves), max(gaps)
            kept = usual * held(len(rows) if shared else len(marks), logs[path].size)
            pause = max(LEAST, TIMES_USUAL * usual, TIMES_LONGEST * longest, 0.0 if at_once else kept)
            yield Rhythm(usual, longest, pause, max(pause, min(kept, UNTOLD)))


def written_at_once(source: Source, cut: int | None = None) -> bool:
    """Whether a log shows that its program wrote each line at once; False where nothing tells.

    It does where it is shorter than a full buffer; where it is longer than one of C's, ends with a whole line elsewhere
    than C's would, and is shorter than one of Python's; or where Python's logging wrote its last lines, and kept none.
    cut: where what others wrote below it begins, bytes.
    """
    written = source.size if cut is None else min(cut, source.size)
    if source.size < _SMALLEST_BUFFER:
        return source.size > 0
    start = max(0, written - _TAIL)
    try:
        with buffered(source.file) as stream:
            stream.seek(start)
            tail = stream.read(written - start)
    except (OSError, ValueError):
        return False
    if not tail.endswith(b"\n"):
        return False
    if _SMALLEST_BUFFER < written < _BUFFER - _LINE and written % _SMALLEST_BUFFER:
        return True
    lines = [line for line in tail[tail.find(b"\n") + 1 :].splitlines() if line.strip()]
    return bool(lines) and all(_OF_LOGGING.search(line[:_LINE]) for line in lines)


def held(amount: float, size: float) -> float:
    """How much of a log's records, or seconds, a buffer may hold back. amount: of those in a file of `size` bytes.

    A file that no full buffer went to is of a program that writes its lines at once.
    """
    return _BUFFERS * _BUFFER * amount / size if size >= _SMALLEST_BUFFER else 0.0
