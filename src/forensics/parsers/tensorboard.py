"""TensorBoard event files: TFRecord framing around Event messages, read without tensorboard, protobuf or numpy.

Three layers, bottom up: CRC32C for many payloads at once, the walk over the frames (which survives damage), and a
minimal reader of the protobuf wire format that knows the few fields of `Event` that hold numbers and text.

Sources of the constants: the record format is that of TensorFlow's `lib/io/record_writer` (uint64 length, masked CRC32C
of those 8 bytes, payload, masked CRC32C of the payload; all little-endian); field numbers are those of `event.proto`,
`summary.proto`, `tensor.proto`, `types.proto` and, for hyperparameters, of the hparams plugin's `plugin_data.proto`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from struct import Struct
from struct import error as StructError
from sys import byteorder
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from forensics.model import METRICS_COLUMNS, Source, schema

if TYPE_CHECKING:
    import polars as pl

BLOCK = 4 << 20  # bytes read at a time
LARGE = 4 << 20  # bytes; a longer record is an image, a graph or audio: passed over, so that memory stays bounded
RESYNC_TRIES = 4_000_000  # header candidates (some seconds) to test in damaged stretches before giving up
_BYTES_A_TRY = 16  # bytes of payload whose checksum costs as much as one header candidate
MAX_TEXT = 10_000  # characters kept of one text summary
MAX_TEXTS = 1_000  # text summaries kept of one file

EVENT_COLUMNS: dict[str, str] = {"step": "Int64", "time": "Float64", "tag": "String", "value": "Float64"}

_FILE_VERSION = b"brain.Event:"
_HEADER = Struct("<QI")
_FOOTER = Struct("<I")
_DOUBLE = Struct("<d")
_FRAME = _HEADER.size + _FOOTER.size  # 16 bytes of framing around each payload


@dataclass(frozen=True, slots=True)
class EventFile:
    """What one event file says."""

    scalars: pl.DataFrame  # EVENT_COLUMNS, in file order; time in seconds since the epoch; NaN and Inf kept
    records: int  # records with correct checksums, whatever they hold
    bytes_read: int
    problem: str | None  # what could not be read and why, for people; None where all was
    text: tuple[tuple[str, int, str], ...] = ()  # (tag, step, text) of text summaries and hyperparameters


def looks_like_events(head: bytes) -> bool:
    """Tell from the first bytes of a file (64 or more are best) whether it is an event file.

    True where the version record shows, or where the first record has a correct header and its payload, as far as it
    lies in `head`, reads as an Event (other TFRecord files, such as data sets, do not). False for less than 12 bytes.
    """
    if len(head) < _HEADER.size:
        return False
    if _FILE_VERSION in head[:64]:
        return True
    length, checksum = _HEADER.unpack_from(head)
    if not length or _header_checksum(length) != checksum:
        return False
    payload = head[_HEADER.size : _HEADER.size + length]
    if len(payload) < length:
        # Every writer sets wall_time, and it is serialised first: field 1, fixed64.
        return payload[:1] in (b"", b"\x09")
    try:
        numbers = {(number, wire) for number, wire, _, _, _ in _fields(payload, 0, length)}
    except _Malformed:
        return False
    return bool(numbers) and all(_EVENT_WIRE.get(number) == wire for number, wire in numbers)


def read_scalars(path: Path, *, max_bytes: int | None = None) -> EventFile:
    """Read every scalar of an event file, and go on after damage.

    Never raises on content: cut tails, wrong checksums and foreign bytes are told in `problem`, and what stands before
    and after them is still read. A file that cannot be opened has `problem` too. With `max_bytes` only that many bytes
    from the start are looked at.
    """
    walk = _Walk(tries=RESYNC_TRIES)
    rows = _Rows()
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            walk.size = size
            walk.limit = size if max_bytes is None else max(0, min(size, max_bytes))
            for frames in _blocks(stream, walk):
                _read_frames(frames, walk, rows)
    except OSError as error:
        walk.notes.append(f"cannot be read: {error.strerror or error}")
    return EventFile(rows.frame(), walk.records, walk.read, walk.problem(), tuple(rows.text))


def metrics(file: EventFile, source: Source) -> pl.DataFrame:
    """The scalars as rows of `model.METRICS_COLUMNS`, under canonical names and in canonical units.

    An unknown tag stays its own name. So does the second of two tags that mean the same at one step (the learning rates
    of parameter groups): a series under a canonical name holds one number a step, and nothing is lost. Parts of a loss
    are no series, and keep their common name. `epoch` is the epoch that the file gives for the same step.
    """
    import polars as pl

    from forensics.parsers.names import canonical, factor

    known = {key: found for key in file.scalars["tag"].unique().to_list() if (found := canonical(key)) is not None}
    factors = {key: scale for key in known if (scale := factor(key)) != 1}
    tag, name, value = pl.col("tag"), pl.col("name"), pl.col("value")
    columns = schema(METRICS_COLUMNS)
    fixed = {"source": source.path, "line": None, "rank": source.identity.rank, "attempt": source.identity.attempt}
    return (
        file.scalars.with_columns(
            tag.replace_strict(known, default=tag, return_dtype=pl.String).alias("name"),
            value * tag.replace_strict(factors, default=1.0, return_dtype=pl.Float64),
        )
        .with_columns(
            pl.when((name == "loss_part") | (tag == tag.first().over("step", "name")))
            .then(name)
            .otherwise(tag)
            .alias("name"),
            value.filter(name == "epoch").first().over("step").alias("epoch"),
        )
        .with_columns(pl.lit(content, dtype=columns[column]).alias(column) for column, content in fixed.items())
        .select(*columns)
    )


# --- CRC32C --------------------------------------------------------------------------------------------------------

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bit-reversed (RFC 3720, appendix B.4)
_MASK_DELTA = 0xA282EAD8  # TensorFlow's lib/hash/crc32c.h
_ONES = 0xFFFFFFFF
_WIDTH = 48  # bytes a piece: one for a usual scalar; longer ones mean more padding, shorter ones more pieces
_FEW = 16  # payloads below which the plain loop is cheaper than whole columns


def _make_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _make_table()
_PLANES = tuple(bytes(entry >> shift & 0xFF for entry in _TABLE) for shift in (0, 8, 16, 24))


def _advance(state: int, data: bytes) -> int:
    table = _TABLE
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


def _mask(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ONES


def _checksum(data: bytes) -> int:
    """Masked CRC32C, one byte after the other (some 20 MB a second)."""
    return _mask(_advance(_ONES, data) ^ _ONES)


@cache
def _prefix() -> bytes:
    """Four bytes that bring a CRC register from 0 to all ones, the start value.

    With them in front, zero bytes can be put before them without any effect: so payloads of any length line up at their
    ends, and all go through the same columns.
    """
    by_top = {entry >> 24: index for index, entry in enumerate(_TABLE)}
    state = _ONES
    for _ in range(4):
        index = by_top[state >> 24]
        state = ((state ^ _TABLE[index]) << 8 | index) & _ONES
    return state.to_bytes(4, "little")


@cache
def _shift_tables() -> tuple[tuple[int, ...], ...]:
    """For each byte of a CRC register, what it becomes when one more piece of `_WIDTH` bytes follows."""
    zeros = bytes(_WIDTH)
    return tuple(tuple(_advance(value << shift, zeros) for value in range(256)) for shift in (0, 8, 16, 24))


def _checksums(payloads: Sequence[bytes]) -> list[int]:
    """Masked CRC32C of many payloads, by columns.

    All payloads are cut into pieces of `_WIDTH` bytes; the n-th bytes of all pieces form one `bytes` object, for which
    a table lookup is one `translate` and an XOR is one XOR of long integers. That needs no more than the standard
    library, and takes about a fifth of the time of the plain loop.
    """
    if len(payloads) < _FEW and sum(map(len, payloads)) < _FEW * _WIDTH:
        return [_checksum(payload) for payload in payloads]
    prefix = _prefix()
    counts = [(len(payload) + 3 + _WIDTH) // _WIDTH for payload in payloads]
    joined = b"".join(
        [(prefix + payload).rjust(count * _WIDTH, b"\0") for payload, count in zip(payloads, counts, strict=True)]
    )
    size = len(joined) // _WIDTH
    load = int.from_bytes
    low, second, third, high = _PLANES
    a = b = c = d = 0  # the four bytes of all registers
    for column in range(_WIDTH):
        index = (a ^ load(joined[column::_WIDTH], "little")).to_bytes(size, "little")
        a = b ^ load(index.translate(low), "little")
        b = c ^ load(index.translate(second), "little")
        c = d ^ load(index.translate(third), "little")
        d = load(index.translate(high), "little")
    planes = bytearray(4 * size)
    for offset, plane in enumerate((a, b, c, d)):
        planes[offset::4] = plane.to_bytes(size, "little")
    pieces = array("I", bytes(planes))
    if byteorder == "big":
        pieces.byteswap()
    shift_a, shift_b, shift_c, shift_d = _shift_tables()
    checksums = []
    at = 0
    for count in counts:
        state = pieces[at]
        at += 1
        while count > 1:
            state = (
                shift_a[state & 0xFF]
                ^ shift_b[state >> 8 & 0xFF]
                ^ shift_c[state >> 16 & 0xFF]
                ^ shift_d[state >> 24]
                ^ pieces[at]
            )
            at += 1
            count -= 1
        state ^= _ONES
        checksums.append(((state >> 15 | state << 17) + _MASK_DELTA) & _ONES)
    return checksums


def _header_checksum(length: int) -> int:
    return _checksum(length.to_bytes(8, "little"))


@cache
def _length_tables() -> tuple[tuple[int, ...], ...]:
    """What each of the four low bytes of a length adds to the CRC of its eight bytes, unmasked."""
    # A CRC is affine: what eight zero bytes give goes into the first table.
    zero = _advance(_ONES, bytes(8)) ^ _ONES
    first, *others = (tuple(_advance(value, bytes(8 - at)) for value in range(256)) for at in range(4))
    return tuple(value ^ zero for value in first), *others


# --- frames --------------------------------------------------------------------------------------------------------

_ZEROS = re.compile(rb"\x00{4,}")


@dataclass(slots=True)
class _Frames:
    """Records of one block, as columns."""

    offsets: list[int] = field(default_factory=list)  # of the records' headers, in the file
    payloads: list[bytes] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)  # as stored

    def pop(self) -> None:
        self.offsets.pop()
        self.payloads.pop()
        self.checksums.pop()


@dataclass(slots=True)
class _Walk:
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
            parts.append(f"last record cut off after {have} of {need if need is not None else 'at least 17'} bytes")
        if self.read < self.size and self.limit < self.size:
            parts.append(f"only the first {self.limit} of {self.size} bytes were read")
        return ", ".join(parts) or None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _blocks(stream: BinaryIO, walk: _Walk) -> Iterator[_Frames]:
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


def _frames(buffer: bytes, base: int, final: bool, walk: _Walk, known: dict[int, int]) -> tuple[_Frames, int]:
    """The whole frames in `buffer`, which starts at byte `base` of the file, and how many bytes of it are done with.

    `known` holds header checksums by length: real files have few lengths. A header that is right vouches for its
    length, even where the payload's checksum is wrong. But where no header follows such a payload, bytes are missing
    or were put in, and the next header is looked for from the damaged payload's start.
    """
    frames = _Frames()
    offsets, payloads, checksums = frames.offsets, frames.payloads, frames.checksums
    position = 0
    size = len(buffer)
    unpack = _HEADER.unpack_from
    footer = _FOOTER.unpack_from
    while True:
        if walk.gap_open is not None:
            found = _next_header(buffer, position, walk)
            if found is None:
                if final or not walk.tries:
                    _end_in_gap(walk)
                    return frames, walk.limit - base
                return frames, max(position, size - _HEADER.size + 1)
            walk.close_gap(base + found)
            position = found
        while position + _FRAME <= size:
            length, checksum = unpack(buffer, position)
            end = position + length + 12
            if known.get(length) != checksum or end + 4 > size:
                break
            offsets.append(base + position)
            payloads.append(buffer[position + 12 : end])
            checksums.append(footer(buffer, end)[0])
            position = end + 4
        if position + _HEADER.size <= size:
            length, checksum = unpack(buffer, position)
            valid = length > 0 and _header_checksum(length) == checksum
            end = position + length + _FRAME
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
            cut = (walk.limit - base - position, length + _FRAME) if valid else None
        elif not final or position == size or walk.limit < walk.size:
            break
        else:
            cut = (size - position, None)
        start = position + 1
        if offsets and offsets[-1] + len(payloads[-1]) + _FRAME == base + position:
            walk.spend(len(payloads[-1]) // _BYTES_A_TRY)
            if walk.tries and _checksum(payloads[-1]) != checksums[-1]:
                walk.gap_open = offsets[-1]
                walk.cut = None
                position = offsets[-1] - base + _HEADER.size
                frames.pop()
                continue
        walk.gap_open = base + position
        walk.cut = cut
        position = start
    if not final and offsets:
        # The last one waits until the header after it has been seen.
        position = offsets[-1] - base
        frames.pop()
    return frames, position


def _end_in_gap(walk: _Walk) -> None:
    """Close a stretch that reaches the end: a cut record where it starts like one, else foreign bytes."""
    cut = walk.cut
    if cut is not None and walk.tries:
        walk.gap_open = None
        return
    if not walk.tries:
        walk.notes.append("given up searching for the next record in damaged bytes")
    walk.close_gap(walk.limit)


def _next_header(buffer: bytes, start: int, walk: _Walk) -> int | None:
    """The first position from `start` on that holds a valid header of a record that fits, or None.

    Lengths below 2**32 have four zero bytes on top, so only places before a run of zeros are tested; one inside a run
    would be a record of length 0, which no writer writes (and which a hole in the file is full of).
    """
    first, second, third, fourth = _length_tables()
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
            if ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ONES == load(buffer[position + 8 : position + 12], "little"):
                walk.tries = max(tries, 0)
                return position
        tries -= 1
        if tries <= 0:
            break
    walk.tries = max(tries, 0)
    return None


def _read_frames(frames: _Frames, walk: _Walk, rows: _Rows) -> None:
    """Check the payloads of one block, and take the numbers and texts out of those that are right."""
    offsets, payloads = frames.offsets, frames.payloads
    computed = _checksums(payloads)
    if computed != frames.checksums:
        right = [n for n, (a, b) in enumerate(zip(computed, frames.checksums, strict=True)) if a == b]
        if not walk.wrong:
            good = set(right)
            walk.wrong_at = next(offset for n, offset in enumerate(offsets) if n not in good)
        walk.wrong += len(offsets) - len(right)
        offsets = [offsets[n] for n in right]
        payloads = [payloads[n] for n in right]
    if not payloads:
        return
    walk.records += len(payloads)
    walk.last_good = offsets[-1]
    strange = rows.add(payloads)
    if strange and not walk.strange:
        walk.strange_at = offsets[strange[0]]
    walk.strange += len(strange)


# --- protobuf ------------------------------------------------------------------------------------------------------

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_INT64_LIMIT = 1 << 63
# Event: wall_time, step, file_version, graph_def, summary, log_message, session_log, tagged_run_metadata,
# meta_graph_def, source_metadata
_EVENT_WIRE = {1: _FIXED64, 2: _VARINT, **dict.fromkeys(range(3, 11), _BYTES)}


class _Malformed(ValueError):
    """Bytes that are no message of the type that was expected."""


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
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
    raise _Malformed("varint")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= _INT64_LIMIT else value


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of the message in data[position:end]: (number, wire type, varint value, content start, stop)."""
    while position < end:
        key, position = _varint(data, position, end)
        number, wire = key >> 3, key & 7
        value = 0
        start = position
        if wire == _VARINT:
            value, stop = _varint(data, position, end)
        elif wire == _FIXED64:
            stop = position + 8
        elif wire == _FIXED32:
            stop = position + 4
        elif wire == _BYTES:
            length, start = _varint(data, position, end)
            stop = start + length
        else:
            raise _Malformed("wire type")
        if stop > end or not number:
            raise _Malformed("length")
        yield number, wire, value, start, stop
        position = stop


