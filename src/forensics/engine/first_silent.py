"""Which of the ranks that others waited for stopped first, by the clocks of their own lines.

Only what their logs can tell is said: each of these ranks must have lines with times, and one of them must have ended
clearly before all others. Clearly is by more than clocks of hosts are apart, and by more than what a process that is
killed takes along in a buffer, for a log may end that much too early. Where steps are recorded, those must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.engine import zones
from forensics.engine.rhythm import held
from forensics.engine.steps import StepClock
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import RunData


@dataclass(frozen=True, slots=True)
class Stopped:
    """rank: stopped first; before: seconds by which it did, of the next one."""

    rank: int
    before: float


@dataclass(frozen=True, slots=True)
class _Span:
    first: float
    last: float
    bytes: float


def stopped_first(ranks: Sequence[int] | None, data: RunData, clock: StepClock, attempt: int | None) -> Stopped | None:
    """The rank of several that stopped first; None where the logs do not tell."""
    if ranks is None or len(ranks) < 2:
        return None
    spans = _spans(data, attempt)
    if any(rank not in spans for rank in ranks):
        return None
    (one, span), (_, after) = sorted(((rank, spans[rank]) for rank in ranks), key=lambda item: item[1].last)[:2]
    before = after.last - span.last
    if before <= max(CLOCK_SLACK, held(span.last - span.first, span.bytes)):
        return None
    if any(abs(spans[rank].first - span.first) > before / 2 for rank in ranks):
        return None  # they did not begin together either: another clock, or another life
    if any(abs(before - hours * 3600) <= CLOCK_SLACK for hours in zones.EAST):
        return None  # a host whose clock is in another time zone
    steps = {rank: _last_step(rank, clock, attempt) for rank in ranks}
    own = steps.pop(one)
    known = [step for step in steps.values() if step is not None]
    if own is not None and known and own >= min(known):
        return None  # it came as far as others: they only printed something more
    return Stopped(one, before)


def _spans(data: RunData, attempt: int | None) -> dict[int, _Span]:
    """rank -> when its own logs begin and end. A log of several ranks is none's own."""
    found: dict[int, _Span] = {}
    for writer in data.writers:
        rank, of = writer.identity.rank, writer.identity.attempt
        if rank is None or writer.first_time is None or writer.last_time is None:
            continue
        if attempt is not None and of is not None and of != attempt:
            continue
        span = _Span(writer.first_time, writer.last_time, writer.bytes)
        known = found.get(rank)
        found[rank] = span if known is None or known.last < span.last else known
    return found


def _last_step(rank: int, clock: StepClock, attempt: int | None) -> int | None:
    steps = [
        mark.step
        for marks in clock.marks.values()
        for mark in marks
        if mark.rank == rank and (attempt is None or mark.attempt in (None, attempt))
    ]
    return max(steps, default=None)
