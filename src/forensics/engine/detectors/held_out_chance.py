"""An accuracy on held-out data that never leaves chance while the model learns what it is trained on (V1).

Over-fitting shows a metric that gets better first: a model which has learned anything at all about its classes tells
them apart on held-out data too. One that stands at 1/C from the first evaluation on is given other inputs, or compared
with other labels, than in training.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, segments, streams
from forensics.engine.detectors.standstill import from_the_start
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_ACCURACY, _TRAINED = "eval_accuracy", "accuracy"
_NAMES = ("loss", "eval_loss", _ACCURACY, _TRAINED)
# Of two classes chance is what hard tasks give as well.
_FEWEST_CLASSES = 3
# An accuracy over that of chance up to which it shows no learning: V1 says twice, for which few classes have no room.
# Hard tasks of few classes are learned a little, so that their accuracy has to be in the middle as near as _NEAR.
_MOST, _MOST_OF_FEW, _MANY = 2.0, 1.2, 10
_NEAR = 0.05
_LEAST = 0.5  # below it the accuracy is no guess's: it counts something else
_LN_C = 0.95  # part of ln C that no loss on held-out data may be under
_STARTS = 0.05  # relative distance of the first training loss from ln C where no setting states C
# Where only the accuracies tell C: above ten, any accuracy is near 1/C for some C, and only the usual numbers (those of
# CIFAR-100 and ImageNet) are no chance hit. A model that knows nothing of these inputs has a first loss near ln C on
# them, while one that is right in 1/C of its choices among far more (tokens) has one that is far higher.
_USUAL = (100, 1000)
_BEGINS = 1.5  # first loss on held-out data over ln C, at most
_HIGH = 0.8  # accuracy in training that shows that the classes are learned
_FROM_ACCURACY = 0.85  # weight where nothing but the accuracies tells C
_FLAT = 5  # evaluations by which `never_learned` judges
_LOW = 0.21  # accuracies that are flat and lower are chance, or near it, for all that a log says


def held_out_at_chance(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, evaluations: int = 5, fall: float = 0.6
) -> tuple[Observation, ...]:
    """Every accuracy on held-out data is that of chance, and the training loss falls from ln C.

    evaluations: the fewest. fall: the training loss at the end over the first one, at most (V1: 40 % down).
    C is the number of classes for which the accuracy is 1/C and whose ln C the first training loss is near. The mean
    of a first epoch is below it: there C is what the accuracies tell, where the first loss on held-out data is no lower
    and not far above its ln, and the training accuracy gets high; this weighs less.
    """
    return at_chance(metrics, {}, evaluations=evaluations, fall=fall)


def at_chance(
    metrics: pl.DataFrame, stated: Mapping[int, str], *, evaluations: int = 5, fall: float = 0.6
) -> tuple[Observation, ...]:
    """`held_out_at_chance`, for the numbers of classes that settings state (C -> the setting), or else that one."""
    if not has(metrics, _ACCURACY) or not has(metrics, "loss"):
        return ()
    found = [part for part in _parts(metrics) if {"loss", _ACCURACY} <= part.columns.keys()]
    signs = [sign for part in found if (sign := _look(part, stated, evaluations, fall)) is not None]
    return merge(signs, found, ()) if signs else ()


def _parts(metrics: pl.DataFrame) -> list[Stream]:
    return [part for stream in streams(metrics, _NAMES) if not stream.names & RL_NAMES for part in segments(stream)]


def _look(part: Stream, stated: Mapping[int, str], evaluations: int, fall: float) -> Sign | None:
    at, shares = part.curve(_ACCURACY)
    records, curve = part.curve("loss")
    if len(shares) < evaluations or len(curve) < evaluations or not all(map(math.isfinite, [*shares, *curve])):
        return None
    whole = 100.0 if max(shares) > 1 else 1.0
    few = max(1, min(5, len(curve) // 5))
    first, last = median(curve[:few]), median(curve[-few:])
    if first <= 0 or last > fall * first:
        return None
    weight = 1.0
    classes = _classes(part, records, curve[0], median(shares) / whole, stated)
    if classes is None and not stated and from_the_start(part, at):
        classes, weight = _classes_by_accuracy(part, curve[0], median(shares) / whole), _FROM_ACCURACY
    if classes is None:
        return None
    most = _MOST if classes >= _MANY else _MOST_OF_FEW
    chance = whole / classes
    if max(shares) > most * chance or median(shares) < _LEAST * chance or not _stands(shares):
        return None
    if classes < _MANY and abs(median(shares) / chance - 1) > _NEAR:
        return None
    held_out = part.curve("eval_loss")[1]
    if any(v < _LN_C * math.log(classes) for v in held_out):
        return None
    trained = finite(part.column(_TRAINED))
    if trained and median(trained[-few:]) <= 2 * most * chance * (100.0 if max(trained) > 1 else 1.0) / whole:
        return None
    learned = f" and the training accuracy comes to {number(trained[-1])}" if trained else ""
    note = (
        f"the accuracy on held-out data is {number(median(shares))} in the middle of all {len(shares)} evaluations from"
        f" the first one on, and never above {number(max(shares))}: with {classes} classes"
        f"{f' ({stated[classes]})' if classes in stated else ''} that is chance; meanwhile the training loss falls from"
        f" {number(first)} to {number(last)}{learned}"
    )
    shown = tuple(part.evidence(i, *_NAMES) for i in (at[0], at[-1]))
    return Sign(part, at[0], shown, note, _ACCURACY, weight, {"classes": str(classes)})


def _classes(part: Stream, at: Sequence[int], first: float, share: float, stated: Mapping[int, str]) -> int | None:
    """C, of which the share is a guess's: a stated number, else the one whose ln C training begins at."""
    near = [c for c in stated if c >= _FEWEST_CLASSES and _LEAST <= share * c <= _MOST]
    if near:
        return min(near, key=lambda c: abs(share * c - 1))
    if stated or share <= 0 or not from_the_start(part, at):
        return None
    classes = round(1 / share)
    if classes < _FEWEST_CLASSES or abs(first - math.log(classes)) > _STARTS * math.log(classes):
        return None
    return classes


