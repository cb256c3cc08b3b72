"""Which launch of the run is it, where one file holds several: what stands behind a new start is a later attempt.

A file holds several attempts where output is appended (`tee -a`), where a scheduler requeues the job, or where a
launcher restarts its workers. A boundary needs a death, a line with which a launcher says that it starts or restarts
processes, a program that introduces itself again and counts from its first step (with other numbers, only after a long
pause), or one that counts from there right below words for a stop: resumes at the beginning, epochs, evaluation loops
and progress bars that begin anew are none.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.banners import Again, repeats
from forensics.engine.few import Row, distinct, few
from forensics.engine.identity import HOST_DOWN
from forensics.engine.peers import LOST_PEER
from forensics.engine.successive import launches as successive
from forensics.engine.survival import CLOCK_SLACK, DEATHS, STEPS_AFTER_DEATH
from forensics.engine.whose import Sections
from forensics.model import Identity, Kind, Observation, RunData, Source, Traceback
from forensics.signatures.schema import Signature

if TYPE_CHECKING:
    import polars as pl

RESTART = "worker-group-restarted"
LAUNCH = "run-launched"
STARTS = ("run-started", "run-resumed")
# What processes print while they are set up: alone no proof of a new start, as later process groups print it too.
SIGNS = ("nccl-init", "world-size", "rank-announced", "started-without-checkpoint", "rank-mapping")
# Of these, what each process prints once: a second time in a file it is of another process.
ONCE = ("world-size", "rank-announced", "started-without-checkpoint")
SURE_STOP = 0.85  # weight of words for a stop that a process does not outlive: a scheduler's, an agent's
SURE_START = 0.75  # weight of words for a start that loops over epochs or folds do not print
ENDS = ("run-finished", "stopped-by-budget")
# Sentences such as "done" also end what comes before training (downloads, builds).
SURE_END = 0.75
# A launcher says that it will restart its workers before it has stopped them: these may print some more steps.
LOOK = 50  # events
LAST_STEPS = 10
# Processes start at once after a restart, and their lines in other files bear other hosts' clocks (seconds).
BEFORE_START = 30.0
# Ranks of one start introduce themselves within seconds: what does so later (seconds) was started again.
STARTED_AGAIN = 60.0
# A pause between two steps that is none of training's own: so many of its longest intervals, and seconds.
PAUSES, PAUSE = 10, 1800.0
# torchelastic's agent, whose pid stands before, ends a round of its workers.
ROUND_ENDS, _ROUND = "failed (exitcode", re.compile(r"\b(\d+) torch/distributed/elastic/\S+\] failed \(exitcode")
BETWEEN = 3  # lines: workers that start and fail print more
FEWEST_STEPS = 3  # records of a counter by which its interval is known


class Boundary(NamedTuple):
    """Where an attempt begins in a file."""

    line: int  # its first line
    ended: float | None = None  # last known time before it (seconds since the epoch)
    began: float | None = None  # first known time from it on; None where only older times are carried on
    zone_known: bool = False

    @property
    def cut(self) -> float | None:
        """The time that parts the attempts in other files; None where it is not known."""
        if self.began is None:
            return None
        gap = self.began - self.ended if self.ended is not None else 0.0
        return self.began - min(BEFORE_START, max(gap, 0.0) / 2)


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a file that tells of starts and ends.

    kind: restart, launch, banner, alike (a banner with other numbers), anew (a banner that stands clearly later),
    start, sign, death, stop (words for one that a process may outlive, or that may be another's), raised (an exception,
    which may have been caught), failed (what ends a run, if it is the run's), end or step.
    """

    line: int
    kind: str
    time: float | None = None
    zone_known: bool = False
    timed: bool = False  # the time is the line's own, and not that of an earlier one
    step: int | None = None
    epoch: float | None = None
    rank: int | None = None
    count: str | None = None  # of a restart: the attempts that are left
    total: float | None = None  # of a step: where the counter ends, as it says itself
    said: str | None = None  # of a start or sign: what says so, where a process says it once


