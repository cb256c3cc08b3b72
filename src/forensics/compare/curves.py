"""The metrics table as curves: for each metric and rank one value a step, whatever files and restarts it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forensics.model import Evidence

if TYPE_CHECKING:
    import polars as pl

# Positions and bookkeeping; `loss_part` is the name of several terms at once.
NOT_CURVES = frozenset(
    {"step", "epoch", "progress", "total_steps", "total_timesteps", "batch_size", "loss_part", "overflow", "data_time"}
)
RANKS = 32  # ranks whose curves are compared one by one; of more a sample that is spread evenly

Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric of one rank as one origin tells it: a file, or those that restarts began. `positions` grow."""

    source: str  # the file of the first value
    family: str  # "tensorboard" or "text": numbers of one family have the same number of digits
    unit: str  # "step" or "record"
    positions: tuple[int, ...]
    values: tuple[float, ...]
    lines: tuple[int | None, ...]
    sources: tuple[str, ...] = ()  # the file of each value, where there are several

    def evidence(self, metric: str, at: int) -> Evidence:
        """The record at index `at` as evidence."""
        text = f"{self.unit} {self.positions[at]}: {metric} {self.values[at]:.9g}"
        return Evidence(self.sources[at] if self.sources else self.source, self.lines[at], None, text)


def curves(metrics: pl.DataFrame) -> dict[Key, tuple[Curve, ...]]:
    """Every curve of a run, by metric and rank; several where several origins tell the same.

    metrics: METRICS_COLUMNS. Where a step is recorded more than once (a restart repeats it), the last attempt's value
    counts, and within an attempt the last one written. Rows without a step are numbered in their order.
    """
    import polars as pl

    wanted = metrics.filter(~pl.col("name").is_in(sorted(NOT_CURVES)) & ~pl.col("name").str.starts_with("probe/"))
    wanted = wanted.join(_origins(wanted), on=["rank", "source"], how="left", nulls_equal=True, maintain_order="left")
    wanted = wanted.sort("place", maintain_order=True).with_row_index("order")
    found: dict[Key, list[Curve]] = {}
    for (name, rank, _), rows in wanted.group_by("name", "rank", "origin", maintain_order=True):
        stepped = rows.filter(pl.col("step").is_not_null())
        if stepped.height * 2 >= rows.height:
            last = (
                stepped.with_columns(attempt=pl.col("attempt").fill_null(0))
                .sort("attempt", "order")
                .unique("step", keep="last", maintain_order=True)
                .sort("step")
            )
            unit, positions = "step", last["step"].to_list()
        else:
            last = rows
            unit, positions = "record", list(range(1, rows.height + 1))
        family = "tensorboard" if last["line"].null_count() == last.height else "text"
        sources = tuple(last["source"].to_list())
        curve = Curve(
            sources[0],
            family,
            unit,
            tuple(positions),
            tuple(last["value"].to_list()),
            tuple(last["line"].to_list()),
            sources if len(set(sources)) > 1 else (),
        )
        found.setdefault((str(name), rank if rank is None else int(rank)), []).append(curve)
    return {key: tuple(all_of_it) for key, all_of_it in found.items()}


def _origins(metrics: pl.DataFrame) -> pl.DataFrame:
    """rank, source -> origin, and the place of the source in the order of all.

    Files of one rank that differ in their numbers alone and are of different attempts go on from each other
    (`attempt_0/3/stdout.log`, `attempt_1/3/stdout.log`), and so do event files of one folder, which TensorBoard takes
    for one run and in the order of their names.
    """
    import polars as pl

    files = metrics.group_by("rank", "source", maintain_order=True).agg(
        pl.col("attempt").unique().alias("attempts"), pl.col("line").is_null().all().alias("binary")
    )
    taken: dict[tuple[int | None, str], set[int | None]] = {}
    origins: list[tuple[int | None, str, str, tuple[bool, str]]] = []
    for rank, source, attempts, binary in files.iter_rows():
        origin = source
        if binary:
            origin = source.rpartition("/")[0] + "/"
        elif None not in attempts:
            form = re.sub(r"\d+", "#", source)
            known = taken.setdefault((rank, form), set())
            if known.isdisjoint(attempts):
                known.update(attempts)
                origin = form
        origins.append((rank, source, origin, (binary, source if binary else "")))
    order = sorted(range(len(origins)), key=lambda n: origins[n][3])
    place = {n: at for at, n in enumerate(order)}
    return pl.DataFrame(
        [(rank, source, origin, place[n]) for n, (rank, source, origin, _) in enumerate(origins)],
        schema={"rank": pl.Int32, "source": pl.String, "origin": pl.String, "place": pl.Int64},
        orient="row",
    )


def matched(runs: list[Mapping[Key, tuple[Curve, ...]]]) -> Iterator[tuple[str, int | None, list[Curve]]]:
    """(metric, rank, one curve a run) for whatever all runs tell, the same rank against itself.

    Where they have no rank in common, their lowest ones are compared, and rank is None.
    """
    for name in sorted({name for run in runs for name, _ in run}):
        ranks = [{rank for metric, rank in run if metric == name} for run in runs]
        if not all(ranks):
            continue
        common = sorted(set.intersection(*ranks), key=lambda r: -1 if r is None else r)
        chosen: list[list[int | None]] = [[rank] * len(runs) for rank in common[:: len(common) // RANKS + 1]]
        if not common:
            chosen = [[min(r, key=lambda rank: -1 if rank is None else rank) for r in ranks]]
        for own in chosen:
            curves_of = [run[name, rank] for run, rank in zip(runs, own, strict=True)]
            together = _together(curves_of)
            if together:
                yield name, own[0] if common else None, together


def _together(choices: list[tuple[Curve, ...]]) -> list[Curve]:
    """One curve a run, of the family with which they have the most positions in common."""

    def longest(run: tuple[Curve, ...], family: str | None, unit: str) -> Curve | None:
        fitting = [c for c in run if family in (None, c.family) and c.unit == unit]
        return max(fitting, key=lambda c: len(c.positions), default=None)

    best: tuple[int, list[Curve]] = (0, [])
    for unit in ("step", "record"):
        for family in ("tensorboard", "text", None):
            picked = [longest(run, family, unit) for run in choices]
            whole = [c for c in picked if c is not None]
            if len(whole) != len(choices):
                continue
            shared = len(set.intersection(*(set(c.positions) for c in whole)))
            if shared > best[0]:
                best = (shared, whole)
        if best[1]:
            break
    return best[1]
