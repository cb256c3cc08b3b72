"""Progress bars and step counters: how far a run came, where nothing else on the line says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forensics.parsers.metric_lines.pieces import COUNTER_STEP, RECORD_STEP
from forensics.parsers.metric_lines.rows import Context, shaped, with_ranks
from forensics.parsers.metric_lines.times import STAMP, seconds

if TYPE_CHECKING:
    import polars as pl

_NO_TRAINING_BAR = (
    r"(?i-u:valid|eval|test|sanity|load|download|map|token|predict|generat|infer|prepar|shard|fetch|convert|pack|filter|"
    r"upload|writ|sav|resolv|merg|captur|compil|comput|extract|quantiz|rollout|process|check)"
)
# Bytes, examples, files; cells of a notebook (papermill, nbclient)
_COUNTS_OTHER_THINGS = r"(?-u:[0-9?.]+[kMGT]? ?(?:i?B|examples|ex|tokens|file|files|cell)/s|[0-9?.]+s/cell\b)"
# What speaks of an earlier step, as `reader` knows it.
_EARLIER = r"(?i)(?:^|[^a-z_])(?:best|since|previous)(?:$|[^a-z_])"
_HELD_OUT = (
    r"(?i:(?:^|[^a-z0-9_./-])(?:val|valid|validate|validating|validation|eval|evaluate|evaluating|evaluation|test"
    r"|testing)(?:[^a-z0-9_./-]|$))"
)
COUNTED = 5  # lines that hold a count and nothing else, from which on they are a loop's
_RECORD_TIME = r'(?-u:"(?:ts|time|timestamp|created|_timestamp)": ?"?[12][0-9])'
_EPOCH = r"""(?i:(?:^|[^a-z_])(?:epoch|ep)["']?[ :=#\[]{1,3}([0-9]+(?:\.[0-9]+)?))"""


def progress(frame: pl.DataFrame, context: Context) -> Iterator[pl.DataFrame]:
    """Training progress from tqdm frames: `progress` (n) and `total_steps`, and the frames' own step for others to use.

    frame: pieces (line, sub, text). Bars of loading, mapping or evaluation are told by their description and unit.
    Frames that do not move are left out, but for one that a message parts from the last: the bar is drawn again behind
    what was written above it, and tells the step of that (`neighbours`).
    """
    import polars as pl

    if frame.is_empty():
        return
    text, desc = pl.col("text"), pl.col("desc")
    groups = text.str.extract_groups(r"%\|[^|\n]*\| *([0-9]+)/([0-9]+) \[")
    frame = (
        frame.lazy()
        .with_columns(groups=groups)
        .select(
            "line", "sub", "text",
            desc=text.str.splitn("%|", 2).struct.field("field_0"),
            n=pl.col("groups").struct.field("1").cast(pl.Int64, strict=False),
            total=pl.col("groups").struct.field("2").cast(pl.Int64, strict=False),
        )
        .filter(
            pl.col("n").is_not_null()
            & pl.col("total").is_not_null()
            & ~text.str.contains(_COUNTS_OTHER_THINGS)
            & ~desc.str.contains(_NO_TRAINING_BAR)
        )
        .with_columns(
            epoch=pl.coalesce(
                desc.str.extract(r"(?i-u:epoch[ :\[]{0,3}([0-9]+)(?:/[0-9]+)?\]?)", 1),
                desc.str.extract(r"^[ \t]*([0-9]+)/[0-9]+ +[0-9.]+[GM] ", 1),  # Ultralytics
            ).cast(pl.Float64, strict=False)
        )
        .collect()
    )  # fmt: skip
    if frame.is_empty():
        return
    frame = with_ranks(frame, context).with_columns(file=context.file())
    # Nameless bars of different lengths: the longest is the training loop's, the others are evaluations.
    nameless = pl.when(pl.col("epoch").is_null()).then("total")
    frame = frame.filter(pl.col("epoch").is_not_null() | (pl.col("total") * 4 > nameless.max().over("file") - 1))
    position = ("n", "total", "epoch", "rank", "local_rank", "file", "line")
    frame = frame.filter(
        pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1)) for c in position) | (pl.int_range(pl.len()) == 0)
    )
    yield shaped(frame, context, order=90, kind=pl.lit("frame"), step="n", name=pl.lit("progress"), value="n")
    changed = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1)) for c in ("total", "file"))
    ends = frame.filter(pl.col("epoch").is_null() & (changed | (pl.int_range(pl.len()) == 0)))
    yield shaped(ends, context, order=101, kind=pl.lit("constant"), step="n", name=pl.lit("total_steps"), value="total")


