"""Layers that fall silent: dead units, and distributions that collapse, by the probe, histograms or people's own tags.

Thresholds are those of the catalogue entries that each docstring names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import names_where
from forensics.engine.detectors.series import Sign, merge, number, streams
from forensics.model import Observation
from forensics.patterns import lazy
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl

# Tags of people's own for the share of zero outputs; zeros of histograms of outputs.
_ZEROS = lazy(r"(?i)zero_?(?:frac|share|ratio)|frac[a-z_]*_zeros?$")
_ZEROS_OF_OUTPUTS = lazy(r"(?i)(?:act|activation|relu|output|hidden)[^/]*(?:/.*)?/zeros$")
_GRADIENTS = lazy(r"(?i)grad")


def units_silent(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    share: float = 0.9,
    rise: float = 0.3,
    records: int = 5,
    zeros: float = 0.999,
) -> tuple[Observation, ...]:
    """Most units of a layer are zero whatever the input (O25).

    share: of dead units, in the median of the last quarter. rise: or that much above the first quarter, and at least
        half (O25). records: the fewest to judge by.
    zeros: the share of zero outputs in a histogram, or under a tag that counts zero outputs instead of dead units, from
        which there is no other way to read it: half of all outputs are zero in a healthy layer.
    """
    wanted = names_where(
        metrics,
        lambda n: (
            n.startswith(tags.DEAD) or (not _GRADIENTS.search(n) and (_ZEROS.search(n) or _ZEROS_OF_OUTPUTS.search(n)))
        ),
    )
    signs: list[Sign] = []
    found = streams(metrics, wanted) if wanted else ()
    for stream in found:
        for name in wanted:
            at, curve = stream.curve(name)
            if len(curve) < records or not all(0 <= v <= 1 for v in curve):
                continue
            quarter = max(1, len(curve) // 4)
            first, last = median(curve[:quarter]), median(curve[-quarter:])
            counted = name.startswith(tags.DEAD)
            if last < (share if counted else zeros) and not (counted and last - first >= rise and last >= 0.5):
                continue
            level = min((first + last) / 2 if last > first else last, min(curve[-quarter:]))
            if counted and last >= share:  # dead soon after the start, and the last few of its units much later
                level = min(level, share)
            start = len(curve) - 1
            while start and curve[start - 1] >= level:
                start -= 1
            layer = name.removeprefix(tags.DEAD).removesuffix("/zeros")
            what = "of its units are zero for the whole batch" if counted else "of its outputs are zero"
            when = f"in all {len(curve)} records"
            if start:  # the record that is shown: most of the first quarter may lie behind the onset
                when = f"from {stream.where(at[start])} on ({100 * curve[0]:.0f} % at {stream.where(at[0])})"
            note = f"{layer}: {100 * last:.0f} % {what}, {when}"
            shown = tuple(stream.evidence(at[k], name) for k in dict.fromkeys((start, 0, len(curve) - 1)))
            signs.append(Sign(stream, at[start], shown, note, name, captures={"module": layer}))
    return merge(_worst(signs), found, ()) if signs else ()


def _worst(signs: Sequence[Sign]) -> list[Sign]:
    """One sign a stream, the earliest, with how many other layers show the same."""
    by_stream: dict[int, list[Sign]] = {}
    for sign in signs:
        by_stream.setdefault(id(sign.stream), []).append(sign)
    chosen = []
    for group in by_stream.values():
        first = min(group, key=lambda s: s.at)
        others = [s.captures["module"] for s in group if s is not first]
        if others:
            more = f", and {len(others) - 3} more" if len(others) > 3 else ""
            note = f"{first.note}; so do {', '.join(others[:3])}{more}"
            first = Sign(
                first.stream, first.at, (*first.evidence, *(s.evidence[0] for s in group if s is not first)), note,
                first.metric, first.weight, first.captures,
            )  # fmt: skip
        chosen.append(first)
    return chosen


def distribution_collapse(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, factor: float = 100.0, records: int = 8
) -> tuple[Observation, ...]:
    """The spread of weights or outputs in a histogram falls to a hundredth of what it was (O26).

    factor: between the medians of the first and the last quarter (O26: 100). records: the fewest to judge by.
    Gradients are left out: they become small in every run that converges.
    """
    wanted = names_where(metrics, lambda n: n.endswith("/std") and not _GRADIENTS.search(n))
    signs: list[Sign] = []
    found = streams(metrics, wanted) if wanted else ()
    for stream in found:
        for name in wanted:
            # Only histograms have all of these; a user's own `.../std` is something else.
            if not {name.removesuffix("std") + end for end in ("min", "max")} <= _all_names(metrics):
                continue
            at, curve = stream.curve(name)
            if len(curve) < records:
                continue
            quarter = len(curve) // 4
            first, last = median(curve[:quarter]), median(curve[-quarter:])
            if not last * factor < first:
                continue
            start = len(curve) - 1
            while start and curve[start - 1] * math.sqrt(factor) < first:
                start -= 1
            layer = name.removesuffix("/std")
            note = f"the spread of {layer} falls from {number(first)} to {number(last)} ({stream.where(at[start])})"
            shown = tuple(stream.evidence(at[k], name) for k in dict.fromkeys((start, 0, len(curve) - 1)))
            signs.append(Sign(stream, at[start], shown, note, name, captures={"module": layer}))
    return merge(_worst(signs), found, ()) if signs else ()


def _all_names(metrics: pl.DataFrame) -> frozenset[str]:
    return frozenset(names_where(metrics, bool))
