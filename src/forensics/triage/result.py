"""From an analysis to the row of a triage: plain data, bounded in size, the same for the same bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from forensics.engine.identity import NCCL_INIT, pci_bus
from forensics.engine.pipeline import Analysis
from forensics.model import Diagnosis, Finding, Role, RunData, Traceback, Writer
from forensics.triage.labels import labels_of
from forensics.triage.model import VAGUE, Device, JobResult, Place, Sign, Unexplained

MOST_SIGNS = 24
MOST_NODES = 256
MOST_DEVICES = 64
MOST_FRAMES = 24
MOST_LINES = 8
LONGEST = 500  # characters of a line
CAPTURES = 12  # of a sign
_LISTINGS = frozenset({NCCL_INIT, "gpu-listed"})
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
        node=first.node if first else None,
        step=first.step if first else None,
        step_unit=first.step_unit if first else None,
        attempt=first.attempt if first else None,
        time=first.time if first else None,
        evidence=_place(first) if first else None,
        fix=first.fix[0] if first and first.fix else None,
        summary=diagnosis.summary[: 2 * LONGEST],
        world_size=run.world_size,
        attempts=run.attempts,
        started=run.started,
        ended=run.ended or _last(diagnosis, data),
        gpu_hours=gpu_hours(run.world_size, run.started, run.ended or _last(diagnosis, data)),
        signs=tuple(map(_sign, diagnosis.findings[:MOST_SIGNS])),
        nodes=_nodes(diagnosis, data),
        devices=_devices(diagnosis, data),
        labels=labels_of(data.facts, labels),
        unexplained=_unexplained(first, data) if _is_unknown(first, diagnosis) else None,
    )


def gpu_hours(world_size: int | None, started: str | None, ended: str | None) -> float | None:
    """World size x hours from start to end (ISO 8601); one process a GPU is what launchers make. None if unknown."""
    if not world_size or started is None or ended is None:
        return None
    try:
        span = datetime.fromisoformat(ended.rstrip("Z")) - datetime.fromisoformat(started.rstrip("Z"))
    except ValueError:
        return None
    hours = span.total_seconds() / 3600
    return round(world_size * hours, 3) if hours >= 0 else None


def _last(diagnosis: Diagnosis, data: RunData) -> str | None:
    """The last time that anything bears: where a job that hung or still runs was seen last."""
    from forensics.engine.diagnosis import stamp

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


def _nodes(diagnosis: Diagnosis, data: RunData) -> tuple[str, ...]:
    found = {f.node for f in diagnosis.findings} | {s.identity.node for s in data.sources}
    found |= {o.identity.node for o in data.observations} | {t.identity.node for t in data.tracebacks}
    return tuple(sorted(node for node in found if node))[:MOST_NODES]


def _devices(diagnosis: Diagnosis, data: RunData) -> tuple[Device, ...]:
    """GPUs by what tells them apart: bus ids and serials of any line, and CUDA indices of root findings."""
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
        key = (o.identity.node, bus, serial, o.identity.device)
        found[key] = found.get(key, False) or bool(o.evidence and o.evidence[0] in blamed)
        if o.signature in _LISTINGS:
            listed.add(key)
    for f in diagnosis.of_role(Role.ROOT):
        for device in f.devices or ():
            if not any(node == f.node and index == device for node, _, _, index in found):
                found[f.node, None, None, device] = True
    ordered = sorted(found.items(), key=lambda item: (not item[1], *(str(part or "") for part in item[0])))
    return tuple(
        Device(node=key[0], bus_id=key[1], serial=key[2], index=key[3], blamed=named, listed=key in listed)
        for key, named in ordered[:MOST_DEVICES]
    )


def _is_unknown(first: Finding | None, diagnosis: Diagnosis) -> bool:
    if first is not None:
        return first.name in VAGUE
    return diagnosis.verdict.value not in ("healthy", "recovered")


def _unexplained(first: Finding | None, data: RunData) -> Unexplained:
    traceback = _blamed_traceback(first, data)
    lines = Counter(_last_line(w) for w in data.writers if w.last_line.strip())
    common = tuple(line for line, _ in lines.most_common(MOST_LINES))
    if traceback is None:
        return Unexplained(last_lines=common)
    return Unexplained(
        exception=traceback.exception[:LONGEST],
        message=traceback.message[:LONGEST],
        frames=_user_frames(traceback),
        last_lines=common,
    )


def _last_line(writer: Writer) -> str:
    return writer.last_line.strip()[:LONGEST]


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
    installed = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>")
    own = [f for f in traceback.frames if not any(part in f[0] for part in installed)]
    return tuple((file[:LONGEST], line, function[:LONGEST]) for file, line, function in own[-MOST_FRAMES:])
