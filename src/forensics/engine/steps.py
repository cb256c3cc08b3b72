"""Which step was it: the run's own counter at the moment of an event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class _Mark:
    line: int | None
    time: float | None
    step: int
    rank: int | None
    attempt: int | None = None

    def by(self, attempt: int | None) -> bool:
        """Whether nothing says that it is of a later attempt."""
        return self.attempt is None or attempt is None or self.attempt <= attempt


@dataclass(frozen=True, slots=True)
class StepClock:
    """Every record of the metrics table that bears a step, by source in written order."""

    marks: dict[str, tuple[_Mark, ...]]
    unit: dict[str, str]  # source -> what its counter counts
    attempt: dict[str, int | None]

    def last_before(self, observation: Observation, rank: int | None) -> tuple[int, str] | None:
        """(step, unit) of the last record at or before an event: in its own file by line, else by time, else the last.

        A file of the culprit's own rank is asked before other ranks' files.
        """
        evidence = observation.evidence[0]
        own = self.marks.get(evidence.file, ())
        in_own = [m for m in own if evidence.line is not None and m.line is not None and m.line <= evidence.line]
        if own_rank := [m for m in in_own if rank is not None and m.rank == rank]:
            return own_rank[-1].step, self.unit[evidence.file]
        attempt = observation.identity.attempt
        others = [
            (source, marks)
            for source, marks in self.marks.items()
            if source != evidence.file and (attempt is None or self.attempt.get(source) in (None, attempt))
        ]
        # A line may speak of another process than the one that wrote it: that one's own records tell more.
        if rank is not None and (found := self._latest(others, observation, rank)):
            return found
        if in_own:
            return in_own[-1].step, self.unit[evidence.file]
        return self._latest(others, observation, None)

    def _latest(
        self, sources: Sequence[tuple[str, Sequence[_Mark]]], observation: Observation, rank: int | None
    ) -> tuple[int, str] | None:
        """(step, unit) of the latest record of a rank (None: of any) that an event's time allows.

        The time of an event that bears none itself is that of an earlier line, and no bound.
        """
        steps: list[tuple[int, str]] = []
        for source, marks in sources:
            rows = [m for m in marks if (rank is None or m.rank == rank) and m.by(observation.identity.attempt)]
            if observation.time is not None and observation.timed and any(m.time is not None for m in rows):
                rows = [m for m in rows if m.time is None or m.time <= observation.time + 2.0]
            if rows:
                steps.append((rows[-1].step, self.unit[source]))
        return max(steps, default=None)

    @property
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
        for source, marks in self.marks.items():
            if source == observation.evidence[0].file:
                continue
            attempts = (observation.identity.attempt, self.attempt.get(source))
            own = [
                m
                for m in marks
                if m.rank == rank
                and m.time is not None
                and (m.attempt if m.attempt is not None else attempts[1]) == attempts[0]
            ]
            before = [m.step for m in own if m.time is not None and m.time <= observation.time]
            after = [m.step for m in own if m.time is not None and m.time > observation.time]
            if before and after and max(after) >= before[-1] + by:
                return True
        return False

    def first_in(self, source: str) -> int | None:
        """The first step that a source records."""
        return self.marks[source][0].step if self.marks.get(source) else None

    def last_in(self, source: str) -> int | None:
        """The last step that a source records."""
        return self.marks[source][-1].step if self.marks.get(source) else None

    def began_before(self, observation: Observation) -> bool:
        """Whether the event's own source recorded steps before it."""
        line = observation.evidence[0].line
        marks = self.marks.get(observation.evidence[0].file, ())
        return line is not None and any(m.line is not None and m.line < line for m in marks)

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
        marks = [
            m for m in self.marks.get(evidence.file, ()) if (rank is None or m.rank in (None, rank)) and m.by(attempt)
        ]
        before = [m.step for m in marks if m.line is not None and m.line <= evidence.line]
        after = [m.step for m in marks if m.line is not None and m.line > evidence.line]
        return bool(after) and max(after) >= (before[-1] if before else min(after)) + by


def step_clock(metrics: pl.DataFrame, attempts: dict[str, int | None]) -> StepClock:
    """The step clock of a run. A progress bar's count is a step where its source prints nothing better."""
    import polars as pl

    marks: dict[str, tuple[_Mark, ...]] = {}
    unit: dict[str, str] = {}
    if not metrics.height:
        return StepClock(marks, unit, attempts)
    records = metrics.group_by(["source", "line", "step", "rank"], maintain_order=True).agg(
        pl.col("time").first(),
        pl.col("attempt").first(),
        pl.col("value").filter(pl.col("name") == "progress").first().alias("progress"),
    )
    for (source,), rows in records.group_by(["source"], maintain_order=True):
        name = str(source)
        stepped = rows.filter(pl.col("step").is_not_null())
        bars = rows.filter(pl.col("step").is_null() & pl.col("progress").is_not_null())
        chosen, column, what = (
            (stepped, "step", "global step") if stepped.height else (bars, "progress", "progress bar")
        )
        if not chosen.height:
            continue
        marks[name] = tuple(
            _Mark(line, time, int(step), rank, attempt)
            for line, time, step, rank, attempt in chosen.select("line", "time", column, "rank", "attempt").iter_rows()
        )
        unit[name] = what
    return StepClock(marks, unit, attempts)
