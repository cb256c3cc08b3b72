"""Zip files, one entry of their list at a time; checkpoints of torch are such files too."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from forensics.archives.limits import CHUNK, Stop


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """One entry of a zip's central directory. Offsets and sizes are bytes; times are local and read as UTC."""

    name: str
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    offset: int  # of its local header
    mode: int  # the Unix mode; 0 where none is stated
    modified: float
    missing: int = 0  # bytes of its data that a cut file no longer holds; less than all that are missing at times
    checked: bool = True  # whether `crc` is stated

    def data_at(self, raw: BinaryIO, size: int) -> int | None:
        """Where its data begin; None where no local header of it stands at its offset."""
        if self.offset + 30 > size:
            return None
        raw.seek(self.offset)
        head = raw.read(30)
        if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
            return None
        return self.offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")


@dataclass(frozen=True, slots=True)
class ZipEnd:
    """What the end of a zip file states of its central directory."""

    entries: int
    size: int  # bytes of the central directory
    offset: int  # where it begins
    after: int  # bytes that follow the record and its comment


def zip_end(raw: BinaryIO, size: int) -> ZipEnd | None:
    """The end-of-central-directory record (APPNOTE 4.3.14-16) of a file of `size` bytes; None where there is none."""
    reach = min(size, 65_535 + 22)
    raw.seek(size - reach)
    tail = raw.read(reach)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        return None
    entries, length, offset = struct.unpack("<HII", tail[at + 10 : at + 20])
    place = size - reach + at
    after = len(tail) - at - 22 - int.from_bytes(tail[at + 20 : at + 22], "little")
    if entries == 0xFFFF or length == 0xFFFFFFFF or offset == 0xFFFFFFFF:
        raw.seek(max(0, place - 20))
        locator = raw.read(20)
        if locator.startswith(b"PK\x06\x07"):
            raw.seek(struct.unpack("<Q", locator[8:16])[0] & (1 << 62) - 1)
            wide = raw.read(56)
            if len(wide) == 56 and wide.startswith(b"PK\x06\x06"):
                entries, length, offset = struct.unpack("<QQQ", wide[32:56])
    return ZipEnd(entries, length, offset, after)


def zip_entries(raw: BinaryIO, size: int) -> Iterator[ZipEntry]:
    """The entries of a zip file, one at a time. Raises Stop where its list of members is missing or damaged."""
    end = zip_end(raw, size)
    if end is None:
        raise Stop("cut off: a zip file ends in a list of its members, which is missing")
    if end.offset + end.size > size:
        raise Stop(f"damaged: its list of members would end at byte {end.offset + end.size:,} of {size:,}")
    at = end.offset
    while at < end.offset + end.size:
        raw.seek(at)
        fixed = raw.read(46)
        if len(fixed) < 46 or not fixed.startswith(b"PK\x01\x02"):
            raise Stop("damaged: its list of members breaks off")
        flags, method, time, date, crc, packed, full, n, m, k = struct.unpack("<HHHHIIIHHH", fixed[8:34])
        mode = struct.unpack("<I", fixed[38:42])[0] >> 16
        offset = struct.unpack("<I", fixed[42:46])[0]
        rest = raw.read(n + m)
        name = rest[:n].decode("utf-8" if flags & 0x800 else "cp437", "replace")
        full, packed, offset = _zip64(rest[n:], full, packed, offset)
        yield ZipEntry(name, method, flags, crc, packed, full, offset, mode, _dos_time(date, time))
        at += 46 + n + m + k


def found_entries(raw: BinaryIO, size: int) -> Iterator[ZipEntry]:
    """As `zip_entries`; where the list is missing, the members before the cut by their local headers, and then Stop.

    The last of them may lack the end of its data.
    """
    end = zip_end(raw, size)
    if end is not None and _is_list(raw, end):
        yield from zip_entries(raw, size)
        return
    yield from _by_local_headers(raw, size)
    raise Stop("cut off: the list of members at its end is missing; what stands before the cut was read")


