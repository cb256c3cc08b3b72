"""TensorBoard event files: TFRecord framing around Event messages, read without tensorboard, protobuf or numpy.

Layers, bottom up: `checksums` (CRC32C for many payloads at once), `frames` (the walk over the records, which survives
damage), `wire` (the protobuf wire format), `tensors`, `histograms` and `hparams` (what a summary can hold), `events`
(records as rows), `reader` (one file), `table` (rows of the run's tables), `folders` (files that follow each
other). `sniff` tells event files from others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from forensics.parsers.tensorboard.sniff import looks_like_events

if TYPE_CHECKING:
    from forensics.parsers.tensorboard.events import EVENT_COLUMNS, Session
    from forensics.parsers.tensorboard.folders import launches
    from forensics.parsers.tensorboard.reader import EventFile, Follower, read_events
    from forensics.parsers.tensorboard.table import MAX_FACTS, facts, metrics, resumes

__all__ = [
    "EVENT_COLUMNS",
    "MAX_FACTS",
    "EventFile",
    "Follower",
    "Session",
    "ends",
    "facts",
    "launches",
    "looks_like_events",
    "metrics",
    "read_events",
    "resumes",
]

# Every run asks for the test of the first bytes, and few for the rest.
_HOME = {
    "EVENT_COLUMNS": "events",
    "Session": "events",
    "EventFile": "reader",
    "Follower": "reader",
    "read_events": "reader",
    "launches": "folders",
    "ends": "table",
    "facts": "table",
    "metrics": "table",
    "MAX_FACTS": "table",
    "resumes": "table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found
