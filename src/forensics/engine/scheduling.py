"""Whether a pod that the scheduler could not place got its node after all.

A pod is given a node once, and keeps it. That the scheduler failed is therefore over where anything that only a pod
with a node can bring about came later: the scheduler's own word, a container that was started, a log of the pod. It is
what kept a run from running only where nothing of the kind is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from forensics.engine.whose import path_names
from forensics.model import Observation, RunData

UNPLACED, PLACED, DELAYED = "pod-unschedulable", "pod-placed", "pod-start-delays"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# The age of an event as kubectl prints it (apimachinery's duration.HumanDuration), with "(x6 over 40m)" where it was
# seen more than once: the first number is how long ago it was seen last.
_AGE = re.compile(
    r"(?:^|\s)(?P<age>(?:\d{1,6}[smhd]){1,2})(?: \(x\d{1,9} over (?P<over>(?:\d{1,6}[smhd]){1,2})\))?(?=\s|$)", re.ASCII
)
# Seconds after which the scheduler itself tries again a pod that it could not place, whatever has changed since
# (kube-scheduler's DefaultPodMaxInUnschedulablePodsDuration). Before that a pod waits, as every pod does.
TRIED_AGAIN = 300


class _Seen(NamedTuple):
    """When something was told of a pod; None where it is not told so."""

    time: float | None  # seconds since the epoch
    ago: int | None  # seconds before the listing was made

    @classmethod
    def of(cls, o: Observation) -> _Seen:
        age = _age(o.evidence[0].text)
        return cls(o.time if o.timed else None, seconds(age["age"]) if age is not None else None)

    def before(self, other: _Seen) -> bool:
        """Whether this is known to be earlier than the other."""
        if self.time is not None and other.time is not None:
            return self.time < other.time
        return self.ago is not None and other.ago is not None and self.ago > other.ago


def settled(data: RunData) -> RunData:
    """The run with one sign of a pod that could not be scheduled: the failure, or the delay that it got over.

    Of a run that recorded metrics it is a delay: the processes that it needed were there.
    """
    failed = [o for o in data.observations if o.signature == UNPLACED]
    if not failed:
        return data
    logs = {name for w in data.writers for name in path_names(w.source)} - {
        name for o in failed for name in path_names(o.evidence[0].file)
    }
    placed = [o for o in data.observations if o.signature == PLACED]
    trained = data.metrics.height > 0
    waited = {_of(o) for o in failed if (since := first_seen(o.evidence[0].text)) is None or since >= TRIED_AGAIN}
    over = {id(o) for o in failed if trained or _of(o) not in waited or _pod(o) in logs or got_a_node(o, placed)}
    lines = {o.evidence[0] for o in failed if id(o) not in over}

    def kept(o: Observation) -> bool:
        if o.signature == UNPLACED:
            return id(o) not in over
        return o.signature != DELAYED or o.evidence[0] not in lines

    return replace(data, observations=tuple(o for o in data.observations if kept(o)))


def got_a_node(failed: Observation, placed: Iterable[Observation]) -> bool:
    """Whether one of the signs that a pod has a node is of the same pod, and not known to be earlier.

    Earlier ones are of a pod of the same name that was there before it.
    """
    seen = _Seen.of(failed)
    return any(_of(failed) == _of(o) and not _Seen.of(o).before(seen) for o in placed)


def first_seen(row: str) -> int | None:
    """Seconds between the first time that a row of events tells of and the listing; None where it bears no age."""
    age = _age(row)
    return seconds(age["over"] or age["age"]) if age is not None else None


def _age(row: str) -> re.Match[str] | None:
    """The age in a row of events. That of a row of pods is the pod's own, and tells nothing of its status."""
    return _AGE.search(row[:300]) if "Warning" in row or "Normal" in row else None


def seconds(age: str) -> int:
    """The seconds of an age such as "2m30s"."""
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smhd])", age))


def _pod(o: Observation) -> str | None:
    return o.captures.get("pod")


def _of(o: Observation) -> tuple[str, str]:
    """The pod of a sign; signs of a text that names none are of one."""
    pod = _pod(o)
    return ("pod", pod) if pod is not None else ("file", o.evidence[0].file)
