"""What `docker inspect` says of a container's end: when it ended, and whether that was at its memory limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from forensics.files import beginning
from forensics.model import Observation, Source
from forensics.parsers.stamps import parse_time

MAX_BYTES = 1 << 20  # of a file; a container takes some 10 kB
DEPTH = 6  # of objects: a list of containers, or what a script made of it
_MARK = b'"OOMKilled"'
NOT_FOR_MEMORY = "Docker says that it was not killed at its memory limit (OOMKilled: false)"


@dataclass(frozen=True, slots=True)
class Ended:
    """The state of a container that has ended."""

    name: str | None
    code: int
    for_memory: bool | None  # None where Docker does not say
    finished: str | None  # as printed


def refine(source: Source, head: bytes, observations: Sequence[Observation]) -> Sequence[Observation]:
    """The observations of a log, with when and how its container ended where it is one container's `docker inspect`.

    head: the first bytes of the file. Raises OSError where it cannot be read again.
    """
    if not observations or _MARK not in head:
        return observations
    found = read(beginning(source.file, MAX_BYTES).decode("utf-8", "replace"))
    return [_refined(o, found[0]) for o in observations] if len(found) == 1 else observations


def read(text: str) -> list[Ended]:
    """The containers of a text of JSON that have ended. Never raises for what it holds."""
    try:
        return list(_ended(json.loads(text), 0))
    except (ValueError, RecursionError):
        return []


def _ended(value: object, depth: int) -> Iterator[Ended]:
    if isinstance(value, list) and depth < DEPTH:
        for inner in value:
            yield from _ended(inner, depth + 1)
    if not isinstance(value, dict):
        return
    state = value.get("State")
    if isinstance(state, dict) and isinstance(state.get("ExitCode"), int) and state.get("Running") is not True:
        name, finished, memory = value.get("Name"), state.get("FinishedAt"), state.get("OOMKilled")
        yield Ended(
            name.lstrip("/")[:100] if isinstance(name, str) else None,
            state["ExitCode"],
            memory if isinstance(memory, bool) else None,
            finished if isinstance(finished, str) else None,
        )


def _refined(o: Observation, end: Ended) -> Observation:
    if o.captures.get("exitcode", str(end.code)) != str(end.code):
        return o
    who = f"container {end.name}" if end.name else "the container"
    note = f"{who} ended with exit code {end.code}"
    if end.code == 137 and end.for_memory is False:
        note += f"; {NOT_FOR_MEMORY}"
    time, zone_known = parse_time(end.finished, 0.0) if end.finished is not None else (None, False)
    if time is None:
        return replace(o, note=o.note or note)
    return replace(o, note=o.note or note, time=time, zone_known=zone_known, timed=True)
