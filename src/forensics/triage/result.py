"""From an analysis to the row of a triage: plain data, bounded in size, the same for the same bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from forensics.engine.diagnosis import stamp
from forensics.engine.identity import NCCL_INIT, pci_bus
from forensics.engine.kernel.cards import LISTED
from forensics.engine.pipeline import Analysis
from forensics.model import Diagnosis, Finding, Observation, Role, RunData, Source, Traceback, Writer
from forensics.parsers.run_files.whereabouts import Whereabouts, whereabouts
from forensics.triage.aborts import BY_WORDS, last_words
from forensics.triage.endings import ending, is_of_a_report, last_told, passes_on
from forensics.triage.hosts import one_name
from forensics.triage.hours import between_attempts, gpu_hours, gpus, parts_of
from forensics.triage.insight.hardware import is_hardware
from forensics.triage.labels import labels_of
from forensics.triage.model import IN_A_WORKER, VAGUE, Device, JobResult, Place, Sign, Unexplained

MOST_SIGNS = 24
MOST_NODES = 256
MOST_DEVICES = 64
MOST_FRAMES = 24
MOST_LINES = 8
LONGEST = 500  # characters of a line
CAPTURES = 12  # of a sign
# Causes of a machine or its GPUs beside those that speak for draining it: memory that a program took, and the like.
_OF_A_MACHINE = ("gpu-", "host-", "cuda-")
_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f-]{4,27}", re.I)


def result_of(
    analysis: Analysis,
    *,
    path: str,
    layout: str,
    fingerprint: str,
    size: int,
    files: int,
    modified: float | None = None,
    labels: Mapping[str, str] = {},
) -> JobResult:
    """The row of an analysed job. size: bytes; modified: seconds since the epoch."""
    diagnosis, data = analysis.diagnosis, analysis.data
    roots = diagnosis.of_role(Role.ROOT)
    first = roots[0] if roots else None
    run = diagnosis.run
    told = whereabouts(data.sources)
    started, ended = _span(diagnosis, data, told)
    nodes = _nodes(diagnosis, data, told)
    return JobResult(
        path=path,
        layout=layout,
        fingerprint=fingerprint,
        bytes=size,
        files=files,
        modified=modified,
        verdict=diagnosis.verdict.value,
        root=first.name if first else None,
        roots=tuple(dict.fromkeys(f.name for f in roots))[:MOST_SIGNS],
        codes=first.codes if first else (),
        title=first.title[:LONGEST] if first else None,
        severity=first.severity if first else None,
        confidence=first.confidence if first else None,
        ranks=first.ranks if first else None,
        node=_node(first, nodes),
        step=first.step if first else None,
        step_unit=first.step_unit if first else None,
        epoch=first.epoch if first else None,
        attempt=first.attempt if first else None,
        time=first.time if first else None,
        evidence=_place(first) if first else None,
        fix=first.fix[0] if first and first.fix else None,
        summary=diagnosis.summary[: 2 * LONGEST],
        world_size=run.world_size,
        attempts=run.attempts,
        started=started,
        ended=ended,
        gpu_hours=gpu_hours(
            gpus(run.world_size, diagnosis.findings, data),
            started,
            ended,
            between_attempts(data.writers, parts_of(data)),
        ),
        signs=tuple(map(_sign, diagnosis.findings[:MOST_SIGNS])),
        nodes=nodes,
        devices=_devices(diagnosis, data, nodes),
        labels=labels_of(data.facts, labels),
        unexplained=_unexplained(first, data) if _is_unknown(first, diagnosis) else _of_words(first, data),
    )


def _last(diagnosis: Diagnosis, data: RunData) -> str | None:
    """The last time that anything bears: where a job that hung or still runs was seen last."""
    times = [w.last_time for w in data.writers if w.last_time is not None]
    return stamp(max(times), False) if times and diagnosis.run.started is not None else None


def _place(finding: Finding) -> Place | None:
    if not finding.evidence:
        return None
    key = finding.evidence[0]
    return Place(file=key.file, line=key.line, text=key.text[:LONGEST])


def _sign(finding: Finding) -> Sign:
    captures = {k: v[:LONGEST] for k, v in sorted(finding.captures.items())[:CAPTURES]}
    return Sign(
        name=finding.name,
        role=finding.role.value,
        severity=finding.severity,
        confidence=finding.confidence,
        ranks=finding.ranks[:MOST_NODES] if finding.ranks is not None else None,
        devices=finding.devices,
        node=finding.node,
        step=finding.step,
        time=finding.time,
        captures=captures,
    )


def _nodes(diagnosis: Diagnosis, data: RunData, told: Whereabouts) -> tuple[str, ...]:
    """Every node that a job's files name, each by one name."""
    found = {f.node for f in diagnosis.findings} | {s.identity.node for s in data.sources}
    found |= {o.identity.node for o in data.observations} | {t.identity.node for t in data.tracebacks}
    # A container's or tracker's own name for the host is asked where nothing else names one.
    names = {node for node in found if node} or set(told.hosts)
    shown = one_name(names)
    return tuple(sorted({shown.get(name, name) for name in names}))[:MOST_NODES]


def _node(first: Finding | None, nodes: tuple[str, ...]) -> str | None:
    """The node of a cause; of one that lies in a machine, the only node of its job."""
    if first is None:
        return None
    return node_of(first.name, first.node, nodes)


def node_of(cause: str | None, node: str | None, nodes: tuple[str, ...]) -> str | None:
    """The node of a cause (a slug); of one that lies in a machine, the only one of its job's."""
    if cause is None or len(nodes) != 1:
        return node
    return nodes[0] if node is not None or is_hardware(cause) or cause.startswith(_OF_A_MACHINE) else node


