"""Times of kernel logs: seconds since boot become wall time where anything allows it, and say so where nothing does.

printk counts from boot by a clock of its own. What ties it to wall time, surest first: a line that bears both (a syslog
that kept printk's stamp, an audit record, the real-time clock at boot, a machine check), the same message in another
log of the host that bears wall time, the time of boot itself (btime of /proc/stat, who -b, uptime -s), and one event
that the run's own logs must have seen at the same moment. printk's clock is not disciplined by NTP and drifts by
seconds a day, so the ties nearest to a line count.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from forensics.engine.kernel import FACT, KILLED
from forensics.files import beginning
from forensics.model import Coverage, Observation, RunData, Source, Status
from forensics.parsers.kernel.lines import KernelLine, parse_stamp, read_line

ANCHOR = "kernel-clock"
BACKWARDS = 5.0  # seconds by which printk's stamps may go back within one boot: CPUs print out of order
AGREE = 5.0  # seconds by which ties of one boot may differ, beside drift, and events of one incident lie apart
NOTICED = 120.0  # seconds within which a launcher notices that a process of a known pid was killed
SOON = 15.0  # seconds within which a program that uses a GPU meets its error
QUARTER = 900.0  # every zone is a multiple of this apart from every other one
STEP_OF_ZONES = 1800.0  # zones differ by multiples of half an hour, but for three that are a quarter off
FARTHEST = 14 * 3600.0  # no zone is farther from another one's clock than this, for hosts of one run
UPTIME_FILE, UPTIME_BYTES = re.compile(r"(?i)(?:^|[/_.-])(?:uptime|boot_?time|who_?b)(?:[/_.-]|$)"), 4096
UNALIGNED = "its time counts from the boot of the host, and nothing in the run says when that was"
SHIFTED = "its time was moved by {hours:g} h, by which its clock or zone differs: so it fits the run's own record of it"
KILLED_WORDS = ("sigkill-unknown-sender", "dataloader-worker-killed")  # of a process that SIGKILL ended
# What programs say of what the kernel reports under these slugs, besides the slug itself.
SAID_BY_PROGRAMS: dict[str, tuple[str, ...]] = {
    "gpu-ecc-uncorrectable": (),
    "cuda-illegal-memory-access": (),
    "gpu-kernel-exception": ("cuda-illegal-memory-access", "device-side-assert"),
    "nvlink-fatal-error": (),
    "gpu-fell-off-bus": (
        "cuda-unknown-error",
        "nccl-unhandled-cuda-error",
        "cuda-library-call-failed",
        "gpu-kernel-exception",
    ),
    "gsp-firmware-crash": ("cuda-unknown-error", "nccl-unhandled-cuda-error"),
    "gpu-pmu-halt": ("cuda-unknown-error", "nccl-unhandled-cuda-error"),
}


@dataclass(frozen=True, slots=True)
class Tie:
    """Printk's seconds and the wall time of one moment."""

    seconds: float
    time: float
    zone_known: bool
    by: str  # what says so, for people

    @property
    def offset(self) -> float:
        return self.time - self.seconds


@dataclass(frozen=True, slots=True)
class _Entry:
    """An observation of a kernel log with its line."""

    at: int  # index in the run's observations
    observation: Observation
    line: KernelLine
    boot: int  # of its source, counted from 0

    @property
    def seconds(self) -> float:
        return self.line.seconds if self.line.seconds is not None else 0.0


def align(data: RunData) -> RunData:
    """The run with wall times for what kernel logs stamp by seconds since boot, and without the marks that served it.

    What cannot be aligned bears no time and a note; coverage says of each kernel log which it is.
    """
    forms = {fact.source: fact.value for fact in data.facts if fact.name == FACT}
    observations = list(data.observations)
    entries = _entries(observations)
    own = {n for of_source in entries.values() for n in (e.at for e in of_source)}
    others = [o for n, o in enumerate(observations) if n not in own and o.signature != ANCHOR]
    said: dict[str, str] = {}
    for source, of_source in entries.items():
        relative = [e for e in of_source if e.line.seconds is not None and not _has_time(e.observation)]
        if not relative:
            continue
        ties = _ties_of(source, of_source, entries, data, others)
        for e in relative:
            known = ties.get(e.boot, [])
            if not known:
                observations[e.at] = replace(
                    e.observation, time=None, timed=False, note=_join(e.observation, UNALIGNED)
                )
                continue
            used = _used(e.seconds, known)
            observations[e.at] = replace(
                e.observation,
                time=wall(e.seconds, known),
                zone_known=all(tie.zone_known for tie in used),
                timed=True,
                note=_join(e.observation, f"its time is aligned by {' and '.join(tie.by for tie in used)}"),
            )
        said[source] = _account(ties)
    ends = [w.last_time for w in data.writers if w.last_time is not None and w.source not in forms]
    observations = _zones(observations, own, others, max(ends, default=float("inf")))
    kept = tuple(o for o in observations if o.signature != ANCHOR)
    writers = tuple(replace(w, first_time=None, last_time=None) if w.source in forms else w for w in data.writers)
    return replace(data, observations=kept, writers=writers, coverage=_covered(data.coverage, forms, said))


