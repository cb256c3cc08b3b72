"""Moments that users name: a span before now, or a date."""

from __future__ import annotations

import re
from datetime import datetime


def parse_since(text: str, now: float) -> float:
    """Seconds since the epoch of "90m", "2h", "3d", "1w" before `now`, or of an ISO date (local time).

    Raises ValueError.
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    if span := re.fullmatch(r"([0-9]{1,9})([smhdw])", text):
        return now - int(span[1]) * units[span[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is neither a span such as 2h or 3d nor a date such as 2026-11-27") from None
