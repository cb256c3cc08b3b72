"""How fast a run trains, by its own step times and rates: a pace that is lost for good, and one rank that has less."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, batches_anew, courses, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_RATES = ("throughput", "tflops", "mfu")
_TIME = "step_time"
_DATA = "data_time"
_CONSUMED = ("tokens", "samples_seen")
# How sure a pace is that is known by the time of a step alone: it takes longer with longer sequences or larger images
# by right, and few logs say how long they are.
_BY_TIME = 0.8
# A rate that falls all along, and not at once, falls by more: sequences that grow make it slower too. Over this many
# parts each median may be this much above the one before, which is noise.
_PARTS, _LEVEL = 10, 1.05
_DECLINES = 1 / 3
# Between epochs layers are unfrozen, which makes a step up to three times as long as its forward pass was, and images
# become larger: where batches are counted anew in each epoch, a pace that is lost just there is lost by more.
_WITH_EPOCH = 1 / 4
# Of a rank that waits for data while the others wait for it: its own time over that of most, and over its step.
_STARVED, _OF_STEP = 5.0, 0.5


def _speed(stream: Stream) -> tuple[str, list[int], list[float]] | None:
    """(metric, records, steps or samples per second) of a stream's first rate, else of its step times; None without."""
    for name in (*_RATES, _TIME):
        at, values = stream.curve(name)
        if values:
            good = [(i, v) for i, v in zip(at, values, strict=True) if math.isfinite(v) and v > 0]
            return name, [i for i, _ in good], [1 / v if name == _TIME else v for _, v in good]
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
        filesystems show without a fault; what is told without being asked for has to be plainer. Where no rate is
        logged, the time of a step tells it, less surely.
    records: the fewest before and after, beyond warm-up, so that no evaluation and no checkpoint counts.
    share: part of the record that the slow stretch must last. stray: part of either side that may lie on the wrong side
        of `drop`; a pace that comes and goes is no collapse.
    A pace that falls from tenth to tenth of the record, to less than a third (_DECLINES), is one as well. A rate that
    only ever falls is a mean over the run, and a time that only ever grows one since its start. Not judged:
    reinforcement learning, whose steps take as long as their answers are; a batch whose size changes, or steps that
    come to consume more; a loss that jumps with the rate, as where other data begin.
    """
    if not any(has(metrics, name) for name in (*_RATES, _TIME)):
        return ()
    found = [
        part
        for stream in streams(metrics, (*_RATES, _TIME, *_CONSUMED, "batch_size", "loss"))
        if not stream.names & RL_NAMES and "loss" in stream.columns
        for part in courses(stream)
    ]
    paces = [(part, pace) for part in found if (pace := _usable(part, 2 * records)) is not None]
    signs = [
        sign
        for part, pace in paces
        if (sign := _collapse(part, pace, drop, records, share, stray) or _decline(part, pace, records)) is not None
    ]
    if not signs:
        return ()
    logging = {part.rank for part in found if _speed(part) is not None} - {None}
    slow = {sign.stream.rank for sign in signs}
    named = sorted(rank for rank in slow if rank is not None)
    return merge(signs, found, tuple(named) if None not in slow and 2 * len(named) < len(logging) else ())


class _Pace(NamedTuple):
    """metric: its name. at: records. speeds: what is done in a second there."""

    metric: str
    at: list[int]
    speeds: list[float]


def _usable(part: Stream, fewest: int) -> _Pace | None:
    """`_speed` behind the warm-up, where there are records enough, one size of batch, and no mean over the run."""
    said = _speed(part)
    if said is None or len(set(finite(part.column("batch_size")))) > 1:
        return None
    name, at, speeds = said
    at, speeds = at[len(at) // 20 :], speeds[len(speeds) // 20 :]  # compilation, caches that fill, autotuning
    return None if len(speeds) < fewest or _falls_all_along(speeds) else _Pace(name, at, speeds)


def _collapse(part: Stream, pace: _Pace, drop: float, records: int, share: float, stray: float) -> Sign | None:
    name, at, speeds = pace
    last = max(records, int(share * len(speeds)))
    # The level is that of the first part; the onset is where fewest records lie on the wrong side of its half.
    limit = drop * median(speeds[:records])
    onset = _change([v < limit for v in speeds])
    before, after = speeds[:onset], speeds[onset:]
    if len(before) < records or len(after) < last:
        return None
    limit = drop * median(before)
    if sum(v < limit for v in before) > stray * len(before) or sum(v >= limit for v in after) > stray * len(after):
        return None
    if _begins_epoch(part, at[onset - 1], at[onset]) and median(after) > _WITH_EPOCH * median(before):
        return None
    if _loss_jumps(part, at[onset]) or _consumes_more(part, at[onset]):
        return None
    return _slower(part, name, at, (before, after), onset, f"from {part.where(at[onset])} to the end")


def _begins_epoch(part: Stream, before: int, at: int) -> bool:
    """Whether an epoch whose batches are counted anew begins with a record."""
    return batches_anew(part) and part.epochs[before] != part.epochs[at]


def _decline(part: Stream, pace: _Pace, records: int) -> Sign | None:
    """A pace that falls all along, which a growing list, graph or cache makes of it."""
    name, at, speeds = pace
    size = len(speeds) // _PARTS
    if size < records // 3 or median(speeds[-size:]) > _DECLINES * median(speeds[:size]):
        return None
    levels = [median(speeds[k * size : (k + 1) * size]) for k in range(_PARTS)]
    if any(b > _LEVEL * a for a, b in itertools.pairwise(levels)):
        return None
    # At once is no decline: that has its own rule, and its own reasons not to count.
    if max(a / b for a, b in itertools.pairwise(levels)) > levels[0] / levels[-1] / 1.5:
        return None
    losses = finite(part.column("loss"))
    tenth = max(1, len(losses) // _PARTS)
    if not losses or median(losses[-tenth:]) > median(losses[:tenth]):  # sorted by length, which is harder as well
        return None
    limit = levels[0] / 2
    onset = _change([v < limit for v in speeds])
    if _consumes_more(part, at[onset]) or _falls_between_epochs(part, at, speeds, levels[-1] / levels[0]):
        return None
    return _slower(
        part, name, at, (speeds[:size], speeds[-size:]), onset, f"little by little, half by {part.where(at[onset])}"
    )


def _falls_between_epochs(part: Stream, at: Sequence[int], speeds: Sequence[float], left: float) -> bool:
    """Whether a pace, of which a part is left, is lost where epochs begin whose batches are counted anew.

    Images and sequences that become larger by plan do so there. What grows with each step makes epochs slower within.
    """
    if not batches_anew(part):
        return False
    pairs = itertools.pairwise(zip(at, speeds, strict=True))
    between = sum(math.log(w / v) for (i, v), (j, w) in pairs if part.epochs[i] != part.epochs[j])
    return between < 0.5 * math.log(left)


def _slower(
    part: Stream, name: str, at: Sequence[int], sides: tuple[Sequence[float], Sequence[float]], onset: int, how: str
) -> Sign:
    usual, late = (median(side) for side in sides)
    shown = [1 / v if name == _TIME else v for v in (usual, late)]
    note = (
        f"{name} goes from {number(shown[0])} (median of {len(sides[0])} records) to {number(shown[1])} (median of the"
        f" last {len(sides[1])}), {how}: {usual / late:.1f} times slower"
    )
    evidence = tuple(part.evidence(i, name, "loss") for i in (at[onset], at[onset - 1], at[-1]))
    return Sign(part, at[onset], evidence, note, name, _BY_TIME if name == _TIME else 1.0)


def _consumes_more(part: Stream, onset: int) -> bool:
    """Whether a step consumes half as many tokens or samples again from a record on, by the running counts."""
    for name in _CONSUMED:
        at, counts = part.curve(name)
        each = [
            (i, (counts[k + 1] - counts[k]) / (part.steps[i] - part.steps[j]))  # type: ignore[operator]
            for k, (j, i) in enumerate(itertools.pairwise(at))
            if None not in (part.steps[i], part.steps[j]) and part.steps[i] != part.steps[j]
        ]
        before, after = [v for i, v in each if i < onset], [v for i, v in each if i > onset]
        if before and after and median(after) > 1.5 * median(before):
            return True
    return False


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
    """Whether nearly every change (49 of 50, of 20 or more) leads down, as of a mean over the run."""
    changes = [b < a for a, b in itertools.pairwise(speeds) if a != b]
    return len(changes) >= 20 and sum(changes) >= 0.98 * len(changes)


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
    records: int = 20,
    share: float = 0.9,
    few: float = 0.25,
) -> tuple[Observation, ...]:
    """Some ranks' steps take longer by their own clocks than those of the others, to the end of the record (TR3).

    ratio: a rank's median step time over that of all ranks, in the second half of the steps that all ranks record,
        of at least `records` (TR3 has 30 % for a mark on a plot; half as long again is plainer).
    share: part of these steps in which the rank is above that ratio by itself. few: most ranks that can be the slow
        ones, of three or more; more of them are another kind of machine or of work. Pipeline stages and the like have
        unequal steps from the first one on, so that a rank is blamed only where it was once as fast as the others.
    Ranks that wait for each other have equal steps: there the one is slow that waits for its data (data_time) through
    half of its steps or more, five times as long as most, also from the first step on (_STARVED).
    """
    import polars as pl

    if not has(metrics, _TIME):
        return ()
    rows = metrics.filter((pl.col("name") == _TIME) & pl.col("rank").is_not_null() & pl.col("step").is_not_null())
    if rows["rank"].n_unique() < 3 or rows["attempt"].n_unique() > 1:
        return ()
    found = [s for s in streams(metrics, (_TIME, _DATA, "loss")) if s.rank is not None and _TIME in s.columns]
    times = {s.rank: _by_step(s, _TIME) for s in found}
    if len(times) < len(found):  # a rank in two files: which of them is its clock is not known
        return ()
    shared = sorted(set.intersection(*(set(of) for of in times.values())))
    if len(shared) < 2 * records:
        return ()
    usual = {step: median(of[step] for of in times.values()) for step in shared}
    late = shared[-(len(shared) // 2) :]
    signs = [sign for s in found if (sign := _slow(s, times[s.rank], usual, shared, late, ratio, share)) is not None]
    signs = signs or _starved(found, times, shared, late, share)
    if not signs or len(signs) > max(1, few * len(times)):
        return ()
    return merge(signs, found, tuple(sorted(sign.stream.rank for sign in signs if sign.stream.rank is not None)))


def _by_step(stream: Stream, name: str) -> dict[int, float]:
    """Step -> seconds, where both are given and sound."""
    said = zip(stream.steps, stream.column(name), strict=True)
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


def _starved(
    found: Sequence[Stream],
    times: Mapping[int | None, Mapping[int, float]],
    shared: Sequence[int],
    late: Sequence[int],
    share: float,
) -> list[Sign]:
    """Signs of the ranks that wait for their data through most of steps which all ranks share."""
    waits = {s.rank: _by_step(s, _DATA) for s in found}
    told = [step for step in shared if all(step in of for of in waits.values())]
    late = [step for step in late if step in set(told)]
    if len(late) < len(shared) // 4:
        return []
    usual = {step: median(of[step] for of in waits.values()) for step in told}
    signs = []
    for stream in found:
        own, whole = waits[stream.rank], times[stream.rank]
        slow = [own[step] > max(_STARVED * usual[step], _OF_STEP * whole[step]) for step in told]
        if sum(slow[-len(late) :]) < share * len(late):
            continue
        start = _change(slow)
        if sum(slow[start:]) < share * (len(slow) - start):
            continue
        onset = stream.steps.index(told[start])
        note = (
            f"rank {stream.rank} waits {number(median(own[s] for s in told[start:]))} s of each step for its data, the"
            f" others {number(median(usual[s] for s in told[start:]))} s (medians), from step {told[start]} to the end;"
            " steps take as long on all ranks, which wait for each other"
        )
        shown = dict.fromkeys((onset, stream.steps.index(told[-1])))
        signs.append(Sign(stream, onset, tuple(stream.evidence(i, _DATA, _TIME, "loss") for i in shown), note, _DATA))
    return signs
