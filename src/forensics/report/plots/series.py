"""Metrics over the run: one curve where the ranks agree, their spread and the odd ones where they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.model import Diagnosis, Finding, Role, RunData
from forensics.rank_ranges import SHORT, rank_ranges
from forensics.report.plots.decimate import decimated, thinned
from forensics.report.plots.model import Curve, Onset, Panel, Spread
from forensics.report.words import plural

if TYPE_CHECKING:
    import polars as pl

PANELS = 9
# In the order in which they are shown; what a run does not log is left out (names: parsers/names.py).
_SHOWN = (
    "loss", "eval_loss", "grad_norm", "lr", "loss_scale", "reward", "kl", "policy_loss", "value_loss", "margin",
    "accuracy", "update_ratio", "param_norm", "throughput", "step_time", "memory", "perplexity", "reward_std",
    "entropy", "clip_fraction", "skipped_total", "overflow", "loss_part",
)  # fmt: skip
_MOMENTS = frozenset({"overflow"})  # told where it happens only: between two of them it did not
_NEVER = frozenset({"step", "epoch", "progress", "total_steps", "samples_seen", "tokens", "batch_size"})
FEW = 8  # ranks that still get a curve each
ODD = 4  # of more ranks, those that part most from the others and get one
_ALIKE = 1e-5  # relative difference below which two ranks print the same number
_WIDE = 300.0  # a greatest size this many times the median size is drawn on a logarithmic axis
_FEWEST = 3  # points that make a curve
_ONSETS = 3


def panels(data: RunData, diagnosis: Diagnosis) -> tuple[Panel, ...]:
    """The metrics that are worth a look, at most PANELS of them."""
    import polars as pl

    if not data.metrics.height:
        return ()
    rows = data.metrics.filter(~pl.col("name").is_in(list(_NEVER))).with_row_index("order")
    counts = dict(rows.group_by("name").len().iter_rows())
    names = [name for name in _SHOWN if counts.get(name, 0) >= _FEWEST]
    others = sorted((n for n in counts if n not in _SHOWN and counts[n] >= 4 * _FEWEST), key=lambda n: (-counts[n], n))
    culprits = frozenset(rank for f in diagnosis.of_role(Role.ROOT) for rank in f.ranks or ())
    found: list[Panel] = []
    for name in (*names, *(others if len(names) < 3 else ())):
        panel = _panel(name, rows.filter(pl.col("name") == name), diagnosis, culprits)
        if panel is not None:
            found.append(panel)
        if len(found) == PANELS:
            break
    return tuple(found)


def _panel(name: str, rows: pl.DataFrame, diagnosis: Diagnosis, culprits: frozenset[int]) -> Panel | None:
    import polars as pl

    rows = _one_source_a_rank(rows)
    axis = _axis(rows)
    x = {"step": pl.col("step").cast(pl.Float64), "epoch": pl.col("epoch")}.get(
        axis, pl.int_range(1, pl.len() + 1).over("rank").cast(pl.Float64)
    )
    rows = rows.with_columns(x=x).filter(pl.col("x").is_not_null()).sort("order")
    if rows["x"].n_unique() < _FEWEST:
        return None
    finite = rows.filter(pl.col("value").is_finite())
    broken = thinned(sorted(set(rows.filter(~pl.col("value").is_finite())["x"].to_list())))
    curves, spread, notes = _curves(rows, culprits)
    if not any(math.isfinite(y) for c in curves for y in c.ys) and not broken:
        return None
    return Panel(
        name, axis, _scale(name, finite["value"]), tuple(curves), spread, tuple(broken),
        _onsets(rows, axis, diagnosis), tuple(notes), name in _MOMENTS,
    )  # fmt: skip


def _one_source_a_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the files in which a rank records a metric of one attempt the fullest; without a rank where it says more."""
    import polars as pl

    keys = ["rank", "attempt", "source"]
    per = (
        rows.group_by(keys)
        .agg(pl.len().alias("n"), pl.col("step").count().alias("stepped"), pl.col("order").min())
        .sort(["stepped", "n", "order"], descending=[True, True, False])
        .unique(["rank", "attempt"], keep="first", maintain_order=True)
    )
    ranked = per.filter(pl.col("rank").is_not_null())
    if ranked.height and ranked.height < per.height:
        rest = per.filter(pl.col("rank").is_null())
        per = ranked if ranked["n"].max() >= rest["n"].max() else rest  # type: ignore[operator]
    return rows.join(per.select(keys), on=keys, how="semi", nulls_equal=True)


