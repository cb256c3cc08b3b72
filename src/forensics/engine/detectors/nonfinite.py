"""NaN and Inf in loss and gradients: which came first, on which rank, and whether it stayed.

Four detectors share one analysis, so that a run gets one of them and not all three:

    nan_one_rank_first   loss is NaN on some ranks while others still log a finite loss at that step   (P11)
    nan_same_step        several attempts lose the loss at one and the same step                     (P11)
    nan_gradients        grad_norm turns NaN first, with the loss of the same record finite            (P8, P14)
    nan_loss             everything else                                                             (P8, P14)

A loss that grows without bound before it overflows is a divergence (loss_shape.py) and gives none of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.loss_shape import exploded
from forensics.engine.detectors.names import TOGETHER
from forensics.engine.detectors.series import (
    NO_STEP,
    RL_NAMES,
    Moment,
    Sign,
    Stream,
    dated,
    merge,
    moment,
    number,
    segments,
    streams,
)
from forensics.engine.few import Same, few
from forensics.model import Evidence, Observation

if TYPE_CHECKING:
    import polars as pl

# Where a run logs no total loss, these stand for it, in this order.
_STAND_INS = ("policy_loss", "loss_part")
_TERMS = "terms instead of a loss"  # marks a stream where that was done
# A data-parallel all-reduce spreads a NaN to all ranks within a step. Where the others go on for this many records with
# a finite loss it did not: what is wrong may be the rank's device or its own copy of the weights as well as its data.
SPREAD = 5
UNSPREAD = 0.6  # what of the weight is left then
# Records from the first on whose norm is NaN, after which it is no scaler's calibration where none is logged: torch's
# scale begins at 2^16 (grad_scaler.py), and ten halvings are more than healthy runs take.
UNCALIBRATED = 10
_NAMES = ("loss", *_STAND_INS, "grad_norm", "loss_scale", "overflow", "skipped_steps", "nan_steps", "lr")


_NEVER = (math.inf, math.inf)


class _Onset(NamedTuple):
    loss: int | None  # record of the first loss that is lost for good
    grad: int | None  # record of the first gradient norm that is, at or before that
    weight: float = 1.0
    zero: bool = False  # the loss shows as exactly 0, not as nan


def nan_loss(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, persist: int = 3, calibration: int = 25
) -> tuple[Observation, ...]:
    """The loss becomes NaN or Inf and stays so.

    persist: records in a row that make it permanent (P14: isolated and recovered is a guarded step, not a failure);
        fewer are enough where the record ends with them. Counted as NaN are also: no loss at all on a Megatron line
        that skipped nothing while the gradient norm is NaN (`if avg > 0` drops the field), and HF Trainer's 0.0 with a
        NaN grad_norm (`logging_nan_inf_filter`, TR1), or a healthy loss that drops to exactly 0 and stays there.
    calibration: records that an fp16 scaler may skip at the start (2^32 to a usable scale takes 16 to 20 skips, P5).
    """
    kind, signs, logging, culprits = _analyse(metrics, persist, calibration)
    if kind != "loss":
        return ()
    together = _at_once(signs, logging)
    if together:
        signs = [
            replace(s, note=s.note.replace(_whose(s.stream), f", on all {together} ranks that log it")) for s in signs
        ]
    found = merge(signs, logging, () if together else culprits)
    return tuple(replace(o, captures={**o.captures, TOGETHER: str(together)}) for o in found) if together else found


def _at_once(signs: Sequence[Sign], logging: Sequence[Stream]) -> int:
    """On how many ranks the loss is lost, where that is at the same step on all that log it; 0 where it is not."""
    ranks = {s.stream.rank for s in signs}
    steps = {s.step for s in signs}
    alike = len(steps) == 1 and None not in steps | ranks and ranks == {p.rank for p in logging}
    return len(ranks) if alike and len(ranks) > 1 else 0


def _whose(part: Stream) -> str:
    return f", on rank {part.rank}" if part.rank is not None else ""


def nan_gradients(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, persist: int = 3, calibration: int = 25
) -> tuple[Observation, ...]:
    """The gradient norm becomes NaN or Inf and stays so, while the loss of the same record is still finite.

    Parameters as for `nan_loss`. Norms of steps that a loss scaler skips are non-finite by design: where the scale
    falls in the same records it is left to `scale_collapse`.
    """
    kind, signs, logging, culprits = _analyse(metrics, persist, calibration)
    return merge(signs, logging, culprits) if kind == "grad" else ()


def nan_one_rank_first(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, persist: int = 3, calibration: int = 25
) -> tuple[Observation, ...]:
    """The loss is NaN on a minority of ranks first, while others log a finite loss at the same step.

    The gradient all-reduce spreads it to everyone one step later, so the first ranks hold the cause: their batch, or
    their device. Parameters as for `nan_loss`.
    """
    kind, signs, logging, culprits = _analyse(metrics, persist, calibration)
    return merge(signs, logging, culprits) if kind == "rank" else ()


def nan_same_step(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, persist: int = 3, calibration: int = 25
) -> tuple[Observation, ...]:
    """Two or more attempts lose the loss at the same step: the data at that step is to blame, not chance (P11).

    Parameters as for `nan_loss`.
    """
    kind, signs, logging, culprits = _analyse(metrics, persist, calibration)
    return merge(signs, logging, culprits)[:1] if kind == "repeated" else ()


def _analyse(
    metrics: pl.DataFrame, persist: int, calibration: int
) -> tuple[str, list[Sign], tuple[Stream, ...], tuple[int, ...] | None]:
    """(which of the four, its signs, streams that log it, culprits)"""
    return remembered_analysis(Same(metrics), persist, calibration)


@lru_cache(maxsize=1)
def remembered_analysis(
    same: Same[pl.DataFrame], persist: int, calibration: int
) -> tuple[str, list[Sign], tuple[Stream, ...], tuple[int, ...] | None]:
    """`_analyse`, remembered until `cache_clear`: four detectors ask for it."""
    metrics = same.value
    if not _worth_a_look(metrics):
        return "", [], (), None
    parts = [part for stream in streams(metrics, _NAMES) for part in segments(_with_loss(stream))]
    found = [(part, onset) for part in parts if (onset := _onset(part, persist, calibration)) is not None]
    if not found:
        return "", [], (), None
    by_attempt: dict[int, set[int]] = {}
    for part, onset in found:
        step = part.steps[onset.loss] if onset.loss is not None else None
        if part.attempt is not None and step is not None:
            by_attempt.setdefault(part.attempt, set()).add(step)
    again = len(by_attempt) > 1 and len({min(steps) for steps in by_attempt.values()}) == 1
    first_attempt = min((part.attempt for part, _ in found if part.attempt is not None), default=None)
    found = [(p, o) for p, o in found if p.attempt is None or p.attempt == first_attempt] or found
    losses = [(p, o) for p, o in found if o.loss is not None]
    logging = tuple(p for p in parts if "loss" in p.columns)
    if culprits := _minority(losses, logging):
        signs = [_sign(p, o, o.loss) for p, o in losses if o.loss is not None]
        alone = _finite_after(logging, [s for s in signs if s.stream.rank in culprits])
        if alone >= SPREAD:
            more = f"; the other ranks' loss stays finite for {alone} records more, so that nothing spread it to them"
            signs = [replace(s, note=s.note + more, weight=s.weight * UNSPREAD) for s in signs]
        return "rank", signs, logging, culprits
    if again:
        times = len(by_attempt)
        signs = [
            replace(sign, note=f"{sign.note}; the same step in each of {times} attempts")
            for sign in (_sign(p, o, o.loss) for p, o in losses if o.loss is not None)
        ]
        return "repeated", signs, logging, ()
    grads = [(p, o) for p, o in found if o.grad is not None]
    first_loss = min((_position(p, o.loss) for p, o in losses if o.loss is not None), default=_NEVER)
    first_grad = min((_position(p, o.grad) for p, o in grads if o.grad is not None), default=_NEVER)
    if first_grad < first_loss:
        signs = [_sign(p, o, o.grad) for p, o in grads if o.grad is not None]
        return "grad", signs, tuple(p for p in parts if "grad_norm" in p.columns), None
    return "loss", [_sign(p, o, o.loss) for p, o in losses if o.loss is not None], logging, None


def _finite_after(logging: Sequence[Stream], lost: Sequence[Sign]) -> int:
    """How many records of a finite loss each other rank has after the first that was lost, at least.

    0 where one's loss is lost too.
    """
    by_epoch = dated(logging)
    culprits = {s.stream.rank for s in lost}
    start = min((moment(s.stream, s.at, by_epoch) for s in lost), default=_NEVER)
    after: dict[int, list[float]] = {}
    for part in logging:
        if part.rank is None or part.rank in culprits:
            continue
        mine = after.setdefault(part.rank, [])
        for i, value in enumerate(part.column("loss")):
            if value is not None and part.steps[i] is not None and moment(part, i, by_epoch) > start:
                mine.append(value)
    return min((len(v) if all(map(math.isfinite, v)) else 0 for v in after.values()), default=0)


def _with_loss(stream: Stream) -> Stream:
    """The stream; where it has no total loss, with the first of _STAND_INS in its place."""
    if "loss" in stream.columns:
        return stream
    name = next((name for name in _STAND_INS if name in stream.columns), None)
    if name is None:
        return stream
    return replace(stream, columns={**stream.columns, "loss": stream.columns[name]}, names=stream.names | {_TERMS})


def _worth_a_look(metrics: pl.DataFrame) -> bool:
    """Whether any loss or norm is non-finite or 0 at all: cheap, and no for nearly every run."""
    import polars as pl

    if (rows := few(metrics)) is not None:
        watched = {"loss", *_STAND_INS, "grad_norm"}
        return any(
            row.name == "nan_steps"
            or (row.name in watched and row.value is not None and (row.value == 0.0 or not math.isfinite(row.value)))
            for row in rows
        )
    odd = ~pl.col("value").is_finite() | (pl.col("value") == 0.0)
    suspects = metrics.filter(
        pl.col("name").is_in(["loss", *_STAND_INS, "grad_norm"]) & odd | (pl.col("name") == "nan_steps")
    )
    return not suspects.is_empty()


def _position(stream: Stream, at: int) -> Moment:
    step = stream.steps[at]
    return (stream.epochs[at] or 0.0, step if step is not None else at)


def _bad(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def _all_finite(values: Sequence[float | None]) -> bool:
    """Whether every number given is finite; without a loop in Python, for most records are."""
    return all(map(math.isfinite, filter(None, values)))


def _onset(part: Stream, persist: int, calibration: int) -> _Onset | None:
    loss, grad = part.column("loss"), part.column("grad_norm")
    if _all_finite(loss) and _all_finite(grad) and 0.0 not in loss and not any(part.column("nan_steps")):
        return None
    lost, zero = _lost(part, loss, grad)
    if not any(lost) and not any(_bad(v) for v in grad):
        return None
    known = [i for i in range(len(part)) if loss[i] is not None or lost[i]]
    # Of several terms one may be without meaning now and then; only all of them together are the loss.
    total = _TERMS not in part.names
    at, weight = _permanent(known, lost, persist, scaled=_has_scaler(part), total=total)
    # Zeros look as if the loss had come back down, so that no divergence is seen in them.
    if at is not None and at not in zero and exploded([v for v in loss[:at] if v is not None]):
        return None
    grad_at = _grad_onset(part, grad, at, persist, calibration)
    if at is None and grad_at is None:
        return None
    return _Onset(at, grad_at, weight, at is not None and at in zero)


def _lost(part: Stream, loss: Sequence[float | None], grad: Sequence[float | None]) -> tuple[list[bool], set[int]]:
    """For each record whether its loss is lost, also where it is printed as nothing or 0; and which are such zeros."""
    lost = [_bad(v) for v in loss]
    skipped, nans = part.column("skipped_steps"), part.column("nan_steps")
    if "loss" in part.columns and "skipped_steps" in part.columns:
        for i, value in enumerate(loss):
            if value is None and skipped[i] == 0 and (_bad(grad[i]) or (nans[i] or 0) > 0):
                lost[i] = True
    zeros = [i for i, v in enumerate(loss) if v == 0.0]
    if not zeros:
        return lost, set()
    marked = {i for i in zeros if _bad(grad[i])}
    if part.names & RL_NAMES:  # whose loss is 0 by itself where the policy has not moved
        for i in marked:
            lost[i] = True
        return lost, marked
    first = zeros[0]
    given = [v for v in loss[:first] if v is not None and math.isfinite(v)]
    rest = [v for v in loss[first:] if v is not None]
    dead = all(grad[i] is None or _bad(grad[i]) or grad[i] == 0.0 for i in zeros)
    # A loss that someone memorises goes down to 0.0003 smoothly; this one falls from a healthy value at once.
    if (
        dead
        and len(rest) >= 3
        and not any(rest)
        and len(given) >= 3
        and given[-1] >= 0.02
        and median(given[-5:]) >= 0.02
    ):
        marked.update(zeros)
    for i in marked:
        lost[i] = True
    return lost, marked


def _permanent(
    known: Sequence[int], lost: Sequence[bool], persist: int, *, scaled: bool, total: bool
) -> tuple[int | None, float]:
    """The record from which the loss is lost, and how sure that is; (None, 0) where it comes back.

    scaled: a loss scaler is at work, so that one or two last records may be steps that it skips.
    total: the records are of one total loss, not of its terms.
    """
    flags = [lost[i] for i in known]
    for j, flag in enumerate(flags):
        if not flag or (j and flags[j - 1]):
            continue
        length = next((k for k in range(j, len(flags)) if not flags[k]), len(flags)) - j
        at_end = j + length == len(flags)
        if not total and not (at_end and length >= 2 * persist):
            continue
        if length >= persist or (at_end and length >= 2 and not scaled):
            return known[j], 1.0
        if at_end and len(flags) >= 2 and not scaled:
            return known[j], 0.75
        rest = flags[j:]
        if sum(rest) >= 5 and sum(rest) >= 0.3 * len(rest):
            return known[j], 0.85
    return None, 0.0


def _grad_onset(
    part: Stream, grad: Sequence[float | None], loss_at: int | None, persist: int, calibration: int
) -> int | None:
    known = [i for i, v in enumerate(grad) if v is not None]
    flags = [_bad(grad[i]) for i in known]
    for j, flag in enumerate(flags):
        if not flag or (j and flags[j - 1]):
            continue
        length = next((k for k in range(j, len(flags)) if not flags[k]), len(flags)) - j
        at = known[j]
        stop = known[j + length - 1]
        at_end = j + length == len(flags)
        if loss_at is not None:
            # The last stretch of bad norms that begins just before the loss is lost.
            if at < loss_at and (stop >= loss_at or loss_at - stop <= 2):
                return at
            continue
        if _scaled(part, at, stop):
            continue
        scaler = any(name in part.columns for name in ("loss_scale", "overflow", "skipped_steps"))
        never = at_end and not scaler and length >= UNCALIBRATED
        if j == 0 and length <= calibration and not never:
            continue
        if (at_end and length >= persist) or length >= calibration:
            return at
    return None


def _has_scaler(part: Stream) -> bool:
    """Whether a loss scaler is at work: a scale of 1 in all records is what Megatron prints of bf16, which has none."""
    return "overflow" in part.columns or any(v is not None and v != 1 for v in part.column("loss_scale"))


def _scaled(part: Stream, start: int, stop: int) -> bool:
    """Whether a loss scaler skipped the steps of these records."""
    window = slice(max(0, start - 1), stop + 2)
    scale = [v for v in part.column("loss_scale")[window] if v is not None]
    if any(b < a for a, b in itertools.pairwise(scale)):
        return True
    events = [*part.column("overflow")[window], *part.column("skipped_steps")[window]]
    return any(v for v in events if v is not None)


def _sign(part: Stream, onset: _Onset, at: int | None) -> Sign:
    assert at is not None
    loss = part.column("loss")
    before = next((i for i in range(at - 1, -1, -1) if (v := loss[i]) is not None and math.isfinite(v)), None)
    names = ("loss", "grad_norm", "loss_scale")
    evidence: list[Evidence] = [part.evidence(at, *names)]
    if before is not None:
        evidence.append(part.evidence(before, *names))
    last = onset.loss if onset.loss is not None and onset.loss > at else min(at + 1, len(part) - 1)
    if last != at:
        evidence.append(part.evidence(last, *names))
    whose = _whose(part)
    earlier = f" (it was {number(loss[before] or 0.0)} at {part.where(before)})" if before is not None else ""
    grad = part.column("grad_norm")[at]
    if at == onset.grad and at != onset.loss:
        then = f"; the loss is lost from {part.where(onset.loss)} on" if onset.loss is not None else ""
        note = (
            f"grad_norm is {number(grad or 0.0)} from {part.where(at)} on{whose}, while the loss is still finite{then}"
        )
    elif loss[at] is None:
        norm = number(grad) if grad is not None else "not given"
        note = f"the loss is missing at {part.where(at)}{whose}, with grad_norm {norm}{earlier}"
    elif onset.zero:
        how = "with a NaN grad_norm" if _bad(grad) else "at once"
        note = (
            f"the loss shows as exactly 0 from {part.where(at)} on{whose}, {how}{earlier}: a NaN that the logger hides"
        )
    else:
        note = f"the loss is {number(loss[at] or 0.0)} from {part.where(at)} on{whose}{earlier}"
    metric = "loss" if loss[at] is not None else "grad_norm"
    return Sign(part, at, tuple(evidence), note, metric, onset.weight if at == onset.loss else 1.0)


def _minority(found: Sequence[tuple[Stream, _Onset]], logging: Sequence[Stream]) -> tuple[int, ...]:
    """The ranks whose loss was lost at the first step where any was, if most ranks' loss was finite at that step."""
    by_epoch = dated(logging)
    for binary in (False, True):
        first: dict[int, Moment] = {}
        for part, onset in found:
            if part.binary is binary and part.rank is not None and (at := onset.loss) is not None:
                lost = moment(part, at, by_epoch)
                if lost[1] != NO_STEP:
                    first[part.rank] = min(lost, first.get(part.rank, lost))
        if not first:
            continue
        start = min(first.values())
        blamed = {rank for rank, lost in first.items() if lost == start}
        fine = {
            part.rank
            for part in logging
            if part.binary is binary and part.rank is not None and part.rank not in blamed
            for i, value in enumerate(part.column("loss"))
            if value is not None and math.isfinite(value) and moment(part, i, by_epoch) == start
        }
        if fine and len(blamed) <= len(fine):
            return tuple(sorted(blamed))
    return ()
