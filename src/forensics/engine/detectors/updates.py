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
from forensics.model import Evidence, Observation
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
    names = names_where(metrics, lambda n: n.startswith((tags.RATIO, tags.MODULE_GRAD, tags.LOST, tags.LR)))
    more = (_TOTAL, "loss", "lr", "grad_norm", "loss_scale", tags.HELD, tags.STEPS, tags.UNCHANGED)
    return streams(metrics, (*names, *more)) if names or has(metrics, tags.HELD) else ()


def _never_moved(stream: Stream, records: int) -> Sign | None:
    """No weight changed from look to look, or the rate is zero at each look while gradients arrive."""
    looks, _ = stream.curve(tags.HELD)
    if len(looks) < records:
        return None
    rates = [stream.curve(name)[1] for name in stream.columns if name == "lr" or name.startswith(tags.LR)]
    zero = bool(rates) and all(len(values) >= len(looks) and not any(values) for values in rates)
    norms = [v for v in finite(stream.column("grad_norm")) if v > 0]
    ratios = any(finite(stream.column(_TOTAL)))
    if zero and len(norms) >= records and not ratios:
        largest = number(max(norms))
        note = f"the learning rate is exactly 0 at all {len(looks)} looks, and the gradient norm is up to {largest}"
        return Sign(stream, looks[0], _ends(stream, looks, "loss", "lr", "grad_norm"), note, "lr")
    at, _ = stream.curve(tags.UNCHANGED)
    _, scales = stream.curve("loss_scale")
    # From the second look to the last one; a loss scaler that skips every step makes its scale fall.
    if len(at) < records or at != looks[1:] or (scales and min(scales) < max(scales)):
        return None
    steps = stream.curve(tags.STEPS)[1]
    why = "the optimizer never stepped, and " if steps and not any(steps) else ""
    last, first = stream.steps[looks[-1]], stream.steps[looks[0]]
    over = f" in {last - first} updates" if last is not None and first is not None else ""
    note = f"{why}no weight has changed{over} ({len(looks)} looks)"
    return Sign(stream, looks[0], _ends(stream, looks, "loss", "lr", tags.STEPS), note, tags.HELD)


def _not_held(stream: Stream, records: int) -> Sign | None:
    """Modules that get gradients, that no optimizer holds, and that stand still up to the last look.

    Those that an optimizer unknown to the probe trains do move, and what is frozen on purpose gets no gradients.
    """
    looks, held = stream.curve(tags.HELD)
    if len(looks) < records or not 0 < held[-1] < 1:
        return None
    found = []
    for name in stream.columns:
        at, _ = stream.curve(name) if name.startswith(tags.LOST) else ([], [])
        if len(at) >= records and at[-1] == looks[-1]:
            found.append((name, at))
    if not found:
        return None
    modules = [name.removeprefix(tags.LOST) for name, _ in found]
    name, at = found[0]
    note = (
        f"the optimizer holds {100 * held[-1]:.3g} % of the trainable parameters, and not {_listed(modules)}:"
        f" gradients arrive there and not one weight changes, at {len(at)} looks"
    )
    return Sign(stream, at[0], _ends(stream, at, tags.HELD, name), note, name, captures={"module": modules[0]})


def _ends(stream: Stream, at: Sequence[int], *names: str) -> tuple[Evidence, ...]:
    return tuple(stream.evidence(i, *names) for i in dict.fromkeys((at[0], at[-1])))


def _listed(modules: Sequence[str]) -> str:
    return ", ".join(modules[:4]) + (f" and {len(modules) - 4} more" if len(modules) > 4 else "")


def modules_not_updated(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, scope: str, records: int = 3
) -> tuple[Observation, ...]:
    """Weights stay exactly as they are although gradients arrive and the learning rate is not zero (O2, O22).

    scope: "all" (no module moves, the optimizers hold none of the model's parameters, they never step, or the rate is
    always zero) or "some" (of these: some that the optimizers do not hold). records: the fewest updates to judge by; a
    step that a loss scaler leaves out is none. The probe measures no update at rate zero.
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
        if scope == "all" and (sign := _never_moved(stream, records)):
            signs.append(sign)
            continue
        if scope == "some" and (sign := _not_held(stream, records)):
            signs.append(sign)
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
        others = f", while {len(moving)} other modules change" if moving else ""
        updates = f"{len(pairs)} of {len(pairs)} updates"
        note = f"{_listed(modules)}: gradients arrive and not one weight changes, in {updates}{others}"
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
