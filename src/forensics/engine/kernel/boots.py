"""A host that was started anew where a run's log breaks off, by its kernel log: it went down under the run.

That a host starts is no trouble: hosts are started for new kernels, and when nothing runs on them. It went down where
file systems had to be recovered at the start, nothing before it tells of an orderly shutdown, and a log that recorded
steps in a rhythm stops, with no word of an end or error, no longer before it than a host needs to come up. Where ranks
of other hosts waited in vain or lost a peer then, the start alone is enough: nobody starts a host on which a run is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from forensics.engine import whose
from forensics.engine.finishes import FINISHED
from forensics.engine.hangs import says_of_waits
from forensics.engine.kernel import FACT
from forensics.engine.peers import LOST_PEER
from forensics.engine.powerloss import BOOTED, HOST_DOWN
from forensics.engine.steps import StepClock
from forensics.engine.survival import CLOCK_SLACK
from forensics.files import buffered
from forensics.model import Evidence, Observation, RunData, Source, Writer
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

WEIGHT = 0.82  # as two logs that agree by their clocks (`powerloss`), without the zero bytes
# Seconds that a server may need from its fall to the first line of its kernel: watchdog, firmware, the test of its
# memory. Some minutes are usual; a terabyte and more takes longer.
COMES_UP = 900.0
FEWEST = 5  # records with a time that show a rhythm
_AFTER, _BEFORE = 1 << 20, 64 << 10  # bytes around the first line of a start
# What ext4, XFS, Btrfs and FAT say of a file system that was in use when the host stopped. What journald says of a file
# that was not closed is no sign: it does so after many a clean shutdown, of users' journals above all.
_UNCLEAN = lazy(
    rb"EXT4-fs \([^)\n]{1,60}\): (?:orphan cleanup on readonly fs|recovery complete|INFO: recovery required)"
    rb"|XFS \([^)\n]{1,60}\): Starting recovery|BTRFS info [^\n]{0,80}: start tree-log replay"
    rb"|Volume was not properly unmounted"
)
# What systemd, logind and the kernel say of a shutdown that somebody asked for.
_ORDERLY = lazy(
    rb"reboot: (?:Restarting system|Power down|System halted)|kexec_core: Starting new kernel"
    rb"|systemd-logind\[\d+\]: (?:The system will |System is )(?:reboot|power|halt|suspend)"
    rb"|systemd-shutdown\[\d+\]|Reached target (?:\S+ - )?(?:System )?(?:Reboot|Shutdown|Power[- ]Off|Halt)"
    rb"|Received signal (?:15|SIGTERM) [^\n]{0,40}(?:shutting down|from PID 1)|Journal stopped"
)
_SIGNS = lazy(r"[._]")  # between the parts of a file's name
_START = lazy(rb"Linux version \d+\.\d+")
_NOTE = (
    "the log breaks off while steps are being recorded, and {apart} later the host's kernel starts, with file systems "
    "to recover and no shutdown before it"
)
_AWAITED = (
    "the log breaks off while steps are being recorded, {apart} later the host's kernel starts, and ranks of other "
    "hosts waited in vain or lost a peer"
)


class _Log(NamedTuple):
    """A log that recorded steps until it stops."""

    writer: Writer
    last: float  # seconds since the epoch
    interval: float  # usual seconds between two records
    step: int


def went_down(
    data: RunData, found: Sequence[Observation], steps: StepClock, catalogue: Mapping[str, Signature]
) -> list[Observation]:
    """The sign that a host went down, for each log that breaks off shortly before its host was started anew.

    found: all observations of the run. A log is of the host unless its path or lines name another one; where one that
    may be of the host speaks after the start, the start was no end of it.
    """
    boots = [o for o in found if o.signature == BOOTED and o.timed and o.time is not None]
    if not boots:
        return []
    kernels = {f.source for f in data.facts if f.name == FACT} | {o.evidence[0].file for o in boots}
    sources = {s.path: s for s in data.sources}
    starts = [(o, _start(sources.get(o.evidence[0].file), o.evidence[0])) for o in boots]
    unclean = [o for o, start in starts if start.recovered and not start.orderly]
    unexplained = [o for o, start in starts if not start.orderly]
    waits = [o for o in found if o.signature in LOST_PEER or _waits(o, catalogue)]
    if not unclean and not waits:
        return []
    writers = [w for w in data.writers if w.source not in kernels]
    hosts = _hosts(data, found, kernels)
    result = []
    for log in filter(None, (_broken_off(w, data, found, steps, catalogue) for w in writers)):
        name = log.writer.source
        awaited = any(_waited_for(log, o, hosts) for o in waits)
        near = [
            o
            for o in (unexplained if awaited else unclean)
            if -CLOCK_SLACK <= (o.time or 0.0) - log.last <= COMES_UP + log.interval
            and not _of_other_host(name, hosts.get(name), o.identity.node)
            and not any(_speaks_after(w, o, hosts) for w in writers)
        ]
        if near:
            boot = min(near, key=lambda o: o.time or 0.0)
            rank = sources[name].identity.rank if awaited else None
            result.append(_sign(log, boot, rank, _NOTE if boot in unclean else _AWAITED))
    return result


def _waits(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    return o.signature in catalogue and says_of_waits(catalogue[o.signature])


def _hosts(data: RunData, found: Sequence[Observation], kernels: Collection[str]) -> dict[str, str]:
    """Log -> its host, by its path or, where one alone is named in it, by its lines."""
    named: dict[str, set[str]] = defaultdict(set)
    for o in found:
        if o.identity.node and o.evidence[0].file not in kernels:
            named[o.evidence[0].file].add(o.identity.node)
    told = {file: next(iter(nodes)) for file, nodes in named.items() if len(nodes) == 1}
    return told | {s.path: s.identity.node for s in data.sources if s.identity.node}


def _waited_for(log: _Log, wait: Observation, hosts: Mapping[str, str]) -> bool:
    """Whether a rank of another host than a log's says, after that broke off, that it waited or lost a peer."""
    file = wait.evidence[0].file
    apart = whose.apart(hosts.get(log.writer.source), hosts.get(file))
    return apart and wait.time is not None and wait.time > log.last


