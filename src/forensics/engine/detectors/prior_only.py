"""A classifier that has learned how frequent its two classes are, and nothing else.

Where every sample gets the same two probabilities, the best of them are the shares of the classes: the accuracy is the
share p of the larger one, and the cross-entropy -p ln p - (1-p) ln (1-p). That both stand there is no chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_ACCURACY, _LOSS = "eval_accuracy", "eval_loss"


def only_the_prior(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    evaluations: int = 8,
    flat: float = 0.001,
    close: float = 0.01,
    least: float = 0.55,
    most: float = 0.98,
    gain: float = 0.03,
) -> tuple[Observation, ...]:
    """Accuracy and loss on held-out data stand at what the share of the larger of two classes gives.

    evaluations: the fewest, all that there are. flat: range of the accuracy. close: relative distance of each loss from
        the entropy of the share. least, most: shares of which it is told: near a half, or 1, other runs come there too.
    gain: part of its level that the training loss may have come down: a model that learns, and of which another state
        is evaluated, is none of these.
    """
    if not has(metrics, _ACCURACY) or not has(metrics, _LOSS):
        return ()
    found = [s for s in streams(metrics, (_ACCURACY, _LOSS, "loss")) if not s.names & RL_NAMES]
    found = [s for s in found if {_ACCURACY, _LOSS} <= s.columns.keys()]
    signs = [sign for s in found if (sign := _look(s, evaluations, flat, close, least, most, gain)) is not None]
    return merge(signs, found, ())


def _look(
    stream: Stream, evaluations: int, flat: float, close: float, least: float, most: float, gain: float
) -> Sign | None:
    at, accuracy = stream.curve(_ACCURACY)
    losses = stream.curve(_LOSS)[1]
    if min(len(accuracy), len(losses)) < evaluations or not all(map(math.isfinite, (*accuracy, *losses))):
        return None
    whole = 100.0 if max(accuracy) > 1 else 1.0
    share = median(accuracy) / whole
    if not least <= share <= most or max(accuracy) - min(accuracy) > flat * whole:
        return None
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    # One and the same loss to the last digit is a model that nobody trains: `held_out_fixed`.
    if any(abs(v - entropy) > close * entropy for v in losses) or max(losses) == min(losses):
        return None
    trained = [v for v in stream.curve("loss")[1] if math.isfinite(v)]
    quarter = max(1, len(trained) // 4)
    if trained and median(trained[-quarter:]) < (1 - gain) * median(trained[:quarter]):
        return None
    note = (
        f"the accuracy is {number(median(accuracy))} in all {len(accuracy)} evaluations and the loss"
        f" {number(median(losses))}, which is what two classes of these shares give where every sample gets the most"
        f" frequent one ({number(round(entropy, 4))})"
    )
    shown = tuple(stream.evidence(i, _ACCURACY, _LOSS, "loss") for i in (at[0], at[-1]))
    return Sign(stream, at[0], shown, note, _ACCURACY)
