"""What several parts of a page are made of: links to jobs and causes, bars."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from forensics.report.html.markup import Markup, join, tag
from forensics.triage.page.material import Asked, Page


def bar(share: float, kind: str | None) -> Markup:
    """A bar of this share (0 to 1) of the greatest; a picture of a number that stands beside it."""
    width = max(round(min(share, 1.0) * 100, 1), 1.0) if share > 0 else 0
    fill = tag("rect", width=width, height=5, class_=f"f-{kind or 'life'}")
    return tag("svg", fill, viewBox="0 0 100 5", class_="bar", aria_hidden="true", preserveAspectRatio="none")


def cause_link(cause: str, asked: Asked | None) -> Markup:
    """To the jobs of a cause: by the script in a file, by the address where the page is served."""
    if asked is not None:
        return tag("a", cause, href=f"?{urlencode({'cause': cause})}#jobs")
    return tag("a", cause, href="#jobs", data_cause=cause)


def rows_link(words: str, field: str, value: str, asked: Asked | None) -> Markup:
    """To the jobs of a node or group: by the script in a file, by the address where the page is served.

    field: the filter that finds them there ("node", "cause").
    """
    if asked is not None:
        return tag("a", words, href=f"?{urlencode({field: value})}#jobs")
    return tag("a", words, href="#jobs", data_find=value)


def job_link(path: str, page: Page) -> Markup:
    """The job's path below the folder of all, linked to its report where there is one."""
    link = page.batch.reports.get(path)
    name = path.removeprefix(page.folder) or path
    return tag("a", name, href=link) if link else tag("code", name)


def job_links(paths: Sequence[str], page: Page, most: int, group: str | None = None) -> Markup:
    """The first jobs, one after the other, and how many more there are. group: whose jobs they all are, to link to."""
    parts: list[Markup | str] = []
    for path in paths[:most]:
        parts += [", ", job_link(path, page)] if parts else [job_link(path, page)]
    if len(paths) > most:
        more = f"{len(paths) - most:,} more"
        parts += [" and ", rows_link(more, "cause", group, page.asked) if group is not None else more]
    return join(*parts)
