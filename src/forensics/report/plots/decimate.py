"""Fewer points for the same picture: of each pixel column the least and the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COLUMNS = 360  # pixel columns of a panel; at most twice as many points a curve
_MAX_SEGMENTS = 40  # a counter that starts anew more often than that is drawn as it comes


def decimated(xs: Sequence[float], ys: Sequence[float], columns: int = COLUMNS) -> tuple[list[float], list[float]]:
    """The curve with at most two points a column, in written order, as floats of six digits.

    Points that are not finite are gaps: one NaN stands for each run of them. Where x goes back (a resumed run, a second
    epoch) the curve breaks as well.
    """
    import numpy as np

    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    known = np.isfinite(x)
    x, y = x[known], y[known]
    if not len(x):
        return [], []
    low, span = float(x.min()), float(x.max() - x.min()) or 1.0
    breaks = np.flatnonzero(np.diff(x) < 0) + 1
    if len(breaks) > _MAX_SEGMENTS:
        order = np.argsort(x, kind="stable")
        x, y, breaks = x[order], y[order], breaks[:0]
    out_x: list[float] = []
    out_y: list[float] = []
    for part_x, part_y in zip(np.split(x, breaks), np.split(y, breaks), strict=True):
        if out_x:
            out_x.append(out_x[-1])
            out_y.append(float("nan"))
        column = np.minimum(((part_x - low) / span * columns).astype(np.int64), columns - 1)
        for chosen in _chosen(column, part_y):
            out_x.append(_short(part_x[chosen]))
            out_y.append(_short(part_y[chosen]))
    return out_x, out_y


def _chosen(column: Any, y: Floats) -> list[int]:
    """Indices to keep: of each column the least and the greatest finite value, or the first where none is finite."""
    import numpy as np

    edges = np.flatnonzero(np.diff(column)) + 1
    starts = [0, *edges.tolist()]
    ends = [*edges.tolist(), len(column)]
    kept: list[int] = []
    gap = False
    for start, end in zip(starts, ends, strict=True):
        finite = np.flatnonzero(np.isfinite(y[start:end]))
        if not len(finite):
            if not gap:
                kept.append(start)
            gap = True
            continue
        gap = False
        values = y[start:end][finite]
        pair = {start + int(finite[values.argmin()]), start + int(finite[values.argmax()])}
        kept += sorted(pair)
    return kept


def _short(value: float) -> float:
    return float(f"{value:.7g}")


def thinned(xs: Sequence[float], columns: int = COLUMNS) -> list[float]:
    """Of marks on an axis at most one a column, the first."""
    if not xs:
        return []
    low, span = min(xs), (max(xs) - min(xs)) or 1.0
    kept: dict[int, float] = {}
    for x in xs:
        kept.setdefault(int((x - low) / span * columns), x)
    return sorted(kept.values())