# --- events --------------------------------------------------------------------------------------------------------

# types.proto: how one element of a dtype is stored in tensor_content. bfloat16 (14) has no struct code of its own.
_BFLOAT16, _HALF = 14, 19
_CODES = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 17: "H", _HALF: "e", 22: "I", 23: "Q"}
_CONTENT = {dtype: Struct("<" + code) for dtype, code in _CODES.items()}
_PACKED = {5: Struct("<f"), 6: Struct("<d")}  # float_val, double_val
_INTEGERS = {7, 10, 11, 16, 17}  # int_val, int64_val, bool_val, uint32_val, uint64_val
_HALF_VAL = 13
_UNSIGNED = 17  # uint64_val

# What nearly every record of a scalar looks like: wall_time, step (left out where it is 0), summary.
_USUAL = re.compile(rb"\x09.{8}(?:\x10([\x80-\xff]{0,9}[\x00-\x7f]))?(\x2a.*)", re.DOTALL)
_LAYOUTS = 4  # layouts remembered a length; real files have one
_LEARN_BYTES = 1024  # longer summaries hold other things too, and hardly repeat
_LEARN_TAGS = 100_000  # tags remembered; beyond them records are merely read more slowly


class _Scalar(NamedTuple):
    tag: str
    value: float
    start: int  # where the value stands in the payload, -1 where it has no fixed width
    code: Struct | None  # of a float at `start`


