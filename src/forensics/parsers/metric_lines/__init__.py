"""Numbers from log lines, whatever framework printed them.

A log repeats a handful of line shapes many thousand times. So one line of a shape is read with care in Python
(`reader`: which number is the step, which the loss, whose rank it is), turned into a regular expression that captures
exactly those numbers, and polars applies it to all lines at once (`templates`). What is left is read one by one, up to
a bound that only logs without any regularity reach.

    pieces      windows of a log -> candidate pieces of lines
    reader      one piece -> its numbers
    templates   all pieces of a shape at once
    bars        frames of progress bars
    notices     overflow messages, summaries of detection, losses that are null, two tables of known columns
    detections  evaluations of detectors: YOLO's table, detectron2's lines
    class_reports  scikit-learn's reports of all classes
    tables      tables whose header names the columns, the first of which counts
    neighbours  what only other lines can tell: steps of dicts and blocks, repeated frames, differences
    rows        the rows that all of these make

Strictness: a line counts only where a number that people watch stands under its own key, together with a position
(step, epoch, bar), another metric, or nothing else. A line that only counts steps gives `progress`. Argument dumps and
configurations hold no such number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from forensics.model import METRICS_COLUMNS, Source, schema

if TYPE_CHECKING:
    import polars as pl

# What a file that names its loss, or has none of a single kind, prints.
_OTHERWISE = ("loss", "policy_loss", "value_loss", "reward")
BATCH = 16 << 20  # bytes of logs that are read together


def to_float(text: str) -> float | None:
    """A number as logs spell it (thousands commas, any case of nan and inf); None for anything else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


class LogText(NamedTuple):
    """What is read of one log for its metrics.

    windows: (bytes of whole lines in any encoding, number of the first line from 1), in the order of the file. Bytes
        are decoded as UTF-8 with replacement; lines end with newlines.
    voted: the ambiguous prefixes that the file uses (`prefixes.vote`).
    reference: seconds since the epoch near which dates without a year are put.
    """

    source: Source
    windows: Sequence[tuple[bytes, int]]
    voted: frozenset[str]
    reference: float

    @property
    def size(self) -> int:
        return sum(len(data) for data, _ in self.windows)


def extract(logs: Sequence[LogText]) -> pl.DataFrame:
    """The metrics of logs, as rows of `METRICS_COLUMNS`; never raises for what they hold.

    A row's step is the counter that the line prints: where a loop counts batches within an epoch, it starts again
    with every epoch and `epoch` says which. An HF Trainer dict prints none; it gets that of the bar next to it, else
    null. The rank is the global rank on the line, else a voted task id, else the source's, else the local rank.
    Rows come in the order of the logs and of their lines. `progress` of bars and counters is thinned
    (`neighbours.PROGRESS`).

    Logs are read together, `BATCH` bytes at a time: hundreds of ranks print the same few shapes of lines, and columns
    of many files cost hardly more than those of one.
    """
    import polars as pl

    frames: dict[str, pl.DataFrame] = {}
    alike: dict[frozenset[str], list[LogText]] = {}
    for log in logs:
        alike.setdefault(log.voted, []).append(log)
    for voted, all_of_them in alike.items():
        for batch in _batches(all_of_them):
            rows = _extract_batch(batch, voted)
            for part in rows.partition_by("source", maintain_order=True) if rows.height else ():
                frames[part["source"][0]] = part
    ordered = [frames[log.source.path] for log in logs if log.source.path in frames]
    return pl.concat(ordered) if ordered else pl.DataFrame(schema=schema(METRICS_COLUMNS))


def _batches(logs: Sequence[LogText]) -> Iterator[list[LogText]]:
    batch: list[LogText] = []
    held = 0
    for log in logs:
        if batch and held + log.size > BATCH:
            yield batch
            batch, held = [], 0
        batch.append(log)
        held += log.size
    if batch:
        yield batch


def _extract_batch(logs: Sequence[LogText], voted: frozenset[str]) -> pl.DataFrame:
    """The metrics of logs that use the same ambiguous prefixes."""
    import polars as pl

    from forensics.parsers.metric_lines.pieces import cut

    bases, windows, files = [0], [], []
    for index, log in enumerate(logs):
        end = 0
        for data, first_line in log.windows:
            windows.append((data, bases[-1] + first_line))
            files.append(index)
            end = first_line + data.count(b"\n")
        bases.append(bases[-1] + end + 1)
    bases.pop()
    pieces = cut(windows)
    if pieces.nothing:  # loading what would read them takes longer than a short log
        return pl.DataFrame(schema=schema(METRICS_COLUMNS))
    from forensics.parsers.metric_lines import bars, class_reports, detections, neighbours, notices, tables, templates
    from forensics.parsers.metric_lines.rows import KEY_PER_LINE, Context

    context = Context(
        voted,
        max(log.reference for log in logs),
        tuple(log.source.identity.rank for log in logs),
        tuple(bases),
    )
    read, unread = templates.read(pieces.likely, context)
    frames = [
        *read,
        *bars.progress(pieces.bars, context),
        *bars.counted([pieces.others, *unread], context),
        *notices.overflows(pieces.rare, context),
        *notices.precisions(pieces.precisions, context),
        *(notices.columns(windows, context) if pieces.titled else ()),
        *(notices.nulls(windows, context) if pieces.nulls else ()),
        *(detections.evaluations(windows, context) if pieces.evaluated else ()),
        *(class_reports.recalls(windows, context) if pieces.reported else ()),
        *(tables.titled(windows, context) if pieces.counted else ()),
    ]
    frames = [frame for frame in frames if not frame.is_empty()]
    if not frames:
        return pl.DataFrame(schema=schema(METRICS_COLUMNS))
    rows = _with_objectives(neighbours.complete(frames, pieces.rules, pieces.starts, files))
    file = pl.col("file")
    return rows.select(
        source=pl.lit(pl.Series([log.source.path for log in logs])).gather(file),
        line=pl.col("key") // KEY_PER_LINE - pl.lit(pl.Series(bases, dtype=pl.Int64)).gather(file),
        rank="rank",
        attempt=pl.lit(pl.Series([log.source.identity.attempt for log in logs], dtype=pl.Int32)).gather(file),
        step="step",
        epoch="epoch",
        time="time",
        name=pl.col("name").cast(pl.String),
        value="value",
    )


def _with_objectives(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with objectives under their canonical name: the loss of files that print no other, and no reward.

    A policy's cost, a mean squared error that is measured beside the loss, and the like are parts at most.
    """
    import polars as pl

    from forensics.parsers.metric_lines.reader import OBJECTIVE

    names = rows["name"].cast(pl.String)
    mine = names == OBJECTIVE
    if not mine.any():
        return rows
    others = rows.filter(names.is_in(_OTHERWISE))["file"].unique()
    name = pl.when(pl.col("file").is_in(others.implode())).then(pl.lit("loss_part")).otherwise(pl.lit("loss"))
    return rows.with_columns(name=pl.when(mine).then(name).otherwise(names))