class Launches(NamedTuple):
    """The attempts that share files: where each begins."""

    found: Mapping[str, Sequence[Boundary]]
    by: tuple[str, tuple[float, ...]] | None  # a file and the times of its boundaries, which place other files' lines
    zone_known: bool
    spans: Mapping[str, tuple[float, float]]  # source -> first and last time of what it holds
    unnumbered: frozenset[str]  # sources whose path names no attempt
    first: Mapping[str, int] = MappingProxyType({})  # source -> its first attempt, where files follow each other

    def by_line(self, file: str, line: int | None) -> int | None:
        """The attempt of a line of a file that holds several, or of one of several; None where it tells of all."""
        if file in self.first and (line is None or file not in self.found):
            return self.first[file]
        if line is None or file not in self.found:
            return None
        return self.first.get(file, 0) + bisect_right([b.line for b in self.found[file]], line)

    def by_time(self, file: str, time: float | None, zone_known: bool) -> int | None:
        """The attempt of a line of another file; None where clocks do not tell.

        Only for files that were written at the same time by the same kind of clock: zones may be hours apart.
        """
        if self.by is None or time is None or file not in self.unnumbered or zone_known != self.zone_known:
            return None
        # A kernel's log has no span: each of its lines stands for itself.
        (low, high), (begin, end) = self.spans.get(file, (time, time)), self.spans.get(self.by[0], (0.0, 0.0))
        if low > end + CLOCK_SLACK or high < begin - CLOCK_SLACK:
            return None
        return bisect_right(self.by[1], time)

    def placed(self, identity: Identity, file: str, line: int | None, time: float | None, zone_known: bool) -> Identity:
        attempt = self.by_line(file, line)
        if attempt is None and identity.attempt is None:
            attempt = self.by_time(file, time, zone_known)
        return identity if attempt is None else replace(identity, attempt=attempt)


def find(data: RunData, catalogue: Mapping[str, Signature]) -> Launches | None:
    """The attempts that share files, or follow each other in several; None where there is but one.

    Files whose path names an attempt hold one.
    """
    unnumbered = frozenset(s.path for s in data.sources if s.identity.attempt is None)
    streams = events(data, catalogue, unnumbered)
    logs = {s.path: s for s in data.sources if s.kind is Kind.LOG and s.path in streams}
    found = {path: b for path, stream in streams.items() if (b := boundaries(_introduced(stream, logs.get(path))))}
    spans = spans_of(data)
    if files := successive(data, spans):
        return _of_files(files, found, spans, unnumbered)
    if not found:
        cuts = _cuts_of_folders(data, spans)
        if not cuts:
            return None
        whole = (min(low for low, _ in spans.values()), max(high for _, high in spans.values()))
        return Launches({}, ("", cuts), False, {**spans, "": whole}, unnumbered)
    most = max(len(b) for b in found.values())
    dated = [
        (path, cuts, b[0].zone_known)
        for path, b in sorted(found.items())
        if len(cuts := tuple(c for x in b if (c := x.cut) is not None)) == most
    ]
    path, cuts, zone_known = dated[0] if dated else ("", (), False)
    return Launches(found, (path, cuts) if dated else None, zone_known, spans, unnumbered)


def _of_files(
    files: Sequence[Sequence[str]],
    found: Mapping[str, Sequence[Boundary]],
    spans: Mapping[str, tuple[float, float]],
    unnumbered: frozenset[str],
) -> Launches:
    """The attempts of launches that wrote files of their own, each of which may hold several attempts."""
    first: dict[str, int] = {}
    cuts: list[float | None] = []
    ended: float | None = None
    for n, group in enumerate(files):
        known = [spans[path] for path in group if path in spans]
        began = min((low for low, _ in known), default=None)
        if n and (began is None or ended is None):
            cuts.append(None)
        elif began is not None and ended is not None:
            cuts.append(began - min(BEFORE_START, (began - ended) / 2))
        first |= dict.fromkeys(group, len(cuts))
        within = max((found.get(path, ()) for path in group), key=len)
        cuts += [b.cut for b in within]
        ended = max((high for _, high in known), default=None)
    dated = tuple(c for c in cuts if c is not None)
    told = [spans[path] for path in first if path in spans] or [(0.0, 0.0)]
    whole = (min(low for low, _ in told), max(high for _, high in told))
    by = ("", dated) if len(dated) == len(cuts) else None
    return Launches(found, by, False, {**spans, "": whole}, unnumbered, first)


def _introduced(stream: Sequence[Event], source: Source | None) -> Sequence[Event]:
    """The events of a file with those of a program that introduces itself again."""
    if source is None:
        return stream
    ends = next((e.line for e in stream if e.kind in ("step", "failed")), None)
    again = [Event(a.line, _of_banner(a)) for a in repeats(source, ends)]
    return sorted([*stream, *again], key=_in_order) if again else stream


