"""Numbers from log lines, whatever framework printed them.

A log repeats a handful of line shapes many thousand times. So one line of a shape is read with care in Python
(`reader`: which number is the step, which the loss, whose rank it is), turned into a regular expression that captures
exactly those numbers, and polars applies it to all lines at once (`templates`). What is left is read one by one, up to
a bound that only logs without any regularity reach.

    pieces      windows of a log -> candidate pieces of lines
    reader      one piece -> its numbers
    templates   all pieces of a shape at once
    bars        frames of progress bars
    notices     overflow messages, tables whose header names the columns
    neighbours  what only other lines can tell: steps of dicts and blocks, repeated frames, differences
    rows        the rows that all of these make

Strictness: a line counts only where a number that people watch stands under its own key, together with a position
(step, epoch, bar), another metric, or nothing else. A line that only counts steps gives `progress`. Argument dumps and
configurations hold no such number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.model import METRICS_COLUMNS, Source, schema

if TYPE_CHECKING:
    import polars as pl


def has_metrics(sample: bytes) -> bool:
    """Whether a piece of a log may hold metric lines, bars or overflow messages. Cheap; errs on the side of yes."""
    from forensics.parsers.metric_lines.pieces import may_hold_metrics

    return may_hold_metrics(sample)


def to_float(text: str) -> float | None:
    """A number as logs spell it (thousands commas, any case of nan and inf); None for anything else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def extract(data: bytes, *, first_line: int, source: Source, voted: frozenset[str], reference: float) -> pl.DataFrame:
    """The metrics of one window of whole lines of a log: `extract_windows` of a single one."""
    return extract_windows([(data, first_line)], source=source, voted=voted, reference=reference)


def extract_windows(
    windows: Sequence[tuple[bytes, int]], *, source: Source, voted: frozenset[str], reference: float
) -> pl.DataFrame:
    """The metrics of windows of a log, as rows of `METRICS_COLUMNS`; never raises for what they hold.

    windows: (bytes of whole lines in any encoding, number of the first line from 1), in the order of the file. Bytes
        are decoded as UTF-8 with replacement; lines end with newlines.
    voted: the ambiguous prefixes that the file uses (`prefixes.vote`).
    reference: seconds since the epoch near which dates without a year are put.

    A row's step is the counter that the line prints: where a loop counts batches within an epoch, it starts again
    with every epoch and `epoch` says which. An HF Trainer dict prints none; it gets that of the bar next to it, else
    null. The rank is the global rank on the line, else a voted task id, else the source's, else the local rank.
    Rows come in the order of the lines. `progress` of bars and counters is thinned (`neighbours.PROGRESS`).
    """
    import polars as pl

    from forensics.parsers.metric_lines import bars, neighbours, notices, templates
    from forensics.parsers.metric_lines.pieces import cut
    from forensics.parsers.metric_lines.rows import KEY_PER_LINE, Context

    pieces = cut(windows)
    context = Context(voted, reference, source.identity.rank)
    read, unread = templates.read(pieces.likely, context)
    frames = [
        *read,
        *bars.progress(pieces.bars, context),
        *bars.counted([pieces.others, *unread], context),
        *notices.overflows(pieces.rare, context),
        *(notices.columns(windows, context) if pieces.titled else ()),
    ]
    frames = [frame for frame in frames if not frame.is_empty()]
    if not frames:
        return pl.DataFrame(schema=schema(METRICS_COLUMNS))
    rows = neighbours.complete(frames, pieces.rules, pieces.starts)
    return rows.select(
        source=pl.lit(source.path, pl.String),
        line=pl.col("key") // KEY_PER_LINE,
        rank="rank",
        attempt=pl.lit(source.identity.attempt, pl.Int32),
        step="step",
        epoch="epoch",
        time="time",
        name=pl.col("name").cast(pl.String),
        value="value",
    )
