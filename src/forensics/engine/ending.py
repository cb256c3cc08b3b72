"""How the records of a run end that shows no failure and does not say that it ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from forensics.engine.counters import counting_batches
from forensics.engine.few import Row, few
from forensics.engine.sample_counts import counting_samples
from forensics.engine.steps import counting_training
from forensics.files import opened
from forensics.model import Evidence, Fact, Kind, Observation, RunData
from forensics.parsers.severity import last_error
from forensics.parsers.zeros import FACT as ZERO_TAIL
from forensics.step_units import of_samples

_OF_BARS = ("progress", "total_steps")  # metrics that progress bars give
_BEFORE = 64 << 10  # bytes before a report of the end that are searched for an error


def how_it_ends(data: RunData) -> str:
    """One sentence: how far the steps came, when that was printed, and that nothing says more."""
    return f"{how_far(data)} and shows no failure; nothing says that it ended."


def how_far(data: RunData) -> str:
    """The beginning of a sentence: how far the steps came, and when that was printed.

    Text alone cannot tell whether a process that wrote it still runs, so that nothing is said of it. Times of files are
    left out: a copy has new ones.
    """
    place, time = _last_place(data)
    if place is not None:
        reached = f"Training came to {place}"
    else:
        reached = "Training made progress" if data.metrics.height else "No step of training is on record"
    when = _stamp(time)
    at = f" ({when})" if when is not None else ""
    return reached + at


def last_words(data: RunData) -> Evidence | None:
    """The error with which a log of the run ends, in its own words; None where none ends so.

    No signature knows it, and no metric came after it: such a run is not known to be well.
    """
    last = _last_records(data)
    return next((e for e in data.last_errors if (e.line or 0) > last.get(e.file, 0)), None)


def said_before(echoes: Iterable[Evidence], data: RunData) -> Evidence | None:
    """The last error that a log states before it tells of the end itself, where no metric came in between.

    echoes: places that tell of the end without its cause, e.g. a launcher's report. Of several logs the one whose
    error stands nearest to such a place.
    """
    first: dict[str, tuple[int, int]] = {}  # file -> (offset, line) of the first of these
    for e in echoes:
        if e.offset is not None and e.line is not None:
            first[e.file] = min(first.get(e.file, (e.offset, e.line)), (e.offset, e.line))
    last = _last_records(data)
    found = []
    for source in data.sources:
        if source.path not in first or source.kind is not Kind.LOG:
            continue
        offset, number = first[source.path]
        begin = max(0, offset - _BEFORE)
        try:
            with opened(source.file) as stream:
                stream.seek(begin)
                before = stream.read(offset - begin) or b""
        except OSError:
            continue
        whole = before[before.find(b"\n") + 1 :] if begin else before
        if (error := last_error(whole)) is None:
            continue
        line = number - error.lines_from_end
        if line > last.get(source.path, 0):
            place = Evidence(source.path, line, offset - len(whole) + error.offset, error.text)
            found.append((error.lines_from_end, place))
    return min(found, key=lambda each: each[0])[1] if found else None


def left_open(data: RunData, finished: Iterable[Observation]) -> Evidence | None:
    """The header of a traceback that was not read to its end, where nothing in its file shows that the run went on.

    finished: signs that a run came to its end. What a process died of is then unknown, and it is not known to be well.
    """
    if not data.unended:
        return None
    last = _last_records(data)
    for place in (*(e for o in finished for e in o.evidence), *(t.header for t in data.tracebacks)):
        last[place.file] = max(last.get(place.file, 0), place.line or 0)
    return next((e for e in data.unended if (e.line or 0) > last.get(e.file, 0)), None)


def broken_off(data: RunData, finished: Iterable[Observation]) -> Fact | None:
    """A log that breaks off in zero bytes and does not say that the run came to its end; None where none does.

    finished: signs that a run came to its end. What the file system lost of it may hold anything.
    """
    ended = {e.file for o in finished for e in o.evidence}
    return next((fact for fact in data.facts if fact.name == ZERO_TAIL and fact.source not in ended), None)


def _last_records(data: RunData) -> dict[str, int]:
    """Source -> the last line with a metric; a bar that is drawn again at a step that was told before adds nothing."""
    if (small := few(data.metrics)) is not None:
        return _last_of_few(small)
    import polars as pl

    stated = data.metrics.lazy().filter(pl.col("line").is_not_null())
    drawn = pl.col("name").is_in(_OF_BARS) & pl.col("step").is_not_null()
    line = pl.when(drawn).then(pl.col("line").min().over("source", "step")).otherwise(pl.col("line"))
    told = stated.with_columns(line.alias("line")).group_by("source").agg(pl.col("line").max())
    return dict(told.collect().iter_rows())


def _last_of_few(rows: Sequence[Row]) -> dict[str, int]:
    first: dict[tuple[str, int | None], int] = {}  # (source, step) -> the first line that tells of it
    for row in rows:
        if row.line is not None:
            first[row.source, row.step] = min(row.line, first.get((row.source, row.step), row.line))
    last: dict[str, int] = {}
    for row in rows:
        if row.line is not None:
            drawn = row.name in _OF_BARS and row.step is not None
            line = first[row.source, row.step] if drawn else row.line
            last[row.source] = max(line, last.get(row.source, line))
    return last


def _last_place(data: RunData) -> tuple[str | None, float | None]:
    """(last step, seconds since the epoch) of the source that came farthest; of several the latest.

    The place is "step 1,200", or "batch 390 of epoch 5" where the source counts the batches of each epoch.
    """
    import polars as pl

    stepped = counting_training(data.metrics).filter(pl.col("step").is_not_null())
    if stepped.is_empty():
        return None, None
    written = {w.source: w.last_time for w in data.writers}
    batches = counting_batches(data.metrics)
    samples = counting_samples(data.metrics, data.sources)
    # A step without an epoch is one that a line names beside the count of samples.
    stepped = stepped.filter(pl.col("epoch").is_not_null() | ~pl.col("source").is_in(samples)) if samples else stepped
    ends = stepped.group_by("source").agg(pl.col("step").last(), pl.col("time").last(), pl.col("epoch").last())
    found = [
        (int(step), time if time is not None else written.get(source), epoch, str(source))
        for source, step, time, epoch in ends.iter_rows()
    ]
    step, time, epoch, source = max(found, key=lambda end: (end[0], end[1] if end[1] is not None else -math.inf))
    if source in samples:
        return of_samples(step, epoch), time
    return (f"step {step:,}" if epoch is None or source not in batches else f"batch {step:,} of epoch {epoch:g}"), time


def _stamp(time: float | None) -> str | None:
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None
