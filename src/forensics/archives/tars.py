"""Tar archives, one header at a time: their lists can be made so large that the standard library fills the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forensics.archives.formats import octal, tar_header
from forensics.archives.limits import Limits, Stop
from forensics.archives.streams import Stream


@dataclass(frozen=True, slots=True)
class TarEntry:
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


def tar_entries(stream: Stream, limits: Limits) -> Iterator[TarEntry]:
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
        if not tar_header(block):
            raise Stop("damaged: a member's header has a wrong checksum")
        kind = block[156:157]
        size = octal(block[124:136])
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
            modified = float(extra.get("mtime") or octal(block[136:148]))
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
        yield TarEntry(name, what, size, modified)
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
