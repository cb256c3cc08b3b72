"""Shapes of a finite loss curve: divergence, and gradient norms that ranks do not share.

Rolling medians stand for the level and median absolute deviations (MAD) for the noise, so that single outliers count
for nothing. Losses of reinforcement learning and preference tuning do not measure progress and are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.onsets import leaves_level
from forensics.engine.detectors.series import (
    RL_NAMES,
    Sign,
    Stream,
    batches_anew,
    courses,
    first_ranks,
    merge,
    number,
    segments,
    streams,
    teeth,
)
from forensics.engine.few import few
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl


# Records below which a curve shows no trend. Those of fewer than three times what a rise must last have to end at twice
# where they began.
_SHORTEST = 30
# Records that a search for the learning rate may still write after the loss is lost: Lightning's lr_find and fastai's
# learner stop as soon as it is four times its best.
_STOPPED = 20
# Records at the end that tell where a curve ended, at most: what they show is not excused by the length of what went
# before. They are a few more than a rise must last.
_ENDING = 25
_SLOW = 0.85  # how sure a rise is that takes longer than an instability does
# Of the level that the run began at: where a slow rise ends at least, and how far down the run had come before it.
_ABOVE, _LEARNED = 1.25, 0.6
# Records to either side over which a curve may wander: half of the width that levels are taken over.
_WANDER = 5
# A rise over how far the loss usually jumps from one epoch to the next: means and sums that begin anew with each epoch
# rise again and again.
_OVER_TEETH = 3.0
# The cross-entropy of language models stays above this; a loss below it may rise manifold and still be good.
_NATS = 1.0
_RAISED = 3.0  # a gradient norm over its level that goes before a loss that breaks away (P12)
_REGAINED = 0.1  # part of a rise that a model which goes on learning has made good soon


# Evaluations, the part of a whole that an accuracy had gained, and the part of this that may be left at the end: an
# accuracy that is back where it began says that a slow rise of the loss is no change of objective.
_EVALUATED, _WAS_LEARNED, _LEFT = 10, 0.2, 0.1
_GONE = 5  # records that a rise must last then


def exploded(losses: Sequence[float]) -> bool:
    """Whether the finite losses before a NaN had already left their level for good: three or more, ten times as large.

    A single jump before the overflow is a bad step and no trend (P8: "loss inf first, then nan").
    """
    finite = [abs(v) for v in losses if math.isfinite(v)]
    return _escape(finite) is not None


def _escape(sizes: Sequence[float]) -> int | None:
    """Where the sizes |loss| leave their level towards the end and do not come back; None if they do not."""
    if len(sizes) < 8:
        return None
    level = median(sizes[: max(5, len(sizes) // 2)])
    if sizes[-1] < 10 * max(level, 1e-3):
        return None
    start = len(sizes)
    while start > 0 and sizes[start - 1] > 2 * level:
        start -= 1
    return start if len(sizes) - start >= 3 else None


def rolling(values: Sequence[float], width: int) -> list[float]:
    """Trailing medians: item i covers values[i-width+1..i] (fewer at the start)."""
    import polars as pl

    return pl.Series(values, dtype=pl.Float64).rolling_median(width, min_samples=1).to_list()


def spread_about(values: Sequence[float], level: Sequence[float]) -> float:
    """MAD of values around their level."""
    return median(abs(v - m) for v, m in zip(values, level, strict=True)) if values else 0.0


def roughness(values: Sequence[float], reach: int = 1) -> float:
    """Median distance of values from the middle of those `reach` before and behind them; inf of few.

    It is the noise, whatever the trend; with a longer reach also what a curve wanders within it.
    """
    around = zip(values, values[reach:], values[2 * reach :], strict=False)
    return median(abs(b - (a + c) / 2) for a, b, c in around) if len(values) >= 10 * reach else math.inf


def noise_of(values: Sequence[float]) -> float:
    """The standard deviation that the `roughness` of normal noise stands for; inf of few."""
    return 1.4826 * roughness(values) / math.sqrt(1.5)


def loss_curves(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    """The records of each run of a loss that measures progress, with gradient norm, rate and loss scale.

    Where batches are counted anew in each epoch, an epoch is a curve of its own.
    """
    return tuple(part for stream in _losses(metrics) for part in segments(stream))


def loss_courses(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    """`loss_curves`, over the epochs of a run in one."""
    return tuple(part for stream in _losses(metrics) for part in courses(stream))


def _losses(metrics: pl.DataFrame) -> Iterator[Stream]:
    for stream in streams(metrics, ("loss", "grad_norm", "lr", "loss_scale")):
        if "loss" in stream.columns and not stream.names & RL_NAMES:
            yield stream


def loss_divergence(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 1.5,
    lost: float = 0.5,
    sustained: int = 20,
    noise: float = 8.0,
    drift: float = 0.25,
) -> tuple[Observation, ...]:
    """The training loss rises far above its best level and does not come back, or runs away until it overflows.

    ratio: smoothed loss over its running minimum (P12: EMA above 1.5 times the minimum for 50 steps or more).
    lost: part of all progress (first level minus best level) that is gone at the end, which no noisy curve, warm-up at
        ln C or over-fitting shows. A language model that has lost less than that, or less than `ratio`, but a nat or
        more, counts where its gradient norm bears it out (`_broken`).
    sustained: records that it must last, to the end of the record.
    noise: the rise in MADs of the curve (P12: 6 for a spike); below 0.3 in size a rise counts for nothing (note of P12:
        with a loss under 0.3 the band gives false alarms).
    drift: part of the record that the rise may take. A slower one counts where it ends at twice the level that the run
        began at, or a quarter above it (_ABOVE) after it had come down to _LEARNED of it, which no change of data
        explains, or where the accuracy on held-out data is lost with it (`_unlearned`), and no other loss is logged; it
        is less sure.
    """
    parts = loss_courses(metrics)
    if not parts:
        return ()
    # Where several losses are logged, one may rise because another falls: a generator's and a discriminator's.
    alone = not has(metrics, "loss_part")
    unlearned = _unlearned(metrics)
    found = (_diverged(part, ratio, lost, sustained, noise, drift, alone, part.source in unlearned) for part in parts)
    return merge([sign for sign in found if sign is not None], parts)


def _unlearned(metrics: pl.DataFrame) -> frozenset[str]:
    """Sources whose accuracy on held-out data had risen far and ends where it began: what was learned is gone."""
    name = "eval_accuracy"
    if not has(metrics, name):
        return frozenset()
    gone = set()
    for stream in streams(metrics, (name,)):
        values = stream.curve(name)[1]
        if len(values) < _EVALUATED or not all(map(math.isfinite, values)):
            continue
        whole = 100.0 if max(values) > 1 else 1.0
        first, gained = values[0], max(rolling(values, 3)[2:]) - values[0]
        if gained >= _WAS_LEARNED * whole and max(values[-3:]) <= first + _LEFT * gained:
            gone.add(stream.source)
    return frozenset(gone)


def _diverged(
    part: Stream,
    ratio: float,
    lost: float,
    sustained: int,
    noise: float,
    drift: float,
    alone: bool,
    unlearned: bool,
) -> Sign | None:
    at, values = part.curve("loss")
    finite = [(i, v) for i, v in zip(at, values, strict=True) if math.isfinite(v)]
    if len(finite) < 10:
        return None
    records, curve = [i for i, _ in finite], [v for _, v in finite]
    stop = next((k for k, v in enumerate(values) if not math.isfinite(v)), None)
    if is_range_test(part, records) and (stop is None or len(values) - stop < _STOPPED):
        return None
    before = curve if stop is None else list(values[:stop])
    sizes = [abs(v) for v in before]
    if (escape := _escape(sizes)) is not None and (stop is not None or len(before) - escape >= 5):
        escape = leaves_level(sizes, escape, 0, noise_of(sizes[: escape + 1]))
        end = f" before it overflows at {part.where(at[stop])}" if stop is not None else ""
        return _rise(
            part, records, curve, escape, len(before) - 1, f"the loss runs away from {{level}} to {{end}}{end}"
        )
    # Records of a run that is evaluated so often are epochs, or as good as these.
    sustained = min(sustained, _GONE) if unlearned else sustained
    short = len(curve) < 3 * sustained
    if stop is not None or len(curve) < _SHORTEST:
        return None
    sustained = min(sustained, len(curve) // 4) if short else sustained
    level = rolling(curve, 10)
    best_at = min(range(9, len(level)), key=lambda k: level[k])
    best, first = level[best_at], median(curve[:5])
    tail = sorted(curve[-max(sustained, min(len(curve) // 10, _ENDING)) :])
    low = tail[len(tail) // 4]
    spread = spread_about(curve[: best_at + 1], level[: best_at + 1])
    far = median(curve[-5:]) >= 2 * first
    # Or above it, where the run had learned so much that no other data explain it.
    beyond = median(curve[-5:]) >= _ABOVE * first and best <= _LEARNED * first
    rise = low - best
    if best <= 0 or rise < max(0.3, _OVER_TEETH * teeth(part, "loss")):
        return None
    # Of a language model's way down from ln V the first nats are the cheapest: logarithms tell what was lost of it.
    steep = best >= _NATS and math.log(low / best) >= lost * math.log(max(first, best) / best)
    plain = low >= ratio * best and (rise >= lost * max(first - best, 0.0) or steep)
    if not plain and (best < _NATS or rise < _NATS):
        return None
    # A level that lags behind a steep fall makes noise of the fall itself.
    spread = min(spread, roughness(curve[: best_at + 1], 1 if far or not plain else _WANDER))
    if rise < noise * spread:
        return None
    if (short or first - best < 0.05 * first) and not far:
        return None
    limit = best + 0.5 * rise
    start = len(level)
    while start > 0 and level[start - 1] > limit:
        start -= 1
    # The median lags by half its width where the loss still rises.
    if len(curve) - start < (sustained // 2 if far or beyond else sustained) or start <= best_at:
        return None
    # A slow drift is a change of objective or data, not an instability, unless it leads far above where the run began.
    left = len(level)
    while left > best_at and level[left - 1] > best + 0.1 * rise:
        left -= 1
    arrived = next((k for k in range(left, len(level)) if level[k] >= best + 0.8 * rise), len(level) - 1)
    slow = arrived - left > drift * len(curve)
    if slow and not ((far or beyond or unlearned) and alone and not is_sum(curve)):
        return None
    if level[-1] - best < 0.5 * (max(level[start:]) - best):  # on its way back
        return None
    start = max(best_at + 1, start - 9)
    onset = next((k for k in range(start, len(curve)) if curve[k] > limit), start)
    # The rise began where the curve left its noise, which may be long before it is half-way up.
    quiet = best + max(0.1 * rise, noise * spread)
    while onset > best_at + 1 and curve[onset - 1] > quiet:
        onset -= 1
    onset = leaves_level(curve, onset, best_at - 9, noise_of(curve[: onset + 1]))
    if (slow or not (far or beyond)) and _made_between_epochs(part, records, curve, best_at, arrived):
        return None
    if not plain and not _broken(part, records, curve, onset, arrived, rise, sustained):
        return None
    sign = _rise(
        part, records, curve, onset, len(curve) - 1, "the loss rises from {level} to {end} and does not come back"
    )
    return replace(sign, weight=_SLOW) if slow else sign


def _broken(
    part: Stream, records: Sequence[int], curve: Sequence[float], onset: int, arrived: int, rise: float, sustained: int
) -> bool:
    """Whether a language model that lost a nat or more broke down, and was not given other data.

    Its gradient norm rose with it to three times its level (P12), for more than a few batches, or fell to a third of
    it for good, and in the records since then (three times `sustained` or more) it has learned nothing again. Other
    data bring a norm that is alike, and are learned.
    """
    tail = curve[arrived:]
    third = len(tail) // 3
    if third < sustained or median(tail[:third]) - median(tail[-third:]) > _REGAINED * rise:
        return False
    told = part.by_step("grad_norm")
    norms = [g if g is not None and math.isfinite(g) else None for g in (told[i] for i in records)]
    before = [g for g in norms[max(0, onset - sustained) : onset] if g is not None]
    after = [g for g in norms[onset:] if g is not None]
    if min(2 * len(before), len(after)) < sustained or (usual := median(before)) <= 0:
        return False
    few_records = sustained // 4
    return max(rolling(after, few_records)[few_records - 1 :]) >= _RAISED * usual or median(after) <= usual / _RAISED


def _made_between_epochs(part: Stream, records: Sequence[int], curve: Sequence[float], start: int, stop: int) -> bool:
    """Whether a rise is made where epochs begin whose batches are counted anew, and not within them.

    Augmentation, mixing, larger images and harder data are switched on there. What is made there is more than half of
    the rise; of few records an epoch, more than the part of all changes that lie there gives by itself.
    """
    if not batches_anew(part):
        return False
    between = [
        curve[k] - curve[k - 1]
        for k in range(start + 1, stop + 1)
        if part.epochs[records[k]] != part.epochs[records[k - 1]]
    ]
    share = len(between) / max(1, stop - start)
    return sum(between) > (0.5 + 0.5 * share) * (curve[stop] - curve[start])


def is_sum(curve: Sequence[float]) -> bool:
    """Whether hardly a record is below the one before: a sum over the epoch up to here, which some loops print."""
    return sum(b < a for a, b in itertools.pairwise(curve)) <= 0.02 * len(curve)


def is_range_test(part: Stream, records: Sequence[int]) -> bool:
    """Whether the learning rate grows by a thousand and more, to the end: a search for the rate at which it breaks.

    A warm-up that has such a range starts near 0 and is linear: half of it is above half of the peak. A range test is
    exponential (Smith 2015; fastai and Lightning use it), and most of it lies below a tenth of where it ends.
    """
    lr = part.column("lr")
    rates = [r for i in records if (r := lr[i]) is not None and math.isfinite(r) and r > 0]
    if len(rates) < 20 or rates[-1] < 1e3 * rates[0] or any(b < a for a, b in itertools.pairwise(rates)):
        return False
    return median(rates) < 0.1 * rates[-1]


def _rise(part: Stream, records: Sequence[int], curve: Sequence[float], onset: int, end: int, note: str) -> Sign:
    names = ("loss", "grad_norm", "lr")
    level = median(curve[max(0, onset - 20) : onset] or curve[:1])
    at, before, after = records[onset], records[max(0, onset - 1)], records[end]
    peak = records[max(range(onset, end + 1), key=lambda k: abs(curve[k]))]
    shown = dict.fromkeys((at, before, peak, after))
    text = note.format(level=f"about {number(level)}", end=f"{number(curve[end])} at {part.where(after)}")
    return Sign(part, at, tuple(part.evidence(i, *names) for i in shown), f"{text}, from {part.where(at)} on", "loss")


def grad_norms_differ(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    agreed: int = 10,
    same: float = 1e-3,
    apart: float = 1e-2,
) -> tuple[Observation, ...]:
    """Ranks that logged one and the same gradient norm begin to log different ones, to the end of the record.

    Only ranks that agreed (within `same`, relative) for `agreed` steps are compared: a norm that never agreed is a
    local one, which sharded training logs by design. `apart`: relative difference, on `agreed` or more steps.
    """
    import polars as pl

    small = few(metrics)
    if small is not None and len({row.rank for row in small if row.name == "grad_norm"} - {None}) < 2:
        return ()
    rows = metrics.filter(
        (pl.col("name") == "grad_norm") & pl.col("rank").is_not_null() & pl.col("step").is_not_null()
        & pl.col("value").is_finite() & (pl.col("value") > 0)
    )  # fmt: skip
    if rows["rank"].n_unique() < 2:
        return ()
    signs: list[Sign] = []
    binary = pl.col("line").is_null().alias("binary")
    spread = (
        rows.group_by("step", binary, "rank").agg(pl.col("value").last())
        .group_by("step", "binary").agg(
            pl.len().alias("ranks"), pl.col("value").min().alias("low"), pl.col("value").max().alias("high"),
            pl.col("value").median().alias("middle"),
        )
        .filter(pl.col("ranks") >= 2).sort("binary", "step")
    )  # fmt: skip
    for _, part in spread.group_by("binary", maintain_order=True):
        off = ((part["high"] - part["low"]) / part["middle"]).to_list()
        start = next((k for k, d in enumerate(off) if d > apart), None)
        if start is None or start < agreed or len(off) - start < agreed:
            continue
        if any(d > same for d in off[:start]) or sum(d > apart for d in off[start:]) < 0.9 * (len(off) - start):
            continue
        step, middle = part["step"][start], part["middle"][start]
        for stream in streams(rows, ("grad_norm",)):
            i = next((i for i, s in enumerate(stream.steps) if s == step), None)
            value = stream.column("grad_norm")[i] if i is not None else None
            if i is None or value is None:
                continue
            odd = part["ranks"][start] > 2 and abs(value - middle) > apart * middle
            note = (
                f"grad_norm agreed on all {part['ranks'][start]} ranks up to step {part['step'][start - 1]};"
                f" at step {step} it lies between {number(part['low'][start])} and {number(part['high'][start])}"
            )
            signs.append(
                Sign(stream, i, (stream.evidence(i, "grad_norm"),), note, "grad_norm", captures={"odd": str(odd)})
            )
        break
    logging = [sign.stream for sign in signs]
    odd_ones = [sign for sign in signs if sign.captures["odd"] == "True"]
    culprits = first_ranks(odd_ones, logging) if odd_ones else ()
    return merge(signs, logging, culprits)
