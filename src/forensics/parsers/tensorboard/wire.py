"""A minimal reader of the protobuf wire format."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
_INT64_LIMIT = 1 << 63
DOUBLE = Struct("<d")
# Event: wall_time, step, file_version, graph_def, summary, log_message, session_log, tagged_run_metadata,
# meta_graph_def, source_metadata
EVENT_WIRE = {1: FIXED64, 2: VARINT, **dict.fromkeys(range(3, 11), BYTES)}


class Malformed(ValueError):
    """Bytes that are no message of the type that was expected."""


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """(value as uint64, position after it)."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise Malformed("varint")


def signed(value: int) -> int:
    return value - (1 << 64) if value >= _INT64_LIMIT else value


def fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of the message in data[position:end]: (number, wire type, varint value, content start, stop)."""
    while position < end:
        key, position = varint(data, position, end)
        number, wire = key >> 3, key & 7
        value = 0
        start = position
        if wire == VARINT:
            value, stop = varint(data, position, end)
        elif wire == FIXED64:
            stop = position + 8
        elif wire == FIXED32:
            stop = position + 4
        elif wire == BYTES:
            length, start = varint(data, position, end)
            stop = start + length
        else:
            raise Malformed("wire type")
        if stop > end or not number:
            raise Malformed("length")
        yield number, wire, value, start, stop
        position = stop
