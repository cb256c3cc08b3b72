"""The parts of a triage page, in the order in which they are read. Each is a function from the page to HTML."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.report.html.frame import Section
from forensics.report.html.markup import Markup, join, tag
from forensics.report.words import plural
from forensics.triage.insight.unknown import members_of
from forensics.triage.model import Batch, CauseCount, JobResult
from forensics.triage.page import insight
from forensics.triage.page.links import bar, cause_link, job_link
from forensics.triage.page.material import Page
from forensics.triage.page.rows import Beside, hours_words, jobs_table, tone

_CAUSES = 25  # shown at once; the rest is folded
_MOST_CAUSES = 1_000
_OPEN = 3  # causes whose example stands open
_FINE = ("(healthy)", "(recovered)")
_LINE = 200  # characters of a key line


def sections(page: Page) -> list[Section]:
    """Every part that has something to say."""
    batch = page.batch
    found: list[Section] = []

    def add(key: str, title: str, body: Markup | None) -> None:
        if body:
            found.append((key, title, body))

    add("causes", "Causes", causes(page))
    add("unknown", "Unknown failures", insight.unknown(page))
    add("concentrations", "What causes go with", insight.concentrations(page))
    add("hardware", "Flaky hardware", insight.hardware(page))
    if batch.results:
        add("jobs", "Jobs", jobs_table(batch.results, _beside(page)))
    notes = (*page.notes, *batch.notes, *batch.insights.notes)
    add("notes", "Left out", tag("ul", *(tag("li", note) for note in notes)) if notes else None)
    return found


def headline(page: Page, made: str) -> Markup:
    """How many jobs failed, what that cost, and what most of them failed of. made: when, in words."""
    batch = page.batch
    failed = [r for r in batch.results if r.failed]
    unread = sum(1 for r in batch.results if r.error is not None)
    total = len(batch.results)
    said = f"{len(failed):,} of {plural(total, 'job')} failed" if total else "No job meets these filters"
    parts = [lost(failed), _most(batch)]
    if page.asked is not None and page.asked.values and total:
        parts.insert(0, f"{page.asked.total:,} without the filters.")
        if batch.insights.unknown or batch.insights.concentrations or batch.insights.hardware:
            parts.append("Groups, what causes go with and hardware are counted over all of them.")
    if unread:
        parts.append(f"{plural(unread, 'job')} could not be analysed.")
    kind = "bad" if failed else "warn" if unread or not total else "good"
    return tag(
        "header",
        tag("p", tag("span", "TRIAGE", class_="verdict"), tag("span", made, class_="sure"), class_="badges"),
        tag("h1", said),
        tag("p", " ".join(filter(None, parts)), class_="summary") if any(parts) else None,
        tag("p", "; ".join(batch.paths), class_="run"),
        class_=f"head {kind}",
    )


def _beside(page: Page) -> Beside:
    batch = page.batch
    groups = members_of(batch.insights.unknown)
    return Beside(folder=page.folder, links=batch.reports, groups=groups, now=batch.made)


def lost(failed: Sequence[JobResult]) -> str | None:
    """GPU-hours of failed jobs as a sentence; says of how many they are known."""
    known = [r.gpu_hours for r in failed if r.gpu_hours is not None]
    if not known:
        return None
    of = "" if len(known) == len(failed) else f" (known for {len(known):,} of them)"
    return f"Failed jobs took {hours_words(sum(known))} GPU-hours{of}."


def _most(batch: Batch) -> str | None:
    named = [c for c in batch.causes if not c.cause.startswith("(")]
    if not named:
        return None
    first = named[0]
    return f"Most frequent: {first.cause}, {plural(first.jobs, 'job')}."


def causes(page: Page) -> Markup | None:
    """Causes by count, with what an example of each printed."""
    counts = page.batch.causes[:_MOST_CAUSES]
    if not counts:
        return None
    rows = {r.path: r for r in page.batch.results}
    most = max((c.jobs for c in counts if c.cause not in _FINE), default=1)
    cells = [_cause(c, rows.get(c.example or ""), page, most, n < _OPEN) for n, c in enumerate(counts)]
    parts = [_causes_table(cells[:_CAUSES])]
    if rest := cells[_CAUSES:]:
        parts.append(tag("details", tag("summary", plural(len(rest), "further cause")), _causes_table(rest)))
    left = len(page.batch.causes) - len(counts)
    return join(*parts, tag("p", f"… and {plural(left, 'more cause')}", class_="more") if left > 0 else None)


def _causes_table(rows: Sequence[Markup]) -> Markup:
    names = ("jobs", "GPU h", "cause", "since", "what it is")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_="sortable causes"), class_="wide")


def _cause(count: CauseCount, example: JobResult | None, page: Page, most: int, opened: bool) -> Markup:
    kind = tone(example) if example is not None else None
    hours = hours_words(count.gpu_hours) if count.gpu_hours_known else None
    shown = count.cause not in _FINE
    return tag(
        "tr",
        tag("td", tag("span", f"{count.jobs:,}", data_v=count.jobs), bar(count.jobs / most, kind) if shown else None),
        tag("td", tag("span", hours, data_v=round(count.gpu_hours * 1000)) if hours else None),
        tag("td", cause_link(count.cause, page.asked), class_=kind),
        tag("td", (count.first or "")[:10], class_="n"),
        tag("td", _what(count, example, page, opened)),
    )


def _what(count: CauseCount, example: JobResult | None, page: Page, opened: bool) -> Markup | None:
    """The title of a cause; what an example of it printed, and what to do, folded below."""
    title = count.title or _WORDS.get(count.cause)
    parts: list[Markup] = []
    if example is not None and example.error is not None:
        parts.append(tag("div", example.error, class_="said"))
    elif example is not None and example.root is not None:
        line = " ".join(example.evidence.text.split())[:_LINE] if example.evidence is not None else ""
        if line:
            parts.append(tag("div", tag("code", line), class_="said"))
        if example.fix:
            parts.append(tag("div", "To do: ", example.fix, class_="next"))
    if not parts or example is None:
        return tag("b", title) if title else None
    parts.append(tag("small", "for example ", job_link(example.path, page)))
    return tag("details", tag("summary", tag("b", title or count.cause)), *parts, open=opened)


_WORDS = {
    "(healthy)": "Nothing went wrong.",
    "(recovered)": "Went on after trouble.",
    "(interrupted)": "Was ended from outside.",
    "(unknown)": "What is there does not tell what became of it.",
    "(timeout)": "Analysing it took longer than a job may take.",
    "(memory)": "Analysing it took more memory than a job may take.",
    "(crashed)": "Analysing it ended the process.",
    "(nothing)": "There is nothing to analyse.",
    "(unreadable)": "It cannot be read.",
    "(fault)": "Analysing it failed, which is a fault of forensics.",
}
