"""Whether checkpoint files are whole: told by sizes, headers and ends alone, without unpickling or loading anything.

What is said of a file must be provable: it is empty, ends before what its own header counts, lacks the record that its
format ends in, or begins with zeros where every format has a signature. Each file costs a few bounded reads.
"""

from __future__ import annotations

import io
import json
import pickletools
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from forensics.archives import Stop, ZipEntry, zip_end, zip_entries
from forensics.model import Evidence, Observation, Source

SIGNATURE = "checkpoint-corrupt"
STATE, NAME = "checkpoint_state", "checkpoint_file"  # captures of the observations made here
CUT, MISSING, LEFT_OVER = "cut", "missing", "left-over"
WEIGHT = 0.6  # a hint until a process says that it could not load the file

HEAD = 16 << 10
SMALL = 64 << 10  # entries up to this size are checked against their CRC
SMALL_TOTAL = 4 << 20
ENTRIES = 5_000
PICKLE = 1 << 20  # bytes of the pickles of a torch file whose opcodes are walked
PLAIN_PICKLE = 256 << 10  # of any other pickle: a walk takes about a microsecond a byte, and a run may have thousands
JSON = 16 << 20
SAFETENSORS_HEADER = 100_000_000  # the format's own limit
# The first pickle of torch's format before 1.6: its magic number (torch/serialization.py, MAGIC_NUMBER).
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
# Bytes of one element, by the name of the storage class that the pickle gives (torch/storage.py).
_ITEM = {
    "DoubleStorage": 8,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
    "ComplexDoubleStorage": 16,
    "ComplexFloatStorage": 8,
}
_UNFINISHED = re.compile(r"\.(?:tmp|partial|part|incomplete)$", re.I)
_SHARD = re.compile(r"^__(\d+)_(\d+)\.distcp$")
_SHARD_IN_METADATA = re.compile(rb"__\d{1,6}_\d{1,6}\.distcp")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one checkpoint file, in words that hold the numbers."""

    state: str  # CUT: provably not whole; MISSING: it names files that are not here; LEFT_OVER: a save did not finish
    text: str


def check(file: Path, name: str) -> Damage | None:
    """What is wrong with a checkpoint file of that name; None where nothing is, or where no such format can be checked.

    Raises OSError where it cannot be read.
    """
    with file.open("rb") as raw:
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        return check_stream(raw, size, name)


def check_stream(raw: BinaryIO, size: int, name: str) -> Damage | None:
    """As `check`, of a seekable stream of `size` bytes with a file's name."""
    problem = _problem(raw, size, _UNFINISHED.sub("", name).lower())
    if _UNFINISHED.search(name):
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
    if head.startswith(_LEGACY):
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
            start = entry.data_at(raw, size)
            if start is None:
                return f"entry {entry.name[:80]!r} should begin at byte {entry.offset:,}, where none does"
            if start + entry.packed > size:
                return f"file is {size:,} bytes, its entry {entry.name[:80]!r} needs {start + entry.packed:,}"
            if entry.method == 0 and entry.size <= SMALL and checked < SMALL_TOTAL:
                checked += entry.size
                if not _whole(raw, start, entry):
                    return f"the data of its entry {entry.name[:80]!r} do not have the checksum that was written"
    except Stop as stop:
        return str(stop)
    except struct.error:
        return "its list of entries is damaged"
    return None


def _whole(raw: BinaryIO, start: int, entry: ZipEntry) -> bool:
    raw.seek(start)
    # PyTorch can be told to write no checksums; it then writes 0 (or a constant) for every entry.
    return entry.crc == 0 or zlib.crc32(raw.read(entry.size)) == entry.crc


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
    at = _walk(io.BytesIO(raw.read(size)))
    return None if at is not None else f"cut off: file is {size:,} bytes and its pickle has no end"


def _walk(data: BinaryIO, storages: dict[str, int] | None = None) -> int | None:
    """Where the pickle that begins here ends; None where the data end before. Nothing is loaded.

    storages: filled with the bytes of each storage (key -> bytes) that torch's persistent ids name.
    """
    recent: list[object] = []  # plain values since the last mark
    last: list[object] = []  # the tuple that was built last
    memo: dict[int, object] = {}
    top: object = None
    try:
        for op, argument, _ in pickletools.genops(data):
            name = op.name
            if name == "MARK":
                recent = []
                continue
            if name in ("BINPUT", "LONG_BINPUT"):
                memo[int(str(argument))] = top
                continue
            if name == "MEMOIZE":
                memo[len(memo)] = top
                continue
            if name in ("TUPLE", "TUPLE3"):
                top, last = None, recent
                continue
            if name == "BINPERSID":
                if storages is not None and len(last) >= 5 and last[0] == "storage":
                    kind, key, count = str(last[1]).split(" ")[-1], str(last[2]), last[4]
                    storages[key] = count * _ITEM.get(kind, 1) if isinstance(count, int) else 0
                continue
            top = memo.get(int(str(argument))) if name in ("BINGET", "LONG_BINGET") else argument
            recent.append(top)
    except Exception:  # genops raises ValueError, and what decoders of its arguments raise
        return None
    return data.tell()


