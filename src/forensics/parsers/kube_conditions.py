"""Conditions in the status of Kubernetes' objects (`kubectl get job -o yaml`, `-o json`): each says since when it is.

A sign in a condition's reason or message is of that time, and not of the line above it that happens to bear one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forensics.files import beginning
from forensics.model import Observation, Source
from forensics.parsers.pods import MAX_BYTES, Path, values
from forensics.parsers.stamps import parse_time

_MARK = b"lastTransitionTime"


@dataclass(slots=True)
class Condition:
    """One condition, and where it stands. since: as printed."""

    first: int  # lines, 1-based
    last: int
    since: str | None = None


def refine(source: Source, head: bytes, observations: Sequence[Observation]) -> Sequence[Observation]:
    """The observations of a file, with the time since when a condition holds where they stand in one.

    head: the first bytes of the file. Raises OSError where it cannot be read again.
    """
    if not observations or _MARK not in head:
        return observations
    found = read(beginning(source.file, MAX_BYTES).decode("utf-8", "replace"))
    return [_refined(o, found) for o in observations]


def read(text: str) -> list[Condition]:
    """The conditions of a text, in its order. Never raises for what it holds."""
    conditions: dict[Path, Condition] = {}
    for line, path, value in values(text):
        if "conditions" not in path[:-2]:
            continue
        at = path.index("conditions")
        if not path[at + 1].startswith("["):
            continue
        condition = conditions.setdefault(path[: at + 2], Condition(line, line))
        condition.last = line
        if path[at + 2 :] == ("lasttransitiontime",):
            condition.since = value
    return list(conditions.values())


def _refined(o: Observation, conditions: Sequence[Condition]) -> Observation:
    line = o.evidence[0].line
    since = [c.since for c in conditions if line is not None and c.first <= line <= c.last]
    if len(since) != 1 or since[0] is None:
        return o
    time, zone_known = parse_time(since[0], 0.0)
    return replace(o, time=time, zone_known=zone_known, timed=True) if time is not None else o
