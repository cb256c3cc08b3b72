"""Archives that were cut into parts to be sent: `logs.tar.gz.part-aa`, `.part-ab`, ...; `logs.zip.001`, `.002`, ...

`split` of coreutils counts in letters from aa, or with -d in digits from 00; 7-Zip counts from 001. None of them writes
anything of its own into the parts: laid end to end they are the archive again.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator
from itertools import dropwhile, islice, product
from pathlib import Path
from typing import NamedTuple

from forensics.archives.limits import CHUNK
from forensics.files import buffered
from forensics.patterns import lazy

MOST = 1000  # parts of one archive
# The first part: what the whole is called, what `split` was told to put behind it, and the number.
_FIRST = lazy(
    r"^(?P<whole>.{1,200}\.(?:t?gz|gzip|tar|t?xz|tbz2?|bz2|bzip2|t?zst|zip))(?P<mark>[._-]?(?:part)?[._-]?)"
    r"(?P<number>a{2,5}|0{1,4}[01])$"
)


class Split(NamedTuple):
    """An archive that lies in parts."""

    whole: str  # the name that it had
    parts: tuple[str, ...]  # their names in order


def splits(names: Collection[str]) -> dict[str, Split]:
    """First part -> the archive, of names in one folder; where at least one more part lies beside the first."""
    there = set(names)
    found: dict[str, Split] = {}
    for name in names:
        if (m := _FIRST.match(name)) is None:
            continue
        front, parts = name[: m.start("number")], [name]
        for number in _following(m["number"]):
            if f"{front}{number}" not in there or len(parts) >= MOST:
                break
            parts.append(f"{front}{number}")
        if len(parts) > 1:
            found[name] = Split(m["whole"], tuple(parts))
    return found


def laid_end_to_end(parts: Collection[Path]) -> Iterator[bytes]:
    """The bytes of the whole. Raises OSError."""
    for part in parts:
        with buffered(part) as raw:
            while chunk := raw.read(CHUNK):
                yield chunk


def _following(first: str) -> Iterator[str]:
    """The numbers behind the first one, as wide as that is: ab, ac, ..., az, ba; 01, 02."""
    figures = string.digits if first.isdecimal() else string.ascii_lowercase
    numbers = map("".join, product(figures, repeat=len(first)))
    return islice(dropwhile(first.__ne__, numbers), 1, None)