def _of_banner(again: Again) -> str:
    if not again.same:
        return "alike"
    return "anew" if again.later is not None and again.later >= STARTED_AGAIN else "banner"


def _in_order(e: Event) -> tuple[int, bool]:
    return e.line, e.kind != "step"


def _cuts_of_folders(data: RunData, spans: Mapping[str, tuple[float, float]]) -> tuple[float, ...]:
    """The times that part attempts whose paths number them (attempt_0, attempt_1, ...); empty where they overlap.

    A launcher's own log lies beside such folders, and speaks of all of them.
    """
    of_attempt: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for source in data.sources:
        if source.identity.attempt is not None and source.path in spans:
            of_attempt[source.identity.attempt].append(spans[source.path])
    if len(of_attempt) < 2 or set(of_attempt) != set(range(len(of_attempt))):
        return ()
    times = [(min(a for a, _ in of_attempt[n]), max(b for _, b in of_attempt[n])) for n in range(len(of_attempt))]
    if any(begin < end for (_, end), (begin, _) in pairwise(times)):
        return ()
    return tuple(begin - min(BEFORE_START, (begin - end) / 2) for (_, end), (begin, _) in pairwise(times))


def number(data: RunData, launches: Launches | None) -> RunData:
    """The run with the attempt of every observation, traceback and metric row, as far as it is known."""
    if launches is None:
        return data
    return replace(
        data,
        sources=tuple(
            replace(s, identity=replace(s.identity, attempt=launches.first[s.path]))
            if s.path in launches.first and s.path not in launches.found
            else s
            for s in data.sources
        ),
        observations=tuple(renumber(data.observations, launches)),
        tracebacks=tuple(
            replace(t, identity=launches.placed(t.identity, t.header.file, t.header.line, t.time, t.zone_known))
            for t in data.tracebacks
        ),
        metrics=_rows(data, launches),
    )


def renumber(observations: Sequence[Observation], launches: Launches | None) -> list[Observation]:
    """Observations with the attempt of their key line; those made of numbers may span two attempts."""
    if launches is None:
        return list(observations)
    return [
        replace(o, identity=launches.placed(o.identity, o.evidence[0].file, o.evidence[0].line, o.time, o.zone_known))
        for o in observations
    ]


def events(data: RunData, catalogue: Mapping[str, Signature], paths: Iterable[str]) -> dict[str, list[Event]]:
    """The events of each of these files, in the order of their lines."""
    streams: dict[str, list[Event]] = {path: [] for path in paths}
    sections = Sections(data.observations)  # in which a launcher repeats at its end what each rank had written
    for o in data.observations:
        key = o.evidence[0]
        kind = _kind(o, catalogue)
        if kind is None or sections.rank(key.file, key.line) is not None:
            continue
        if key.line is not None and key.file in streams:
            streams[key.file].append(
                Event(
                    key.line, kind, o.time, o.zone_known, o.timed, rank=o.identity.rank,
                    count=o.captures.get("left"), said=_said_once(o),
                )
            )  # fmt: skip
    for t in data.tracebacks:
        if sections.rank(t.header.file, t.header.line) is not None:
            continue
        if t.final.line is not None and t.header.file in streams and t.chained is None:
            kind = "death" if _uncaught(t) else "raised"
            streams[t.header.file].append(Event(t.final.line, kind, t.time, t.zone_known))
    for path, rounds in _rounds(data.observations).items():
        if path in streams and not any(e.kind == "restart" for e in streams[path]):
            streams[path] += rounds
    told = {path for path, stream in streams.items() if any(e.kind in ("restart", "launch", "death") for e in stream)}
    # Of a failure that may be anybody's only a program that introduces itself again before any step tells more.
    failed = {path for path, stream in streams.items() if any(e.kind == "failed" for e in stream)} - told
    failed -= set(distinct(data.metrics["source"])) if failed and data.metrics.height else set()
    told |= failed
    if data.metrics.height:
        told |= _counting_anew(data.metrics) & streams.keys()
    if data.metrics.height and told:
        recorded = _recorded(data.metrics, told)
        for path, line, time, step, epoch, rank in recorded.steps:
            totals = recorded.totals.get(path, ())
            at = bisect_right(totals, (line, float("inf")))
            total = totals[at - 1][1] if at else None
            streams[path].append(Event(line, "step", time, step=step, epoch=epoch, rank=rank, total=total))
    return {
        path: sorted((e for e in streams[path] if e.kind != "failed" or path in failed), key=_in_order)
        for path in streams
        if path in told
    }


