"""How fast a run trains, by its own step times and rates: a pace that is lost for good, and one rank that has less."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

# A step takes longer with longer sequences or larger images by right: its time alone says nothing of the pace.
_RATES = ("throughput", "tflops")
_TIME = "step_time"


def _speed(stream: Stream) -> tuple[str, list[int], list[float]] | None:
    """(metric, records, values) of a stream's first rate; None where it logs none."""
    for name in _RATES:
        at, values = stream.curve(name)
        if values:
            good = [(i, v) for i, v in zip(at, values, strict=True) if math.isfinite(v) and v > 0]
            return name, [i for i, _ in good], [v for _, v in good]
    return None


def throughput_collapse(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    drop: float = 0.5,
    records: int = 30,
    share: float = 0.05,
    stray: float = 0.05,
) -> tuple[Observation, ...]:
    """Training goes on at less than half of the pace that it had, from some step to the end of the record (TR3).

    drop: speed after the onset over the median before it. TR3 marks a loss of 30 %, which jobs that share machines or
        filesystems show without a fault; what is told without being asked for has to be plainer.
    records: the fewest before and after, beyond warm-up, so that no evaluation and no checkpoint counts.
    share: part of the record that the slow stretch must last. stray: part of either side that may lie on the wrong side
        of `drop`; a pace that comes and goes is no collapse.
    A rate that only ever falls is a mean over the run. Not judged: reinforcement learning, whose steps take as long as
    their answers are; a batch whose size changes; a loss that jumps with the rate, as where other data begin.
    """
    if not any(has(metrics, name) for name in _RATES):
        return ()
    found = [
        part
        for stream in streams(metrics, (*_RATES, "batch_size", "loss"))
        if not stream.names & RL_NAMES and "loss" in stream.columns
        for part in segments(stream)
    ]
    signs = [sign for part in found if (sign := _collapse(part, drop, records, share, stray)) is not None]
    if not signs:
        return ()
    logging = {part.rank for part in found if _speed(part) is not None} - {None}
    slow = {sign.stream.rank for sign in signs}
    named = sorted(rank for rank in slow if rank is not None)
    return merge(signs, found, tuple(named) if None not in slow and 2 * len(named) < len(logging) else ())


