"""A loss on held-out data that is no number, while that of training is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl


def nan_held_out(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, evaluations: int = 2, records: int = 5
) -> tuple[Observation, ...]:
    """The loss of every evaluation from some one to the last is NaN or infinite; the training loss never is.

    evaluations: how many at least: one alone may be a sanity check before training, or cut short. records: training
        losses at least. A training loss of exactly 0 is what HF Trainer logs in place of NaN, and counts as none.
    """
    if not has(metrics, "eval_loss"):
        return ()
    found = [s for s in streams(metrics, ("loss", "eval_loss")) if {"loss", "eval_loss"} <= set(s.columns)]
    signs = [sign for stream in found if (sign := _not_a_number(stream, evaluations, records)) is not None]
    return merge(signs, found, ()) if signs else ()


def _not_a_number(stream: Stream, evaluations: int, records: int) -> Sign | None:
    _, trained = stream.curve("loss")
    at, held_out = stream.curve("eval_loss")
    if len(trained) < records or not all(math.isfinite(v) and v != 0 for v in trained):
        return None
    good = max((i for i, v in enumerate(held_out) if math.isfinite(v)), default=-1)
    bad = at[good + 1 :]
    if len(bad) < evaluations:
        return None
    # NaN beside a training loss may fill a column where nothing was evaluated, unless all evaluations before gave one.
    beside = any(stream.column("loss")[i] is not None for i in bad)
    if beside and (good < 1 or not all(map(math.isfinite, held_out[:good]))):
        return None
    which = "every evaluation" if good < 0 else f"all {len(bad)} evaluations from there on"
    note = f"the loss of {which} is NaN or infinite, first at {stream.where(bad[0])}; the training loss is finite"
    return Sign(stream, bad[0], tuple(stream.evidence(i, "eval_loss") for i in bad[:2]), note, "eval_loss")
