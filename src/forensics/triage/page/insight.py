"""What shows only over many jobs: groups of unknown failures, what causes go with, hardware that fails again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.report.html.markup import Markup, join, tag
from forensics.report.words import plural
from forensics.triage.filters import moment
from forensics.triage.insight.model import (
    DRAIN,
    Concentration,
    FlakyUnit,
    HardwareEvent,
    Share,
    UnknownGroup,
)
from forensics.triage.insight.tables import of_nodes, times
from forensics.triage.page.links import bar, job_link, job_links, rows_link
from forensics.triage.page.material import Page
from forensics.triage.page.rows import hours_words
from forensics.triage.page.timeline import Lane, axis, lane, span

_GROUPS = 25  # of unknown failures that are shown at once; the rest is folded
_MOST = 200  # items of a part
_MEMBERS = 12  # jobs that an item names
_EVENTS = 60  # of a node or GPU


def _more(count: int, what: str) -> Markup | None:
    return tag("p", f"… and {plural(count, f'more {what}')}", class_="more") if count > 0 else None


def unknown(page: Page) -> Markup | None:
    """Failures without a known signature, grouped; with what each group has in common and its jobs."""
    groups = page.batch.insights.unknown
    if not groups:
        return None
    most = max(len(g.jobs) for g in groups)
    rows = [_group(g, page, most, n < 1) for n, g in enumerate(groups[:_MOST])]
    parts = [_groups_table(rows[:_GROUPS])]
    if rest := rows[_GROUPS:]:
        parts.append(tag("details", tag("summary", plural(len(rest), "further group")), _groups_table(rest)))
    lead = tag(
        "p",
        "Failures without a known signature that have exception, place and message in common. A signature for one: ",
        tag("code", "forensics signatures draft GROUP"),
        class_="note",
    )
    return join(lead, *parts, _more(len(groups) - _MOST, "group"))


def _groups_table(rows: Sequence[Markup]) -> Markup:
    names = ("jobs", "GPU h", "group", "since", "what they have in common")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_="sortable causes"), class_="wide")


def _group(group: UnknownGroup, page: Page, most: int, opened: bool) -> Markup:
    hours = hours_words(group.gpu_hours) if group.gpu_hours_known else None
    count = len(group.jobs)
    return tag(
        "tr",
        tag("td", tag("span", f"{count:,}", data_v=count), bar(count / most, "warn")),
        tag("td", tag("span", hours, data_v=round(group.gpu_hours * 1000)) if hours else None),
        tag("td", tag("code", group.name)),
        tag("td", (group.first or "")[:10], class_="n"),
        tag("td", _common(group, page, opened)),
    )


def _common(group: UnknownGroup, page: Page, opened: bool) -> Markup:
    return tag(
        "details",
        tag("summary", tag("b", group.title)),
        tag("div", tag("code", group.template), class_="said") if group.template else None,
        tag("div", "in ", *_in_between(group.frames), class_="next") if group.frames else None,
        tag("div", "printed ", tag("code", group.line), class_="next") if group.line else None,
        tag("small", "read first ", job_link(group.representative, page)),
        tag("small", "jobs ", job_links(group.jobs, page, _MEMBERS, group.name)),
        open=opened,
    )


def _in_between(frames: Sequence[str]) -> list[Markup | str]:
    parts: list[Markup | str] = []
    for frame in frames:
        parts += [" ← ", tag("code", frame)] if parts else [tag("code", frame)]
    return parts


def concentrations(page: Page) -> Markup | None:
    """Which values causes go with, with how often against the other jobs, and how likely that is chance."""
    insights = page.batch.insights
    if not insights.concentrations:
        return None
    names = ("cause", "goes with", "with it", "without", "times as often", "chance", "jobs")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    body = tag("tbody", *(_concentration(c, page) for c in insights.concentrations[:_MOST]))
    lead = (
        "Causes that are more frequent among jobs with a value than among the other jobs that state one, with the "
        f"95 % interval of how much more. Chance is p after Holm's correction for {plural(insights.tried, 'test')}. "
        "That two things go together does not say which one brings the other about."
    )
    table = tag("div", tag("table", head, body, class_="sortable goes"), class_="wide")
    return join(tag("p", lead, class_="note"), table, _more(len(insights.concentrations) - _MOST, "concentration"))


def _concentration(found: Concentration, page: Page) -> Markup:
    jobs = plural(len(found.jobs), "job")
    value = found.value if found.numeric else f"= {found.value}"
    same = [tag("small", "the same jobs: ", tag("code", f"{name} = {value}")) for name, value in found.same[:5]]
    return tag(
        "tr",
        tag("td", found.cause),
        tag("td", tag("code", f"{found.factor} {value}"), *same),
        tag("td", _shared(found.inside), bar(found.inside.rate, "bad")),
        tag("td", _shared(found.outside), bar(found.outside.rate, None)),
        tag("td", tag("span", _ratio(found.ratio, found.low, found.high), data_v=round(found.ratio * 100)), class_="n"),
        tag("td", tag("span", _chance(found.adjusted), data_v=round(found.adjusted * 1e9)), class_="n"),
        tag("td", tag("details", tag("summary", jobs), job_links(found.jobs, page, _MEMBERS))),
    )


def _shared(share: Share) -> Markup:
    return tag("span", _share(share), data_v=round(share.rate * 10_000))


def _share(share: Share) -> str:
    rate = 100 * share.rate
    return f"{share.hits:,} of {share.jobs:,} ({f'{rate:.0f}' if rate >= 10 else f'{rate:.2g}'}%)"


def _ratio(ratio: float, low: float | None, high: float | None) -> str:
    interval = f" ({times(low)} to {times(high)})" if low is not None and high is not None else ""
    return times(ratio) + interval


def _chance(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.2g}"


def hardware(page: Page) -> Markup | None:
    """Nodes and GPUs that failed again, those to drain first; with when, in which jobs, and against what rate."""
    units = page.batch.insights.hardware
    if not units:
        return None
    shown = units[:_MOST]
    others = _others(page, {unit.node for unit in shown if unit.node})
    lanes = [_lane(unit, others.get(unit.node or "", {})) for unit in shown]
    ends = span(lanes)
    lead = (
        "Nodes and GPUs with hardware, host or network causes in several jobs at several times. Drain: more often than "
        "chance against the other nodes; watch: the evidence does not reach that."
    )
    blocks = [_unit(unit, drawn, ends, page) for unit, drawn in zip(shown, lanes, strict=True)]
    return join(
        tag("p", lead, class_="note"),
        axis(ends) if ends is not None else None,
        *blocks,
        _more(len(units) - _MOST, "unit"),
    )


def _others(page: Page, nodes: set[str]) -> dict[str, dict[str, float]]:
    """Node -> path of each job that ran there -> when it ended, seconds since the epoch."""
    found: dict[str, dict[str, float]] = {node: {} for node in nodes}
    for r in page.batch.results:
        for node in nodes.intersection((r.node or "", *r.nodes)):
            if (at := moment(r)) is not None:
                found[node][r.path] = at
    return found


def _lane(unit: FlakyUnit, there: Mapping[str, float]) -> Lane:
    own = {e.job for e in unit.events}
    return Lane(
        counted=tuple(e.seconds for e in unit.events if e.seconds is not None and e.counted),
        others=tuple(e.seconds for e in unit.events if e.seconds is not None and not e.counted),
        quiet=tuple(at for path, at in there.items() if path not in own),
    )


def _unit(unit: FlakyUnit, drawn: Lane, ends: tuple[float, float] | None, page: Page) -> Markup:
    kind = "bad" if unit.advice == DRAIN else "warn"
    causes = ", ".join(f"{cause} ({jobs:,})" for cause, jobs in unit.causes[:8])
    title = f"{'GPU' if unit.kind == 'gpu' else unit.kind} "
    return tag(
        "div",
        tag("h3", tag("span", unit.advice.upper(), class_="verdict"), " ", title, tag("code", unit.name), *_at(unit)),
        tag("p", _against(unit), *_jobs_of(unit, page), class_="said"),
        lane(drawn, ends) if ends is not None else None,
        tag("p", causes, class_="said") if causes else None,
        tag(
            "details",
            tag("summary", plural(len(unit.events), "event")),
            _events(unit.events[:_EVENTS], page),
            _more(len(unit.events) - _EVENTS, "event"),
        ),
        class_=f"unit {kind}",
    )


def _jobs_of(unit: FlakyUnit, page: Page) -> list[Markup | str]:
    """To the jobs of the unit's node."""
    return [" ", rows_link(f"Jobs on {unit.node}", "node", unit.node, page.asked)] if unit.node else []


