"""A loss that jumps far above its level for a few records and returns.

One series alone has to be plain: hard batches and losses of few samples jump as well. A gradient norm that jumps with
the loss bears out what the loss alone would not, for a batch that is merely hard is over with the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.detectors.loss_shape import loss_courses, rolling, spread_about
from forensics.engine.detectors.series import Sign, Stream, merge, number
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_SIGMA = 1.4826  # standard deviations of a normal distribution in one MAD
_LEVEL = 50  # records whose median is the level (P12: med50)
_OUTLIERS = 200  # records before a spike that show how far single batches lie off


def loss_spike(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    factor: float = 5.0,
    noise: float = 12.0,
    points: int = 3,
    within: int = 10,
    before: int = 20,
    above: float = 0.3,
    deviations: float = 7.0,
    norm: float = 10.0,
    raised: float = 3.0,
) -> tuple[Observation, ...]:
    """The loss jumps far above its level for a few records and returns.

    factor, noise: how far, in multiples of the level and in MADs (P12 gives 1.3 and 6 for a mark on a plot; what is
        told to people without being asked for has to be plainer).
    points, within: records above the band, on end but for one, in a spike of at most `within` (note of P12: several
        points, against false spikes); a single one is enough where it is 20 times the level and the gradient norm
        jumps tenfold with it.
    before: records of settled level that must precede it. Twice as high as any of the 200 records before: a curve that
        has outliers now and then has no spikes.
    above, deviations: how far where the gradient norm bears it out, as part of the level (P12) and in standard
        deviations (the "spike score" of OLMo 2, arXiv:2501.00656, counts what is seven off). A language model has no
        room for `factor`: its loss ends at the logarithm of its vocabulary.
    norm, raised: that norm, in multiples of its own level, at its peak and in `points` records (P12: 3).
    """
    parts = loss_courses(metrics)
    signs = [
        sign
        for part in parts
        if (
            sign := _spiked(part, factor, noise, points, within, before)
            or _borne_out(part, points, within, before, above, deviations, norm, raised)
        )
        is not None
    ]
    return merge(signs, parts)


class _Spike(NamedTuple):
    """Positions in the curve of the first record, the highest and the first that is back; the level before."""

    start: int
    top: int
    back: int
    level: float


def _sign(part: Stream, at: Sequence[int], values: Sequence[float], spike: _Spike, with_it: str = "") -> Sign:
    start, top, back, level = spike
    shown = dict.fromkeys((at[start], at[start - 1], at[top], at[back]))
    note = (
        f"the loss jumps from about {number(level)} to {number(values[top])} at {part.where(at[start])}{with_it}"
        f" and is back at {part.where(at[back])}"
    )
    names = ("loss", "grad_norm", "lr")
    return Sign(part, at[start], tuple(part.evidence(i, *names) for i in shown), note, "loss")


def _hidden(loss: float, norm: float | None) -> bool:
    """Whether a loss of 0 is a NaN that the logger hides: the gradient norm beside it is none either."""
    return loss == 0 and norm is not None and not math.isfinite(norm)


def _spiked(part: Stream, factor: float, noise: float, points: int, within: int, before: int) -> Sign | None:
    at, values = part.curve("loss")
    if len(values) < before + points or any(not math.isfinite(v) for v in values):
        return None
    level = rolling(values, _LEVEL)
    grad = part.column("grad_norm")
    for k in range(before, len(values)):
        usual = level[k - 1]
        if usual <= 0 or values[k] < max(factor * usual, usual + 0.5):
            continue
        past = values[max(0, k - _LEVEL) : k]
        if values[k] < usual + noise * spread_about(past, [usual] * len(past)):
            continue
        norms = [g for i in at[max(0, k - _LEVEL) : k] if (g := grad[i]) is not None and math.isfinite(g)]
        jump = grad[at[k]]
        sharp = jump is not None and bool(norms) and jump > 10 * median(norms)
        # Where the gradient norm jumps as well, the records behind the first are on their way back from there.
        band = (2.0 if sharp else max(factor, 2.0)) * usual
        above = [j for j in range(k, min(len(values), k + within)) if values[j] > band]
        if values[k] < 2 * max(values[max(0, k - _OUTLIERS) : k]):
            continue
        if sum(j <= k + points for j in above) < points and not (values[k] >= 20 * usual and sharp):
            continue
        after = range(above[-1] + 1, len(values))
        back = next((j for j in after if values[j] < 2 * usual and not _hidden(values[j], grad[at[j]])), None)
        if back is not None:
            return _sign(part, at, values, _Spike(k, max(above, key=lambda j: values[j]), back, usual))
    return None


def _borne_out(
    part: Stream,
    points: int,
    within: int,
    before: int,
    above: float,
    deviations: float,
    norm: float,
    raised: float,
) -> Sign | None:
    """A spike that loss and gradient norm have in common, each far above its own level in records on end.

    It must be twice as far off as any of the records before was off its level: data that have hard batches, or several
    on end, show that all along.
    """
    given = [
        (i, v, g)
        for i, (v, g) in enumerate(zip(part.column("loss"), part.by_step("grad_norm"), strict=True))
        if v is not None and g is not None
    ]
    at, values, norms = [i for i, _, _ in given], [v for _, v, _ in given], [g for _, _, g in given]
    if len(given) < before + points or not all(map(math.isfinite, values)):
        return None
    # A norm that overflows is as high as any.
    norms = [g if math.isfinite(g) else math.inf for g in norms]
    level, usual_norm = rolling(values, _LEVEL), rolling(norms, _LEVEL)
    excess = [0.0, *(v - m for v, m in zip(values[1:], level, strict=False))]
    for k in range(max(before, 1), len(values) - points):
        usual, strength = level[k - 1], usual_norm[k - 1]
        if usual <= 0 or not 0 < strength < math.inf or excess[k] < above * usual:
            continue
        past = values[max(0, k - _LEVEL) : k]
        band = usual + max(above * usual, deviations * _SIGMA * spread_about(past, rolling(past, 10)))
        spike = [j for j in range(k, min(len(values), k + within)) if values[j] > band]
        if sum(j <= k + points for j in spike) < points:
            continue
        strong = norms[max(0, k - points) : spike[-1] + 1]
        if max(strong) < norm * strength or sum(g >= raised * strength for g in strong) < points:
            continue
        top = max(spike, key=lambda j: values[j])
        if values[top] - usual < 2 * max(excess[max(0, k - _OUTLIERS) : k]):
            continue
        shown = [math.inf if _hidden(v, g) else v for v, g in zip(values, norms, strict=True)]
        after = range(top + 1, len(values))
        back = next((j for j in after if shown[j] < math.inf and median(shown[j : j + points]) <= band), None)
        if back is None:
            continue
        peak = max(strong)
        said = f", with a gradient norm of {number(peak)} where {number(strength)} is usual,"
        return _sign(part, at, values, _Spike(k, top, back, usual), said)
    return None
