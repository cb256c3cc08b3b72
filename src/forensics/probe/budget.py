"""How much the probe may look at, so that it stays within a share of the training time; on numbers alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST = 100_000  # updates between two looks, however dear they are
HEADROOM = 0.7  # what is planned with, of the share: for what cannot be timed, such as caches that are disturbed
OUTLIER = 5  # times the median; a longer step holds an evaluation or a checkpoint
FEWEST = 5  # steps from which the time of one can be told
KEPT = 2000  # steps whose times are kept
# What torch takes for calling a hook, and the packing of its number; neither is timed in the hook itself.
HOOK_SECONDS = 3e-6
# Bytes a second at which a GPU reads what is summed: a third to a half of what cards of 2020 and later reach, so that
# the estimate is rather too high.
DEVICE_BYTES = 1e12


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured, in seconds."""

    step: float  # a step of the loop, without the probe's looks
    base: float  # in each step, whatever is watched: the copy of the loss, and writing it
    look: float  # one look: hooks on everything, and what is computed and written
    outputs: Mapping[int, float]  # slot -> watching its output once
    gradients: float  # watching all gradients once


@dataclass(frozen=True, slots=True)
class Plan:
    """What is watched between two looks."""

    every: int  # updates between two looks
    slots: frozenset[int]
    gradients: bool


def plan(costs: Costs, share: float, every: int) -> Plan:
    """Half of the share goes to the looks, which become rarer than `every` if need be; the rest into every step.

    share: of the time of a step, above 0. Gradients come first, for they are one measurement that covers the whole
    model; then as many outputs as can be paid, spread evenly over the computation.
    """
    half = max(HEADROOM * share * costs.step / 2, 1e-9)
    # Ranks measure different times. By powers of two, the updates that the slower one looks at are looked at by all.
    interval = every
    while interval * half < costs.look and interval < LONGEST:
        interval *= 2
    left = 2 * half - costs.base - costs.look / interval
    gradients = costs.gradients <= left / 2
    if gradients:
        left -= costs.gradients
    return Plan(interval, affordable(costs.outputs, left), gradients)


def affordable(outputs: Mapping[int, float], seconds: float) -> frozenset[int]:
    """As many slots as fit into `seconds`, at even distances; slots below 0 (the model's input) come first."""
    chosen = frozenset(slot for slot in outputs if slot < 0)
    slots = sorted(slot for slot in outputs if slot >= 0)
    left = seconds - sum(outputs[slot] for slot in chosen)
    if left < 0:
        return frozenset()
    number = len(slots)
    while number:
        picked = spread(slots, number)
        if sum(outputs[slot] for slot in picked) <= left:
            return chosen | frozenset(picked)
        number = min(number - 1, number * 7 // 8)
    return chosen


def spread(slots: list[int], number: int) -> list[int]:
    """`number` of the slots at even distances; few leave out the ends, for the loss shows what the last put out."""
    if number >= len(slots):
        return slots
    return [slots[(i + 1) * len(slots) // (number + 1)] for i in range(number)]


@dataclass(slots=True)
class Meter:
    """Times of the loop and of the probe's own calls in it, by the clock of the host.

    A loop that runs ahead of its GPU spends little time in a step, and waits at the look: that time is the steps'.
    """

    _end: float | None = None  # when the last call of `step` came back
    _steps: list[float] = field(default_factory=list)
    _bases: list[float] = field(default_factory=list)
    _micro: float = 0.0  # seconds in calls for iterations that do not update
    _waited: float = 0.0
    _wrote: float = 0.0  # seconds a step
    _looks: list[float] = field(default_factory=list)
    _known: tuple[float, float] | None = None  # the step and the base, as of the last look

    def base(self, begin: float, watched: float, *, last: bool) -> None:
        """A call that only collects; watched: seconds of it that depend on what is watched. last: of its update."""
        now = time.perf_counter()
        if not last:
            self._micro += now - begin
            return
        if self._end is not None and len(self._steps) < KEPT:
            self._steps.append(begin - self._end)
            self._bases.append(now - begin - watched + self._micro)
        self._micro, self._end = 0.0, now

    def drain(self, waited: float, wrote: float) -> None:
        """Numbers were written between looks."""
        self._waited += waited
        self._wrote = max(self._wrote, wrote)

    def skip(self) -> None:
        """A call that is neither usual nor a look."""
        self._micro, self._end = 0.0, time.perf_counter()

    def look(self, begin: float, waited: float, wrote: float, hooks: float) -> None:
        """A look; hooks: seconds that hooks took in its step."""
        self.drain(waited, wrote)
        now = time.perf_counter()
        usual = self._usual()
        if usual is not None:
            self._known = usual
        steps = len(self._steps) + 1
        self._looks.append(max(now - begin - waited - wrote * steps, 0.0) + hooks)
        # The first look loads what later ones find ready; a single one may have met something else.
        self._looks = self._looks[-4:] if len(self._looks) != 2 else self._looks[-1:]
        self._steps, self._bases, self._waited = [], [], 0.0
        self._micro, self._end = 0.0, now

    def costs(self, outputs: Mapping[int, float], gradients: float) -> Costs | None:
        """None as long as no usual step was seen."""
        usual = self._usual() if len(self._steps) >= FEWEST else self._known
        if usual is None or not self._looks:
            return None
        step, base = usual
        return Costs(step, base, statistics.median(self._looks), outputs, gradients)

    def _usual(self) -> tuple[float, float] | None:
        """Seconds of a step, and of what the probe takes in each."""
        if not self._steps:
            return None
        most = OUTLIER * statistics.median(self._steps)
        steps = [step for step in self._steps if step <= most]
        # Looks and writing happen in their own calls, so that the wait in them belongs to the steps before.
        return (sum(steps) + self._waited) / len(steps), statistics.median(self._bases) + self._wrote
