"""Runs that went silent long before they were stopped, by the clocks of their own lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.engine import behind, zones
from forensics.engine.collectives.last_words import Words, last_words
from forensics.engine.collectives.observations import spoken, vote
from forensics.engine.kernel import FACT as KERNEL_LOG
from forensics.engine.one_clock import OF_THE_HOST, UTC, spanned, zone_of_host
from forensics.engine.rhythm import LEAST, Rhythm, rhythms, written_at_once
from forensics.engine.steps import StepClock
from forensics.engine.survival import CLOCK_SLACK
from forensics.files import buffered
from forensics.model import Evidence, Identity, Kind, Observation, RunData, Source
from forensics.parsers.prefixes import strip_ansi
from forensics.parsers.stamps import may_be_timed, parse_time
from forensics.signatures.schema import Signature

SILENT, TEARDOWN = "silent-hang", "teardown-hang"
LIMIT, FINISHED = "scheduler-time-limit", "run-finished"
SAID_SURELY = 0.8  # weight from which on a line about the end is of the run, and not of a part of it
BEFORE_STOP = 5.0  # seconds: what is printed this long before a stop may be about it already
BY_DATE = 0.65  # weight of a silence that rests on a script's date
TOLD_BY_DATE = (
    "That the stop is told in the zone of the run's clock rests on the date at the head of the job's log ({zone})."
)
TAIL, LINES = 64 << 10, 120  # of the end of each log: bytes and lines that are looked through
LOGS = 512  # logs whose ends are read
# What may be silent for long by itself, where it runs for the first time; seconds for which that is believed.
SLOW, SLOW_FOR = ("evaluating", "compiling", "preparing data", "loading"), 3 * 3600.0


def told(
    data: RunData, found: Sequence[Observation], clock: StepClock, catalogue: Mapping[str, Signature]
) -> list[Observation]:
    """The observations with at most one more: `silent-hang`, or `teardown-hang` where the end was said before.

    It is made where the run was stopped from outside, in its last attempt, by a line that bears a time; where records
    of steps had a rhythm by their own times; and where no log holds a line between that and the stop for far longer
    than the rhythm explains, nor lines without times that may be of any time. Nothing is said where ranks are known to
    wait already, where the last lines tell of an evaluation or the like and three hours have not passed, or where a
    file cannot be read. Where the clocks may differ by a time zone that would explain the silence, it is only a note of
    the stop, but where the job's log begins with the date of the host that tells of the stop, in words that name its
    zone: then the silence is told at a lower weight. Ranks that ended before all others, by their records of steps or
    by the calls in NCCL's log, are named, where they are a minority. Where the others clearly came to wait for them,
    that is made of it, at a lower weight, also where clocks do not tell, or logs go on that record no steps.
    """
    found = list(found)
    stops = [o for o in found if _stops(catalogue.get(o.signature)) and o.timed and o.time is not None]
    if not stops or any(_hangs(catalogue.get(o.signature)) for o in found):
        return found
    attempt = max(o.identity.attempt or 0 for o in found)
    stop = min(stops, key=lambda o: o.time or 0.0)
    if (stop.identity.attempt or 0) != attempt or stop.time is None:
        return found
    raised = {
        o.evidence[0].file for o in found if o.signature in catalogue and catalogue[o.signature].verdict == "failed"
    }  # a traceback bears no times
    told_to_end = [o for o in found if _stops(catalogue.get(o.signature)) and not o.timed]
    cut = _cuts(found, stop, _interrupts(data, told_to_end, clock))
    last = _last_sign(data, stop, clock, raised, cut)
    zone, at = _zone_of_host(data, stop, clock), stop
    if last is not None and last.zone_known and zone in UTC:
        at = replace(stop, zone_known=True)
        last = _last_sign(data, at, clock, raised, cut)
    if last is None:
        return found
    ends = [o for o in found if o.signature == FINISHED and o.time is not None and (o.identity.attempt or 0) == attempt
            and (last.of_any is None or abs(last.of_any - o.time) <= LEAST)]  # fmt: skip
    lasted = stop.time - last.of_any if last.of_any is not None else None
    if ends:
        sure = [o for o in ends if o.weight >= SAID_SURELY and o.timed]
        if sure and lasted is not None and lasted > 2 * LEAST and stop.signature == LIMIT:
            return [*found, _teardown(sure[-1], stop, lasted)]
        return found
    known = sorted(rhythms(data, clock, attempt, cut), key=lambda r: (r.limit, r.pause))
    if not known:
        return found
    rhythm = known[0]
    ranks = _ends(clock, attempt, {s.path: s for s in data.sources}, cut)
    odd = behind.apart(ranks)
    silent = lasted is not None and lasted > rhythm.limit
    # What records no steps may bear the stop's clock and not the run's.
    since = [stop.time - time for time in (last.of_any, last.of_steps) if time is not None]
    of_zones = silent and not at.zone_known and any(_may_be_zones(seconds, rhythm) for seconds in since)
    of_zones = of_zones and not _of_one_clock(data, found, stop, clock)
    by_date = zone is not None and (at.zone_known or of_zones)
    of_zones = of_zones and not by_date
    doubt = of_zones or not silent
    if doubt:
        lasted = stop.time - last.of_steps if last.of_steps is not None else None
        ended = any(o.signature == FINISHED and (o.identity.attempt or 0) == attempt for o in found)
        if ended or not _waited_for(odd, ranks, rhythm, lasted):
            who = _who_ended_apart(odd)
            every = last.of_any == last.of_steps
            return [_with_doubt(o, max(since), who, every=every) if of_zones and o is stop else o for o in found]
    hang = _silent(at, last, rhythm, ranks, odd, _final(clock, attempt), doubt=doubt)
    if by_date and not doubt:
        hang = replace(hang, weight=BY_DATE, note=f"{hang.note} {TOLD_BY_DATE.format(zone=zone)}")
    if not hang.culprits and attempt == 0:
        hang = _with_calls(hang, data)
    told_of = _with_words(hang, data.sources, lasted)
    return found if told_of is None else [*found, told_of]


def _with_words(hang: Observation, sources: Sequence[Source], lasted: float | None) -> Observation | None:
    """The silence, with what the last lines tell of; None where that may take so long by itself.

    lasted: seconds of silence; None where clocks do not tell.
    """
    words = _words(hang, sources)
    if words is None:
        return hang
    slow = words.doing in SLOW
    if slow and (lasted is None or lasted < SLOW_FOR):
        return None
    note = f"{hang.note} The last lines tell of {words.doing}."
    weight = min(0.55, hang.weight) if slow else hang.weight
    return replace(hang, note=note, weight=weight, evidence=(*hang.evidence, *words.evidence))


def _waited_for(
    odd: behind.Apart | None, ranks: Mapping[int, behind.End], rhythm: Rhythm, lasted: float | None
) -> bool:
    """Whether others waited for the ranks that ended first, whatever is known of when the stop came.

    lasted: since the logs that record steps went silent, by the stop's clock (seconds); None where it tells nothing.
    """
    if odd is None or (lasted is not None and lasted <= rhythm.limit):
        return False
    return behind.clearly(odd, ranks, max(BEFORE_STOP, rhythm.usual))


def _may_be_zones(lasted: float, rhythm: Rhythm) -> bool:
    """Whether a silence, in seconds, may be a difference between time zones and a pause as the rhythm has them."""
    return any(-CLOCK_SLACK <= lasted - hours * 3600 <= rhythm.pause for hours in zones.EAST)


def _began(data: RunData, clock: StepClock) -> float | None:
    """The first time in the logs that record steps, seconds."""
    records = {source for source, marks in clock.marks.items() if marks}
    return min((w.first_time for w in data.writers if w.source in records and w.first_time is not None), default=None)


def _zone_of_host(data: RunData, stop: Observation, clock: StepClock) -> str | None:
    """The zone of the clock that tells of a stop, where the job's log begins with it; None where nothing says it."""
    line = stop.evidence[0]
    began = _began(data, clock)
    if began is None or stop.time is None or line.offset is None or stop.zone_known or OF_THE_HOST not in line.text:
        return None
    source = next((s for s in data.sources if s.path == line.file), None)
    return zone_of_host(source, began, stop.time, line.offset) if source is not None else None


