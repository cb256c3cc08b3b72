"""What a resumed run lost: compare the end of one record with the beginning of the record that continues it.

A record continues another where both are of one rank, it is later (by attempt, time, place in the same file, or by its
steps where no record bears a time), and its steps go on from within the other's. A second run that starts at step 0 is
a run of its own and is left alone. A loop that prints no steps is followed by its epochs where it says that it resumes.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, family, merge, number, segments, streams
from forensics.engine.detectors.told_step import BY_DESIGN, SAYS_SO
from forensics.engine.few import Row, Same, few
from forensics.model import Evidence, Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "lr", "grad_norm")
RESTARTS = 500  # files of one rank; more of them are runs of their own, and comparing each with each takes too long


def _pairs(
    metrics: pl.DataFrame, observations: Sequence[Observation]
) -> tuple[list[tuple[Stream, Stream]], list[Stream]]:
    """(records before and after each resume, records that nothing precedes)."""
    return remembered_pairs(Same(metrics), Same(observations))


@lru_cache(maxsize=1)
def remembered_pairs(
    table: Same[pl.DataFrame], found: Same[Sequence[Observation]]
) -> tuple[list[tuple[Stream, Stream]], list[Stream]]:
    """`_pairs`, remembered until `cache_clear`: every detector here asks for it."""
    metrics, observations = table.value, found.value
    marks: dict[str, list[int]] = {}
    for o in observations:
        if "resum" in o.signature and o.evidence[0].line is not None:
            marks.setdefault(o.evidence[0].file, []).append(o.evidence[0].line)
    if not marks and not _may_resume(metrics):
        return [], []
    pairs: list[tuple[Stream, Stream]] = []
    heads: list[Stream] = []
    tails: list[Stream] = []
    for stream in streams(metrics, _NAMES):
        said = marks.get(stream.source, ())
        parts = [p for p in segments(stream, said) if _known(p) and (said or any(s is not None for s in p.steps))]
        if not parts:
            continue
        pairs.extend((a, b) for a, b in itertools.pairwise(parts) if _continues(a, b) and _is_new_start(a, b, said))
        heads.append(parts[0])
        tails.append(parts[-1])
    alone = []
    alike: dict[tuple[int | None, str], list[Stream]] = {}
    for tail in tails:
        alike.setdefault((tail.rank, family(tail)), []).append(tail)
    for head in heads:
        others = alike[head.rank, family(head)]
        earlier = [t for t in others if t.source != head.source] if 1 < len(others) <= RESTARTS else []
        earlier = [t for t in earlier if _precedes(t, head) and _continues(t, head)]
        if earlier:
            pairs.append((max(earlier, key=lambda t: (t.attempt or 0, _end(t) or 0.0)), head))
        else:
            alone.append(head)
    return pairs, alone


def _may_resume(metrics: pl.DataFrame) -> bool:
    """Whether any record begins late, or goes back in step, epoch or attempt: cheap, and no for a plain single run."""
    import polars as pl

    if (rows := few(metrics)) is not None:
        own: dict[tuple[str, int | None], list[Row]] = {}
        for row in rows:
            if row.name in _NAMES:
                own.setdefault((row.source, row.rank), []).append(row)
        return any(map(_late_or_back, own.values()))

    def changes(column: str) -> pl.Expr:
        return (pl.col(column).drop_nulls().diff() < 0).any()

    found = (
        metrics.filter(pl.col("name").is_in(_NAMES))
        .group_by("source", "rank")
        .agg(
            (pl.col("step").drop_nulls().first() > 1).fill_null(False).alias("late"),
            (changes("step") | changes("epoch") | (pl.col("attempt").drop_nulls().n_unique() > 1)).alias("back"),
        )
    )
    return bool((found["late"] | found["back"]).any())


def _late_or_back(rows: Sequence[Row]) -> bool:
    steps = [row.step for row in rows if row.step is not None]
    epochs = [row.epoch for row in rows if row.epoch is not None]
    attempts = {row.attempt for row in rows if row.attempt is not None}
    if len(attempts) > 1 or (steps and steps[0] > 1):
        return True
    return any(b < a for a, b in itertools.pairwise(steps)) or any(b < a for a, b in itertools.pairwise(epochs))


def _end(stream: Stream) -> float | None:
    return next((t for t in reversed(stream.times) if t is not None), None)


def _precedes(before: Stream, after: Stream) -> bool:
    if before.attempt is not None and after.attempt is not None and before.attempt != after.attempt:
        return before.attempt < after.attempt
    end, begin = _end(before), next((t for t in after.times if t is not None), None)
    if end is None and begin is None and _end(after) is None:
        a, b = _known(before), _known(after)
        return bool(a and b) and a[0] < b[0] and a[-1] < b[-1]
    return end is not None and begin is not None and end <= begin


def _positions(stream: Stream) -> Sequence[int | None]:
    """The steps; thousandths of epochs where a stream has no steps at all."""
    if any(s is not None for s in stream.steps):
        return stream.steps
    return [None if e is None or not math.isfinite(e) else round(1000 * e) for e in stream.epochs]


def _known(stream: Stream) -> list[int]:
    return [s for s in _positions(stream) if s is not None]


def _continues(before: Stream, after: Stream) -> bool:
    """Whether the steps of `after` go on from within those of `before`: behind its middle, no further than its end."""
    a, b = _known(before), _known(after)
    if len(a) < 2 or not b:
        return False
    # Where a progress bar tells the steps, several records have that of its last line.
    apart = [later - earlier for earlier, later in itertools.pairwise(a) if later > earlier]
    gap = max(1, round((a[-1] - a[0]) / (len(a) - 1)), round(median(apart)) if apart else 1)
    return b[0] > 1 and (a[0] + a[-1]) / 2 <= b[0] <= a[-1] + 2 * gap


def _is_new_start(before: Stream, after: Stream, marks: Sequence[int]) -> bool:
    """Whether a process began anew between two records of one source.

    Phases of training, folds and stages of a curriculum start epoch, schedule and loss over by design while one process
    counts its steps on: there no line speaks of a resume, no step is repeated, and the attempt is the same.
    """
    a, b = before.lines[-1], after.lines[0]
    if a is None or b is None or before.attempts[-1] != after.attempts[0]:
        return True
    return _known(after)[0] <= _known(before)[-1] or any(a <= m < b for m in marks)


def _run(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    look: Callable[[Stream, Stream], Sign | None],
    alone: Callable[[Stream], Sign | None] | None = None,
) -> tuple[Observation, ...]:
    pairs, single = _pairs(metrics, observations)
    signs = [sign for before, after in pairs if (sign := look(before, after)) is not None]
    if not signs and alone is not None:
        signs = [sign for stream in single if (sign := alone(stream)) is not None]
    return merge(signs, [sign.stream for sign in signs], ())


def epoch_restart(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, least: float = 1.0
) -> tuple[Observation, ...]:
    """After a resume the step goes on where it was and the epoch begins at its first value again.

    least: epochs that it must fall behind the epoch which the record before had at that step (C12). A replay from an
        older checkpoint takes step and epoch back together and is none.
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        old = [
            (s, e, i)
            for i, (s, e) in enumerate(zip(before.steps, before.epochs, strict=True))
            if s is not None and e is not None
        ]
        new = [
            (s, e, i)
            for i, (s, e) in enumerate(zip(after.steps, after.epochs, strict=True))
            if s is not None and e is not None
        ]
        if not old or not new:
            return None
        step, epoch, at = new[0]
        then = [(e, i) for s, e, i in old if s <= step]
        if not then:
            return None
        was, was_at = then[-1]
        first = min(e for _, e, _ in old)
        if math.floor(was) - math.floor(epoch) < least or math.floor(epoch) > math.floor(first):
            return None
        note = (
            f"the run resumes at step {step} in epoch {number(epoch)}, and was in epoch {number(was)} at step"
            f" {before.steps[was_at]}: the data of epoch {number(epoch)} is gone through again"
        )
        evidence = (
            _said(after, at, f"epoch {number(epoch)}"),
            _said(before, was_at, f"epoch {number(was)}"),
        )
        return Sign(after, at, evidence, note, "loss" if "loss" in after.columns else "lr")

    signs = _run(metrics, observations, look)
    return signs or _epoch_as_told(metrics, observations, least)


