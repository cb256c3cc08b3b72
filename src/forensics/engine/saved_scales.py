"""A loss scale in a run's newest checkpoint that no scaler comes to while steps are applied.

torch's scaler begins at 2^16 and halves at each overflow, DeepSpeed's stops at 1; calibration ends at 2^8 or more. What
lies far below 1 is the end of dozens of overflows, of which the checkpoint is the only witness where the scale was not
logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forensics.model import Evidence, Fact, Observation, RunData
from forensics.parsers.checkpoints.units import Unit, units

if TYPE_CHECKING:
    import polars as pl

COLLAPSED = "grad-scaler-collapse"
SCALE = "checkpoint.scaler.scale"
LOWEST = 2.0**-10  # 26 overflows in a row from torch's first scale, ten below any minimum that is configured
WEIGHT = 0.8
_FIX = "Where the run goes on from {path}, let it begin with a new scaler: the one that is saved there applies no step."


def told(data: RunData) -> list[Observation]:
    """The sign of a collapse by the newest checkpoint that holds a scale; nothing where the run logs its scale."""
    scales = {fact.source: fact for fact in data.facts if fact.name == SCALE}
    if not scales or _logs_scale(data.metrics):
        return []
    held = [(unit, fact) for unit in units(data.facts) if (fact := _of(unit, scales)) is not None]
    if not held or (len(held) > 1 and held[-1][0].step is None):
        return []
    unit, fact = held[-1]
    value = float(fact.value)
    if not 0 <= value < LOWEST:
        return []
    before = next(((u, f) for u, f in reversed(held[:-1]) if float(f.value) >= LOWEST), None)
    note = f"the scaler's state in {unit.path} has a loss scale of {fact.value}"
    shown = [Evidence(fact.source, None, None, f"scaler: scale {fact.value}")]
    if before is not None:
        note += f"; it was {before[1].value} in {before[0].path}"
        shown.append(Evidence(before[1].source, None, None, f"scaler: scale {before[1].value}"))
    return [
        Observation(
            signature=COLLAPSED,
            weight=WEIGHT,
            evidence=tuple(shown),
            culprits=(),
            step=unit.step,
            step_is="last_seen" if unit.step is not None else None,
            note=note,
            fix=(_FIX.format(path=unit.path),),
        )
    ]


def _of(unit: Unit, scales: Mapping[str, Fact]) -> Fact | None:
    """The scale of a checkpoint, where its files hold one number."""
    found = [scales[file] for file in unit.files if file in scales and _is_number(scales[file].value)]
    return found[0] if found and len({fact.value for fact in found}) == 1 else None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _logs_scale(metrics: pl.DataFrame) -> bool:
    return bool(metrics.height) and "loss_scale" in metrics["name"].unique().to_list()
