"""Which module was the first whose output or gradient is not finite, as `forensics.probe` records it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, names_where
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl


def nonfinite_module(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, place: str
) -> tuple[Observation, ...]:
    """The first module whose output or gradient was not finite, where the loss did not come back (P9).

    place: "output", "gradient" or "input" (of the model). What ranks tell is ordered by step: only the earliest counts,
    for the gradient all-reduce carries it to all of them one step later.
    """
    names = names_where(metrics, lambda name: name.startswith(tags.NONFINITE))
    if not names:
        return ()
    found = streams(metrics, (*names, "loss"))
    signs = [
        sign
        for stream in found
        for name in names
        if name in stream.columns and (sign := _nonfinite(stream, name)) is not None
    ]
    if not signs:
        return ()
    first: dict[int | None, float] = {}
    for sign in signs:
        attempt = sign.stream.attempt
        first[attempt] = min(first.get(attempt, math.inf), _order(sign))
    earliest = [s for s in signs if _order(s) == first[s.stream.attempt]]
    chosen = [s for s in earliest if s.captures["place"] == place]
    return merge(chosen, found) if chosen else ()


def _order(sign: Sign) -> float:
    return sign.step if sign.step is not None else math.inf


def _nonfinite(stream: Stream, name: str) -> Sign | None:
    marked = stream.column(name)
    at = next((i for i, v in enumerate(marked) if v), None)
    loss = stream.column("loss")
    # A step that a loss scaler or the loop itself left out is no failure: the loss comes back.
    if at is None or finite(loss[at + 1 :]):
        return None
    place, _, module = name.removeprefix(tags.NONFINITE).partition("/")
    skipped = round(marked[at] or 1.0) - 1 if math.isfinite(marked[at] or 1.0) else 0
    before = next((i for i in range(at - 1, -1, -1) if (v := loss[i]) is not None and math.isfinite(v)), None)
    what = {
        "output": f"the output of module {module} is the first that is not finite",
        "gradient": f"the gradient of module {module} is not finite, while all outputs and the loss are",
        "input": "the model's input is not finite",
        "weights": f"the weights of module {module} are no longer finite, and those of the last modules are: its "
        "gradient was not",
    }.get(place, "all outputs are finite, and the loss is not")
    if place == "output" and skipped > 0:
        were = "one before it was" if skipped == 1 else f"{skipped} before it were"
        what += f' of those that were watched (the {were} not; sentinel="full" watches all)'
    if place == "weights":
        place = "gradient"
    value = loss[at]
    then = f", and the loss is {number(value)}" if value is not None and not math.isfinite(value) else ""
    was = f" (it was {number(loss[before] or 0.0)} at {stream.where(before)})" if before is not None else ""
    evidence = stream.evidence(at, "loss", name)
    shown = (evidence,) if before is None else (evidence, stream.evidence(before, "loss"))
    captures = {"place": place} | ({"module": module} if module else {})
    return Sign(stream, at, shown, f"at {stream.where(at)} {what}{then}{was}", "loss", captures=captures)
