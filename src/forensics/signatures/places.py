"""Where in a TOML text a key stands, so that an error can name the line: tomllib tells values only."""

from __future__ import annotations

from forensics.patterns import lazy

# ("kind",) a key at the top; ("evidence", 2) the third [[evidence]] table; ("evidence", 2, "pattern") a key of it.
Place = tuple[str | int, ...]

_HEADER = lazy(r"\s*\[\[?\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
_KEY = lazy(r"""\s*["']?([A-Za-z0-9_\-]+)["']?\s*[.=]""")
_QUOTES = lazy(r"'''|\"\"\"")


def line_of(text: str, place: Place) -> int:
    """The line (from 1) of a place in a signature file; of its table, or the first, where the key is not written."""
    if not place:
        return 1
    table = place[0] if len(place) > 1 else None
    nth = place[1] if len(place) > 1 else 0
    key = place[-1] if len(place) != 2 else None
    best, current, seen = 1, "", -1
    open_quote: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        inside = open_quote is not None
        for quote in _QUOTES.findall(line):
            if open_quote is None:
                open_quote = quote
            elif open_quote == quote:
                open_quote = None
        if inside:
            continue
        if header := _HEADER.match(line):
            current = header[1]
            seen += current == (table if table is not None else place[0])
            here = current == table and seen == nth
            if here or (table is None and current == place[0]):
                best = number
                if key is None or table is None:
                    return best
        elif (found := _KEY.match(line)) and found[1] == key:
            if table is None and not current:
                return number
            if table is not None and current == table and seen == nth:
                return number
    return best
