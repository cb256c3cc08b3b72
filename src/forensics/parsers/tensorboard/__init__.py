"""TensorBoard event files: TFRecord framing around Event messages, read without tensorboard, protobuf or numpy.

Layers, bottom up: `checksums` (CRC32C for many payloads at once), `frames` (the walk over the records, which survives
damage), `wire` (the protobuf wire format), `tensors`, `histograms` and `hparams` (what a summary can hold), `events`
(records as rows), `reader` (one file), `table` (rows of the run's tables).
"""

from forensics.parsers.tensorboard.events import EVENT_COLUMNS, Session
from forensics.parsers.tensorboard.reader import EventFile, looks_like_events, read_events
from forensics.parsers.tensorboard.table import facts, metrics, resumes

__all__ = [
    "EVENT_COLUMNS",
    "EventFile",
    "Session",
    "facts",
    "looks_like_events",
    "metrics",
    "read_events",
    "resumes",
]
