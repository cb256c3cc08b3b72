"""Slurm's count of kills for memory, told when a step ends: below a run's own end it is of no process that trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from forensics.engine.finishes import ANYBODYS_END, was_over
from forensics.engine.identity import World
from forensics.engine.steps import StepClock
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

# Of slurmstepd, since 18.08: "Detected 1 oom_kill event in StepId=3.extern", "oom-kill event(s)" in older ones.
_COUNTED = lazy(r"\bDetected \d+ oom[-_]kill event")


def after_the_end(c: Candidate, finished: Iterable[Candidate], steps: StepClock, world: World) -> bool:
    """Whether all signs of a candidate are such counts that stand below the words of the run that it is complete.

    A step's count is of all that ran in it, shells and helpers of the node among them (".extern"). What killed a
    process that trained kept the run from its end, or a launcher or shell says that it was killed: callers see to that.
    """
    if not all(_COUNTED.search(o.evidence[0].text) for o in c.observations):
        return False
    ends = [f for f in finished if f.attempt == c.attempt and f.weight > ANYBODYS_END]
    if any(steps.goes_on_after(o, None) for f in ends for o in f.observations):
        return False
    return was_over(c, ends, steps, world)
