"""Times of pods beside the run's own logs: Kubernetes states UTC, logs often no zone, and an event only its age."""

from __future__ import annotations

from dataclasses import replace

from forensics.engine.whose import path_names
from forensics.model import Observation, RunData, Writer

ENDED = "pod"  # capture of what parsers.pods has completed
LOG = "file"  # capture: the log of the run that bears the name of the pod
NEAR = 900.0  # seconds; zones lie half an hour apart and more


def align(data: RunData) -> RunData:
    """The run without the times of pods that nothing in its logs lies near: their zones differ, and no order is known.

    What Kubernetes states stays in the note. A run whose logs bear no time keeps the pod's.
    """
    data = _at_their_ends(data)
    told = [o for o in data.observations if _of_pod(o)]
    if not told:
        return data
    files = {o.evidence[0].file for o in told}
    times = [w.last_time for w in data.writers if w.last_time is not None and w.source not in files]
    if not times:
        return data
    own = [o for o in data.observations if o.time is not None and o.timed and o.evidence[0].file not in files]
    zones = [o.zone_known for o in own] + [t.zone_known for t in data.tracebacks if t.time is not None]
    if zones and all(zones) and all(o.zone_known for o in told):
        return data  # all of them state their zones
    times += [o.time for o in own if o.time is not None]

    def settled(o: Observation) -> Observation:
        if not _of_pod(o) or any(abs(time - (o.time or 0.0)) <= NEAR for time in times):
            return o
        return replace(o, time=None, zone_known=False, timed=False)

    return replace(data, observations=tuple(settled(o) for o in data.observations))


def _at_their_ends(data: RunData) -> RunData:
    """The run whose words on a pod bear the log that is named after it, and, if timeless, the time of its last line.

    `kubectl get events` prints ages. What Kubernetes did to a pod that has a log was done at that log's end.
    """
    if not any(ENDED in o.captures for o in data.observations):
        return data
    logs: dict[str, Writer | None] = {}
    for writer in data.writers:
        for name in path_names(writer.source):
            logs[name] = None if name in logs else writer  # of several nothing follows

    def ended(o: Observation) -> Observation:
        log = logs.get(o.captures.get(ENDED, ""))
        if log is None or log.source == o.evidence[0].file:
            return o
        o = replace(o, captures={**o.captures, LOG: log.source})
        return replace(o, time=log.last_time, timed=log.last_time is not None) if o.time is None else o

    return replace(data, observations=tuple(ended(o) for o in data.observations))


def _of_pod(o: Observation) -> bool:
    return ENDED in o.captures and o.time is not None
