"""Memory errors that `nvidia-smi --query-gpu=...,ecc.errors.uncorrected.* --format=csv -l` counts during a run.

A count that stands when the record begins may be of weeks ago: it is kept until the driver is loaded anew, or for ever.
What counts is one that rises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from forensics.model import Evidence, Observation, Source
from forensics.parsers import gpu_csv
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

SIGNATURE = "gpu-ecc-uncorrectable"
WEIGHT = 0.85
_HEAD = b"ecc.errors.uncorrected."
_COUNT = lazy(r"ecc\.errors\.uncorrected\.(?:volatile|aggregate)\.[a-z_]+$")


class _Seen(NamedTuple):
    """A card's counts as a row has them, by column."""

    line: int
    text: str
    counts: dict[int, int]


def told(sources: Iterable[Source]) -> list[Observation]:
    """One observation for each card whose uncorrected errors became more. What cannot be read says nothing."""
    return [o for source, rows in gpu_csv.records(sources, _HEAD) for o in _of_record(source, rows)]


def _of_record(source: Source, rows: Iterable[gpu_csv.Row]) -> Iterator[Observation]:
    names: tuple[str, ...] = ()
    card: int | None = None
    last: dict[str, _Seen] = {}
    risen: set[str] = set()
    for number, line, cells in rows:
        if any(_COUNT.match(cell) for cell in cells):
            names, card = cells, next((i for i, cell in enumerate(cells) if gpu_csv.CARD.match(cell)), None)
            continue
        if len(cells) != len(names):
            continue
        which = cells[card] if card is not None else ""
        now = _Seen(number, line, _counts(names, cells))
        before = last.get(which)
        if before is not None and which not in risen and (more := _risen(before, now)) is not None:
            risen.add(which)
            yield _observation(source, which, before, now, f"{names[more[0]]} rose from {more[1]} to {more[2]}")
        if now.counts:
            last[which] = now


def _counts(names: Sequence[str], cells: Sequence[str]) -> dict[int, int]:
    """Column -> count, of those that a card has: others say "[N/A]"."""
    return {
        i: int(cell) for i, cell in enumerate(cells) if _COUNT.match(names[i]) and cell.isdecimal() and len(cell) < 19
    }


def _risen(before: _Seen, now: _Seen) -> tuple[int, int, int] | None:
    """(column, count before, count now) of the first count that became more."""
    return next(((i, before.counts[i], n) for i, n in now.counts.items() if n > before.counts.get(i, n)), None)


def _observation(source: Source, card: str, before: _Seen, now: _Seen, what: str) -> Observation:
    when, zone_known = parse_time(now.text, 0.0)
    return Observation(
        signature=SIGNATURE,
        weight=WEIGHT,
        evidence=tuple(Evidence(source.path, s.line, None, s.text.strip()) for s in (now, before)),
        identity=source.identity,
        time=when,
        zone_known=zone_known,
        timed=when is not None,
        captures={"device": card} if card.isdecimal() else {"bdf": card} if ":" in card else {},
        note=f"{f'GPU {card}' if card else 'the GPU'}: {what}",
    )
