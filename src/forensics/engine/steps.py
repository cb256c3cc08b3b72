"""Which step was it: the run's own counter at the moment of an event."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from forensics.engine.counters import counting_batches
from forensics.engine.few import Row, few
from forensics.model import Observation
from forensics.parsers.names import axis_of
from forensics.step_units import SAMPLES

if TYPE_CHECKING:
    import polars as pl

VIEWS = 4096  # of marks that are kept; most runs need a handful
_HELD_OUT = "eval_"  # the names of parsers.names that are measured on held-out data begin so
VIEWS_OF_ATTEMPTS = 4  # each can hold all marks of a file


_OF_BARS = ("progress", "total_steps")  # what a progress bar alone gives
STRIDES = 50  # intervals between records that a bar may be ahead of the last one
RECORDS = 5  # without steps, that must follow a message: one or two may be of peers that had them under way


class Mark(NamedTuple):
    line: int | None
    time: float | None
    step: int
    rank: int | None
    attempt: int | None = None
    epoch: float | None = None

    def by(self, attempt: int | None) -> bool:
        """Whether nothing says that it is of a later attempt."""
        return self.attempt is None or attempt is None or self.attempt <= attempt


class Last(NamedTuple):
    """The last record before an event."""

    step: int
    unit: str  # what the step counts
    epoch: float | None  # in which batches may be counted anew


class _Lines(NamedTuple):
    """Marks of one file that bear a line: what is asked of them is asked for thousands of events."""

    lines: Sequence[int]  # ascending
    steps: Sequence[int]
    highest: Sequence[int]  # of this mark's step and those of all later ones
    lowest: Sequence[int]
    epochs: Sequence[float | None]
    attempts: Sequence[int | None]

    @classmethod
    def of(cls, marks: Iterable[Mark]) -> _Lines:
        rows = sorted(((m.line, m.step, m) for m in marks if m.line is not None), key=lambda row: row[0])
        steps = [step for _, step, _ in rows]
        highest, lowest = ([*accumulate(reversed(steps), pick)][::-1] for pick in (max, min))
        epochs, attempts = [m.epoch for *_, m in rows], [m.attempt for *_, m in rows]
        return cls([line for line, *_ in rows], steps, highest, lowest, epochs, attempts)

    def until(self, line: int) -> int:
        """How many stand at a line or above it."""
        return bisect_right(self.lines, line)


@dataclass(frozen=True)
class StepClock:
    """Every record of the metrics table that bears a step, by source in written order."""

    marks: dict[str, tuple[Mark, ...]]
    unit: dict[str, str]  # source -> what its counter counts
    attempt: dict[str, int | None]
    # source -> (line, whether it is a finite number other than 0, as which HF Trainer prints NaN) of each loss
    losses: Mapping[str, Sequence[tuple[int, bool]]] = field(default_factory=dict)

    # source -> (line, epoch) of the records that bear an epoch and no step, as HF Trainer prints them, in written order
    epochs: Mapping[str, Sequence[tuple[int | None, float]]] = field(default_factory=dict)

    # source -> (line, attempt) of the words of an end below all records of their attempt
    ends: Mapping[str, Sequence[tuple[int, int | None]]] = field(default_factory=dict)

    # log -> the logs of earlier runs, which had ended before it began
    earlier: Mapping[str, Set[str]] = field(default_factory=dict)

    @cached_property
    def _ended(self) -> frozenset[int]:
        """The attempts that had come to their end."""
        return frozenset(n for ends in self.ends.values() for _, n in ends if n is not None)

    def _is_over(self, attempt: int | None, observation: Observation) -> bool:
        """Whether a record of an attempt is none of an event's run: that attempt had ended before the event's began."""
        own = observation.identity.attempt
        return attempt is not None and own is not None and attempt < own and attempt in self._ended

    def last_epoch(self, observation: Observation) -> float | None:
        """The epoch of the last record before an event that bears no step: in its file by line, else of any file."""
        evidence = observation.evidence[0]
        own = self.epochs.get(evidence.file)
        if own is not None:
            ends = [n for n, attempt in self.ends.get(evidence.file, ()) if self._is_over(attempt, observation)]
            begin = max(ends, default=0)
            above = [epoch for line, epoch in own if line and evidence.line and begin < line < evidence.line]
            return above[-1] if above else None
        past = self.earlier.get(evidence.file, ())
        return max((records[-1][1] for source, records in self.epochs.items() if source not in past), default=None)

    def interval(self, file: str) -> int:
        """Steps from the record before the last one of a file to that; 0 where there is none, or it is not behind."""
        marks = self.marks.get(file, ())
        before = next((mark.step for mark in reversed(marks) if mark.step != marks[-1].step), None)
        return 0 if before is None else max(0, marks[-1].step - before)

    def learns_after(self, observation: Observation, least: int = 5) -> bool:
        """True where `least` losses or more follow an event in its file, and all of them are finite."""
        evidence = observation.evidence[0]
        line = evidence.line
        after = [good for n, good in self.losses.get(evidence.file, ()) if line is not None and n > line]
        return len(after) >= least and all(after)

    @cached_property
    def _of_rank(self) -> dict[int | None, dict[str, list[Mark]]]:
        """rank -> source -> its marks."""
        found: dict[int | None, dict[str, list[Mark]]] = {}
        for source, marks in self.marks.items():
            for mark in marks:
                found.setdefault(mark.rank, {}).setdefault(source, []).append(mark)
        return found

    @cached_property
    def _views(self) -> tuple[dict[Any, _Lines], dict[Any, _Lines]]:
        """Of all attempts, and of some."""
        return {}, {}

    @cached_property
    def _attempts(self) -> dict[str, int | None]:
        """source -> the last attempt that any of its marks is of."""
        return {
            source: max((m.attempt for m in marks if m.attempt is not None), default=None)
            for source, marks in self.marks.items()
        }

    def _view(self, source: str, every: bool, rank: int | None, attempt: int | None = None) -> _Lines:
        """Marks with a line of a source: of every rank or of one, and not of an attempt after `attempt`."""
        last = self._attempts.get(source)
        bound = None if last is None or attempt is None or last <= attempt else attempt
        key = (source, every, None if every else rank, bound)
        kept, most = (self._views[0], VIEWS) if bound is None else (self._views[1], VIEWS_OF_ATTEMPTS)
        if key not in kept:
            if len(kept) >= most:
                kept.clear()
            marks = self.marks.get(source, ()) if every else self._of_rank.get(rank, {}).get(source, ())
            kept[key] = _Lines.of(m for m in marks if m.by(bound))
        return kept[key]

    def _epochs_go_on(self, file: str, line: int, by: int) -> bool:
        """Whether a file whose records bear epochs alone counts on below a line, by `by` records, and not anew."""
        own = [(n, epoch) for n, epoch in self.epochs.get(file, ()) if n is not None]
        before = [epoch for n, epoch in own if n < line]
        after = [epoch for n, epoch in own if n > line]
        rising = all(a <= b for a, b in pairwise([*before[-1:], *after]))
        return rising and len(after) >= (by if before else by + 1)

    def last_before(self, observation: Observation, rank: int | None) -> Last | None:
        """The last record at or before an event: in its own file by line, else by time, else the last of all.

        A file of the culprit's own rank is asked before other ranks' files. What a run recorded that had ended before
        the event's began does not count.
        """
        evidence = observation.evidence[0]
        if rank is not None and (own := self._last_in_file(observation, self._view(evidence.file, False, rank))):
            return own
        # A line may speak of another process than the one that wrote it: that one's own records tell more.
        if rank is not None and (found := self._latest(self._of_rank.get(rank, {}), observation)):
            return found
        if own := self._last_in_file(observation, self._view(evidence.file, True, None)):
            return own
        return self._latest(self.marks, observation)

    def last_of(self, observation: Observation, rank: int) -> Last | None:
        """The last record of a rank in an event's file and attempt, above the event or below it.

        What several processes write into one file is not in order there.
        """
        file = observation.evidence[0].file
        view = self._view(file, False, rank, observation.identity.attempt)
        return Last(view.steps[-1], self.unit[file], view.epochs[-1]) if view.steps else None

    def _last_in_file(self, observation: Observation, view: _Lines) -> Last | None:
        evidence = observation.evidence[0]
        n = view.until(evidence.line) if evidence.line is not None else 0
        if n and self._is_over(view.attempts[n - 1], observation):
            return None
        return Last(view.steps[n - 1], self.unit[evidence.file], view.epochs[n - 1]) if n else None

    def _latest(self, sources: Mapping[str, Sequence[Mark]], observation: Observation) -> Last | None:
        """The latest record in other files of its attempt that an event's time allows.

        The time of an event that bears none itself is that of an earlier line, and no bound.
        """
        attempt, bound = observation.identity.attempt, observation.time if observation.timed else None
        past = self.earlier.get(observation.evidence[0].file, ())
        found: list[Last] = []
        for source, marks in sources.items():
            if source == observation.evidence[0].file or source in past:
                continue
            if attempt is not None and self.attempt.get(source) not in (None, attempt):
                continue
            rows = (m for m in reversed(marks) if m.by(attempt))
            if bound is not None:
                limit = bound + 2.0
                rows = (m for m in rows if m.time is None or m.time <= limit)
            last = next(rows, None)
            if last is not None and not self._is_over(last.attempt, observation):
                found.append(Last(last.step, self.unit[source], last.epoch))
        by_epoch = all(last.epoch is not None for last in found)
        return max(found, key=lambda last: ((last.epoch or 0.0) if by_epoch else 0.0, last.step), default=None)

    @cached_property
    def began(self) -> float | None:
        """The earliest time of any record; None where no record bears one."""
        return min((m.time for marks in self.marks.values() for m in marks if m.time is not None), default=None)

    def goes_on_elsewhere(self, observation: Observation, rank: int | None, by: int = 2) -> bool:
        """True where another file of the same process records at least `by` later steps after an event, by the clock.

        Only for an event whose own time is printed: that of an earlier line may be of any time before it. rank: None
        stands for a run of a single process.
        """
        if observation.time is None or not observation.timed:
            return False
        for source, marks in self._of_rank.get(rank, {}).items():
            if source == observation.evidence[0].file:
                continue
            attempts = (observation.identity.attempt, self.attempt.get(source))
            own = [
                m
                for m in marks
                if m.time is not None and (m.attempt if m.attempt is not None else attempts[1]) == attempts[0]
            ]
            before = [m.step for m in own if m.time is not None and m.time <= observation.time]
            after = [m.step for m in own if m.time is not None and m.time > observation.time]
            if before and after and max(after) >= before[-1] + by:
                return True
        return False

    def records(self, rank: int) -> bool:
        """Whether anything records steps of a rank."""
        return rank in self._of_rank

    def recorded_after(self, observation: Observation, source: str, rank: int | None) -> int:
        """How many steps a source records of a rank after an event: below it in one file, else later by the clock.

        rank: None stands for records that name none.
        """
        evidence, marks = observation.evidence[0], self._of_rank.get(rank, {}).get(source, ())
        if source == evidence.file:
            return len({m.step for m in marks if m.line and evidence.line and m.line > evidence.line})
        time = observation.time
        return len({m.step for m in marks if time is not None and m.time is not None and m.time > time})

    def idle_since(self, observation: Observation) -> bool:
        """Whether nothing is known to have recorded a step after an event: below it in its file, or by the clock."""
        evidence, time = observation.evidence[0], observation.time if observation.timed else None
        for source, marks in self.marks.items():
            for m in marks:
                if source == evidence.file and m.line is not None and evidence.line is not None:
                    after = m.line > evidence.line
                else:
                    after = time is not None and m.time is not None and m.time > time
                if after:
                    return False
        return True

    def attempt_of(self, source: str, mark: Mark) -> int:
        """The attempt of a record: its source's where it names none, and the first where neither does."""
        return mark.attempt if mark.attempt is not None else self.attempt.get(source) or 0

    @cached_property
    def reached(self) -> dict[int, int]:
        """attempt -> the last step that any of its records bears."""
        found: dict[int, int] = {}
        for source, marks in self.marks.items():
            for mark in marks:
                attempt = self.attempt_of(source, mark)
                found[attempt] = max(found.get(attempt, mark.step), mark.step)
        return found

    @cached_property
    def began_at(self) -> dict[int, int]:
        """attempt -> the first step that any of its records bears."""
        found: dict[int, int] = {}
        for source, marks in self.marks.items():
            for mark in marks:
                attempt = self.attempt_of(source, mark)
                found[attempt] = min(found.get(attempt, mark.step), mark.step)
        return found

    def steps_after(self, observation: Observation, rank: int | None, *, labelled: bool = False) -> int:
        """How many different later steps the same writer records below an event, in its attempt.

        labelled: only those that bear the rank themselves count; what bears none may be of any rank.
        """
        evidence, attempt = observation.evidence[0], observation.identity.attempt
        if evidence.line is None:
            return 0
        views = [self._view(evidence.file, True, None, attempt)]
        if labelled:
            views = [self._view(evidence.file, False, rank, attempt)]
        elif rank is not None:  # marks of no rank may be of any
            views = [self._view(evidence.file, False, None, attempt), self._view(evidence.file, False, rank, attempt)]
        places = [(view, view.until(evidence.line)) for view in views]
        before = max(((view.lines[n - 1], view.steps[n - 1]) for view, n in places if n), default=(0, -1))[1]
        return len({step for view, n in places for step in view.steps[n:] if step > before})

    def first_in(self, source: str) -> int | None:
        """The first step that a source records."""
        return self.marks[source][0].step if self.marks.get(source) else None

    def last_in(self, source: str) -> int | None:
        """The last step that a source records."""
        return self.marks[source][-1].step if self.marks.get(source) else None

    def began_before(self, observation: Observation) -> bool:
        """Whether the event's own source recorded steps before it."""
        line = observation.evidence[0].line
        return line is not None and self._view(observation.evidence[0].file, True, None).until(line - 1) > 0

    def goes_on_after(
        self, observation: Observation, rank: int | None, by: int = 2, *, restarted: bool = False
    ) -> bool:
        """True where the same writer records at least `by` later steps after an event.

        restarted: whether a later attempt's steps count as well.
        """
        evidence = observation.evidence[0]
        if evidence.line is None:
            return False
        attempt = None if restarted else observation.identity.attempt
        file = evidence.file
        if rank is None:
            views = [self._view(file, True, None, attempt)]
        else:  # marks of no rank may be of any
            views = [self._view(file, False, None, attempt), self._view(file, False, rank, attempt)]
        places = [(view, view.until(evidence.line)) for view in views]
        after = [(view.highest[n], view.lowest[n]) for view, n in places if n < len(view.lines)]
        if not after:
            whole = attempt is None or self.attempt.get(file) == attempt
            apart = rank is None and whole and not self.marks.get(file)
            return apart and self._epochs_go_on(file, evidence.line, max(by, RECORDS))
        before = max(((view.lines[n - 1], view.steps[n - 1]) for view, n in places if n), default=None)
        start = before[1] if before is not None else min(lowest for _, lowest in after)
        return max(highest for highest, _ in after) >= start + by


