"""Rows as insights take them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from forensics.triage.model import JobResult


def once(results: Iterable[JobResult]) -> list[JobResult]:
    """Rows without further copies of a content: a folder that was copied is no second failure."""
    seen: set[str] = set()
    kept = []
    for result in results:
        if result.fingerprint and result.fingerprint in seen:
            continue
        seen.add(result.fingerprint)
        kept.append(result)
    return kept


def seconds(text: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time; one without a zone is read as UTC. None where it is none."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.removesuffix("Z"))
        return at.replace(tzinfo=at.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
