"""Which logs are successive launches of one run: a later file goes on from where an earlier one broke off.

A scheduler that requeues a job, a user who submits it again and a cluster that starts another pod write a new file each
time. Two runs that lie side by side look much alike, and to join them tells a wrong story: files are launches of one
run only where their times lie apart, the same processes wrote them, and the later one takes up the earlier one's count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from forensics.engine.few import Row, few
from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.whose import without_stream
from forensics.model import Identity, Kind, Observation, RunData, Source
from forensics.patterns import lazy

RESUMED = "run-resumed"
# What differs between names of files that one script writes at each launch: numbers, dates, and what pods end in.
_VARIES = lazy(r"\d+")
_POD = lazy(r"(?<=-)(?=[a-z]*\d)[a-z0-9]{3,10}(?=[./_]|$)")
_NUMBER = lazy(r"\d+")
SLURM_LOG = lazy(r"(?:^|/)slurm-(\d{1,12})\.(?:out|err|log)$")


class Count(NamedTuple):
    """The steps that a log records, in the order of its lines."""

    line: int  # of the first one
    first: int
    highest: int
    stride: int  # the largest interval between two of them
    names: frozenset[str]  # of the metrics that it holds


class _Log(NamedTuple):
    """A log that training wrote: when it speaks, and what it counts."""

    path: str
    slot: tuple[object, ...]  # the process that wrote it by the file's identity; its name alone where it has none
    low: float | None  # seconds since the epoch; None where its lines bear no time
    high: float | None
    counts: Count | None  # None where it counts none
    resumed: tuple[Observation, ...]  # what it says of going on from a checkpoint before its first step
    ended: bool  # whether it says that it reached its end


def launches(data: RunData, spans: Mapping[str, tuple[float, float]]) -> list[tuple[str, ...]]:
    """The logs of each launch in the order of time, where several files are launches of one run; else nothing.

    spans: source -> first and last time of what it holds (seconds since the epoch). Where a log bears no time at all,
    the numbers of their jobs order them (`_by_job`).
    """
    logs = _logs(data, spans)
    groups = _apart(_by_job(logs) if any(log.low is None for log in logs) else logs)
    if len(groups) < 2 or not all(_goes_on(a, b) for a, b in pairwise(groups)):
        groups = _submitted_again(logs, data, spans)
    return _with_other_streams([tuple(log.path for log in group) for group in groups], data)


def _submitted_again(logs: Sequence[_Log], data: RunData, spans: Mapping[str, tuple[float, float]]) -> list[list[_Log]]:
    """The logs of jobs that raised an exception before their first step, and of the job that was submitted after them
    and trained; nothing where any log of a Slurm job here is something else."""
    files: dict[tuple[str, int], list[str]] = defaultdict(list)  # folder, job -> its streams
    for s in data.sources:
        if s.kind is Kind.LOG and replace(s.identity, stream=None) == Identity() and (m := SLURM_LOG.search(s.path)):
            files[s.path[: m.start()], int(m[1])].append(s.path)
    if len(files) < 2 or len({folder for folder, _ in files}) != 1 or len(logs) != 1 or logs[0].counts is None:
        return []
    (*before, last), trained = sorted(files), logs[0]
    if trained.path not in files[last] or trained.low is None or trained.ended:
        return []  # what a run that reached its end got over is none of its attempts
    raised = {t.final.file for t in data.tracebacks if t.chained != "ignored"}
    ended = {o.evidence[0].file for o in data.observations if o.signature == FINISHED and o.weight > ANYBODYS_END}
    for job in before:
        over = max((spans[path][1] for path in files[job] if path in spans), default=None)
        if over is None or over >= trained.low or raised.isdisjoint(files[job]) or not ended.isdisjoint(files[job]):
            return []
    return [*([trained._replace(path=path) for path in files[job]] for job in before), [trained]]


def _with_other_streams(groups: Sequence[tuple[str, ...]], data: RunData) -> list[tuple[str, ...]]:
    """The logs of each launch with those of the same names that hold its other stream, which often count nothing."""
    placed = {path for group in groups for path in group}
    of_stem: dict[str, set[int]] = defaultdict(set)
    for n, group in enumerate(groups):
        for path in group:
            of_stem[without_stream(path)].add(n)
    more: dict[int, list[str]] = defaultdict(list)
    for s in data.sources:
        if s.kind is Kind.LOG and s.identity.attempt is None and s.path not in placed:
            told = of_stem.get(without_stream(s.path), set())
            if len(told) == 1:
                more[next(iter(told))].append(s.path)
    return [(*group, *more[n]) for n, group in enumerate(groups)]


def _logs(data: RunData, spans: Mapping[str, tuple[float, float]]) -> list[_Log]:
    """The logs that count steps, or go on from a checkpoint; what speaks of other processes is none of them."""
    candidates = {s.path: s for s in data.sources if s.kind is Kind.LOG and s.identity.attempt is None}
    steps = counted(data, candidates)
    resumed: dict[str, list[Observation]] = defaultdict(list)
    ended: set[str] = set()
    for o in data.observations:
        key = o.evidence[0]
        if o.signature == RESUMED and key.line is not None:
            count = steps.get(key.file)
            if count is None or key.line < count.line:
                resumed[key.file].append(o)
        elif o.signature == FINISHED and o.weight > ANYBODYS_END:
            ended.add(key.file)
    found = []
    for path, source in candidates.items():
        if path in steps or resumed[path]:
            low, high = spans.get(path, (None, None))
            found.append(_Log(path, _slot(source), low, high, steps.get(path), tuple(resumed[path]), path in ended))
    return found


def _by_job(logs: Sequence[_Log]) -> list[_Log]:
    """The logs with the number of their Slurm job for their time; none where they are not all named after one.

    Slurm numbers jobs in the order in which they are submitted (slurm-%j.out, sbatch's default). Times that some of the
    logs bear must not say otherwise. Logs without a time and without such a name are left out, as they tell no order.
    """
    numbered = [(int(m[1]), log) for log in logs if (m := SLURM_LOG.search(log.path)) is not None]
    if len(numbered) < len(logs):
        return [log for log in logs if log.low is not None]
    ordered = [log for _, log in sorted(numbered, key=lambda pair: pair[0])]
    times = [log.low for log in ordered if log.low is not None]
    if times != sorted(times):
        return [log for log in ordered if log.low is not None]
    return [log._replace(low=float(n), high=float(n)) for n, log in numbered]


def counted(data: RunData, candidates: Collection[str]) -> dict[str, Count]:
    """What each of some sources counts, of those that count steps."""
    if not data.metrics.height or not candidates:
        return {}
    if (small := few(data.metrics)) is not None:
        return _counted(small, candidates)
    import polars as pl

    step = pl.col("step")
    rows = (
        data.metrics.filter(
            pl.col("source").is_in(list(candidates)) & step.is_not_null() & pl.col("line").is_not_null()
        )
        .group_by("source", maintain_order=True)
        .agg(
            pl.col("line").first(),
            step.first(),
            step.max().alias("highest"),
            step.diff().max().alias("stride"),
            pl.col("name").unique().alias("names"),
        )
    )
    return {
        source: Count(line, first, highest, max(stride or 1, 1), frozenset(names))
        for source, line, first, highest, stride, names in rows.iter_rows()
    }


def _counted(rows: Sequence[Row], candidates: Collection[str]) -> dict[str, Count]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.step is not None and row.line is not None and row.source in candidates:
            found.setdefault(row.source, []).append(row)
    counts = {}
    for source, held in found.items():
        steps = [row.step or 0 for row in held]
        stride = max((b - a for a, b in pairwise(steps)), default=1)
        counts[source] = Count(
            held[0].line or 0, steps[0], max(steps), max(stride, 1), frozenset(row.name for row in held)
        )
    return counts


def _slot(source: Source) -> tuple[object, ...]:
    i: Identity = source.identity
    if i == Identity():
        return (family(source.path),)
    return i.rank, i.local_rank, i.task, i.stream


def _without_task(slot: tuple[object, ...]) -> tuple[object, ...]:
    """A slot without the number in the file's name, where it has one; a name alone stays as it is."""
    return slot if len(slot) == 1 else (*slot[:2], *slot[3:])


def family(path: str) -> str:
    """A path without what differs from launch to launch."""
    return _VARIES.sub("#", _POD.sub("#", path))


def _apart(logs: Sequence[_Log]) -> list[list[_Log]]:
    """The logs in groups whose times do not overlap, the earliest first."""
    groups: list[list[_Log]] = []
    end = 0.0
    dated = [(log.low, log.high, log) for log in logs if log.low is not None and log.high is not None]
    for low, high, log in sorted(dated, key=lambda entry: entry[0]):
        if groups and low <= end:
            groups[-1].append(log)
        else:
            groups.append([log])
        end = max(end, high)
    return groups


def _goes_on(before: Sequence[_Log], after: Sequence[_Log]) -> bool:
    """Whether a group of logs is the launch that follows another one of the same run."""
    done = [log.counts for log in before if log.counts is not None]
    if not done or any(log.ended for log in before) or not _same_processes(before, after):
        return False
    low, high, stride = min(c.first for c in done), max(c.highest for c in done), max(c.stride for c in done)
    alike = not {family(log.path) for log in before}.isdisjoint(family(log.path) for log in after)
    resumed = [o for log in after for o in log.resumed]
    counts = [log.counts for log in after if log.counts is not None]
    if not counts:
        return alike and any(_leads_into(o, low, high + stride) for o in resumed)
    if not _names(done) & _names(counts):
        return False  # an evaluation, or something else that counts
    begun, past = min(c.first for c in counts), max(c.highest for c in counts) > high
    # What resumes may die at once; what says nothing of a checkpoint, or bears another name, has to get past the end.
    if resumed:
        # A checkpoint is at most a record past the last one, and the first record at most one past the checkpoint.
        named = any(_leads_into(o, low, high + stride) for o in resumed)
        return low < begun <= high + (2 if named else 1) * stride and (alike or past)
    # It repeats steps, as a rotated file does not.
    return alike and past and low < begun <= high


def _names(counts: Sequence[Count]) -> frozenset[str]:
    return frozenset[str]().union(*(c.names for c in counts))


def _same_processes(before: Sequence[_Log], after: Sequence[_Log]) -> bool:
    """Whether the files of two groups are of the same processes; a launch may lack some."""
    if len(before) == len(after) == 1 and _without_task(before[0].slot) == _without_task(after[0].slot):
        return True  # "log_0.out", "log_1.out": the number counts launches as well as tasks
    if len(before) == len(after) == 1 and before[0].slot[1:] == after[0].slot[1:] == ():
        return True
    one, other = Counter(log.slot for log in before), Counter(log.slot for log in after)
    return one <= other or other <= one


def _leads_into(o: Observation, low: int, high: int) -> bool:
    """Whether a checkpoint is of a step that an earlier launch had reached; by the numbers in its path, if need be."""
    if o.step is not None:
        return low <= o.step <= high
    if o.captures.get("step", "").isdecimal():
        return low <= int(o.captures["step"]) <= high
    return any(low < int(n) <= high for n in _NUMBER.findall(o.evidence[0].text) if len(n) < 12)
