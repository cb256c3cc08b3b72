"""What every page of this program has: head, policy, contents, sections under headings, foot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from forensics import __version__
from forensics.report.html.markup import Markup, join, tag

Section = tuple[str, str, Markup]  # id, title, body
REDACTED = "Names, hosts, addresses and secrets are replaced by stand-ins where their shape or place tells them."


@lru_cache(maxsize=8)
def asset(package: str, name: str) -> str:
    """A style sheet or script that lies beside the code of a package."""
    return resources.files(package).joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def policy(style: str, script: str, *, form_action: str = "'none'") -> str:
    """The Content-Security-Policy: this style sheet and script by their hashes, and nothing else.

    script: empty for a page without one. form_action: where forms may be sent to.
    """
    allowed = f"default-src 'none'; style-src {_hash(style)}; base-uri 'none'; form-action {form_action}"
    return f"{allowed}; script-src {_hash(script)}" if script else allowed


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") + "'"


def document(title: str, allowed: str, style: str, script: str, main: Markup) -> str:
    """A whole page. allowed: its `policy`; script: empty for a page without one."""
    head = Markup(
        "<head>\n"
        + tag("meta", charset="utf-8")
        + "\n"
        + tag("meta", name="generator", content=f"forensics {__version__}")
        + "\n"
        + tag("meta", http_equiv="Content-Security-Policy", content=allowed)
        + tag("meta", name="viewport", content="width=device-width, initial-scale=1")
        + tag("meta", name="color-scheme", content="light dark")
        + tag("meta", name="referrer", content="no-referrer")
        + tag("title", title)
        + f"<style>{style}</style>\n</head>\n"
    )
    body = tag("body", main, Markup(f"<script>{script}</script>") if script else None)
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}{body}\n</html>\n'


def contents(sections: Sequence[Section]) -> Markup:
    """Links to the sections of a page, and the button that opens all that is folded."""
    links = [tag("a", title, href=f"#{key}") for key, title, _ in sections]
    return tag("nav", *links, tag("button", "open all", type="button", id="all", hidden=True), aria_label="Contents")


def section(given: Section) -> Markup:
    """A section under its heading."""
    key, title, body = given
    return join(Markup("\n"), tag("section", tag("h2", title), body, id=key))


def foot(said: str) -> Markup:
    """The version, and what was taken out of the page."""
    return join(Markup("\n"), tag("footer", tag("p", f"forensics {__version__}. ", said)))
