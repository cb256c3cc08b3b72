"""Events of Kubernetes as objects: `kubectl get events -o json`, `-o yaml`, or one object a line.

An event says of which object it speaks, when it was seen last, and which host's kubelet saw it. A sign that stands in
its message is of that pod (or node) at that time, and not of whoever wrote the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from forensics.files import beginning
from forensics.model import Observation, Source
from forensics.parsers.pods import COMPACT_BYTES, MAX_BYTES, Path, values, walked
from forensics.parsers.stamps import parse_time

# The object is called `involvedObject` by v1 and `regarding` by events.k8s.io/v1, whose times have other names too.
_MARKS = (b"involvedObject", b'"regarding"', b"\nregarding:", b"  regarding:")
_OBJECTS = ("involvedobject", "regarding")
# The surest first: `lastTimestamp` is null where the newer API was used.
_TIMES = (
    ("series", "lastobservedtime"),
    ("lasttimestamp",),
    ("deprecatedlasttimestamp",),
    ("eventtime",),
    ("firsttimestamp",),
)
_HOSTS = (("source", "host"), ("deprecatedsource", "host"))
# Who reports: the kubelet does by the name of its node.
_REPORTERS = (
    ("reportingcomponent",),
    ("reportingcontroller",),
    ("source", "component"),
    ("deprecatedsource", "component"),
)


@dataclass(slots=True)
class Event:
    """One event, and where it stands."""

    first: int  # lines, 1-based
    last: int
    kind: str | None = None  # of the object that it speaks of: "Pod", "Node"
    name: str | None = None
    host: str | None = None
    time: str | None = None  # as printed
    instance: str | None = None  # of what reports it
    by_kubelet: bool = False
    _surest: int = len(_TIMES)

    @property
    def place(self) -> str | None:
        """The node from which the event was reported."""
        return self.host or (self.instance if self.by_kubelet else None)

    def take(self, key: Path, value: str) -> None:
        """Take one of the event's own values; key: from the event on."""
        if not value or value == "null":
            return
        if len(key) == 2 and key[0] in _OBJECTS:
            if key[1] == "kind":
                self.kind = value
            elif key[1] == "name":
                self.name = value
        elif key in _HOSTS:
            self.host = value
        elif key == ("reportinginstance",):
            self.instance = value
        elif key in _REPORTERS:
            self.by_kubelet = self.by_kubelet or value == "kubelet"
        elif key in _TIMES and _TIMES.index(key) < self._surest:
            self._surest, self.time = _TIMES.index(key), value


def refine(source: Source, head: bytes, observations: Sequence[Observation]) -> Sequence[Observation]:
    """The observations of a file, with pod, node and time where they stand in an event.

    head: the first bytes of the file. Raises OSError where it cannot be read again.
    """
    if not observations or not any(mark in head for mark in _MARKS):
        return observations
    events = read(beginning(source.file, MAX_BYTES).decode("utf-8", "replace"))
    return [_refined(o, events) for o in observations]


def pods_of(text: str) -> set[str]:
    """The pods that events are of, where a text is of events as objects; else empty."""
    if not any(mark.decode() in text for mark in _MARKS):
        return set()
    return {event.name for event in read(text) if event.kind == "Pod" and event.name is not None}


def read(text: str) -> list[Event]:
    """The events of a text, in its order. Never raises for what it holds."""
    whole = [(n, line) for n, line in enumerate(text.split("\n"), 1) if _is_object(line)]
    if whole:
        return [event for n, line in whole for event in _events(_parsed(line, n))]
    return list(_events(values(text)))


def _is_object(line: str) -> bool:
    return (
        len(line) <= COMPACT_BYTES and line.startswith("{") and line.rstrip().endswith("}") and "nvolvedObject" in line
    )


def _parsed(line: str, number: int) -> Iterator[tuple[int, Path, str]]:
    try:
        yield from walked(json.loads(line), number, ())
    except (ValueError, RecursionError):
        return


def _events(found: Iterable[tuple[int, Path, str]]) -> Iterator[Event]:
    """The events of `pods.values`: each is an item of the outermost list, or the whole document."""
    events: dict[Path, Event] = {}
    for line, path, value in found:
        # The braces of the document itself are a key too, in what is read by its indentation.
        outer = 1 if path[0].startswith("[") else 0
        own = path[: outer + 2] if path[outer : outer + 1] == ("items",) else ()
        if len(path) <= len(own):
            continue
        event = events.setdefault(own, Event(line, line))
        event.last = line
        event.take(tuple(key for key in path[len(own) :] if not key.startswith("[")), value)
    yield from (event for event in events.values() if event.name is not None)


def _refined(o: Observation, events: Sequence[Event]) -> Observation:
    line = o.evidence[0].line
    at = [e for e in events if line is not None and e.first <= line <= e.last]
    if len(at) != 1:
        return o
    event = at[0]
    node = event.name if event.kind == "Node" else event.place
    o = replace(o, identity=replace(o.identity, node=node or o.identity.node))
    if event.kind == "Pod" and event.name is not None:
        note = f"pod {event.name}{f' on {event.place}' if event.place else ''}"
        o = replace(o, captures={**o.captures, "pod": event.name}, note=o.note or note)
    time, zone_known = parse_time(event.time, 0.0) if event.time is not None else (None, False)
    return replace(o, time=time, zone_known=zone_known, timed=True) if time is not None else o
