"""The new lines of a log that is being written: whole lines only, with those before them where these need company.

A traceback, a kernel's report or a rule's neighbourhood can be cut by the moment of looking. So the last `AGAIN` bytes
before the new ones are scanned a second time, and what they said replaces what they had said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forensics.engine.matcher import STACK, Matcher
from forensics.engine.scan import Hit, Scan, scan_files, scan_span
from forensics.files import beginning, opened
from forensics.model import Fact, Observation, Traceback, Writer
from forensics.parsers import kernel, stacks
from forensics.parsers.logs import HEAD, WHOLE, Grown, LogFindings, read_log, windows
from forensics.parsers.metric_lines import LogText
from forensics.parsers.prefixes import sample_lines, vote
from forensics.watch.files import PRINT, TRAIL, Followed

if TYPE_CHECKING:
    import polars as pl

AGAIN = 16 << 10  # bytes before the new lines that are scanned again; longer than nearly every traceback
CONTEXT = 2 << 10  # bytes before the new lines that are read for metrics: a dict may get its step from the bar above it
NEW = 8 << 20  # bytes of new lines that are read for metrics; of more, the last ones
PENDING = 64 << 10  # bytes without a line end from which on a carriage return ends a piece, as in progress bars
STEP = 64 << 10  # bytes a read when line ends are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What a look at one file has brought.

    since: offset from which on earlier observations and tracebacks of the file are replaced. text: lines to read for
    metrics, of which rows above line `after` are known. rows: metrics that are there already; `whole` says that they
    replace all earlier ones.
    """

    path: str
    since: int = 0
    observations: tuple[Observation, ...] = ()
    tracebacks: tuple[Traceback, ...] = ()
    facts: tuple[Fact, ...] = ()
    writer: Writer | None = None
    text: LogText | None = None
    after: int = 0
    rows: pl.DataFrame | None = None
    whole: bool = False
    collectives: pl.DataFrame | None = None


def line_end(file: Path, start: int, size: int) -> tuple[int, bool]:
    """(offset behind the last line end in [start, size), whether it is one); `start` where there is none.

    Where PENDING bytes or more have none, a carriage return counts as one, and then the end itself. Raises OSError.
    """
    with opened(file) as stream:
        position, returned = size, 0
        while position > start:
            begin = max(start, position - STEP)
            stream.seek(begin)
            data = stream.read(position - begin) or b""
            if (at := data.rfind(b"\n")) >= 0:
                return begin + at + 1, True
            if not returned and (at := data.rfind(b"\r")) >= 0:
                returned = begin + at + 1
            position = begin
    if size - start < PENDING:
        return start, True
    return returned or size, False


def read(followed: Followed, matcher: Matcher) -> Piece | None:
    """The new lines of a log, and the state of `followed` put behind them; None where there are none.

    Raises OSError.
    """
    source = followed.source
    end, at_line = line_end(source.file, followed.done, followed.size)
    if end <= followed.done:
        return None
    first = followed.done == 0
    if not followed.head or len(followed.head) < PRINT:
        followed.head = beginning(source.file, min(PRINT, end))
    if first and end > WHOLE:
        parts: Sequence[tuple[int, int]] = windows(end, WHOLE)
        marks = [start for start, _ in parts]
        (scan,) = scan_files(matcher.database, [(source.file, end, marks)])
        newlines, after, since, grown = scan.newlines, 0, 0, None
    else:
        parts = ()
        span = scan_span(matcher.database, source.file, followed.back, end, at_line=True)
        end = min(end, followed.back + span.bytes)  # less where the file shrank, more where no line ends there
        newlines = followed.back_newlines + span.newlines
        after, since = followed.newlines, followed.back
        hits = [Hit(h.pattern, h.offset, h.line + followed.back_newlines, h.data) for h in span.hits]
        scan = Scan(hits, span.counts, newlines, end, span.nul_bytes, {}, span.problem)
        grown = Grown(_voted(followed, end), followed.first_time, [_new_lines(followed, end, newlines)])
    found, observations, facts = _found(followed, scan, matcher, parts, None if first and end > WHOLE else grown)
    if first:
        followed.first_time = found.writer.first_time
        followed.voted, followed.voted_at = found.text.voted, end
    followed.done, followed.newlines, followed.at_line = end, newlines, at_line
    _remember(followed)
    return Piece(
        path=source.path,
        since=since,
        observations=observations,
        tracebacks=found.tracebacks,
        facts=facts,
        writer=found.writer,
        text=found.text,
        after=after,
    )


def _found(
    followed: Followed, scan: Scan, matcher: Matcher, parts: Sequence[tuple[int, int]], grown: Grown | None
) -> tuple[LogFindings, tuple[Observation, ...], tuple[Fact, ...]]:
    source, reference = followed.source, followed.mtime
    head = kernel.head_of(source)
    scan = kernel.unfold(source, head, scan, matcher.database.scan)
    if followed.done == 0 and grown is not None:  # a small one that is read for the first time
        grown = None
        whole = read_log(source, scan, matcher, reference=reference, end=scan.bytes)
    else:
        whole = read_log(source, scan, matcher, reference=reference, parts=parts, grown=grown, end=scan.bytes)
    signs, form = kernel.refine(source, head, whole.observations, reference=reference)
    starts = sorted({(hit.line, hit.offset) for hit in scan.hits if hit.pattern == STACK})
    signs = (*signs, *stacks.in_log(source, starts, reference=reference))
    facts = (Fact("kernel_log", form, source.path),) if form is not None else ()
    return whole, signs, facts


def _voted(followed: Followed, end: int) -> frozenset[str]:
    """The ambiguous prefixes of a log, told again while it is short."""
    if followed.voted is None or (followed.voted_at < HEAD and end >= 2 * followed.voted_at):
        followed.voted = vote(sample_lines(beginning(followed.source.file, min(HEAD, end))))
        followed.voted_at = end
    return followed.voted


def _new_lines(followed: Followed, end: int, newlines: int) -> tuple[bytes, int]:
    """(new lines of a log with some before them, number of the first)."""
    start = max(0, followed.done - CONTEXT, end - NEW) if followed.at_line else max(followed.done, end - NEW)
    with opened(followed.source.file) as stream:
        stream.seek(max(0, start - 1))
        data = stream.read(end - max(0, start - 1)) or b""
    if start > 0:
        data = data[data.find(b"\n") + 1 :] if followed.at_line or start > followed.done else data[1:]
    return data, newlines - data.count(b"\n") + 1


def _remember(followed: Followed) -> None:
    """Where to begin the next time, and by what a copy of the file is known."""
    start = max(0, followed.done - AGAIN)
    with opened(followed.source.file) as stream:
        stream.seek(start)
        data = stream.read(followed.done - start) or b""
    if start > 0 and b"\n" in data:
        data = data[data.find(b"\n") + 1 :]
    followed.back = followed.done - len(data)
    followed.back_newlines = followed.newlines - data.count(b"\n")
    followed.trail = data[-TRAIL:]
