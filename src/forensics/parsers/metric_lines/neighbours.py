"""What only other lines can tell: steps of dicts and blocks, repeated frames, running counts as differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.parsers.metric_lines.rows import KEY_PER_LINE, KEY_PER_PIECE

if TYPE_CHECKING:
    import polars as pl

# Rows of `progress` that a file keeps of each kind (bars, counters), spread over it; a rank's last one always stays.
PROGRESS = 400
NEARLY_ALL = 0.9  # of the dicts of a file; the first one may stand at step 1, the last one at any
DICTS_ABOVE = 3  # dicts of a Trainer above the first frame of a file, from which on the bar is not the Trainer's own
BEGINS = 2  # at most, what a bar counts that is drawn for the first time; one that is only seen late counts more
FEWEST = 64  # rows that are looked at one by one


def complete(
    frames: Sequence[pl.DataFrame], rules: pl.Series, starts: Sequence[int], files: Sequence[int]
) -> pl.DataFrame:
    """All rows in order, with the positions that other lines give them, without repetitions.

    `file` and `window` are added.

    frames: of `rows.row_schema()`, one kind or more each, none empty. rules: numbers of the lines that are dashes.
    starts: numbers of the first lines of the windows: nothing is carried over from one window to the next.
    files: the file that each window is from.
    """
    import polars as pl

    # Constants are kept apart, so that a few rows need no sorting of the many.
    constant = [frame for frame in frames if frame["kind"][0] == "constant"]
    others = [frame for frame in frames if frame["kind"][0] != "constant"] or [frames[0].clear()]
    rows = pl.concat(others) if len(others) > 1 else others[0]
    if not rows["key"].is_sorted():
        rows = rows.sort("key", maintain_order=True)
    kinds = frozenset(rows["kind"].unique().to_list())
    rows = _placed(rows, starts, files)
    rows = _inherit(rows, kinds, rules)
    told = _placed(pl.concat(constant).sort("key", maintain_order=True), starts, files) if constant else None
    evaluated = _evaluations(rows, kinds, told)
    if len(evaluated):
        of_bar = (pl.col("kind") == "frame") & pl.col("epoch").is_null()
        rows = rows.filter(~(of_bar & pl.col("file").is_in(evaluated.implode())))
    rows = _fill_steps(rows, kinds)
    if "frame" in kinds:
        rows = rows.filter((pl.col("kind") != "frame") | ~_unchanged("value", "step", "epoch"))
    rows = _thin(rows, kinds)
    if told is not None:
        counts = pl.col("name").cast(pl.String) == "total_steps"
        told = told.filter(~(counts & pl.col("file").is_in(evaluated.implode()))) if len(evaluated) else told
        rows = rows.merge_sorted(_changes(told).select(rows.columns), key="key")
    return rows


def _placed(rows: pl.DataFrame, starts: Sequence[int], files: Sequence[int]) -> pl.DataFrame:
    """The rows with the number of the `window` and the `file` that each is from."""
    import polars as pl

    borders = pl.Series([start * KEY_PER_LINE for start in starts[1:]], dtype=pl.Int64)
    if borders.is_empty():
        return rows.with_columns(window=pl.lit(0, pl.UInt32), file=pl.lit(0, pl.UInt32))
    window = borders.search_sorted(rows["key"], side="right").cast(pl.UInt32)
    return rows.with_columns(window=window, file=pl.Series(files, dtype=pl.UInt32).gather(window))


def _inherit(rows: pl.DataFrame, kinds: frozenset[str], rules: pl.Series) -> pl.DataFrame:
    """Give rows of tables and blocks the step of their block: `total_timesteps` of a table, the header above a block.

    rules: numbers of the lines that are dashes, which part one table from the next.
    """
    import polars as pl

    if "table" in kinds:
        table = pl.col("kind") == "table"
        line = rows.select(pl.col("key") // KEY_PER_LINE)["key"]
        block = rules.search_sorted(line) if len(rules) else pl.Series([0] * rows.height)
        rows = rows.with_columns(block=block.cast(pl.Int64))
        counter = table & (pl.col("name") == "total_timesteps")
        steps = (
            rows.filter(counter)
            .group_by("window", "block")
            .agg(pl.col("value").first().cast(pl.Int64, strict=False).alias("its"))
        )
        rows = (
            rows.join(steps, on=["window", "block"], how="left", maintain_order="left")
            .with_columns(step=pl.when(table).then("its").otherwise("step"))
            .filter(~counter)
            .drop("block", "its")
        )
    if "header" in kinds:
        head = pl.col("kind") == "header"
        under = pl.col("kind") == "block"
        lacking = (pl.col("kind") == "line") & pl.col("epoch").is_null()
        above = {name: pl.when(head).then(name).forward_fill().over("window") for name in ("step", "epoch")}
        rows = rows.with_columns(
            step=pl.when(under).then(above["step"]).otherwise("step"),
            epoch=pl.when(under | lacking).then(above["epoch"]).otherwise("epoch"),
        ).filter(~head)
    return rows.filter(pl.col("name") != "total_timesteps") if "table" in kinds else rows


def _evaluations(rows: pl.DataFrame, kinds: frozenset[str], constant: pl.DataFrame | None) -> pl.Series:
    """The files whose bars without an epoch begin only when an HF Trainer has logged a while: they count an evaluation.

    The bar of a Trainer's own steps is drawn before it logs for the first time, and again behind each dict. Of a bar
    that is first seen in mid-course, neither begun nor full, that cannot be told. constant: rows of totals, with files.
    """
    import polars as pl

    frames = rows.filter((pl.col("kind") == "frame") & pl.col("epoch").is_null()) if "dict" in kinds else rows.clear()
    if frames.is_empty():
        return frames["file"]
    begins = frames.sort("key", maintain_order=True).group_by("file", maintain_order=True)
    drawn = begins.agg(first=pl.col("key").first(), count=pl.col("value").first())
    if constant is not None:
        totals = constant.filter(pl.col("name").cast(pl.String) == "total_steps").group_by("file")
        drawn = drawn.join(totals.agg(total=pl.col("value").min()), on="file", how="left")
        drawn = drawn.filter((pl.col("count") <= BEGINS) | (pl.col("count") == pl.col("total")))
    else:
        drawn = drawn.filter(pl.col("count") <= BEGINS)
    dicts = rows.filter((pl.col("kind") == "dict") & (pl.col("name").cast(pl.String) == "loss")).join(drawn, on="file")
    above = dicts.filter(pl.col("key") < pl.col("first")).group_by("file").len()
    return above.filter(pl.col("len") >= DICTS_ABOVE)["file"]


def _fill_steps(rows: pl.DataFrame, kinds: frozenset[str]) -> pl.DataFrame:
    """The step of HF Trainer dicts and overflow messages, from the frames of the bar around them.

    HF draws its bar again right behind a dict, at exactly its step, and draws few of the frames before; a loop that
    prints by itself draws its bar before the print and next one step on (`_drawn_before`). Where other text follows,
    the frame before is the nearest. One bar in the window is everybody's clock; of several, each is its own rank's.
    """
    import polars as pl

    if "frame" not in kinds or not kinds & {"dict", "notice"}:
        return rows
    wanting = pl.col("kind").is_in(["dict", "notice"]) & pl.col("step").is_null()
    frame = (pl.col("kind") == "frame") & pl.col("epoch").is_null() & (pl.col("name") == "progress")
    own = ["window"]
    if rows.filter(frame)["rank"].n_unique() > 1:
        several = pl.when(frame).then(pl.col("rank").fill_null(-1)).drop_nulls().n_unique().over("window") > 1
        rows = rows.with_columns(_whose=pl.when(several).then("rank"))
        own = ["window", "_whose"]
    shown = pl.when(frame).then("step")
    line = pl.col("key") // KEY_PER_LINE
    rows = rows.with_columns(
        _before=shown.forward_fill().over(own),
        _after=shown.backward_fill().over(own),
        _after_at=pl.when(frame).then(line).backward_fill().over(own),
    )
    near = (pl.col("_after_at") - line).is_between(0, 1) & (pl.col("kind") == "dict")
    near = near & (pl.col("_after") >= pl.col("_before").fill_null(0)) & (pl.col("_after") > 0)
    rows = rows.with_columns(_near=near)
    early = _drawn_before(rows.filter(wanting & pl.col("_near")).select("file", "key", "epoch", "_before", "_after"))
    step = pl.when(pl.col("_near") & ~pl.col("file").is_in(early)).then("_after").otherwise("_before")
    return rows.with_columns(step=pl.when(wanting & (step > 0)).then(step).otherwise("step")).drop(
        "_before", "_after", "_after_at", "_near", "_whose", strict=False
    )


def _drawn_before(dicts: pl.DataFrame) -> list[int]:
    """The files whose bars stand at the step of a dict before it, and not behind it.

    A Trainer logs at multiples of an interval. The frames that are at these, nearly always, are those of the dicts;
    where all frames are, those that go with the dicts' epochs. dicts: rows of dicts with the frames around them (file,
    key, epoch, _before, _after).
    """
    import polars as pl

    once = (
        dicts.filter(pl.col("_before").is_not_null())
        .with_columns(pl.col("key") // KEY_PER_PIECE)
        .unique(["file", "key"], keep="first", maintain_order=True)
    )
    found = []
    for (file,), part in once.group_by("file", maintain_order=True):
        before, after = (_on_interval(part[column]) for column in ("_before", "_after"))
        either = min(before, after) >= NEARLY_ALL and part["_before"].ne(part["_after"]).any()
        if before >= NEARLY_ALL > 2 * after or (either and _unlike(part, "_before") < _unlike(part, "_after")):
            found.append(file)
    return found


def _unlike(dicts: pl.DataFrame, column: str) -> float:
    """How much the steps of a column differ from what the dicts' epochs have in common; 0 where these say nothing."""
    told = dicts.filter(dicts["epoch"] > 0)
    ratios = told[column] / told["epoch"]
    middle = ratios.median()
    if not isinstance(middle, float) or middle <= 0:
        return 0.0
    return float((ratios / middle - 1).abs().mean() or 0.0)  # type: ignore[arg-type]