def _of_one_clock(data: RunData, found: Iterable[Observation], stop: Observation, clock: StepClock) -> bool:
    """Whether a log that records no steps shows that the stop is told by the clock of those that do."""
    records = {source for source, marks in clock.marks.items() if marks}
    began = _began(data, clock)
    if began is None or stop.time is None:
        return False
    places = [(e.file, e.offset) for o in found if o.time is not None for e in o.evidence[:1] if e.offset is not None]
    for source in _logs(data):
        if source.path not in records:
            about_it = {offset for file, offset in places if file == source.path}
            if spanned(source, began, stop.time, about_it):
                return True
    return False


def _logs(data: RunData) -> list[Source]:
    """The logs of a run but for kernels'."""
    kernels = {fact.source for fact in data.facts if fact.name == KERNEL_LOG}
    return [s for s in data.sources if s.kind is Kind.LOG and s.path not in kernels]


def _with_doubt(stop: Observation, lasted: float, who: str, *, every: bool) -> Observation:
    """A stop, with a note of the silence before it that may be one, or a difference between time zones.

    who: a sentence on the ranks that ended apart from the others, as `_who_ended_apart` gives it. every: whether it is
    all logs that are silent, and not only those that record steps.
    """
    which = "No log" if every else "No log that records steps"
    note = (
        f"{which} holds anything for the {spell(lasted)} before it, unless their clock and the one of this line are in "
        "different time zones; if they are in one, the run hung"
    )
    note += f".{who}".removesuffix(".") if who else ""
    return replace(stop, note=f"{stop.note}; {note}" if stop.note else note)