def _rounds(observations: Iterable[Observation]) -> dict[str, list[Event]]:
    """Path -> the restarts that an agent makes without a word, unless its log level is INFO.

    It says once a round which of its workers failed: where one agent says so again, it has started them anew.
    """
    ends: dict[str, dict[str, dict[int, Event]]] = defaultdict(lambda: defaultdict(dict))
    for o in observations:
        key = o.evidence[0]
        if key.line is not None and ROUND_ENDS in key.text and (m := _ROUND.search(key.text)):
            ends[key.file][m[1]][key.line] = Event(key.line, "restart", o.time, o.zone_known, o.timed)
    found = {}
    for path, agents in ends.items():
        most = max(agents.values(), key=len)  # agents of other hosts speak of the same rounds
        if again := [most[a] for a, b in pairwise(sorted(most)) if b - a > BETWEEN]:
            found[path] = again
    return found


class _Recorded(NamedTuple):
    """What sources record of steps, and of where their counters end."""

    steps: Iterable[
        tuple[str, int, float | None, int, float | None, int | None]
    ]  # source, line, time, step, epoch, rank
    totals: Mapping[str, Sequence[tuple[int, float]]]  # source -> (line, total) in the order of lines


def _recorded(metrics: pl.DataFrame, sources: Collection[str]) -> _Recorded:
    """What sources record in lines: each step of a line and rank once."""
    totals: dict[str, list[tuple[int, float]]] = defaultdict(list)
    if (small := few(metrics)) is not None:
        ours = [row for row in small if row.line is not None and row.source in sources]
        stated = [
            (row.source, row.line, row.value)
            for row in ours
            if row.name == "total_steps" and row.value is not None and math.isfinite(row.value)
        ]
        for source, line, total in sorted(stated, key=lambda one: one[1] or 0):
            totals[source].append((line or 0, total))
        steps: dict[tuple[object, ...], Row] = {}
        for row in ours:
            if row.step is not None:
                steps.setdefault((row.source, row.line, row.step, row.rank), row)
        return _Recorded(
            ((r.source, r.line or 0, r.time, r.step or 0, r.epoch, r.rank) for r in steps.values()), totals
        )
    import polars as pl

    held = metrics.filter(pl.col("source").is_in(list(sources)) & pl.col("line").is_not_null())
    ends = held.filter((pl.col("name") == "total_steps") & pl.col("value").is_finite())
    for source, line, total in ends.select("source", "line", "value").sort("line", maintain_order=True).iter_rows():
        totals[source].append((line, total))
    rows = (
        held.filter(pl.col("step").is_not_null())
        .unique(["source", "line", "step", "rank"], keep="first", maintain_order=True)
        .select("source", "line", "time", "step", "epoch", "rank")
    )
    return _Recorded(rows.iter_rows(), totals)


def _counting_anew(metrics: pl.DataFrame) -> set[str]:
    """The sources in which a step that is no later than the first one follows a later one."""
    if (small := few(metrics)) is not None:
        first: dict[str, int] = {}
        past: set[str] = set()
        anew: set[str] = set()
        for row in small:
            if row.step is None or row.line is None:
                continue
            if row.step > first.setdefault(row.source, row.step):
                past.add(row.source)
            elif row.source in past:
                anew.add(row.source)
        return anew
    import polars as pl

    step = pl.col("step")
    found = (
        metrics.filter(step.is_not_null() & pl.col("line").is_not_null())
        .group_by("source")
        .agg(((step <= step.first()) & (step.cum_max() > step.first())).any().alias("anew"))
        .filter("anew")
    )
    return set(found["source"].to_list())


def _said_once(o: Observation) -> str | None:
    """What a line says, where one process says it once; ranks that announce themselves are told apart."""
    if o.signature in ONCE:
        return f"{o.signature} {o.identity.rank}"
    return o.signature if o.signature in STARTS and o.weight >= SURE_START else None


