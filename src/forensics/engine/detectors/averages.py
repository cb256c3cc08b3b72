"""An average of weights (EMA, SWA) that began anew in the middle of a run, as after a resume that lacks it (C16)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.names import names_where
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation
from forensics.parsers.instruments import raw_names

if TYPE_CHECKING:
    import polars as pl

# Metrics that fall as a model gets better, by their canonical names.
_FALLING = frozenset({"eval_loss", "eval_perplexity", "eval_wer"})
_FAR = 0.1  # of the raw metric: smaller distances are the noise of one that hardly moves


class _Both(NamedTuple):
    """A record that has both metrics, by its number in the stream."""

    at: int
    averaged: float
    raw: float


def average_lost(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 5
) -> tuple[Observation, ...]:
    """The metric of the averaged weights (EMA) equals that of the raw ones in one record in the middle of the run.

    They differ in the `records` before it and later again: the average was started anew from the raw weights there, as
    a resume without its state does (C16).
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream, averaged, raw, both in _beside(metrics):
        found.append(stream)
        same = [k for k, (_, a, b) in enumerate(both) if abs(a - b) <= 1e-6 * max(abs(a), abs(b))]
        if len(same) != 1 or same[0] < records or len(both) - same[0] <= 1:
            continue
        here, before = both[same[0]], both[same[0] - 1]
        note = (
            f"{averaged} and {raw} are equal ({number(here.averaged)}) at {stream.where(here.at)};"
            f" before it they were {number(before.averaged)} and {number(before.raw)}: the average began anew"
        )
        shown = tuple(stream.evidence(i, averaged, raw) for i in (here.at, before.at))
        signs.append(Sign(stream, here.at, shown, note, averaged))
    return merge(signs, found, ())


def average_thrown_back(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 5,
    noise: float = 5.0,
    worse: float = 5.0,
    still: float = 0.2,
) -> tuple[Observation, ...]:
    """The metric of the averaged weights is far worse from one record to the next, and that of the raw ones goes on.

    An average moves more slowly than what it is made of, so it cannot jump where that does not: it was begun anew from
    weights that are not trained, and comes back as it fills.
    records: the fewest before. noise: the jump in MADs of its own changes before it (C16: 5). worse: the distance from
        the raw metric after it over the largest one in the `records` before. still: the most that the raw metric may
        change there, as a part of the jump. In the two records after it the distance becomes smaller, but at first not
        what it was: that is a single evaluation which failed. No second record is such a jump.
    """
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream, averaged, raw, both in _beside(metrics):
        found.append(stream)
        sense = -1.0 if _FALLING.isdisjoint(raw_names(averaged)) else 1.0
        jumps = [k for k in range(records, len(both) - 2) if _thrown_back(both, k, sense, records, noise, worse, still)]
        if len(jumps) != 1:
            continue
        here, before = both[jumps[0]], both[jumps[0] - 1]
        note = (
            f"{averaged} goes from {number(before.averaged)} to {number(here.averaged)} at {stream.where(here.at)},"
            f" where {raw} goes on ({number(before.raw)}, then {number(here.raw)}): the average began anew"
        )
        shown = tuple(stream.evidence(i, averaged, raw) for i in (here.at, before.at))
        signs.append(Sign(stream, here.at, shown, note, averaged))
    return merge(signs, found, ())


def _thrown_back(
    both: Sequence[_Both], k: int, sense: float, records: int, noise: float, worse: float, still: float
) -> bool:
    """Whether the average is thrown back in record k.

    sense: 1 for metrics that fall as a model gets better, else -1.
    """
    (_, a, b), (_, was, raw) = both[k], both[k - 1]
    jump = sense * (a - was)
    gap = sense * (a - b)
    if jump <= 0 or gap <= 0 or abs(b - raw) > still * jump:
        return False
    before = both[:k]
    usual = max(abs(r.averaged - r.raw) for r in before[-records:])
    if gap <= max(worse * usual, _FAR * abs(b)):
        return False
    changes = [q.averaged - p.averaged for p, q in itertools.pairwise(before)]
    level = median(changes)
    if jump <= noise * 1.4826 * median(abs(c - level) for c in changes) + abs(level):
        return False
    after = [sense * (r.averaged - r.raw) for r in both[k + 1 : k + 3]]
    return gap > after[0] > max(after[1], usual)


def _beside(metrics: pl.DataFrame) -> Iterator[tuple[Stream, str, str, list[_Both]]]:
    """(records, metric of the averaged weights, that of the raw ones, records that hold both and are finite)."""
    names = set(names_where(metrics, bool))
    pairs = {(name, raw) for name in names for raw in raw_names(name) if raw in names and raw != name}
    for averaged, raw in sorted(pairs):
        for stream in streams(metrics, (averaged, raw)):
            columns = zip(stream.column(averaged), stream.column(raw), strict=True)
            both = [_Both(i, a, b) for i, (a, b) in enumerate(columns) if a is not None and b is not None]
            yield stream, averaged, raw, [r for r in both if math.isfinite(r.averaged) and math.isfinite(r.raw)]
