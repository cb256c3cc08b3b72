"""The table with one row a job: bounded, cut into parts that a browser need not lay out until they are opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forensics.rank_ranges import rank_ranges
from forensics.report.html.markup import Markup, join, tag
from forensics.report.words import plural
from forensics.triage.filters import age, moment
from forensics.triage.model import JobResult

MOST_ROWS = 20_000  # of one page, some 4 MB; what stands further down is said to be left out
FIRST = 100  # rows that stand open where no script runs
PART = 1_000  # rows of each part that is folded
_MOST_NODES = 64  # of a job, that it is found by
_LONGEST = 300  # characters of a path
_HEADS = ("cause", "job", "rank", "node", "step", "sure", "age", "GPU h")


def ordered(results: Iterable[JobResult]) -> list[JobResult]:
    """Trouble before the rest, each from the newest to the oldest; what bears no time keeps its order, last."""
    return sorted(results, key=lambda r: (not (r.failed or r.error is not None), -(moment(r) or 0.0)))


def common_folder(paths: Sequence[str]) -> str:
    """The folder, with its last "/", that all paths lie in; "" where there is none, or but one path."""
    if len(paths) < 2:
        return ""
    low, high = min(paths), max(paths)
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    return low[: low.rfind("/", 0, same) + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What rows show beside their results."""

    folder: str  # that all paths lie in
    links: Mapping[str, str]  # path of a job -> address of its report
    groups: Mapping[str, str]  # path of a job -> name of its unknown group
    now: float  # seconds since the epoch


def jobs_table(results: Sequence[JobResult], beside: Beside) -> Markup:
    """Rows in the order of `ordered`, with a search that the script turns on."""
    folder = beside.folder
    shown = ordered(results)[:MOST_ROWS]
    left = len(results) - len(shown)
    parts = [_table(shown[:FIRST], beside)]
    for start in range(FIRST, len(shown), PART):
        part = shown[start : start + PART]
        title = f"Jobs {start + 1:,} to {start + len(part):,}"
        table = _table(part, beside)
        parts.append(tag("details", tag("summary", title), table, class_="further long"))
    return join(
        tag("p", "All below ", tag("code", folder), ". Failures first, the newest at the top.", class_="note")
        if folder
        else tag("p", "Failures first, the newest at the top.", class_="note"),
        _finder(),
        *parts,
        tag("p", f"… and {plural(left, 'more job')}, not listed in this page", class_="more") if left > 0 else None,
    )


def _finder() -> Markup:
    """What the script turns into a search; without one nothing of it is seen."""
    return tag(
        "div",
        tag("label", "find ", tag("input", type="search", id="find", placeholder="words of a row", autocomplete="off")),
        tag("label", "cause ", tag("select", tag("option", "any", value=""), id="cause")),
        tag("label", "rows ", tag("select", *(tag("option", n) for n in ("100", "500", "all")), id="size")),
        tag(
            "span",
            tag("button", "‹", type="button", id="back", aria_label="previous rows"),
            tag("output", id="range", aria_live="polite"),
            tag("button", "›", type="button", id="next", aria_label="next rows"),
            class_="pager",
        ),
        class_="find",
        hidden=True,
    )


def _table(rows: Iterable[JobResult], beside: Beside) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in _HEADS)))
    body = tag("tbody", *(_row(r, beside) for r in rows))
    return tag("div", tag("table", head, body, class_="jobs"), class_="wide")


def _row(result: JobResult, beside: Beside) -> Markup:
    hours = age(result, beside.now)
    name = _cut(result.path.removeprefix(beside.folder) or result.path)
    link = beside.links.get(result.path)
    # What no cell shows, and other parts of the page name the job by.
    also = [*(n for n in result.nodes[:_MOST_NODES] if n != result.node), beside.groups.get(result.path, "")]
    return tag(
        "tr",
        tag("td", result.cause, class_=tone(result)),
        tag(
            "td",
            tag("a", name, href=link) if link else name,
            tag("small", result.error.partition(": ")[2][:_LONGEST]) if result.error else None,
        ),
        tag("td", rank_ranges(result.ranks, limit=4) if result.ranks else None),
        tag("td", result.node),
        tag("td", result.reached),
        tag("td", sure(result.confidence)),
        tag("td", age_words(hours), data_v=hours) if hours is not None else tag("td"),
        tag("td", hours_words(result.gpu_hours)),
        data_also=" ".join(filter(None, also)) or None,
    )


def _cut(path: str) -> str:
    return path if len(path) <= _LONGEST else f"…{path[1 - _LONGEST :]}"


def tone(result: JobResult) -> str | None:
    """The class of a row's cause: "bad" for what failed, "warn" for what could not be told, None for the rest."""
    if result.error is not None or result.verdict == "unknown":
        return "warn"
    return "bad" if result.failed else None


def sure(confidence: float | None) -> str | None:
    """`97%`; never 100 unless it is exactly that."""
    if confidence is None:
        return None
    return f"{round(100 * confidence) if confidence >= 1 else min(round(100 * confidence), 99)}%"


def age_words(hours: float) -> str:
    """`12m`, `5h`, `3d`."""
    return f"{hours * 60:.0f}m" if hours < 1 else f"{hours:.0f}h" if hours < 48 else f"{hours / 24:.0f}d"


def hours_words(hours: float | None) -> str | None:
    """GPU-hours with as many places as tell something: `0.02`, `3.5`, `1,250`; None stays None."""
    if hours is None:
        return None
    if hours >= 100:
        return f"{hours:,.0f}"
    if hours == 0:
        return "0"
    return f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}" if hours >= 0.01 else "<0.01"
