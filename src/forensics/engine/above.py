"""What a log says right above a line that was found in it."""

from __future__ import annotations

from forensics.files import buffered
from forensics.model import Source
from forensics.parsers.prefixes import clean

LONGEST = 1000  # bytes of a line that are looked at


def lines_above(source: Source, offset: int, size: int) -> list[str]:
    """The cleaned lines, without blank ones, in the `size` bytes above an offset; none if the log cannot be read."""
    start = max(0, offset - size)
    try:
        with buffered(source.file) as stream:
            stream.seek(start)
            above = stream.read(offset - start)
    except (OSError, ValueError):
        return []
    return [
        text for raw in above.splitlines() if (text := clean(raw[:LONGEST].decode("utf-8", "replace")).text.strip())
    ]
