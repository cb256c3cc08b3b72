"""Rows without names, hosts, addresses and secrets: one stand-in for one thing through the whole triage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from forensics.report.redaction import Redactor
from forensics.triage.model import Batch, JobResult


def redacted(batch: Batch, redactor: Redactor | None = None, *, patterns: Sequence[str] = ()) -> Batch:
    """The batch as it may be shared; links to reports keep their targets. Slugs, numbers and fingerprints stay.

    Raises RedactionError as Redactor does.
    """
    redactor = redactor if redactor is not None else Redactor(patterns=patterns)
    for result in batch.results:
        if result.root is not None:
            redactor.memory.spoken.update(re.findall(r"[a-z]+", result.root))
        for host in (result.node, *result.nodes, *(s.node for s in result.signs), *(d.node for d in result.devices)):
            if host:
                redactor.host(host)
    known: dict[str, str] = {}

    def text(value: str) -> str:
        if value not in known:
            known[value] = redactor.redact(value)
        return known[value]

    results = tuple(_row(result, redactor, text) for result in batch.results)
    paths = {old.path: new.path for old, new in zip(batch.results, results, strict=True)}
    return replace(
        batch,
        paths=tuple(map(text, batch.paths)),
        results=results,
        causes=tuple(replace(c, title=_maybe(text, c.title), example=paths.get(c.example or "")) for c in batch.causes),
        store=None,
        reports={paths.get(path, path): link for path, link in batch.reports.items()},
        notes=tuple(map(text, batch.notes)),
    )


def _maybe(text: Callable[[str], str], value: str | None) -> str | None:
    return text(value) if value is not None else None


def _row(result: JobResult, redactor: Redactor, text: Callable[[str], str]) -> JobResult:
    def node(name: str | None) -> str | None:
        return redactor.host(redactor.redact(name)) if name else name

    def captured(values: Mapping[str, str]) -> dict[str, str]:
        return {k: redactor.redact(f"{k}={v}").removeprefix(f"{k}=") for k, v in values.items()}

    place, rest = result.evidence, result.unexplained
    return replace(
        result,
        path=text(result.path),
        error=_maybe(text, result.error),
        title=_maybe(text, result.title),
        summary=text(result.summary),
        node=node(result.node),
        nodes=tuple(n for n in map(node, result.nodes) if n),
        evidence=replace(place, file=text(place.file), text=text(place.text)) if place else None,
        signs=tuple(replace(s, node=node(s.node), captures=captured(s.captures)) for s in result.signs),
        devices=tuple(replace(d, node=node(d.node), serial=_maybe(text, d.serial)) for d in result.devices),
        labels=captured(result.labels),
        unexplained=replace(
            rest,
            message=_maybe(text, rest.message),
            frames=tuple((text(file), line, function) for file, line, function in rest.frames),
            last_lines=tuple(map(text, rest.last_lines)),
        )
        if rest
        else None,
    )
