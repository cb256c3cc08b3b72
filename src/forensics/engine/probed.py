"""What the probe's records say beside the findings made from them: the samples of a bad step, and what was not seen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import names_where, recorded, remembered_names
from forensics.engine.detectors.series import remembered_streams, streams
from forensics.engine.detectors.units import units_silent
from forensics.engine.detectors.updates import probe_updates_too_large, probe_updates_too_small
from forensics.model import Fact, Kind, MissingEvidence, Observation, RunData
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl

FEWEST = 3  # looks, or losses, before what they agree on counts
CLOSE = 1e-3  # relative difference that printing a loss in few digits makes
SHOWN = 200  # characters of sample ids in a note
_AT_STEP = re.compile(r"step (\d{1,18}): (.+)", re.S)
# The signatures whose onset is a batch.
_OF_A_BATCH = frozenset({"nan-loss", "nan-gradients", "nan-in-data", "nan-in-forward", "nan-in-backward", "loss-spike"})
_WITHOUT_MODULE = frozenset({"nan-loss", "nan-gradients"})
_OF_STEPS = ("update_ratio", "grad_norm", tags.GRAD_NORM_LOCAL, "skipped_total", tags.HELD, tags.STEPS)
_BESIDE = frozenset({tags.HELD, tags.STEPS})
OF_STEP = "the samples of step"  # what a note says that names them
_PLACES = (tags.OUTPUT, tags.GRADIENT, tags.WEIGHTS, tags.INPUT, tags.LOSS_ONLY)


def tell(observations: Sequence[Observation], data: RunData) -> list[Observation]:
    """Observations with a note on the sample ids of their step, and on a module that nobody watched."""
    if not any(source.kind is Kind.TENSORBOARD for source in data.sources):
        return list(observations)
    try:
        return _told(observations, data.metrics, data.facts) if recorded(data.metrics) else list(observations)
    finally:
        _forget()


def _told(observations: Sequence[Observation], metrics: pl.DataFrame, facts: Sequence[Fact]) -> list[Observation]:
    """facts: `probe/sample_ids` with values "step 7: a, b" (parsers.tensorboard)."""
    ids = _ids(facts)
    placed = names_where(metrics, lambda name: name.startswith(tuple(tags.NONFINITE + place for place in _PLACES)))
    sources = {stream.source for stream in streams(metrics, (tags.HELD,))}
    found = []
    behind: bool | None = None
    for o in observations:
        said: list[str] = []
        step = o.step
        file = next((e.file for e in o.evidence if e.file in sources), None)
        if step is not None and file is not None:
            behind = _log_is_behind(metrics, sources) if behind is None else behind
            of_log = o.evidence[0].file != file  # which begins with what a log says, and counts as that does
            update = step + 1 if behind and of_log else step
            if o.signature in _OF_A_BATCH:
                if o.signature in _WITHOUT_MODULE and not placed:
                    said.append(
                        "the probe watched no module in that step:"
                        ' Probe(..., sentinel="full") in another run names the first one that is not finite'
                    )
                if text := ids.get((file, update)):
                    said.append(f"{OF_STEP} {update}: {_short(text)}")
            if behind and update > 0:
                step = update - 1
                said.append(f"the log counts from 0: its step {step} is update {update} of the probe")
        found.append(replace(o, step=step, note="; ".join(filter(None, (o.note, *said)))) if said else o)
    return found


def _log_is_behind(metrics: pl.DataFrame, probe: Set[str]) -> bool:
    """Whether the run's logs print the losses that the probe counts from 1 under steps that are one less."""
    counted: dict[tuple[int | None, int], float] = {}
    said: list[tuple[int | None, int, float]] = []
    for stream in streams(metrics, ("loss",)):
        told = [
            (stream.rank, s, v) for s, v in zip(stream.steps, stream.column("loss"), strict=True)
            if s is not None and v is not None and math.isfinite(v)
        ]  # fmt: skip
        if stream.source in probe:
            counted |= {(rank, step): value for rank, step, value in told}
        elif not stream.binary:
            said += told
    ranks = {rank for rank, _ in counted}
    only = next(iter(ranks)) if len(ranks) == 1 else None  # a log that names no rank is that of the only one

    def agree(offset: int) -> list[bool]:
        pairs = [(v, counted.get((only if rank is None else rank, step + offset))) for rank, step, v in said]
        return [abs(v - c) <= CLOSE * max(abs(v), abs(c)) for v, c in pairs if c is not None]

    same, one_less = agree(0), agree(1)
    return len(one_less) >= FEWEST and sum(one_less) >= 0.9 * len(one_less) and sum(same) <= 0.5 * len(one_less)


