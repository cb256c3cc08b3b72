"""A run that says it goes on from a checkpoint, has its weights, and counts from its first step again (C12, C14).

Fine-tuning and later stages load weights and count from 0 by design, under a schedule of their own; folds and sweeps
count from 0 with other weights. What is told here is neither: the record before came to the step of the checkpoint, the
loss goes on where it was, and the learning rate goes once more through what the record before had at the same steps.
Where the rate tells nothing, the epochs have to begin anew as well.
"""

from __future__ import annotations

import itertools
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.resume import RESTARTS
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation
from forensics.parsers.checkpoints.series import numbered

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "lr", "grad_norm")
_RESUMED = "run-resumed"
_BY_EPOCH = 0.9  # how sure it is where the learning rate tells nothing
_DIFFERS = 0.1  # relative difference of the rate at the checkpoint from the one after it: below, it tells nothing


def counter_restart(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 10,
    learned: float = 0.5,
    back: float = 0.3,
    close: float = 0.05,
) -> tuple[Observation, ...]:
    """After a line that says that the run resumes the steps begin anew, with weights that had been trained.

    records: the fewest before it, and intervals between them that the checkpoint's step must be away from the start.
    learned: the first losses after it over those of the record before (C12: 50 %). back: part of all progress that may
        be gone (weights_not_restored begins at 0.7). close: relative difference of the rate to what the record before
        had at the same step (C14: 5 %).
    """
    said: dict[str, list[Observation]] = {}
    for o in observations:
        if o.signature == _RESUMED and o.evidence and o.evidence[0].line is not None:
            said.setdefault(o.evidence[0].file, []).append(o)
    if not said:
        return ()
    for marks in said.values():
        marks.sort(key=lambda o: o.evidence[0].line or 0)
    signs = [
        sign
        for before, after, mark in _resumes(streams(metrics, _NAMES), said)
        if (sign := _look(before, after, mark, records, learned, back, close)) is not None
    ]
    return merge(signs, [sign.stream for sign in signs], ())


def _resumes(
    found: Sequence[Stream], said: dict[str, list[Observation]]
) -> Iterator[tuple[Stream, Stream, Observation]]:
    """(record before, record after, what says that the latter resumes) of each resume that a line tells."""
    alike = grouped(found)
    for stream in itertools.chain.from_iterable(alike.values()):
        marks = said.get(stream.source)
        if not marks or not _begins_or_goes_back(stream):
            continue
        lines = [o.evidence[0].line or 0 for o in marks]
        parts = [p for p in segments(stream, lines) if any(s is not None for s in p.steps)]
        for n, after in enumerate(parts):
            mark = _mark(marks, lines, (parts[n - 1].lines[-1] or 0) if n else 0, after.lines[0] or 0)
            if mark is None:
                continue
            if n == 0:
                before = _one_part(ended_before(stream, alike[_group(stream)]))
            else:
                # A part that began with nothing but a lower step is one of many: steps count the batches of an epoch.
                whole = n == 1 or _is_announced(parts[n - 2], parts[n - 1], marks, lines)
                before = parts[n - 1] if whole else None
            if before is not None:
                yield before, after, mark


def _begins_or_goes_back(stream: Stream) -> bool:
    """Whether some record may be a run's first one: most resumes go on, and take no more than this look."""
    steps = [s for s in stream.steps if s is not None]
    return len(steps) > 1 and (steps[0] <= max(1, steps[1] - steps[0]) or not all(map(operator.le, steps, steps[1:])))


def _mark(marks: Sequence[Observation], lines: Sequence[int], low: int, high: int) -> Observation | None:
    """The last of `marks`, which stand at `lines` in their order, from a line on and above another one."""
    k = bisect_left(lines, high) - 1
    return marks[k] if k >= 0 and lines[k] >= low else None


def _is_announced(before: Stream, after: Stream, marks: Sequence[Observation], lines: Sequence[int]) -> bool:
    """Whether a record is another attempt's than the one before it, or a line says that it resumes."""
    if before.attempts[-1] != after.attempts[0]:
        return True
    return _mark(marks, lines, before.lines[-1] or 0, after.lines[0] or 0) is not None


def ended_before(stream: Stream, others: Sequence[Stream]) -> Stream | None:
    """The record of another file that ended before this one began; without times, where there is but one other."""
    others = [s for s in others if s.source != stream.source] if len(others) <= RESTARTS else []
    begin = next((t for t in stream.times if t is not None), None)
    ends = [(next((t for t in reversed(s.times) if t is not None), None), s) for s in others]
    if begin is None:
        before = others[0] if len(others) == 1 and ends[0][0] is None else None
    else:
        ended = [(end, s) for end, s in ends if end is not None and end <= begin]
        before = max(ended, key=lambda pair: pair[0])[1] if ended else None
    return before


def _one_part(stream: Stream | None) -> Stream | None:
    parts = segments(stream) if stream is not None else ()
    return parts[0] if len(parts) == 1 else None


