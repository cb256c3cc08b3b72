"""The long metric table as records: what one writer said at one place, and signs that several writers share.

A *stream* is what one source says about one rank, in written order, one record a printed line (or, in binary sources, a
step). Detectors find a sign in a stream; `merge` makes one observation of the signs that streams of one attempt share
and says which ranks showed it first.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any

from forensics.engine.few import Row, Same, few, names_of
from forensics.model import Evidence, Identity, Observation

if TYPE_CHECKING:
    import polars as pl

# Names that only reinforcement learning or preference tuning logs: its losses do not measure progress.
RL_NAMES = frozenset(
    {"reward", "reward_std", "frac_reward_zero_std", "kl", "value_loss", "policy_loss", "explained_variance",
     "clip_fraction", "reward_chosen", "margin"}
)  # fmt: skip
MAX_EVIDENCE = 8
MOST_STREAMS = 10_000  # of one table; the largest jobs have as many ranks, and few of them print metrics
Moment = tuple[float, float]  # (epoch, step) of a record
NO_STEP = math.inf  # the step of a record that bears none: after all that do


@dataclass(frozen=True, slots=True)
class Stream:
    """Records of one source and rank, in written order; each list has one item a record, None where nothing is said."""

    source: str
    rank: int | None
    binary: bool  # the source has no lines
    lines: Sequence[int | None]
    steps: Sequence[int | None]
    epochs: Sequence[float | None]
    times: Sequence[float | None]
    attempts: Sequence[int | None]
    columns: Mapping[str, Sequence[float | None]]
    names: frozenset[str]  # every metric of the source, also those that were not asked for

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Sequence[float | None]:
        """The values of a metric, one a record."""
        return self.columns.get(name) or [None] * len(self)

    def cut(self, start: int, stop: int) -> Stream:
        """Records start..stop-1 as a stream of their own."""
        return Stream(
            self.source,
            self.rank,
            self.binary,
            self.lines[start:stop],
            self.steps[start:stop],
            self.epochs[start:stop],
            self.times[start:stop],
            self.attempts[start:stop],
            {name: values[start:stop] for name, values in self.columns.items()},
            self.names,
        )

    @property
    def attempt(self) -> int | None:
        return next((a for a in self.attempts if a is not None), None)

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """Record numbers and values of a metric where it is given."""
        values = self.column(name)
        return [i for i, v in enumerate(values) if v is not None], [v for v in values if v is not None]

    def pairs(self, one: str, other: str) -> list[tuple[int, float, float]]:
        """(record, value, value) of the records that hold both metrics as finite numbers."""
        both = zip(self.column(one), self.column(other), strict=True)
        return [
            (i, a, b)
            for i, (a, b) in enumerate(both)
            if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
        ]

    def by_step(self, name: str) -> Sequence[float | None]:
        """The values of a metric, one a record; those of the same step where blocks of lines give each its own.

        Where batches are counted anew in each epoch, a step is one of an epoch.
        """
        values = self.column(name)
        epochs = self.epochs if batches_anew(self) else [None] * len(self)
        places = list(zip(epochs, self.steps, strict=True))
        told = {place: v for place, v in zip(places, values, strict=True) if v is not None}
        return [
            v if v is not None or place[1] is None else told.get(place) for place, v in zip(places, values, strict=True)
        ]

    def every_step(self, at: int, name: str) -> bool:
        """Whether the records of `name` around record `at` follow each other step by step."""
        window = slice(max(0, at - 40), at + 40)
        said = zip(self.steps[window], self.column(name)[window], strict=True)
        near = [s for s, v in said if s is not None and v is not None]
        gaps = [b - a for a, b in itertools.pairwise(near) if b > a]
        return bool(gaps) and median(gaps) == 1

    def where(self, at: int) -> str:
        """The record's step; without one its line (or number) and, where it is given, its epoch.

        A step that counts the batches of an epoch is told with the epoch.
        """
        step, epoch, line = self.steps[at], self.epochs[at], self.lines[at]
        if step is not None:
            return f"step {step}" if epoch is None or not batches_anew(self) else f"step {step} of epoch {epoch:g}"
        place = f"line {line}" if line is not None else f"record {at + 1}"
        return place if epoch is None else f"{place} (epoch {epoch:g})"

    def evidence(self, at: int, *names: str) -> Evidence:
        """The record as evidence; its text is made from the numbers."""
        said = [f"{name} {number(v)}" for name in names if (v := self.column(name)[at]) is not None]
        whose = f" (rank {self.rank})" if self.rank is not None else ""
        return Evidence(self.source, self.lines[at], None, f"{self.where(at)}: {', '.join(said) or 'no loss'}{whose}")


def number(value: float) -> str:
    """A number as short as its size needs: 6 digits, powers of two in full."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return str(int(value)) if value == int(value) and abs(value) < 1e12 else f"{value:.6g}"


