"""Event files of one folder, taken together: those that follow each other are one run that was launched again.

A program that goes on from a checkpoint opens a new file beside the old one, and TensorBoard draws both as one curve.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from forensics.model import Evidence, Kind, Observation, Source
from forensics.parsers.tensorboard.table import REPEAT_WEIGHT, RESUMED

if TYPE_CHECKING:
    import polars as pl

STARTED = "run-started"
# What PyTorch and TensorFlow name a file: the second in which it was opened, host, process id, number in the process.
# tensorboardX and TensorFlow 1 leave the last two out.
_NAME = re.compile(r"events\.out\.tfevents\.\d+\.(?P<process>[^/]+\.\d+)\.\d+(?:\.v2)?$")


class Launched(NamedTuple):
    """The rows of event files with the attempts that follow each other in their folders, and what says so."""

    metrics: list[pl.DataFrame]  # as given, in their order
    observations: tuple[Observation, ...]


class _Part(NamedTuple):
    """One event file of a folder."""

    frame: int  # its number among those given
    source: Source
    begin: float  # seconds since the epoch, of its first and its last row
    end: float


def launches(metrics: Sequence[pl.DataFrame], sources: Iterable[Source]) -> Launched:
    """Number the attempts of files in one folder (and of one rank) that were written one after the other.

    metrics: frames of `model.METRICS_COLUMNS`, one a source. Files whose wall times overlap were written by several
    processes of one launch, and stay as they are. A file that begins after all before it have ended is of a later
    attempt where it goes back in the steps of most series that it shares with them: to a later step than 1, or by
    another process (the name tells). Files whose path names an attempt, and folders in which a file holds several
    attempts, are left alone. What is superseded stays, as rows of the attempt before.
    """
    by_path = {s.path: s for s in sources if s.kind is Kind.TENSORBOARD and s.identity.attempt is None}
    folders: dict[tuple[str, int | None], list[_Part]] = defaultdict(list)
    for index, frame in enumerate(metrics):
        source = by_path.get(str(frame["source"][0])) if frame.height else None
        if source is not None and len(times := frame["time"].drop_nulls()):
            low, high = float(times.min()), float(times.max())  # type: ignore[arg-type]
            folders[source.path.rpartition("/")[0], source.identity.rank].append(_Part(index, source, low, high))
    numbered = list(metrics)
    observations: list[Observation] = []
    for parts in folders.values():
        if len(parts) < 2 or any(metrics[p.frame]["attempt"].drop_nulls().len() for p in parts):
            continue
        numbers, told = _numbers(sorted(parts, key=lambda p: (p.begin, p.source.path)), metrics)
        observations += told
        for index, attempt in numbers.items() if told else ():
            numbered[index] = _of_attempt(metrics[index], attempt)
    return Launched(numbered, tuple(observations))


def _of_attempt(frame: pl.DataFrame, attempt: int) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.lit(attempt, frame.schema["attempt"]).alias("attempt"))


def _numbers(parts: Sequence[_Part], metrics: Sequence[pl.DataFrame]) -> tuple[dict[int, int], list[Observation]]:
    """(index of a frame -> its attempt, an observation for each later launch) of the files of a folder by time."""
    import polars as pl

    numbers: dict[int, int] = {}
    told: list[Observation] = []
    attempt, end = 0, float("-inf")
    current: list[_Part] = []  # the files of this attempt
    for part in parts:
        frame = metrics[part.frame]
        if current and part.begin > end:
            before = pl.concat([metrics[p.frame] for p in current])
            step = _first_step(frame)
            if (step > 1 or _another_process(part, current)) and _goes_back(before, frame):
                attempt, current = attempt + 1, []
                told.append(_told(part, step, before))
        numbers[part.frame] = attempt
        current.append(part)
        end = max(end, part.end)
    return numbers, told


def _first_step(frame: pl.DataFrame) -> int:
    """The step at which the series with the most rows begins; 0 where none has a step."""
    import polars as pl

    series = frame.group_by("name").agg(pl.len(), pl.col("step").min()).sort("len", "name", descending=[True, False])
    return int(series["step"][0] or 0)


def _another_process(part: _Part, others: Sequence[_Part]) -> bool:
    """Whether the names say that no process that wrote the others wrote this file."""
    mine, *theirs = (_NAME.search(p.source.path) for p in (part, *others))
    return mine is not None and all(m is not None and m["process"] != mine["process"] for m in theirs)


def _goes_back(before: pl.DataFrame, after: pl.DataFrame) -> bool:
    """Whether most values of series on both sides are of series that begin behind what they had come to."""
    import polars as pl

    reached = before.group_by("name").agg(pl.col("step").max().alias("reached"))
    both = after.group_by("name").agg(pl.col("step").min(), pl.len()).join(reached, on="name")
    back = both.filter(pl.col("step") <= pl.col("reached"))["len"].sum()
    return bool(2 * back > both["len"].sum())


def _told(part: _Part, step: int, before: pl.DataFrame) -> Observation:
    """That the run was launched again with this file: it goes on from a step, or begins anew at 0 or 1."""
    lost = int((before["step"] >= step).sum())
    reached = int(before["step"].max() or 0)  # type: ignore[arg-type]
    text = f"step {step}: the steps repeat from here on, in a file that begins after the one before it ended"
    return Observation(
        signature=RESUMED if step > 1 else STARTED,
        weight=REPEAT_WEIGHT,
        evidence=(Evidence(part.source.path, None, None, text),),
        identity=part.source.identity,
        culprits=(),
        time=part.begin,
        zone_known=True,
        timed=True,
        step=step,
        step_is="exact",
        captures={"step": str(step)},
        note=f"{text}; it supersedes {lost} values up to step {reached}",
    )
