"""From one line to all lines of its shape: a reading becomes a regular expression that polars applies to a column."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from forensics.parsers import stamps
from forensics.parsers.metric_lines import to_float
from forensics.parsers.metric_lines.reader import SI, Reading
from forensics.parsers.metric_lines.reader import read as read_one
from forensics.parsers.metric_lines.rows import KEY_PER_PIECE, Context, key, row_schema, shaped, whose
from forensics.parsers.metric_lines.times import STAMP, seconds
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

SAMPLE = 48  # lines looked at in each round for templates
ROUNDS = 24
NEW_SHAPES = 16  # read in each round: the most frequent ones of its sample
FEW = 32  # so few lines are read one by one
FEW_VALUES = 4096  # so few are put in order in Python, which takes less than the planning of three queries
# Lines of a file that are read one by one where no template takes them: reading one takes a third of a millisecond.
SINGLY = 256
SINGLY_NONFINITE = 128  # of those that say nan or inf: from the first one on
LEAST = 16  # of either in each file, where many are read at once and share the numbers above
_NONFINITE = r"(?i:(?:^|[^a-z])(?:nan|-?inf|infinity)(?:[^a-z]|$))"

_RARE = r"\.[0-9]+(?:[eE][-+]?[0-9]+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?"
_CAPTURES = {
    "value": rf"([-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|{_RARE}))",
    "value with thousands": rf"([-+]?(?:[0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|{_RARE}))",
    "time": STAMP,
    "us_time": r"([0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2})",
    "short_time": r"([0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})",
    "unix": r"([0-9]+(?:\.[0-9]+)?)",
    "epoch": r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)",
}
# What may follow a number must not be able to continue it, or the engine cannot go through the line in one pass.
_OTHER_NUMBER = r"[-+]?[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+)?"
_OTHER_NUMBERS = {",": r"[-+]?[0-9]+(?:\.[0-9]+)*(?:[eE][-+]?[0-9]+)?", ".": r"[-+]?[0-9]+(?:,[0-9]+)*"}
_LITERAL = lazy(
    r"(?P<space>[ \t]+)|(?P<bar>\|[^|\n]{0,200}\|(?= *\d+/\d))"
    r"|(?P<string>(?<=: )\"[^\"\\]*\"(?=[,}])|(?<=: )'[^'\\]*'(?=[,}]))"
    r"|(?P<number>[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?)|(?P<other>.)",
    re.A | re.S,
)
_SHAPE = lazy(r"\|[^|\n]{0,200}\|(?= *\d+/\d)|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|\b[-+]?(?:nan|inf)\b| +", re.A | re.I)

# Where another writer's record begins in the middle of a line: a second object, a rank's prefix, a time stamp.
_GLUED = (
    r"(\}) *(?:\[rank[0-9]+\]: ?)?(\{[\"'])",
    r"([A-Za-z0-9.])(\{[\"'](?:ts|time|timestamp|rank|step|level|msg)[\"']:)",
    r"([A-Za-z0-9%.)}|])(\[[Rr]ank ?[0-9]+\])",
    r"([A-Za-z0-9%.)}|])(\[?20[0-9]{2}[-/][0-9]{2}[-/][0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})",
)
_ANY_GLUED = "|".join(_GLUED)


def literal(text: str) -> str:
    """The pattern for text between captures: numbers and quoted values are free, padding varies, the rest is as is."""
    out = []
    for m in _LITERAL.finditer(text):
        what = m.lastgroup
        if what == "space":
            before = text[m.start() - 1 : m.start()]
            after = text[m.end() : m.end() + 1]
            wordy = before.isalnum() and after.isalnum()
            out.append("[ \\t]+" if wordy and before.isascii() else "[ \\t]*")
        elif what == "bar":
            out.append(r"\|[^|]*\|")
        elif what == "string":
            quote = m.group(0)[0]
            out.append(f"{quote}[^{quote}]*{quote}")
        elif what == "number":
            out.append(_OTHER_NUMBERS.get(text[m.end() : m.end() + 1], _OTHER_NUMBER))
        else:
            out.append(re.escape(m.group(0)) if m.group(0).isascii() else m.group(0))
    return "".join(out)


def template(text: str, reading: Reading) -> str:
    """A pattern for Rust's regex that takes every line of this line's shape, one group a field, in order."""
    out = ["^"]
    at = 0
    for field in sorted(reading.fields, key=lambda f: f.start):
        out.append(literal(text[at : field.start]))
        thousands = field.role == "value" and text[field.end : field.end + 1] != ","
        out.append(_CAPTURES.get("value with thousands" if thousands else field.role, "([0-9]+)"))
        at = field.end
        if field.suffix:
            out.append("([KMBGTk]?)")
            at += 1
    out.append(literal(text[at:].rstrip()))
    out.append(r"[ \t]*$")
    pattern = "".join(out)
    return re.sub(r"(?:\[ \\t\]\*){2,}", r"[ \\t]*", pattern)


def read(lines: pl.DataFrame, context: Context) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """(frames of rows, frames of pieces without metrics) of candidate pieces (line, sub, text).

    Reads a sample, applies its templates to all, and so on with what is left. Lines that several writers glued together
    are parted then and go through once more, and what no template takes is read one by one, within bounds.
    """
    rows: list[pl.DataFrame] = []
    unread: list[pl.DataFrame] = []
    known: dict[str, Reading] = {}
    left = _by_template(lines, context, known, rows, unread)
    parted = _unglued(left)
    if parted is not None:
        left = _by_template(parted, context, known, rows, unread)
    if not left.is_empty():
        chosen, others = _chosen(left, context)
        rows += _one_by_one(chosen, context, unread)
        unread.append(others)
    return [frame for frame in rows if not frame.is_empty()], unread


def _by_template(
    left: pl.DataFrame,
    context: Context,
    known: dict[str, Reading],
    rows: list[pl.DataFrame],
    unread: list[pl.DataFrame],
) -> pl.DataFrame:
    """Add to `rows` what templates read, to `unread` lines of shapes without metrics, and new templates to `known`.

    Returns the lines that are left.
    """
    import polars as pl

    for pattern, reading in known.items():
        left = _applied(left, pattern, reading, context, rows)
    for _ in range(ROUNDS):
        if left.height <= FEW:
            break
        stride = max(1, left.height // SAMPLE)
        sample = left["text"].gather_every(stride).head(SAMPLE).to_list()
        shapes = [_SHAPE.sub("0", text) for text in sample]
        examples = dict(zip(shapes, sample, strict=True))
        height = left.height
        for shape, count in Counter(shapes).most_common(NEW_SHAPES):
            text = examples[shape]
            if left.height <= FEW:
                break
            if re.search(_ANY_GLUED, text):
                continue
            new = read_one(text, context.voted)
            if new is not None:
                pattern = template(text, new)
                if pattern not in known:
                    known[pattern] = new
                    left = _applied(left, pattern, new, context, rows)
            elif count > 1:
                try:
                    alike = left["text"].str.contains("^" + literal(text) + "$")
                except pl.exceptions.ComputeError:
                    continue
                unread.append(left.filter(alike))
                left = left.filter(~alike)
        if left.height > 0.95 * height:  # no two lines alike
            break
    return left


def _applied(
    left: pl.DataFrame, pattern: str, reading: Reading, context: Context, rows: list[pl.DataFrame]
) -> pl.DataFrame:
    """Add the rows of the lines that a template takes to `rows`; returns the other lines."""
    import polars as pl

    try:
        groups = left["text"].str.extract_groups(pattern).struct.unnest()
    except pl.exceptions.ComputeError:  # too large for the engine: its lines are read one by one
        return left
    first = groups.to_series(0)
    nulls = first.null_count()
    if not nulls:
        rows += _rows(left, groups, reading, context)
        return left.clear()
    if nulls < len(first):
        missed = first.is_null()
        hit = ~missed
        rows += _rows(left.filter(hit), groups.filter(hit), reading, context)
        return left.filter(missed)
    return left


def _unglued(lines: pl.DataFrame) -> pl.DataFrame | None:
    """The lines with glued records parted, or None where there are none. Pieces are numbered within the line anew."""
    import polars as pl

    text = pl.col("text")
    glued = lines["text"].str.contains(_ANY_GLUED)
    if not glued.any():
        return None
    parted = text
    for pattern in _GLUED:
        parted = parted.str.replace_all(pattern, "${1}\r${2}")
    pieces = (
        lines.filter(glued)
        .lazy()
        .with_columns(parted.str.split("\r"))
        .explode("text")
        # Places behind the bars' own pieces of the line stay free: 16 records are more than ever were seen glued.
        .with_columns(sub=pl.col("sub") * 16 + pl.int_range(pl.len(), dtype=pl.Int64).over("line", "sub").clip(0, 15))
        .select("line", "sub", "text")
        .collect()
    )
    return pl.concat([lines.filter(~glued), pieces]).sort("line", "sub")


def _chosen(lines: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(lines to read one by one: of each file the first with nan or inf and some of all others; the rest)"""
    import polars as pl

    if lines.height <= SINGLY:
        return lines, lines.clear()
    share = max(len(context.bases), 1)
    singly, nonfinite = max(SINGLY // share, LEAST), max(SINGLY_NONFINITE // share, LEAST)
    odd = pl.col("text").str.contains(_NONFINITE)
    kept = lines.lazy().with_columns(file=context.file(), odd=odd).select(
        pl.when("odd")
        .then(pl.col("odd").cum_sum().over("file") <= nonfinite)
        .otherwise((~pl.col("odd")).cum_sum().over("file") % _stride((~pl.col("odd")).sum().over("file"), singly) == 0)
        .alias("kept")
    ).collect()["kept"]  # fmt: skip
    return lines.filter(kept), lines.filter(~kept)


def _stride(count: pl.Expr, most: int) -> pl.Expr:
    import polars as pl

    return pl.max_horizontal((count + most - 1) // most, pl.lit(1))


def _rows(lines: pl.DataFrame, groups: pl.DataFrame, reading: Reading, context: Context) -> Iterator[pl.DataFrame]:
    """The rows of all lines of one shape. groups: one String column a captured field, in the order of the line."""
    import polars as pl

    said: dict[str, pl.Series] = {}
    values: list[tuple[str, pl.Series]] = []
    seldom: list[tuple[str, pl.Series]] = []
    column = 0
    for field in sorted(reading.fields, key=lambda f: f.start):
        text = groups[:, column]
        column += 1
        if field.role == "value":
            number = _floats(text)
            if field.suffix:
                letters = groups[:, column]
                column += 1
                if field.name != "memory" and (letters != "").any():
                    number = number * letters.replace_strict(SI, default=1.0, return_dtype=pl.Float64)
            if field.factor != 1.0:
                number = number * field.factor
            (seldom if field.name == "batch_size" else values).append((field.name, number))
        elif field.role == "epoch":
            said["epoch"] = text.cast(pl.Float64, strict=False)
        elif field.role == "total":
            seldom.append(("total_steps", text.cast(pl.Float64, strict=False)))
        elif field.role in ("time", "us_time", "short_time", "unix"):
            stamp = seconds(text, field.role, context.reference)
            said["time"] = stamp - reading.zone if reading.zone else stamp
        else:
            said[field.role] = text.cast(pl.Int64 if field.role == "step" else pl.Int32, strict=False)
    if reading.kind == "header":
        values.append(("", pl.Series([None] * lines.height, dtype=pl.Float64)))
    types = row_schema()
    identities = [role for role in ("rank", "task", "local_rank") if role in said]
    # All its columns are said, so that one look is enough: planning it costs more than the look where rows are few.
    read = pl.DataFrame([lines["line"], lines["sub"], *(column.alias(name) for name, column in said.items())])
    wide = read.select(
        key=key(),
        kind=pl.lit(reading.kind, types["kind"]),
        rank=whose(context, *identities),
        **{name: pl.col(name) if name in said else pl.lit(None, types[name]) for name in ("step", "epoch", "time")},
    )
    name_type = types["name"]
    if reading.lost_loss:
        known = dict(values)
        lost = wide
        if (skipped := known.get("skipped_steps")) is not None:
            without = (skipped == 0).fill_null(True)
            if (nans := known.get("nan_steps")) is not None:
                without |= (nans > 0).fill_null(False)
            lost = wide.filter(without)
        yield lost.with_columns(name=pl.lit("loss", name_type), value=pl.lit(float("nan")))
    for order, (name, number) in enumerate(seldom, 100):
        first = _first_and_changes(lines, wide, number, context)
        yield wide[first].with_columns(
            key=pl.col("key") + order,
            kind=pl.lit("constant", types["kind"]),
            name=pl.lit(name, name_type),
            value=number[first],
        )
    if not values:
        return
    # One row a value, in the order of the lines and within them.
    width, height = len(values), wide.height
    names = [name for name, _ in values]
    if width * height <= FEW_VALUES:
        nth = pl.Series(list(range(width)) * height, dtype=pl.UInt32)
        row = pl.Series([i for i in range(height) for _ in range(width)], dtype=pl.UInt32)
        named = pl.Series(names * height, dtype=name_type)
        by_line = zip(*(number.to_list() for _, number in values), strict=True)
        value = pl.Series([number for numbers in by_line for number in numbers], dtype=pl.Float64)
    else:
        place = pl.int_range(width * height, dtype=pl.UInt32, eager=True)
        row, nth = place // width, place % width
        named = pl.Series(names, dtype=name_type).gather(nth)
        value = pl.concat([number for _, number in values]).gather(nth * height + row)
    long = wide[row].with_columns(key=pl.col("key") + nth + 1, name=named, value=value)
    if reading.kind != "header" and any(number.null_count() for _, number in values):
        long = long.filter(pl.col("value").is_not_null())
    yield long


def _first_and_changes(lines: pl.DataFrame, wide: pl.DataFrame, number: pl.Series, context: Context) -> pl.Series:
    """The places of a constant's rows that say something new for their file and rank."""
    import polars as pl

    if number.len() <= FEW_VALUES:
        known: dict[tuple[int, int | None], float] = {}
        places = []
        for place, (line, rank, value) in enumerate(zip(lines["line"], wide["rank"], number, strict=True)):
            own = (bisect_left(context.bases, line), rank)
            if value is None:
                continue
            before = known.get(own)
            if before is None or (before != value and not (math.isnan(before) and math.isnan(value))):
                known[own] = value
                places.append(place)
        return pl.Series(places, dtype=pl.UInt32)
    value, own_columns = pl.col("value"), ["file", "rank"]
    file = lines.select(context.file())[:, 0] if len(context.bases) > 1 else pl.lit(0)
    told = wide.lazy().select("rank", value=number, file=file).with_row_index().filter(value.is_not_null())
    if number.n_unique() > 1:
        told = told.filter(value.ne_missing(value.shift(1).over(own_columns)))
    else:
        told = told.unique(own_columns, keep="first", maintain_order=True)
    return told.select("index").collect()["index"]


def _floats(text: pl.Series) -> pl.Series:
    """Strings as captured -> Float64; thousands commas taken out, NaN and Inf kept."""
    import polars as pl

    number = text.cast(pl.Float64, strict=False)
    if number.null_count() == text.null_count():
        return number
    again = text.str.replace_all(",", "", literal=True).str.strip_chars_end(".").str.to_lowercase()
    return number.fill_null(again.cast(pl.Float64, strict=False))


def _one_by_one(lines: pl.DataFrame, context: Context, unread: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The rows of lines of shapes too rare for a template; lines without metrics are added to `unread`."""
    import polars as pl

    columns = ("line", "sub", "order", "kind", "rank", "task", "local_rank", "step", "epoch", "time", "name", "value")
    rows: list[tuple[Any, ...]] = []
    nothing: list[bool] = []
    for line, sub, text in lines.iter_rows():
        reading = read_one(text, context.voted)
        nothing.append(reading is None)
        if reading is None:
            continue
        base, values = _said(text, reading, context)
        said = {"line": line, "sub": sub, "kind": reading.kind, **base}
        for order, (name, number) in enumerate(values, 1):
            said.update(order=min(order, KEY_PER_PIECE - 1), name=name, value=number)
            rows.append(tuple(said.get(column) for column in columns))
    unread.append(lines.filter(pl.Series(nothing, dtype=pl.Boolean)))
    if rows:
        types = {
            "kind": pl.String, "name": pl.String, "epoch": pl.Float64, "time": pl.Float64, "value": pl.Float64
        }  # fmt: skip
        frame = pl.DataFrame(rows, schema={c: types.get(c, pl.Int64) for c in columns}, orient="row")
        frame = frame.with_columns(pl.col("rank", "task", "local_rank").cast(pl.Int32, strict=False))
        constant = frame["name"].is_in(["total_steps", "batch_size"])
        yield shaped(frame.filter(~constant), context, order="order")
        if constant.any():
            yield shaped(frame.filter(constant), context, order="order", kind=pl.lit("constant"))


def _said(text: str, reading: Reading, context: Context) -> tuple[Mapping[str, Any], list[tuple[str, float]]]:
    """(position, identities and time; metrics in the order of the line) of a reading."""
    base: dict[str, Any] = {}
    values: list[tuple[str, float]] = []
    for field in sorted(reading.fields, key=lambda f: f.start):
        raw = text[field.start : field.end]
        if field.role == "value":
            number = to_float(raw)
            if number is None:
                continue
            if field.suffix and field.name != "memory":
                number *= SI.get(text[field.end : field.end + 1], 1.0)
            values.append((field.name, number * field.factor))
        elif field.role == "epoch":
            base["epoch"] = to_float(raw)
        elif field.role == "total":
            values.append(("total_steps", float(raw)))
        elif field.role == "unix":
            base["time"] = to_float(raw)
        elif field.role in ("time", "us_time", "short_time"):
            stamp, _ = stamps.parse_time(raw, context.reference)
            base["time"] = None if stamp is None else stamp - reading.zone
        elif len(raw) < (19 if field.role == "step" else 10):
            base[field.role] = int(raw)
    known = dict(values)
    if reading.lost_loss and (known.get("skipped_steps", 0.0) == 0.0 or known.get("nan_steps", 0.0) > 0):
        values.insert(0, ("loss", float("nan")))
    if reading.kind == "header":
        values.append(("", float("nan")))
    return base, values