def _broken_off(
    writer: Writer,
    data: RunData,
    found: Sequence[Observation],
    steps: StepClock,
    catalogue: Mapping[str, Signature],
) -> _Log | None:
    """A log that stops amid its records; None where it is not known to."""
    marks = [m for m in steps.marks.get(writer.source, ()) if m.time is not None and m.line is not None]
    times = [m.time for m in marks if m.time is not None]
    if len(times) < FEWEST or writer.last_time is None:
        return None
    interval = median(b - a for a, b in pairwise(times))
    last = marks[-1]
    if interval <= 0 or writer.last_time - times[-1] > max(2 * interval, CLOCK_SLACK):
        return None
    if any(t.final.file == writer.source and (t.final.line or 0) > (last.line or 0) for t in data.tracebacks):
        return None
    for o in found:
        kind = catalogue[o.signature].kind if o.signature in catalogue else None
        ended = o.signature == FINISHED and (o.time is None or o.time >= times[-1] - CLOCK_SLACK)
        own = o.evidence[0].file == writer.source and (o.evidence[0].line or 0) > (last.line or 0)
        if ended or (own and kind in ("cause", "symptom", "echo")):
            return None
    return _Log(writer, writer.last_time, interval, last.step)


def _speaks_after(writer: Writer, boot: Observation, hosts: Mapping[str, str]) -> bool:
    """Whether a log that may be of the host says something once the host is up again."""
    last = writer.last_time
    if last is None or boot.time is None or last <= boot.time + CLOCK_SLACK:
        return False
    return not _of_other_host(writer.source, hosts.get(writer.source), boot.identity.node)


def _of_other_host(path: str, node: str | None, host: str | None) -> bool:
    """Whether a log is of another host than one: by the host it is known to be of, else by the names in its path."""
    if node is not None or host is None:
        return whose.apart(node, host)
    names = {name for part in path.split("/") for name in (part, *_SIGNS.split(part))}
    return not any(whose.label(name) == whose.label(host) for name in names) and any(
        whose.apart(name, host) for name in names
    )


class _Start(NamedTuple):
    """What stands around the first line of a start of a host."""

    recovered: bool = False  # below it: traces of a host that was not shut down
    orderly: bool = False  # above it: somebody shut it down


def _start(source: Source | None, boot: Evidence) -> _Start:
    if source is None or boot.offset is None:
        return _Start()
    start = max(0, boot.offset - _BEFORE)
    try:
        with buffered(source.file) as stream:
            stream.seek(start)
            before = stream.read(boot.offset - start)
            after = stream.read(_AFTER)
    except OSError:
        return _Start()
    first = _START.search(after)
    following = _START.search(after, first.end()) if first is not None else None
    after = after[: following.start()] if following is not None else after
    earlier = [m.end() for m in _START.finditer(before)]
    before = before[earlier[-1] :] if earlier else before
    return _Start(_UNCLEAN.search(after) is not None, _ORDERLY.search(before) is not None)


def _sign(log: _Log, boot: Observation, rank: int | None, note: str) -> Observation:
    from forensics.engine.kernel.relevance import in_words

    broken = Evidence(log.writer.source, None, None, log.writer.last_line)
    return Observation(
        signature=HOST_DOWN,
        weight=WEIGHT,
        evidence=(broken, *boot.evidence),
        identity=boot.identity,
        culprits=(rank,) if rank is not None else (),
        time=log.last,
        zone_known=boot.zone_known,
        step=log.step,
        step_is="last_seen",
        note=note.format(apart=in_words(max((boot.time or 0.0) - log.last, 0.0))),
    )
