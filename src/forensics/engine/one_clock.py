"""Whether the clock that stamps a stop is the one by which a run recorded its steps.

Schedulers print their host's time, and containers UTC, mostly without a zone. Where another log (of a batch script
that calls `date`, of a launcher) bears one clock from the start of the run to its stop, and agrees with the run's logs
at the start and with the stop at the end, the two clocks are one.
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
