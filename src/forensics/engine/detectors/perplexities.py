"""A perplexity on held-out data against the loss that is logged with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import has
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation

if TYPE_CHECKING:
    import polars as pl

_CAPPED = 20.0  # Megatron-LM and those after it print exp(min(20, loss))
_BESIDE = 12  # lines between a loss and a perplexity of one block of results


def perplexity_differs(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, close: float = 0.01, apart: float = 2.0
) -> tuple[Observation, ...]:
    """The perplexity of evaluations is neither e nor 2 to the power of the loss that is logged with it (L7).

    close: relative difference that is none, beside what rounding explains. apart: logarithms that differ by more than
        this factor are of another quantity (a loss that is a sum) and not of other tokens. All pairs of the stream must
        differ. Silent where the loss has parts: label smoothing and auxiliary losses are not in a perplexity.
    """
    names = [name for name in ("eval_perplexity", "perplexity") if has(metrics, name)]
    if not names or not has(metrics, "eval_loss"):
        return ()
    found = streams(metrics, ("loss", "eval_loss", "loss_part", *names))
    signs = [sign for stream in found if (sign := _sign(stream, names, close, apart)) is not None]
    return merge(signs, found, ()) if signs else ()


def _sign(stream: Stream, names: Sequence[str], close: float, apart: float) -> Sign | None:
    if "loss_part" in stream.columns:
        return None
    pairs = list(_pairs(stream, names))
    if not pairs or not all(_differs(loss, value, close, apart) for _, _, _, loss, value in pairs):
        return None
    at, said, name, loss, value = pairs[-1]
    note = (
        f"the perplexity at {stream.where(said)} is {number(value)}, and exp({number(loss)}), of the evaluation's loss,"
        f" is {number(math.exp(loss))}"
    )
    shown = tuple(dict.fromkeys((stream.evidence(said, name, "eval_loss"), stream.evidence(at, "eval_loss", name))))
    return Sign(stream, said, shown, note, name)


def _pairs(stream: Stream, names: Sequence[str]) -> Iterator[tuple[int, int, str, float, float]]:
    """(record of the loss, of the perplexity, its name, loss, perplexity) of each evaluation that gives both.

    A perplexity that is not said to be of held-out data counts in a record without a training loss. In blocks of
    results, where each has a line of its own, it follows the loss a few lines later.
    """
    losses, trained = stream.column("eval_loss"), stream.column("loss")
    last: int | None = None  # the record before, if it has a loss and no perplexity
    for i, loss in enumerate(losses):
        name = next((n for n in names if stream.column(n)[i] is not None), None)
        if name == "perplexity" and trained[i] is not None:
            name = None
        at = i if loss is not None else last if last is not None and _block(stream, last, i) else None
        value = stream.column(name)[i] if name is not None else None
        held_out = losses[at] if at is not None else None
        if at is not None and name is not None and value is not None and held_out is not None:
            yield at, i, name, held_out, value
        last = i if loss is not None and value is None else None


def _block(stream: Stream, first: int, second: int) -> bool:
    """Whether two records that follow each other stand in one block of results."""
    a, b = stream.lines[first], stream.lines[second]
    return a is not None and b is not None and 0 < b - a <= _BESIDE and stream.steps[first] == stream.steps[second]


def _differs(loss: float, perplexity: float, close: float, apart: float) -> bool:
    if not (math.isfinite(loss) and math.isfinite(perplexity) and 0 < loss < _CAPPED and perplexity > 1):
        return False
    said = math.log(perplexity)
    slack = close + _half_digit(loss) + _half_digit(perplexity) / perplexity
    bits = loss * math.log(2)
    return abs(said - loss) > slack and abs(said - bits) > slack and loss / apart < said < loss * apart


def _half_digit(value: float) -> float:
    """Half of the last digit with which a number is printed."""
    text = repr(value)
    decimals = len(text.partition(".")[2]) if "e" not in text and not text.endswith(".0") else 0
    return 0.5 * 10.0**-decimals