def _collapse(part: Stream, drop: float, records: int, share: float, stray: float) -> Sign | None:
    said = _speed(part)
    if said is None or len(set(finite(part.column("batch_size")))) > 1:
        return None
    name, at, speeds = said
    at, speeds = at[len(at) // 20 :], speeds[len(speeds) // 20 :]  # compilation, caches that fill, autotuning
    last = max(records, int(share * len(speeds)))
    if len(speeds) < records + last or _falls_all_along(speeds):
        return None
    # The level is that of the first part; the onset is where fewest records lie on the wrong side of its half.
    limit = drop * median(speeds[:records])
    onset = _change([v < limit for v in speeds])
    before, after = speeds[:onset], speeds[onset:]
    if len(before) < records or len(after) < last:
        return None
    usual, late = median(before), median(after)
    limit = drop * usual
    if sum(v < limit for v in before) > stray * len(before) or sum(v >= limit for v in after) > stray * len(after):
        return None
    if _loss_jumps(part, at[onset]):
        return None
    factor = usual / late
    shown_at = (at[onset], at[onset - 1], at[-1])
    note = (
        f"{name} goes from {number(usual)} (median of {len(before)} records) to {number(late)} (median of the last"
        f" {len(after)}), from {part.where(at[onset])} to the end: {factor:.1f} times slower"
    )
    return Sign(part, at[onset], tuple(part.evidence(i, name, "loss") for i in shown_at), note, name)


def _loss_jumps(part: Stream, onset: int) -> bool:
    """Whether the loss leaves its level at a record: by more than 10 times what it usually changes (median of 30)."""
    at, curve = part.curve("loss")
    before = [v for i, v in zip(at, curve, strict=True) if i < onset][-31:]
    after = [v for i, v in zip(at, curve, strict=True) if i >= onset][:3]
    if len(before) < 10 or not after:
        return False
    usual = median(abs(b - a) for a, b in itertools.pairwise(before))
    return abs(median(after) - median(before[-3:])) > 10 * usual


def _falls_all_along(speeds: Sequence[float]) -> bool:
    """Whether nearly every speed (49 of 50) is below the one before, as of a mean over the run."""
    return sum(b < a for a, b in itertools.pairwise(speeds)) >= 0.98 * (len(speeds) - 1)


def _change(low: Sequence[bool]) -> int:
    """Where a series of False becomes one of True with the fewest exceptions."""
    wrong = best = low.count(False)
    where = 0
    for k, slow in enumerate(low):
        wrong += 1 if slow else -1
        if wrong < best:
            best, where = wrong, k + 1
    return where


def slow_rank(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 1.5,
    records: int = 30,
    share: float = 0.9,
    few: float = 0.25,
) -> tuple[Observation, ...]:
    """Some ranks' steps take longer by their own clocks than those of the others, to the end of the record (TR3).

    ratio: a rank's median step time over that of all ranks, in the last `records` steps that all ranks record, or in
        the second half of them if that is more (TR3 has 30 % for a mark on a plot; half as long again is plainer).
    share: part of these steps in which the rank is above that ratio by itself. few: most ranks that can be the slow
        ones, of three or more; more of them are another kind of machine or of work. Pipeline stages and the like have
        unequal steps from the first one on, so that a rank is blamed only where it was once as fast as the others.
    """
    import polars as pl

    if not has(metrics, _TIME):
        return ()
    rows = metrics.filter((pl.col("name") == _TIME) & pl.col("rank").is_not_null() & pl.col("step").is_not_null())
    if rows["rank"].n_unique() < 3 or rows["attempt"].n_unique() > 1:
        return ()
    found = [s for s in streams(metrics, (_TIME, "loss")) if s.rank is not None and _TIME in s.columns]
    times = {s.rank: _by_step(s) for s in found}
    if len(times) < len(found):  # a rank in two files: which of them is its clock is not known
        return ()
    shared = sorted(set.intersection(*(set(of) for of in times.values())))
    if len(shared) < 2 * records:
        return ()
    usual = {step: median(of[step] for of in times.values()) for step in shared}
    late = shared[-max(records, len(shared) // 2) :]
    signs = [sign for s in found if (sign := _slow(s, times[s.rank], usual, shared, late, ratio, share)) is not None]
    if not signs or len(signs) > max(1, few * len(times)):
        return ()
    return merge(signs, found, tuple(sorted(sign.stream.rank for sign in signs if sign.stream.rank is not None)))


def _by_step(stream: Stream) -> dict[int, float]:
    """Step -> seconds, where both are given and sound."""
    said = zip(stream.steps, stream.column(_TIME), strict=True)
    return {s: v for s, v in said if s is not None and v is not None and math.isfinite(v) and v > 0}


def _slow(
    stream: Stream,
    own: Mapping[int, float],
    usual: Mapping[int, float],
    shared: Sequence[int],
    late: Sequence[int],
    ratio: float,
    share: float,
) -> Sign | None:
    slow = [own[step] > ratio * usual[step] for step in shared]
    there = sum(slow[-len(late) :])
    factor = median(own[step] / usual[step] for step in late)
    if there < share * len(late) or factor < ratio:
        return None
    onset = _change(slow)
    if onset < 10 or sum(slow[:onset]) > (1 - share) * onset:
        return None
    at = stream.steps.index(shared[onset])
    note = (
        f"a step takes rank {stream.rank} {number(median(own[s] for s in shared[onset:]))} s, and the others"
        f" {number(median(usual[s] for s in shared[onset:]))} s (medians), from step {shared[onset]} to the end"
    )
    shown = (at, stream.steps.index(shared[onset - 1]), stream.steps.index(shared[-1]))
    return Sign(stream, at, tuple(stream.evidence(i, _TIME, "loss") for i in shown), note, _TIME)
