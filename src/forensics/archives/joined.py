"""Several files as `tail` and `head` print them: each below a line `==> logs/rank3.log <==` that names it.

GNU coreutils and the BSDs print the same line, with an empty one before all but the first. `tail -f` names a file anew
each time it goes on with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_HEADER = re.compile(rb"^==> ([^\n]{1,1000}?) <==\r?$", re.M)
_LONGEST = 1024  # bytes of a line that can be a header
FRONT = 10  # lines before the first header: a prompt and the command
CHUNK = 1 << 20


class Part(NamedTuple):
    """All that was printed of one file."""

    name: str  # as the header has it, without what leads out of a folder
    ranges: list[tuple[int, int]]  # bytes [start, end) of the joined file


def looks_joined(head: bytes) -> bool:
    """Whether a text that begins with these bytes is such: the first line is a header, or one of two comes soon."""
    m = _HEADER.search(head)
    if m is None:
        return False
    before = head[: m.start()]
    if not before.strip():
        return True
    return before.count(b"\n") <= FRONT and _HEADER.search(head, m.end()) is not None


def parts(raw: BinaryIO, own: str) -> list[Part]:
    """The files of a joined text, in the order in which they are first named. own: the name of what stands before."""
    found: dict[str, Part] = {}
    name, start, at = own, 0, 0
    for line in iter(lambda: raw.readline(_LONGEST), b""):
        if line.startswith(b"==> ") and (m := _HEADER.match(line.rstrip(b"\n"))):
            _add(found, name, start, at)
            name, start = _inside(m[1].decode("utf-8", "replace")) or own, at + len(line)
        at += len(line)
    _add(found, name, start, at)
    front = found.get(own)
    if front is not None and len(found) > 1 and not any(chunk.strip() for chunk in read(raw, front)):
        del found[own]
    return list(found.values())


def read(raw: BinaryIO, part: Part) -> Iterator[bytes]:
    """What was printed of one file."""
    for start, end in part.ranges:
        raw.seek(start)
        left = end - start
        while left > 0 and (chunk := raw.read(min(left, CHUNK))):
            left -= len(chunk)
            yield chunk


def _add(found: dict[str, Part], name: str, start: int, end: int) -> None:
    if end > start:
        found.setdefault(name, Part(name, [])).ranges.append((start, end))


def _inside(name: str) -> str:
    """A path without its root and without steps upwards: tail is called from anywhere."""
    parts = (part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
    return "/".join(part.replace("\0", "?") for part in parts)
