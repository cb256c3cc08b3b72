"""The walk over the records of an event file, which survives damage.

The record format is that of TensorFlow's `lib/io/record_writer`: uint64 length, masked CRC32C of those 8 bytes,
payload, masked CRC32C of the payload; all little-endian.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import BinaryIO

from forensics.parsers.tensorboard.checksums import MASK_DELTA, ONES, header_checksum, length_tables, masked_crc

BLOCK = 4 << 20  # bytes read at a time
LARGE = 4 << 20  # bytes; a longer record is an image, a graph or audio: passed over, so that memory stays bounded
RESYNC_TRIES = 4_000_000  # header candidates (some seconds) to test in damaged stretches before giving up
_BYTES_A_TRY = 16  # bytes of payload whose checksum costs as much as one header candidate

HEADER = Struct("<QI")
FOOTER = Struct("<I")
FRAME = HEADER.size + FOOTER.size  # 16 bytes of framing around each payload
_ZEROS = re.compile(rb"\x00{4,}")


@dataclass(slots=True)
class Frames:
    """Records of one block, as columns."""

    offsets: list[int] = field(default_factory=list)  # of the records' headers, in the file
    payloads: list[bytes] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)  # as stored

    def pop(self) -> None:
        self.offsets.pop()
        self.payloads.pop()
        self.checksums.pop()


@dataclass(slots=True)
class Walk:
    """How the walk through one file goes: where it may read, and what it met."""

    size: int = 0  # of the file
    limit: int = 0  # bytes that may be read
    read: int = 0
    records: int = 0
    last_good: int = -1  # offset of the last record with correct checksums
    wrong: int = 0  # records with a wrong payload checksum
    wrong_at: int = -1
    strange: int = 0  # records with correct checksums that are no Event
    strange_at: int = -1
    gaps: int = 0  # stretches without a valid header
    gap_bytes: int = 0
    gap_at: int = -1
    gap_open: int | None = None  # start of the stretch that is being searched
    gap_zeros: bool = True  # it holds zeros only, so far
    zero_tail: int = 0  # bytes of zeros at the end of the file
    cut: tuple[int, int | None] | None = None  # bytes there, bytes that the record should have
    tries: int = 0  # header candidates that may still be tested in damaged stretches
    notes: list[str] = field(default_factory=list)

    def spend(self, tries: int) -> None:
        """Keep hostile files, which nest headers in damaged payloads, from costing more than seconds."""
        self.tries = max(0, self.tries - tries)

    def close_gap(self, end: int) -> None:
        if self.gap_open is None:
            return
        if self.gap_at < 0:
            self.gap_at = self.gap_open
        self.gaps += 1
        self.gap_bytes += end - self.gap_open
        self.gap_open = None
        self.cut = None

    def problem(self) -> str | None:
        """All that went wrong, as one sentence for people."""
        parts = list(self.notes)
        if not self.size and not parts:
            parts.append("the file is empty")
        if self.wrong:
            parts.append(f"{_count(self.wrong, 'record')} with a wrong checksum skipped, first at byte {self.wrong_at}")
        if self.gaps:
            place = "at" if self.gaps == 1 else f"in {self.gaps} places, first at"
            lost = _count(self.gap_bytes, "byte")
            parts.append(f"{lost} without a valid record header skipped {place} byte {self.gap_at}")
        first = min((at for at in (self.wrong_at, self.gap_at) if at >= 0), default=None)
        if first is not None and self.last_good > first:
            parts.append("what follows was still read")
        if self.strange:
            parts.append(f"{_count(self.strange, 'record')} that are no Event ignored, first at byte {self.strange_at}")
        if self.cut is not None:
            have, need = self.cut
            of = need if need is not None else "at least 17"
            parts.append(f"the last record is incomplete ({have} of {of} bytes): still being written, or cut off")
        if self.zero_tail:
            zeros = _count(self.zero_tail, "zero byte")
            parts.append(f"{zeros} at the end: room that was never written, or lost when the machine went down")
        if self.read < self.size and self.limit < self.size:
            parts.append(f"only the first {self.limit} of {self.size} bytes were read")
        return ", ".join(parts) or None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def blocks(stream: BinaryIO, walk: Walk) -> Iterator[Frames]:
    """The frames of a file, a block of it at a time."""
    base = 0
    buffer = b""
    known: dict[int, int] = {}
    while True:
        end = base + len(buffer)
        block = stream.read(min(BLOCK, walk.limit - end)) if end < walk.limit else b""
        if not block:
            # The file may have been cut by somebody since its size was taken.
            walk.limit = min(walk.limit, end)
        buffer += block
        walk.read = max(walk.read, base + len(buffer))
        final = base + len(buffer) >= walk.limit
        frames, used = _frames(buffer, base, final, walk, known)
        yield frames
        if final:
            return
        base += used
        if used > len(buffer):
            stream.seek(base)
            buffer = b""
        else:
            buffer = buffer[used:]


def whole(buffer: bytes, there: int, walk: Walk) -> tuple[Frames, int]:
    """The whole frames at the start of `buffer`, and how many bytes are done with; for a file that still grows.

    there: bytes of the file from the start of the buffer on. A record that is not all there yet is left for later; one
    longer than LARGE is passed over, and bytes that are none up to the next header.
    """
    found = Frames()
    position = 0
    while position + HEADER.size <= len(buffer):
        length, checksum = HEADER.unpack_from(buffer, position)
        if length == 0 or header_checksum(length) != checksum:
            next_one = next_header(buffer, position + 1, walk) if walk.tries else None
            if next_one is None:
                return found, max(position, len(buffer) - HEADER.size + 1)
            position = next_one
            continue
        end = position + length + FRAME
        if end > there:
            break
        if length > LARGE:
            return found, end
        if end > len(buffer):
            break
        found.offsets.append(position)
        found.payloads.append(buffer[position + HEADER.size : end - FOOTER.size])
        found.checksums.append(FOOTER.unpack_from(buffer, end - FOOTER.size)[0])
        position = end
    return found, position


def _frames(buffer: bytes, base: int, final: bool, walk: Walk, known: dict[int, int]) -> tuple[Frames, int]:
    """The whole frames in `buffer`, which starts at byte `base` of the file, and how many bytes of it are done with.

    `known` holds header checksums by length: real files have few lengths. A header that is right vouches for its
    length, even where the payload's checksum is wrong. But where no header follows such a payload, bytes are missing
    or were put in, and the next header is looked for from the damaged payload's start.
    """
    frames = Frames()
    offsets, payloads, checksums = frames.offsets, frames.payloads, frames.checksums
    position = 0
    size = len(buffer)
    unpack = HEADER.unpack_from
    footer = FOOTER.unpack_from
    while True:
        if walk.gap_open is not None:
            found = next_header(buffer, position, walk)
            if found is None:
                walk.gap_zeros = walk.gap_zeros and not buffer[max(0, walk.gap_open - base) :].strip(b"\0")
                if final or not walk.tries:
                    _end_in_gap(walk)
                    return frames, walk.limit - base
                return frames, max(position, size - HEADER.size + 1)
            walk.close_gap(base + found)
            position = found
        while position + FRAME <= size:
            length, checksum = unpack(buffer, position)
            end = position + length + 12
            if known.get(length) != checksum or end + 4 > size:
                break
            offsets.append(base + position)
            payloads.append(buffer[position + 12 : end])
            checksums.append(footer(buffer, end)[0])
            position = end + 4
        if position + HEADER.size <= size:
            length, checksum = unpack(buffer, position)
            valid = length > 0 and header_checksum(length) == checksum
            end = position + length + FRAME
            if valid and end <= size:
                known[length] = checksum
                continue
            if valid and base + end <= walk.limit:
                if length > LARGE:
                    walk.records += 1
                    walk.last_good = base + position
                    return frames, end
                break
            if valid and base + end <= walk.size:
                break  # whole in the file, and beyond what we were asked to read
            cut = (walk.limit - base - position, length + FRAME) if valid else None
        elif not final or position == size or walk.limit < walk.size:
            break
        else:
            cut = (size - position, None)
        start = position + 1
        if offsets and offsets[-1] + len(payloads[-1]) + FRAME == base + position:
            walk.spend(len(payloads[-1]) // _BYTES_A_TRY)
            if walk.tries and masked_crc(payloads[-1]) != checksums[-1]:
                walk.gap_open = offsets[-1]
                walk.gap_zeros = False
                walk.cut = None
                position = offsets[-1] - base + HEADER.size
                frames.pop()
                continue
        walk.gap_open = base + position
        walk.gap_zeros = True
        walk.cut = cut
        position = start
    if not final and offsets:
        # The last one waits until the header after it has been seen.
        position = offsets[-1] - base
        frames.pop()
    return frames, position


def _end_in_gap(walk: Walk) -> None:
    """Close a stretch that reaches the end: a cut record where it starts like one, else foreign bytes."""
    if walk.gap_open is not None and walk.gap_zeros and walk.tries:
        walk.zero_tail = walk.limit - walk.gap_open
        walk.gap_open = walk.cut = None
        return
    if walk.cut is not None and walk.tries:
        walk.gap_open = None
        return
    if not walk.tries:
        walk.notes.append("given up searching for the next record in damaged bytes")
    walk.close_gap(walk.limit)


def next_header(buffer: bytes, start: int, walk: Walk) -> int | None:
    """The first position from `start` on that holds a valid header of a record that fits, or None.

    Lengths below 2**32 have four zero bytes on top, so only places before a run of zeros are tested; one inside a run
    would be a record of length 0, which no writer writes (and which a hole in the file is full of).
    """
    first, second, third, fourth = length_tables()
    size = len(buffer)
    load = int.from_bytes
    tries = walk.tries
    for run in _ZEROS.finditer(buffer, start):
        zeros, end = run.span()
        for position in range(max(start, zeros - 4), min(zeros, end - 7, size - 11)):
            crc = (
                first[buffer[position]]
                ^ second[buffer[position + 1]]
                ^ third[buffer[position + 2]]
                ^ fourth[buffer[position + 3]]
            )
            tries -= 1
            if ((crc >> 15 | crc << 17) + MASK_DELTA) & ONES == load(buffer[position + 8 : position + 12], "little"):
                walk.tries = max(tries, 0)
                return position
        tries -= 1
        if tries <= 0:
            break
    walk.tries = max(tries, 0)
    return None