def _with_calls(hang: Observation, data: RunData) -> Observation:
    """The silence, with the minority of ranks whose last calls come before those of all others by NCCL's own log."""
    if data.collectives.is_empty():
        return hang
    from forensics.engine.collectives.calls import groups_of

    groups = [group for group in groups_of(data.collectives) if group.traced]
    odd = behind.behind_in_calls([{rank: call.seq for rank, call in group.last.items()} for group in groups])
    logs = {source.path: source for source in data.sources}
    for group in groups:
        late = [group.last[rank] for rank in odd if rank in group.last]
        rest = {rank: call for rank, call in group.last.items() if rank not in odd}
        usual, _ = vote({rank: call.seq for rank, call in group.last.items()})
        if not late or not isinstance(usual, int) or any(call.seq >= usual for call in late):
            continue
        if any(call.seq < usual - 1 and not _unheld(logs.get(call.source)) for call in late):
            return hang
        theirs = next(call for _, call in sorted(rest.items()) if call.seq == usual)
        note = f"{hang.note} The last call of {spoken(odd)} is {late[0].name}, that of all others {theirs.name}."
        lines = (*(call.evidence() for call in late[:2]), theirs.evidence())
        return replace(
            hang,
            note=note,
            culprits=odd,
            evidence=(*hang.evidence[:1], *lines, hang.evidence[-1]),
            identity=replace(hang.identity, rank=odd[0] if len(odd) == 1 else None),
        )
    return hang


def _unheld(source: Source | None) -> bool:
    return source is not None and behind.unheld(source)


def _words(hang: Observation, sources: Sequence[Source]) -> Words | None:
    if hang.culprits and len(hang.culprits) == 1:
        return last_words(hang.culprits[0], sources)
    return last_words(None, sources) or last_words(0, sources)


def _stops(signature: Signature | None) -> bool:
    return signature is not None and signature.verdict == "interrupted" and signature.kind in ("cause", "symptom")


def _hangs(signature: Signature | None) -> bool:
    return signature is not None and signature.kind in ("cause", "symptom") and (
        signature.area == "collectives" or signature.verdict == "hung"
    )  # fmt: skip


def _interrupts(data: RunData, stops: Iterable[Observation], clock: StepClock) -> dict[str, int]:
    """Log -> where the traceback begins (byte) with which a stop ended its process; it bears no time of its own."""
    places = {(o.evidence[0].file, o.evidence[0].line) for o in stops}
    found: dict[str, int] = {}
    for t in data.tracebacks:
        file, line, offset = t.header.file, t.header.line, t.header.offset
        if (t.final.file, t.final.line) not in places or line is None or offset is None:
            continue
        if all(mark.line is None or mark.line < line for mark in clock.marks.get(file, ())[-1:]):
            found[file] = min(offset, found.get(file, offset))
    return found


