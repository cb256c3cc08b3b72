"""Logs beside each other that are runs of their own: what one script wrote each time that it was started anew.

`slurm-4700.out` failed, and `slurm-4711.out` is the job that was submitted after it; a script that names its logs by
the day leaves them in one folder. Where the later one goes on from the earlier one they are launches of one run
(`successive`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from forensics.engine.successive import RESUMED, counted, family
from forensics.model import Identity, Kind, RunData, Source
from forensics.patterns import lazy

_DIGITS = lazy(r"\d+")
MOST = 32  # logs; of more it is `triage` that tells
# Numbers that a scheduler gives to jobs, and dates: a rank, a host or a worker has a shorter one.
_JOB = lazy(
    r"(?:^|/)slurm-\d{1,12}\.(?:out|log)$|[-_.]\d{4,12}\.(?:out|log|txt)$|\.o\d{1,12}$"
    r"|(?<!\d)(?:19|20)\d\d[-_.]?(?:0\d|1[0-2])[-_.]?[0-3]\d(?!\d)"
)


def runs(data: RunData) -> dict[str, frozenset[str]]:
    """Each log's path -> its files, in the order of the runs, where all that train here are runs one after the other.

    They have one name but for the number or date of the job, lie in one folder, each counts its steps from the first
    one, none goes on from a checkpoint, and no two speak at one time. Empty where any of this is not so.
    """
    logs = {s.path: s for s in data.sources if s.kind is Kind.LOG}
    if sum(map(_is_job, logs.values())) < 2:
        return {}
    counts = counted(data, logs)
    training = [logs[path] for path in logs if path in counts]
    if not 2 <= len(training) <= MOST or not all(map(_is_job, training)):
        return {}
    if len({(family(s.path), s.path.rpartition("/")[0]) for s in training}) != 1:
        return {}
    if data.metrics["rank"].drop_nulls().n_unique() > 1:  # ranks of one run
        return {}
    files = {s.path: frozenset(path for path in logs if _number(path) == _number(s.path)) for s in training}
    paths = frozenset[str]().union(*files.values())
    if sum(map(len, files.values())) > len(paths):
        return {}
    metrics = set(data.metrics["source"].unique().to_list())
    if metrics - paths or any(o.signature == RESUMED and o.evidence[0].file in paths for o in data.observations):
        return {}
    if any(counts[s.path].first > counts[s.path].stride for s in training):
        return {}
    # What lies beside the logs, a kernel's or a dump, would be lost to a report of one of them.
    return {path: files[path] for path in _in_order(data, training)} if _nothing_else_speaks(data, paths) else {}


def _number(path: str) -> tuple[str, ...]:
    """What tells the files of one job from those of another: its number, which its two streams share."""
    return tuple(_DIGITS.findall(path))


def _is_job(source: Source) -> bool:
    return replace(source.identity, stream=None) == Identity() and _JOB.search(source.path) is not None


def _in_order(data: RunData, logs: Sequence[Source]) -> list[str]:
    """The logs by time, where no two overlap; by name where their lines bear no time, and their names are dates."""
    spans = {
        w.source: (w.first_time, w.last_time)
        for w in data.writers
        if w.first_time is not None and w.last_time is not None
    }
    paths = [s.path for s in logs]
    if not any(path in spans for path in paths):
        return sorted(paths)
    if not all(path in spans for path in paths):
        return []
    ordered = sorted(paths, key=lambda path: spans[path])
    return ordered if all(spans[a][1] < spans[b][0] for a, b in pairwise(ordered)) else []


def _nothing_else_speaks(data: RunData, paths: frozenset[str]) -> bool:
    """Whether all signs, tracebacks and dumps are in these logs."""
    files = {t.header.file for t in data.tracebacks} | {o.evidence[0].file for o in data.observations if o.evidence}
    return not data.collectives.height and files <= paths
