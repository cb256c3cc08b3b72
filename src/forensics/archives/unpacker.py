"""Unpacks the archives of a run, member by member, into files of its own."""

from __future__ import annotations

import atexit
import codecs
import lzma
import os
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from forensics.archives import cri, joined, journal, notebook, pyspy, records, slurm
from forensics.archives.formats import (
    JOINED,
    JOURNAL,
    JUPYTER,
    MARK,
    PARTS,
    PYSPY,
    RECORDS,
    SLURM,
    plain_name,
    tar_header,
    text_name,
)
from forensics.archives.limits import CHUNK, DEFAULT, Limits, Member, Stop, Unpacked
from forensics.archives.split import laid_end_to_end
from forensics.archives.streams import Piece, Stream, decoder
from forensics.archives.tars import tar_entries
from forensics.archives.zips import ZipEntry, found_entries
from forensics.files import buffered

HEAD = 16 << 10  # bytes of what is only compressed that tell whether the rest is worth unpacking


class Unpacker:
    """Unpacks the archives of one run into one temporary folder, which is deleted when the program ends."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
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
            with buffered(file) as raw:
                if what == "zip":
                    yield from self._zip(raw, size, found, wanted)
                    return
                if what == JOINED:
                    yield from self._joined(raw, name, found, wanted, modified)
                    return
                if what in RECORDS:
                    inner, said = _held(raw, name, what)
                    member = self._store(inner, self._counted(said), found, modified)
                    if member is not None:
                        yield member
                    return
                stream = Stream(decoder(what, raw, self.limits), raw, self.limits, self.take)
                if what == "tar" or tar_header(stream.peek(512)):
                    yield from self._tar(stream, found, wanted)
                    return
                inner = plain_name(name)
                head = stream.peek(HEAD)
                # A log that was emptied while its writer held it open begins with zeros, as many as were in it.
                if head.strip(b"\0") and (reason := readable(head, inner)):
                    found.problem = (
                        f"{_reason(failed)}; what comes before: {reason}" if (failed := stream.failed) else reason
                    )
                    return
                member = self._store(inner, iter(lambda: stream.read(CHUNK), b""), found, modified)
                if member is not None:
                    yield member
        except (Stop, OSError, EOFError, zlib.error, lzma.LZMAError, struct.error, ValueError) as error:
            found.problem = _reason(error)

    def in_utf8(self, file: Path, codec: str) -> Path:
        """A copy of a text in UTF-8, in which what its own encoding does not allow is replaced.

        Raises OSError, and Stop where the limit of the run is reached.
        """
        found = Unpacked()
        with buffered(file) as raw:
            member = self._store(file.name, self._counted(_recoded(raw, codec)), found, file.stat().st_mtime)
        if member is None or found.problem is not None:
            raise Stop(found.problem or "nothing stands in it")
        return member.file

    def put_together(self, parts: Sequence[Path], name: str) -> Path:
        """An archive that lies in parts, as one file. Raises OSError, and Stop where the limit is reached."""
        found = Unpacked()
        member = self._store(name, self._counted(laid_end_to_end(parts)), found, parts[0].stat().st_mtime)
        if member is None or found.problem is not None:
            raise Stop(found.problem or "nothing stands in it")
        return member.file

    def may_go_into(self, path: str) -> bool:
        """Whether an archive of that path lies in few enough others to be unpacked."""
        return path.count(MARK) < self.limits.depth

    def take(self, n: int) -> None:
        """Count bytes that were unpacked; raises Stop where the limit of the run is reached."""
        self._left -= n
        if self._left < 0:
            raise Stop(f"archives of this run unpack to more than {self.limits.total:,} bytes; the rest was not read")

    def _counted(self, data: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in data:
            self.take(len(chunk))
            yield chunk

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
                stopped = Stop(_reason(error))
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

    def _tar(self, stream: Stream, found: Unpacked, wanted: Callable[[str], str | None]) -> Iterator[Member]:
        for n, entry in enumerate(tar_entries(stream, self.limits)):
            if n >= self.limits.members:
                raise Stop(f"more than {self.limits.members:,} members; the rest was not read")
            if entry.kind == "folder":
                continue
            if entry.kind != "file":
                found.skip(entry.name.lstrip("/"), entry.kind, self.limits)
                continue
            if (name := self._judge(entry.name, found, wanted)) is None:
                continue
            member = self._store(name, stream.parts(entry.size), found, entry.modified)
            if member is not None:
                yield member
            if found.problem is not None:
                return

    def _joined(
        self, raw: BinaryIO, name: str, found: Unpacked, wanted: Callable[[str], str | None], modified: float
    ) -> Iterator[Member]:
        for n, part in enumerate(joined.parts(raw, name)):
            if n >= self.limits.members:
                raise Stop(f"more than {self.limits.members:,} files; the rest was not read")
            if (inner := self._judge(part.name, found, wanted)) is None:
                continue
            member = self._store(inner, self._counted(joined.read(raw, part)), found, modified)
            if member is not None:
                yield member

    def _zip(self, raw: BinaryIO, size: int, found: Unpacked, wanted: Callable[[str], str | None]) -> Iterator[Member]:
        given = 0
        for n, entry in enumerate(found_entries(raw, size)):
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
            what = {0: "stored", 8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}.get(entry.method)
            if what is None:
                found.skip(name, f"compressed by a method (number {entry.method}) that is not read", self.limits)
                continue
            piece = Piece(raw, start, entry.packed)
            stream = Stream(decoder(what, piece, self.limits), piece, self.limits, self.take, given)
            member = self._store(name, _checked(stream, entry), found, entry.modified)
            given += stream.given
            if member is not None:
                yield member
            if found.problem is not None and found.problem.startswith("damaged"):
                found.skip(name, found.problem, self.limits)  # costs this member only
                found.problem = None
            elif found.problem is not None:
                return


def _held(raw: BinaryIO, name: str, what: str) -> tuple[str, Iterator[bytes]]:
    """(name, lines) of the text that a file of JSON holds."""
    if what == SLURM:
        return text_name(name), slurm.text(raw)
    if what == PYSPY:
        return text_name(name), pyspy.text(raw)
    if what == JOURNAL:
        return name, journal.text(raw)
    if what == PARTS:
        return name, cri.text(raw)
    if what == JUPYTER:
        return notebook.NAME, notebook.text(raw)
    # A log that was emptied while its writer held it open begins with zeros, and was told by its end.
    form = records.form_of(raw.read(records.HEAD)) or records.Form(what, by_line=True, numbered=True)
    raw.seek(0)
    return name if form.numbered else text_name(name), records.text(raw, form)


def _recoded(raw: BinaryIO, codec: str) -> Iterator[bytes]:
    """A text in UTF-8; also one that ends amid a character."""
    decoder = codecs.getincrementaldecoder(codec)("replace")
    while chunk := raw.read(CHUNK):
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _reason(error: Exception) -> str:
    """Why the reading of an archive ended, for people."""
    if isinstance(error, Stop):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"damaged: {str(error)[:120] or type(error).__name__}"


def _leaves(name: str) -> bool:
    """Whether a name means a place outside. What tar stores under `-P` (`/var/log/x`) is kept without its "/", as
    tar itself unpacks it.
    """
    return ".." in name.replace("\\", "/").split("/") or re.match(r"[A-Za-z]:", name) is not None


def _checked(stream: Stream, entry: ZipEntry) -> Iterator[bytes]:
    seen = 0
    while chunk := stream.read(CHUNK):
        seen = zlib.crc32(chunk, seen)
        yield chunk
    if entry.missing:
        raise Stop("cut off: the end of its last member is missing")
    if entry.checked and seen != entry.crc:
        raise ValueError("its checksum is not that of its data")