def _is_list(raw: BinaryIO, end: ZipEnd) -> bool:
    """Whether a list of members stands where it should; a zip within a cut one has an end as well."""
    if not end.entries and not end.size:
        return True
    raw.seek(min(end.offset, (1 << 62) - 1))
    return raw.read(4) in (b"PK\x01\x02", b"PK\x06\x06") or end.after == 0


def _by_local_headers(raw: BinaryIO, size: int) -> Iterator[ZipEntry]:
    """The members of a zip file whose list is missing (APPNOTE 4.3.7, 4.3.9), up to the first that is cut off.

    A writer that did not know a member's size states it behind the data, in a descriptor that begins with a mark and
    holds how far back the data began; where no such descriptor follows, the member's data go on to the end of the file.
    """
    at = 0
    while at + 30 <= size:
        raw.seek(at)
        head = raw.read(30)
        if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
            return
        flags, method, time, date, crc, packed, full, n, m = struct.unpack("<HHHHIIIHH", head[6:30])
        rest = raw.read(n + m)
        if len(rest) < n + m:
            return
        name = rest[:n].decode("utf-8" if flags & 0x800 else "cp437", "replace")
        full, packed, _ = _zip64(rest[n:], full, packed, 0)
        start, missing, checked = at + 30 + n + m, 0, True
        if flags & 8 and not packed:
            found = _descriptor(raw, start, size)
            checked = found is not None
            crc, packed, full = found if found is not None else (0, size - start, full)
            missing = 1 if found is None and method == 0 else 0  # what is only stored does not tell where it ends
        elif start + packed > size:
            missing, packed = start + packed - size, size - start
        yield ZipEntry(name, method, flags, crc, packed, full, at, 0, _dos_time(date, time), missing, checked)
        at = _behind(raw, start + packed) if flags & 8 else start + packed


def _behind(raw: BinaryIO, at: int) -> int:
    """Where the next header stands behind data and their descriptor, which has no mark in some files."""
    raw.seek(at)
    window = raw.read(28)
    marks = (b"PK\x03\x04", b"PK\x01\x02")
    return at + next((n for n in (0, 12, 16, 20, 24) if window[n : n + 4] in marks), 0)


def _descriptor(raw: BinaryIO, start: int, size: int) -> tuple[int, int, int] | None:
    """(crc, packed, unpacked bytes) of the data descriptor of data that begin at `start`; None where there is none."""
    at, tail = start, b""
    while at < size:
        raw.seek(at)
        block = raw.read(CHUNK)
        if not block:
            return None
        data, base = tail + block, at - len(tail)
        found = data.find(b"PK\x07\x08")
        while 0 <= found <= len(data) - 16:
            packed = base + found - start
            crc, narrow = struct.unpack("<II", data[found + 4 : found + 12])
            wide = data[found + 8 : found + 24]
            if len(wide) == 16 and packed and struct.unpack("<Q", wide[:8])[0] == packed:
                return crc, packed, struct.unpack("<Q", wide[8:])[0]
            if narrow == packed:
                return crc, packed, struct.unpack("<I", data[found + 12 : found + 16])[0]
            found = data.find(b"PK\x07\x08", found + 4)
        at += len(block)
        tail = data[-23:]
    return None


def _zip64(extra: bytes, full: int, packed: int, offset: int) -> tuple[int, int, int]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1:
            field_ = extra[at + 4 : at + 4 + length]
            numbers = iter(int.from_bytes(field_[i : i + 8], "little") for i in range(0, len(field_) - 7, 8))
            full = next(numbers, full) if full == 0xFFFFFFFF else full
            packed = next(numbers, packed) if packed == 0xFFFFFFFF else packed
            offset = next(numbers, offset) if offset == 0xFFFFFFFF else offset
        at += 4 + length
    return full, packed, offset


def _dos_time(date: int, time: int) -> float:
    from datetime import UTC, datetime

    try:
        day = datetime((date >> 9) + 1980, date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, tzinfo=UTC)
        return day.timestamp() + 2 * (time & 31)
    except ValueError:
        return 0.0
