"""All insights of a triage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forensics.triage.hosts import on_machines
from forensics.triage.insight import concentration, hardware, unknown
from forensics.triage.insight.model import Insights
from forensics.triage.model import JobResult


def insights(results: Sequence[JobResult]) -> Insights:
    """What shows over all these jobs. results: the whole triage, without a filter."""
    groups = unknown.group(results)
    placed = on_machines(results)
    found, tried = concentration.concentrations(placed, unknown.members_of(groups))
    return Insights(unknown=groups, concentrations=found, hardware=hardware.flaky(placed), tried=tried)


def related(found: Insights, paths: frozenset[str]) -> Insights:
    """What has to do with one of these jobs; its numbers stay those of all jobs."""
    return replace(
        found,
        unknown=tuple(g for g in found.unknown if not paths.isdisjoint(g.jobs)),
        concentrations=tuple(c for c in found.concentrations if not paths.isdisjoint(c.jobs)),
        hardware=tuple(u for u in found.hardware if not paths.isdisjoint(e.job for e in u.events)),
    )