def _axis(rows: pl.DataFrame) -> str:
    for axis in ("step", "epoch"):
        if rows[axis].count() >= 0.8 * rows.height and rows[axis].n_unique() >= _FEWEST:
            return axis
    return "record"


def _curves(rows: pl.DataFrame, culprits: frozenset[int]) -> tuple[list[Curve], Spread | None, list[str]]:
    import polars as pl

    ranks = sorted(rank for rank in rows["rank"].unique().to_list() if rank is not None)
    if len(ranks) < 2:
        label = f"rank {ranks[0]}" if ranks else ""
        return [_curve(rows, label, "all")], None, []
    finite = rows.filter(pl.col("value").is_finite())
    by_x = finite.group_by("x").agg(
        pl.col("value").min().alias("low"),
        pl.col("value").max().alias("high"),
        pl.col("value").median().alias("middle"),
        pl.col("rank").n_unique().alias("n"),
    ).sort("x")  # fmt: skip
    apart = by_x.filter(
        (pl.col("n") > 1)
        & ((pl.col("high") - pl.col("low")) > _ALIKE * pl.max_horizontal(pl.col("low").abs(), pl.col("high").abs()))
    )
    same_break = rows.filter(~pl.col("value").is_finite()).group_by("x").agg(pl.col("rank").n_unique())
    if apart.height <= 0.01 * by_x.height and (same_break["rank"].min() in (None, len(ranks))):
        first = rows.group_by("rank").len().sort(["len", "rank"], descending=[True, False])["rank"][0]
        alike = f"{plural(len(ranks), 'rank')} alike" if by_x.filter(pl.col("n") > 1).height else ""
        label = alike or f"rank {first}"
        return [_curve(rows.filter(pl.col("rank") == first), label, "all")], None, []
    if len(ranks) <= FEW:
        return _each(rows, ranks, culprits), None, []
    spread = _envelope(by_x) if by_x.height else None
    curves = [_points(by_x["x"].to_list(), by_x["middle"].to_list(), f"median of {len(ranks):,} ranks", "middle")]
    odd = _odd(finite, by_x, culprits)
    curves += _each(rows, odd, culprits)
    silent = sorted(set(culprits) - set(ranks))
    notes = [f"Rank {rank_ranges(silent, limit=SHORT)} recorded none."] if silent else []
    return curves, spread, notes


def _each(rows: pl.DataFrame, ranks: Sequence[int], culprits: frozenset[int]) -> list[Curve]:
    """A curve for each of the ranks. Culprits are shown as such where others are beside them to be told from."""
    import polars as pl

    blamed = culprits if not culprits.issuperset(ranks) else frozenset[int]()
    return [
        _curve(rows.filter(pl.col("rank") == rank), f"rank {rank}", "culprit" if rank in blamed else "rank")
        for rank in ranks
    ]


def _envelope(by_x: pl.DataFrame) -> Spread:
    """The spread, at most one step a pixel column."""
    import polars as pl

    from forensics.report.plots.decimate import COLUMNS

    low, high = by_x["x"].min(), by_x["x"].max()
    width = ((float(high) - float(low)) or 1.0) / COLUMNS  # type: ignore[arg-type]
    column = ((pl.col("x") - low) / width).floor()
    merged = (
        by_x.group_by(column.alias("column"))
        .agg(pl.col("x").first(), pl.col("low").min(), pl.col("high").max())
        .sort("column")
    )
    short = [[float(f"{v:.7g}") for v in merged[name].to_list()] for name in ("x", "low", "high")]
    return Spread(*map(tuple, short))