def _has_time(o: Observation) -> bool:
    return o.time is not None and o.timed


def wall(seconds: float, ties: Sequence[Tie]) -> float:
    """Wall time of printk's seconds: between two ties in proportion, before and after them by the nearest one."""
    a, *later = _used(seconds, ties)
    if not later:
        return seconds + a.offset
    b = later[0]
    return a.time + (seconds - a.seconds) * (b.time - a.time) / (b.seconds - a.seconds)


def _used(seconds: float, ties: Sequence[Tie]) -> tuple[Tie, ...]:
    """The one or two ties that give a moment its wall time. ties: one at least.

    Times never run backwards in one boot: a tie that would make them (the clock was set back) is left out.
    """
    kept: list[Tie] = []
    for tie in sorted(ties, key=lambda t: t.seconds):
        if not kept or (tie.seconds > kept[-1].seconds and tie.time >= kept[-1].time):
            kept.append(tie)
    at = bisect_right([t.seconds for t in kept], seconds)
    if at == 0 or at == len(kept):
        return (kept[0 if at == 0 else -1],)
    return kept[at - 1], kept[at]


def _entries(observations: Sequence[Observation]) -> dict[str, list[_Entry]]:
    """Source -> its observations that kernel lines show, in the order of the file."""
    lines: dict[str, list[tuple[int, Observation, KernelLine]]] = defaultdict(list)
    for n, o in enumerate(observations):
        key = o.evidence[0]
        line = read_line(key.text) if key.line is not None else None
        if line is not None and (line.by_kernel or o.signature == ANCHOR):
            lines[key.file].append((n, o, line))
    found: dict[str, list[_Entry]] = {}
    for source, members in lines.items():
        members.sort(key=lambda m: (m[1].evidence[0].line or 0, m[1].evidence[0].offset or 0))
        boot, last = 0, float("-inf")
        of_source = found.setdefault(source, [])
        for n, o, line in members:
            if line.seconds is not None:
                begins = "release" in o.captures and line.seconds < 1.0 and last > 1.0
                boot += begins or line.seconds < last - BACKWARDS
                last = line.seconds if begins or line.seconds < last - BACKWARDS else max(last, line.seconds)
            of_source.append(_Entry(n, o, line, boot))
    return found


def _ties_of(
    source: str,
    own: Sequence[_Entry],
    entries: Mapping[str, Sequence[_Entry]],
    data: RunData,
    others: Sequence[Observation],
) -> dict[int, list[Tie]]:
    """Boot of a source -> what ties it to wall time, the surest kind only."""
    ties: dict[int, list[Tie]] = defaultdict(list)
    for e in own:
        if (tie := _tie(e)) is not None:
            ties[e.boot].append(tie)
    last = max((e.boot for e in own), default=0)
    for boot in range(last + 1):
        if boot in ties:
            continue
        mine = [e for e in own if e.boot == boot and e.line.seconds is not None]
        found = _twins(mine, [e for s, group in entries.items() if s != source for e in group])
        if not found and boot == last:
            found = _boots(mine, data)
        if not found:
            found = _coincidences(mine, others)
        if found:
            ties[boot] = found
    return ties


def _tie(e: _Entry) -> Tie | None:
    """The tie that one line is: it bears both times, or names the epoch."""
    if e.line.seconds is None:
        return None
    epoch = e.observation.captures.get("epoch", "")
    if e.observation.signature == ANCHOR and re.fullmatch(r"\d{9,11}(?:\.\d{1,6})?", epoch):
        return Tie(e.line.seconds, float(epoch), True, f"the time that {_place(e.observation)} states")
    if e.line.stamp is not None and e.observation.time is not None:
        return Tie(
            e.line.seconds, e.observation.time, e.observation.zone_known, f"both stamps of {_place(e.observation)}"
        )
    return None


def _place(o: Observation) -> str:
    """ "dmesg.txt:12": where people find the line."""
    key = o.evidence[0]
    return key.file if key.line is None else f"{key.file}:{key.line}"


