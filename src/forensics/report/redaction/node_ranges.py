"""The hosts of a list as Slurm writes it: `gpu[001-003,7],b[1-2]-ib` names gpu001, gpu002, gpu003, gpu7 and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

from forensics.patterns import lazy

MOST = 512  # names of one list: each takes time wherever a word begins in the report
_PART = lazy(r"(?:[^,\[\]\s]|\[[\d,-]*\])+", re.ASCII)
_PIECE = lazy(r"\[([\d,-]*)\]|([^\[\]]+)", re.ASCII)
_NAME = lazy(r"[A-Za-z][\w.-]*\Z", re.ASCII)


def expanded(names: str) -> list[str]:
    """Each host of a list, in its order; the first MOST of them."""
    parts = (part[0] for part in _PART.finditer(names))
    return list(islice((name for part in parts for name in _of_part(part) if _NAME.match(name)), MOST))


def _of_part(part: str) -> Iterator[str]:
    pieces = [list(_numbers(m[1])) if m[1] is not None else [m[2]] for m in _PIECE.finditer(part)]
    return ("".join(name) for name in product(*pieces))


def _numbers(ranges: str) -> Iterator[str]:
    """`001-003,7` as 001, 002, 003, 7: all as wide as the first number of their range."""
    left = MOST
    for span in ranges.split(","):
        low, dash, high = span.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or left <= 0 or len(span) > 20:
            continue
        for number in range(int(low), min(int(high or low) + 1, int(low) + left)):
            left -= 1
            yield f"{number:0{len(low)}d}"