def _odd(finite: pl.DataFrame, by_x: pl.DataFrame, culprits: frozenset[int]) -> list[int]:
    """Culprits, and the ranks that lie furthest from the median, in units of the usual distance from it."""
    import polars as pl

    away = (
        finite.join(by_x.select("x", "middle"), on="x")
        .with_columns((pl.col("value") - pl.col("middle")).abs().alias("away"))
        .group_by("rank")
        .agg(pl.col("away").mean())
        .sort(["away", "rank"], descending=[True, False])
    )
    usual = away["away"].median()
    far = [rank for rank, distance in away.iter_rows() if distance > 4 * float(usual or 0.0)]  # type: ignore[arg-type]
    return sorted([*sorted(culprits & set(away["rank"].to_list()))[:ODD], *(r for r in far if r not in culprits)][:ODD])


def _curve(rows: pl.DataFrame, label: str, role: str) -> Curve:
    return _points(rows["x"].to_list(), rows["value"].to_list(), label, role)


def _points(xs: Sequence[float], ys: Sequence[float], label: str, role: str) -> Curve:
    short_xs, short_ys = decimated(xs, ys)
    return Curve(label, tuple(short_xs), tuple(short_ys), role)


def _scale(name: str, values: pl.Series) -> str:
    """Logarithmic where the values span too much for a line to be read.

    Zeros say nothing of the size of the others: a loss is 0.0 where a program hides that it is NaN.
    """
    sizes = values.filter(values != 0).abs()
    if not sizes.len():
        return "linear"
    low, high, middle = (float(v) for v in (values.min(), values.max(), sizes.median()))  # type: ignore[arg-type]
    if name == "loss_scale" and low > 0:
        return "log2" if high / low >= 4 else "linear"
    if name == "lr":
        return "linear"
    size = max(abs(low), abs(high))
    if size <= _WIDE * middle:
        return "linear"
    return "log" if low > 0 else "symlog"


def _onsets(rows: pl.DataFrame, axis: str, diagnosis: Diagnosis) -> tuple[Onset, ...]:
    """Where the roots set in: by their step on an axis of steps, else by the line that shows them."""
    found: dict[float, Onset] = {}
    low, high = float(rows["x"].min()), float(rows["x"].max())  # type: ignore[arg-type]
    for finding in diagnosis.of_role(Role.ROOT)[:_ONSETS]:
        at = _place(finding, rows, axis)
        if at is not None and low <= at[0] <= high + 0.1 * (high - low):
            found.setdefault(at[0], Onset(at[0], at[1]))
    return tuple(found.values())


def _place(finding: Finding, rows: pl.DataFrame, axis: str) -> tuple[float, str] | None:
    import polars as pl

    if axis == "step" and finding.step is not None and abs(finding.step) < 1 << 53:
        if finding.step_unit not in (None, "global step", "iteration", "step"):
            return None
        before = {"last_seen": "after ", "first_logged": "by "}.get(finding.step_is or "", "")
        return float(finding.step), f"{before}step {finding.step}"
    if axis == "epoch" and finding.epoch is not None and math.isfinite(finding.epoch):
        return finding.epoch, f"epoch {finding.epoch:g}"
    for evidence in finding.evidence[:1]:
        if evidence.line is not None:
            after = rows.filter((pl.col("source") == evidence.file) & (pl.col("line") >= evidence.line))
            before_it = rows.filter((pl.col("source") == evidence.file) & (pl.col("line") < evidence.line))
            chosen = after["x"].head(1) if after.height else before_it["x"].tail(1)
            if chosen.len():
                return float(chosen[0]), f"line {evidence.line}"
    return None
