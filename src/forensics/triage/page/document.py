"""The page of a triage: its parts in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from forensics.report.html import frame
from forensics.report.html.markup import tag
from forensics.triage.page.form import form
from forensics.triage.page.material import Page
from forensics.triage.page.rows import common_folder
from forensics.triage.page.sections import headline, sections


def _style() -> str:
    """The report's style sheet, and what a triage adds to it."""
    return "\n".join((frame.asset("forensics.report.html", "report.css"), frame.asset(__package__, "triage.css")))


def _script() -> str:
    """Rows of jobs are taken out of folded parts before the report's script looks for such parts."""
    return "\n".join((frame.asset(__package__, "triage.js"), frame.asset("forensics.report.html", "report.js")))


def policy(*, served: bool) -> str:
    """The Content-Security-Policy of the page. served: forms may be sent to where the page came from."""
    return frame.policy(_style(), _script(), form_action="'self'" if served else "'none'")


def document(page: Page) -> str:
    """The whole page. It says the same without its script, which searches, sorts and turns pages."""
    page = replace(page, folder=common_folder([r.path for r in page.batch.results]))
    parts = sections(page)
    made = f"{datetime.fromtimestamp(page.batch.made, UTC):%Y-%m-%d %H:%M} UTC"
    said = "Nothing is redacted in this page."
    if page.redacted:
        said = frame.REDACTED + (" Each report has stand-ins of its own." if page.batch.reports else "")
    main = tag(
        "main",
        headline(page, made),
        form(page.asked) if page.asked is not None else None,
        frame.contents(parts),
        *map(frame.section, parts),
        frame.foot(said),
    )
    title = f"Triage of {len(page.batch.results):,} jobs"
    return frame.document(title, policy(served=page.asked is not None), _style(), _script(), main)