def _kind(o: Observation, catalogue: Mapping[str, Signature]) -> str | None:
    name = o.signature
    if name == RESTART:
        return "restart"
    if name == LAUNCH:
        return "launch"
    if name in STARTS:
        return "start"
    if name in SIGNS:
        return "sign"
    if name in ENDS:
        return "end" if o.weight >= SURE_END else None
    signature = catalogue.get(name)
    interrupted = signature is not None and signature.verdict == "interrupted"
    stopped = interrupted and signature is not None and (signature.kind == "cause" or o.weight >= SURE_STOP)
    # Who has lost a peer in NCCL cannot go on in the same process, whatever ended that peer.
    # Nor does anything go on where a host went down: a scheduler starts the job again on others, and appends.
    if name in DEATHS or name in LOST_PEER or name == HOST_DOWN or stopped:
        return "death"
    if interrupted:
        return "stop"
    ends = signature is not None and signature.kind == "cause" and signature.severity == "fatal"
    return "failed" if ends else None


def _uncaught(traceback: Traceback) -> bool:
    """Whether a traceback ended its process: what a handler logs begins with the function that handles it."""
    if traceback.chained is not None or not traceback.frames:
        return False
    return traceback.frames[0][2] in ("<module>", "_run_module_as_main")


@dataclass(slots=True)
class _Attempt:
    """What has been seen of the attempt that a line belongs to."""

    last: dict[int | None, tuple[int | None, int]] = field(default_factory=dict)  # rank -> its last epoch and step
    first: int | None = None  # its first step
    lines: int = 0  # step records
    dead: bool = False
    ended: bool = False
    resets: bool = False  # its counter falls back by itself, as one does that counts within epochs
    since: int = 0  # step records in rising order since the death
    sign: Event | None = None  # the first sign of a new start since the last death
    said: set[str] = field(default_factory=set)  # what its process said that each says once
    again: Event | None = None  # the first such words since the last step that had been said before
    highest: int = 0  # its last step in order
    stride: int = 1  # the largest interval between two records of it
    total: float | None = None  # where its counter ends
    time: float | None = None  # the last known one
    failed: bool = False  # what ends a run, if it is the run's, stands in it
    raised: bool = False  # an exception stands below its last step
    stopped: bool = False  # so do words for a stop
    alike: Event | None = None  # so does the first introduction with other numbers
    stepped: float | None = None  # when that was
    interval: float = 0.0  # the longest one between two steps

    @property
    def active(self) -> bool:
        return self.lines > 0 or self.dead or self.ended

    def falls_back(self, e: Event, by: int = 0) -> bool:
        """Whether a step is no later than the last one of its rank; of two epochs, the later one counts as later."""
        if e.step is None or e.rank not in self.last:
            return False
        epoch, step = self.last[e.rank]
        if e.epoch is not None and epoch is not None and int(e.epoch) != epoch:
            return int(e.epoch) < epoch
        return e.step + by <= step

    def begins_anew(self, e: Event) -> bool:
        """Whether a step is too far back for ranks whose lines overtake each other."""
        if self.resets or e.step is None or not self.falls_back(e):
            return False
        return self.falls_back(e, STEPS_AFTER_DEATH) or (self.first is not None and e.step <= self.first)

    def counts_anew(self, e: Event) -> bool:
        """Whether a step is where the attempt itself began, or before."""
        return self.lines > 0 and self.falls_back(e) and self.first is not None and (e.step or 0) <= self.first

    def came_back(self, e: Event) -> bool:
        """Whether it counts anew below an exception, or an introduction, after a pause far longer than any before.

        An exception that a loop catches at the end of an epoch is followed by the next one at once; so is a fold or a
        trial of a sweep, whose settings are printed again with other numbers.
        """
        if (
            not (self.raised or self.alike)
            or e.time is None
            or self.stepped is None
            or self.lines < FEWEST_STEPS
            or self.resets
        ):
            return False
        return self.counts_anew(e) and e.time - self.stepped > max(PAUSE, PAUSES * self.interval)

    def was_stopped(self, e: Event) -> bool:
        """Whether it counts anew right below words for a stop."""
        return self.stopped and self.lines >= FEWEST_STEPS and not self.resets and self.counts_anew(e)

    def broke_off(self, e: Event) -> bool:
        """Whether it counts anew, after it had stopped far from where its counter says that it ends."""
        far = self.total is not None and self.total == e.total and self.highest + self.stride < self.total
        # Records of one step, as a bar that is seldom drawn lends it to the lines around it, are no count at all.
        moved = self.first is not None and self.first < self.highest
        return far and moved and self.lines >= FEWEST_STEPS and not self.resets and self.counts_anew(e)

    def hear(self, e: Event) -> None:
        """Take what a process says once into account."""
        if e.said is None:
            return
        if self.lines and e.said in self.said and self.again is None:
            self.again = e
        self.said.add(e.said)

    def count(self, e: Event) -> None:
        """Take a step record into account."""
        if e.step is None:
            return
        if self.stopped and not self.dead:
            self.sign = None  # it was outlived, and what was printed below it is no start
        self.again, self.alike, self.raised, self.stopped = None, None, False, False
        if e.time is not None:
            self.interval = max(self.interval, e.time - self.stepped) if self.stepped is not None else 0.0
            self.stepped = e.time
        self.stride = max(self.stride, e.step - self.highest) if self.lines else self.stride
        self.highest, self.total = max(self.highest, e.step), e.total
        if self.falls_back(e, 1):
            self.resets = self.resets or self.begins_anew(e)
        elif self.dead:
            self.since += 1
            # Training that goes on outlived the death: it was another process's.
            self.dead = self.since < STEPS_AFTER_DEATH or self.sign is not None
        known = self.last.get(e.rank, (None, 0))[0]
        self.last[e.rank] = (int(e.epoch) if e.epoch is not None else known, e.step)
        self.first = e.step if self.first is None else min(self.first, e.step)
        self.lines += 1