def _on_interval(steps: pl.Series) -> float:
    """The share of some steps, in order, that are multiples of their usual distance; 0 where it is not two or more."""
    usual = steps.diff().drop_nulls().mode().sort()
    if usual.is_empty() or (interval := usual[0]) < 2:
        return 0.0
    return float((steps % interval == 0).mean() or 0.0)


def _unchanged(*columns: str) -> pl.Expr:
    """Whether all these columns are what they were in the row before of the same file, rank and name."""
    import polars as pl

    own = ["file", "rank", "name"]
    same = [pl.col(column).eq_missing(pl.col(column).shift(1).over(own)) for column in columns]
    return pl.all_horizontal(*same, pl.int_range(pl.len()).over(own).gt(0))


def _changes(rows: pl.DataFrame) -> pl.DataFrame:
    """What stays the same for long (total steps, batch size) only where it is first told or changes."""
    if rows.height <= FEWEST and len({*zip(rows["file"], rows["rank"], rows["name"], strict=True)}) == rows.height:
        return rows  # each of them once, as most runs have it
    return rows.filter(~_unchanged("value"))


def _some(mine: pl.Expr) -> pl.Expr:
    """Of the rows that are `mine`: a mask of `PROGRESS` of each file, and of each rank's last one."""
    import polars as pl

    count = pl.len().over("file", mine)
    place = pl.int_range(pl.len()).over("file", mine)
    last = pl.int_range(pl.len()).over("file", "rank", mine) == pl.len().over("file", "rank", mine) - 1
    return (place % pl.max_horizontal((count + PROGRESS - 1) // PROGRESS, pl.lit(1)) == 0) | last


def _thin(rows: pl.DataFrame, kinds: frozenset[str]) -> pl.DataFrame:
    """Leave out the repeated frames of bars and most of what only counts, and difference counters.

    DeepSpeed's running count of skipped steps is also given as steps since the record before (`skipped_steps`).
    """
    import polars as pl

    parts = []
    if "bar" in kinds:
        bars = rows["kind"] == "bar"
        drawn = rows.filter(bars)
        parts.append(drawn.filter(~_unchanged("value", "step", "epoch")))
        rows = rows.filter(~bars)
        if "frame" in kinds:  # a frame whose bar carries metrics has its step there already
            carried = (drawn["key"] // KEY_PER_PIECE).unique().implode()
            rows = rows.filter((pl.col("kind") != "frame") | ~(pl.col("key") // KEY_PER_PIECE).is_in(carried))
    for kind in sorted(kinds & {"frame", "counter"}):
        mine = pl.col("kind") == kind
        if int((rows["kind"] == kind).sum()) > PROGRESS:
            rows = rows.filter(~mine | _some(mine))
    counted = rows["name"] == "skipped_total"
    if counted.any():
        since = pl.col("value") - pl.col("value").shift(1).over("window", "rank", "name")
        skipped = pl.lit("skipped_steps").cast(rows.schema["name"])
        fresh = rows.filter(counted).with_columns(
            value=pl.when(since >= 0).then(since), name=skipped, key=pl.col("key") + 32
        )
        parts.append(fresh.filter(pl.col("value").is_not_null()))
    return pl.concat([rows, *parts]).sort("key", maintain_order=True) if parts else rows
