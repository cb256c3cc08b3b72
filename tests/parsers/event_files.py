"""An encoder of event files that shares nothing with the reader: records, events, summaries."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from forensics.parsers import tensorboard as tb

T0 = 1_700_000_000.0
Row = tuple[int, float, str, float]


# --- an encoder that shares nothing with the reader -----------------------------------------------------------------


def crc32c(data: bytes) -> int:
    """Bit by bit, straight from the definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def num(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def sub(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(step: int, *values: bytes, time: float = T0) -> bytes:
    summary = sub(5, b"".join(sub(1, value) for value in values)) if values else b""
    return b"\x09" + struct.pack("<d", time) + (num(2, step) if step else b"") + summary


def simple(tag: str, value: float) -> bytes:
    return sub(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def plugin(name: str, content: bytes = b"") -> bytes:
    return sub(9, sub(1, sub(1, name.encode()) + (sub(2, content) if content else b"")))


def tensor(tag: str, dtype: int, body: bytes, shape: Sequence[int] = (), metadata: bytes = plugin("scalars")) -> bytes:
    dims = b"".join(sub(2, num(1, size)) for size in shape)
    return sub(1, tag.encode()) + sub(8, num(1, dtype) + sub(2, dims) + body) + metadata


VERSION = record(b"\x09" + struct.pack("<d", T0) + sub(3, b"brain.Event:2"))


def scalar_records(count: int) -> list[bytes]:
    return [record(event(n, simple("train/loss", n / 4), time=T0 + n)) for n in range(count)]


def scalar_rows(count: int) -> list[Row]:
    return [(n, T0 + n, "train/loss", n / 4) for n in range(count)]


def read(tmp_path: Path, data: bytes, **options: int) -> tb.EventFile:
    path = tmp_path / "events.out.tfevents.0.host"
    path.write_bytes(data)
    return tb.read_events(path, **options)


def rows(file: tb.EventFile) -> list[Row]:
    return list(file.scalars.select("step", "time", "tag", "value").iter_rows())


def incomplete(have: int, need: int) -> str:
    return f"the last record is incomplete ({have} of {need} bytes): still being written, or cut off"
