"""The size of updates against the weights: none, too large, too small.

Thresholds are those of the catalogue entries that each docstring names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, has, names_where, recorded
from forensics.engine.detectors.series import Sign, Stream, merge, number, streams
from forensics.model import Observation
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl

_TOTAL = tags.RATIO_TOTAL.removeprefix("probe/")  # its canonical name


def _modules(stream: Stream) -> Iterator[tuple[str, str, str]]:
    """(module, name of its ratio, name of its gradient norm) of the modules for which the probe wrote both."""
    for name in stream.columns:
        module = name.removeprefix(tags.RATIO)
        if module != name and (norm := tags.MODULE_GRAD + module) in stream.columns:
            yield module, name, norm


def _of_modules(metrics: pl.DataFrame) -> tuple[Stream, ...]:
    names = names_where(metrics, lambda n: n.startswith((tags.RATIO, tags.MODULE_GRAD)))
    return streams(metrics, (*names, "loss", tags.HELD)) if names or has(metrics, tags.HELD) else ()


def modules_not_updated(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, scope: str, records: int = 3
) -> tuple[Observation, ...]:
    """Weights stay exactly as they are although gradients arrive and the learning rate is not zero (O2, O22).

    scope: "all" (no module moves, or the optimizers hold none of the model's parameters) or "some". records: the fewest
    updates to judge by; a step that a loss scaler leaves out is none. The probe measures no update at rate zero.
    """
    signs: list[Sign] = []
    found = _of_modules(metrics)
    for stream in found:
        held_at, held = stream.curve(tags.HELD)
        if scope == "all" and len(held) >= records and not any(held):
            note = f"the optimizer holds none of the model's trainable parameters, in all {len(held)} records"
            shown = tuple(stream.evidence(i, "loss", tags.HELD) for i in (held_at[0], held_at[-1]))
            signs.append(Sign(stream, held_at[0], shown, note, tags.HELD))
            continue
        still: list[tuple[str, str, str, list[tuple[int, float]]]] = []
        moving: list[str] = []
        for module, ratio, norm in _modules(stream):
            pairs = [
                (i, r) for i, (r, g) in enumerate(zip(stream.column(ratio), stream.column(norm), strict=True))
                if r is not None and g is not None and g > 0 and math.isfinite(g)
            ]  # fmt: skip
            if len(pairs) >= records:
                if any(r for _, r in pairs):
                    moving.append(module)
                else:
                    still.append((module, ratio, norm, pairs))
        if not still or bool(moving) == (scope == "all"):
            continue
        modules = [module for module, *_ in still]
        _, ratio, norm, pairs = still[0]
        at = pairs[0][0]
        listed = ", ".join(modules[:4]) + (f" and {len(modules) - 4} more" if len(modules) > 4 else "")
        others = f", while {len(moving)} other modules change" if moving else ""
        note = f"{listed}: gradients arrive and not one weight changes, in {len(pairs)} of {len(pairs)} updates{others}"
        shown = tuple(stream.evidence(i, ratio, norm) for i in dict.fromkeys((at, pairs[-1][0])))
        signs.append(Sign(stream, at, shown, note, ratio, captures={"module": modules[0]}))
    return merge(signs, found, ()) if signs else ()


def _flat(loss: Sequence[float], gain: float) -> tuple[float, float] | None:
    """Medians of the first and last quarter of a loss that gained less than `gain`; None of one that fell."""
    if len(loss) < 20:
        return None
    quarter = len(loss) // 4
    first, last = median(loss[:quarter]), median(loss[-quarter:])
    return (first, last) if first > 0 and first - last <= gain * first else None


def probe_updates_too_large(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 3e-2,
    records: int = 5,
    gain: float = 0.02,
) -> tuple[Observation, ...]:
    """Updates are far too large for the weights, and the loss does not fall (O22).

    ratio: median of update over weights from which it is too high; about 1e-3 is usual, and small networks reach 1e-2
        without trouble (O22). Zero weights at the start make ratios large, so the first record does not count.
    records: the fewest. gain: part of the loss that is gained from the first to the last quarter, at most.
    """
    signs: list[Sign] = []
    found = _with_ratios(metrics)
    for stream in found:
        flat = _flat(finite(stream.column("loss")), gain)
        if flat is None:
            continue
        high = []
        for name in stream.columns:
            places, curve = stream.curve(name)
            values = [v for v in curve[1:] if math.isfinite(v)]
            if name != "loss" and len(values) >= records and median(values) > ratio:
                high.append((median(values), name, places))
        if not high:
            continue
        value, name, places = max(high)
        which = "all weights" if name == _TOTAL else name.removeprefix(tags.RATIO)
        note = (
            f"one update changes {which} by {100 * value:.2g} % (median of {len(places) - 1}), and the loss goes from"
            f" {number(flat[0])} to {number(flat[1])}"
        )
        shown = tuple(stream.evidence(i, "loss", name) for i in (places[1], places[-1]))
        signs.append(Sign(stream, places[1], shown, note, name))
    return merge(signs, found, ()) if signs else ()


def probe_updates_too_small(
    metrics: pl.DataFrame,
    observations: Sequence[Observation],
    *,
    ratio: float = 1e-5,
    records: int = 10,
    gain: float = 0.02,
    way: float = 1e-3,
    fall: float = 0.2,
) -> tuple[Observation, ...]:
    """Updates are far too small for the weights as a whole, and the loss has hardly moved (O7, O22).

    ratio: median of update over weights; not zero, which is another fault. records: the fewest ratios; the loss needs
    twenty. gain: part of the loss by which the last quarter differs from the first, at most (O7: 2 %).
    way: or all updates together are smaller than one healthy step (O22: about 1e-3), and the loss did not fall by
        `fall`: then what it gained is noise.
    """
    if not recorded(metrics):
        return ()
    signs = []
    found = [s for s in streams(metrics, (_TOTAL, "loss", "lr")) if _TOTAL in s.columns and "loss" in s.columns]
    for stream in found:
        at, curve = stream.curve(_TOTAL)
        _, loss = stream.curve("loss")
        if len(curve) < records or not 0 < median(curve) < ratio or not all(map(math.isfinite, loss)):
            continue
        flat = _flat(loss, fall)
        if flat is None:
            continue
        first, last = stream.steps[at[0]], stream.steps[at[-1]]
        walked = (last - first) * median(curve) if first is not None and last is not None else math.inf
        if abs(flat[0] - flat[1]) > gain * flat[0] and not walked < way:
            continue
        note = (
            f"updates are {number(median(curve))} of the weights (median of {len(curve)}), and the loss goes from"
            f" {number(flat[0])} to {number(flat[1])} over {len(loss)} records"
        )
        shown = tuple(stream.evidence(i, "loss", "lr", _TOTAL) for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "loss"))
    return merge(signs, found, ()) if signs else ()


def _with_ratios(metrics: pl.DataFrame) -> list[Stream]:
    if not recorded(metrics):
        return []
    names = names_where(metrics, lambda n: n == _TOTAL or n.startswith(tags.RATIO))
    return [s for s in streams(metrics, (*names, "loss")) if "loss" in s.columns] if names else []
