"""The fp16 loss scale: a collapse, a stall, and the calibration at the start that is neither.

A scaler halves on each step whose gradients overflow, skips that step, and doubles after `growth_interval` good ones.
Normal, and never reported: the descent from 2^16..2^32 at the start (16 to 25 skips in a row, P5), one overflow every
thousand steps, and the sawtooth of a scale that probes its limit (O24).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, number, segments, streams
from forensics.model import Evidence, Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss_scale", "overflow", "skipped_steps", "skipped_total", "grad_norm", "loss", "lr")
_SHOWN = ("loss_scale", "overflow", "skipped_steps", "loss", "grad_norm")
_LEARNS = 0.02  # part of its level by which a loss falls that still learns (O7: less is a loss that stands)
_NOT_SAID = 0.9  # how sure a low scale is where no record says that a step was skipped or a gradient is 0
_FALLS_ON = 0.7  # and where the loss falls on as well
_A_RECORD = 4  # halvings from one record to the next that an overflow here and there, or a rare record, explains
_OFTEN = 0.4  # part of the steps whose skips keep a scale at its minimum from growing
_FEW_RECORDS = 20  # of which it is told
_UNDERFLOWS = 2.0**-24  # the smallest number of fp16: at such a scale every gradient below 1 is 0


def scale_collapse(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    halvings: int = 10,
    late: int = 8,
    calibrated: float = 256.0,
    floor: float = 1.0,
    repeats: int = 3,
    growth: int = 20,
) -> tuple[Observation, ...]:
    """The loss scale keeps halving, or is stuck at its minimum with every step skipped.

    halvings: unbroken halvings that end below `calibrated` (P10: 10 unbroken ones tell every collapse from calibration;
        P5: calibration ends at a scale of 2^8 or more). late: halvings that suffice after the scale had settled for
        `growth` records, and while they last to the end of the record.
    floor: DeepSpeed's min_scale is 1 by default, torch and fairseq go below. repeats: overflows at an unchanged scale
        (one more than DeepSpeed's hysteresis of 2 at any scale; at or below `floor` its minimum is reached).
    growth: records without a fall after which the scaler has recovered.

    A descent to `floor` or below, after which the scale never grows, may be as slow as it likes: see `_pinned`. Between
    records that lie many steps apart it may be as fast as one halving a step: see `_between_records`.
    """
    import polars as pl

    if not has(metrics, "loss_scale"):
        return ()
    scales = metrics.filter(pl.col("name") == "loss_scale")["value"]
    if scales.is_empty() or (scales.n_unique() == 1 and metrics.filter(pl.col("name") == "overflow").is_empty()):
        return ()
    everything = streams(metrics, _NAMES)
    # Overflow messages bear a rank where loss lines of the same file bear none: good steps are counted by file.
    losses: dict[str, list[int]] = {}
    for stream in everything:
        said = zip(stream.lines, stream.column("loss"), strict=True)
        losses.setdefault(stream.source, []).extend(n for n, v in said if n is not None and v is not None)
    found = [part for s in everything if "loss_scale" in s.columns for part in segments(s)]
    signs = [
        sign
        for part in found
        if (sign := _collapse(part, losses[part.source], halvings, late, calibrated, floor, repeats, growth))
        is not None
    ]
    return merge(signs, found, ())


class _Fall(NamedTuple):
    """An unbroken run of halvings: first and last position in the series of scales, and how many halvings it is."""

    start: int
    end: int
    halvings: float


def _falls(scale: Sequence[float], flat: int) -> list[_Fall]:
    """Descents, each ended by growth or by more than `flat` records without a fall.

    flat: records between halvings that do not end a descent: hysteresis and growth trackers keep a scale for a step.
    """
    falls: list[_Fall] = []
    start: int | None = None
    last = 0
    total = 0.0
    for i in range(1, len(scale)):
        if scale[i] < scale[i - 1]:
            if start is None:
                start, total = i, 0.0
            total += math.log2(scale[i - 1] / scale[i]) if scale[i] > 0 else 1.0
            last = i
        elif start is not None and (scale[i] > scale[i - 1] or i - last > flat):
            falls.append(_Fall(start, last, total))
            start = None
    if start is not None:
        falls.append(_Fall(start, last, total))
    return falls


def _collapse(
    part: Stream,
    losses: Sequence[int],
    halvings: int,
    late: int,
    calibrated: float,
    floor: float,
    repeats: int,
    growth: int,
) -> Sign | None:
    at, scale = part.curve("loss_scale")
    if len(scale) < 2 or any(not math.isfinite(v) or v < 0 for v in scale):
        return None
    skips = _skips(part, at)
    if scale[0] <= floor and len(set(scale)) == 1 and _never_applied(part, at):
        return None  # it never fell here: `scale_stall`
    stuck = _stuck(scale, skips, [part.steps[i] for i in at], floor, repeats, growth)
    if stuck is not None and (line := part.lines[at[-1]]) is not None and sum(n > line for n in losses) >= growth:
        stuck = None  # loss lines go on without another overflow
    # A printed 0.0 after 65536.0 is a reset, which `scale_stall` looks for.
    falls = [f for f in _falls(scale, 2) if f.halvings > 0 and f.halvings <= _A_RECORD * (f.end - f.start + 1)]
    if stuck is not None:
        begin, reached, first, count = stuck
        before = next((f for f in reversed(falls) if f.end <= first), None)
        # The descent that led there, if the record has it.
        bottom = f"at a loss scale of {number(scale[first])}, which cannot go lower"
        note = f"{first + count - begin} steps in a row overflow"
        note += f", from {part.where(at[begin])} on, and {count} of them {bottom}" if first > begin else f" {bottom}"
        if before is not None and first - before.end <= growth:
            note += f" (it fell from {number(scale[before.start - 1])} since {part.where(at[before.start])})"
            shown = (at[reached], at[first], at[before.start], at[-1])
            if scale[first] < floor:  # a descent without end, which is printed as 0.0 from somewhere on
                reached = before.start
                shown = (at[reached], at[before.start - 1], at[first], at[-1])
        else:
            shown = (at[reached], at[-1], at[reached], at[reached])
        return Sign(part, at[reached], _evidence(part, shown), note, "loss_scale")
    for fall in falls:
        if fall.halvings < min(halvings, late):
            continue
        settled = fall.start > growth and all(
            b >= a
            for a, b in zip(
                scale[fall.start - growth : fall.start], scale[fall.start - growth + 1 : fall.start], strict=False
            )
        )
        lasts = len(scale) - 1 - fall.end <= 2
        low = scale[fall.end]
        deep = fall.halvings >= halvings and low < calibrated
        recovers = len(scale) - 1 - fall.end > growth and low >= floor
        at_start = fall.start <= growth
        if (deep and (low < floor or lasts or not recovers) and not (at_start and recovers)) or (
            settled and fall.halvings >= late and lasts
        ):
            note = (
                f"the loss scale halves {fall.halvings:.0f} times without a break, from {number(scale[fall.start - 1])}"
                f" at {part.where(at[fall.start - 1])} to {number(low)} at {part.where(at[fall.end])}"
            )
            shown = (at[fall.start], at[fall.start - 1], at[fall.end], at[-1])
            return Sign(part, at[fall.start], _evidence(part, shown), note, "loss_scale")
    return _between_records(part, at, scale, halvings, floor, growth) or _pinned(
        part, at, scale, halvings, floor, growth
    )


def _pinned(
    part: Stream, at: Sequence[int], scale: Sequence[float], halvings: int, floor: float, growth: int
) -> Sign | None:
    """A descent to the floor, at any pace and without growth up to the end, after which the loss falls no more.

    Calibration ends at 2^8 or more (P5), and a scaler that finds its level goes up again after growth_interval good
    steps (2000, torch/amp/grad_scaler.py). `growth` records without a fall must lie within or behind the descent, or
    nothing tells it from a record of overflows alone. A loss that goes on falling shows that steps are applied: then
    `floor` itself is no trouble yet; a scale below it makes gradients smaller than they are, and has less weight.
    """
    fall = next(reversed(_falls(scale, len(scale))), None)
    if fall is None or max(scale[fall.end :]) > scale[fall.end]:
        return None
    low = scale[fall.end]
    quiet = sum(b == a for a, b in itertools.pairwise(scale[fall.start :]))
    gradual = halvings <= fall.halvings <= _A_RECORD * (fall.end - fall.start + 1)
    if low > floor or not gradual or quiet < growth:
        return None
    gain = _gain(part, at[fall.end] if len(scale) - fall.end > growth else at[fall.start], len(part))
    stands = gain is not None and gain <= _LEARNS
    if not stands and low >= floor:
        return None
    note = (
        f"the loss scale halves {fall.halvings:.0f} times and never grows, from {number(scale[fall.start - 1])}"
        f" at {part.where(at[fall.start - 1])} to {number(low)} at {part.where(at[fall.end])}"
    )
    note += ", and the loss does not fall from there on" if stands else ""
    shown = (at[fall.start], at[fall.start - 1], at[fall.end], at[-1])
    weight = _NOT_SAID if stands else _FALLS_ON
    return Sign(part, at[fall.start], _evidence(part, shown), note, "loss_scale", weight)


def _between_records(
    part: Stream, at: Sequence[int], scale: Sequence[float], halvings: int, floor: float, growth: int
) -> Sign | None:
    """A descent below the floor of which several halvings lie between two records: loops print every so many steps.

    A scaler halves once a step at most (update() of torch/amp/grad_scaler.py), so the steps of the records bound it.
    Two records at least have to fall: what is put far down in one is a reset, which `scale_stall` looks for. A 0 where
    the steps between suffice for it (`_halved_to_nothing`) is none, for no state of a scaler holds it; but a run that
    goes on without a scaler may print it, and learns on.
    A rare record of calibration ends at 2^8 or more (P5). Where that lies lower, because the loss is a large sum, the
    loss falls on: at the start of a record it has to stand, or, where none is logged, no gradient is left at such a
    scale.
    """
    fall = next(reversed(_falls(scale, 2)), None)
    if fall is None or max(scale[fall.end :]) > scale[fall.end]:
        return None
    low = scale[fall.end]
    steps = [part.steps[i] for i in at]
    before, after = fall.start - 1, fall.start
    vanished = scale[after] == 0 and _halved_to_nothing(steps[before], steps[after], scale[before])
    if fall.halvings < halvings and not vanished:
        return None
    quiet = sum(b == a for a, b in itertools.pairwise(scale[fall.start :]))
    if low > floor or (low == floor and quiet < growth):
        return None
    falling = [i for i in range(fall.start, fall.end + 1) if scale[i] < scale[i - 1]]
    within = all(_within_steps(steps[i - 1], steps[i], scale[i - 1], scale[i]) for i in falling)
    if not within or (len(falling) < 2 and not vanished):
        return None
    behind = at[fall.end] if len(scale) - fall.end > growth else at[fall.start]
    gain = _gain(part, behind, len(part))
    stands = gain <= _LEARNS if gain is not None else low <= _UNDERFLOWS
    if not stands and (vanished or fall.start <= growth or quiet < growth or low >= floor):
        return None
    times = f"halves {fall.halvings:.0f} times or more" if fall.halvings >= halvings else "falls"
    note = (
        f"the loss scale {times} and never grows, from {number(scale[fall.start - 1])}"
        f" at {part.where(at[fall.start - 1])} to {number(low)} at {part.where(at[fall.end])}"
    )
    note += ", and the loss does not fall from there on" if stands and gain is not None else ""
    shown = (at[fall.start], at[fall.start - 1], at[fall.end], at[-1])
    weight = _NOT_SAID if stands else _FALLS_ON
    return Sign(part, at[fall.start], _evidence(part, shown), note, "loss_scale", weight)


def _within_steps(before: int | None, after: int | None, high: float, low: float) -> bool:
    """Whether a scale can have come from `high` to `low` by one halving in each of the steps between two records.

    Half a halving more may be what rounding takes off the lower one: 0.25 is printed as 0.2, 0.03125 as 0.03.
    """
    if before is None or after is None:
        return False
    return low == 0 or math.log2(high) - math.log2(low) <= after - before + 0.5


def _halved_to_nothing(before: int | None, after: int | None, high: float) -> bool:
    """Whether the steps between two records suffice to halve `high` until one decimal prints 0.0: below 2^-5."""
    return before is not None and after is not None and high > 0 and after - before >= math.log2(high) + 5


def _gain(part: Stream, start: int, stop: int) -> float | None:
    """Part of its level by which the loss falls from the first to the last quarter of records start..stop-1.

    None where there are fewer than 20 losses, or one is not finite.
    """
    values = [v for v in part.column("loss")[start:stop] if v is not None]
    if len(values) < 20 or not all(map(math.isfinite, values)):
        return None
    quarter = len(values) // 4
    first, last = median(values[:quarter]), median(values[-quarter:])
    return (first - last) / max(abs(first), 1e-12)


def _skips(part: Stream, at: Sequence[int]) -> list[bool]:
    """For each record of the scale whether its step was skipped."""
    overflow, skipped, total = part.column("overflow"), part.column("skipped_steps"), part.column("skipped_total")
    result = []
    previous: float | None = None
    for i in at:
        count = total[i]
        # DeepSpeed's fused optimizers say in one line that a step overflowed, and the new scale in the next.
        here, above = part.lines[i], part.lines[i - 1] if i else None
        announced = i > 0 and bool(overflow[i - 1]) and here is not None and above == here - 1
        more = count is not None and previous is not None and count > previous
        result.append(bool(overflow[i]) or bool(skipped[i]) or announced or more)
        previous = count if count is not None else previous
    return result


def _stuck(
    scale: Sequence[float], skips: Sequence[bool], steps: Sequence[int | None], floor: float, repeats: int, growth: int
) -> tuple[int, int, int, int] | None:
    """(first skipped step, where the floor is reached, first record of its value, how many there) of a descent to it.

    Records of one descent to the floor count towards `repeats`, so that a run that gave up there at once is seen too.
    """
    i = 0
    while i < len(scale):
        if not skips[i]:
            i += 1
            continue
        j = i
        while j + 1 < len(scale) and skips[j + 1] and scale[j + 1] <= scale[j]:
            j += 1
        first = j
        while first > i and scale[first - 1] == scale[j]:
            first -= 1
        count = j - first + 1
        descent = j - i + 1
        rest = list(skips[j + 1 : j + 1 + growth])
        ends = len(rest) < growth and not any(b > a for a, b in zip(scale[j:], scale[j + 1 :], strict=False))
        # At the floor: a descent of five records or more that ends there, or three overflows in place.
        at_floor = floor / 2 < scale[j] <= floor or (scale[j] <= floor and count >= 2)
        if at_floor and (count >= repeats or descent >= 5) and ends:
            # An overflow line names the scale that it leads to: the second one at this value is the first in place.
            reached = first + 1 if count >= 2 and descent > count else first
            return i, reached, first, count
        # Above it only steps tell one rank that overflows again and again from many ranks that say so once each.
        distinct = len({s for s in steps[first : j + 1] if s is not None})
        if scale[j] > floor and distinct >= repeats + 2 and ends:
            return first, first, first, distinct
        i = j + 1
    return None


def _evidence(part: Stream, shown: Sequence[int]) -> tuple[Evidence, ...]:
    return tuple(part.evidence(i, *_SHOWN) for i in dict.fromkeys(shown))


def scale_stall(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    drop: float = 64.0,
    flat: int = 10,
    low: float = 1.0,
    needed: float = 8.0,
) -> tuple[Observation, ...]:
    """The loss scale is put far below what it was in one record (a resume without scaler state) and stays there.

    Or it stands at `low` or below from the first record on while every step is skipped, or every second one, which no
    scale can cure.

    drop: factor from one record to the next, a step apart or over a restart; halving takes a step each (C15).
    flat: records without any change after it, to the end.
    low: only a scale under this, or one under which the gradient norm is 0 on most records (they underflow), is a
        stall; a scaler that starts again at 65536 recalibrates and does no harm (C15).
    needed: from `low`, which is also what a run prints that goes on in bf16, up to this, the loss must have fallen
        before, and have stood ever since. Models that need a scale at all need 8 or more (Micikevicius et al., Mixed
        Precision Training, ICLR 2018, 3.2).
    """
    import polars as pl

    if not has(metrics, "loss_scale"):
        return ()
    if metrics.filter((pl.col("name") == "loss_scale") & (pl.col("value") < 1024)).is_empty():
        return ()
    found = [s for s in streams(metrics, _NAMES) if "loss_scale" in s.columns]
    signs = [sign for stream in found if (sign := _stall(stream, found, drop, flat, low, needed)) is not None]
    return merge(signs, found, ())


def _stall(stream: Stream, others: Sequence[Stream], drop: float, flat: int, low: float, needed: float) -> Sign | None:
    at, scale = stream.curve("loss_scale")
    if len(scale) < flat or any(not math.isfinite(v) for v in scale):
        return None
    last = len(scale) - 1
    start = last
    while start > 0 and scale[start - 1] == scale[last]:
        start -= 1
    if len(scale) - start < flat:
        return None
    norms = stream.column("grad_norm")
    grads = [g for i in at[start:] if (g := norms[i]) is not None]
    dead = len(grads) >= flat and sum(g == 0.0 for g in grads) > 0.5 * len(grads)
    value = scale[last]
    weight = 1.0
    if start > 0:
        before, where = scale[start - 1], stream.where(at[start - 1])
        a, b = stream.steps[at[start - 1]], stream.steps[at[start]]
        # The end of a descent, of which no more digits are printed, or no record lies within it.
        if value == 0.0 and (before < low or _halved_to_nothing(a, b, before)):
            return None
        steps = [s for i in at if (s := stream.steps[i]) is not None]
        gaps = [b - a for a, b in itertools.pairwise(steps) if b > a]
        near = a is None or b is None or not gaps or b - a <= 2 * median(gaps)
        idle = low <= value < needed and _stops_learning(stream, at[start])
        if before < drop * max(value, 1e-30) or not near or not (value < low or dead or idle):
            return None
        weight = 1.0 if value < low or dead else _NOT_SAID
        shown: tuple[int, ...] = (at[start], at[start - 1], at[last])
    else:
        earlier = _earlier(stream, others)
        far = earlier is not None and earlier.scale >= drop * max(value, 1e-30)
        idle = low <= value < needed and earlier is not None and _stops_learning(*_joined(stream, earlier.stream))
        if earlier is not None and far and (value < low or dead or idle):
            where, before = earlier.where, earlier.scale
            weight = 1.0 if value < low or dead else _NOT_SAID
        elif (value < low and dead and len(scale) >= 2 * flat) or (value <= low and _often_skipped(stream, at)):
            where, before = "", 0.0
        else:
            return None
        shown = (at[start], at[last])
    note = f"the loss scale stands at {number(value)} from {stream.where(at[start])} to {stream.where(at[last])}"
    note += f" (it was {number(before)} at {where})" if where else ""
    if dead:
        note += "; the gradient norm is 0: gradients underflow"
    elif not where:
        note += "; every step is skipped" if _never_applied(stream, at) else "; every other step or more is skipped"
    # DeepSpeed's messages bear no step: the next line that does says by when.
    onset = next((i for i in range(at[start], len(stream)) if stream.steps[i] is not None), at[start])
    return Sign(stream, onset, _evidence(stream, shown), note, "loss_scale", weight)


def _never_applied(stream: Stream, at: Sequence[int]) -> bool:
    """Whether all steps of ten records or more of the scale were skipped, by message or by count (nine of ten)."""
    return len(at) >= 10 and _skipped(stream, at, counted=0.9, told=1.0)


def _often_skipped(stream: Stream, at: Sequence[int]) -> bool:
    """Whether all steps were skipped, or some two of five in both halves of more records of the scale."""
    if _never_applied(stream, at):
        return True
    half = len(at) // 2
    return half >= _FEW_RECORDS and all(
        _skipped(stream, part, counted=_OFTEN, told=_OFTEN) for part in (at[:half], at[half:])
    )


def _skipped(stream: Stream, at: Sequence[int], *, counted: float, told: float) -> bool:
    """Whether this part of the steps was skipped by the run's own counts; without these, of the records by word."""
    steps = [s for i in at if (s := stream.steps[i]) is not None]
    span = steps[-1] - steps[0] if len(steps) == len(at) else None
    counts = [stream.column("skipped_steps")[i] for i in at]
    if any(counts):
        return span is not None and sum(n for n in counts[1:] if n is not None) >= counted * span
    totals = [n for i in at if (n := stream.column("skipped_total")[i]) is not None]
    if span and len(totals) > 1:
        return totals[-1] - totals[0] >= counted * span
    return sum(_skips(stream, at)) >= told * len(at)


def _stops_learning(stream: Stream, at: int) -> bool:
    """Whether the loss still fell just before record `at`, and does not in twice as many records (50 or more) after."""
    width = min(at, len(stream) - at)
    before, after = _gain(stream, at - width // 2, at), _gain(stream, at, at + width)
    if width < 50 or before is None or after is None:
        return False
    return before > _LEARNS and after < 0.1 * before


class _Before(NamedTuple):
    """The record that a stream goes on from: where its last loss scale stands, how large that is, and the record."""

    where: str
    scale: float
    stream: Stream


def _earlier(stream: Stream, others: Sequence[Stream]) -> _Before | None:
    """The record that this stream continues, or None.

    What comes first is told by times, by the numbers of the attempts, or, where neither is given, by the steps.
    """
    best: tuple[tuple[float, float, float], _Before] | None = None
    begin, b, attempt = stream.times[0], stream.steps[0], stream.attempt
    for other in others:
        if other is stream or other.rank != stream.rank or other.binary != stream.binary:
            continue
        at, scale = other.curve("loss_scale")
        end, a = other.times[at[-1]], other.steps[at[-1]]
        if a is None or b is None or not (0 < b <= a + 2 * max(1, a // 10)):
            continue
        if end is not None and begin is not None:
            follows = end <= begin
        elif attempt is not None and other.attempt is not None and attempt != other.attempt:
            start = other.steps[0]
            follows = other.attempt < attempt and (start is None or b > start)  # no run that begins anew
        else:
            follows = _goes_on(stream, other)
        order = (-math.inf if end is None else end, -1 if other.attempt is None else other.attempt, a)
        if follows and (best is None or order > best[0]):
            best = (order, _Before(other.where(at[-1]), scale[-1], other))
    return best[1] if best else None


def _goes_on(stream: Stream, other: Stream) -> bool:
    """Whether the steps of `stream` go on about where those of `other` end: both only grow, and little is run again."""
    first, second = ([s for s in part.steps if s is not None] for part in (other, stream))
    if not first or not second or any(a > b for steps in (first, second) for a, b in itertools.pairwise(steps)):
        return False
    return second[0] > first[-1] - (first[-1] - first[0]) / 4 and second[-1] > first[-1]


def _joined(stream: Stream, other: Stream) -> tuple[Stream, int]:
    """The losses of `other` up to where `stream` goes on, and then those of `stream`; and the record of its start."""
    b = stream.steps[0]
    cut = next((i for i, s in enumerate(other.steps) if s is not None and b is not None and s >= b), len(other))
    parts = (other.cut(0, cut), stream)
    whole = Stream(
        stream.source,
        stream.rank,
        stream.binary,
        [line for part in parts for line in part.lines],
        [step for part in parts for step in part.steps],
        [epoch for part in parts for epoch in part.epochs],
        [time for part in parts for time in part.times],
        [attempt for part in parts for attempt in part.attempts],
        {"loss": [v for part in parts for v in part.column("loss")]},
        stream.names,
    )
    return whole, cut
