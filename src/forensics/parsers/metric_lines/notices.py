"""Overflow messages, summaries of detection, and two tables of known columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from forensics.parsers.metric_lines import to_float
from forensics.parsers.metric_lines.pieces import NULL, PRECISION
from forensics.parsers.metric_lines.reader import ANCHORS
from forensics.parsers.metric_lines.rows import Context, shaped, with_ranks
from forensics.parsers.metric_lines.times import STAMP, seconds
from forensics.parsers.names import canonical
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

# Before the titles, and before each row, may stand the label of the process: `0: `, `[default0]:`, `node-1  | `.
_COLUMN_HEADER = lazy(
    rb"^(?P<label>(?:[^\s|:]{1,80} *[:|] ?|\[[^\]\n]{1,80}\](?:<\w{1,10}>)?:? ?|\([^()\n]{1,80}\) ?)??)"
    rb"(?P<titles>[ \t]*(?:Epoch +(?:GPU|gpu)_mem(?: +[A-Za-z_]\w*){2,12}"
    rb"|[A-Za-z_]\w*(?:[ \t]*\|[ \t]*[A-Za-z_]\w*){2,12}))[ \t\r]*$",
    re.M,
)
# The terms of YOLO's loss, and their sum, before v6.2 called them losses.
_YOLO = {"box": "loss_part", "giou": "loss_part", "obj": "loss_part", "cls": "loss_part", "total": "loss"}
_ITERATION = lazy(rb"\*{4,} Iteration (\d{1,15}) \*{4,}")


def overflows(frame: pl.DataFrame, context: Context) -> Iterator[pl.DataFrame]:
    """Skipped steps and changes of the loss scale as DeepSpeed, apex, fairseq and Megatron announce them."""
    import polars as pl

    if frame.is_empty():
        return
    text = pl.col("text")
    number = r"([0-9][0-9.]*(?:e[-+]?[0-9]+)?)"
    new = pl.coalesce(
        text.str.extract(r"(?-u:reducing(?: loss scale)? to " + number + ")", 1),
        text.str.extract(r"(?-u:setting (?:loss )?scale to(?: to)?:? " + number + ")", 1),
        text.str.extract(r"(?-u:loss scale from [0-9.e+]+ (?:to|->) " + number + ")", 1),
        text.str.extract(r"(?-u:Attempted loss scale: " + number + ")", 1),
        text.str.extract(r"(?-u:static loss scale of:? " + number + ")", 1),
    ).str.strip_chars_end(".")
    frame = with_ranks(frame, context).with_columns(
        scale=new.cast(pl.Float64, strict=False),
        step=text.str.extract(r"(?-u:Grad overflow on iteration:? ([0-9]+))", 1).cast(pl.Int64, strict=False),
        skipped=~text.str.contains(r"(?-u:dynamic loss scale from |setting loss scale from |static loss scale)"),
        kind=pl.when(text.str.contains(r"(?-u:Grad overflow on iteration)"))
        .then(pl.lit("line"))
        .otherwise(pl.lit("notice")),
    )
    stamps = text.str.extract(STAMP, 1)
    frame = frame.with_columns(time=seconds(frame.select(stamps.alias("t"))["t"], "time", context.reference))
    yield shaped(frame.filter("skipped"), context, order=80, name=pl.lit("overflow"), value=pl.lit(1.0))
    scaled = frame.filter(pl.col("scale").is_not_null())
    yield shaped(scaled, context, order=81, name=pl.lit("loss_scale"), value="scale")


def precisions(frame: pl.DataFrame, context: Context) -> Iterator[pl.DataFrame]:
    """`AP`, `AP50` and `AP75` of the summary that pycocotools prints, whose lines name the overlap they are at."""
    import polars as pl

    if frame.is_empty():
        return
    overlap = frame["text"].str.extract(PRECISION, 1)
    names = {"0.50:0.95": "AP", "0.50": "AP50", "0.75": "AP75"}
    told = with_ranks(frame, context).with_columns(
        name=overlap.replace_strict(names, default=None, return_dtype=pl.String),
        value=frame["text"].str.extract(PRECISION + r"(-?[0-9]\.[0-9]+)", 2).cast(pl.Float64, strict=False),
    )
    told = told.filter(pl.col("name").is_not_null() & pl.col("value").is_not_null())
    yield shaped(told, context, order=82, kind=pl.lit("line"))


def nulls(windows: Sequence[tuple[bytes, int]], context: Context) -> Iterator[pl.DataFrame]:
    """The losses and norms of JSON records that are null from some record on to the end of a window, as NaN."""
    import polars as pl

    from forensics.parsers import metric_files

    rows: list[tuple[int, int | None, int | None, float | None, str]] = []
    for data, first in windows:
        if NULL.search(data):
            found = metric_files.nulled(data.decode("utf-8", "replace").split("\n"))
            rows += [(first - 1 + line, rank, step, epoch, name) for line, rank, step, epoch, name in found]
    if rows:
        types = {"line": pl.Int64, "rank": pl.Int64, "step": pl.Int64, "epoch": pl.Float64, "name": pl.String}
        frame = pl.DataFrame(rows, schema=types, orient="row")
        said = frame.with_columns(sub=pl.lit(0, pl.Int64), value=pl.lit(float("nan")))
        yield shaped(said, context, order=83, kind=pl.lit("line"))


def columns(windows: Sequence[tuple[bytes, int]], context: Context) -> Iterator[pl.DataFrame]:
    """Tables whose header names the columns: YOLO's (box, cls, .. loss an epoch) and OpenAI Baselines' (kl, ..).

    YOLOv5 from v6.0 on and Ultralytics print the terms of the loss and not their sum, which is what they optimise:
    `loss` is the sum.
    """
    import polars as pl

    rows = []
    for data, first_line in windows:
        line, counted = first_line, 0
        for header in _COLUMN_HEADER.finditer(data):
            titles = header.group("titles").decode("utf-8", "replace").replace("|", " ").split()
            known = _YOLO if titles[0] == "Epoch" else {}
            names = [known.get(title.lower()) or canonical(title) for title in titles]
            if not set(names) & ANCHORS or (names[0] in ("step", "epoch") and b"|" in header.group("titles")):
                continue  # the latter are read by `tables`
            line += data.count(b"\n", counted, header.end())
            counted = header.end()
            title = _ITERATION.findall(data[max(0, header.start() - 400) : header.start()])
            step = int(title[-1]) if title else None
            at = header.end() + 1
            for count in range(1, 2001):
                end = data.find(b"\n", at)
                raw = data[at : end if end >= 0 else None]
                at = end + 1 if end >= 0 else len(data)
                label = header.group("label")
                pieces = [piece.removeprefix(label) for piece in raw.split(b"\r") if piece.strip()]
                cells = pieces[-1][:400].decode("utf-8", "replace").replace("|", " ").split() if pieces else []
                numbers = [to_float(cell.split("/")[0].rstrip(":GMK")) for cell in cells[: len(names)]]
                if len(numbers) < len(names) or None in numbers:
                    break
                said: dict[str, Any] = {"line": line + count, "sub": len(pieces), "step": step, "epoch": None}
                if "/" in cells[0] and names[0] == "epoch":
                    said["epoch"] = numbers[0]
                pairs = [
                    (n, v)
                    for n, v in zip(names, numbers, strict=True)
                    if n and n not in ("epoch", "step", "batch_size")
                ]
                parts = [v for n, v in pairs if n == "loss_part" and v is not None]
                if len(parts) > 1 and "loss" not in names:
                    pairs.append(("loss", sum(parts)))
                rows += [{**said, "order": order, "name": n, "value": v} for order, (n, v) in enumerate(pairs)]
    if rows:
        types = {"name": pl.String, "value": pl.Float64, "epoch": pl.Float64}
        names_of = ("line", "sub", "step", "epoch", "order", "name", "value")
        frame = pl.DataFrame(rows, schema={name: types.get(name, pl.Int64) for name in names_of})
        yield shaped(frame, context, kind=pl.lit("line"))
