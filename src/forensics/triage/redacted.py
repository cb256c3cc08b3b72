"""Rows without names, hosts, addresses and secrets: one stand-in for one thing through the whole triage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.report.redaction import Redactor
from forensics.triage.insight.model import Insights
from forensics.triage.insight.unknown import retold
from forensics.triage.model import Batch, JobResult
from forensics.triage.names import teach


def redacted(batch: Batch, redactor: Redactor | None = None, *, patterns: Sequence[str] = ()) -> Batch:
    """The batch as it may be shared; links to reports keep their targets. Slugs, numbers and fingerprints stay.

    Raises RedactionError as Redactor does.
    """
    redactor = redactor if redactor is not None else Redactor(patterns=patterns)
    roots: dict[str, None] = {}
    for result in batch.results:
        if result.root is not None:
            redactor.memory.spoken.update(re.findall(r"[a-z]+", result.root))
            roots[result.root] = None
        for host in (result.node, *result.nodes, *(s.node for s in result.signs), *(d.node for d in result.devices)):
            if host:
                redactor.host(host)
    redactor.keep_of(roots)
    for unit in batch.insights.hardware:
        for host in (unit.node, *unit.before):
            if host:
                redactor.host(host)
    known: dict[str, str] = {}

    def text(value: str) -> str:
        if value not in known:
            known[value] = redactor.redact(value)
        return known[value]

    for result in batch.results:  # learns: a name is replaced also in the rows before the one that gives it away
        _row(result, redactor, text, _as_is)
    _insights(batch.insights, redactor, text, {})
    teach(redactor, batch.results)
    known = {value: redactor.again(shown) for value, shown in known.items()}
    of_nodes: dict[tuple[str, ...], Callable[[str], str]] = {}
    cleaners: dict[str, Callable[[str], str]] = {}
    for result in batch.results:
        nodes = tuple(sorted({name for name in (result.node, *result.nodes) if name}))
        if nodes not in of_nodes:
            of_nodes[nodes] = _without_nodes(nodes, redactor)
        cleaners[result.path] = of_nodes[nodes]
    results = tuple(_row(result, redactor, text, cleaners[result.path]) for result in batch.results)
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
        insights=_insights(batch.insights, redactor, text, cleaners),
    )


def _maybe(text: Callable[[str], str], value: str | None) -> str | None:
    return text(value) if value is not None else None


def _both(first: Callable[[str], str], second: Callable[[str], str]) -> Callable[[str], str]:
    return lambda line: second(first(line))


def _as_is(line: str) -> str:
    return line


def _of_node(name: str, redactor: Redactor, text: Callable[[str], str]) -> str:
    """The name of a GPU: its serial, else `<node> <bus id>` or `<node> GPU <index>`."""
    node, space, rest = name.partition(" ")
    return f"{redactor.host(text(node))} {text(rest)}" if space and node != "?" else text(name)


def _without_nodes(nodes: Iterable[str | None], redactor: Redactor) -> Callable[[str], str]:
    """Takes the known nodes of a row out of its lines, also names so short that they are a word in any other text."""
    stand_ins = {}
    for name in nodes:
        bare = name.split(".")[0] if name else ""
        if any(char in bare for char in "-0123456789") and not bare.isdigit() and (to := redactor.host(bare)) != bare:
            stand_ins[bare] = to
    if not stand_ins:
        return _as_is
    longest = sorted(stand_ins, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")
    return lambda line: pattern.sub(lambda m: stand_ins[m[0]], line)


def _insights(
    found: Insights, redactor: Redactor, text: Callable[[str], str], rows: Mapping[str, Callable[[str], str]]
) -> Insights:
    """The same stand-ins as in rows: a group's jobs are found among them by their paths.

    rows: path of a job -> what takes its nodes out of its lines.
    """

    def valued(factor: str, value: str) -> str:
        if factor == "node":
            return redactor.host(text(value))
        if factor == "gpu":
            return _of_node(value, redactor, text)
        return text(f"{factor}={value}").removeprefix(f"{factor}=")

    def cleaned(path: str) -> Callable[[str], str]:
        return rows.get(path, _as_is)

    return replace(
        found,
        unknown=tuple(
            replace(
                retold(group, _both(text, cleaned(group.representative))),
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
                name=redactor.host(text(unit.name)) if unit.name == unit.node else _of_node(unit.name, redactor, text),
                node=redactor.host(text(unit.node)) if unit.node else None,
                before=tuple(redactor.host(text(node)) for node in unit.before),
                serial=_maybe(text, unit.serial),
                events=tuple(replace(e, job=text(e.job), what=cleaned(e.job)(text(e.what))) for e in unit.events),
                jobs=tuple(map(text, unit.jobs)),
            )
            for unit in found.hardware
        ),
        notes=tuple(map(text, found.notes)),
    )


def _row(result: JobResult, redactor: Redactor, text: Callable[[str], str], own: Callable[[str], str]) -> JobResult:
    """own: takes the row's own nodes out of what its files say."""
    line = _both(text, own)

    def node(name: str | None) -> str | None:
        return redactor.host(text(name)) if name else name

    def captured(values: Mapping[str, str]) -> dict[str, str]:
        return {k: line(f"{k}={v}").removeprefix(f"{k}=") for k, v in values.items()}

    place, rest = result.evidence, result.unexplained
    return replace(
        result,
        path=text(result.path),
        error=_maybe(line, result.error),
        title=_maybe(line, result.title),
        summary=line(result.summary),
        fix=_maybe(line, result.fix),
        node=node(result.node),
        nodes=tuple(n for n in map(node, result.nodes) if n),
        evidence=replace(place, file=line(place.file), text=line(place.text)) if place else None,
        signs=tuple(replace(s, node=node(s.node), captures=captured(s.captures)) for s in result.signs),
        devices=tuple(replace(d, node=node(d.node), serial=_maybe(text, d.serial)) for d in result.devices),
        labels=captured(result.labels),
        names=(),
        unexplained=replace(
            rest,
            message=_maybe(line, rest.message),
            frames=tuple((text(file), number, function) for file, number, function in rest.frames),
            last_lines=tuple(map(line, rest.last_lines)),
            last_error=_maybe(line, rest.last_error),
        )
        if rest
        else None,
    )
