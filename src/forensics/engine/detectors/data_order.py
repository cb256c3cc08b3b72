"""A loss that repeats from epoch to epoch, batch by batch: the data come in one and the same order every time.

What batches of different difficulty add to a loss is noise as long as their order changes. Where it stays, that noise
comes again in each epoch, at the same place, on top of what is learned. Where the data are sorted, by class, length or
source, it is an arc that the loss runs through in each epoch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.names import finite, has
from forensics.engine.detectors.ranked import correlation
from forensics.engine.detectors.series import RL_NAMES, Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_MOST = 4000  # records of an epoch that are compared; more say the same
# An arc: parts of an epoch whose medians are compared; how large it is over the noise within parts and over the level;
# and how sure it is, for a learning rate that starts anew with each epoch draws one as well, and is not always logged.
_PARTS, _OVER_NOISE, _OVER_LEVEL, _OF_AN_ARC = 12, 5.0, 0.25, 0.8
_LAGS = 32  # shorter periods that are looked at: tasks that take turns repeat too, within the epoch


def data_order_repeats(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    epochs: int = 3,
    records: int = 16,
    alike: float = 0.9,
    shifted: float = 0.5,
    turns: float = 0.8,
) -> tuple[Observation, ...]:
    """The changes of the training loss from record to record are those of the epoch before (C13).

    epochs: the fewest that are whole and of one length. records: the fewest of an epoch. alike: least correlation of
        the changes at the same places of two epochs that follow each other (median over the pairs). shifted: most
        correlation of the same changes one record apart; both figures are of entry C13. turns: most correlation at a
        period shorter than an epoch, as tasks have that take turns.
    A loss that rises and falls once in each epoch, by the same (`_arc`), is told too.
    """
    if not has(metrics, "loss"):
        return ()
    found = [
        s
        for s in streams(metrics, ("loss", "lr"))
        if not s.names & RL_NAMES and len(s) >= epochs * records and len({*s.attempts} - {None}) < 2
    ]
    signs = [
        sign
        for stream in found
        if (whole := _whole_epochs(stream, epochs, records)) is not None
        and (sign := _repeats(stream, whole, alike, shifted, turns) or _arc(stream, whole, alike)) is not None
    ]
    return merge(signs, found, ()) if signs else ()


class _Epochs(NamedTuple):
    """at: the records of a loss. spans: first and last but one of the curve's positions of each whole epoch, which are
    of one length. told: their losses, at most _MOST of each."""

    at: Sequence[int]
    spans: Sequence[tuple[int, int]]
    told: Sequence[Sequence[float]]

    @property
    def length(self) -> int:
        """Records of an epoch."""
        return self.spans[0][1] - self.spans[0][0]


def _whole_epochs(stream: Stream, epochs: int, records: int) -> _Epochs | None:
    """The whole epochs of a finite loss, where there are enough."""
    at, curve = stream.curve("loss")
    starts = _starts(stream, at)
    # The first epoch may begin late (a resume) and the last one be cut off.
    whole = list(itertools.pairwise(starts))
    lengths = [b - a for a, b in whole]
    if len(whole) < epochs or len(set(lengths[1:])) != 1 or lengths[1] < records or lengths[0] > lengths[1]:
        return None
    whole = whole if lengths[0] == lengths[1] else whole[1:]
    if len(whole) < epochs:
        return None
    told = [curve[a : min(b, a + _MOST)] for a, b in whole]
    if not all(map(math.isfinite, itertools.chain.from_iterable(told))):
        return None
    return _Epochs(at, whole, told)


def _repeats(stream: Stream, whole: _Epochs, alike: float, shifted: float, turns: float) -> Sign | None:
    told = whole.told
    if len(set(told[-1])) < len(told[-1]) // 2:
        return None  # rounded until little is left
    moves = [[b - a for a, b in itertools.pairwise(epoch)] for epoch in told]
    pairs = list(itertools.pairwise(moves))
    like = median(correlation(a, b) for a, b in pairs)
    if like < alike:
        return None
    beside = max(median(correlation(a[s:], b[: len(b) - s]) for a, b in pairs) for s in (1, 2))
    within = max(correlation(moves[-1][s:], moves[-1][:-s]) for s in range(1, min(_LAGS, len(moves[-1]) - 5)))
    if beside >= shifted or within >= turns:
        return None
    note = (
        f"the loss goes up and down at the same places of each epoch: its changes from record to record have a"
        f" correlation of {like:.2f} with those of the epoch before, over {len(told)} epochs of {whole.length} records"
    )
    return _sign(stream, whole, note)


def _sign(stream: Stream, whole: _Epochs, note: str, weight: float = 1.0) -> Sign:
    starts = [whole.at[first] for first, _ in whole.spans]
    return Sign(stream, starts[1], tuple(stream.evidence(i, "loss") for i in starts[:3]), note, "loss", weight)


def _arc(stream: Stream, whole: _Epochs, alike: float) -> Sign | None:
    """A loss that runs through the same arc, ramp or blocks in each epoch, and is back where the next one begins.

    A loss that only falls within its epochs may be a mean over each of them, or follow a rate that starts anew: it
    counts where it falls in one step, and jumps up again at each boundary. One that crosses its middle more than twice
    has tasks that take turns; a rate that rises again in later epochs draws the arc by itself.
    """
    size = whole.length // _PARTS
    rates = finite(stream.column("lr"))
    if size < 3 or sum(b > a for a, b in itertools.pairwise(rates[len(rates) // 4 :])) > 0.02 * len(rates):
        return None
    parts = [[epoch[k * size : (k + 1) * size] for k in range(_PARTS)] for epoch in whole.told]
    levels = [[median(part) for part in epoch] for epoch in parts]
    noise = median(median(abs(b - a) for a, b in itertools.pairwise(part)) for epoch in parts for part in epoch)
    for epoch in levels:
        low, high = min(epoch), max(epoch)
        if high - low < max(_OVER_NOISE * noise, _OVER_LEVEL * abs(median(epoch))):
            return None
        above = [level > (low + high) / 2 for level in epoch]
        if sum(a != b for a, b in itertools.pairwise([*above, above[0]])) > 2:
            return None
    falls = [epoch for epoch in levels if _rise(epoch) < 0.5 * (max(epoch) - min(epoch))]
    if falls and not (
        all(map(_in_one_step, falls))
        and all(b[0] - a[-1] >= 0.5 * (max(a) - min(a)) for a, b in itertools.pairwise(levels))
    ):
        return None
    like = min(_likeness(a, b) for a, b in itertools.pairwise(levels))
    apart = max(abs(b - a) for one, other in itertools.pairwise(levels) for a, b in zip(one, other, strict=True))
    height = min(max(epoch) - min(epoch) for epoch in levels)
    if like < alike or apart > 0.5 * height:
        return None
    note = (
        f"the loss runs between {number(min(levels[-1]))} and {number(max(levels[-1]))} along the same curve in each of"
        f" {len(levels)} epochs of {whole.length} records (medians of {_PARTS} parts of each)"
    )
    return _sign(stream, whole, note, _OF_AN_ARC)


def _rise(levels: Sequence[float]) -> float:
    """How far levels are at most above one of those before."""
    return max(b - min(levels[: k + 1]) for k, b in enumerate(levels))


def _in_one_step(levels: Sequence[float]) -> bool:
    """Whether most of the way from the highest to the lowest level is made at once, with blocks on either side of it.

    A block is a sixth of an epoch or more: what the first batches of an epoch alone have is no order of the data.
    """
    steps = [a - b for a, b in itertools.pairwise(levels)]
    at = max(range(len(steps)), key=steps.__getitem__)
    block = len(levels) // 6
    return steps[at] >= 0.5 * (max(levels) - min(levels)) and block <= at + 1 <= len(levels) - block


def _likeness(a: Sequence[float], b: Sequence[float]) -> float:
    """The larger of the correlations of values and of ranks: levels of blocks have ranks of mere noise within them."""
    middle_a, middle_b = sum(a) / len(a), sum(b) / len(b)
    da, db = [x - middle_a for x in a], [x - middle_b for x in b]
    size = math.sqrt(sum(x * x for x in da) * sum(x * x for x in db))
    values = sum(x * y for x, y in zip(da, db, strict=True)) / size if size > 0 else 0.0
    return max(values, correlation(a, b))


def _starts(stream: Stream, at: Sequence[int]) -> list[int]:
    """Positions in the curve at which an epoch begins, and its end where the last epoch ends there.

    Epochs have to be told: a step that begins anew may be another run with the same seed.
    """
    epochs = [e for i in at if (e := stream.epochs[i]) is not None and math.isfinite(e)]
    counts = [math.floor(e + 1e-9) for e in epochs]
    if len(counts) < len(at) or any(b < a or b > a + 1 for a, b in itertools.pairwise(counts)):
        return []
    rises = [k for k in range(1, len(counts)) if counts[k] > counts[k - 1]]
    ends = [len(at)] if rises and len(at) - rises[-1] == rises[-1] - ([0, *rises][-2]) else []
    return [0, *rises, *ends]