@dataclass(slots=True)
class _Layout:
    """Where the value stands in summaries of one length, and the tag by all the other bytes."""

    start: int
    stop: int
    code: Struct
    tags: dict[bytes, str] = field(default_factory=dict)


class _Rows:
    """The rows of one file so far; the growing end as lists, the rest as frames."""

    def __init__(self) -> None:
        self.text: list[tuple[str, int, str]] = []
        self._steps: list[int] = []
        self._times: list[float] = []
        self._tags: list[str] = []
        self._values: list[float] = []
        self._done: list[pl.DataFrame] = []
        self._layouts: dict[int, list[_Layout]] = {}
        self._plugins: dict[str, str] = {}
        self._learned = 0

    def add(self, payloads: Sequence[bytes]) -> list[int]:
        """Take the rows out of Events, and give the indices of those that are none."""
        strange: list[int] = []
        steps, times, tags, values = self._steps, self._times, self._tags, self._values
        usual, layouts_of, time_of = _USUAL.fullmatch, self._layouts.get, _DOUBLE.unpack_from
        last_step: bytes | None = None
        number = 0
        for index, payload in enumerate(payloads):
            rest: bytes | None = None
            match = usual(payload)
            if match is not None:
                step, rest = match.groups()
                tag = None
                for layout in layouts_of(len(rest), ()):
                    tag = layout.tags.get(rest[: layout.start] + rest[layout.stop :])
                    if tag is None:
                        continue
                    if step != last_step:
                        last_step = step
                        number = _signed(_varint(step, 0, len(step))[0]) if step else 0
                    steps.append(number)
                    times.append(time_of(payload, 1)[0])
                    tags.append(tag)
                    values.append(layout.code.unpack_from(rest, layout.start)[0])
                    break
                if tag is not None:
                    continue
            try:
                self._add_any(payload, rest)
            except _Malformed:
                strange.append(index)
        self.flush()
        return strange

    def _add_any(self, payload: bytes, rest: bytes | None) -> None:
        time, step, scalars, texts = _event(payload, self._plugins)
        for scalar in scalars:
            self._steps.append(step)
            self._times.append(time)
            self._tags.append(scalar.tag)
            self._values.append(scalar.value)
        self.text.extend((tag, step, text) for tag, text in texts[: MAX_TEXTS - len(self.text)])
        if rest is not None and len(rest) <= _LEARN_BYTES and len(scalars) == 1 and not texts:
            self._learn(rest, scalars[0], len(payload) - len(rest))

    def _learn(self, rest: bytes, scalar: _Scalar, before: int) -> None:
        """Remember the layout of a record, so that the next ones like it need no parsing."""
        length, start = _varint(rest, 1, len(rest))
        if scalar.code is None or start + length != len(rest) or self._learned >= _LEARN_TAGS:
            return
        first, stop = scalar.start - before, scalar.start - before + scalar.code.size
        layouts = self._layouts.setdefault(len(rest), [])
        for layout in layouts:
            if layout.start == first and layout.code is scalar.code:
                break
        else:
            if len(layouts) >= _LAYOUTS:
                return
            layout = _Layout(first, stop, scalar.code)
            layouts.append(layout)
        layout.tags[rest[:first] + rest[stop:]] = scalar.tag
        self._learned += 1

    def flush(self) -> None:
        """Turn the lists into a frame, an eighth of their size."""
        if not self._steps:
            return
        self._done.append(_frame(self._steps, self._times, self._tags, self._values))
        self._steps, self._times, self._tags, self._values = [], [], [], []

    def frame(self) -> pl.DataFrame:
        """All rows, in file order."""
        import polars as pl

        self.flush()
        return pl.concat(self._done) if self._done else _frame([], [], [], [])