def _text(e: _Entry) -> str:
    return " ".join(e.line.message.split())


def _twins(mine: Sequence[_Entry], others: Sequence[_Entry]) -> list[Tie]:
    """Ties by messages that another kernel log of the host has with wall time. Messages that repeat tell nothing."""

    def unique(group: Iterable[_Entry]) -> dict[str, _Entry]:
        by_text: dict[str, list[_Entry]] = defaultdict(list)
        for e in group:
            by_text[_text(e)].append(e)
        return {text: es[0] for text, es in by_text.items() if len({e.observation.evidence[0].line for e in es}) == 1}

    seen = unique(mine)
    known = unique(e for e in others if e.line.form != "dmesg -e" and e.observation.time is not None)
    ties = []
    for text, e in seen.items():
        other = known.get(text)
        if other is None or other.observation.time is None or "release" in e.observation.captures:
            continue
        nodes = {e.observation.identity.node, other.observation.identity.node} - {None}
        if len(nodes) < 2:
            by = f"the message of {_place(e.observation)}, which {_place(other.observation)} has too"
            ties.append(Tie(e.seconds, other.observation.time, other.observation.zone_known, by))
    return _agreeing(ties)


def _agreeing(ties: Sequence[Tie]) -> list[Tie]:
    """Ties whose offsets are near the middle one's; none where they scatter."""
    if not ties:
        return []
    middle = median(t.offset for t in ties)
    near = [t for t in ties if abs(t.offset - middle) <= AGREE]
    return near if 2 * len(near) > len(ties) else []


def _boots(mine: Sequence[_Entry], data: RunData) -> list[Tie]:
    """Ties by a time of boot that some file of the same host, or of a run that names one host at most, states."""
    nodes = {e.observation.identity.node for e in mine} - {None}
    told: list[Tie] = []
    for o in data.observations:
        if o.signature != ANCHOR or not (nodes == {o.identity.node} or o.identity.node is None or not nodes):
            continue
        if re.fullmatch(r"\d{9,11}", epoch := o.captures.get("boot_epoch", "")):
            told.append(Tie(0.0, float(epoch), True, f"the time of boot in {_place(o)}"))
        elif (stamp := o.captures.get("boot_stamp")) is not None:
            time, zone_known = parse_stamp(f"{stamp}:00" if stamp.count(":") == 1 else stamp, 0.0)
            if time is not None:
                told.append(Tie(0.0, time, zone_known, f"the time of boot in {_place(o)}"))
    for source in data.sources:
        if UPTIME_FILE.search(source.path) and source.size <= UPTIME_BYTES and (tie := _uptime(source)) is not None:
            told.append(tie)
    # Two hosts boot at two times: then nothing says whose is meant.
    return told if told and max(t.time for t in told) - min(t.time for t in told) <= 60 + AGREE else []


def _uptime(source: Source) -> Tie | None:
    """The tie in a file that holds what `uptime -s` printed."""
    try:
        text = beginning(source.file, UPTIME_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    for line in text.splitlines():
        if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line.strip()):
            time, _ = parse_stamp(line.strip(), 0.0)
            return Tie(0.0, time, False, f"the time of boot in {source.path}") if time is not None else None
    return None


def _same_event(kernel: Observation, other: Observation, *, untimed: bool = False) -> bool:
    """Whether a message of the run must be of the event that a kernel line reports.

    untimed: whether the time of the line above will do where a message bears none, as those of tracebacks do.
    """
    if other.time is None or not (other.timed or untimed):
        return False
    code = KILLED.get(kernel.signature)
    if code is not None:
        pid = kernel.captures.get("pid")
        if pid is None or other.captures.get("pid") != pid:
            return False
        told = other.captures.get("exitcode")
        return told == code or (told is None and other.signature in KILLED_WORDS)
    same = SAID_BY_PROGRAMS.get(kernel.signature)
    return same is not None and (other.signature == kernel.signature or other.signature in same)


def _coincidences(mine: Sequence[_Entry], others: Sequence[Observation]) -> list[Tie]:
    """A tie by the one incident that the run's own logs report too; none where there are several."""
    ties: list[Tie] = []
    for e in mine:
        seen = [o.time for o in others if _same_event(e.observation, o) and o.time is not None]
        if seen:
            first = min(seen)
            other = next(o for o in others if o.time == first and _same_event(e.observation, o))
            by = f"{_place(e.observation)} and {_place(other)}, which are taken to tell of the same moment"
            ties.append(Tie(e.seconds, first, other.zone_known, by))
    if not ties or max(t.seconds for t in ties) - min(t.seconds for t in ties) > AGREE:
        return []
    return [min(ties, key=lambda t: t.seconds)]