def _classes_by_accuracy(part: Stream, first: float, share: float) -> int | None:
    """C, of which the share is a guess's to within `_NEAR`, and which the losses on held-out data bear out."""
    trained, held_out = finite(part.column(_TRAINED)), finite(part.column("eval_loss"))
    if share <= 0 or not trained or not held_out:
        return None
    classes = min((*range(_FEWEST_CLASSES, _MANY + 1), *_USUAL), key=lambda c: abs(share * c - 1))
    level = math.log(classes)
    if abs(share * classes - 1) > _NEAR or first > (1 + _STARTS) * level or held_out[0] > _BEGINS * level:
        return None
    return classes if trained[-1] / (100.0 if max(trained) > 1 else 1.0) >= _HIGH else None


def _stands(shares: Sequence[float]) -> bool:
    """Whether the last third of accuracies is no more above the first third than their noise."""
    third = max(1, len(shares) // 3)
    begun, ended = shares[:third], shares[-third:]
    # Of the changes from one to the next, of which a trend adds little.
    noise = 1.4826 / math.sqrt(2) * median(abs(b - a) for a, b in itertools.pairwise(shares))
    return median(ended) <= median(begun) + max(2 * noise, 0.1 * median(shares))


def never_learned(part: Stream) -> bool:
    """Whether the accuracy on held-out data is low and no better than in the first evaluation: nothing over-fits there.

    Low is a fifth and less, and a half, a third and a quarter, which chance gives where classes are few. A model that
    was trained before may be at its best in the first evaluation, but far above.
    """
    shares = [v for v in part.curve(_ACCURACY)[1] if math.isfinite(v)]
    if len(shares) < _FLAT or not _stands(shares):
        return False
    share = median(shares) / (100.0 if max(shares) > 1 else 1.0)
    return share <= _LOW or any(abs(share * classes - 1) <= 0.03 for classes in (2, 3, 4))
