"""A loss that is not finite in W&B's summary of a run, which holds the last value of each name.

It is all that is left of the curve where a run's records were not collected (`run-*.wandb`, the console): that the loss
was lost is sure, when it was is not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from forensics.model import Evidence, Fact, Observation, RunData
from forensics.parsers.names import canonical

if TYPE_CHECKING:
    import polars as pl

NAN_LOSS = "nan-loss"
PREFIX = "wandb.summary."
# One record may be a step that a scaler skipped, and what is not finite in the gradients beside it is of the same kind.
ALONE, WITH_GRADIENTS = 0.65, 0.8
_STEPS = ("step", "global_step")


def told(data: RunData) -> list[Observation]:
    """The sign that a loss was lost by the newest summary, where no record of the run bears a loss."""
    of_source: dict[str, dict[str, Fact]] = defaultdict(dict)
    for fact in data.facts:
        if fact.name.startswith(PREFIX):
            of_source[fact.source][fact.name.removeprefix(PREFIX)] = fact
    if not of_source or _has_loss(data.metrics, of_source):
        return []
    newest = max(of_source.values(), key=_when)
    if len(of_source) > 1 and _when(newest) == -math.inf:
        return []
    losses = [fact for name, fact in newest.items() if canonical(name) == "loss"]
    if not losses or not all(map(_lost, losses)):
        return []
    norms = [fact for name, fact in newest.items() if canonical(name) == "grad_norm" and _lost(fact)]
    shown = [*losses, *norms]
    step = _step(newest)
    return [
        Observation(
            signature=NAN_LOSS,
            weight=WITH_GRADIENTS if norms else ALONE,
            evidence=tuple(Evidence(f.source, f.line, None, f"{_name(f)}: {f.value}") for f in shown),
            culprits=(),
            step=step,
            step_is="last_seen" if step is not None else None,
            note=f"the last values that W&B recorded are not finite ({', '.join(map(_name, shown))}); from which step "
            "on, the summary does not tell",
        )
    ]


def _has_loss(metrics: pl.DataFrame, summaries: Container[str]) -> bool:
    """Whether anything but a summary records a loss."""
    if not metrics.height:
        return False
    rows = metrics.select("source", "name").unique().iter_rows()
    return any(name == "loss" and source not in summaries for source, name in rows)


def _when(summary: Mapping[str, Fact]) -> float:
    """Seconds since the epoch at which the last value was recorded."""
    value = _number(summary["_timestamp"]) if "_timestamp" in summary else None
    return value if value is not None and math.isfinite(value) else -math.inf


def _step(summary: Mapping[str, Fact]) -> int | None:
    """The run's own step. `_step` counts W&B's records, and is none."""
    values = [_number(fact) for name, fact in summary.items() if canonical(name) in _STEPS and name != "_step"]
    known = [value for value in values if value is not None and math.isfinite(value)]
    return int(known[0]) if known else None


def _lost(fact: Fact) -> bool:
    value = _number(fact)
    return value is not None and not math.isfinite(value)


def _number(fact: Fact) -> float | None:
    try:
        return float(fact.value)
    except ValueError:
        return None


def _name(fact: Fact) -> str:
    return fact.name.removeprefix(PREFIX)
