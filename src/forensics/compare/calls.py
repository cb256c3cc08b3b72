"""Collectives that differ: for each process group and rank the first call in which two runs are not alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.compare.model import CallDifference
from forensics.engine.collectives.observations import title
from forensics.model import UNRECORDED

if TYPE_CHECKING:
    import polars as pl

_FIELDS = (("op", ("op",)), ("sizes", ("input_sizes", "output_sizes")), ("dtype", ("dtypes",)))
_KEY = ["rank", "group", "is_p2p", "seq"]


def differences(good: pl.DataFrame, bad: pl.DataFrame, *, same_length: bool) -> tuple[CallDifference, ...]:
    """The first difference of each group, with the ranks that show the same one.

    good, bad: COLLECTIVES_COLUMNS. Calls are paired by rank, group and collective sequence id, so buffers that begin
    at different calls are compared where they overlap. same_length: whether both runs came as many steps far, so that
    another number of calls is a difference, too.
    """
    import polars as pl

    if good.is_empty() or bad.is_empty():
        return ()

    def calls(frame: pl.DataFrame) -> pl.DataFrame:
        known = frame.filter(pl.col("seq").is_not_null() & pl.col("op").is_not_null() & (pl.col("op") != UNRECORDED))
        known = known.with_columns(is_p2p=pl.col("is_p2p").fill_null(False))
        return known.unique(_KEY, keep="first", maintain_order=True)

    mine, theirs = calls(bad), calls(good)
    both = theirs.join(mine, on=_KEY, how="inner", suffix="_bad", nulls_equal=True).sort("seq")
    found: dict[tuple[str, int, str, str, str], list[int | None]] = {}
    told: set[tuple[int | None, str, bool]] = set()
    for what, columns in _FIELDS:
        unlike = pl.any_horizontal(
            *(
                (pl.col(c) != pl.col(f"{c}_bad")) & pl.col(c).is_not_null() & pl.col(f"{c}_bad").is_not_null()
                for c in columns
            )
        )
        both = both.with_columns(unlike.fill_null(False).alias(f"unlike_{what}"))
    wrong = both.filter(pl.any_horizontal(*(pl.col(f"unlike_{what}") for what, _ in _FIELDS)))
    for row in wrong.unique(["rank", "group", "is_p2p"], keep="first", maintain_order=True).iter_rows(named=True):
        what = next(name for name, _ in _FIELDS if row[f"unlike_{name}"])
        told.add((row["rank"], row["group"], row["is_p2p"]))
        key = (_group(row), row["seq"], what, _call(row, ""), _call(row, "_bad"))
        found.setdefault(key, []).append(row["rank"])
    if same_length:
        titles = {row["group"]: _group(row) for row in theirs.unique("group").iter_rows(named=True)}
        for (place, last_good), (_, last_bad) in _paired_ends(theirs, mine):
            if place not in told and last_good != last_bad:
                key = (
                    titles[place[1]],
                    min(last_good, last_bad) + 1,
                    "number",
                    f"{last_good} calls",
                    f"{last_bad} calls",
                )
                found.setdefault(key, []).append(place[0])
    return tuple(
        CallDifference(
            rank=ranks[0],
            group=group,
            seq=seq,
            what=what,
            good=first,
            bad=second,
            ranks=tuple(sorted(r for r in ranks if r is not None)),
        )
        for (group, seq, what, first, second), ranks in sorted(found.items(), key=lambda item: (item[0][1], item[0][0]))
    )


_Place = tuple[int | None, str, bool]


def _paired_ends(good: pl.DataFrame, bad: pl.DataFrame) -> Sequence[tuple[tuple[_Place, int], tuple[_Place, int]]]:
    import polars as pl

    def ends(frame: pl.DataFrame) -> dict[_Place, int]:
        last = frame.group_by("rank", "group", "is_p2p").agg(pl.col("seq").max())
        return {(rank, group, p2p): seq for rank, group, p2p, seq in last.iter_rows()}

    ends_good, ends_bad = ends(good), ends(bad)
    common = sorted(ends_good.keys() & ends_bad.keys(), key=str)
    return [((place, ends_good[place]), (place, ends_bad[place])) for place in common]


def _group(row: dict[str, object]) -> str:
    name, described = str(row["group"] or ""), str(row["group_desc"] or "")
    return title((name, described)) if name else "default"


def _call(row: dict[str, object], side: str) -> str:
    parts = [str(row[f"op{side}"])]
    if sizes := row[f"input_sizes{side}"]:
        parts.append(f"in {sizes}")
    if sizes := row[f"output_sizes{side}"]:
        parts.append(f"out {sizes}")
    if dtypes := row[f"dtypes{side}"]:
        parts.append(str(dtypes))
    return " ".join(parts)[:300]