def _printed(stream: Sequence[Event], n: int) -> float | None:
    """When an event was printed: a line without a time of its own bears that of the one above it, and belongs to the
    next one that has a time as well.
    """
    own = (e.time for e in stream[n : n + LOOK] if e.time is not None and (e.timed or e.kind == "step"))
    return next(own, stream[n].time)


def boundaries(stream: Sequence[Event]) -> list[Boundary]:
    """Where new attempts begin in a file whose events are given in the order of their lines."""
    found: list[Boundary] = []
    at = _Attempt()
    pending: Event | None = None  # a restart that was announced
    before: float | None = None  # the last known time before it
    trailing = 0  # step records since it was
    counts: set[str] = set()

    def begin(e: Event, line: int | None = None) -> None:
        """Begin an attempt, unless its clock is behind: then files of several hosts were joined one below the other.

        e: where it begins: the event that is looked at, or one above it.
        """
        nonlocal at, pending, trailing
        ended = before if e is pending else at.time
        pending, trailing = None, 0
        began = _printed(stream, n)
        if began is not None and ended is not None and began + CLOCK_SLACK < ended:
            at = _Attempt(time=ended)
            return
        found.append(Boundary(line if line is not None else e.line, ended))
        at = _Attempt(said=at.said)

    n = 0
    for n, e in enumerate(stream):
        first = at.sign if at.sign is not None else e
        if e.kind == "restart":
            again = e.count is not None and e.count in counts  # another node's launcher speaks of the same restart
            if pending is not None and not again:
                begin(pending, pending.line + 1)
            if not again and (at.active or e.count is not None):
                pending, before, trailing = e, at.time, 0
                if e.count is not None:
                    counts.add(e.count)
        elif e.kind == "launch":
            if pending is not None or at.dead or (at.ended and at.lines) or (at.lines and _leads_on(stream, n, at)):
                begin(e)
                counts.clear()
        elif e.kind == "anew" and not at.lines:
            if at.dead or at.failed:
                begin(e)
        elif e.kind in ("banner", "anew"):  # each of several ranks introduces itself before it trains
            if at.lines and (pending is not None or at.dead or at.ended or _leads_on(stream, n, at)):
                begin(e)
        elif e.kind == "alike":  # with other settings, where one fails and is called again
            if at.lines and at.dead and not at.since:
                begin(e)
            elif at.lines and at.alike is None:
                at.alike = e
        elif e.kind == "start":
            if pending is not None:
                begin(e)
            elif at.dead:
                begin(first)
        elif e.kind == "sign":
            if pending is not None:
                begin(e)
            elif (at.dead or at.stopped) and at.sign is None:
                at.sign = e
        elif e.kind == "death":
            at.dead, at.since, at.sign = True, 0, None
        elif e.kind == "stop":
            at.stopped = True
        elif e.kind == "raised":
            at.raised = True
        elif e.kind == "failed":
            at.failed = True
        elif e.kind == "end":
            at.ended = True
        elif pending is not None:
            trailing += 1
            if at.falls_back(e):
                begin(e)
            elif trailing > LAST_STEPS:
                begin(pending, pending.line + 1)
        elif (at.dead and at.begins_anew(e)) or at.was_stopped(e):
            begin(first)
        elif at.again is not None and at.counts_anew(e):
            begin(at.again)
        elif at.came_back(e):
            begin(at.alike or e)
        elif at.broke_off(e) and not _loops(stream, n, at):
            begin(e)
        if e.kind == "step":
            at.count(e)
        elif e.kind in ("start", "sign"):
            at.hear(e)
        if e.time is not None:
            at.time = e.time if at.time is None else max(at.time, e.time)
    if pending is not None:
        begin(pending, pending.line + 1)
    return [_dated(b, stream) for b in found]