def _short(text: str) -> str:
    """Sample ids for a note: numbers without a gap by both ends, others by the first of them."""
    ids = text.split(", ")
    if len(ids) > 2 and all(i.isascii() and i.isdecimal() and len(i) < 20 for i in ids):
        numbers = [int(i) for i in ids]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{numbers[0]} to {numbers[-1]}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rpartition(', ')[0] or text[:SHOWN]}, …"


def _forget() -> None:
    """Tables are remembered as long as detectors ask for the same one, and hold much memory."""
    remembered_streams.cache_clear()
    remembered_names.cache_clear()


def _ids(facts: Sequence[Fact]) -> Mapping[tuple[str, int], str]:
    matches = [(f.source, _AT_STEP.fullmatch(f.value)) for f in facts if f.name == tags.SAMPLE_IDS]
    return {(source, int(m[1])): m[2] for source, m in matches if m}


def not_judged(data: RunData) -> tuple[MissingEvidence, ...]:
    """What the probe saw and cannot judge, and what it looked at too rarely for that."""
    if not any(source.kind is Kind.TENSORBOARD for source in data.sources):
        return ()
    try:
        return (*_odd(data.metrics), *_too_few(data.metrics)) if recorded(data.metrics) else ()
    finally:
        _forget()


def _odd(metrics: pl.DataFrame) -> Iterator[MissingEvidence]:
    """Parameters that the optimizer does not hold, and an optimizer that made no step, where no detector finds a fault.

    Both can be right: an optimizer that the probe was not given, or one without hooks. Ranks are alike, so one speaks.
    """
    names = [*names_where(metrics, lambda name: name.startswith((tags.LOST, tags.RATIO))), *_OF_STEPS]
    for stream in streams(metrics, names):
        looks, held = stream.curve(tags.HELD)
        if len(looks) < FEWEST:
            continue
        if max(held) < 1:
            yield MissingEvidence(
                f"the optimizer that the probe was given holds {100 * held[-1]:.3g} % of the trainable parameters;"
                " whether the others are trained was not seen",
                "give Probe(...) all optimizers; requires_grad_(False) for what is frozen on purpose",
            )
        steps = stream.curve(tags.STEPS)[1]
        if not (any(steps) if steps else any(stream.curve(name)[0] for name in names if name not in _BESIDE)):
            yield MissingEvidence(
                f"the probe saw no step of the optimizer, at {len(looks)} looks",
                "check that optimizer.step() is called on the optimizer that the probe was given",
            )
        return


def _too_few(metrics: pl.DataFrame) -> tuple[MissingEvidence, ...]:
    looks = [len(stream.curve(tags.HELD)[0]) for stream in streams(metrics, (tags.HELD,))]
    most = max(looks, default=0)
    needed = {"dead units": _needed(units_silent)} if names_where(metrics, _counts_dead) else {}
    needed |= {
        "updates that are too large": _needed(probe_updates_too_large),
        "updates that are too small": _needed(probe_updates_too_small),
    }
    short = [f"{what} ({number} looks)" for what, number in needed.items() if most < number]
    if not short or not most:
        return ()
    times = "once" if most == 1 else f"{most} times"
    dead = _dead(metrics) if most < needed.get("dead units", 0) else ""
    what = f"the probe looked at the model {times}; more is needed to tell {', '.join(short)}{dead}"
    return (MissingEvidence(what, "Probe(..., every=10, budget=None) looks more often; or let the run go on"),)


def _needed(detector: object) -> int:
    defaults: Mapping[str, int] = getattr(detector, "__kwdefaults__", None) or {}
    return int(defaults["records"])


def _counts_dead(name: str) -> bool:
    return name.startswith(tags.DEAD)


def _dead(metrics: pl.DataFrame) -> str:
    """What the looks showed where nearly all units were dead in each of them."""
    names = names_where(metrics, _counts_dead)
    high = []
    for stream in streams(metrics, names) if names else ():
        for name in names:
            values = stream.curve(name)[1]
            if values and min(values) >= _SHARE:
                high.append(name.removeprefix(tags.DEAD))
    if not high:
        return ""
    others = f" (and of {len(set(high)) - 1} more)" if len(set(high)) > 1 else ""
    share = f"over {100 * _SHARE:g} % of the units of module {high[0]}{others}"
    return f"; in each look {share} were zero for the whole batch"


_SHARE: float = (units_silent.__kwdefaults__ or {})["share"]
