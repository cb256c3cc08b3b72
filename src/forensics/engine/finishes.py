"""Whose end a line tells: what one process says of its own end is no word of what became of the others.

A launcher, a scheduler and a cluster speak of a whole job. `Training finished` speaks of the process that prints it: an
error of another rank stays an error, however much later the line is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from forensics.engine.identity import World
from forensics.engine.steps import StepClock
from forensics.model import Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

FINISHED = "run-finished"
ANYBODYS_END = 0.6  # weight of words for an end that programs of every kind print
EXIT_STATUS = "process-failed"  # what started a program has the last word on it, whatever it had printed before
# Captures of the lines in which something tells of all the processes that it started.
_WHOLE = frozenset({"exits", "job"})
# Steps that another process must record after an error of one that never records any: ranks train together, and those
# that have lost one come to no more than what they had under way.
STEPS_TOGETHER = 5
# The last line of an exception as Python prints it, behind what launchers put before it.
_RAISED = lazy(r"(?:^|^\S{0,80}[\]:|] ?)(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Timeout|Exit)(?:: |$)")


class _Ends:
    """The lines that tell of ends, by file."""

    def __init__(self, finished: Iterable[Candidate]) -> None:
        self._of_file: dict[str, list[Observation]] = {}
        for f in (f for finish in finished for f in finish.observations):
            self._of_file.setdefault(f.evidence[0].file, []).append(f)

    @property
    def known(self) -> bool:
        return bool(self._of_file)

    def near(self, o: Observation) -> Iterator[Observation]:
        """All of them, those of the sign's own file first: of a thousand ranks each has its own there."""
        own = o.evidence[0].file
        yield from self._of_file.get(own, ())
        for file, lines in self._of_file.items():
            if file != own:
                yield from lines


def absolved(c: Candidate, finished: Iterable[Candidate], steps: StepClock, world: World) -> bool:
    """Whether the run's end is said after all signs of a candidate by what can speak for the processes they are of."""
    ends = _Ends(finished)
    return ends.known and all(
        any(later(f, o) and (not _is_grave(o, c) or _speaks_for(f, o, steps, world)) for f in ends.near(o))
        for o in last_of_each_file(c)
    )


def was_over(c: Candidate, finished: Iterable[Candidate], steps: StepClock, world: World) -> bool:
    """Whether the run's end had been said before any sign of a candidate, for each of the processes they are of."""
    if c.signature.name == EXIT_STATUS:
        return False
    ends = _Ends(finished)
    first = list({o.evidence[0].file: o for o in reversed(_in_lines(c))}.values())
    return ends.known and all(
        any(
            later(o, f)
            and (not _is_grave(o, c) or _is_of(f, o, world, steps) or _writes_no_steps(o, steps, world) is not None)
            for f in ends.near(o)
        )
        for o in first
    )


def finished_after(finish: Candidate, observation: Observation, *, same_file: bool = False) -> bool:
    """Whether the run's end is said after an observation: further down in its file, or later by the clock."""
    return any(later(f, observation, same_file=same_file) for f in finish.observations)


def later(after: Observation, before: Observation, *, same_file: bool = False) -> bool:
    """Whether one observation is known to come after another: by lines of one file, else by the clock."""
    a, b = before.evidence[0], after.evidence[0]
    if a.file == b.file and a.line is not None and b.line is not None:
        return b.line > a.line
    if same_file:
        return False
    return after.time is not None and before.time is not None and after.time > before.time


def last_of_each_file(c: Candidate) -> list[Observation]:
    """The signs of a candidate that stand lowest in each file; its clock may have been set back above them."""
    return list({o.evidence[0].file: o for o in _in_lines(c)}.values())


def _in_lines(c: Candidate) -> list[Observation]:
    """The signs of a candidate in the order of their lines, those of one place in the order of their times."""
    return sorted(c.observations, key=lambda o: o.evidence[0].line or 0)


def _is_grave(o: Observation, c: Candidate) -> bool:
    """Whether a sign is one of those that a process does not outlive by itself: fatal, or an exception's last line."""
    return c.signature.severity == "fatal" or _compares(o) or _RAISED.search(o.evidence[0].text) is not None


def _compares(o: Observation) -> bool:
    """Whether a sign was made by comparing ranks: one that ended alone is a part of it."""
    return o.rule is None and bool(o.culprits)


def _speaks_for(finish: Observation, o: Observation, steps: StepClock, world: World) -> bool:
    if _is_of(finish, o, world, steps):
        return True
    rank = _writes_no_steps(o, steps, world)
    return (
        rank is not None
        and not _compares(o)
        and steps.recorded_after(o, finish.evidence[0].file, world.of(finish)) >= STEPS_TOGETHER
    )


def _is_of(finish: Observation, o: Observation, world: World, steps: StepClock) -> bool:
    """Whether a line that tells of an end is of the process that a sign is of, or of the whole job."""
    if finish.identity.rank is None and _WHOLE & finish.captures.keys():
        return True
    if _compares(o):
        return False
    mine, other = world.of(o), world.of(finish)
    if mine is not None and other is not None:
        return mine == other
    here, there = o.evidence[0].file, finish.evidence[0].file
    if here == there:
        return True
    # Two files with steps of their own are of two processes; one without may be the other stream of the same.
    unknown = world.size == 1 or (mine is None and other is None)
    return unknown and not all(steps.marks.get(file) or steps.epochs.get(file) for file in (here, there))


def _writes_no_steps(o: Observation, steps: StepClock, world: World) -> int | None:
    """The rank of a sign whose process records no steps, as all but rank 0 of many programs; else None."""
    rank = world.of(o)
    return rank if rank is not None and not steps.records(rank) else None
