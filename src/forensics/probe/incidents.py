"""Which module was the first whose output or gradient is not finite; on numbers alone, without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forensics.probe.tags import GRADIENT, INPUT, LOSS_ONLY, OUTPUT, WEIGHTS

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
    full: bool = True  # all outputs and gradients were watched, and not only some


@dataclass(frozen=True, slots=True)
class Incident:
    step: int
    place: str  # tags.INPUT, tags.LOSS_ONLY, or tags.OUTPUT, tags.GRADIENT or tags.WEIGHTS and the module
    unwatched: int = 0  # modules right before this one, in the order of computation, that were not watched


@dataclass(slots=True)
class Sentinel:
    """Follows the steps of a run and tells the first place of each stretch of numbers that are not finite.

    Modules may put out infinities on purpose (masked scores): those that do so in a step whose loss is finite are
    never blamed. A gradient is passed on towards the input, so of modules with bad gradients the last one comes first.
    Where a stretch begins in a step of which too little was watched, its place can be told by a later full step, or by
    the weights.
    """

    names: Sequence[str]  # by slot; may grow
    unnamed: int | None = None  # the step in which a stretch began whose place is not known so far
    _harmless: set[int] = field(default_factory=set)
    _quiet: bool = True  # the step before was finite
    _told: int = 0

    @property
    def exhausted(self) -> bool:
        return self._told >= MOST

    def follow(self, numbers: StepNumbers) -> Incident | None:
        """The incident that is told by this step, if one is. Steps must come in order."""
        bad = [slot for slot, value in sorted(numbers.outputs.items()) if not math.isfinite(value)]
        new = [slot for slot in bad if slot not in self._harmless]
        gradients = [name for name, value in numbers.gradients.items() if not math.isfinite(value)]
        lost = numbers.loss is not None and not math.isfinite(numbers.loss)
        stopped = not numbers.finished and bool(new)
        if not (lost or gradients or stopped):
            if numbers.loss is not None:
                self._harmless.update(bad)
            self._quiet, self.unnamed = True, None
            return None
        if not (self._quiet or self.unnamed is not None) or self.exhausted:
            return None
        self._quiet = False
        incident = self._incident(numbers, new, gradients)
        if incident is None:
            self.unnamed = numbers.step if self.unnamed is None else self.unnamed
            return None
        self.unnamed = None
        self._told += 1
        return incident

    def inspect(self, weights: Mapping[str, float]) -> Incident | None:
        """What the weights tell of a stretch without a place, after it has begun.

        weights: module -> a number that is finite if its weights are. A bad value that arose in the backward pass has
        not come to the modules behind it; one of the forward pass, or a gradient norm by which all were divided, is in
        all of them. Bad weights make outputs bad that were not before, so that later steps tell nothing any more.
        """
        bad = {name for name, value in weights.items() if not math.isfinite(value)}
        if self.unnamed is None or not bad:
            return None
        step, self.unnamed = self.unnamed, None
        ordered = [name for name in self.names if name in weights]
        if not ordered or ordered[-1] in bad or self.exhausted:
            return None
        last = next((name for name in reversed(ordered) if name in bad), None)
        if last is None:
            return None
        self._told += 1
        return Incident(step, WEIGHTS + last)

    def _incident(self, numbers: StepNumbers, new: Sequence[int], gradients: Sequence[str]) -> Incident | None:
        if numbers.input is not None and not math.isfinite(numbers.input):
            return Incident(numbers.step, INPUT)
        if new:
            first = new[0]
            before = next((slot for slot in range(first - 1, -1, -1) if slot in numbers.outputs), -1)
            return Incident(numbers.step, OUTPUT + self.names[first], 0 if numbers.full else first - before - 1)
        if gradients and (numbers.loss is None or math.isfinite(numbers.loss)):
            order = {name: slot for slot, name in enumerate(self.names)}
            return Incident(numbers.step, GRADIENT + max(gradients, key=lambda name: order.get(name, -1)))
        return Incident(numbers.step, LOSS_ONLY) if numbers.full else None
