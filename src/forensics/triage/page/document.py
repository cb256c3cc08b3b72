"""The document: head, policy, style sheet, and the parts in their order."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources

from forensics import __version__
from forensics.report.html.markup import Markup, join, tag
from forensics.triage.page.form import form
from forensics.triage.page.material import Page
from forensics.triage.page.rows import common_folder
from forensics.triage.page.sections import Section, headline, sections


@lru_cache(maxsize=2)
def _asset(ending: str) -> str:
    """The report's style sheet or script, and what a triage adds to it."""
    files = (("forensics.report.html", f"report.{ending}"), ("forensics.triage.page", f"triage.{ending}"))
    if ending == "js":  # rows of jobs are taken out of folded parts before the report's script looks for such parts
        files = (files[1], files[0])
    texts = (resources.files(package).joinpath(name).read_text("utf-8") for package, name in files)
    return "\n".join(text.replace("\r\n", "\n") for text in texts)


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") + "'"


def policy(*, served: bool) -> str:
    """The Content-Security-Policy: this style sheet and script by their hashes, and nothing else.

    served: forms may be sent to where the page came from.
    """
    sheet, code = _hash(_asset("css")), _hash(_asset("js"))
    target = "'self'" if served else "'none'"
    return f"default-src 'none'; style-src {sheet}; base-uri 'none'; form-action {target}; script-src {code}"


def document(page: Page) -> str:
    """The whole page. It says the same without its script, which searches, sorts and turns pages."""
    page = replace(page, folder=common_folder([r.path for r in page.batch.results]))
    parts = sections(page)
    made = f"{datetime.fromtimestamp(page.batch.made, UTC):%Y-%m-%d %H:%M} UTC"
    head = Markup(
        "<head>\n"
        + tag("meta", charset="utf-8")
        + "\n"
        + tag("meta", name="generator", content=f"forensics {__version__}")
        + "\n"
        + tag("meta", http_equiv="Content-Security-Policy", content=policy(served=page.asked is not None))
        + tag("meta", name="viewport", content="width=device-width, initial-scale=1")
        + tag("meta", name="color-scheme", content="light dark")
        + tag("meta", name="referrer", content="no-referrer")
        + tag("title", f"Triage of {len(page.batch.results):,} jobs")
        + f"<style>{_asset('css')}</style>\n</head>\n"
    )
    main = tag(
        "main",
        headline(page, made),
        form(page.asked) if page.asked is not None else None,
        _contents(parts),
        *map(_section, parts),
        _foot(page),
    )
    body = tag("body", main, Markup(f"<script>{_asset('js')}</script>"))
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}{body}\n</html>\n'


def _contents(parts: list[Section]) -> Markup:
    links = [tag("a", title, href=f"#{key}") for key, title, _ in parts]
    return tag("nav", *links, tag("button", "open all", type="button", id="all", hidden=True), aria_label="Contents")


def _section(section: Section) -> Markup:
    key, title, body = section
    return join(Markup("\n"), tag("section", tag("h2", title), body, id=key))


def _foot(page: Page) -> Markup:
    said = "Nothing is redacted in this page."
    if page.redacted:
        said = "Names, hosts, addresses and secrets are replaced by stand-ins where their shape or place tells them."
        if page.batch.reports:
            said += " Each report has stand-ins of its own."
    return join(Markup("\n"), tag("footer", tag("p", f"forensics {__version__}. ", said)))
