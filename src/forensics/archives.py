"""Compressed files and archives, unpacked into a temporary folder under limits that hostile input cannot pass.

Members are read as streams and stored under numbers, so that no name of theirs ever becomes a path on this machine.
Tar headers and the list of a zip's members are read one entry at a time: the lists themselves can be made huge, which
the standard library would hold in memory.
"""

from __future__ import annotations

import atexit
import bz2
import importlib
import lzma
import os
import re
import shutil
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

MARK = "!/"  # between an archive's path and a member's: a.tar.gz!/rank0.log
CHUNK = 1 << 20
MEBI = 1 << 20
# Bytes given to a decoder that has no limit on what it gives back: at most a block of 128 KiB for every 4 of them.
ZSTD_FEED = 1 << 10


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may unpack. The defaults are far above what logs of 1,000 ranks need."""

    total: int = 4 << 30  # bytes that are unpacked in all
    ratio: int = 300  # unpacked to packed bytes of one archive, once it has given more than `free`
    free: int = 64 * MEBI
    members: int = 50_000  # of one archive
    name: int = 1024  # characters of a member's name
    rows: int = 200  # members of one archive that were left out and are reported one by one
    head: int = MEBI  # bytes of one tar header with its extensions, or one entry of a zip's list
    memory: int = 256 * MEBI  # of an xz or zstd decoder
    disk: int = 512 * MEBI  # left free where the temporary folder is


class Stop(Exception):
    """Reading an archive ends here; the message says why. What was unpacked before stays."""


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    file: Path
    problem: str | None = None


@dataclass(slots=True)
class Unpacked:
    """What became of one archive, filled while its members are taken."""

    skipped: list[tuple[str, str]] = field(default_factory=list)  # (member, reason)
    more: Counter[str] = field(default_factory=Counter)  # reasons of members beyond `Limits.rows`
    count: int = 0
    problem: str | None = None  # why the rest of it was not read

    def skip(self, name: str, reason: str, limits: Limits) -> None:
        if len(self.skipped) < limits.rows:
            self.skipped.append((name[: limits.name], reason))
        else:
            self.more[reason] += 1


_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))
_EXTENSION = re.compile(r"\.(?:gz|gzip|xz|bz2|bzip2|zst|zstd|Z)$", re.I)
_ONLY_COMPRESSED = re.compile(r"([^/]+)\.(?:gz|gzip|xz|bz2|bzip2|zst|zstd)!/\1$", re.I)
_SHORT_TAR = re.compile(r"\.t(?:gz|xz|bz2?|zst)$", re.I)


def format_of(head: bytes, name: str) -> str | None:
    """How a file is packed: "gzip", "xz", "bzip2", "zstd", "tar" or "zip"; None for what is not unpacked.

    head: the first bytes of the file. Checkpoints of torch are zip files too; a zip is an archive of files only where
    it is named .zip and its first member is none of a checkpoint.
    """
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    if head.startswith(b"PK\x03\x04") and name.lower().endswith(".zip") and not is_torch_zip(head):
        return "zip"
    return "tar" if _tar_header(head[:512]) else None


def is_torch_zip(head: bytes) -> bool:
    """Whether a zip file is one that torch wrote: its first entry is `<name>/data.pkl` or a tensor's data."""
    if not head.startswith(b"PK\x03\x04") or len(head) < 30:
        return False
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return re.search(rb"/(?:data\.pkl|data/\d+|constants\.pkl|\.format_version)$", name) is not None


def without_compression(path: str) -> str:
    """A path as it would be if a file that is only compressed were not: a/rank0.log for a/rank0.log.gz!/rank0.log."""
    return _ONLY_COMPRESSED.sub(r"\1", path)


def plain_name(name: str) -> str:
    """The name of a compressed file's content: rank0.log for rank0.log.gz."""
    if _SHORT_TAR.search(name):
        return _SHORT_TAR.sub(".tar", name)
    return _EXTENSION.sub("", name) or name