def _at(unit: FlakyUnit) -> list[Markup | str]:
    """Where a GPU sits, as far as its name does not say so."""
    if unit.kind != "gpu":
        return []
    known = [
        ("on ", unit.node),
        ("before on ", ", ".join(unit.before)),
        ("bus ", unit.bus_id),
        ("index ", str(unit.index) if unit.index is not None else None),
    ]
    parts: list[Markup | str] = []
    for label, value in known:
        if value and value not in unit.name:
            parts += [f" {label}", tag("code", value)]
    return parts


def _against(unit: FlakyUnit) -> str:
    said = f"{plural(unit.incidents, 'incident')}: {_share(unit.here)} of the jobs {of_nodes(unit).strip() or 'here'}"
    if unit.elsewhere.jobs:
        said += f", {_share(unit.elsewhere)} elsewhere"
    if unit.ratio is not None:
        said += f"; {_ratio(unit.ratio, unit.low, unit.high)} times as often"
    if unit.adjusted is not None:
        said += f", chance {_chance(unit.adjusted)}"
    return f"{said}."


def _events(events: Sequence[HardwareEvent], page: Page) -> Markup:
    names = ("time", "job", "cause", "what", "counted")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    rows = [
        tag(
            "tr",
            tag("td", (e.time or "")[:19].replace("T", " "), class_="n"),
            tag("td", job_link(e.job, page)),
            tag("td", e.cause),
            tag("td", tag("code", e.what) if e.what else None),
            tag("td", "yes" if e.counted else "survived" if e.role == "context" else "same incident"),
        )
        for e in events
    ]
    return tag("div", tag("table", head, tag("tbody", *rows), class_="sortable"), class_="wide")
