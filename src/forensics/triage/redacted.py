"""Rows without names, hosts, addresses and secrets: one stand-in for one thing through the whole triage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from forensics.report.redaction import Redactor
from forensics.triage.insight.model import Insights
from forensics.triage.insight.unknown import retold
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
    for unit in batch.insights.hardware:
        if unit.node:
            redactor.host(unit.node)
    known: dict[str, str] = {}

    def text(value: str) -> str:
        if value not in known:
            known[value] = redactor.redact(value)
        return known[value]

    for result in batch.results:  # learns: a name is replaced also in the rows before the one that gives it away
        _row(result, redactor, text)
    _insights(batch.insights, redactor, text)
    known = {value: redactor.again(shown) for value, shown in known.items()}
    results = tuple(_row(result, redactor, text) for result in batch.results)
    paths = {old.path: new.path for old, new in zip(batch.results, results, strict=True)}
    return replace(
        batch,
        paths=tuple(map(text, batch.paths)),
        results=results,
        causes=tuple(replace(c, title=_maybe(text, c.title), example=paths.get(c.example or "")) for c in batch.causes),
        store=None,
        jobs={},
        reports={paths.get(path, path): link for path, link in batch.reports.items()},
        notes=tuple(map(text, batch.notes)),
        insights=_insights(batch.insights, redactor, text),
    )


def _maybe(text: Callable[[str], str], value: str | None) -> str | None:
    return text(value) if value is not None else None


def _insights(found: Insights, redactor: Redactor, text: Callable[[str], str]) -> Insights:
    """The same stand-ins as in rows: a group's jobs are found among them by their paths."""

    def valued(factor: str, value: str) -> str:
        if factor == "node":
            return redactor.host(text(value))
        return text(f"{factor}={value}").removeprefix(f"{factor}=")

    return replace(
        found,
        unknown=tuple(
            replace(
                retold(group, text),
                name=text(group.name),
                aliases=tuple(map(text, group.aliases)),
                jobs=tuple(map(text, group.jobs)),
                representative=text(group.representative),
            )
            for group in found.unknown
        ),
        concentrations=tuple(
            replace(
                c,
                cause=text(c.cause),
                value=c.value if c.numeric else valued(c.factor, c.value),
                jobs=tuple(map(text, c.jobs)),
                same=tuple((factor, valued(factor, value)) for factor, value in c.same),
            )
            for c in found.concentrations
        ),
        hardware=tuple(
            replace(
                unit,
                name=redactor.host(text(unit.name)) if unit.name == unit.node else text(unit.name),
                node=redactor.host(text(unit.node)) if unit.node else None,
                serial=_maybe(text, unit.serial),
                events=tuple(replace(e, job=text(e.job), what=text(e.what)) for e in unit.events),
                jobs=tuple(map(text, unit.jobs)),
            )
            for unit in found.hardware
        ),
        notes=tuple(map(text, found.notes)),
    )


def _row(result: JobResult, redactor: Redactor, text: Callable[[str], str]) -> JobResult:
    def node(name: str | None) -> str | None:
        return redactor.host(text(name)) if name else name

    def captured(values: Mapping[str, str]) -> dict[str, str]:
        return {k: text(f"{k}={v}").removeprefix(f"{k}=") for k, v in values.items()}

    place, rest = result.evidence, result.unexplained
    return replace(
        result,
        path=text(result.path),
        error=_maybe(text, result.error),
        title=_maybe(text, result.title),
        summary=text(result.summary),
        fix=_maybe(text, result.fix),
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
