"""Rows without names, hosts, addresses and secrets: one stand-in for one thing through the whole triage."""

from __future__ import annotations

from dataclasses import replace

from forensics.report.redaction import Redactor, redact_tree
from forensics.triage.model import Batch, JobResult


def redacted(batch: Batch, redactor: Redactor | None = None) -> Batch:
    """The batch as it may be shared. Links to reports keep their targets."""
    redactor = redactor if redactor is not None else Redactor()
    results = tuple(redact_row(result, redactor) for result in batch.results)
    paths = {old.path: new.path for old, new in zip(batch.results, results, strict=True)}
    return replace(
        batch,
        paths=tuple(map(redactor.text, batch.paths)),
        results=results,
        causes=tuple(replace(c, example=paths.get(c.example or "", None)) for c in batch.causes),
        store=None,
        reports={paths.get(path, path): link for path, link in batch.reports.items()},
        notes=tuple(map(redactor.text, batch.notes)),
    )


def redact_row(result: JobResult, redactor: Redactor) -> JobResult:
    hosts = {host for host in (result.node, *result.nodes, *(s.node for s in result.signs)) if host}
    for host in sorted(hosts, key=len, reverse=True):
        redactor.know_host(host)
    return redact_tree(result, redactor)