def streams(metrics: pl.DataFrame, names: Iterable[str]) -> tuple[Stream, ...]:
    """The streams of a METRICS_COLUMNS table that have at least one of the metrics `names`, with these columns.

    Detectors that follow each other often ask for the same ones, so the last answers are kept (`remembered_streams`).
    """
    return remembered_streams(Same(metrics), tuple(dict.fromkeys(names)))


@lru_cache(maxsize=2)  # each holds every number of a table as an object
def remembered_streams(same: Same[pl.DataFrame], wanted: tuple[str, ...]) -> tuple[Stream, ...]:
    """`streams`, remembered until `cache_clear`."""
    import polars as pl

    metrics = same.value
    if (small := few(metrics)) is not None:
        return _of_few(small, wanted)
    rows = _of_most(metrics.filter(pl.col("name").is_in(wanted)))
    if rows.is_empty():
        return ()
    present = [n for n in wanted if n in set(rows["name"].unique().to_list())]
    all_names: dict[str, set[str]] = {}
    for source, name in (
        metrics.filter(pl.col("name").is_in(RL_NAMES | set(wanted))).select("source", "name").unique().iter_rows()
    ):
        all_names.setdefault(source, set()).add(name)
    values = [f"value:{name}" for name in present]
    lists = ["line", "step", "epoch", "time", "attempt", *values]
    # All streams in one table: a table for each costs more than all the rest where there are many ranks.
    grouped = (
        _records(rows, present)
        .group_by("source", "rank", maintain_order=True)
        .agg(*lists, numbers=pl.concat_list(pl.col(values).count()))
    )
    found = []
    for source, rank, lines, steps, epochs, times, attempts, *columns, numbers in grouped.select(
        "source", "rank", *lists, "numbers"
    ).iter_rows():
        found.append(
            Stream(
                source,
                rank,
                lines.count(None) == len(lines),
                lines,
                steps,
                epochs,
                times,
                attempts,
                {name: column for name, column, n in zip(present, columns, numbers, strict=True) if n},
                frozenset(all_names.get(source, ())),
            )
        )
    return tuple(found)


@dataclass(slots=True)
class _Record:
    first: Row
    epoch: float | None
    time: float | None
    values: dict[str, float | None]


def _of_few(rows: Sequence[Row], wanted: tuple[str, ...]) -> tuple[Stream, ...]:
    """`streams` of a small table: the same, row by row."""
    asked = frozenset(wanted)
    places: dict[tuple[Any, ...], list[_Record]] = {}
    found: dict[tuple[str, int | None], list[_Record]] = {}
    last: tuple[Any, ...] = ()
    here: list[_Record] = []
    for row in [row for row in rows if row.name in asked]:
        source, _, rank, _, _, epoch, time, name, value = row
        if (place := row[:5]) != last:  # the rows of a record nearly always follow each other
            here, last = places.setdefault(place, []), place
        for record in here:
            if name not in record.values:
                break
        else:  # a new place; or a metric that stands twice at one, which makes two records
            record = _Record(row, epoch, time, {})
            here.append(record)
            found.setdefault((source, rank), []).append(record)
        record.values[name] = value
        if record.epoch is None:
            record.epoch = epoch
        if record.time is None:
            record.time = time
    names = names_of(rows)
    streams = []
    for (source, rank), records in found.items():
        columns = {name: [r.values.get(name) for r in records] for name in wanted}
        lines = [r.first.line for r in records]
        streams.append(
            Stream(
                source,
                rank,
                lines.count(None) == len(lines),
                lines,
                [r.first.step for r in records],
                [r.epoch for r in records],
                [r.time for r in records],
                [r.first.attempt for r in records],
                {name: column for name, column in columns.items() if column.count(None) < len(column)},
                names[source] & (RL_NAMES | asked),
            )
        )
    return tuple(streams)