def _cuts(found: Iterable[Observation], stop: Observation, interrupts: Mapping[str, int]) -> dict[str, int]:
    """Log -> where the words about a stop begin (bytes): by their times, or by `interrupts` where they bear none."""
    cut = dict(interrupts)
    for o in found:  # what is printed because of the stop
        e = o.evidence[0]
        if e.offset is None or o.time is None or stop.time is None:
            continue
        if o.time >= stop.time - BEFORE_STOP:
            cut[e.file] = min(e.offset, cut.get(e.file, e.offset))
    return cut


@dataclass(frozen=True, slots=True)
class _Last:
    """When logs ended before a stop, seconds: all, and those that record steps; None by clocks unlike the stop's.

    zone_known: of the clocks by which steps are recorded.
    """

    of_any: float | None
    of_steps: float | None
    zone_known: bool


def _last_sign(
    data: RunData, stop: Observation, clock: StepClock, raised: Collection[str], cut: Mapping[str, int]
) -> _Last | None:
    """The last lines of logs before the stop; None where they cannot be told.

    raised: files in which something failed, which may be told at length without a time. cut: as `_cuts` gives it.
    """
    logs = _logs(data)
    if stop.time is None or len(logs) > LOGS or any(s.gap is not None for s in logs):
        return None
    times: list[float] = []
    of_steps: list[float] = []
    elsewhere = False  # steps are recorded by a clock that states its zone, or does not, unlike the stop's
    farthest: dict[bool, int] = {}  # whether its file bears times -> the last step
    for source in logs:
        end = _end(source.file, cut.get(source.path, source.size), stop.time)
        if end is None or end.bar:
            return None
        step = clock.last_in(source.path)
        if step is not None:
            farthest[end.time is not None] = max(step, farthest.get(end.time is not None, step))
        if end.time is None:
            continue
        many = end.after > 3 + 2 * end.usual and source.path not in raised
        if step is not None and many:
            return None
        if end.zone_known == stop.zone_known:
            times.append(min(end.time, stop.time) if source.path in cut else end.time)
            if step is not None:
                of_steps.append(times[-1])
        elif step is not None:
            elsewhere = True
    # Numbers in other files, or without times, that go on farther than the last that bears one.
    others = [n for path in clock.marks if (n := clock.last_in(path)) is not None]
    if max([*others, 0]) > farthest.get(True, -1):
        return None
    if elsewhere:
        return None if of_steps else _Last(None, None, not stop.zone_known)
    if not times:
        return None
    marked = [m.time for path in clock.marks for m in clock.marks[path][-1:] if m.time is not None]
    last = max(times)
    if any(time > last + CLOCK_SLACK for time in marked if time <= stop.time):
        return None
    return _Last(last, max(of_steps, default=last), stop.zone_known)


@dataclass(frozen=True, slots=True)
class _End:
    """The last lines of a file. after: lines below the last one with a time; usual: such lines a line with a time."""

    time: float | None = None  # of the last line that bears one
    zone_known: bool = False
    after: int = 0
    usual: float = 0.0
    bar: bool = False  # a progress bar that bears no time is below it


def _end(file: Path, upto: int, reference: float) -> _End | None:
    """What stands last before byte `upto` of a file; None where it cannot be read."""
    start = max(0, upto - TAIL)
    try:
        with buffered(file) as stream:
            stream.seek(start)
            tail = stream.read(upto - start)
    except (OSError, ValueError):
        return None
    lines = [line for line in tail.replace(b"\r", b"\n").split(b"\n") if line.strip()][-LINES:]
    stamps = [
        parse_time(strip_ansi(line[:400].decode("utf-8", "replace")), reference)
        if may_be_timed(line)
        else (None, False)
        for line in lines
    ]
    timed = [n for n, (time, _) in enumerate(stamps) if time is not None]
    if not timed:
        return _End()
    time, known = stamps[timed[-1]]
    below = lines[timed[-1] + 1 :]
    usual = (len(lines) - len(timed)) / len(timed)
    return _End(time, known, len(below), usual, any(b"%|" in line for line in below))


