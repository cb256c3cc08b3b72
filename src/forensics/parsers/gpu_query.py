"""What `nvidia-smi --query-gpu=... --format=csv -l` records of clocks: cards that slow down for heat or power.

A reason that is active in single samples is how a card meets its limits in any run. What counts is one that holds on,
with a clock below the one before, where the clock was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from forensics.model import Evidence, Observation, Source
from forensics.parsers import gpu_csv
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

SIGNATURE = "gpu-thermal-throttle"
WEIGHT = 0.75
SAMPLES = 5  # on end
SLOWER = 0.9  # of the median clock before: power and boost move it by a few per cent in any run
_HEAD = b"_reasons."
# nvidia-smi --help-query-gpu: clocks_event_reasons.*, called clocks_throttle_reasons.* before driver 535. A power cap,
# an idle card and a clock that was set are normal.
_REASON = lazy(
    r"clocks_(?:event|throttle)_reasons\.(?P<why>hw_slowdown|hw_thermal_slowdown|hw_power_brake_slowdown"
    r"|sw_thermal_slowdown|active)"
)
_BITS = 0x8 | 0x20 | 0x40 | 0x80  # the same reasons in the mask `active` (nvml.h, nvmlClocksEventReason*)
_CLOCK = lazy(r"clocks(?:\.current)?\.(?:sm|gr|graphics)\b")


class _Columns(NamedTuple):
    """Positions in a row: of the card, its clock, and the reasons by their names."""

    card: int | None
    clock: int | None
    reasons: tuple[tuple[int, str], ...]


class _Sample(NamedTuple):
    """One row: line from 1, its text, the active reason ("" where none is) and the clock in MHz."""

    line: int
    text: str
    reason: str
    clock: float | None


def told(sources: Iterable[Source]) -> list[Observation]:
    """One observation for each card of such a record that was slowed down. What cannot be read says nothing."""
    return [
        _observation(source, card, stretch)
        for source, rows in gpu_csv.records(sources, _HEAD)
        for card, samples in _samples(rows).items()
        if (stretch := _slowed(samples)) is not None
    ]


def _samples(rows: Iterable[gpu_csv.Row]) -> dict[str, list[_Sample]]:
    """The samples of each card; a header may come again, where the program was started again."""
    columns: _Columns | None = None
    found: dict[str, list[_Sample]] = {}
    for number, line, cells in rows:
        if (headed := _columns(cells)) is not None:
            columns = headed
            continue
        if columns is None or len(cells) <= max(at for at, _ in columns.reasons):
            continue
        card = cells[columns.card] if columns.card is not None and columns.card < len(cells) else ""
        reason = next((why for at, why in columns.reasons if _is_active(cells[at])), "")
        clock = cells[columns.clock] if columns.clock is not None and columns.clock < len(cells) else ""
        found.setdefault(card, []).append(_Sample(number, line, reason, _number(clock)))
    return found


def _columns(cells: Sequence[str]) -> _Columns | None:
    """The columns that a header names; None of any other line."""
    reasons = [(at, m["why"]) for at, cell in enumerate(cells) if (m := _REASON.match(cell))]
    if not reasons:
        return None
    return _Columns(
        _first(gpu_csv.CARD, cells), _first(_CLOCK, cells), tuple(sorted(reasons, key=lambda r: r[1] == "active"))
    )


def _first(pattern: re.Pattern[str], cells: Sequence[str]) -> int | None:
    return next((at for at, cell in enumerate(cells) if pattern.match(cell)), None)


def _is_active(cell: str) -> bool:
    if cell.lower().startswith("0x"):
        try:
            return bool(int(cell, 16) & _BITS)
        except ValueError:
            return False
    return cell == "Active"


def _number(cell: str) -> float | None:
    try:
        return float(cell.partition(" ")[0])
    except ValueError:
        return None


def _slowed(samples: Sequence[_Sample]) -> list[_Sample] | None:
    """The first stretch of SAMPLES or more on end with an active reason, at a clock below the one before."""
    start: int | None = None
    for at, sample in enumerate([*samples, None]):
        if sample is not None and sample.reason:
            start = at if start is None else start
            continue
        if start is not None and at - start >= SAMPLES and _is_slower(samples[:start], samples[start:at]):
            return list(samples[start:at])
        start = None
    return None


def _is_slower(before: Sequence[_Sample], during: Sequence[_Sample]) -> bool:
    """Whether the clock fell; true where nothing tells of one, or of the time before."""
    usual = [s.clock for s in before if s.clock is not None]
    now = [s.clock for s in during if s.clock is not None]
    return not usual or not now or median(now) < SLOWER * median(usual)


def _observation(source: Source, card: str, stretch: Sequence[_Sample]) -> Observation:
    first, last = stretch[0], stretch[-1]
    when, zone_known = parse_time(first.text, 0.0)
    which = f"GPU {card}" if card else "the GPU"
    clocks = [s.clock for s in stretch if s.clock is not None]
    at = f", at {median(clocks):g} MHz" if clocks else ""
    return Observation(
        signature=SIGNATURE,
        weight=WEIGHT,
        evidence=tuple(Evidence(source.path, s.line, None, s.text.strip()) for s in (first, last)),
        identity=source.identity,
        time=when,
        zone_known=zone_known,
        timed=when is not None,
        captures={"device": card} if card.isdecimal() else {},
        count=len(stretch),
        note=f"{which} was slowed down in {len(stretch)} samples on end ({first.reason}){at}",
    )
