"""A loss that is back, from one record to the next, near where it began, and comes down again only slowly.

That is how weights look that were lost, or an optimizer whose state was. `resume.py` compares records before and after
a resume that steps, attempts or a line of the same file show; here the jump is found first, within one record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.engine.few import few
from forensics.model import Evidence, Observation

if TYPE_CHECKING:
    import polars as pl

_SHOWN = ("loss", "grad_norm", "lr")
_SETTLED = 20  # records that must precede a jump and follow it; a spike is over within 10 (loss_spike)
_LEARNED = 1.5  # first loss over the one before the jump: below that there is too little to lose (weights_not_restored)
_RISE = 1.3  # and 12 MADs, as for a spike (P12)
_MADS = 12.0


class _Jump(NamedTuple):
    """at: position in the curve; before, now, first: levels of the loss; share: part of all progress that is gone."""

    at: int
    before: float
    now: float
    first: float
    share: float


def loss_reset(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    resumed: bool,
    least: float = 0.7,
    most: float = math.inf,
    regained: float = math.inf,
) -> tuple[Observation, ...]:
    """The loss jumps up in one record, stays there for 20 records and more, and is learned down again.

    resumed: whether a line of any file of the rank says that the run resumed there, or none does. least, most: part of
        all progress that is gone (C1: 0.7 is the loss of an untrained model); from `regained` on where the loss ends at
        its old level, within a tenth of the jump: that is the task from before, and other data have another.
    A record with several jumps is silent: folds, tasks and restarts of a schedule look so by design. A loss that does
    not come down has diverged.
    """
    parts = list(_parts(metrics))
    signs = []
    for part in parts:
        at, curve = part.curve("loss")
        jumps = list(itertools.islice(_jumps(curve), 2))
        if len(jumps) != 1 or not _is_learned_down(curve, jumps[0]):
            continue
        back = median(curve[-5:]) <= jumps[0].before + 0.1 * (jumps[0].now - jumps[0].before)
        if not (min(least, regained) if back else least) <= jumps[0].share < most:
            continue
        mark = _mark(part, at[jumps[0].at - 1], at[jumps[0].at], observations)
        if (mark is not None) is resumed:
            signs.append(_sign(part, at, jumps[0], mark))
    return merge(signs, parts)


def _parts(metrics: pl.DataFrame) -> Iterator[Stream]:
    small = few(metrics)
    if small is not None and sum(row.name == "loss" for row in small) < 2 * _SETTLED:
        return
    for stream in streams(metrics, _SHOWN):
        if "loss" in stream.columns and not stream.names & RL_NAMES:
            yield from segments(stream)


def _jumps(curve: Sequence[float]) -> Iterator[_Jump]:
    if len(curve) < 2 * _SETTLED or not all(map(math.isfinite, curve)):
        return
    first = median(curve[:5])
    for k in range(_SETTLED, len(curve) - _SETTLED + 1):
        if curve[k] < _RISE * curve[k - 1]:
            continue
        before, now = median(curve[k - 10 : k]), median(curve[k : k + 3])
        if before <= 0 or first < _LEARNED * before or now < _RISE * before:
            continue
        past = curve[max(0, k - _SETTLED) : k]
        level = median(past)
        half = (before + now) / 2
        if now - before < _MADS * median(abs(v - level) for v in past):
            continue
        # Up from the first record on, in nearly all of them.
        if curve[k - 1] > half or sum(v > half for v in curve[k : k + 10]) < 9:
            continue
        if median(curve[k + 10 : k + _SETTLED]) < before + 0.5 * (half - before):
            continue
        yield _Jump(k, before, now, first, (now - before) / (first - before))


def _is_learned_down(curve: Sequence[float], jump: _Jump) -> bool:
    """Whether a loss is more than half-way back at the end."""
    return median(curve[-5:]) < (jump.before + jump.now) / 2


def _mark(part: Stream, before: int, at: int, observations: Sequence[Observation]) -> Evidence | None:
    """The line that says that the run resumed between two records, in this file or in another one of the rank.

    A line of another file counts where it names a step near the jump, or none at all.
    """
    step, previous = part.steps[at], part.steps[before]
    for o in observations:
        if o.signature != "run-resumed" or (None not in (o.identity.rank, part.rank) and o.identity.rank != part.rank):
            continue
        said = o.evidence[0]
        low, high = part.lines[before], part.lines[at]
        if said.file == part.source and said.line is not None and low is not None and high is not None:
            if low <= said.line <= high:
                return said
            continue
        named = o.captures.get("step", "")
        if not named.isdecimal() or step is None or previous is None:
            return said
        if abs(int(named) - step) <= 2 * max(1, step - previous):
            return said
    return None


def _sign(part: Stream, at: Sequence[int], jump: _Jump, mark: Evidence | None) -> Sign:
    here, before = at[jump.at], at[jump.at - 1]
    note = (
        f"the loss was {number(jump.before)} and is {number(jump.now)} from {part.where(here)} on, in one record;"
        f" the record began at {number(jump.first)}, so {min(jump.share, 1.0):.0%} of what was learned is gone"
    )
    evidence = [part.evidence(i, *_SHOWN) for i in (here, before, at[0])]
    return Sign(part, here, (*evidence, *((mark,) if mark is not None else ())), note, "loss")
