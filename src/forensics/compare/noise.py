"""How much a curve varies by itself, so that a gap between two can be told from it.

All estimates are medians (1.4826 times the median absolute deviation is the standard deviation of Gaussian noise):
spikes, pauses for evaluation and the first steps do not count more than any other record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

WINDOW = 33  # records: long against batch noise and its echo in averages, short against the descent of a loss
TRAIL = 64  # records of the gap before a step that say how far the two have been apart anyway
FEWEST = 8  # records from which a spread is estimated
MAD = 1.4826  # median absolute deviation to standard deviation, for Gaussian noise
# Logs print three to six digits, and TensorBoard keeps seven: a smaller relative gap is rounding or reduction order.
ROUNDING = 1e-3


def _rolling(values: Values, window: int) -> Any:
    """A view with the `window` values around each (centred; the ends are repeated in mirror image)."""
    import numpy as np

    half = window // 2
    padded = np.pad(values, half, mode="reflect" if len(values) > half else "edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)


def own(values: Values) -> Values:
    """The noise of a curve around its own course, at each record: a robust local standard deviation.

    The course is a rolling median; what it leaves is measured in windows again. values: finite.
    """
    import numpy as np

    if len(values) < 3:
        return np.zeros_like(values)
    window = min(WINDOW, len(values) // 2 * 2 + 1)
    course = np.median(_rolling(values, window), axis=1)
    left = np.abs(values - course)
    return np.asarray(MAD * np.median(_rolling(left, window), axis=1))


def before(values: Values) -> Values:
    """For each record the noise that the curve had before it, which what happens later cannot raise.

    The first records, before which there is nothing to measure, get that of the first window.
    """
    import numpy as np

    n = len(values)
    if n < 3:
        return np.zeros_like(values)
    window = min(WINDOW, n)
    left = np.abs(values - np.median(_rolling(values, min(WINDOW, n // 2 * 2 + 1)), axis=1))
    trailing = np.lib.stride_tricks.sliding_window_view(left, window)
    said = MAD * np.median(trailing, axis=1)
    return np.concatenate([np.full(window, said[0]), said])[:n]


def apart_anyway(gap: Values) -> Values:
    """For each record how far apart the curves have been before it, as a standard deviation; 0 where too few tell."""
    import numpy as np

    n = len(gap)
    size = np.abs(gap)
    result = np.zeros(n)
    for i in range(FEWEST, min(TRAIL, n)):
        result[i] = MAD * np.median(size[:i])
    if n > TRAIL:
        result[TRAIL:] = MAD * np.median(np.lib.stride_tricks.sliding_window_view(size, TRAIL), axis=1)[: n - TRAIL]
    return result


def spread(goods: Values) -> Values:
    """The spread among repeats of one run, at each record: pooled over the runs and a window of records.

    goods: runs × records, at least two runs.
    """
    import numpy as np

    runs = len(goods)
    left = np.abs(goods - goods.mean(axis=0)) * np.sqrt(runs / (runs - 1))
    window = min(WINDOW, goods.shape[1] // 2 * 2 + 1)
    if window < 3:
        return np.asarray(left.max(axis=0))
    pooled = np.concatenate([_rolling(row, window) for row in left], axis=1)
    # |g - mean| of two runs has one degree of freedom and the median of a half-normal like any other.
    return np.asarray(MAD * np.median(pooled, axis=1))
