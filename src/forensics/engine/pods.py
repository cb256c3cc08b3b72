"""Times of pods beside the run's own logs: Kubernetes states UTC, and a log's zone is often not known."""

from __future__ import annotations

from dataclasses import replace

from forensics.model import Observation, RunData

ENDED = "pod"  # capture of what parsers.pods has completed
NEAR = 900.0  # seconds; zones lie half an hour apart and more


def align(data: RunData) -> RunData:
    """The run without the times of pods that nothing in its logs lies near: their zones differ, and no order is known.

    What Kubernetes states stays in the note. A run whose logs bear no time keeps the pod's.
    """
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


def _of_pod(o: Observation) -> bool:
    return ENDED in o.captures and o.time is not None
