"""Whose records are of a run that had come to its end: what starts after it has made no step of its own by them.

Runs whose output is appended to one file are told apart as attempts (`attempts`). Files of their own are so only where
one script wrote them for the same process, and the later one begins after the earlier one had said that it ended: a
peer, the other stream or the teardown of the same run may speak late as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from forensics.engine.attempts import PAUSE, SURE_END, spans_of
from forensics.engine.finishes import FINISHED
from forensics.engine.steps import StepClock
from forensics.engine.successive import SLURM_LOG, family
from forensics.model import Identity, Kind, Observation, RunData, Source


def knowing_ends(clock: StepClock, data: RunData) -> StepClock:
    """The clock of a run's steps, knowing which of its records are of runs that had ended."""
    ends = _ends(clock, data.observations)
    return replace(clock, ends=ends, earlier=_earlier(ends, data)) if ends else clock


def _ends(clock: StepClock, observations: Iterable[Observation]) -> dict[str, list[tuple[int, int | None]]]:
    """File -> (line, attempt) of each sure word of its end, where no later record is of the same attempt."""
    last: dict[tuple[str, int | None], int] = {}
    for source, marks in clock.marks.items():
        for m in marks:
            key = (source, m.attempt)
            last[key] = max(last.get(key, 0), m.line or 0)
    found: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for o in observations:
        file, line, attempt = o.evidence[0].file, o.evidence[0].line, o.identity.attempt
        if o.signature == FINISHED and o.weight >= SURE_END and line and line > last.get((file, attempt), 0):
            found[file].append((line, attempt))
    return dict(found)


def _earlier(ends: Iterable[str], data: RunData) -> Mapping[str, frozenset[str]]:
    """Log -> the logs of earlier runs of the same script that had ended before it began."""
    known = spans_of(data)
    logs = [s for s in data.sources if s.kind is Kind.LOG and s.path in known]
    ended = {s.path for s in logs} & set(ends)
    of_family: dict[tuple[str, Identity], list[Source]] = defaultdict(list)
    for s in logs if ended else ():
        of_family[family(s.path), replace(s.identity, attempt=None)].append(s)
    found: dict[str, frozenset[str]] = {}
    for group in of_family.values():
        for before in (s.path for s in group if s.path in ended):
            for after in (s.path for s in group if s.path != before):
                pause = known[after][0] - known[before][1]
                if pause > (0.0 if _other_job(before, after) else PAUSE):
                    found[after] = found.get(after, frozenset()) | {before}
    return found


def _other_job(path: str, other: str) -> bool:
    """Whether two logs bear the numbers of two Slurm jobs."""
    a, b = SLURM_LOG.search(path), SLURM_LOG.search(other)
    return a is not None and b is not None and a[1] != b[1]