def counted(pieces: Sequence[pl.DataFrame], context: Context) -> Iterator[pl.DataFrame]:
    """`progress` from lines that only count: a step where the message or a field of it begins, or in a record.

    pieces: frames of (line, sub, text) that hold no metric. A count needs company (a total, an epoch, a time, other
    words, or COUNTED of its like that rise), so that settings (`step: 100`) are none; a count of held-out batches is
    no progress, and `Step 1/4: ..` are instructions.
    """
    import polars as pl

    text, before, rest = pl.col("text"), pl.col("before"), pl.col("rest")
    if all(piece.is_empty() for piece in pieces):
        return
    frame = pl.concat([f.filter(text.str.contains(f"{COUNTER_STEP}|{RECORD_STEP}")) for f in pieces])
    if frame.is_empty():
        return
    frame = (
        frame.lazy()
        .with_columns(
            counter=text.str.extract_groups(r"^(.*?)" + COUNTER_STEP + r"(?:[ \t]*/[ \t]*([0-9]{1,15}))?(.*)$"),
            record=text.str.extract(RECORD_STEP, 1),
        )
        .with_columns(
            before=pl.col("counter").struct.field("1"),
            counter=pl.col("counter").struct.field("2"),
            total=pl.col("counter").struct.field("3").cast(pl.Float64, strict=False),
            rest=pl.col("counter").struct.field("4"),
            epoch=text.str.extract(_EPOCH, 1).cast(pl.Float64, strict=False),
        )
        .filter(
            (pl.col("record").is_not_null() & text.str.contains(_RECORD_TIME))
            | (
                pl.col("record").is_null()
                & ~before.str.contains(_HELD_OUT)
                & ~before.str.contains(_EARLIER)
                & ~rest.str.contains(r"^(?:[.]?[0-9]|[A-Za-z_%])")
                & ~((pl.col("total") <= 20).fill_null(False) & rest.str.contains(r"^[ \t]*:"))
            )
        )
        .with_columns(step=pl.coalesce("record", "counter").cast(pl.Int64, strict=False))
        .filter(pl.col("step").is_not_null())
        .select(
            "line",
            "sub",
            "text",
            "step",
            "epoch",
            time=text.str.extract(STAMP, 1),
            accompanied=pl.col("record").is_not_null()
            | pl.col("total").is_not_null()
            | pl.col("epoch").is_not_null()
            | rest.str.contains(r"[0-9A-Za-z]")
            | before.str.contains(r"[0-9]"),
        )
        .collect()
    )
    if frame.is_empty():
        return
    frame = with_ranks(frame, context).with_columns(
        time=seconds(frame["time"], "time", context.reference), file=context.file()
    )
    # One by one upwards, as a loop prints it.
    series = (~pl.col("accompanied"), "file", "rank", "local_rank")
    rises = (pl.col("step").diff() > 0).sum().over(series) >= COUNTED - 1
    falls = (pl.col("step").diff() <= 0).any().over(series)
    frame = frame.filter(pl.col("accompanied") | (rises & ~falls))
    yield shaped(frame, context, order=90, kind=pl.lit("counter"), name=pl.lit("progress"), value="step")
