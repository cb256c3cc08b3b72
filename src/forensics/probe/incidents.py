"""Which module was the first whose output or gradient is not finite; on numbers alone, without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forensics.probe.tags import GRADIENT, INPUT, LOSS_ONLY, OUTPUT

MOST = 10  # incidents that are told of one run


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """What one step left: each number is finite if all that it stands for is."""

    step: int
    loss: float | None  # None where the step did not come that far, or the caller gives no loss
    outputs: Mapping[int, float]  # slot, in the order of computation -> sum of the output
    gradients: Mapping[str, float]  # module -> norm of its gradients
    input: float | None = None
    finished: bool = True  # False for the step in which the loop was left


@dataclass(frozen=True, slots=True)
class Incident:
    step: int
    place: str  # tags.INPUT, tags.LOSS_ONLY, or tags.OUTPUT or tags.GRADIENT and the module


@dataclass(slots=True)
class Sentinel:
    """Follows the steps of a run and tells the first place of each stretch of numbers that are not finite.

    Modules may put out infinities on purpose (masked scores): those that do so in a step whose loss is finite are
    never blamed. A gradient is passed on towards the input, so of modules with bad gradients the last one comes first.
    """

    names: Sequence[str]  # by slot; may grow
    _harmless: set[int] = field(default_factory=set)
    _quiet: bool = True  # the step before was finite
    _told: int = 0

    def follow(self, numbers: StepNumbers) -> Incident | None:
        """The incident that begins with this step, if one does. Steps must come in order."""
        bad = [slot for slot, value in sorted(numbers.outputs.items()) if not math.isfinite(value)]
        new = [slot for slot in bad if slot not in self._harmless]
        gradients = [name for name, value in numbers.gradients.items() if not math.isfinite(value)]
        lost = numbers.loss is not None and not math.isfinite(numbers.loss)
        stopped = not numbers.finished and bool(new)
        if not (lost or gradients or stopped):
            if numbers.loss is not None:
                self._harmless.update(bad)
            self._quiet = True
            return None
        if not self._quiet or self._told >= MOST:
            return None
        self._quiet = False
        self._told += 1
        return Incident(numbers.step, self._place(numbers, new, gradients))

    def _place(self, numbers: StepNumbers, new: Sequence[int], gradients: Sequence[str]) -> str:
        if numbers.input is not None and not math.isfinite(numbers.input):
            return INPUT
        if new:
            return OUTPUT + self.names[new[0]]
        order = {name: slot for slot, name in enumerate(self.names)}
        if gradients and (numbers.loss is None or math.isfinite(numbers.loss)):
            return GRADIENT + max(gradients, key=lambda name: order.get(name, -1))
        return LOSS_ONLY
