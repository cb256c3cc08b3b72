"""Tables of metrics from columns of values, as logs and event files give them, and what detectors see in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import polars as pl

from forensics.engine.detectors import run_detectors
from forensics.model import METRICS_COLUMNS, Observation, schema
from forensics.signatures.schema import Signature, load_catalogue

Series = Mapping[str, Sequence[float | None]]


def logged(series: Series, *, first: int = 0, every: int = 1, rank: int | None = None) -> pl.DataFrame:
    """One record a step, a line each."""
    made = [
        {
            "source": f"logs/{rank or 0}.log", "line": i + 1, "rank": rank, "attempt": None,
            "step": first + i * every, "epoch": None, "time": None, "name": name, "value": float(value),
        }
        for i in range(max(map(len, series.values())))
        for name, values in series.items()
        if i < len(values) and (value := values[i]) is not None
    ]  # fmt: skip
    return pl.DataFrame(made, schema=schema(METRICS_COLUMNS))


def events(series: Series, *, first: int = 0, every: int = 1) -> pl.DataFrame:
    """The same as a TensorBoard file, which has no lines."""
    file = pl.lit("tb/events.out.tfevents.1.node.1.0")
    return logged(series, first=first, every=every).with_columns(source=file, line=pl.lit(None, dtype=pl.Int64))


def seen(metrics: pl.DataFrame) -> dict[str, Observation]:
    """Signature -> its observation."""
    return {o.signature: o for o in run_detectors(_catalogue(), metrics, ())}


@cache
def _catalogue() -> dict[str, Signature]:
    return load_catalogue()