def _legacy(raw: BinaryIO, size: int) -> str | None:
    """torch's format before 1.6: five pickles, then each storage as its length (8 bytes) and its data."""
    raw.seek(0)
    data = io.BytesIO(raw.read(PICKLE))
    storages: dict[str, int] = {}
    for n in range(5):  # magic number, version, system, object, keys of the storages
        if _walk(data, storages if n == 3 else None) is None:
            if size > PICKLE:
                return None
            return f"cut off: file is {size:,} bytes and ends within its pickles"
    needed = data.tell() + sum(8 + n for n in storages.values())
    return f"file is {size:,} bytes, its tensors need {needed:,}" if needed > size else None


def check_folders(sources: Sequence[Source], others: Iterable[str]) -> list[tuple[Source, Damage]]:
    """What is missing of checkpoints that are folders. Each is told of one of the folder's files.

    sources: of the run; others: paths that were found and are no sources.
    """
    sizes = {s.path: s.size for s in sources} | dict.fromkeys(others, 1)
    found: list[tuple[Source, Damage]] = []
    shards: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        if _SHARD.match(name):
            shards[folder].append(source)
        missing = None
        if name == "latest" and source.size <= 200:
            missing = _missing_tag(source, folder, sizes)
        elif name.endswith((".safetensors.index.json", ".bin.index.json")) and source.size <= JSON:
            missing = _missing_weights(source, folder, sizes)
        if missing:
            found.append((source, Damage(MISSING, missing)))
    by_path = {s.path: s for s in sources}
    for folder, members in shards.items():
        metadata = f"{folder}/.metadata".lstrip("/")
        if sizes.get(metadata, 0) == 0:
            text = f"{len(members)} shards and no .metadata, which is written last: the save did not finish"
            found.append((members[0], Damage(MISSING, text)))
        elif (index := by_path.get(metadata)) is not None and (lost := _missing_shards(index, members)):
            found.append((index, Damage(MISSING, lost)))
    return found


def _missing_tag(source: Source, folder: str, sizes: dict[str, int]) -> str | None:
    """DeepSpeed's file `latest` holds the name of the folder to resume from."""
    tag = source.file.read_bytes()[:200].decode("utf-8", "replace").strip()
    if not re.fullmatch(r"[\w.+=-]{1,120}", tag):
        return None
    start = f"{folder}/{tag}".lstrip("/")
    if any(path == start or path.startswith(start + "/") for path in sizes):
        return None
    return f"it names {tag!r}, which is not here"


def _missing_weights(source: Source, folder: str, sizes: dict[str, int]) -> str | None:
    try:
        index = json.loads(source.file.read_bytes()[:JSON])
        names = sorted({str(v) for v in index["weight_map"].values()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    missing = [n for n in names if f"{folder}/{n}".lstrip("/") not in sizes]
    return _of(missing, len(names))


def _missing_shards(source: Source, members: Sequence[Source]) -> str | None:
    """The names of the shards stand in .metadata as text; it is searched for them and not unpickled."""
    with source.file.open("rb") as raw:
        names = {m.decode() for m in _SHARD_IN_METADATA.findall(raw.read(JSON))}
    here = {m.path.rpartition("/")[2] for m in members if m.size}
    return _of(sorted(names - here), len(names))


def _of(missing: Sequence[str], total: int) -> str | None:
    if not missing:
        return None
    shown = ", ".join(name[:80] for name in missing[:3]) + (", ..." if len(missing) > 3 else "")
    return f"{len(missing)} of the {total} files that it names are not here or empty: {shown}"


def observation(source: Source, damage: Damage) -> Observation:
    """The sign that a damaged checkpoint is; what it means for the run is decided where failures to load are known."""
    return Observation(
        signature=SIGNATURE,
        weight=WEIGHT,
        evidence=(Evidence(source.path, None, None, damage.text),),
        captures={STATE: damage.state, NAME: source.path},
        note=f"{source.path}: {damage.text}",
    )


def is_checkpoint_sign(o: Observation) -> bool:
    """Whether an observation was made from a checkpoint file and not from what a process said."""
    return STATE in o.captures
