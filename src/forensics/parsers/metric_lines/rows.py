"""The rows that every part makes: their order, their columns, and whose they are."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from forensics.parsers.metric_lines.reader import peel

if TYPE_CHECKING:
    import polars as pl


class Context(NamedTuple):
    """What is the same for all lines of a batch of files, and where each of them begins.

    Lines are numbered through: those of a file follow its base. ranks: that of each source, by file.
    """

    voted: frozenset[str]
    reference: float
    ranks: tuple[int | None, ...] = (None,)
    bases: tuple[int, ...] = (0,)

    def file(self) -> pl.Expr:
        """The index of the file that a row is from, by its column `line`."""
        import polars as pl

        if len(self.bases) == 1:
            return pl.lit(0, pl.UInt32)
        return pl.lit(pl.Series(self.bases, dtype=pl.Int64)).search_sorted(pl.col("line"), side="left") - 1

    def rank(self) -> pl.Expr:
        """The rank of the source that a row is from."""
        import polars as pl

        if len(set(self.ranks)) == 1:
            return pl.lit(self.ranks[0], pl.Int32)
        return pl.lit(pl.Series(self.ranks, dtype=pl.Int32)).gather(self.file())


# Rows are ordered by one number: line, piece of the line (the last ones share a number), place in the piece.
KEY_PER_PIECE = 128
PIECES = 2**20
KEY_PER_LINE = PIECES * KEY_PER_PIECE
_KINDS = ("line", "bar", "dict", "table", "block", "header", "frame", "notice", "counter", "constant")


@cache
def row_schema() -> dict[str, Any]:
    """Columns of a row before it is given out; `kind` says what may still be missing (`reader.Reading`)."""
    import polars as pl

    return {
        "key": pl.Int64, "kind": pl.Enum(_KINDS), "rank": pl.Int32, "step": pl.Int64, "epoch": pl.Float64,
        "time": pl.Float64, "name": pl.Categorical(), "value": pl.Float64,
    }  # fmt: skip


def key() -> pl.Expr:
    """The sort key of the first row of a piece, from the columns `line` and `sub`."""
    import polars as pl

    return pl.col("line") * KEY_PER_LINE + pl.min_horizontal(pl.col("sub"), pl.lit(PIECES - 1)) * KEY_PER_PIECE


def whose(context: Context, *known: str) -> pl.Expr:
    """The rank of a row: the line's own, else a task id, else the source's, else the local rank.

    known: which of the columns `rank`, `task` and `local_rank` (Int32) there are.
    """
    import polars as pl

    ranks = [pl.col(role) for role in ("rank", "task") if role in known]
    ranks.append(context.rank())
    if "local_rank" in known:
        ranks.append(pl.col("local_rank"))
    return pl.coalesce(ranks)


def shaped(frame: pl.DataFrame, context: Context, order: int | str = 0, **columns: Any) -> pl.DataFrame:
    """A frame as rows, null where nothing is given.

    frame: `line`, `sub` (Int64) and any of the row columns, `task`, `local_rank`. order: place in the piece, or the
    column that has it. columns: expressions or names of columns for row columns.
    """
    import polars as pl

    ids = [role for role in ("rank", "task", "local_rank") if role in frame.columns]
    given: dict[str, Any] = {name: pl.col(name) for name in row_schema() if name in frame.columns}
    given |= {name: pl.col(value) if isinstance(value, str) else value for name, value in columns.items()}
    given["key"] = key() + (pl.col(order) if isinstance(order, str) else order)
    given["rank"] = whose(context, *ids)
    return frame.select(
        given.get(name, pl.lit(None)).cast(dtype, strict=False).alias(name) for name, dtype in row_schema().items()
    )


def with_ranks(frame: pl.DataFrame, context: Context) -> pl.DataFrame:
    """`rank`, `task` and `local_rank` for pieces that no template reads: prefixes vary little, so once per prefix."""
    import polars as pl

    roles = ("rank", "task", "local_rank")
    heads = frame["text"].str.extract(r"^((?:\[[^\]\n]*\] ?:?){1,4}|[^ ]+: )", 1)
    if heads.null_count() == len(heads):
        return frame.with_columns(pl.lit(None, pl.Int32).alias(role) for role in roles)
    firsts = pl.DataFrame({"head": heads, "text": frame["text"]}).unique("head", keep="first", maintain_order=True)
    known: dict[str | None, dict[str, int]] = {}
    for head, text in firsts.head(4096).iter_rows():
        _, fields = peel(text, context.voted)
        known[head] = {f.role: int(text[f.start : f.end]) for f in fields if f.end - f.start < 10}
    said = pl.DataFrame(
        [(head, *(who.get(role) for role in roles)) for head, who in known.items()],
        schema={"head": pl.String, **dict.fromkeys(roles, pl.Int32)},
        orient="row",
    )
    return frame.with_columns(head=heads).join(said, on="head", how="left", nulls_equal=True, maintain_order="left")
