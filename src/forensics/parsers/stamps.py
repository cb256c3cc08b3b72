"""When a line was written: the times that loggers, launchers and kernels print, in seconds since the epoch.

Dates without a year are put near a reference, and times without a zone are read as UTC and said to have none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from forensics.patterns import lazy

LATEST = 4e9  # seconds since the epoch (the year 2096): a file's time beyond it is no guide
_MINUTES = re.compile(rb":\d\d:")  # in every clock; a pattern that begins with one byte is searched for fast
# Part of every time that is looked for, but for seconds since the epoch.
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_GLOG = lazy(r"(?:^ {0,31}|\[|\]:?)([FEWIV])(\d{3,4}) (\d\d):(\d\d):(\d\d)\.(\d{1,9})\d* ")
_ISO = lazy(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_CTIME = lazy(
    r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d+)?"
    r"(?: ([AP]M)\b)?(?: (?:[A-Z]{2,5} )?(\d{4}))?"
)
_MD_CLOCK = lazy(r"\b(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)")
# `%m/%d/%Y %H:%M:%S` of many examples of Hugging Face, and rich's handler, which prints two digits of the year.
_US = lazy(r"\b(\d\d)/(\d\d)/(\d{4}|\d\d) (\d\d):(\d\d):(\d\d)")
_UNIX = lazy(r'"(?:ts|time|timestamp|created)": ?(1[5-9]\d{8}(?:\.\d+)?)')
_LIBFABRIC = lazy(r"libfabric:\d{1,10}:(1[5-9]\d{8}):")
MONTHS = {
    m: i for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}


class Stamp(NamedTuple):
    """A time in a line. form, column: how and where it is printed, which a program does the same on every line."""

    time: float  # seconds since the epoch
    zone_known: bool
    form: str
    column: int


def _epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    midnight = _midnight(year, month, day)
    if midnight is None or hour > 23 or minute > 59:
        return None
    return midnight + 3600.0 * hour + 60.0 * minute + min(second, 59)


@lru_cache(maxsize=4096)
def _midnight(year: int, month: int, day: int) -> float | None:
    """Seconds since the epoch at which a day begins: lines by the thousand are of few days."""
    try:
        return datetime(year, month, day, tzinfo=UTC).timestamp()
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _year(time: float) -> int:
    return datetime.fromtimestamp(time, UTC).year


def _near(reference: float, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    """A date without a year, in the latest year that does not put it after `reference` (two days of grace)."""
    year = _year(max(0.0, min(reference, LATEST)))
    dates = [_epoch(y, month, day, hour, minute, second) for y in (year + 1, year, year - 1)]
    known = [d for d in dates if d is not None]
    return next((d for d in known if d <= reference + 2 * 86400), known[-1] if known else None)


def may_be_timed(data: bytes) -> bool:
    """Whether `parse_time` may find a time anywhere in these lines: most programs' output has none at all."""
    return (
        not data.isascii()
        or b"\x1b" in data
        or b'":' in data
        or (b":" in data and (_MINUTES.search(data) is not None or b"libfabric:" in data))
    )


def dated(text: str) -> Stamp | None:
    """A stamp with a year near the start of a line; None if there is none."""
    return stamp_of(text, 0.0) if _ISO.search(text[:80]) else None


def parse_time(text: str, reference: float) -> tuple[float | None, bool]:
    """(seconds since the epoch, zone known) of the first time in the first 160 characters of a line.

    reference: seconds since the epoch, near which dates without a year are put (c10, syslog and mmengine print none).
    """
    if _CLOCK.search(text, 0, 160) and (found := _clock(text[:160], reference)) is not None:
        return found[:2]
    if '":' in text and (m := _UNIX.search(text[:400])):
        return float(m.group(1)), True
    if text.startswith("libfabric:") and (m := _LIBFABRIC.match(text)):
        return float(m.group(1)), True
    return None, False


def stamp_of(text: str, reference: float) -> Stamp | None:
    """The time that `parse_time` finds in a line, with its form and place; None for seconds since the epoch as well."""
    return _clock(text[:160], reference) if _CLOCK.search(text, 0, 160) else None


def _clock(head: str, reference: float) -> Stamp | None:
    """`parse_time` of the beginning of a line with a clock in it; None where that is part of no time."""
    if m := _ISO.search(head):
        base = _epoch(*(int(m.group(i)) for i in range(1, 7)))
        if base is not None:
            fraction = float(f"0.{m.group(7)}") if m.group(7) else 0.0
            zone = m.group(8)
            offset = 0
            if zone and zone != "Z":
                digits = zone[1:].replace(":", "")
                offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
            return Stamp(base + fraction - offset, zone is not None, "iso", m.start())
    if m := _GLOG.search(head):
        md = int(m.group(2))
        near = _near(reference, md // 100, md % 100, int(m.group(3)), int(m.group(4)), int(m.group(5)))
        return Stamp(near + float(f"0.{m.group(6)}"), False, "glog", m.start(1)) if near is not None else None
    if (m := _CTIME.search(head)) and m.group(1) in MONTHS:
        clock = _of_twelve(int(m.group(3)), m.group(6))
        parts = (MONTHS[m.group(1)], int(m.group(2)), clock, int(m.group(4)), int(m.group(5)))
        year = m.group(7)
        known = _epoch(int(year), *parts) if year else _near(reference, *parts)
        return Stamp(known, False, "ctime", m.start()) if known is not None else None
    if m := _US.search(head):
        first, second, year = (int(m.group(i)) for i in (1, 2, 3))
        month, day = (second, first) if first > 12 else (first, second)
        clocks = (int(m.group(i)) for i in (4, 5, 6))
        known = _epoch(year if year > 99 else 2000 + year, month, day, *clocks)
        return Stamp(known, False, "us", m.start()) if known is not None else None
    if m := _MD_CLOCK.search(head):
        near = _near(reference, *(int(m.group(i)) for i in range(1, 6)))
        return Stamp(near, False, "month/day", m.start()) if near is not None else None
    return None


def _of_twelve(hour: int, half: str | None) -> int:
    """The hour of the day of one that AM or PM may follow."""
    if half is None or hour > 12:
        return hour
    return hour % 12 + (12 if half == "PM" else 0)