def _epoch_as_told(metrics: pl.DataFrame, observations: Sequence[Observation], least: float) -> tuple[Observation, ...]:
    """A line says at which epoch the run goes on, and the next record of its file is of an epoch long before.

    Loops that count the batches of an epoch have no step that would go on. "Loaded checkpoint 'X' (epoch 45)" is also
    what a fine-tuning prints that begins at epoch 0 by design: a record before has to have come to its epoch.
    """
    told = [
        (o.evidence[0], float(o.captures["epoch"]))
        for o in observations
        if "resum" in o.signature
        and o.evidence[0].line is not None
        and o.captures.get("epoch", "").isdigit()
        and not BY_DESIGN.search(o.evidence[0].text)
    ]
    if not told:
        return ()
    signs: list[Sign] = []
    for stream in streams(metrics, _NAMES):
        for evidence, was in told:
            if evidence.file != stream.source:
                continue
            after = (
                (i, e)
                for i, (n, e) in enumerate(zip(stream.lines, stream.epochs, strict=True))
                if n is not None and e is not None and n > (evidence.line or 0)
            )
            at, epoch = next(after, (0, was))
            if not SAYS_SO.search(evidence.text) and not _had_reached(stream, evidence.line or 0, was):
                continue
            # One may count from 0 and the other from 1.
            if math.floor(was) - math.floor(epoch) < least + 1 or epoch >= 2:
                continue
            note = (
                f"the run says that it resumes at epoch {number(was)}, and goes on in epoch {number(epoch)}: the data"
                " of that epoch is gone through again"
            )
            shown = (_said(stream, at, f"epoch {number(epoch)}"), evidence)
            signs.append(Sign(stream, at, shown, note, "loss" if "loss" in stream.columns else "lr"))
    return merge(signs, [sign.stream for sign in signs], ())


