"""Times of pods beside the run's own logs: Kubernetes states UTC, a log's zone is often not known, an event only ages."""

from __future__ import annotations

from dataclasses import replace

from forensics.engine.whose import path_names
from forensics.model import Observation, RunData, Writer

ENDED = "pod"  # capture of what parsers.pods has completed
NEAR = 900.0  # seconds; zones lie half an hour apart and more


def align(data: RunData) -> RunData:
    """The run without the times of pods that nothing in its logs lies near: their zones differ, and no order is known.

    What Kubernetes states stays in the note. A run whose logs bear no time keeps the pod's.
    """
    data = _at_their_ends(data)
    data = _at_the_ends_of_their_logs(data)
    told = [o for o in data.observations if _of_pod(o)]
    if not told:
        return data
    files = {o.evidence[0].file for o in told}
    times = [w.last_time for w in data.writers if w.last_time is not None and w.source not in files]
    if not times:
        return data
    times += [o.time for o in data.observations if o.time is not None and o.timed and o.evidence[0].file not in files]

    def settled(o: Observation) -> Observation:
        if not _of_pod(o) or any(abs(time - (o.time or 0.0)) <= NEAR for time in times):
            return o
        return replace(o, time=None, zone_known=False, timed=False)

    return replace(data, observations=tuple(settled(o) for o in data.observations))


def _at_their_ends(data: RunData) -> RunData:
    """The run whose timeless words on a pod bear the time of the last line of the log that is named after that pod.

    `kubectl get events` prints ages. What Kubernetes did to a pod that has a log was done at that log's end.
    """
    if not any("pod" in o.captures and o.time is None for o in data.observations):
        return data
    ends: dict[str, Writer | None] = {}
    for writer in data.writers:
        if writer.last_time is not None:
            for name in path_names(writer.source):
                ends[name] = None if name in ends else writer  # of several nothing follows

    def ended(o: Observation) -> Observation:
        log = ends.get(o.captures.get("pod", ""))
        if o.time is not None or log is None or log.source == o.evidence[0].file:
            return o
        return replace(o, time=log.last_time, timed=True)

    return replace(data, observations=tuple(ended(o) for o in data.observations))


def _at_the_ends_of_their_logs(data: RunData) -> RunData:
    """The run in which what a cluster tells of a pod without a time is as late as the log that bears the pod's name."""
    pods = {o.captures[ENDED] for o in data.observations if ENDED in o.captures and o.time is None}
    if not pods:
        return data
    last = {name: w for w in data.writers if w.last_time is not None for name in path_names(w.source) & pods}

    def placed(o: Observation) -> Observation:
        writer = last.get(o.captures.get(ENDED, "")) if o.time is None else None
        return o if writer is None else replace(o, time=writer.last_time, timed=True)

    return replace(data, observations=tuple(placed(o) for o in data.observations)) if last else data


def _of_pod(o: Observation) -> bool:
    return ENDED in o.captures and o.time is not None