def _dated(boundary: Boundary, stream: Sequence[Event]) -> Boundary:
    """The boundary with the time of the first line from it on that bears a time of its own, or a newer one."""
    for e in stream:
        if e.line < boundary.line or e.time is None:
            continue
        if e.timed or boundary.ended is None or e.time > boundary.ended:
            return boundary._replace(began=e.time, zone_known=e.zone_known)
    return boundary


def _leads_on(stream: Sequence[Event], n: int, at: _Attempt) -> bool:
    """Whether the launch at n, of which no death tells, starts the run anew: it resumes, or its steps begin again.

    A launcher that training itself calls, for an evaluation, prints the same; training then counts on.
    """
    for e in stream[n + 1 :]:
        if e.kind in ("start", "restart", "death"):
            return True
        if e.kind == "step":
            return at.falls_back(e)
    return False


def _loops(stream: Sequence[Event], n: int, at: _Attempt) -> bool:
    """Whether the count that begins at n, of which no death tells, is one of many: it too ends where the last one did.

    A loop may leave each epoch after as many batches, and an evaluation runs to its end before training counts on.
    """
    highest = stream[n].step or 0
    for e in stream[n + 1 :]:
        if e.kind in ("restart", "launch", "death"):
            return False
        if e.kind == "step" and e.step is not None:
            if e.step + STEPS_AFTER_DEATH <= highest or e.total != at.total:
                return highest in (at.highest, at.total)
            highest = max(highest, e.step)
    return highest == at.total


def spans_of(data: RunData) -> dict[str, tuple[float, float]]:
    spans = {
        w.source: (w.first_time, w.last_time)
        for w in data.writers
        if w.first_time is not None and w.last_time is not None
    }
    if data.metrics.height:
        for source, span in _recorded_spans(data.metrics).items():
            spans.setdefault(source, span)
    return spans


def _recorded_spans(metrics: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Source -> the first and the last time of its records."""
    if (small := few(metrics)) is not None:
        times: dict[str, list[float]] = {}
        for row in small:
            if row.time is not None:
                times.setdefault(row.source, []).append(row.time)
        return {source: (min(told), max(told)) for source, told in times.items()}
    import polars as pl

    timed = metrics.filter(pl.col("time").is_not_null())
    rows = timed.group_by("source", maintain_order=True).agg(
        pl.col("time").min().alias("a"), pl.col("time").max().alias("b")
    )
    return {source: (low, high) for source, low, high in rows.iter_rows()}


def _rows(data: RunData, launches: Launches) -> pl.DataFrame:
    """The metric rows with their attempts.

    Files that are no logs count in UTC, and logs often in local time: their rows are placed where all of them, taken
    together, lie within the time of the log that has the boundaries.
    """
    if not data.metrics.height:
        return data.metrics
    import polars as pl

    logs = {s.path for s in data.sources if s.kind is Kind.LOG}
    others = [span for path, span in launches.spans.items() if path not in logs and path in launches.unnumbered]
    begin, end = launches.spans.get(launches.by[0], (0.0, 0.0)) if launches.by else (0.0, 0.0)
    agree = all(begin - CLOCK_SLACK <= low and high <= end + CLOCK_SLACK for low, high in others)

    def attempt_of(source: str, line: int | None, time: float | None, attempt: int | None) -> int | None:
        found = launches.by_line(source, line)
        if found is not None or attempt is not None:
            return found if found is not None else attempt
        if source in logs:
            return launches.by_time(source, time, False)
        return launches.by_time(source, time, launches.zone_known) if agree else None

    rows = data.metrics.select("source", "line", "time", "attempt").iter_rows()
    return data.metrics.with_columns(pl.Series("attempt", [attempt_of(*row) for row in rows], pl.Int32))
