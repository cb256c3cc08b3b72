"""The tables of insights as plain cells, for terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.report.inert import one_line
from forensics.report.words import plural
from forensics.triage.insight.model import Concentration, FlakyUnit, Insights, Share
from forensics.triage.insight.statistics import p_words

UNKNOWN = ["jobs", "GPU h", "group", "since", "what they have in common"]
CONCENTRATIONS = ["cause", "goes with", "with it", "without", "times as often", "chance", "job"]
HARDWARE = ["advice", "node or GPU", "incidents", "elsewhere", "chance", "when", "causes", "jobs"]
_JOBS = 4  # that one line names
_EVENTS = 6  # of a unit on the terminal


def titles(insights: Insights) -> tuple[str, str, str]:
    """A line above each table, which says how to read it."""
    return (
        "Unknown failures, grouped (a draft of a signature: forensics signatures draft GROUP)",
        f"What causes go with (95 % interval; chance after Holm's correction for {plural(insights.tried, 'test')})",
        "Hardware that failed again (incidents of the jobs that ran there)",
    )


def unknown_cells(insights: Insights, most: int) -> Iterator[list[str]]:
    """Rows for UNKNOWN."""
    for g in insights.unknown[:most]:
        hours = f"{g.gpu_hours:,.1f}" if g.gpu_hours_known else "-"
        yield [f"{len(g.jobs):,}", hours, g.name, (g.first or "-")[:10], one_line(g.title, 160)]


def concentration_cells(insights: Insights, most: int) -> Iterator[list[str]]:
    """Rows for CONCENTRATIONS; the last cell is an example."""
    for c in insights.concentrations[:most]:
        ratio = f"{times(c.ratio)} ({times(c.low)} to {times(c.high)})"
        example = c.jobs[0] if c.jobs else "-"
        yield [c.cause, _value(c), _of(c.inside), _of(c.outside), ratio, p_words(c.adjusted), example]


def hardware_cells(insights: Insights, most: int) -> Iterator[list[str]]:
    """Rows for HARDWARE, with the jobs as evidence."""
    for u in insights.hardware[:most]:
        more = f" and {len(u.jobs) - _JOBS} more" if len(u.jobs) > _JOBS else ""
        jobs = f"{', '.join(u.jobs[:_JOBS])}{more}"
        yield [u.advice, _unit(u), _of(u.here), _of(u.elsewhere), _chance(u), _when(u), _causes(u), jobs]


def hardware_lines(insights: Insights, most: int) -> Iterator[str]:
    """The same for a terminal: each unit with its timeline."""
    for u in insights.hardware[:most]:
        compared = (
            f"elsewhere {_of(u.elsewhere)}, chance {_chance(u)}" if u.p is not None else "nothing to compare with"
        )
        where = f"{plural(u.here.jobs, 'job')}{of_nodes(u)}"
        yield f"{u.advice:5}  {_unit(u)}: {plural(u.incidents, 'incident')} in {where}; {compared}"
        for e in u.events[:_EVENTS]:
            said = f"{(e.time or 'time unknown')[:19]:19}  {e.cause}  {e.job}{f'  {e.what}' if e.what else ''}"
            yield f"       {said}{'' if e.counted else '  (not counted)'}"
        if len(u.events) > _EVENTS:
            yield f"       and {plural(len(u.events) - _EVENTS, 'further event')}"


def of_nodes(u: FlakyUnit) -> str:
    """Whose jobs a GPU is judged by: its nodes', since few jobs say which GPUs they had; "" where it is a node."""
    if u.kind != "gpu":
        return ""
    return " of its nodes" if u.before else " of its node"


def _chance(u: FlakyUnit) -> str:
    return p_words(u.adjusted) if u.adjusted is not None else "-"


def _when(u: FlakyUnit) -> str:
    days = sorted(e.time[:10] for e in u.events if e.counted and e.time is not None)
    return "-" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _causes(u: FlakyUnit) -> str:
    return ", ".join(f"{cause} ({jobs})" for cause, jobs in u.causes[:3])


def _value(c: Concentration) -> str:
    said = f"{c.factor} {c.value}" if c.numeric else f"{c.factor}={c.value}"
    return f"{said} (or {plural(len(c.same), 'other setting')} of the same jobs)" if c.same else said


def _unit(u: FlakyUnit) -> str:
    if u.kind == "node":
        return u.name
    where = f" on {u.node}" if u.node and u.node not in u.name else ""
    before = f" (before on {', '.join(u.before)})" if u.before else ""
    return f"GPU {u.name}{where}{before}"


def _of(share: Share) -> str:
    return f"{share.hits:,} of {share.jobs:,}"


def times(value: float) -> str:
    """A ratio as it is shown: `3.4`, `1,200`."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