def grouped(found: Sequence[Stream]) -> dict[tuple[int | None, str], list[Stream]]:
    """Text records of a loss that measures progress, by what those of one process in successive files share."""
    alike: dict[tuple[int | None, str], list[Stream]] = {}
    for stream in found:
        if not stream.binary and "loss" in stream.columns and not stream.names & RL_NAMES:
            alike.setdefault(_group(stream), []).append(stream)
    return alike


def _group(stream: Stream) -> tuple[int | None, str]:
    """What records of one process in successive files share: the rank, and how the file's name ends."""
    return stream.rank, stream.source.rpartition(".")[2]


def _look(
    before: Stream, after: Stream, mark: Observation, records: int, learned: float, back: float, close: float
) -> Sign | None:
    a, b = [s for s in before.steps if s is not None], [s for s in after.steps if s is not None]
    if len(a) < records or len(b) < 3:
        return None
    gap = max(1, round(median(y - x for x, y in itertools.pairwise(a))))
    if a[0] > gap or b[0] > min(a[0] + gap, gap) or b[-1] <= b[0]:
        return None
    step = _checkpoint(mark, a, gap)
    if step is None or step < records * gap or not has_its_weights(before, after, learned, back):
        return None
    if _later_epoch(before, after):
        return None  # the steps are the batches of an epoch
    rates = _rates(before), _rates(after)
    was = next((r for s, r in reversed(rates[0]) if s <= step), None)
    again = f"at {number(rates[1][0][1])}" if rates[1] else ""
    if was is not None and rates[1] and max(r for _, r in rates[0]) > (1 + _DIFFERS) * min(r for _, r in rates[0]):
        new = rates[1][0][1]
        if abs(new - was) <= _DIFFERS * max(abs(new), abs(was)) or not _replays(*rates, close):
            return None
        weight, what = 1.0, f", and the learning rate, which was {number(was)} at the checkpoint, begins {again} again"
    elif _first_epoch_again(before, after):
        weight, what = _BY_EPOCH, ", and the epochs as well"
    else:
        return None
    old_at, old = before.curve("loss")
    new_at, new_losses = after.curve("loss")
    note = (
        f"the run says that it goes on from a checkpoint of step {step}, and counts from step {b[0]} again with the"
        f" weights of the checkpoint (the loss was {number(median(old[-5:]))} and is {number(median(new_losses[:3]))};"
        f" the record before began at {number(median(old[:3]))}){what}"
    )
    shown = (after.evidence(new_at[0], *_NAMES), mark.evidence[0], before.evidence(old_at[-1], *_NAMES))
    return Sign(after, new_at[0], shown, note, "loss", weight)


def _checkpoint(mark: Observation, steps: Sequence[int], gap: int) -> int | None:
    """The step of the checkpoint: what the line says, or the name of the file in it, where the record came to it.

    A line that names no step (`last.ckpt`) means the newest one.
    """
    named = mark.captures.get("step", "")
    numbers = (int(named),) if named.isdecimal() else numbered(mark.evidence[0].text)[1]
    if not numbers:
        return steps[-1]
    # Behind the middle, or it may be the checkpoint of another run.
    return next((n for n in numbers if (steps[0] + steps[-1]) / 2 <= n <= steps[-1] + 2 * gap), None)


def has_its_weights(before: Stream, after: Stream, learned: float, back: float) -> bool:
    """Whether the loss of a record goes on about where that of the one before had come to, far below its start."""
    old, new = before.curve("loss")[1], after.curve("loss")[1]
    if len(old) < 10 or len(new) < 3 or not all(map(math.isfinite, [*old, *new[:3]])):
        return False
    start, end, now = median(old[:3]), median(old[-5:]), median(new[:3])
    return 0 < end < start and now <= learned * start and now <= end + back * (start - end)


def _later_epoch(before: Stream, after: Stream) -> bool:
    first = next((e for e in before.epochs if e is not None), None)
    again = next((e for e in after.epochs if e is not None), None)
    return first is not None and again is not None and math.floor(again) > math.floor(first)


def _first_epoch_again(before: Stream, after: Stream) -> bool:
    """Whether the record before came to later epochs, and the one after it begins in the first one."""
    told = [e for e in before.epochs if e is not None and math.isfinite(e)]
    again = next((e for e in after.epochs if e is not None), None)
    return bool(told) and again is not None and math.floor(told[-1]) > math.floor(told[0]) == math.floor(again)


def _rates(stream: Stream) -> list[tuple[int, float]]:
    return [
        (s, r)
        for s, r in zip(stream.steps, stream.column("lr"), strict=True)
        if s is not None and r is not None and math.isfinite(r)
    ]


def _replays(old: Sequence[tuple[int, float]], new: Sequence[tuple[int, float]], close: float) -> bool:
    """Whether the first ten rates are those that the record before had at the same steps (or last by then)."""
    steps = [s for s, _ in old]
    near = [
        abs(r - old[k][1]) <= close * max(abs(old[k][1]), 1e-12)
        for s, r in new[:10]
        if (k := bisect_right(steps, s) - 1) >= 0
    ]
    return len(near) >= 3 and sum(near) >= 0.8 * len(near)
