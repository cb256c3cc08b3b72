"""What restarts of a run show by themselves: that a launcher saw its workers fail, and that each began from the start.

A launcher that restarts a group of workers says why it does: workers failed, or nodes joined (which is none). Of what
they failed may stand in files that are not there; that they failed is known all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from forensics.engine.attempts import RESTART
from forensics.engine.candidates import Candidate
from forensics.engine.finishes import FINISHED
from forensics.engine.steps import StepClock
from forensics.step_units import SAMPLES

WITHOUT_STATE = "restart-without-state"  # the entry that says what to do
_LOST = 10  # records of an attempt that are worth the word


def after_failures(found: Sequence[Candidate]) -> int:
    """How often a launcher restarted failed workers before the last attempt, which came to its end; else 0."""
    last = max((c.attempt for c in found), default=0)
    if not any(c.signature.name == FINISHED and c.attempt == last for c in found):
        return 0
    failed = {
        c.attempt
        for c in found
        if c.signature.name == RESTART and c.attempt < last and any(o.captures.get("state") for o in c.observations)
    }
    return len(failed)


def from_the_start(steps: StepClock) -> tuple[int, tuple[int, ...]] | None:
    """(the first step, the attempts that counted from it again), where the attempt before had come further by records.

    Only files that hold several attempts are asked, and none that counts the batches of an epoch.
    """
    for source, marks in steps.marks.items():
        if steps.unit.get(source) in ("batch", SAMPLES):
            continue
        told: dict[int, list[int]] = {}
        for mark in marks:
            if mark.attempt is not None:
                told.setdefault(mark.attempt, []).append(mark.step)
        first = min((s for counts in told.values() for s in counts), default=0)
        again = tuple(
            later
            for (_, before), (later, counts) in pairwise(sorted(told.items()))
            if counts[0] == first and sum(s > first for s in before) >= _LOST
        )
        if again:
            return first, again
    return None


def of_unknown_cause(found: Sequence[Candidate]) -> str:
    """The summary of a run whose workers failed, of which nothing else tells."""
    n = after_failures(found)
    times = "once" if n == 1 else f"{n} times"
    end = "The last attempt reached its end."
    return f"Workers failed, and their launcher restarted them {times}; nothing here says of what they failed. {end}"


def anew_in_words(steps: StepClock) -> str | None:
    """The sentence on attempts that began from the start, for a summary."""
    if (found := from_the_start(steps)) is None:
        return None
    first, again = found
    who = f"Attempt {again[0]}" if len(again) == 1 else f"Attempts {', '.join(map(str, again[:-1]))} and {again[-1]}"
    return f"{who} counted from step {first} again: forensics explain {WITHOUT_STATE}."
