"""Observations in kernel logs, completed by what only such a log says: when, on which device, by which process.

The scan and the signatures have found the lines; here each gets the time of its own stamp (or none, where that counts
from boot: engine.kernel.clock aligns those), an Xid its meaning, and the lines of one memory kill become one sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.files import buffered
from forensics.model import Evidence, Observation, Source
from forensics.parsers.kernel import oom, records, xid
from forensics.parsers.kernel.lines import KernelLine, parse_stamp, read_line, recognise, wall_time

HEAD = 16 << 10  # bytes by which a log is recognised
FIRST = 6  # lines of which one must bear a kernel log's prefix, before more are looked at
BACK = 4 << 10  # bytes before a line without a stamp in which the stamp of its record is looked for
BEFORE, AFTER = 1 << 20, 16 << 10  # bytes around a line of the memory killer that can belong to its block
SHORT = 4 << 10  # bytes before such a line that are read where nothing opens a block
RELATIVE = 64 << 20  # bytes of a log of differences that are summed up
OOM = ("host-oom", "host-oom-cgroup")
NOTICE = "gpu-xid-notice"
# Words of kernel messages that are often pasted, or continued, without a prefix.
_KERNELS_OWN = re.compile(r"NVRM: |\bXid \(|\boom-kill:|\binvoked oom-killer|Killed process \d")
_FALLEN = re.compile(r"NVRM: The NVIDIA GPU (?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
# amdgpu names the process whose work it was: in the line of the fault ("for process python pid 4 thread python pid 4",
# gmc_v*.c up to Linux 6.8), or in one of its own below it (" in process", " Process", "Process information: process").
_AMD = re.compile(r"\bamdgpu\b")
_AMD_PROCESS = re.compile(
    r"\b[Pp]rocess (?:information: process )?(?P<process>\S[^\n]{0,31}?) pid (?P<pid>\d{1,10}) "
    r"thread (?P<thread>[^\n]{0,32}?) pid \d"
)
_AMD_BUS = re.compile(r"amdgpu (?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):")
_AMD_BELOW = 3  # lines below it that are looked at
_ASKED_ONLY = re.compile(r"^(?:nvidia-smi|nvidia-\w+|nv-\w+|dcgm\w*|gpud|nvtop)")
_SYSTEM_TAGS = ("kernel", "systemd-oomd", "earlyoom", "systemd")
_DIFFERENCES = re.compile(rb"^\[(?:(?P<minute>[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)| *\+(?P<delta>\d{1,9}\.\d{6}))\]", re.M)


@dataclass(frozen=True, slots=True)
class Refined:
    """The observations of one log, and its form if it is a kernel or system log."""

    observations: tuple[Observation, ...]
    form: str | None


def form_of(head: bytes) -> str | None:
    """The form of a kernel or system log by its first bytes; None for any other file. Cheap for any other."""
    if head.lstrip().startswith(b"{"):
        form = records.form_of(head)
        return {"dmesg": "dmesg --json", "journal": "journal json", "journal pretty": "journal json"}.get(form or "")
    lines = head.decode("utf-8", "replace").replace("\r", "").split("\n")
    if len(lines) > 1 and len(head) >= HEAD:
        lines = lines[:-1]
    first = [line for line in lines[:60] if line.strip()][:FIRST]
    return recognise(lines) if any(read_line(line) for line in first) else None


def refine(source: Source, observations: Sequence[Observation], *, reference: float) -> Refined:
    """The observations of a log with what its kernel lines say. Reads parts of the file only; never raises OSError.

    reference: seconds since the epoch near which dates without a year lie.
    """
    form = form_of(_read(source.file, 0, HEAD))
    texts = [o.evidence[0].text if o.evidence[0].line is not None else "" for o in observations]
    lines = [read_line(text) for text in texts]
    if form is None and not any(line or _KERNELS_OWN.search(text) for text, line in zip(texts, lines, strict=True)):
        return Refined(tuple(observations), None)
    wanted = {
        o.evidence[0].offset for o, line in zip(observations, lines, strict=True) if line and line.form == "dmesg -e"
    }
    sums = _sums(source.file, wanted, reference) if wanted else {}
    completed = []
    for o, line in zip(observations, lines, strict=True):
        if o.evidence[0].line is None:
            completed.append(o)
            continue
        own = line
        if line is None and (form is not None or _KERNELS_OWN.search(o.evidence[0].text)):
            own = _record_of(source.file, o)
        completed.append(_device(source.file, form, _timed(o, own, form, sums, reference)))
    return Refined(_kills(source, form, completed), form)


def _read(file: Path, offset: int, size: int) -> bytes:
    try:
        with buffered(file) as stream:
            stream.seek(offset)
            return stream.read(size)
    except OSError:
        return b""


def _record_of(file: Path, o: Observation) -> KernelLine | None:
    """The prefix of the record that a line without one continues."""
    offset = o.evidence[0].offset
    if not offset:
        return None
    start = max(0, offset - BACK)
    for raw in reversed(_read(file, start, offset - start).split(b"\n")[-12:]):
        if (line := read_line(raw.decode("utf-8", "replace").rstrip("\r"))) is not None:
            return line
    return None


def _timed(
    o: Observation, line: KernelLine | None, form: str | None, sums: dict[int, float], reference: float
) -> Observation:
    """The observation with time and host of its own record, where a kernel or a daemon of the system wrote it."""
    if line is None or not (line.by_kernel or line.tag in _SYSTEM_TAGS or form is not None):
        return o
    time, zone_known = wall_time(line, reference)
    if time is None and line.delta is not None and o.evidence[0].offset is not None:
        time = sums.get(o.evidence[0].offset)
    identity = o.identity
    if line.host is not None and identity.node is None:
        identity = replace(identity, node=line.host)
    if identity.pid is not None and identity.pid == line.pid and line.tag != "kernel" and "pid" not in o.captures:
        identity = replace(identity, pid=None)
    return replace(o, time=time, zone_known=zone_known, timed=time is not None, identity=identity)


def _sums(file: Path, wanted: set[int | None], reference: float) -> dict[int, float]:
    """Offset of a wanted line -> seconds since the epoch, in a log that prints minutes and differences (dmesg -e, -H).

    The minute is all that is printed of the first time, so all are early by less than a minute.
    """
    times: dict[int, float] = {}
    now: float | None = None
    for m in _DIFFERENCES.finditer(_read(file, 0, RELATIVE)):
        if m["minute"]:
            start, _ = parse_stamp(m["minute"].decode("ascii"), reference)
            now = start if now is None or start is None or start > now else now
        elif now is not None:
            now += float(m["delta"])
        if now is not None and m.start() in wanted:
            times[m.start()] = now
    return times


def _device(file: Path, form: str | None, o: Observation) -> Observation:
    """The observation of an Xid, an SXid or a lost card with its device, its process and what it means."""
    text = o.evidence[0].text
    if (found := xid.read_xid(text)) is not None:
        captures = {**o.captures, "xid": str(found.number), "bdf": found.bus}
        identity = o.identity
        # The pid of any other Xid is that of whoever called the driver, which may be a monitor.
        own = found.number in xid.OF_THE_PROCESS and not _ASKED_ONLY.match(found.process or "")
        if found.pid is not None and own:
            identity = replace(identity, pid=found.pid)
        if found.pid is not None:
            captures["pid"] = str(found.pid)
        if found.process is not None:
            captures["process"] = found.process
        if found.meaning is not None:
            captures["meaning"] = found.meaning.meaning
        o = replace(o, identity=identity, captures=captures, note=_join(o, xid.describe(found)))
        decoded = xid.decode_link(found.number, found.body)
        if decoded is not None and not decoded[1].fatal and decoded[1].action == "ignore":
            return replace(o, signature=NOTICE, rule=None)
        return o
    if (meaning := xid.describe_switch(text)) is not None:
        return replace(o, note=_join(o, meaning))
    pid = o.captures.get("pid", "")
    if pid.isdigit() and o.identity.pid is None and (line := read_line(text)) is not None and line.by_kernel:
        o = replace(o, identity=replace(o.identity, pid=int(pid[:10])))
    if not pid and _AMD.search(text):
        return _of_amd(file, form, o)
    if "bdf" not in o.captures and "fallen off the bus" in text and o.evidence[0].offset is not None:
        start = max(0, o.evidence[0].offset - 400)
        above = _read(file, start, o.evidence[0].offset - start).decode("utf-8", "replace")
        if places := list(_FALLEN.finditer(above)):
            return replace(o, captures={**o.captures, "bdf": places[-1]["bus"].lower()})
    return o


def _of_amd(file: Path, form: str | None, o: Observation) -> Observation:
    """A message of the amdgpu driver with the process that it, or a line right below it, names."""
    told = _AMD_PROCESS.search(o.evidence[0].text)
    if told is None and (start := o.evidence[0].offset) is not None:
        bus = _AMD_BUS.search(o.evidence[0].text)
        for _, message in _messages(_read(file, start, BACK), start, form)[1 : _AMD_BELOW + 1]:
            other = _AMD_BUS.search(message)
            if bus is None or other is None or bus["bus"] == other["bus"]:
                told = told or _AMD_PROCESS.search(message)
    if told is None or told["pid"] == "0":
        return o
    captures = {**o.captures, "pid": told["pid"], "process": told["process"]}
    return replace(o, identity=replace(o.identity, pid=int(told["pid"])), captures=captures)


def _join(o: Observation, note: str) -> str:
    return f"{o.note}. {note}" if o.note else note


def _kills(source: Source, form: str | None, observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """The observations, those of one memory kill as one."""
    offsets = sorted(
        {
            o.evidence[0].offset
            for o in observations
            if o.signature in OOM and o.evidence[0].offset is not None and oom.speaks_of_oom(_message(o))
        }
    )
    if not offsets:
        return tuple(observations)
    kill_at: dict[int, oom.OomKill] = {}
    for start, end in _stretches(source.file, offsets, source.size):
        messages = _messages(_read(source.file, start, end - start), start, form)
        for kill in oom.read_kills(messages):
            for place in kill.places:
                kill_at.setdefault(place, kill)
    groups: dict[int, list[int]] = {}
    for n, o in enumerate(observations):
        offset = o.evidence[0].offset
        if o.signature in OOM and offset in kill_at and oom.speaks_of_oom(_message(o)):
            groups.setdefault(id(kill_at[offset]), []).append(n)
    merged: dict[int, Observation | None] = {}
    for members in groups.values():
        ordered = [observations[n] for n in members]
        kill = kill_at[ordered[0].evidence[0].offset or 0]
        merged |= dict.fromkeys(members)
        merged[members[0]] = _one(ordered, kill)
    results = [merged.get(n, o) for n, o in enumerate(observations)]
    return tuple(o for o in results if o is not None)


def _message(o: Observation) -> str:
    line = read_line(o.evidence[0].text)
    return line.message if line is not None else o.evidence[0].text


def _stretches(file: Path, offsets: Sequence[int], size: int) -> list[tuple[int, int]]:
    """(start, end) of the blocks around offsets, without overlap: from the line that opens one, if near enough."""
    stretches: list[tuple[int, int]] = []
    for offset in offsets:
        end = min(size, offset + AFTER)
        last = stretches[-1][1] if stretches else 0
        if stretches and offset < last:
            stretches[-1] = (stretches[-1][0], max(end, last))
            continue
        begin = max(0, offset - BEFORE, last)
        data = _read(file, begin, offset - begin)
        opened = data.rfind(b"invoked oom-killer")
        start = begin + data.rfind(b"\n", 0, opened) + 1 if opened >= 0 else max(begin, offset - SHORT)
        stretches.append((start, end))
    return stretches


def _messages(data: bytes, shift: int, form: str | None) -> list[tuple[int, str]]:
    """(offset in the file, message) of the lines of a stretch."""
    if form == "dmesg --json":
        told = [(r.offset, r.text) for r in records.dmesg_records(data)]
    else:
        told, at = [], 0
        for raw in data.split(b"\n"):
            if form == "journal json" and raw.startswith(b"{"):
                told += [(at, text) for text in records.decode(raw)]
            else:
                told.append((at, raw[: 16 << 10].decode("utf-8", "replace").rstrip("\r")))
            at += len(raw) + 1
    return [(shift + at, line.message if (line := read_line(text)) is not None else text) for at, text in told]


def _one(members: Sequence[Observation], kill: oom.OomKill) -> Observation:
    """One observation of a kill from those of its lines; the line with the victim's sizes leads."""
    order = {place: n for n, place in enumerate(kill.places)}
    ranked = sorted(members, key=lambda o: order.get(o.evidence[0].offset or -1, len(order)))
    key = ranked[0]
    captures = {k: v for o in reversed(ranked) for k, v in o.captures.items()} | oom.captures(kill)
    evidence: list[Evidence] = []
    for o in ranked:
        evidence += [e for e in o.evidence if e not in evidence]
    # The summary line of a kill in a group names it as the group's, its victim's line in some kernels as the host's.
    signature = key.signature
    if kill.constraint is not None:
        signature = "host-oom-cgroup" if kill.constraint == "cgroup" else "host-oom"
    task = captures.get("task", "")
    identity = replace(key.identity, pid=kill.pid, task=int(task) if task.isdigit() else key.identity.task)
    return replace(
        key,
        signature=signature,
        weight=max(o.weight for o in members),
        evidence=tuple(evidence[:4]),
        identity=identity,
        captures=captures,
        note=_join(key, oom.describe(kill)),
        time=next((o.time for o in ranked if o.time is not None), None),
        timed=any(o.timed for o in ranked),
        count=1,
        culprits=None,
        rule=key.rule if signature == key.signature else None,
    )
