"""Small metric tables as rows of Python objects.

Most runs leave some hundred rows. There a query of polars costs its planning, a fifth of a millisecond, and a loop over
tuples a tenth of that; from some thousand rows on it is the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import polars as pl

FEW = 4096  # rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[T]):
    """A table, or a sequence of observations, as a key of a cache: equal only to itself."""

    value: T

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


class Row(NamedTuple):
    """One row of model.METRICS_COLUMNS, in their order."""

    source: str
    line: int | None
    rank: int | None
    attempt: int | None
    step: int | None
    epoch: float | None
    time: float | None
    name: str
    value: float | None


def are_few(metrics: pl.DataFrame) -> bool:
    """Whether a table is asked by rows, or by a column or two as objects."""
    return metrics.height <= FEW


def few(metrics: pl.DataFrame) -> Sequence[Row] | None:
    """The rows of a METRICS_COLUMNS table of at most FEW; None for a larger one."""
    return _remembered(Same(metrics)) if are_few(metrics) else None


@lru_cache(maxsize=1)
def _remembered(same: Same[pl.DataFrame]) -> Sequence[Row]:
    """Those of the last small table; half a dozen questions are asked of it one after the other."""
    table = same.value
    if tuple(table.columns) != Row._fields:
        table = table.select(Row._fields)
    return tuple(map(Row._make, table.rows()))


def distinct(column: pl.Series) -> set[Any]:
    """The values of a column; without floats, of which a set tells two that are no number apart."""
    return set((column if len(column) <= FEW else column.unique()).to_list())


def names_of(rows: Sequence[Row]) -> Mapping[str, frozenset[str]]:
    """Source -> the names of its metrics."""
    return _remembered_names(Same(rows))


@lru_cache(maxsize=1)
def _remembered_names(same: Same[Sequence[Row]]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for row in same.value:
        found.setdefault(row.source, set()).add(row.name)
    return {source: frozenset(names) for source, names in found.items()}
