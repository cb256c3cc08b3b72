"""What restarts of a run show by themselves: that a launcher saw its workers fail, and that each began from the start.

A launcher that restarts a group of workers says why it does: workers failed, or nodes joined (which is none). Of what
they failed may stand in files that are not there; that they failed is known all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from forensics.engine.attempts import RESTART
from forensics.engine.candidates import Candidate
from forensics.engine.finishes import FINISHED
from forensics.engine.steps import Mark, StepClock
from forensics.patterns import lazy
from forensics.step_units import SAMPLES

WITHOUT_STATE = "restart-without-state"  # the entry that says what to do
_VARIES = lazy(r"\d+")
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


class Anew(NamedTuple):
    """Attempts that counted from the first step again."""

    first: int  # the step
    again: tuple[int, ...]  # the attempts
    reached: int  # the last step of the attempt before the last of these


def from_the_start(steps: StepClock) -> Anew | None:
    """The attempts that counted from the first step again, where the attempt before had come further by records.

    Asked is each file that holds several attempts, and none that counts the batches of an epoch; where none holds
    several, the files of the same name but for its numbers, of one attempt each (`attempt1.log`, `attempt2.log`).
    """
    ours = {s: _by_attempt(marks) for s, marks in steps.marks.items() if steps.unit.get(s) not in ("batch", SAMPLES)}
    held = [told for told in ours.values() if len(told) > 1]
    return next((found for told in held or _joined(ours) if (found := _anew(told)) is not None), None)


def _by_attempt(marks: Sequence[Mark]) -> dict[int, list[int]]:
    """Attempt -> its steps in written order."""
    told: dict[int, list[int]] = {}
    for mark in marks:
        if mark.attempt is not None:
            told.setdefault(mark.attempt, []).append(mark.step)
    return told


def _joined(files: Mapping[str, Mapping[int, Sequence[int]]]) -> list[dict[int, Sequence[int]]]:
    """The attempts of files whose paths differ in numbers alone, where there is one file of each."""
    alike: dict[str, list[Mapping[int, Sequence[int]]]] = {}
    for path, told in files.items():
        if told:
            alike.setdefault(_VARIES.sub("0", path), []).append(told)
    joined = [(len(parts), {n: steps for told in parts for n, steps in told.items()}) for parts in alike.values()]
    return [told for parts, told in joined if len(told) == parts]


def _anew(told: Mapping[int, Sequence[int]]) -> Anew | None:
    first = min((s for counts in told.values() for s in counts), default=0)
    again = {
        later: before[-1]
        for (_, before), (later, counts) in pairwise(sorted(told.items()))
        if counts[0] == first and sum(s > first for s in before) >= _LOST
    }
    return Anew(first, tuple(again), list(again.values())[-1]) if again else None


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
    first, again, reached = found
    who = f"Attempt {again[0]}" if len(again) == 1 else f"Attempts {', '.join(map(str, again[:-1]))} and {again[-1]}"
    before = "the one before it" if len(again) == 1 else "the one before the last of them"
    return (
        f"{who} counted from step {first} again, though {before} had come to step {reached:,}: forensics explain"
        f" {WITHOUT_STATE}."
    )
