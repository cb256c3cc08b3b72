"""Numbers and texts as records of a TensorBoard event file, without tensorboard or protobuf.

Field numbers are those of TensorFlow's `event.proto` and `summary.proto`; the framing is that of its
`lib/io/record_writer`.
Checksums are the dear part in Python, and are taken of many records at once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from forensics.parsers.tensorboard.checksums import header_checksum, masked_crcs

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_STRING = 7  # DT_STRING of types.proto
_START = 1  # SessionLog.START


def version(time: float) -> bytes:
    """The first event of a file."""
    return b"\x09" + _DOUBLE.pack(time) + _field(3, b"brain.Event:2")


def session(time: float, step: int) -> bytes:
    """A session starts at `step`: what was recorded from there on before is void."""
    return _event(time, step, _field(7, b"\x08" + _varint(_START)))


def numbers(time: float, step: int, values: Mapping[str, float]) -> bytes:
    """One event with all scalars of a step; they are kept in single precision."""
    listed = [_field(1, _field(1, tag.encode()) + b"\x15" + _single(value)) for tag, value in values.items()]
    return _event(time, step, _field(5, b"".join(listed)))


def text(time: float, step: int, tag: str, content: str) -> bytes:
    """One event with a text, as `SummaryWriter.add_text` writes it."""
    metadata = _field(1, _field(1, b"text"))
    shape = _field(2, _field(2, b"\x08\x01"))
    tensor = b"\x08" + _varint(_STRING) + shape + _field(8, content.encode("utf-8", "replace"))
    value = _field(1, f"{tag}/text_summary".encode()) + _field(8, tensor) + _field(9, metadata)
    return _event(time, step, _field(5, _field(1, value)))


def framed(events: Sequence[bytes]) -> bytes:
    """Events as they stand in the file: length, its checksum, the event, its checksum."""
    headers = {size: _HEADER.pack(size, header_checksum(size)) for size in {len(event) for event in events}}
    checksums = masked_crcs(events)
    parts: list[bytes] = []
    for event, checksum in zip(events, checksums, strict=True):
        parts += (headers[len(event)], event, _FOOTER.pack(checksum))
    return b"".join(parts)


def _event(time: float, step: int, rest: bytes) -> bytes:
    return b"\x09" + _DOUBLE.pack(time) + b"\x10" + _varint(step) + rest


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    if value < 0x80:
        return bytes((value,))
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _single(value: float) -> bytes:
    try:
        return _FLOAT.pack(value)
    except OverflowError:  # finite, and too large for single precision
        return _FLOAT.pack(float("inf") if value > 0 else float("-inf"))