def _span(diagnosis: Diagnosis, data: RunData, told: Whereabouts) -> tuple[str | None, str | None]:
    """(start, end) of a job, ISO 8601: of its logs, else of what its tracker wrote down."""
    started = diagnosis.run.started
    ended = diagnosis.run.ended or _last(diagnosis, data)
    if told.ended is None or (started is not None and ended is not None and started < ended):
        return started, ended
    # An error file bears one time, of the failure, in a zone that it does not tell; the tracker's two belong together.
    return stamp(told.started, True), stamp(told.ended, True)


def _devices(diagnosis: Diagnosis, data: RunData, nodes: tuple[str, ...]) -> tuple[Device, ...]:
    """GPUs by what tells them apart: bus ids and serials of any line, and CUDA indices of root findings.

    A bus id or an index says nothing without its node; where a line names none, it is the only one of the job.
    """
    only = nodes[0] if len(nodes) == 1 else None
    blamed = {f.evidence[0] for f in diagnosis.of_role(Role.ROOT) if f.evidence}
    found: dict[tuple[str | None, str | None, str | None, int | None], bool] = {}
    listed: set[tuple[str | None, str | None, str | None, int | None]] = set()
    for o in data.observations:
        bus = pci_bus(o.captures.get("bdf", "") or o.captures.get("bus_id", "") or o.captures.get("bus", ""))
        serial = o.captures.get("serial")
        if serial is None and o.evidence and (m := _UUID.search(o.evidence[0].text[:LONGEST])):
            serial = m[0]
        if bus is None and serial is None:
            continue
        key = (only or o.identity.node, bus, serial, o.identity.device)
        found[key] = found.get(key, False) or bool(o.evidence and o.evidence[0] in blamed)
        if _lists(o):
            listed.add(key)
    for f in diagnosis.of_role(Role.ROOT):
        for device in f.devices or ():
            if not any(node == (only or f.node) and index == device for node, _, _, index in found):
                found[only or f.node, None, None, device] = True
    ordered = sorted(found.items(), key=lambda item: (not item[1], *(str(part or "") for part in item[0])))
    return tuple(
        Device(node=key[0], bus_id=key[1], serial=key[2], index=key[3], blamed=named, listed=key in listed)
        for key, named in ordered[:MOST_DEVICES]
    )


def _lists(o: Observation) -> bool:
    """Whether a line lists a GPU whatever becomes of it; the kernel names a card with its first error only."""
    return o.signature == NCCL_INIT or (o.signature == LISTED and "NVRM: " not in o.evidence[0].text)


def _is_unknown(first: Finding | None, diagnosis: Diagnosis) -> bool:
    if first is not None:
        return first.name in VAGUE
    return diagnosis.verdict.value not in ("healthy", "recovered")


def _unexplained(first: Finding | None, data: RunData) -> Unexplained:
    traceback = _blamed_traceback(first, data)
    sources = {source.path: source for source in data.sources}
    lines = Counter(_last_line(w, sources.get(w.source)) for w in data.writers if w.last_line.strip())
    common = tuple(line for line, _ in lines.most_common(MOST_LINES))
    errors = Counter(error.text.strip()[:LONGEST] for error in data.last_errors)
    last_error = next((text for text, _ in errors.most_common(1) if text), None)
    if traceback is None:
        return Unexplained(last_lines=common, last_error=last_error)
    return _raised(traceback, common)


def _of_words(first: Finding | None, data: RunData) -> Unexplained | None:
    """What a program or a loader's worker said when it gave up, where it is known only that it did."""
    if first is not None and first.name == IN_A_WORKER:
        return _raised_in_a_worker(first, data)
    said = last_words(first, data) if first is not None and first.name in BY_WORDS else None
    return Unexplained(last_lines=(said[:LONGEST],)) if said is not None else None


def _raised_in_a_worker(first: Finding, data: RunData) -> Unexplained | None:
    """What the user's code raised in a loader's worker; None where none of its frames is the user's."""
    keys = {(e.file, e.line) for e in first.evidence}
    original = [
        t
        for t in data.tracebacks
        if t.own_frames and (t.final.file, t.final.line) in keys and not t.message.startswith("Caught ")
    ]
    return _raised(original[0]) if original else None


def _raised(traceback: Traceback, last_lines: tuple[str, ...] = ()) -> Unexplained:
    return Unexplained(
        exception=traceback.exception[:LONGEST],
        message=traceback.message[:LONGEST],
        frames=_user_frames(traceback),
        last_lines=last_lines,
    )


def _last_line(writer: Writer, source: Source | None) -> str:
    """The last line of a log; where that passes on a status, the last line of trouble before it, if there is one.

    Below a scheduler's report the last line of the program.
    """
    line = writer.last_line.strip()
    reported = is_of_a_report(line)
    told = ending(source) if source is not None and (reported or passes_on(line)) else None
    if source is not None and reported and told is None:
        told = last_told(source)
    return (told or line)[:LONGEST]


def _blamed_traceback(first: Finding | None, data: RunData) -> Traceback | None:
    """The traceback that the root's key line belongs to; else the first that was not survived."""
    serious = [t for t in data.tracebacks if t.chained != "ignored"]
    if first is not None and first.evidence:
        keys = {(e.file, e.line) for e in first.evidence}
        for t in serious:
            if (t.final.file, t.final.line) in keys or (t.header.file, t.header.line) in keys:
                return t
    timed = sorted((t for t in serious if t.time is not None), key=lambda t: t.time or 0.0)
    return timed[0] if timed else serious[0] if serious else None


def _user_frames(traceback: Traceback) -> tuple[tuple[str, int, str], ...]:
    own = traceback.own_frames[-MOST_FRAMES:]
    return tuple((file[:LONGEST], line, function[:LONGEST]) for file, line, function in own)
