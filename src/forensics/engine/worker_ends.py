"""How launchers saw the workers of an attempt end, and which of them ended by itself before all others.

torchelastic's table has a row for each worker that an agent found dead, with a time in whole seconds by the agent's
clock: rows of one host bear one clock, and what bears the same second has no order (the first of them is the one with
the lowest local rank), but for those that the agent says it stopped when it had found the first. srun has a line for
the tasks of a host that ended alike, and ends the others after the first that failed: its lines stand in the order in
which it learned of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forensics.engine.aftermath import GRACE
from forensics.engine.identity import World, task_list
from forensics.engine.order import SAME_CLOCK
from forensics.engine.whose import OF_SIGNALS, TASKS_ENDED, WORKER_EXIT
from forensics.model import Evidence, Observation
from forensics.patterns import lazy

ABORTED, KILLED, STOPPED = -6, -9, -15  # as Python writes an end by SIGABRT, SIGKILL and SIGTERM
TOLD_TO_END, STOPS_WORKERS = "external-sigterm", "sigterm-to-children"
# An agent does so to the workers that live still when it has found one dead (SubprocessContext.close), and says of each
# that it does.
_SENT = lazy(r"(?:Sending process \d+ closing signal|Closing process \d+ via signal) SIGTERM")
_SIGNALS = {"Aborted": ABORTED, "Killed": KILLED, "Terminated": STOPPED}


@dataclass(frozen=True, slots=True)
class End:
    """How one worker ended, as a launcher saw it."""

    rank: int
    code: int  # its exit status; below 0 the signal that ended it
    time: float | None  # seconds since the epoch; None from srun
    node: str | None
    told: Evidence
    sent: bool = False  # it was alive when its agent sent it SIGTERM, as that one says

    @property
    def by_itself(self) -> bool:
        return 0 < self.code < OF_SIGNALS


def ends(observations: Iterable[Observation], attempt: int, world: World) -> tuple[End, ...]:
    """What launchers tell of the ends of workers in one attempt, each rank and status once.

    Where torchelastic tells of them a task of srun's is an agent.
    """
    observations = [o for o in observations if (o.identity.attempt or 0) == attempt]
    sent = _sent(observations)
    found: dict[tuple[int, int], End] = {}
    tasks: dict[tuple[int, int], End] = {}
    for o in observations:
        if o.signature == WORKER_EXIT:
            rank, time = world.of(o), o.time
            if rank is not None:
                code = int(o.captures["exitcode"])
                told_to = code == STOPPED and o.captures.get("pid") in sent
                found[rank, code] = End(rank, code, time, o.identity.node, o.evidence[0], told_to)
        elif world.tasks_are_ranks and (m := TASKS_ENDED.search(o.evidence[0].text)):
            code = _of_srun(m)
            for task in task_list(o):
                tasks.setdefault((task, code), End(task, code, None, o.identity.node, o.evidence[0]))
    return tuple((found or tasks).values())


def _sent(observations: Sequence[Observation]) -> frozenset[str]:
    """The processes to which an agent says that it sent SIGTERM; none where all may have been told to end."""
    if any(o.signature == TOLD_TO_END for o in observations):
        return frozenset()
    return frozenset(
        o.captures["pid"]
        for o in observations
        if o.signature == STOPS_WORKERS and "pid" in o.captures and _SENT.search(o.evidence[0].text)
    )


def _of_srun(m: re.Match[str]) -> int:
    if m["signal"] is not None:
        return _SIGNALS[m["signal"]]
    code = int(m["code"])
    return OF_SIGNALS - code if code > OF_SIGNALS else code  # a shell's 134 stands for SIGABRT


def first_by_itself(told: Sequence[End]) -> End | None:
    """The worker that ended by itself before all others, which follow from that; None where none is known to have."""
    for end in told:
        if end.by_itself and all(_follows(other, end) for other in told if other is not end):
            return end
    return None


def _follows(other: End, first: End) -> bool:
    """Whether a worker ended after another one, and as those do that are told to, or that lost it."""
    if other.code not in (ABORTED, KILLED, STOPPED) and not other.by_itself:
        return False
    if other.sent and other.node == first.node:
        return True
    if other.time is None and first.time is None:
        return other.code < 0 and other.told.is_below(first.told)
    if other.time is None or first.time is None:
        return False
    if other.code == KILLED:
        return other.time - first.time >= GRACE
    return other.time - first.time > (0.0 if other.node == first.node else SAME_CLOCK)


def undecided(told: Sequence[End]) -> bool:
    """Whether workers aborted beside fewer that ended by themselves, or as many, and nothing orders them.

    Watchdogs abort those that lose a peer, and an exception ends those that lose one which aborted.
    """
    own = [end for end in told if end.by_itself]
    aborted = [end for end in told if end.code == ABORTED]
    others = any(end.code not in (ABORTED, STOPPED) and not end.by_itself for end in told)
    if not own or len(aborted) < len(own) or others:
        return False
    return first_by_itself(told) is None and not any(all(_later(o, end) for o in own) for end in aborted)


def _later(other: End, first: End) -> bool:
    if other.time is None or first.time is None:
        return other.told.is_below(first.told)
    return other.time - first.time > (0.0 if other.node == first.node else SAME_CLOCK)