def _had_reached(stream: Stream, line: int, epoch: float) -> bool:
    """Whether the record above a line came to an epoch, counted from 0 or from 1."""
    above = (
        e for n, e in zip(stream.lines, stream.epochs, strict=True) if n is not None and e is not None and n < line
    )
    return max(above, default=-math.inf) >= epoch - 1


def _said(stream: Stream, at: int, what: str) -> Evidence:
    evidence = stream.evidence(at, *_NAMES)
    head, _, rest = evidence.text.partition(": ")
    return replace(evidence, text=f"{head}: {what}, {rest}")


def lr_reset(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    low: float = 0.7,
    high: float = 1.4,
    close: float = 0.05,
    ramp: int = 10,
) -> tuple[Observation, ...]:
    """After a resume the learning rate goes through its schedule from the start again.

    low, high: the new rate over the old one lies outside (C14). close: relative difference to what the schedule had at
        its own first steps (C14: 5 %).
    ramp: records of a linear warm-up. Where no earlier record is left, a warm-up that begins at a late step is enough,
        if it extends back to zero there: a first warm-up extends back to step 0.
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        old, new = _rates(before), _rates(after)
        if len(old) < 3 or len(new) < 3:
            return None
        step, rate, at = new[0]
        then = [(r, i) for s, r, i in old if s <= step]
        if not then:
            return None
        was, was_at = then[-1]
        if was <= 0 or low <= rate / was <= high:
            return None
        begin = old[0][0]
        steps = [s for s, _, _ in old]
        same = 0
        for s, r, _ in new[:ramp]:
            k = min(bisect_right(steps, begin + s - step), len(old)) - 1
            expected = old[k][1]
            same += steps[k] == begin + s - step and abs(r - expected) <= close * max(abs(expected), 1e-12)
        if same < 3 and not _warms_up(new, ramp):
            return None
        return _rate_sign(before, was_at, after, at, f"from {number(was)} to {number(rate)}", 1.0)

    def alone(stream: Stream) -> Sign | None:
        new = _rates(stream)
        if len(new) < 2 * ramp or not _warms_up(new, ramp):
            return None
        _step, rate, at = new[0]
        return _rate_sign(stream, at, stream, at, f"up from {number(rate)}", 0.85)

    return _run(metrics, observations, look, alone)


def optimizer_not_restored(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    jump: float = 3.0,
    smooth: float = 0.1,
    records: int = 10,
) -> tuple[Observation, ...]:
    """The first step after a resume is made at another learning rate than the schedule has from the next step on.

    Where scheduler and optimizer are restored, the rate goes on smoothly. An optimizer that was built anew makes its
    first step at the rate that it was built with, and only then the restored schedule sets its own (C1).
    jump: second rate over the first, or under it. smooth: relative change from record to record in the `records` after
        it. The record has to begin late in the run, one record a step; nothing before it is needed.
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        return alone(after)

    def alone(stream: Stream) -> Sign | None:
        rates = _rates(stream)
        if len(rates) <= records or rates[0][0] < 2 * records or rates[1][0] - rates[0][0] != 1:
            return None
        (_, first, at), (_, second, then) = rates[0], rates[1]
        if first <= 0 or second < jump * first:
            return None
        later = [r for _, r, _ in rates[1 : records + 2]]
        if any(abs(b - a) > smooth * a for a, b in itertools.pairwise(later)):
            return None
        note = (
            f"the record begins at {stream.where(at)} with a learning rate of {number(first)}, and the next step has"
            f" {number(second)}: the optimizer made its first step before the schedule was in force"
        )
        names = ("lr", "loss", "grad_norm")
        return Sign(stream, at, (stream.evidence(at, *names), stream.evidence(then, *names)), note, "lr")

    return _run(metrics, observations, look, alone)