def _of_most(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of MOST_STREAMS streams: those with a value that is not finite first, then those that say the most.

    Each stream costs a third of a millisecond in each of the detectors, however little it says.
    """
    import polars as pl

    if rows.height <= MOST_STREAMS:
        return rows
    told = rows.group_by("source", "rank", maintain_order=True).agg(
        bad=(~pl.col("value").is_finite()).any(), records=pl.len()
    )
    if told.height <= MOST_STREAMS:
        return rows
    chosen = told.sort("bad", "records", descending=True, maintain_order=True).head(MOST_STREAMS)
    return rows.join(chosen, on=["source", "rank"], how="semi", nulls_equal=True, maintain_order="left")


def left_out(metrics: pl.DataFrame) -> dict[str, int]:
    """Source -> how many of its streams (files and ranks) are beyond the MOST_STREAMS that detectors look at."""
    kept = _of_most(metrics)
    if kept is metrics:
        return {}
    every, some = (rows.select("source", "rank").unique() for rows in (metrics, kept))
    rest = every.join(some, on=["source", "rank"], how="anti", nulls_equal=True)
    return {str(source): int(count) for source, count in rest.group_by("source").len().iter_rows()}


_PLACE = ("source", "rank", "attempt", "line", "step")


def _records(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """One row a record, in the order of their first rows, with a column `value:<name>` for each name.

    The rows of a record nearly always follow each other. Then a record is a run of rows, which costs a tenth of looking
    for equal places all over the table.
    """
    import polars as pl

    place = [pl.col(column).ne_missing(pl.col(column).shift(1)) for column in _PLACE]
    code = pl.col("name").replace_strict({name: i for i, name in enumerate(names)}, return_dtype=pl.Int64)
    run = rows.select(
        run=pl.any_horizontal(place).cast(pl.UInt32).cum_sum() - pl.any_horizontal(place).first().cast(pl.UInt32),
        code=code,
    )
    said = run.select(pl.col("run").cast(pl.Int64) * len(names) + pl.col("code"))["run"]
    first = run["run"].rle_id().is_first_distinct()
    records = rows.filter(first).select(*_PLACE)
    if said.is_duplicated().any() or not (_written_in_order(records) or records.is_unique().all()):
        return _scattered_records(rows, names)
    height = records.height

    def spread(chosen: pl.Series, column: str) -> pl.Series:
        empty = pl.repeat(None, height, dtype=pl.Float64, eager=True)
        return empty.scatter(run["run"].filter(chosen), rows[column].filter(chosen))

    columns = []
    for column in ("epoch", "time"):
        given = rows[column].is_not_null()
        at = run["run"].filter(given)
        empty = pl.repeat(None, height, dtype=pl.Float64, eager=True)
        once = at.is_first_distinct()
        columns.append(empty.scatter(at.filter(once), rows[column].filter(given).filter(once)).alias(column))
    columns += [spread(run["code"] == i, "value").alias(f"value:{name}") for i, name in enumerate(names)]
    return records.with_columns(columns)


def _written_in_order(records: pl.DataFrame) -> bool:
    """Whether no place can be twice, because each source is in one piece and its lines (or steps) only grow."""
    import polars as pl

    new = pl.col("source").ne_missing(pl.col("source").shift(1))
    line, step = pl.col("line"), pl.col("step")
    grows = (line > line.shift(1)) | (line.is_null() & line.shift(1).is_null() & (step > step.shift(1)))
    told = records.select(
        pieces=new.sum(), sources=pl.col("source").n_unique(), grows=(new | grows.fill_null(False)).all()
    )
    return bool(told["grows"][0]) and told["pieces"][0] == told["sources"][0]


def _scattered_records(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """`_records` where the rows of a record may lie apart, or one metric stands twice at a place: two records then."""
    import polars as pl

    rows = rows.with_row_index("order").with_columns(twice=pl.struct(*_PLACE, "name").is_duplicated())
    once = rows.filter(~pl.col("twice")).with_columns(nth=pl.lit(0, dtype=pl.Int64))
    again = rows.filter("twice").with_columns(nth=pl.int_range(pl.len()).over(*_PLACE, "name"))
    return (
        pl.concat([once, again])
        .sort("order")
        .group_by(*_PLACE, "nth")
        .agg(
            pl.col("order").min(),
            pl.col("epoch").drop_nulls().first(),
            pl.col("time").drop_nulls().first(),
            *(pl.col("value").filter(pl.col("name") == name).first().alias(f"value:{name}") for name in names),
        )
        .sort("order")
    )


def _never_back(values: Sequence[float | None]) -> bool:
    """Whether a position only grows; all of it without a loop in Python."""
    known = [v for v in values if v is not None] if None in values else values
    ordered: Callable[[Any, Any], bool] = operator.le
    return all(map(ordered, known, itertools.islice(known, 1, None)))


def _next_epoch(last: float | None, epoch: float | None) -> bool:
    """Whether a whole epoch follows another one."""
    return last is not None and epoch is not None and epoch == last + 1 and float(epoch).is_integer()


def batches_anew(stream: Stream) -> bool:
    """Whether steps go back somewhere, and each time with the beginning of the next epoch: they count its batches."""
    if _never_back(stream.steps):
        return False
    known = [(s, e) for s, e in zip(stream.steps, stream.epochs, strict=True) if s is not None]
    return all(_next_epoch(e, f) for (s, e), (t, f) in itertools.pairwise(known) if t < s)


def courses(stream: Stream) -> tuple[Stream, ...]:
    """The stream, cut where a run begins anew, and not where it only counts the batches of the next epoch.

    A step that goes back while a whole epoch follows the one before is the first batches of that epoch, of the same
    attempt. Steps of a course may go back, so they are no order; nor is the level of a running mean or sum, which
    begins anew with its epoch (`teeth`).
    """
    parts = segments(stream)
    if len(parts) < 2:
        return parts
    found: list[Stream] = []
    start = end = 0
    for before, after in itertools.pairwise((None, *parts)):
        assert after is not None
        if before is not None and not _goes_on(before, after):
            found.append(stream.cut(start, end))
            start = end
        end += len(after)
    return (*found, stream.cut(start, end))


def _goes_on(before: Stream, after: Stream) -> bool:
    """Whether records are those of the next epoch, by the last and first ones that bear an epoch, and one attempt."""
    attempts = {before.attempt, after.attempt} - {None}
    last = next((e for e in reversed(before.epochs) if e is not None), None)
    first = next((e for e in after.epochs if e is not None), None)
    return len(attempts) < 2 and _next_epoch(last, first)


def teeth(course: Stream, name: str) -> float:
    """How far a metric usually jumps where batches are counted anew: the median of these jumps; 0 where there are none.

    A mean or a sum that begins anew with each epoch is a saw by it, of which each tooth looks like a rise.
    """
    at, values = course.curve(name)
    pairs = itertools.pairwise(zip(at, values, strict=True))
    jumps = [abs(w - v) for (i, v), (j, w) in pairs if _back(course.steps[i], course.steps[j]) and math.isfinite(w - v)]
    return median(jumps) if jumps else 0.0


def _back(step: int | None, then: int | None) -> bool:
    return step is not None and then is not None and then < step


def segments(stream: Stream, marks: Iterable[int] = ()) -> tuple[Stream, ...]:
    """The stream, cut where a run begins anew: a new attempt, a step or epoch that goes back, or a line in `marks`.

    marks: line numbers of this source at which the run says that it starts or resumes.
    """
    pending = sorted(marks)
    one_attempt = len({*stream.attempts} - {None}) < 2
    if not pending and one_attempt and _never_back(stream.steps) and _never_back(stream.epochs):
        return (stream,) if len(stream) else ()
    cuts = [0]
    last_step: int | None = None
    last_epoch: float | None = None
    last_attempt: int | None = None
    for i in range(len(stream)):
        step, epoch, attempt, line = stream.steps[i], stream.epochs[i], stream.attempts[i], stream.lines[i]
        back = step is not None and last_step is not None and step < last_step
        # An epoch that goes back while steps go on is the bug that resume.py looks for: cut there as well.
        back = back or (epoch is not None and last_epoch is not None and epoch < last_epoch - 1e-6)
        back = back or (attempt is not None and last_attempt is not None and attempt != last_attempt)
        if line is not None and pending and line > pending[0]:
            pending = [m for m in pending if m >= line]
            back = True
        if back and i > cuts[-1]:
            cuts.append(i)
            last_step = last_epoch = None
        last_step = step if step is not None else last_step
        last_epoch = epoch if epoch is not None else last_epoch
        last_attempt = attempt if attempt is not None else last_attempt
    return tuple(stream.cut(a, b) for a, b in zip(cuts, [*cuts[1:], len(stream)], strict=True) if b > a)


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign in one stream."""

    stream: Stream
    at: int  # the record of the onset
    evidence: tuple[Evidence, ...]  # onset first
    note: str
    metric: str  # the metric whose record decides whether the step is exact
    weight: float = 1.0  # how surely this shape alone shows it; multiplied with the weight of the signature's rule
    captures: Mapping[str, str] = field(default_factory=dict)

    @property
    def step(self) -> int | None:
        return self.stream.steps[self.at]


def family(stream: Stream) -> str:
    """What kind of record a stream is: ranks are compared within one kind, for kinds may count steps differently."""
    return "binary" if stream.binary else stream.source.rpartition(".")[2]


def dated(streams: Iterable[Stream]) -> bool:
    """Whether every record has an epoch, so that records of all these streams can be compared by it first."""
    return all(epoch is not None for stream in streams for epoch in stream.epochs)


def moment(stream: Stream, at: int, by_epoch: bool) -> Moment:
    """When a record was written, for comparison: (epoch, step). Loops that count an epoch's batches begin anew with it.

    by_epoch: whether all the records that it is compared with have an epoch (`dated`).
    """
    step = stream.steps[at]
    return ((stream.epochs[at] or 0.0) if by_epoch else 0.0, step if step is not None else NO_STEP)


def first_ranks(signs: Sequence[Sign], logging: Sequence[Stream]) -> tuple[int, ...]:
    """The ranks that showed a sign first, if other ranks that log the same metric did not; else ().

    signs: of one attempt. logging: the streams that log the metric, with and without a sign.
    """
    best: tuple[int, tuple[int, ...]] = (1, ())
    by_epoch = dated(s.stream for s in signs)
    for kind in dict.fromkeys(family(s) for s in logging):
        ranks = {s.rank for s in logging if family(s) == kind and s.rank is not None}
        of_ranks = [s for s in signs if family(s.stream) == kind and s.stream.rank is not None]
        first: dict[int | None, Moment] = {}
        for sign in of_ranks:
            at = moment(sign.stream, sign.at, by_epoch)
            first[sign.stream.rank] = min(at, first.get(sign.stream.rank, at))
        if len(ranks) <= best[0] or not first:
            continue
        start = min(first.values()) if all(step != NO_STEP for _, step in first.values()) else None
        culprits = sorted(r for r, s in first.items() if r is not None and (start is None or s == start))
        best = (len(ranks), tuple(culprits) if len(culprits) < len(ranks) else ())
    return best[1]


def merge(
    signs: Sequence[Sign], logging: Sequence[Stream], culprits: tuple[int, ...] | None = None
) -> tuple[Observation, ...]:
    """One observation an attempt of the signs that several streams show; signature and weight are filled in later.

    culprits: the ranks to blame where the caller knows them; else those that showed the sign first.
    """
    numbered = sorted({a for s in signs if (a := s.stream.attempt) is not None})
    groups: dict[int | None, list[Sign]] = {}
    for sign in signs:
        attempt = sign.stream.attempt
        groups.setdefault(attempt if attempt is not None else (numbered[0] if numbered else None), []).append(sign)
    return tuple(_observation(attempt, group, logging, culprits) for attempt, group in groups.items())


def _observation(
    attempt: int | None, signs: Sequence[Sign], logging: Sequence[Stream], culprits: tuple[int, ...] | None
) -> Observation:
    blamed = first_ranks(signs, logging) if culprits is None else culprits

    by_epoch = dated(s.stream for s in signs)

    def order(sign: Sign) -> tuple[bool, Moment, bool, float, str]:
        blameless = bool(blamed) and sign.stream.rank not in blamed
        return (blameless, moment(sign.stream, sign.at, by_epoch), sign.stream.binary, -sign.weight, sign.stream.source)

    ranked = sorted(signs, key=order)
    main = ranked[0]
    step = main.step
    evidence = [*main.evidence, *(sign.evidence[0] for sign in ranked[1:])]
    places = {(e.file, e.line, e.text): e for e in evidence}
    return Observation(
        signature="",
        weight=max(sign.weight for sign in signs),
        evidence=tuple(places.values())[:MAX_EVIDENCE],
        identity=Identity(rank=blamed[0] if blamed else None, attempt=attempt),
        culprits=blamed,
        time=next((t for s in ranked if (t := s.stream.times[s.at]) is not None), None),
        step=step,
        step_is=None if step is None else "exact" if main.stream.every_step(main.at, main.metric) else "first_logged",
        epoch=main.stream.epochs[main.at],
        captures=dict(main.captures),
        count=1,
        note=main.note,
    )
