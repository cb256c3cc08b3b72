"""Whether the clock that stamps a stop is the one by which a run recorded its steps.

Schedulers print their host's time, and containers UTC, mostly without a zone. Where another log (of a batch script
that calls `date`, of a launcher) bears one clock from the start of the run to its stop, and agrees with the run's logs
at the start and with the stop at the end, the two clocks are one. So they are where the job's own log begins with what
`date` prints: a batch script asks the host whose daemon later tells of the stop, and is told the name of its zone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from forensics.engine.hangs import SAME_ZONE
from forensics.files import buffered
from forensics.model import Source
from forensics.parsers.prefixes import strip_ansi
from forensics.parsers.stamps import may_be_timed, parse_time

ENDS = 64 << 10  # of each end of a log: bytes that are looked through
_SHAPE = 24  # characters of a line in which its stamp stands, or begins
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
# What `date` prints unless told otherwise, in English (coreutils' "%a %b %e %H:%M:%S %Z %Y", and with AM or PM).
_DATE = re.compile(
    rb"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[AP]M )?(?P<zone>[A-Z]{3,5}) \d{4}\b"
)
UTC = ("UTC", "GMT")
# Slurm's daemon beside a job's step, which writes into the job's log by its host's clock.
OF_THE_HOST = "slurmstepd"
# A container has a clock setting of its own, and a script may ask for a zone.
_OF_ANOTHER_CLOCK = re.compile(
    rb"(?i)\b(?:pyxis|enroot|singularity|apptainer|docker|podman|shifter|charliecloud|sarus)\b|container"
    rb"|\bTZ=|\bdate +(?:-\w*u|--u)"
)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The time of a line, seconds; whether it states its zone; and how the line begins, without what changes in it."""

    time: float
    zone_known: bool
    shape: str


def spanned(source: Source, began: float, stop: float, about_it: Collection[int]) -> bool:
    """Whether a log's own clock is the run's at its start and the stop's at its end.

    began: the first time in the logs that record steps; stop: of the stop, by its own clock (both seconds). about_it:
    where the lines that tell of a stop begin (bytes), which others may have written into the log by their clock. Lines
    without a zone are of one clock where they begin alike.
    """
    try:
        with buffered(source.file) as stream:
            head = stream.read(ENDS)
            at = max(0, source.size - ENDS)
            stream.seek(at)
            tail = stream.read(source.size - at)
    except (OSError, ValueError):
        return False
    first = next(_stamps(head, 0, stop, about_it), None)
    if first is None or abs(first.time - began) >= SAME_ZONE:
        return False
    return any(
        abs(last.time - stop) < SAME_ZONE
        and last.zone_known == first.zone_known
        and (last.zone_known or last.shape == first.shape)
        for last in _stamps(tail, at, stop, about_it)
    )


def zone_of_host(source: Source, began: float, stop: float, upto: int) -> str | None:
    """The name of the zone in which `date` told of a run's start at the head of its job's log; else None.

    began: the first time in the logs that record steps; stop: of the stop, by its own clock (both seconds); upto: where
    its line begins (bytes). None as well where the words above the date may be of a container, or show that the script
    asked for a zone, and where a date below the stop is of another clock.
    """
    try:
        with buffered(source.file) as stream:
            head = stream.read(min(ENDS, upto))
            stream.seek(upto)
            below = stream.read(ENDS)
    except (OSError, ValueError):
        return None
    first = _DATE.search(head)
    if first is None or _OF_ANOTHER_CLOCK.search(head, 0, first.end()) is not None:
        return None
    time = _told(first, began)
    if time is None or abs(time - began) >= SAME_ZONE:
        return None
    after = _DATE.search(below)
    if after is not None and ((end := _told(after, stop)) is None or abs(end - stop) >= SAME_ZONE):
        return None
    return first["zone"].decode()


def _told(date: re.Match[bytes], reference: float) -> float | None:
    """The time that `date` prints, by the clock of its zone (seconds)."""
    return parse_time(date[0].decode(), reference)[0]


def _stamps(data: bytes, at: int, reference: float, but: Collection[int]) -> Iterator[_Stamp]:
    """The stamps of lines, in written order. at: where the data begin in their file; but: lines to pass over."""
    for line in data.splitlines(keepends=True):
        start, at = at, at + len(line)
        if start in but or not may_be_timed(line):
            continue
        text = strip_ansi(line[:400].decode("utf-8", "replace"))
        time, known = parse_time(text, reference)
        if time is not None:
            yield _Stamp(time, known, _LETTER.sub("a", _DIGIT.sub("0", text[:_SHAPE])))