def _frame(steps: list[int], times: list[float], tags: list[str], values: list[float]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({"step": steps, "time": times, "tag": tags, "value": values}, schema=schema(EVENT_COLUMNS))


def _event(payload: bytes, plugins: dict[str, str]) -> tuple[float, int, list[_Scalar], list[tuple[str, str]]]:
    """(wall time, step, scalars, (tag, text) pairs) of one Event; `plugins` remembers the plugin of each tag."""
    time = 0.0
    step = 0
    scalars: list[_Scalar] = []
    texts: list[tuple[str, str]] = []
    for number, wire, value, start, stop in _fields(payload, 0, len(payload)):
        if _EVENT_WIRE.get(number, wire) != wire:
            raise _Malformed("event")
        if number == 1:
            time = _DOUBLE.unpack_from(payload, start)[0]
        elif number == 2:
            step = _signed(value)
        elif number == 5:
            for inner, inner_wire, _, first, last in _fields(payload, start, stop):
                if inner == 1 and inner_wire == _BYTES:
                    _summary_value(payload, first, last, plugins, scalars, texts)
    return time, step, scalars, texts


def _summary_value(
    data: bytes, start: int, stop: int, plugins: dict[str, str], scalars: list[_Scalar], texts: list[tuple[str, str]]
) -> None:
    """One Summary.Value: tag 1, simple_value 2, tensor 8, metadata 9."""
    tag = ""
    simple: int | None = None
    tensor: tuple[int, int] | None = None
    plugin: str | None = None
    content = b""
    for number, wire, _, first, last in _fields(data, start, stop):
        if number == 1 and wire == _BYTES:
            tag = data[first:last].decode("utf-8", "replace")
        elif number == 2 and wire == _FIXED32:
            simple = first
        elif number == 8 and wire == _BYTES:
            tensor = (first, last)
        elif number == 9 and wire == _BYTES:
            plugin, content = _plugin(data, first, last)
    # Writers may give the metadata with the first value of a tag only.
    if plugin:
        plugins.setdefault(tag, plugin)
    else:
        plugin = plugins.get(tag, "")
    if simple is not None:
        code = _CONTENT[1]
        scalars.append(_Scalar(tag, code.unpack_from(data, simple)[0], simple, code))
    elif plugin == "hparams":
        text = _hparams(content)
        if text:
            texts.append((tag, text))
    elif tensor is not None and plugin in ("scalars", ""):
        scalar = _tensor_scalar(data, *tensor, tag, plugin == "scalars")
        if scalar is not None:
            scalars.append(scalar)
    elif tensor is not None and plugin == "text":
        text = "\n".join(
            data[first:last].decode("utf-8", "replace")
            for number, wire, _, first, last in _fields(data, *tensor)
            if number == 8 and wire == _BYTES
        )
        texts.append((tag, text[:MAX_TEXT]))


def _plugin(data: bytes, start: int, stop: int) -> tuple[str, bytes]:
    """(plugin name, its content) of a SummaryMetadata: plugin_data 1, in it plugin_name 1 and content 2."""
    name, content = "", b""
    for number, wire, _, first, last in _fields(data, start, stop):
        if number == 1 and wire == _BYTES:
            for inner, inner_wire, _, a, b in _fields(data, first, last):
                if inner == 1 and inner_wire == _BYTES:
                    name = data[a:b].decode("utf-8", "replace")
                elif inner == 2 and inner_wire == _BYTES:
                    content = data[a:b]
    return name, content


def _tensor_scalar(data: bytes, start: int, stop: int, tag: str, declared: bool) -> _Scalar | None:
    """The one number of a TensorProto, or None where it holds more, none, or no number.

    `declared`: the tag is known to be a scalar, so that a tensor without values is a zero (which TensorFlow leaves
    out when it compresses a tensor).
    """
    dtype = 0
    content: tuple[int, int] | None = None
    found: list[tuple[float, int, Struct | None]] = []
    for number, wire, value, first, last in _fields(data, start, stop):
        if number == 1 and wire == _VARINT:
            dtype = value
        elif number == 2 and wire == _BYTES:
            if _elements(data, first, last) != 1:
                return None
        elif number == 4 and wire == _BYTES and last > first:
            content = (first, last)
        elif number in _PACKED:
            code = _PACKED[number]
            if first == last:
                continue
            if last - first != code.size:
                return None
            found.append((code.unpack_from(data, first)[0], first, code))
        elif number in _INTEGERS or number == _HALF_VAL:
            if wire == _BYTES:
                if first == last:
                    continue
                value, first = _varint(data, first, last)
                if first != last:
                    return None
            if number == _HALF_VAL:
                found.append((_half(dtype, value & 0xFFFF), -1, None))
            else:
                found.append((float(value if number == _UNSIGNED else _signed(value)), -1, None))
    if content is not None:
        first, last = content
        if dtype == _BFLOAT16 and last - first == 2:
            return _Scalar(tag, _half(dtype, int.from_bytes(data[first:last], "little")), -1, None)
        stored = _CONTENT.get(dtype)
        if stored is None or last - first != stored.size:
            return None
        element = stored.unpack_from(data, first)[0]
        return _Scalar(tag, float(element), first, stored if isinstance(element, float) else None)
    if len(found) == 1:
        return _Scalar(tag, *found[0])
    if not found and declared and (dtype in _CONTENT or dtype == _BFLOAT16):
        return _Scalar(tag, 0.0, -1, None)
    return None


def _elements(data: bytes, start: int, stop: int) -> int:
    """The number of elements that a TensorShapeProto means (dim 2, in it size 1); 0 where it is unknown."""
    elements = 1
    for number, wire, value, first, last in _fields(data, start, stop):
        if number == 2 and wire == _BYTES:
            size = 0
            for inner, inner_wire, length, _, _ in _fields(data, first, last):
                if inner == 1 and inner_wire == _VARINT:
                    size = length
            elements *= size
        elif number == 3 and wire == _VARINT and value:
            return 0
    return elements


def _half(dtype: int, bits: int) -> float:
    """A float16, or a bfloat16, from its 16 bits."""
    if dtype == _BFLOAT16:
        return float(_CONTENT[1].unpack((bits << 16).to_bytes(4, "little"))[0])
    return float(_CONTENT[_HALF].unpack(bits.to_bytes(2, "little"))[0])


def _hparams(content: bytes) -> str:
    """`name=value` lines of an HParamsPluginData with session_start_info (field 3, its map hparams is field 1)."""
    lines: list[str] = []
    try:
        for number, wire, _, start, stop in _fields(content, 0, len(content)):
            if number != 3 or wire != _BYTES:
                continue
            for inner, inner_wire, _, first, last in _fields(content, start, stop):
                if inner == 1 and inner_wire == _BYTES:
                    lines.append(_hparam(content, first, last))
    except (_Malformed, StructError):
        return ""
    return "\n".join(lines)[:MAX_TEXT]


def _hparam(data: bytes, start: int, stop: int) -> str:
    """One entry of a map<string, google.protobuf.Value>: number_value 2, string_value 3, bool_value 4."""
    name, text = "", "None"
    for number, wire, _, first, last in _fields(data, start, stop):
        if number == 1 and wire == _BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == 2 and wire == _BYTES:
            for inner, inner_wire, value, a, b in _fields(data, first, last):
                if inner == 2 and inner_wire == _FIXED64:
                    text = f"{_DOUBLE.unpack_from(data, a)[0]:.17g}"
                elif inner == 3 and inner_wire == _BYTES:
                    text = data[a:b].decode("utf-8", "replace")
                elif inner == 4 and inner_wire == _VARINT:
                    text = str(bool(value))
    return f"{name}={text}"
