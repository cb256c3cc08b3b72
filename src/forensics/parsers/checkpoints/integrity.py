"""Whether a checkpoint file is whole: told by sizes, headers and ends alone, without unpickling or loading anything.

What is said of a file must be provable: it is empty, ends before what its own header counts, lacks the record that its
format ends in, or begins with zeros where every format has a signature. Each file costs a few bounded reads.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

from forensics.archives.limits import Stop
from forensics.archives.zips import ZipEntry, zip_end, zip_entries
from forensics.parsers.checkpoints.damage import CUT, LEFT_OVER, Damage
from forensics.parsers.checkpoints.opcodes import Cut, Odd, Storage, walk
from forensics.parsers.checkpoints.opened import Hole, opened

HEAD = 16 << 10
SMALL = 64 << 10  # entries up to this size are checked against their CRC
SMALL_TOTAL = 4 << 20
ENTRIES = 5_000
PICKLE = 1 << 20  # bytes of the pickles of a torch file whose opcodes are walked
PLAIN_PICKLE = 256 << 10  # of any other pickle: a walk takes about a microsecond a byte, and a run may have thousands
JSON = 16 << 20
SAFETENSORS_HEADER = 100_000_000  # the format's own limit
# The first pickle of torch's format before 1.6: its magic number (torch/serialization.py, MAGIC_NUMBER).
LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
UNFINISHED = re.compile(r"\.(?:tmp|partial|part|incomplete)$", re.I)


def check(file: Path, name: str, gap: tuple[int, int] | None = None) -> Damage | None:
    """What is wrong with a checkpoint file of that name; None where nothing is, or where no such format can be checked.

    gap: bytes [start, end) that were not fetched; nothing is said of them. Raises OSError where it cannot be read.
    """
    with opened(file, gap) as raw:
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        return check_stream(raw, size, name)


def check_stream(raw: BinaryIO, size: int, name: str) -> Damage | None:
    """As `check`, of a seekable stream of `size` bytes with a file's name."""
    try:
        problem = _problem(raw, size, UNFINISHED.sub("", name).lower())
    except Hole:
        problem = None
    if UNFINISHED.search(name):
        return Damage(LEFT_OVER, "left over by a save that did not finish" + (f": {problem}" if problem else ""))
    return Damage(CUT, problem) if problem else None


def _problem(raw: BinaryIO, size: int, name: str) -> str | None:
    if size == 0:
        return "the file is empty (0 bytes)"
    head = raw.read(HEAD)
    if size >= 512 and not head.strip(b"\0"):
        return f"the first {len(head):,} of its {size:,} bytes are zero: its data never reached the disk"
    if head.startswith(b"PK\x03\x04"):
        if name.endswith(".distcp"):  # several zip files, one after the other
            end = zip_end(raw, size)
            return None if end is not None and end.after == 0 else _no_end(size)
        return _zip(raw, size)
    if name.endswith(".safetensors"):
        return _safetensors(raw, head, size)
    if head.startswith(LEGACY):
        return _legacy(raw, size)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return _pickle(raw, size)
    return None


def _no_end(size: int) -> str:
    return f"cut off: file is {size:,} bytes and ends without the list of entries that a zip file ends in"


def _zip(raw: BinaryIO, size: int) -> str | None:
    end = zip_end(raw, size)
    if end is None:
        return _no_end(size)
    if end.offset + end.size > size:
        return f"file is {size:,} bytes, its list of entries would end at byte {end.offset + end.size:,}"
    checked = 0
    try:
        for n, entry in enumerate(zip_entries(raw, size)):
            if n >= ENTRIES:
                return None
            try:
                start = entry.data_at(raw, size)
            except Hole:
                continue
            if start is None:
                return f"entry {entry.name[:80]!r} should begin at byte {entry.offset:,}, where none does"
            if start + entry.packed > size:
                return f"file is {size:,} bytes, its entry {entry.name[:80]!r} needs {start + entry.packed:,}"
            if entry.method == 0 and entry.size <= SMALL and checked < SMALL_TOTAL:
                checked += entry.size
                if not _whole(raw, start, entry):
                    return f"the data of its entry {entry.name[:80]!r} do not have the checksum that was written"
    except Hole:
        return None
    except Stop as stop:
        return str(stop)
    except struct.error:
        return "its list of entries is damaged"
    return None


def _whole(raw: BinaryIO, start: int, entry: ZipEntry) -> bool:
    raw.seek(start)
    # PyTorch can be told to write no checksums; it then writes 0 (or a constant) for every entry.
    try:
        return entry.crc == 0 or zlib.crc32(raw.read(entry.size)) == entry.crc
    except Hole:
        return True


def _safetensors(raw: BinaryIO, head: bytes, size: int) -> str | None:
    if size < 8:
        return f"file is {size} bytes, and the length of its header alone takes 8"
    length = int.from_bytes(head[:8], "little")
    if length > SAFETENSORS_HEADER:
        return "its first 8 bytes are no length of a header"
    if 8 + length > size:
        return f"file is {size:,} bytes, its header alone needs {8 + length:,}"
    if length > JSON:
        return None
    raw.seek(8)
    try:
        header = json.loads(raw.read(length))
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        needed = 8 + length + max((int(end) for end in ends), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError):
        return "its header cannot be read: it is no JSON object that gives each tensor its place"
    if needed > size:
        return f"file is {size:,} bytes, its header needs {needed:,}"
    if needed < size:
        return f"file is {size:,} bytes, its header accounts for {needed:,} only"
    return None


def _pickle(raw: BinaryIO, size: int) -> str | None:
    if size > PLAIN_PICKLE:
        return None
    raw.seek(0)
    return _pickle_end(raw.read(size), size)


def _pickle_end(data: bytes, size: int) -> str | None:
    try:
        walk(data)
    except Cut:
        return f"cut off: file is {size:,} bytes and its pickle has no end"
    except Odd as odd:
        return f"damaged: {odd}" if "no opcode" in str(odd) else None
    return None


def _legacy(raw: BinaryIO, size: int) -> str | None:
    """torch's format before 1.6: five pickles, then each storage as its length (8 bytes) and its data."""
    raw.seek(0)
    data = raw.read(PICKLE)
    try:
        end, storages = legacy_pickles(data)
    except Cut:
        return None if size > PICKLE else f"cut off: file is {size:,} bytes and ends within its pickles"
    except Odd as odd:
        return f"damaged: {odd}" if "no opcode" in str(odd) else None
    needed = end + sum(8 + s.count * s.item for s in storages.values())
    return f"file is {size:,} bytes, its tensors need {needed:,}" if needed > size else None


def legacy_pickles(data: bytes) -> tuple[int, dict[str, Storage]]:
    """(where the data of the storages begin, the storages) of a file in torch's old format. Raises Cut and Odd."""
    end, storages = 0, dict[str, Storage]()
    for _ in range(5):  # magic number, version, system, object, keys of the storages
        walked = walk(data, end)
        end, storages = walked.end, storages | walked.storages
    return end, storages
