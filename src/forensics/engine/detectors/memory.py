"""Memory that a run takes more of from one part of its record to the next, and never gives back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, number, segments, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_HOST = "host_memory"
_MEMORY = ("memory", _HOST)
_KILLED = "sigkill-unknown-sender"
_BLOCKS = 20


def memory_creep(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 100,
    gain: float = 0.3,
    steady: float = 0.5,
) -> tuple[Observation, ...]:
    """The memory in use grows over the whole record, of a device or of the host (HW1's "monotone growth").

    records: the fewest; the first tenth of them, in which pools and caches fill, counts for nothing. The rest is cut
        into 20 blocks, whose medians must grow one after the other: a peak that is held grows by jumps and rests.
    gain: relative growth from the first block to the last. steady: growth of the last quarter over the mean of a
        quarter; a cache that fills levels off.
    The step is that of the last record: a growth has no onset.
    """
    found, signs = _creeps(metrics, [name for name in _MEMORY if has(metrics, name)], records, gain, steady)
    return _of_ranks(found, signs) if signs else ()


def killed_while_memory_grew(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    records: int = 100,
    gain: float = 0.3,
    steady: float = 0.5,
) -> tuple[Observation, ...]:
    """A process is killed by SIGKILL whose host memory had grown over the whole record, as `memory_creep` has it.

    The kernel's and a container's memory killers send that signal, and nothing else of a run's own. Nothing names them
    here, so that a person or the scheduler is not ruled out.
    """
    kills = [o for o in observations if o.signature == _KILLED]
    if not kills or not has(metrics, _HOST):
        return ()
    found, signs = _creeps(metrics, [_HOST], records, gain, steady)
    told = [
        replace(sign, note=f"{sign.note}; then it was killed by SIGKILL, as a host or container does that is out of it")
        for sign in signs
        if any(_same(kill, sign.stream) for kill in kills)
    ]
    return _of_ranks(found, told) if told else ()


def _same(kill: Observation, stream: Stream) -> bool:
    """Whether a kill may be that of the process whose records these are, by attempt and rank."""
    pairs = ((kill.identity.attempt, stream.attempt), (kill.identity.rank, stream.rank))
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _creeps(
    metrics: pl.DataFrame, names: Sequence[str], records: int, gain: float, steady: float
) -> tuple[list[Stream], list[Sign]]:
    """The records of each run, and the signs of growth among them."""
    if not names:
        return [], []
    found = [part for stream in streams(metrics, (*names, "loss")) for part in segments(stream)]
    return found, [
        s for part in found for name in names if (s := _creep(part, name, records, gain, steady)) is not None
    ]


def _of_ranks(found: Sequence[Stream], signs: Sequence[Sign]) -> tuple[Observation, ...]:
    """The observations of signs; ranks are named where they are fewer than half of those that log."""
    ranks = {part.rank for part in found} - {None}
    named = sorted({rank for sign in signs if (rank := sign.stream.rank) is not None})
    return merge(signs, found, tuple(named) if 2 * len(named) < len(ranks) else ())


def _creep(part: Stream, name: str, records: int, gain: float, steady: float) -> Sign | None:
    at, values = part.curve(name)
    if len(values) < records or not all(math.isfinite(v) and v >= 0 for v in values):
        return None
    start = len(values) // 10
    rest = values[start:]
    edges = [round(k * len(rest) / _BLOCKS) for k in range(_BLOCKS + 1)]
    levels = [median(rest[a:b]) for a, b in itertools.pairwise(edges)]
    first, last = levels[0], levels[-1]
    if first <= 0 or last < (1 + gain) * first or any(b <= a for a, b in itertools.pairwise(levels)):
        return None
    quarter = _BLOCKS // 4
    if last - levels[-1 - quarter] < steady * (last - first) * quarter / (_BLOCKS - 1):
        return None
    note = (
        f"{name} grows without a rest from {number(values[start])} at {part.where(at[start])} to {number(values[-1])}"
        f" at {part.where(at[-1])}, as the run prints it"
    )
    shown = tuple(part.evidence(i, name, "loss") for i in (at[-1], at[start], at[len(at) // 2]))
    return Sign(part, at[-1], shown, note, name)
