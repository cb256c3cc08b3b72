"""Names of the metrics of a table: instruments write one series a module, whose names are not known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.few import Same, few

if TYPE_CHECKING:
    import polars as pl

# A capture of a sign that all ranks show at one step: whichever of them notices it first, it is no more that one's.
TOGETHER = "ranks_at_once"


@lru_cache(maxsize=1)
def remembered_names(same: Same[pl.DataFrame]) -> tuple[str, ...]:
    """Every name in a table, sorted; remembered until `cache_clear`."""
    if (rows := few(same.value)) is not None:
        return tuple(sorted({row.name for row in rows}))
    return tuple(same.value["name"].unique().sort().to_list())


def names_where(metrics: pl.DataFrame, wanted: Callable[[str], object]) -> list[str]:
    """The names in a table that a test holds true for, sorted."""
    return [name for name in remembered_names(Same(metrics)) if wanted(name)]


def has(metrics: pl.DataFrame, name: str) -> bool:
    """Whether a table has rows of this name."""
    return name in remembered_names(Same(metrics))


def how_many(
    metrics: pl.DataFrame,
    name: str,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> int:
    """How many values of a name lie within bounds: `above` < value, `least` <= value <= `most`. NaN lies in none."""
    import polars as pl

    if not has(metrics, name):
        return 0
    if (rows := few(metrics)) is not None:
        values = (row.value for row in rows if row.name == name)
        return sum(above < v <= most and v >= least for v in values if v is not None)
    value = pl.col("value")
    within = value.is_not_nan() & (value > above) & (value >= least) & (value <= most)
    return metrics.filter((pl.col("name") == name) & within).height


def recorded(metrics: pl.DataFrame) -> bool:
    """Whether `forensics.probe` wrote anything at all."""
    return any(name.startswith("probe/") for name in remembered_names(Same(metrics)))


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that are given and finite."""
    return [v for v in values if v is not None and math.isfinite(v)]


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the first and the last quarter."""
    quarter = max(1, len(values) // 4)
    return median(values[:quarter]), median(values[-quarter:])
