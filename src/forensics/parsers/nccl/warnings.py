"""What a warning of NCCL means, where no signature says it better."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("warnings.toml")
LONGEST = 1024  # characters of a message that are looked at: NCCL's own buffer for a line


class Meaning(NamedTuple):
    area: str  # "network", "gpu", "usage", ...
    text: str


@cache
def _table() -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None, Meaning], ...]:
    import tomllib

    rows = tomllib.loads(TABLE.read_text("utf-8"))["warning"]
    return tuple(
        (
            re.compile(row["message"], re.ASCII),
            re.compile(row["file"], re.ASCII) if "file" in row else None,
            Meaning(row["area"], row["meaning"]),
        )
        for row in rows
    )


def meaning(message: str, file: str | None = None) -> Meaning | None:
    """What a warning says, by its text and then by the source file that prints it; None if neither is known.

    message: what stands behind "NCCL WARN". file: "transport/net_ib.cc", or None where the line bears none.
    """
    text = message[:LONGEST]
    for pattern, of_file, found in _table():
        if of_file is not None and (file is None or not of_file.search(file)):
            continue
        if pattern.search(text):
            return found
    return None
