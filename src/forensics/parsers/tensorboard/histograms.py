"""Histogram summaries, old (`HistogramProto`) and new (rows of left edge, right edge, count), as a few numbers.

`HistogramProto` is that of TensorFlow's `histogram.proto`; the tensor is that of TensorBoard's histogram plugin.
A bucket holds its left edge and not its right one, in both (`upper_bound` in TensorFlow's `histogram.cc`, numpy's
`histogram`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forensics.parsers.tensorboard.tensors import doubles
from forensics.parsers.tensorboard.wire import BYTES, DOUBLE, FIXED64, fields

# A bucket around zero counts zeros only if it is this narrow against the largest value. Buckets of TensorFlow 1 and
# PyTorch end at 1e-12 there; the equal ones of TensorFlow 2 are a thirtieth of the range and tell nothing.
NARROW = 1e-6


@dataclass(frozen=True, slots=True)
class Histogram:
    """What a histogram says about the values in it; None where it does not say it."""

    minimum: float  # NaN or Inf where a value was
    maximum: float
    count: float  # of values; more than 0
    mean: float | None
    std: float | None
    zeros: float | None  # share of exact zeros, 0..1
    nonfinite: float | None  # share of NaN and Inf, 0..1

    def numbers(self) -> Iterator[tuple[str, float]]:
        """(end of the name, value) of what is known: min, max, mean, std, zeros, nonfinite."""
        yield "min", self.minimum
        yield "max", self.maximum
        for name in ("mean", "std", "zeros", "nonfinite"):
            value = getattr(self, name)
            if value is not None:
                yield name, value


def from_proto(data: bytes, start: int, stop: int) -> Histogram | None:
    """A HistogramProto: min 1, max 2, num 3, sum 4, sum_squares 5, bucket_limit 6, bucket 7. None for an empty one.

    PyTorch counts only finite values in the buckets, and all of them in `num`. Raises Malformed.
    """
    named = dict.fromkeys(range(1, 6), 0.0)
    limits: list[float] = []
    counts: list[float] = []
    for number, wire, _, first, last in fields(data, start, stop):
        if number in named and wire == FIXED64:
            named[number] = DOUBLE.unpack_from(data, first)[0]
        elif number in (6, 7) and wire in (BYTES, FIXED64):
            (limits if number == 6 else counts).extend(doubles(data[first:last]))
    minimum, maximum, num, total, squares = named.values()
    if not num > 0 or not math.isfinite(num):
        return None
    if len(limits) != len(counts):
        limits, counts = [], []
    finite = all(map(math.isfinite, (minimum, maximum, total)))
    nonfinite: float | None = 0.0 if finite else None
    if not finite and counts:
        nonfinite = min(max(num - sum(counts), 1.0), num) / num
    mean = total / num if math.isfinite(total) else None
    std = None
    if mean is not None and math.isfinite(squares):
        std = math.sqrt(max(squares / num - mean * mean, 0.0))
    edges = [minimum, *limits]
    zeros = _zeros(list(zip(edges, limits, counts, strict=False)), minimum, maximum, num)
    return Histogram(minimum, maximum, num, mean, std, zeros, nonfinite)


def from_rows(values: Sequence[float]) -> Histogram | None:
    """The tensor [k, 3] of the histogram plugin, flat; None for an empty one.

    Mean and deviation take each value for the middle of its bucket.
    """
    rows = [(values[i], values[i + 1], values[i + 2]) for i in range(0, len(values) - 2, 3)]
    num = sum(count for _, _, count in rows)
    edges = [edge for left, right, _ in rows for edge in (left, right)]
    if not edges or not math.isfinite(num) or any(count < 0 for _, _, count in rows):
        return None
    if not all(map(math.isfinite, edges)):
        odd = next(edge for edge in edges if not math.isfinite(edge))
        return Histogram(odd, odd, num or 1.0, None, None, None, None)
    if not num:
        return None
    minimum, maximum = min(edges), max(edges)
    mean = sum((left + right) / 2 * count for left, right, count in rows) / num
    away = [((left + right) / 2 - mean, count) for left, right, count in rows]
    std = math.sqrt(sum(d * d * count for d, count in away) / num)
    # All values equal: one bucket of width 1 around the value, in TensorBoard up to 2.3.
    if (full := [row for row in rows if row[2] > 0]) and len(full) == 1 and full[0][1] - full[0][0] in (0.0, 1.0):
        minimum = maximum = (full[0][0] + full[0][1]) / 2
    return Histogram(minimum, maximum, num, mean, std, _zeros(rows, minimum, maximum, num), 0.0)


def _zeros(rows: Sequence[tuple[float, float, float]], minimum: float, maximum: float, num: float) -> float | None:
    """The share of zeros, by rows of (left edge, right edge, count); None where zeros share a bucket with others."""
    if math.isnan(minimum) or math.isnan(maximum):
        return None
    if minimum == maximum == 0.0:
        return 1.0
    if not minimum <= 0.0 <= maximum:
        return 0.0
    largest = max(abs(minimum), abs(maximum))
    for left, right, count in rows:
        if left <= 0.0 < right or (left == right == 0.0 and count > 0):
            return min(max(count / num, 0.0), 1.0) if right - left <= NARROW * largest else None
    return None
