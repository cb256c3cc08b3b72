"""Runs that stand still: a loss that is one number or the level of a model that guesses, a learning rate that is 0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_NAMES = ("loss", "grad_norm", "lr", "loss_scale", "update_ratio", "skipped_steps")
_ACCURACIES = ("accuracy", "eval_accuracy")
_BATCH = ("batch_size", "throughput", "step_time")
_KERAS = frozenset(("train", "validation"))  # folders of its TensorBoard callback
_SMALLEST_BATCH = 16  # whose ln a loss may stand at by chance
_MOST_EVALUATED = 100  # classes, of which an accuracy of 1/C is told to the digit
_TO_THE_DIGIT = 0.01  # relative distance: what rounding to four places takes off 1/100
# Classes of CIFAR-10 and -100 and ImageNet; entries of the vocabularies of BERT (uncased and cased), Llama 2, GPT-2,
# Llama 3 and Qwen 2. Two are left out: losses about ln 2 are what hard binary tasks end at.
_CLASSES = (10, 100, 1000, 30522, 28996, 32000, 50257, 128256, 151936)


def _parts(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    return tuple(
        part
        for stream in streams(metrics, _NAMES)
        if "loss" in stream.columns and not stream.names & RL_NAMES
        for part in segments(stream)
    )


def significant_digits(value: float) -> int:
    """Significant digits of the shortest text that gives this number."""
    return len(f"{value!r}".partition("e")[0].replace(".", "").lstrip("0-").rstrip("0"))


def _steps(part: Stream, at: Sequence[int]) -> list[int]:
    """The steps that records `at` tell; none where they all tell the same, as the last batch of each epoch does."""
    steps = [s for i in at if (s := part.steps[i]) is not None]
    return steps if len(set(steps)) > 1 else []


def _places(part: Stream, at: Sequence[int]) -> list[float]:
    """The steps of records `at`; their epochs where the stream has no steps."""
    return list(_steps(part, at)) or [e for i in at if (e := part.epochs[i]) is not None]


def from_the_start(part: Stream, at: Sequence[int]) -> bool:
    """Whether the first of records `at` is one of the run's first: within its first record's steps, or first epoch."""
    steps = _steps(part, at)
    gaps = [b - a for a, b in itertools.pairwise(steps) if b > a]
    epoch = next((e for i in at if (e := part.epochs[i]) is not None), 0.0)
    return epoch <= 1 and (not steps or (bool(gaps) and steps[0] <= max(1, median(gaps))))


def _scaler_at_work(part: Stream) -> bool:
    """Whether steps are skipped or the loss scale falls, so that nothing is updated for that reason (P10)."""
    scales = finite(part.column("loss_scale"))
    return any(finite(part.column("skipped_steps"))) or (bool(scales) and min(scales) < max(scales))


def loss_constant(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 50,
    digits: int = 6,
    least: float = 1e-3,
    alone: float = 0.9,
) -> tuple[Observation, ...]:
    """The training loss is the same number in all records (TR2), and so is the gradient norm, where there is one.

    records: the fewest, all at steps (or epochs) of their own. digits: significant digits of the loss from which on
        rounding cannot be the reason; two, where the gradient norm is 0. least: a loss below it is a task that is
        solved, unless loss and gradient norm are exactly 0 from the first record of the run on: no model has solved a
        task before it was trained. alone: the weight where no gradient norm is logged.
    """
    if not has(metrics, "loss"):
        return ()
    found = _parts(metrics)
    signs = [sign for part in found if (sign := _constant(part, records, digits, least, alone)) is not None]
    return merge(signs, found, ()) if signs else ()


def _constant(part: Stream, records: int, digits: int, least: float, alone: float) -> Sign | None:
    at, curve = part.curve("loss")
    if len(curve) < records or not math.isfinite(curve[0]) or curve.count(curve[0]) < len(curve):
        return None
    norms = finite(part.column("grad_norm"))
    if len(set(_places(part, at))) < records or _scaler_at_work(part):
        return None
    if any(finite(part.column("update_ratio"))) or (norms and min(norms) < max(norms)):
        return None
    no_gradient = len(norms) >= records and norms[0] == 0
    nothing = no_gradient and curve[0] == 0 and from_the_start(part, at)
    if not nothing and (abs(curve[0]) < least or significant_digits(curve[0]) < (2 if no_gradient else digits)):
        return None
    note = (
        f"the loss is {number(curve[0])} in all {len(curve)} records, from {part.where(at[0])} to {part.where(at[-1])}"
    )
    if norms:
        note += f", and grad_norm {number(norms[0])}"
    rates = finite(part.column("lr"))
    note += "; the learning rate is 0" if rates and max(rates) == 0 else ""
    note += ": no label counts, or nothing that is trained has a part in the loss" if nothing else ""
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at[0], at[-1]))
    return Sign(part, at[0], shown, note, "loss", 1.0 if norms else alone)


def loss_at_chance(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 100,
    steps: int = 1000,
    epochs: int = 20,
    close: float = 0.01,
    closer: float = 0.001,
    spread: float = 0.05,
    guessing: float = 0.2,
) -> tuple[Observation, ...]:
    """From its start the run's loss stands at ln C, that of a model that holds C classes for equally likely (O1).

    records, steps: the fewest to judge by (O1 has 200 steps, which a warm-up takes as well); epochs: where each record
        is an epoch of its own, or each epoch has a few. Without steps, twice as many records, over an epoch or more.
    close: relative distance of the loss from ln C (O1: 2 %), for the thousand classes and the vocabularies of _CLASSES.
    closer: that for fewer classes, whose ln C is a loss that language models have too, and for a batch of samples told
        apart from each other (contrastive losses), where the log says its size.
        One record in twenty may lie further off.
    guessing: relative distance of the accuracy from 1/C, where one is logged beside the loss. If that is chance as
        well, C may be any number, the median of the loss has to be `close`, and nine of ten records within `spread`,
        which is the noise of small batches. Of two classes both have to be ten times as near: hard binary tasks end
        thereabouts. A few evaluations do as well, and then half of the records without steps, where they are nearer
        (`_evaluated`).
    No trend: the medians of the first and the last quarter are within a quarter of the distance. A rate that still
    grows is a warm-up.
    """
    if not has(metrics, "loss"):
        return ()
    found = _whole_runs(metrics)
    signs = []
    for part in found:
        if _long_from_the_start(part, records, steps, epochs, 2 * records) or _epochs_of_keras(part, found, epochs):
            chance = (
                _guess(part, close, spread, guessing)
                or _level_of_classes(part, close, closer)
                or _level_of_batch(part, metrics, closer)
                or _evaluated(part, close, closer)
            )
        elif _long_from_the_start(part, records, steps, epochs, records):
            chance = _evaluated(part, close, closer)
        else:
            continue
        if chance is not None and (sign := _at_chance(part, *chance)) is not None:
            signs.append(sign)
    return merge(signs, found, ()) if signs else ()


def at_stated_chance(
    metrics: pl.DataFrame,
    stated: Mapping[int, str],
    *,
    records: int = 100,
    steps: int = 1000,
    epochs: int = 20,
    close: float = 0.01,
    spread: float = 0.05,
) -> tuple[Observation, ...]:
    """`loss_at_chance` where the run itself says how many classes there are, so that no accuracy has to bear it out.

    stated: C -> the setting that says so. The median of the loss is `close` to ln C (O1: 2 %), nine of ten records lie
    within `spread`, which is the noise of small batches, and an accuracy, where there is one, is not above chance.
    """
    if not has(metrics, "loss"):
        return ()
    found = _whole_runs(metrics)
    signs = []
    for part in found:
        if not _long_from_the_start(part, records, steps, epochs, 2 * records):
            continue
        chance = _level_of_stated(part, stated, close, spread)
        if chance is not None and (sign := _at_chance(part, *chance)) is not None:
            signs.append(sign)
    return merge(signs, found, ()) if signs else ()


def _whole_runs(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    """Streams of a loss, not cut where steps go back: many loops count them within an epoch."""
    return tuple(
        s
        for s in streams(metrics, (*_NAMES, *_ACCURACIES))
        if "loss" in s.columns and not s.names & RL_NAMES and len({*s.attempts}) < 2
    )


def _long_from_the_start(part: Stream, records: int, steps: int, epochs: int, stepless: int) -> bool:
    """Whether a stream holds a run from its start on, once through, in enough records of a finite loss.

    stepless: the fewest records where they bear no steps.
    """
    at, curve = part.curve("loss")
    if len(curve) < min(records, epochs) or not all(map(math.isfinite, curve)) or not from_the_start(part, at):
        return False
    told = [(s, part.epochs[i] or 0.0) for i in at if (s := part.steps[i]) is not None]
    if len({s for s, _ in told}) < 2:
        over = _places(part, at)
        rises = [b - a for a, b in itertools.pairwise(over)]
        if len(over) < len(curve):
            return False
        if all(rise == 1 for rise in rises):
            return len(over) >= epochs
        # HF Trainer's dicts have fractions of an epoch; the fewest records stand for as many steps, of a whole epoch.
        return len(over) >= stepless and min(rises) >= 0 and over[-1] - over[0] >= 1
    if any(b[0] < a[0] and b[1] <= a[1] for a, b in itertools.pairwise(told)):  # it began anew
        return False
    enough = len(told) >= records or told[-1][1] - told[0][1] >= epochs - 1  # the last epoch counts as well
    return enough and sum(b[0] - a[0] for a, b in itertools.pairwise(told) if b[0] > a[0]) >= steps


def _epochs_of_keras(part: Stream, streams_of_run: Sequence[Stream], epochs: int) -> bool:
    """Whether each record is an epoch, as Keras' TensorBoard callback counts its steps, from the start, long enough.

    It writes `train/` and `validation/` side by side, and into both at the end of each epoch
    (keras/src/callbacks/tensorboard.py).
    """
    at, curve = part.curve("loss")
    told = [part.steps[i] for i in at]
    if len(told) < epochs or not part.binary or told != list(range(len(told))) or not all(map(math.isfinite, curve)):
        return False
    beside = {_place(s.source) for s in streams_of_run if [s.steps[i] for i in s.curve("loss")[0]] == told}
    above, folder = _place(part.source)
    return folder in _KERAS and {(above, name) for name in _KERAS} <= beside


def _place(source: str) -> tuple[str, str]:
    """("logs", "train") of "logs/train/events.out.tfevents...": what its folder lies in, and how that is called."""
    above, _, folder = source.rpartition("/")[0].rpartition("/")
    return above, folder


def _level_of_classes(part: Stream, close: float, closer: float) -> tuple[int, float, str] | None:
    """(C, band about ln C, what is said of accuracy) where nearly all of the loss is in the band of a usual C."""
    _, curve = part.curve("loss")
    level = median(curve)
    classes = min(_CLASSES, key=lambda c: abs(math.log(c) - level))
    chance = math.log(classes)
    band = chance * (close if classes >= 1000 else closer)
    if sum(abs(v - chance) > band for v in curve) > 0.05 * len(curve) or abs(level - chance) > band:
        return None
    return classes, band, ""


def _level_of_batch(part: Stream, metrics: pl.DataFrame, closer: float) -> tuple[int, float, str] | None:
    """The same where C is the size of the batch, said by itself or as what is done in a second and in how long."""
    _, curve = part.curve("loss")
    level = median(curve)
    if sum(abs(v - level) > 2 * closer * level for v in curve) > 0.05 * len(curve):
        return None
    own = next((s for s in streams(metrics, _BATCH) if (s.source, s.rank) == (part.source, part.rank)), None)
    if own is None:
        return None
    sizes = finite(own.column("batch_size"))
    told = zip(own.column("throughput"), own.column("step_time"), strict=True)
    size = median(sizes or [a * b for a, b in told if a is not None and b is not None] or [0.0])
    if not _SMALLEST_BATCH <= size < math.inf:
        return None
    chance = math.log(size)
    band = closer * chance
    if sum(abs(v - chance) > band for v in curve) > 0.05 * len(curve):
        return None
    return round(size), band, ", the size of the batch: no sample is told from another"


def _level_of_stated(
    part: Stream, stated: Mapping[int, str], close: float, spread: float
) -> tuple[int, float, str] | None:
    """The same where C is the number that a setting states."""
    _, curve = part.curve("loss")
    level = median(curve)
    classes = min(stated, key=lambda c: abs(math.log(c) - level))
    chance = math.log(classes)
    if abs(level - chance) > close * chance:
        return None
    if sum(abs(v - chance) > spread * chance for v in curve) > 0.1 * len(curve):
        return None
    for name in _ACCURACIES:
        shares = finite(part.column(name))
        if shares and median(shares[-10:]) * classes > 2 * (100.0 if max(shares) > 1 else 1.0):
            return None
    return classes, chance * close, f", and {stated[classes]} is {classes}"


def _guess(part: Stream, close: float, spread: float, guessing: float) -> tuple[int, float, str] | None:
    """The same where an accuracy is 1/C all along and the loss lies about ln C."""
    _, curve = part.curve("loss")
    level = median(curve)
    if not math.log(2) * (1 - close) <= level <= 20:
        return None
    usual = min(_CLASSES, key=lambda c: abs(math.log(c) - level))
    classes = usual if abs(math.log(usual) - level) <= close * level else max(2, round(math.exp(level)))
    chance = math.log(classes)
    narrow = 0.1 if classes == 2 else 1.0
    if abs(level - chance) > narrow * close * chance:
        return None
    if sum(abs(v - chance) > spread * chance for v in curve) > 0.1 * len(curve):
        return None
    for name in _ACCURACIES:
        _, shares = part.curve(name)
        if len(shares) < 10 or not all(map(math.isfinite, shares)):
            continue
        whole = 100.0 if max(shares) > 1 else 1.0
        quarter = len(shares) // 4
        if all(
            abs(median(values) * classes / whole - 1) <= narrow * guessing
            for values in (shares, shares[:quarter], shares[-quarter:])
        ):
            return classes, chance * close, f", and {name} is {number(median(shares))}, which guessing gives"
    return None


def _evaluated(part: Stream, close: float, closer: float) -> tuple[int, float, str] | None:
    """The same where evaluations are few: each gives 1/C to the digit, as one answer for all of a balanced set does.

    The median of the loss is `closer` to ln C, and 19 of 20 records `close`. Not of two classes, nor of so many that
    accuracies are rounded away.
    """
    _, curve = part.curve("loss")
    classes = round(math.exp(min(median(curve), 20.0)))
    if not 3 <= classes <= _MOST_EVALUATED:
        return None
    chance = math.log(classes)
    if abs(median(curve) - chance) > closer * chance:
        return None
    if sum(abs(v - chance) > close * chance for v in curve) > 0.05 * len(curve):
        return None
    _, shares = part.curve("eval_accuracy")
    whole = 100.0 if shares and max(shares) > 1 else 1.0
    if not shares or not all(abs(v * classes / whole - 1) <= _TO_THE_DIGIT for v in shares):
        return None
    return classes, close * chance, f", and eval_accuracy is {number(median(shares))}, which guessing gives"


def _at_chance(part: Stream, classes: int, band: float, accuracy: str) -> Sign | None:
    at, curve = part.curve("loss")
    if _constant(part, 50, 6, 1e-3, 1.0) is not None or _scaler_at_work(part):
        return None
    quarter = len(curve) // 4
    if abs(median(curve[:quarter]) - median(curve[-quarter:])) > band / 4:
        return None
    rates = finite(part.column("lr"))
    if rates and rates[-1] >= max(rates) and rates[-1] > rates[len(rates) // 2]:
        return None
    chance = math.log(classes)
    off = sorted(abs(v - chance) for v in curve)[math.ceil(0.95 * len(curve)) - 1]
    note = (
        f"the loss is within {off / chance:.1%} of {chance:.4f} = ln {classes} in 95 % of {len(curve)} records, from"
        f" {part.where(at[0])} to {part.where(at[-1])}{accuracy}"
    )
    shown = tuple(part.evidence(i, "loss", *_ACCURACIES, "lr") for i in (at[0], at[-1]))
    return Sign(part, at[0], shown, note, "loss", captures={"classes": str(classes)})


# Files whose numbers programs write for programs. Lines for people round: a rate of 1e-5 is printed as 0.0000. Some
# forms do not, and these have a milestone.
_UNROUNDED = (".csv", ".tsv", ".json", ".jsonl")
_PRINTED = "rate-printed-zero"


def _exactly(part: Stream, zeros: Sequence[int], observations: Sequence[Observation]) -> bool:
    """Whether a rate of 0 in records `zeros` is 0 and not a small number that was rounded."""
    if part.binary or part.source.endswith(_UNROUNDED):
        return True
    lines = {part.lines[i] for i in zeros}
    told = (o.evidence[0] for o in observations if o.signature == _PRINTED and o.evidence)
    return any(e.file == part.source and e.line in lines for e in told)


def _stands(curve: Sequence[float], gain: float) -> bool:
    """Whether a loss falls by no more than a part `gain` of itself, or than its noise, from first to last quarter.

    The noise: three standard errors of a difference of two medians, 1.25 * sigma * sqrt(2 / n), of MADs in a quarter.
    """
    quarter = len(curve) // 4
    if quarter == 0 or not all(map(math.isfinite, curve)):
        return False
    first, last = median(curve[:quarter]), median(curve[-quarter:])
    deviation = 1.4826 * median(abs(v - last) for v in curve[-quarter:])
    return first - last <= max(gain * abs(first), 3 * 1.25 * deviation * math.sqrt(2 / quarter))


def rate_always_zero(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 50, gain: float = 0.02
) -> tuple[Observation, ...]:
    """The learning rate is exactly 0 in all records while gradients arrive, and the loss stands.

    records: the fewest. gain: relative fall of the loss from the first to the last quarter (O7: 2 %). Only numbers
    that are not rounded count: those of event files, CSV and JSON, and what observations of _PRINTED say.
    """
    if not has(metrics, "lr") or not has(metrics, "grad_norm"):
        return ()
    found = [s for s in _parts(metrics) if {"lr", "grad_norm"} <= s.columns.keys()]
    signs = []
    for part in found:
        at, rates = part.curve("lr")
        norms = finite(part.column("grad_norm"))
        if len(rates) < records or any(rates) or not _exactly(part, at, observations):
            continue
        _, curve = part.curve("loss")
        if len(norms) < records or min(norms) <= 0 or len(curve) < records:
            continue
        if not _stands(curve, gain) or _scaler_at_work(part):
            continue
        note = (
            f"the learning rate is exactly 0 in all {len(rates)} records, while grad_norm is up to"
            f" {number(max(norms))}; the loss stays about {number(median(curve))}"
        )
        shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at[0], at[-1]))
        signs.append(Sign(part, at[0], shown, note, "lr"))
    return merge(signs, found, ()) if signs else ()


def updates_end(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 30,
    part_of_run: float = 0.2,
    before: int = 10,
    norm: float = 0.1,
    loss: float = 0.01,
    gain: float = 0.02,
    fine: float = 0.02,
) -> tuple[Observation, ...]:
    """From some record to the last the learning rate is exactly 0, and it was not before; the gradient norm may be too.

    records, part_of_run: how long at least; a schedule that ends with the run has one such record. before: records with
        a rate and a norm above 0. norm: where the norm is 0 as well, the median of the last five norms above 0, at
        least, and half of the usual one: a norm that fades away is rounded to 0. loss: a smaller one is a task that is
        solved.
    gain, fine: where gradients go on to arrive, the loss has to stand (O7: 2 %), and the rate to be 0 indeed: not
        rounded, or in a record whose last rates before are printed down to this part of the highest one.
    """
    if not has(metrics, "lr") or not has(metrics, "grad_norm"):
        return ()
    found = [s for s in _parts(metrics) if {"lr", "grad_norm"} <= s.columns.keys()]
    signs = []
    for part in found:
        told = _rates(part)
        if len(told) < records + before or not all(math.isfinite(r.loss + r.norm + r.rate) for r in told):
            continue
        if _scaler_at_work(part):
            continue
        least = max(records, part_of_run * len(told))
        sign = _ended(part, told, least, before, norm, loss) or _rate_ended(
            part, told, least, before, loss, gain, fine, observations
        )
        if sign is not None:
            signs.append(sign)
    return merge(signs, found, ()) if signs else ()


class _Told(NamedTuple):
    """A record that has all three, by its number in the stream."""

    at: int
    loss: float
    norm: float
    rate: float


def _rates(part: Stream) -> list[_Told]:
    columns = zip(part.column("loss"), part.column("grad_norm"), part.column("lr"), strict=True)
    return [
        _Told(i, v, g, r)
        for i, (v, g, r) in enumerate(columns)
        if v is not None and g is not None and r is not None
    ]  # fmt: skip


def _ended(part: Stream, told: Sequence[_Told], least: float, before: int, norm: float, loss: float) -> Sign | None:
    """Rate and gradient norm are both 0 to the end."""
    start = next((k + 1 for k in range(len(told) - 1, -1, -1) if told[k].norm or told[k].rate), 0)
    rest = told[start:]
    if len(rest) < least or median(r.loss for r in rest) < loss:
        return None
    norms = [r.norm for r in told[:start] if r.norm > 0]
    rates = [r.rate for r in told[:start] if r.rate > 0]
    if min(len(norms), len(rates)) < before or median(norms[-5:]) < max(norm, 0.5 * median(norms)):
        return None
    at = rest[0].at
    note = (
        f"learning rate and gradient norm are exactly 0 from {part.where(at)} to {part.where(rest[-1].at)}, in the last"
        f" {len(rest)} of {len(told)} records (before: {number(rates[-1])} and {number(norms[-1])})"
    )
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at, told[start - 1].at, rest[-1].at))
    return Sign(part, at, shown, note, "lr")


def _rate_ended(
    part: Stream,
    told: Sequence[_Told],
    least: float,
    before: int,
    loss: float,
    gain: float,
    fine: float,
    observations: Sequence[Observation],
) -> Sign | None:
    """The rate is 0 to the end, while gradients arrive and the loss stands."""
    start = next((k + 1 for k in range(len(told) - 1, -1, -1) if told[k].rate), 0)
    rest = told[start:]
    rates = [r.rate for r in told[:start] if r.rate > 0]
    if len(rest) < least or len(rates) < before or median(r.loss for r in rest) < loss:
        return None
    if min(rates[-5:]) > fine * max(rates) and not _exactly(part, [r.at for r in rest], observations):
        return None
    if not _stands([r.loss for r in rest], gain):
        return None
    at = rest[0].at
    note = (
        f"the learning rate is exactly 0 from {part.where(at)} to {part.where(rest[-1].at)}, in the last {len(rest)} of"
        f" {len(told)} records, and the loss stays about {number(median(r.loss for r in rest))} (the rate before:"
        f" {number(rates[-1])}; grad_norm is up to {number(max(r.norm for r in rest))})"
    )
    shown = tuple(part.evidence(i, "loss", "grad_norm", "lr") for i in (at, told[start - 1].at, rest[-1].at))
    return Sign(part, at, shown, note, "lr")