def _zones(
    observations: Sequence[Observation], own: set[int], others: Sequence[Observation], end: float
) -> list[Observation]:
    """Kernel logs in another zone than the run's logs, set right by the events that both report.

    Only where one whole shift fits every such event of the log, and none fits without it. A traceback bears no time and
    comes at some time after the line above it: it tells of a zone where the kernel's time lies before that line, or
    after `end`, the last time in any of the run's logs.
    """
    shifts: dict[str, set[float]] = defaultdict(set)
    for n in own:
        o = observations[n]
        if o.time is None or not o.timed or o.signature == ANCHOR:
            continue
        for other in others:
            if other.time is None or (o.zone_known and other.zone_known) or not _same_event(o, other, untimed=True):
                continue
            if not other.timed and other.time - SOON <= o.time <= end + NOTICED:
                continue
            difference = other.time - o.time
            whole = round(difference / STEP_OF_ZONES) * STEP_OF_ZONES
            within = NOTICED if o.signature in KILLED else SOON
            if abs(difference - whole) <= within and abs(whole) <= FARTHEST:
                shifts[o.evidence[0].file].add(whole)
            elif other.timed:
                shifts[o.evidence[0].file].add(float("nan"))
    result = list(observations)
    for n in own:
        o = observations[n]
        found = shifts.get(o.evidence[0].file, set())
        if len(found) != 1 or o.time is None or not o.timed or o.zone_known:
            continue
        shift = next(iter(found))
        if shift == shift and shift != 0.0:  # not a number: some event fits no zone
            note = SHIFTED.format(hours=shift / 3600)
            result[n] = replace(o, time=o.time + shift, note=_join(o, note))
    return result


def in_zone_of_victims(data: RunData) -> RunData:
    """The run with kernel logs that state a zone moved to the clock of the run's logs, which state none.

    A rank that the kernel killed says its last word just before: where quarters of an hour, and no other shift, bring
    the kernel's line to behind that word, they are what the clocks differ by. Ranks must be known (`place_ranks`).
    """
    kernels = {fact.source for fact in data.facts if fact.name == FACT}
    own = [o for o in data.observations if o.time is not None and o.timed and o.evidence[0].file not in kernels]
    if any(o.zone_known for o in own):
        return data
    last: dict[int, float] = {}
    for w in data.writers:
        if w.identity.rank is not None and w.last_time is not None and w.source not in kernels:
            last[w.identity.rank] = max(last.get(w.identity.rank, w.last_time), w.last_time)
    shifts: dict[str, set[float]] = defaultdict(set)
    for o in data.observations:
        if o.signature not in KILLED or o.evidence[0].file not in kernels or o.time is None or not o.zone_known:
            continue
        end = last.get(o.identity.rank) if o.identity.rank is not None else None
        if end is None:
            continue
        shift = math.ceil((end - AGREE - o.time) / QUARTER) * QUARTER
        near = o.time + shift - end <= NOTICED and abs(shift) <= FARTHEST
        shifts[o.evidence[0].file].add(shift if near else float("nan"))
    moved = {file: next(iter(told)) for file, told in shifts.items() if len(told) == 1}
    moved = {file: shift for file, shift in moved.items() if shift == shift and shift != 0.0}
    if not moved:
        return data

    def fitted(o: Observation) -> Observation:
        shift = moved.get(o.evidence[0].file)
        if shift is None or o.time is None or not o.zone_known:
            return o
        note = _join(o, SHIFTED.format(hours=shift / 3600))
        return replace(o, time=o.time + shift, zone_known=False, note=note)

    return replace(data, observations=tuple(fitted(o) for o in data.observations))


def _join(o: Observation, note: str) -> str:
    return f"{o.note}. {note[0].upper()}{note[1:]}" if o.note else note


def _account(ties: Mapping[int, Sequence[Tie]]) -> str:
    if not any(ties.values()):
        return "times since boot, not aligned with wall time"
    by = next(t.by for group in ties.values() for t in group)
    return f"times since boot, aligned by {by}"


def _covered(coverage: Sequence[Coverage], forms: Mapping[str, str], said: Mapping[str, str]) -> tuple[Coverage, ...]:
    """Coverage that says of each kernel log that it is one, and how its times were read."""
    rows = []
    for row in coverage:
        if row.path in forms and row.status is Status.READ:
            what = f"kernel log ({forms[row.path]})"
            what += f": {said[row.path]}" if row.path in said else ""
            row = replace(row, reason=f"{row.reason}; {what}" if row.reason else what)
        rows.append(row)
    return tuple(rows)