def step_clock(
    metrics: pl.DataFrame, attempts: dict[str, int | None], samples: frozenset[str] = frozenset()
) -> StepClock:
    """The step clock of a run. A progress bar's count is a step where its source prints nothing better."""
    import polars as pl

    if not metrics.height:
        return StepClock({}, {}, attempts)
    if (small := few(metrics)) is not None:
        counted: Iterable[tuple[Any, ...]] = _counted(_of_training(small))
    else:
        records = (
            counting_training(metrics)
            .group_by(["source", "line", "epoch", "step", "rank"], maintain_order=True)
            .agg(
                pl.col("time").first(),
                pl.col("attempt").first(),
                pl.col("value").filter(pl.col("name") == "progress").first().alias("progress"),
                pl.col("name").is_in(_OF_BARS).all().alias("bare"),
            )
        )
        counted = records.filter(pl.col("step").is_not_null() | pl.col("progress").is_finite()).iter_rows()
    stepped: dict[str, list[Mark]] = {}
    bars: dict[str, list[Mark]] = {}
    bare_bars: dict[str, set[Mark]] = defaultdict(set)
    for source, line, epoch, step, rank, time, attempt, progress, bare in counted:
        where, count = (bars, int(progress)) if step is None else (stepped, step)
        mark = Mark(line, time, count, rank, attempt, epoch)
        where.setdefault(source, []).append(mark)
        if bare and step is not None:
            bare_bars[source].add(mark)
    for source, of_bars in bare_bars.items():
        stepped[source] = _without_strange_bars(stepped[source], of_bars)
    unit = dict.fromkeys(bars, "progress bar") | dict.fromkeys(stepped, "global step")
    unit |= dict.fromkeys(counting_batches(metrics) & stepped.keys(), "batch")
    unit |= dict.fromkeys(samples & stepped.keys(), SAMPLES)
    marked = {source: tuple(marks) for source, marks in (bars | stepped).items()}
    return StepClock(marked, unit, attempts, _losses(metrics), _epochs(metrics))


