"""Steps that wait for their data more than they train."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_DATA, _TIME = "data_time", "step_time"


def loader_starves(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    share: float = 0.5,
    least: float = 0.1,
    records: int = 20,
) -> tuple[Observation, ...]:
    """Half of a step or more is a wait for data, in the later half of a record that logs both times.

    share: of the step (T4 has 0.3, which many runs have that nobody minds). least: seconds of that wait; a toy model is
        done before any loader. records: the fewest in that half, behind the workers' start.
    """
    if not has(metrics, _DATA) or not has(metrics, _TIME):
        return ()
    found = [s for s in streams(metrics, (_DATA, _TIME, "loss")) if {_DATA, _TIME} <= s.columns.keys()]
    signs = [sign for s in found if (sign := _starves(s, share, least, records)) is not None]
    # Ranks wait for the slowest one: where most of them have their data, that one's loader is slow, and not all.
    return merge(signs, found, ()) if 2 * len(signs) > len(found) else ()


def _starves(stream: Stream, share: float, least: float, records: int) -> Sign | None:
    told = [(i, data, max(whole, data)) for i, data, whole in stream.pairs(_DATA, _TIME) if data >= 0 and whole > 0]
    later = told[len(told) // 2 :]
    if len(later) < records:
        return None
    waits, steps = [data for _, data, _ in later], [whole for _, _, whole in later]
    parts = [data / whole for _, data, whole in later]
    # The mean, since with n workers only each n-th step may wait; the median, since one pause makes a mean.
    if min(mean(waits), median(waits)) < least or min(median(parts), sum(waits) / sum(steps)) < share:
        return None
    at = later[0][0]
    note = (
        f"a step takes {number(median(steps))} s, and {number(median(waits))} s of it are a wait for data (medians,"
        f" from {stream.where(at)} to {stream.where(later[-1][0])})"
    )
    shown = (at, later[-1][0])
    return Sign(stream, at, tuple(stream.evidence(i, _DATA, _TIME, "loss") for i in shown), note, _DATA)