def _rates(stream: Stream) -> list[tuple[int, float, int]]:
    return [
        (s, r, i)
        for i, (s, r) in enumerate(zip(_positions(stream), stream.column("lr"), strict=True))
        if s is not None and r is not None and math.isfinite(r)
    ]


def _warms_up(rates: Sequence[tuple[int, float, int]], ramp: int) -> bool:
    """Whether the first `ramp` records rise along a line that is zero just before the first, late in the run."""
    if len(rates) < ramp:
        return False
    (s0, r0, _), (s1, r1, _) = rates[0], rates[ramp - 1]
    gap = (s1 - s0) / (ramp - 1)
    if s1 <= s0 or r1 <= r0 or r1 < 3 * r0 or s0 < 10 * gap:
        return False
    slope = (r1 - r0) / (s1 - s0)
    zero = s0 - r0 / slope
    straight = all(abs(r0 + slope * (s - s0) - r) <= 0.05 * r1 for s, r, _ in rates[:ramp])
    return straight and zero >= s0 - 3 * gap


def _rate_sign(before: Stream, was_at: int, after: Stream, at: int, what: str, weight: float) -> Sign:
    last = min(at + 20, len(after) - 1)
    evidence = [after.evidence(at, "lr", "loss")]
    if before is not after:
        evidence.append(before.evidence(was_at, "lr", "loss"))
    evidence.append(after.evidence(last, "lr", "loss"))
    rate = after.column("lr")[last]
    then = f" and is {number(rate)} at {after.where(last)}" if rate is not None else ""
    note = f"at {after.where(at)}, where the run resumes, the learning rate goes {what}{then}: the schedule began anew"
    return Sign(after, at, tuple(evidence), note, "lr", weight)


