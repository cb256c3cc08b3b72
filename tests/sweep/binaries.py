"""TensorBoard event files and Flight Recorder dumps at another time. Both are our own samples, and trusted."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

from forensics.parsers.tensorboard.checksums import masked_crc


def events(data: bytes, shift: int, stride: int) -> bytes:
    """An event file whose times differ by `shift` seconds and whose steps are multiplied by `stride`."""
    out, at = io.BytesIO(), 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12 : at + 12 + length]
        if len(record) < length:
            break
        at += length + 16
        record = _event(record, shift, stride)
        head = struct.pack("<Q", len(record))
        out.write(head + struct.pack("<I", masked_crc(head)) + record + struct.pack("<I", masked_crc(record)))
    return out.getvalue() + data[at:]


def _event(record: bytes, shift: int, stride: int) -> bytes:
    """tensorboard.Event: wall_time is field 1 (a double), step field 2 (a varint); what follows is left as it is."""
    if record[:1] != b"\x09":
        return record
    (time,) = struct.unpack_from("<d", record, 1)
    head, rest = b"\x09" + struct.pack("<d", time + shift), record[9:]
    if rest[:1] != b"\x10":
        return head + rest
    step, size = _varint(rest[1:])
    return head + b"\x10" + _as_varint(step * stride) + rest[1 + size :]


def _varint(data: bytes) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, i + 1
    raise ValueError("no varint")


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def dump(data: bytes, shift: int) -> bytes:
    """A Flight Recorder dump whose `..._ns` differ by `shift` seconds."""

    def moved(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: moved(v, str(k)) for k, v in value.items()}
        if isinstance(value, list):
            return [moved(v, key) for v in value]
        if isinstance(value, int) and key.endswith("_ns") and value > 10**17:
            return value + shift * 10**9
        return value

    return pickle.dumps(moved(pickle.loads(data)), protocol=2)