def _ends(clock: StepClock, attempt: int, logs: Mapping[str, Source], cut: Mapping[str, int]) -> dict[int, behind.End]:
    """Where the records of each rank end in an attempt. cut: as `_cuts` gives it."""
    ends: dict[int, behind.End] = {}
    for source, marks in clock.marks.items():
        here = [m for m in marks if m.rank is not None and clock.attempt_of(source, m) == attempt]
        of_rank = defaultdict(list)
        for mark in here:
            of_rank[mark.rank].append(mark)
        if len(of_rank) > 1:
            whole = at_once = behind.in_turns([m.rank for m in here])
        else:
            log = logs.get(source)
            whole = bool(of_rank) and _unheld(log)
            at_once = whole and log is not None and written_at_once(log, cut.get(source))
        for rank, rows in of_rank.items():
            end = rows[-1]
            if rank is not None and (rank not in ends or end.step > ends[rank].step):
                before = next((m.step for m in reversed(rows) if m.step != end.step), end.step)
                stride = behind.stride_of([m.step for m in rows])
                ends[rank] = behind.End(end.step, before, stride, end.time, source, end.line, whole, at_once)
    return ends


def _final(clock: StepClock, attempt: int) -> tuple[int, str, int | None]:
    """The farthest record of an attempt: step, file, line."""
    return max(
        (
            (mark.step, source, mark.line)
            for source, marks in clock.marks.items()
            for mark in marks
            if clock.attempt_of(source, mark) == attempt
        ),
        key=lambda end: end[0],
        default=(-1, "", None),
    )


def _silent(
    stop: Observation,
    last: _Last,
    rhythm: Rhythm,
    ends: Mapping[int, behind.End],
    odd: behind.Apart | None,
    final: tuple[int, str, int | None],
    *,
    doubt: bool,
) -> Observation:
    """The silence before a stop. doubt: whether only a rank that ended clearly before the others shows it.

    ends: where the records of each rank end; final: the farthest record, as `_final` gives it.
    """
    culprits = odd.ranks if odd is not None and not odd.ahead else ()
    pause = f"no more than {spell(rhythm.longest)} apart" if rhythm.longest else "in one go"
    note = f"Steps were recorded every {spell(rhythm.usual)} ({pause}); then"
    began = last.of_steps if doubt else last.of_any
    if began is not None and stop.time is not None:
        what = "the logs that record them hold nothing" if doubt else "no log holds anything"
        note += f" {what} for {spell(stop.time - began)}, until the run was stopped."
        if doubt and not stop.zone_known and _may_be_zones(stop.time - began, rhythm):
            note += " A part of that may be a difference between time zones."
    else:
        note += " the run was stopped, by a clock that may be in another time zone."
        began = max((end.time for end in ends.values() if end.time is not None), default=None)
    shown = [final]
    if odd is not None:
        rest = [rank for rank in ends if ends[rank].step == odd.usual]
        shown = [(ends[r].step, ends[r].file, ends[r].line) for r in (*odd.ranks[:2], rest[0])]
        note += _who_ended_apart(odd)
    lines = tuple(Evidence(file, line, None, f"step {step}, the last record") for step, file, line in shown)
    return Observation(
        signature=SILENT,
        weight=0.65 if doubt else 0.8,
        evidence=(*lines, stop.evidence[0]),
        identity=Identity(rank=culprits[0] if len(culprits) == 1 else None, attempt=stop.identity.attempt),
        culprits=culprits,
        time=began,
        zone_known=last.zone_known,
        timed=True,
        step=shown[0][0],
        step_is="last_seen",
        note=note,
    )


def _who_ended_apart(odd: behind.Apart | None) -> str:
    """A sentence, after a space, on the ranks whose records end at another step than the others'; "" of none."""
    if odd is None:
        return ""
    whom = spoken(odd.ranks).capitalize()
    if odd.ahead:
        return f" {whom} went on to step {odd.step}, ahead of the others, at step {odd.usual}."
    if odd.one_record:
        return f" {whom} ended at step {odd.step}, all others at step {odd.usual}."
    return f" {whom} ended first, at step {odd.step}, {odd.usual - odd.step} behind most others, at {odd.usual}."


def _teardown(end: Observation, stop: Observation, lasted: float) -> Observation:
    note = f"The end was said, then no log holds anything for {spell(lasted)}, until the time limit ended the job."
    return Observation(
        signature=TEARDOWN,
        weight=0.75,
        evidence=(end.evidence[0], stop.evidence[0]),
        identity=Identity(attempt=stop.identity.attempt),
        culprits=(),
        time=end.time,
        zone_known=end.zone_known,
        timed=True,
        note=note,
    )


def spell(seconds: float) -> str:
    """ "3 s", "13 min", "2 h 13 min"."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