class Unpacker:
    """Unpacks the archives of one run into one temporary folder, which is deleted when the program ends."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self._left = limits.total
        self._folder: Path | None = None
        self._number = 0

    def members(
        self,
        file: Path,
        name: str,
        what: str,
        found: Unpacked,
        wanted: Callable[[str], str | None],
        readable: Callable[[bytes, str], str | None],
    ) -> Iterator[Member]:
        """The regular files of an archive, unpacked one at a time. Never raises for what the archive holds.

        name: the archive's own, without folders. what: as `format_of` says. found: filled on the way. wanted: why a
        member of that name is left out, or None. readable: why the content that begins with these bytes is left out,
        or None; asked for files that are only compressed, before the rest is unpacked.
        """
        try:
            size, modified = file.stat().st_size, file.stat().st_mtime
            with file.open("rb") as raw:
                if what == "zip":
                    yield from self._zip(raw, size, found, wanted)
                    return
                stream = _Stream(_decoder(what, raw, self.limits), raw, self)
                if what == "tar" or _tar_header(stream.peek(512)):
                    yield from self._tar(stream, found, wanted)
                    return
                inner = plain_name(name)
                if reason := readable(stream.peek(16 << 10), inner):
                    found.problem = reason
                    return
                member = self._store(inner, iter(lambda: stream.read(CHUNK), b""), found, modified)
                if member is not None:
                    yield member
        except Stop as stop:
            found.problem = str(stop)
        except OSError as error:
            found.problem = error.strerror or str(error)
        except (EOFError, zlib.error, lzma.LZMAError, struct.error, ValueError) as error:
            found.problem = f"damaged: {str(error)[:120] or type(error).__name__}"

    def take(self, n: int) -> None:
        """Count bytes that were unpacked; raises Stop where the limit of the run is reached."""
        self._left -= n
        if self._left < 0:
            raise Stop(f"archives of this run unpack to more than {self.limits.total:,} bytes; the rest was not read")

    def _store(self, name: str, data: Iterator[bytes], found: Unpacked, modified: float) -> Member | None:
        """Write one member's data; what came before the archive ended or broke is kept."""
        path = self._next()
        written = 0
        stopped: Stop | None = None
        with path.open("wb") as out:
            try:
                for chunk in data:
                    out.write(chunk)
                    written += len(chunk)
            except Stop as stop:
                stopped = stop
            except (EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
                stopped = Stop(f"damaged: {str(error)[:120] or type(error).__name__}")
        found.count += 1
        if stopped is not None:
            found.problem = str(stopped)
        if stopped is not None and not written:
            path.unlink()
            found.count -= 1
            return None
        os.utime(path, (modified, modified))
        return Member(name, path, str(stopped) if stopped is not None else None)

    def _next(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="forensics-unpacked-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        if self._number % 100 == 0 and shutil.disk_usage(self._folder).free < self.limits.disk:
            raise Stop("too little space in the temporary folder to unpack more")
        self._number += 1
        return self._folder / f"{self._number:07}"

    def _judge(self, name: str, found: Unpacked, wanted: Callable[[str], str | None]) -> str | None:
        """The member's name as a relative path, or None where it was left out and said so."""
        if len(name) > self.limits.name:
            found.skip(name, f"its name is longer than {self.limits.name} characters", self.limits)
            return None
        if "\0" in name or _leaves(name):
            found.skip(name.replace("\0", "?"), "its name leads out of the archive", self.limits)
            return None
        inner = "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
        if reason := wanted(inner):
            found.skip(inner, reason, self.limits)
            return None
        return inner or None

    def _tar(self, stream: _Stream, found: Unpacked, wanted: Callable[[str], str | None]) -> Iterator[Member]:
        for n, entry in enumerate(_tar_entries(stream, self.limits)):
            if n >= self.limits.members:
                raise Stop(f"more than {self.limits.members:,} members; the rest was not read")
            if entry.kind == "folder":
                continue
            if entry.kind != "file":
                found.skip(entry.name, entry.kind, self.limits)
                continue
            if (name := self._judge(entry.name, found, wanted)) is None:
                continue
            member = self._store(name, stream.parts(entry.size), found, entry.modified)
            if member is not None:
                yield member
            if found.problem is not None:
                return

    def _zip(self, raw: BinaryIO, size: int, found: Unpacked, wanted: Callable[[str], str | None]) -> Iterator[Member]:
        given = 0
        for n, entry in enumerate(zip_entries(raw, size)):
            if n >= self.limits.members:
                raise Stop(f"more than {self.limits.members:,} members; the rest was not read")
            if entry.name.endswith("/"):
                continue
            if entry.flags & 1:
                found.skip(entry.name, "encrypted", self.limits)
                continue
            if entry.mode and (entry.mode & 0o170000) not in (0, 0o100000):
                found.skip(entry.name, "a link or a device in an archive", self.limits)
                continue
            if (name := self._judge(entry.name, found, wanted)) is None:
                continue
            if (start := entry.data_at(raw, size)) is None:
                found.skip(name, "damaged: its place in the archive holds no member", self.limits)
                continue
            what = {0: "stored", 8: "deflate", 12: "bzip2"}.get(entry.method)
            if what is None:
                found.skip(name, f"compressed by a method (number {entry.method}) that is not read", self.limits)
                continue
            piece = _Piece(raw, start, entry.packed)
            stream = _Stream(_decoder(what, piece, self.limits), piece, self, given=given)
            member = self._store(name, _checked(stream, entry.crc), found, entry.modified)
            given += stream.given
            if member is not None:
                yield member
            if found.problem is not None and found.problem.startswith("damaged"):
                found.skip(name, found.problem, self.limits)  # costs this member only
                found.problem = None
            elif found.problem is not None:
                return


def _leaves(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or re.match(r"[A-Za-z]:", name) is not None


def _checked(stream: _Stream, crc: int) -> Iterator[bytes]:
    seen = 0
    while chunk := stream.read(CHUNK):
        seen = zlib.crc32(chunk, seen)
        yield chunk
    if seen != crc:
        raise ValueError("its checksum is not that of its data")


class _Piece:
    """A stretch of a file, as a stream of its own."""

    def __init__(self, raw: BinaryIO, start: int, size: int) -> None:
        self._raw, self._at, self._end = raw, start, start + size

    def read(self, n: int) -> bytes:
        self._raw.seek(self._at)
        data = self._raw.read(max(0, min(n, self._end - self._at)))
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at


class _Stream:
    """Unpacked bytes, counted against the limits of the run."""

    def __init__(self, chunks: Iterator[bytes], raw: Any, unpacker: Unpacker, given: int = 0) -> None:
        self._chunks = chunks
        self._raw = raw
        self._start = raw.tell()
        self._unpacker = unpacker
        self._limits = unpacker.limits
        self._before = given
        self._buffer = b""
        self._at = 0  # of the first byte of the buffer that was not read yet
        self._failed: Exception | None = None
        self.given = 0

    def _more(self) -> bool:
        if self._failed is not None:
            raise self._failed
        chunk = next(self._chunks, b"")
        self.given += len(chunk)
        self._unpacker.take(len(chunk))
        packed = max(self._raw.tell() - self._start, 1)
        if self.given + self._before > self._limits.free and self.given > self._limits.ratio * packed:
            raise Stop(f"unpacks to more than {self._limits.ratio} times its size; the rest was not read")
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        return bool(chunk)

    def peek(self, n: int) -> bytes:
        """Up to n bytes that `read` gives again; what is wrong with the file is told by the read that meets it."""
        try:
            while len(self._buffer) - self._at < n and self._more():
                pass
        except (Stop, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError) as error:
            self._failed = error
        return self._buffer[self._at : self._at + n]

    def read(self, n: int) -> bytes:
        """Up to n bytes, and none at the end."""
        if self._at == len(self._buffer) and not self._more():
            return b""
        data = self._buffer[self._at : self._at + n]
        self._at += len(data)
        return data

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self.given - len(self._buffer) + self._at

    def exactly(self, n: int) -> bytes:
        """n bytes, or fewer at the end."""
        parts: list[bytes] = []
        while n > 0 and (data := self.read(n)):
            parts.append(data)
            n -= len(data)
        return b"".join(parts)

    def parts(self, n: int) -> Iterator[bytes]:
        """n bytes in chunks. Raises Stop where the stream ends before."""
        while n > 0:
            data = self.read(min(n, CHUNK))
            if not data:
                raise Stop(f"cut off: {n:,} bytes of its last member are missing")
            n -= len(data)
            yield data


def _decoder(what: str, raw: Any, limits: Limits) -> Iterator[bytes]:
    """The unpacked bytes of a stream, in chunks of CHUNK at most. Raises Stop where it is cut off."""
    if what in ("tar", "stored"):
        return iter(lambda: raw.read(CHUNK), b"")
    if what in ("gzip", "deflate"):
        return _inflate(raw, 31 if what == "gzip" else -15)
    if what == "bzip2":
        return _decompress(raw, bz2.BZ2Decompressor, what)
    if what == "xz":
        return _decompress(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.memory), what)
    return _zstd(raw, limits)


def _inflate(raw: Any, bits: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(bits)
    waiting = b""
    while True:
        data = waiting or raw.read(64 << 10)
        if decoder.eof:
            data = data.lstrip(b"\0")  # tapes and some writers pad with zeros
            if not data and not (data := raw.read(64 << 10).lstrip(b"\0")):
                return
            if bits < 0 or not data.startswith(b"\x1f"):
                if bits < 0:
                    return
                raise ValueError("what follows its gzip data is none")
            decoder = zlib.decompressobj(bits)
        elif not data:
            raise Stop("cut off in the middle of its compressed data")
        chunk = decoder.decompress(data, CHUNK)
        waiting = decoder.unconsumed_tail or decoder.unused_data
        if chunk:
            yield chunk


def _decompress(raw: Any, make: Callable[[], Any], what: str) -> Iterator[bytes]:
    decoder = make()
    data = b""
    while True:
        if decoder.eof:
            data = (decoder.unused_data or raw.read(64 << 10)).lstrip(b"\0")
            if not data:
                return
            decoder = make()
        elif decoder.needs_input:
            data = raw.read(64 << 10)
            if not data:
                raise Stop(f"cut off in the middle of its {what} data")
        try:
            chunk = decoder.decompress(data, CHUNK)
        except OSError as error:  # bz2 says so where its data are damaged
            raise ValueError(str(error)) from None
        data = b""
        if chunk:
            yield chunk


def _zstd(raw: Any, limits: Limits) -> Iterator[bytes]:
    window = limits.memory.bit_length() - 1
    try:
        native: Any = importlib.import_module("compression.zstd")
    except ImportError:
        native = None
    if native is not None:
        options = {native.DecompressionParameter.window_log_max: window}
        try:
            yield from _decompress(raw, lambda: native.ZstdDecompressor(options=options), "zstd")
        except native.ZstdError as error:
            raise ValueError(str(error)) from None
        return
    try:
        package: Any = importlib.import_module("zstandard")
    except ImportError:
        raise Stop("zstd-compressed; to have it read, unpack it or install the package zstandard") from None
    factory = package.ZstdDecompressor(max_window_size=1 << window)
    decoder, waiting = factory.decompressobj(), b""
    try:
        while data := waiting or raw.read(ZSTD_FEED):
            waiting = b""
            if decoder.eof:
                decoder = factory.decompressobj()
            chunk = decoder.decompress(data)
            if decoder.eof:
                waiting = decoder.unused_data
            if chunk:
                yield chunk
    except package.ZstdError as error:
        raise ValueError(str(error)) from None
    if not decoder.eof:
        raise Stop("cut off in the middle of its zstd data")


@dataclass(frozen=True, slots=True)
class _TarEntry:
    name: str
    kind: str  # "file", "folder", or why it is left out
    size: int
    modified: float


_TAR_KINDS = {b"\0": "file", b"0": "file", b"7": "file", b"5": "folder"}
_TAR_OTHER = {
    b"1": "a link in an archive",
    b"2": "a link in an archive",
    b"3": "a device in an archive",
    b"4": "a device in an archive",
    b"6": "a named pipe in an archive",
    b"S": "a sparse file in an archive",
}


def _octal(raw: bytes) -> int:
    """A number in a tar header: octal text, or base 256 where the first bit is set (GNU)."""
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big")
    text = raw.split(b"\0")[0].strip()
    return int(text, 8) if text else 0


def _tar_header(block: bytes) -> bool:
    """Whether 512 bytes are a tar header: its checksum is that of its bytes, the field of the checksum as spaces."""
    if len(block) < 512 or not block.strip(b"\0"):
        return False
    try:
        stated = _octal(block[148:156])
    except ValueError:
        return False
    return stated == sum(block[:148]) + 8 * 32 + sum(block[156:512]) and stated > 8 * 32


def _tar_entries(stream: _Stream, limits: Limits) -> Iterator[_TarEntry]:
    """The entries of a tar stream. A caller may read a file's data (`stream.parts(size)`) before it takes the next."""
    extra: dict[str, str] = {}
    while True:
        block = stream.exactly(512)
        if not block.strip(b"\0"):
            if len(block) < 512 and not extra:
                return
            if not stream.exactly(512).strip(b"\0"):
                return  # two blocks of zeros end it
            raise Stop("damaged: a member's header is empty")
        if len(block) < 512:
            raise Stop("cut off in a member's header")
        if not _tar_header(block):
            raise Stop("damaged: a member's header has a wrong checksum")
        kind = block[156:157]
        size = _octal(block[124:136])
        if kind in b"LKxg":
            if size > limits.head:
                raise Stop("damaged: a member's header is too large")
            data = stream.exactly(size)
            stream.exactly(-size % 512)
            if kind == b"L":
                extra["path"] = data.rstrip(b"\0").decode("utf-8", "replace")
            elif kind == b"x":
                extra |= _pax(data)
            continue
        name = block[:100].split(b"\0")[0].decode("utf-8", "replace")
        if block[257:263] == b"ustar\0" and (prefix := block[345:500].split(b"\0")[0].decode("utf-8", "replace")):
            name = f"{prefix}/{name}"
        size = int(extra.get("size") or size)
        try:
            modified = float(extra.get("mtime") or _octal(block[136:148]))
        except ValueError:
            modified = 0.0
        name, sparse = extra.get("path", name), any(key.startswith("GNU.sparse") for key in extra)
        extra = {}
        what = _TAR_KINDS.get(kind) or _TAR_OTHER.get(kind, "a member of unknown kind")
        if kind in b"123456":
            size = 0
        if kind == b"S":
            more = block[482:483]
            while more.strip(b"\0"):
                more = stream.exactly(512)[504:505]
        if sparse:
            what = _TAR_OTHER[b"S"]
        if what == "file" and name.endswith("/"):
            what = "folder"
        end = stream.position + size
        yield _TarEntry(name, what, size, modified)
        for _ in stream.parts(end - stream.position):
            pass
        stream.exactly(-size % 512)


def _pax(data: bytes) -> dict[str, str]:
    """The `length key=value` records of an extended header."""
    found = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or not 0 < int(length[:8]) <= len(data):
            break
        key, _, value = data[len(length) + 1 : int(length)].rstrip(b"\n").partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        data = data[int(length) :]
    return found


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