def _without_strange_bars(marks: Sequence[Mark], of_bars: Set[Mark]) -> list[Mark]:
    """The marks of a source without those of bars that count something else, such as the batches of an evaluation.

    A bar of training goes on from what the source's own records have counted, and not by many of their intervals at
    once. Where a source has no records of its own, its bars are all that counts.
    """
    own = [m.step for m in marks if m not in of_bars]
    if len(own) < 2:
        return list(marks)
    strides = sorted(b - a for a, b in pairwise(own) if b > a)
    most = STRIDES * max(strides[len(strides) // 2] if strides else 1, 1)
    kept: list[Mark] = []
    reached: int | None = None  # by the source's own records
    strange = False  # a bar that began below that counts something else, until the next own record
    for mark in marks:
        if mark not in of_bars:
            reached, strange = mark.step, False
        elif reached is not None:
            strange = strange or mark.step < reached
            if strange or mark.step > reached + most:
                continue
        kept.append(mark)
    return kept


def counting_training(metrics: pl.DataFrame) -> pl.DataFrame:
    """The rows of a METRICS_COLUMNS table without those whose step is another counter than that of training.

    A run's counter goes back where the run does, and then the series goes back that counted before. A held-out metric
    by epochs, a histogram that is written late or a table of hyperparameters lies behind what its source has reached
    and still goes up by itself: such a series moves the clock forward only. In text, whose phases may each count from
    0, this holds for held-out metrics alone. `... vs samples`, as Megatron-LM writes it, counts something else always.
    """
    import polars as pl

    if (small := few(metrics)) is not None:
        kept = _of_training(small)
        return metrics if len(kept) == len(small) else pl.DataFrame(kept, schema=metrics.schema, orient="row")
    writer, step, name = ["source", "rank", "attempt"], pl.col("step"), pl.col("name")
    doubted = step.is_not_null() & (pl.col("line").is_null() | name.str.starts_with(_HELD_OUT))
    foreign = [each for each in metrics["name"].unique().to_list() if axis_of(each)]
    rows = metrics.filter(step.is_null() | ~name.is_in(foreign)) if foreign else metrics
    if rows.select((~doubted).all()).item():
        return rows
    # A record's own rows stand at one step, so that the highest step so far may count it in.
    rows = rows.with_columns(
        (step < step.cum_max().over(writer)).alias("_behind"),
        (step <= step.cum_max().forward_fill().shift(1).over([*writer, "name"])).fill_null(False).alias("_back"),
    ).with_columns((doubted & pl.col("_behind") & ~pl.col("_back")).any().over([*writer, "name"]).alias("_other"))
    return rows.filter(~(doubted & pl.col("_behind") & pl.col("_other")).fill_null(False)).drop(
        "_behind", "_back", "_other"
    )


def _of_training(rows: Sequence[Row]) -> Sequence[Row]:
    """The same of few rows."""
    reached: dict[tuple[Any, ...], int] = {}
    own: dict[tuple[Any, ...], int] = {}
    others: set[tuple[Any, ...]] = set()
    behind: list[bool] = []
    for row in rows:
        late = False
        if (step := row.step) is not None and not axis_of(row.name):
            writer = (row.source, row.rank, row.attempt)
            series = (*writer, row.name)
            high, last = reached.get(writer, step), own.get(series, step - 1)
            if step < high and (row.line is None or row.name.startswith(_HELD_OUT)):
                late = True
                if step > last:
                    others.add(series)
            reached[writer], own[series] = max(high, step), max(last, step)
        behind.append(late)
    return [
        row
        for row, late in zip(rows, behind, strict=True)
        if row.step is None
        or not (axis_of(row.name) or (late and (row.source, row.rank, row.attempt, row.name) in others))
    ]


def _counted(rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """(source, line, epoch, step, rank, time, attempt, progress, bare) of records that bear a step or a bar's count.

    bare: whether a bar alone stands there.
    """
    own: set[tuple[Any, ...]] = set()
    firsts: dict[tuple[Any, ...], Row] = {}
    progress: dict[tuple[Any, ...], float | None] = {}
    for row in rows:
        place = (row.source, row.line, row.epoch, row.step, row.rank)  # a bar writes several epochs to one line
        firsts.setdefault(place, row)
        if row.name == "progress":
            progress.setdefault(place, row.value)
        if row.name not in _OF_BARS:
            own.add(place)
    for place, first in firsts.items():
        count = progress.get(place)
        if first.step is not None or (count is not None and math.isfinite(count)):
            yield (*place, first.time, first.attempt, count, place not in own)


def _epochs(metrics: pl.DataFrame) -> dict[str, list[tuple[int | None, float]]]:
    import polars as pl

    found: dict[str, list[tuple[int | None, float]]] = {}
    if (small := few(metrics)) is not None:
        told = (r for r in small if r.step is None and r.epoch is not None and math.isfinite(r.epoch))
        for source, line, epoch in dict.fromkeys((r.source, r.line, r.epoch or 0.0) for r in told):
            found.setdefault(source, []).append((line, epoch))
        return found
    rows = metrics.filter(pl.col("step").is_null() & pl.col("epoch").is_finite()).select("source", "line", "epoch")
    for source, line, epoch in rows.unique(maintain_order=True).iter_rows():
        found.setdefault(source, []).append((line, epoch))
    return found


def _losses(metrics: pl.DataFrame) -> dict[str, list[tuple[int, bool]]]:
    import polars as pl

    found: dict[str, list[tuple[int, bool]]] = {}
    if (small := few(metrics)) is not None:
        for row in small:
            if row.name == "loss" and row.line is not None:
                good = row.value is not None and math.isfinite(row.value) and row.value != 0.0
                found.setdefault(row.source, []).append((row.line, good))
        return found
    value = pl.col("value")
    rows = metrics.filter((pl.col("name") == "loss") & pl.col("line").is_not_null())
    for source, line, good in rows.select("source", "line", value.is_finite() & (value != 0.0)).iter_rows():
        found.setdefault(source, []).append((line, good))
    return found
