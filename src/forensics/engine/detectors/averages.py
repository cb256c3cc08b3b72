"""An average of weights (EMA, SWA) that began anew in the middle of a run, as after a resume that lacks it (C16)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
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
_EQUAL = "{averaged} and {raw} are equal ({now}) at {where}; before it they were {was} and {raw_was}"
_JUMPS = "{averaged} goes from {was} to {now} at {where}, where {raw} goes on ({raw_was}, then {raw_now})"
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

    def find(averaged: str, both: Sequence[_Both]) -> int | None:
        same = [k for k, (_, a, b) in enumerate(both) if abs(a - b) <= 1e-6 * max(abs(a), abs(b))]
        return same[0] if len(same) == 1 and records <= same[0] < len(both) - 1 else None

    return _begun_anew(metrics, find, _EQUAL)


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

    def find(averaged: str, both: Sequence[_Both]) -> int | None:
        sense = -1.0 if _FALLING.isdisjoint(raw_names(averaged)) else 1.0
        jumps = [k for k in range(records, len(both) - 2) if _thrown_back(both, k, sense, records, noise, worse, still)]
        return jumps[0] if len(jumps) == 1 else None

    return _begun_anew(metrics, find, _JUMPS)


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


def _begun_anew(
    metrics: pl.DataFrame, find: Callable[[str, Sequence[_Both]], int | None], told: str
) -> tuple[Observation, ...]:
    """An observation of each average in whose records one is found at which it began anew. told: the note's form."""
    signs: list[Sign] = []
    found: list[Stream] = []
    for stream, averaged, raw, both in _beside(metrics):
        found.append(stream)
        if (k := find(averaged, both)) is None:
            continue
        here, before = both[k], both[k - 1]
        note = told.format(
            averaged=averaged, raw=raw, where=stream.where(here.at), now=number(here.averaged),
            was=number(before.averaged), raw_now=number(here.raw), raw_was=number(before.raw),
        )  # fmt: skip
        shown = tuple(stream.evidence(i, averaged, raw) for i in (here.at, before.at))
        signs.append(Sign(stream, here.at, shown, f"{note}: the average began anew", averaged))
    return merge(signs, found, ())


def _beside(metrics: pl.DataFrame) -> Iterator[tuple[Stream, str, str, list[_Both]]]:
    """(records, metric of the averaged weights, that of the raw ones, records that hold both and are finite)."""
    names = set(names_where(metrics, bool))
    pairs = {(name, raw) for name in names for raw in raw_names(name) if raw in names and raw != name}
    for averaged, raw in sorted(pairs):
        for stream in streams(metrics, (averaged, raw)):
            yield stream, averaged, raw, [_Both(*record) for record in stream.pairs(averaged, raw)]
