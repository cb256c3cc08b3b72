"""Tables of a log whose first column counts: `Step | Training Loss | Validation Loss`, a number in each cell below.

HF's notebook callback shows one (unsloth prints it, people paste it, parted by tabs); rich draws one with box
characters; loops print Markdown or CSV to standard output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from forensics.parsers.metric_lines import to_float
from forensics.parsers.metric_lines.pieces import BARS, COUNTER_TITLE
from forensics.parsers.metric_lines.reader import ANCHORS
from forensics.parsers.metric_lines.rows import KEY_PER_PIECE, Context, shaped
from forensics.parsers.names import canonical, factor
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

_HEADER = lazy(rf"^[ \t]*(?:[{BARS}][ \t]*)?{COUNTER_TITLE} *(?P<bar>[{BARS},\t])[^\n]{{3,600}}$", re.I)
_TITLE = lazy(r"[A-Za-z][\w /().@#*%-]{0,60}", re.A)
_RULE = lazy(r"[-=+:|─━═│┃┡╇┩├┼┤╞╪╡┏┳┓┌┬┐└┴┘┗┻┛ \t]+")
_GAP = 50  # lines of other kinds between two rows, which a log puts there


class _Titles(NamedTuple):
    bar: str
    counter: str  # "step" or "epoch"
    names: tuple[str | None, ...]  # canonical names of the other columns
    factors: tuple[float, ...]


def _cells(line: str, bar: str) -> list[str]:
    """The cells of a line; where bars are drawn, one may stand at each end."""
    if bar not in BARS:
        return [cell.strip() for cell in line.split(bar)]
    cells = [cell.strip() for cell in re.split(f"[{BARS}]", line.strip())]
    start = 1 if len(cells) > 1 and not cells[0] else 0
    return cells[start:-1] if len(cells) > 1 and not cells[-1] else cells[start:]


def _titles(line: str) -> _Titles | None:
    m = _HEADER.match(line)
    if m is None:
        return None
    first, *rest = _cells(line, m["bar"])
    names = tuple(canonical(title) if _TITLE.fullmatch(title) else None for title in rest)
    counter = canonical(first)
    if counter not in ("step", "epoch") or not set(names) & ANCHORS:
        return None
    return _Titles(m["bar"], counter, names, tuple(factor(title) for title in rest))


def titled(windows: Sequence[tuple[bytes, int]], context: Context) -> Iterator[pl.DataFrame]:
    """The rows of tables under a header whose first column is a step or an epoch.

    A cell without a number (`No log`) says nothing; a line with another number of cells is no row. A table ends with
    the next header, or where no row has come for `_GAP` lines.
    """
    import polars as pl

    rows: list[tuple[int, int | None, float | None, int, str, float]] = []
    for data, first_line in windows:
        table: _Titles | None = None
        last = 0
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), first_line):
            if (found := _titles(line)) is not None:
                table, last = found, number
                continue
            if table is None or not line or _RULE.fullmatch(line):
                continue
            if number - last > _GAP:
                table = None
                continue
            first, *cells = _cells(line, table.bar)
            count = to_float(first.split("/")[0]) if len(cells) == len(table.names) else None
            if count is None or not 0 <= count < 1e15:
                continue
            last = number
            step = int(count) if table.counter == "step" else None
            epoch = count if table.counter == "epoch" else None
            for order, (name, cell, scale) in enumerate(zip(table.names, cells, table.factors, strict=True)):
                value = to_float(cell)
                if name not in (None, "step", "epoch") and value is not None and order < KEY_PER_PIECE:
                    rows.append((number, step, epoch, order, str(name), value * scale))
    if rows:
        types = {"name": pl.String, "value": pl.Float64, "epoch": pl.Float64}
        columns = ("line", "step", "epoch", "order", "name", "value")
        frame = pl.DataFrame(rows, schema={name: types.get(name, pl.Int64) for name in columns}, orient="row")
        yield shaped(frame.with_columns(sub=pl.lit(0, pl.Int64)), context, order="order", kind=pl.lit("line"))