def weights_not_restored(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, back: float = 0.7, learned: float = 1.5
) -> tuple[Observation, ...]:
    """After a resume the loss is back near where the first record began, although the steps go on.

    back: part of all progress that is gone (C1). learned: first loss over last loss of the record before; below that
        there is too little progress to lose. A jump of one point is not enough (C1), so medians of three are compared.
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        if after.names & RL_NAMES:
            return None
        old_at, old = before.curve("loss")
        new_at, new = after.curve("loss")
        if len(old) < 10 or len(new) < 3 or not all(math.isfinite(v) for v in [*old, *new[:3]]):
            return None
        start, end, now = median(old[:3]), median(old[-5:]), median(new[:3])
        if end <= 0 or start < learned * end or now < end + back * (start - end):
            return None
        names = ("loss", "grad_norm", "lr")
        evidence = (
            after.evidence(new_at[0], *names),
            before.evidence(old_at[-1], *names),
            before.evidence(old_at[0], *names),
        )
        note = (
            f"the loss was {number(end)} before the resume and is {number(now)} at {after.where(new_at[0])};"
            f" the first record began at {number(start)}: the weights are those of an untrained model"
        )
        return Sign(after, new_at[0], evidence, note, "loss")

    return _run(metrics, observations, look)


def loss_jumps(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    factor: float = 3.0,
    learned: float = 1.5,
    least: float = 0.25,
    most: float = 0.7,
    regained: float = 0.15,
    records: int = 20,
    noise: float = 12.0,
) -> tuple[Observation, ...]:
    """After a resume the loss is far higher than before it, and is learned down again from there.

    learned: first loss over last loss of the record before, from which on it tells how much was lost: `least` to `most`
        of all progress (above that the weights are lost: weights_not_restored); from `regained` on where the loss ends
        at its old level, within a tenth of the jump: that is the task from before, and other data have another.
    factor: else, because the record before begins late in the run or with weights that were trained already, the new
        loss over the old one.
    records: the fewest before and after; 9 of the first 10 after it lie above the middle of the jump, and the last ones
        have come down by a tenth of it, which other data does not do. noise: the jump in MADs of the loss (P12).
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        if after.names & RL_NAMES:
            return None
        (old_at, old), (new_at, new) = before.curve("loss"), after.curve("loss")
        if min(len(old), len(new)) < records or not all(map(math.isfinite, [*old, *new])):
            return None
        start, end, now = median(old[:3]), median(old[-10:]), median(new[:3])
        jump, past = now - end, old[-records:]
        if end <= 0 or jump < noise * median(abs(v - median(past)) for v in past):
            return None
        if start >= learned * end:
            back = median(new[-5:]) <= end + 0.1 * jump
            if now < 1.3 * end or not (regained if back else least) <= jump / (start - end) < most:
                return None
        elif now < factor * end:
            return None
        if sum(v > end + 0.5 * jump for v in new[:10]) < 9 or median(new[-5:]) > now - 0.1 * jump:
            return None
        shown = (after.evidence(new_at[0], *_NAMES), before.evidence(old_at[-1], *_NAMES))
        note = (
            f"the loss was {number(end)} before the resume, is {number(now)} at {after.where(new_at[0])} and"
            f" {number(median(new[-5:]))} at {after.where(new_at[-1])}"
        )
        return Sign(after, new_at[0], shown, note, "loss")

    return _run(metrics, observations, look)


def loss_and_gradients_jump(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    norms: float = 3.0,
    mads: float = 5.0,
    rise: float = 1.1,
    steps: int = 6,
    least: int = 4,
    records: int = 20,
) -> tuple[Observation, ...]:
    """After a resume both loss and gradient norm are up for some records, and come back: the optimizer began cold (C1).

    norms: gradient norm over the one before, in each record of the first `steps` steps, and in `least` records. mads:
        in these the loss is above the median of the last `records` before by so many MADs, and `rise` times as high (of
        more of them, a loss that still falls has no level). records: the fewest before and after. The loss ends below
        the middle of the jump, which other data does not do, and where a learning rate is logged it goes on at most 1.4
        times as high: a schedule that began anew is another entry (C14).
    """

    def look(before: Stream, after: Stream) -> Sign | None:
        if after.names & RL_NAMES:
            return None
        old, new = (part.pairs("loss", "grad_norm") for part in (before, after))
        if min(len(old), len(new)) < records:
            return None
        level, spread = _level([v for _, v, _ in old[-records:]])
        norm = median(n for _, _, n in old[-records:])
        if level <= 0 or norm <= 0:
            return None
        bound = max(level + mads * spread, rise * level)
        lasting = max(least, math.ceil(steps / _steps_of_a_record(before)))
        first = new[:lasting]
        if any(v <= bound or n < norms * norm for _, v, n in first):
            return None
        if median(v for _, v, _ in new[-5:]) > (level + first[0][1]) / 2:
            return None
        rates, then = _rates(before), _rates(after)
        if rates and then and then[0][1] > 1.4 * rates[-1][1]:
            return None
        at, loss, now = first[0]
        note = (
            f"the loss was {number(level)} and the gradient norm {number(norm)} before the resume; at {after.where(at)}"
            f" they are {number(loss)} and {number(now)}, and both stay up for {lasting} records and more before they"
            " come back"
        )
        shown = (after.evidence(at, *_NAMES), before.evidence(old[-1][0], *_NAMES))
        return Sign(after, at, shown, note, "loss")

    return _run(metrics, observations, look)


def _steps_of_a_record(part: Stream) -> float:
    """Steps from one record to the next, on average; 1 where no steps are known."""
    steps = [s for s in part.steps if s is not None]
    return max(1.0, (steps[-1] - steps[0]) / (len(part.steps) - 1)) if len(steps) > 1 else 1.0


def _level(values: Sequence[float]) -> tuple[float, float]:
    """Median and median absolute deviation."""
    middle = median(values)
    return middle, median(abs(v - middle) for v in values)
