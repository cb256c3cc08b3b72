"""Histograms of gradients: a parameter whose gradient is exactly zero in all of them, while others' are not.

TensorBoard's histograms become series of their minimum, maximum and other numbers (parsers/tensorboard/histograms.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import names_where
from forensics.engine.detectors.series import Sign, Stream, merge, streams
from forensics.model import Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

_GRADIENTS = lazy(r"(?i)(?:^|[/_.])grads?(?:ients?)?(?:$|[/_.])")
_LOW, _HIGH = "/min", "/max"
_NAMED = 4  # parameters that a note names


def gradients_always_zero(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, records: int = 8
) -> tuple[Observation, ...]:
    """Some parameters' gradients are exactly 0 in every histogram of the run, and those of most others are not.

    records: the fewest histograms of a parameter to judge by. A loss that does not depend on a parameter gives it no
    gradient at all, and no histogram; a zero is one lost on the way (a dead layer, a mask, an underflow in half
    precision), or of a part that nothing of the data reaches (an expert that is never chosen). Where as many are zero
    as are not, the gradients may as well have been read after some of them had been cleared.
    """
    highs = names_where(metrics, lambda n: n.endswith(_HIGH) and _GRADIENTS.search(n.removesuffix(_HIGH)))
    wanted = [name.removesuffix(_HIGH) + end for name in highs for end in (_LOW, _HIGH)]
    found = streams(metrics, wanted) if wanted else ()
    signs = [sign for stream in found if (sign := _zero(stream, highs, records)) is not None]
    return merge(signs, found, ()) if signs else ()


def _zero(stream: Stream, highs: Sequence[str], records: int) -> Sign | None:
    zero: list[tuple[str, list[int]]] = []
    moving = 0
    for high in highs:
        name = high.removesuffix(_HIGH)
        at, most = stream.curve(high)
        _, least = stream.curve(name + _LOW)
        if len(most) < records or len(least) != len(most):
            continue
        if any(most) or any(least):
            moving += 1
        else:
            zero.append((name, at))
    if not zero or len(zero) >= moving:
        return None
    named = ", ".join(name for name, _ in zero[:_NAMED]) + (
        f" and {len(zero) - _NAMED} more" if len(zero) > _NAMED else ""
    )
    name, at = zero[0]
    others = "parameter is" if moving == 1 else "parameters are"
    note = f"{named}: exactly 0 in all {len(at)} histograms, while those of {moving} other {others} not"
    shown = tuple(stream.evidence(i, name + _LOW, name + _HIGH) for i in dict.fromkeys((at[0], at[-1])))
    return Sign(stream, at[0], shown, note, name + _HIGH, captures={"module": name})
