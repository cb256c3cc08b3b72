"""Whether Flight Recorder dumps are of the moment at which the run failed.

A dump can be taken on demand in the middle of a run that goes on, or lie there from a run before: ranks are not asked
at one moment, and one is a call ahead of another in every healthy run. What such dumps differ in has stopped nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine import zones
from forensics.engine.collectives.logs import PAIRED, STOPS, TIMEOUTS, Logs
from forensics.engine.collectives.observations import number, plural, spoken
from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Evidence, Identity, Observation, Traceback

if TYPE_CHECKING:
    import polars as pl

SIGNATURE = "flight-recorder-earlier"
# Calls by which a watchdog's number must lie above the last one in its rank's dump. A dump is written about when the
# watchdog speaks, and holds the call that hangs among its newest.
FAR = 32
# A logger may be silent for this long more than between any two of its records so far (seconds).
PAUSE = 60.0
UNKNOWN = " (if the logs are in UTC, as the dumps are)"


class Progress(NamedTuple):
    """The stamps of a rank's step records, or of those of all ranks together where no rank is known."""

    first: float  # seconds since the epoch
    last: float
    pause: float  # the longest between two of them, in seconds


def progress_of(metrics: pl.DataFrame) -> dict[int | None, Progress]:
    """By rank, what the logs' records of steps are stamped with. metrics: rows of model.METRICS_COLUMNS."""
    import polars as pl

    rows = metrics.filter(pl.col("step").is_not_null() & pl.col("time").is_not_null() & pl.col("line").is_not_null())
    stamps: dict[int | None, list[float]] = defaultdict(list)
    for rank, time in rows.select("rank", "time").unique().sort("time").iter_rows():
        stamps[rank].append(time)
    return {
        rank: Progress(times[0], times[-1], max(later - earlier for earlier, later in pairwise(times)))
        for rank, times in stamps.items()
        if len(times) > 1
    }


def last_step_lines(metrics: pl.DataFrame) -> dict[str, int]:
    """Path of each log that records steps -> the line of its last one. metrics: rows of model.METRICS_COLUMNS."""
    import polars as pl

    rows = metrics.filter(pl.col("step").is_not_null() & pl.col("line").is_not_null())
    return dict(rows.group_by("source").agg(pl.col("line").max()).iter_rows())


def earlier(
    table: pl.DataFrame, logs: Logs, progress: Mapping[int | None, Progress], tracebacks: Sequence[Traceback]
) -> Observation | None:
    """The dumps as context where they are of another moment than the run's end; None where they may be of that one.

    table: rows of model.COLLECTIVES_COLUMNS. Calls that logs state are as old as the logs, and are not asked.
    """
    import polars as pl

    if table.is_empty():
        return None
    calls = table.filter(pl.col("op").is_not_null())
    if calls.is_empty() or calls["line"].is_not_null().any():
        return None
    why = _far_behind(calls, logs) or _long_before(calls, logs, progress, tracebacks)
    if why is None:
        return None
    newest = calls.sort("time", "seq", nulls_last=False).row(-1, named=True)
    text = f"{newest['op']} #{newest['seq']} {newest['state'] or '?'}, the newest call of all dumps"
    return Observation(
        signature=SIGNATURE,
        weight=0.8,
        evidence=(Evidence(newest["source"], None, None, text),),
        identity=Identity(),
        culprits=(),
        time=newest["time"],
        zone_known=True,
        note=f"{why}. What the ranks differ in there is not what the logs tell of.",
    )


def _far_behind(calls: pl.DataFrame, logs: Logs) -> str | None:
    """Where every watchdog that timed out speaks of a call far beyond the newest one in its rank's dump."""
    newest: dict[int, int] = dict(calls.drop_nulls(["rank", "seq"]).group_by("rank").agg(seq=_max("seq")).iter_rows())
    hung: dict[int, int] = {}
    for o in logs.observations:
        rank, seq = o.identity.rank, number(o.captures.get("seq"))
        if o.signature in TIMEOUTS and rank is not None and seq is not None and o.captures.get("op") not in PAIRED:
            hung[rank] = min(seq, hung.get(rank, seq))
    both = sorted(newest.keys() & hung.keys())
    if not both or any(hung[rank] - newest[rank] < FAR for rank in both):
        return None
    last, at = max(newest[rank] for rank in both), min(hung[rank] for rank in both)
    return (
        f"The {plural(both, 'dump', 'dumps')} of {spoken(both)} {plural(both, 'ends', 'end')} at #{last}, and the "
        f"watchdogs speak of #{at}: they were written earlier, or by another run"
    )


def _max(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).max()


def _long_before(
    calls: pl.DataFrame, logs: Logs, progress: Mapping[int | None, Progress], tracebacks: Sequence[Traceback]
) -> str | None:
    """Where the ranks train on long after the newest call of all, or come to their end, and nothing times out.

    The logs' zone is seldom known. Unless it is, the times are compared as they would be in any zone: the call must be
    out of place in each, as one of the day before the last step is.
    """
    newest = calls["time"].max()
    dumped = {int(rank) for rank in calls["rank"].drop_nulls().unique()}
    heard = [progress[rank] for rank in sorted(dumped & {r for r in progress if r is not None})]
    heard = heard or ([progress[None]] if None in progress else [])
    if logs.trouble or not dumped or not isinstance(newest, float):
        return None
    ends = {o.identity.rank: o for o in logs.observations if o.signature == FINISHED and o.weight > ANYBODYS_END}
    ended = bool(ends) and (dumped <= ends.keys() or ends.keys() == {None})
    if not heard:
        return _timeless(newest, ends.values(), logs) if ended else None
    last = min(p.last for p in heard)
    if ended:
        last = max(last, min((o.time for o in ends.values() if o.time is not None), default=last))
    apart = last - newest
    if apart <= CLOCK_SLACK:
        return None
    # How long before `last` in the zone that brings it closest; or after it, in the next one.
    beside = apart % zones.STEP
    pause = PAUSE + max(p.pause for p in heard)
    known = _zone_known(logs, tracebacks)
    # Dumps bear UTC, most logs the time of a zone that they do not name.
    sure = known or apart > zones.AHEAD + pause
    if not ended and not sure and (beside <= CLOCK_SLACK or zones.STEP - beside <= pause):
        return None
    before = newest < min(p.first for p in heard)
    minutes = f"{apart / 60:,.0f} min before the run's {'end' if ended else 'last step'}"
    began = ", and before its first step" if before else ""
    return f"The newest call in the dumps was made {minutes}{began}" + ("" if known else UNKNOWN)


def _timeless(newest: float, ends: Iterable[Observation], logs: Logs) -> str | None:
    """Where no step has a time: all ranks came to their end, and nothing stopped or broke any of them.

    A rank that hangs in a collective prints no end. One that hangs in the last of all, behind it, is stopped by
    somebody, or times out.
    """
    stamps = [o.time for o in ends if o.time is not None]
    if stamps and min(stamps) - newest <= CLOCK_SLACK:
        return None
    if logs.raised or any(o.signature in STOPS for o in logs.observations):
        return None
    return "The run came to its end, so that the calls which the dumps show at work ended as well"


def _zone_known(logs: Logs, tracebacks: Sequence[Traceback]) -> bool:
    """Whether every time that the logs state comes with its zone."""
    stated = [o.zone_known for o in logs.observations if o.time is not None and o.evidence[0].line is not None]
    stated += [t.zone_known for t in tracebacks if t.time is not None]
    return bool(stated) and all(stated)
