"""A loop that logs no global step resumes, has its weights, and counts its epochs from the first one again (C12).

Its steps count the batches of an epoch, or there are none, so nothing goes on from which the epoch could be told: the
record before the line that says "resuming" and the one after it are compared by their epochs. Later stages, folds and
fine-tuning begin anew by design. They say so, or their loss or their learning rate is another one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.counter_restart import ended_before, grouped, has_its_weights
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.engine.detectors.told_step import BY_DESIGN, is_of
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "lr", "grad_norm")
_NO_RATE = 0.9  # how sure it is where the learning rate tells nothing
_DIFFERS = 0.1  # relative difference of rates that are not the same one
_WINDOW = 10  # rates after the resume that are compared


def epochs_anew(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    epochs: int = 2,
    records: int = 3,
    learned: float = 0.5,
    back: float = 0.3,
) -> tuple[Observation, ...]:
    """After a line that says that the run resumes, the epochs begin with the first one again, the loss goes on.

    epochs: the fewest that the record before came forward. records: losses that have to follow.
    learned, back: as for `counter_restart`.
    """
    said: dict[str, list[Observation]] = {}
    for o in observations:
        if o.signature == "run-resumed" and o.evidence and o.evidence[0].line is not None:
            said.setdefault(o.evidence[0].file, []).append(o)
    if not said:
        return ()
    signs = [
        sign
        for before, after, mark in _resumes(streams(metrics, _NAMES), said)
        if (sign := _look(before, after, mark, epochs, records, learned, back)) is not None
    ]
    return merge(signs, [sign.stream for sign in signs], ())


def _resumes(
    found: Sequence[Stream], said: dict[str, list[Observation]]
) -> Iterator[tuple[Stream, Stream, Observation]]:
    alike = grouped(found)
    for others in alike.values():
        for stream in others:
            marks = [o for o in said.get(stream.source, ()) if is_of(o, stream) and not BY_DESIGN.search(_text(o))]
            if not marks:
                continue
            parts = _between(stream, marks)
            for n, (mark, after) in enumerate(parts):
                if mark is None:
                    continue
                before = parts[n - 1][1] if n else ended_before(stream, others)
                if before is not None:
                    yield before, after, mark


def _text(mark: Observation) -> str:
    return mark.evidence[0].text


def _between(stream: Stream, marks: Sequence[Observation]) -> list[tuple[Observation | None, Stream]]:
    """The records between lines that say that the run resumes, each with the last such line above it."""
    lines = sorted(((o.evidence[0].line or 0, i) for i, o in enumerate(marks)), key=lambda pair: pair[0])
    parts: list[tuple[Observation | None, Stream]] = []
    start, k, above = 0, 0, None
    for i, line in enumerate(stream.lines):
        if line is None or k == len(lines) or line <= lines[k][0]:
            continue
        if i > start:
            parts.append((above, stream.cut(start, i)))
        while k < len(lines) and line > lines[k][0]:
            above = marks[lines[k][1]]
            k += 1
        start = i
    parts.append((above, stream.cut(start, len(stream))))
    return parts


def _look(
    before: Stream, after: Stream, mark: Observation, epochs: int, records: int, learned: float, back: float
) -> Sign | None:
    old, new = _epochs(before), _epochs(after)
    if not old or not new or _counts_on(before) or not (_onwards(old) and _onwards(new)):
        return None
    if old[0] > 1 or new[0] != old[0] or old[-1] < old[0] + epochs:
        return None
    at, losses = after.curve("loss")
    if len(losses) < records or not has_its_weights(before, after, learned, back):
        return None
    weight = _by_rates(_rates(before), _rates(after))
    if weight is None:
        return None
    last = before.curve("loss")[0][-1]
    was = before.column("loss")[last] or 0.0
    note = (
        f"the run says that it resumes, and goes on in epoch {number(new[0])} after epoch {number(old[-1])}: the loss"
        f" is the one that it had come to ({number(was)}, now {number(losses[0])}), and the"
        " data of the first epochs is gone through again"
    )
    shown = (after.evidence(at[0], *_NAMES), mark.evidence[0], before.evidence(last, *_NAMES))
    return Sign(after, at[0], shown, note, "loss", weight)


def _epochs(stream: Stream) -> list[int]:
    return [math.floor(e) for e in stream.epochs if e is not None and math.isfinite(e)]


def _onwards(epochs: Sequence[int]) -> bool:
    """Whether epochs follow each other, as those of one loop do."""
    return all(b - a in (0, 1) for a, b in itertools.pairwise(epochs))


def _counts_on(stream: Stream) -> bool:
    """Whether the steps go on over epochs: then others tell by them."""
    steps = [s for s in stream.steps if s is not None]
    return len(steps) > 1 and all(a < b for a, b in itertools.pairwise(steps))


def _rates(stream: Stream) -> list[tuple[int, int | None, float]]:
    return [
        (math.floor(e), s, r)
        for e, s, r in zip(stream.epochs, stream.steps, stream.column("lr"), strict=True)
        if e is not None and r is not None and math.isfinite(e) and math.isfinite(r)
    ]


def _by_rates(
    old: Sequence[tuple[int, int | None, float]], new: Sequence[tuple[int, int | None, float]]
) -> float | None:
    """How sure the rates are that one loop goes on: None where they are those of another stage."""
    if not old or not new:
        return _NO_RATE if not old and not new else None
    goes_on = _same(old[-1][2], new[0][2])
    if _same(max(r for *_, r in old), min(r for *_, r in old)):
        return _NO_RATE if goes_on else None
    then = {(e, s): r for e, s, r in old}
    again = [_same(r, then[e, s]) for e, s, r in new[:_WINDOW] if (e, s) in then]
    return 1.0 if goes_on or (len(again) >= 3 and sum(again) >= 0.8 * len(again)) else None


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= _DIFFERS * max(abs(a), abs(b))
