"""The document: head, policy, style sheet, and the parts in their order."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib import resources

from forensics import __version__
from forensics.report import words
from forensics.report.html.figures import figures
from forensics.report.html.markup import Markup, join, tag
from forensics.report.html.material import Material
from forensics.report.html.sections import Section, headline, sections

# Pictures stand behind the evidence and before what explains them: after these parts.
_BEFORE_PICTURES = ("where", "why", "fix", "evidence", "chain")


@lru_cache(maxsize=2)
def _asset(name: str) -> str:
    return resources.files("forensics.report.html").joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") + "'"


def document(material: Material, *, script: bool = True) -> str:
    """The whole page. `script`: with the one that sorts tables and opens all parts; the page says the same without it.

    The policy admits this style sheet and this script by their hashes, and nothing else: no request leaves the page.
    """
    style, code = _asset("report.css"), _asset("report.js") if script else ""
    policy = f"default-src 'none'; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    if script:
        policy += f"; script-src {_hash(code)}"
    verdict, sentence, _ = words.headline(material.diagnosis)
    parts = sections(material)
    first = [part for part in parts if part[0] in _BEFORE_PICTURES]
    rest = [part for part in parts if part[0] not in _BEFORE_PICTURES]
    order = [*first, *figures(material.pictures), *rest]
    head = Markup(
        "<head>\n"
        + tag("meta", charset="utf-8")
        + "\n"
        + tag("meta", name="generator", content=f"forensics {__version__}")
        + "\n"
        + tag("meta", http_equiv="Content-Security-Policy", content=policy)
        + tag("meta", name="viewport", content="width=device-width, initial-scale=1")
        + tag("meta", name="color-scheme", content="light dark")
        + tag("meta", name="referrer", content="no-referrer")
        + tag("title", f"{verdict}: {sentence}"[:300])
        + f"<style>{style}</style>\n</head>\n"
    )
    body = tag(
        "body",
        tag("main", headline(material.diagnosis), _contents(order), *map(_section, order), _foot(material)),
        Markup(f"<script>{code}</script>") if script else None,
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}{body}\n</html>\n'


def _contents(order: list[Section]) -> Markup:
    links = [tag("a", title, href=f"#{key}") for key, title, _ in order]
    return tag("nav", *links, tag("button", "open all", type="button", id="all", hidden=True), aria_label="Contents")


def _section(section: Section) -> Markup:
    key, title, body = section
    return join(Markup("\n"), tag("section", tag("h2", title), body, id=key))


def _foot(material: Material) -> Markup:
    what = "Names, hosts, addresses and secrets are replaced by stand-ins where their shape or place tells them."
    whole = "Nothing is redacted in this report."
    return join(
        Markup("\n"),
        tag("footer", tag("p", f"forensics {__version__}. ", what if material.redacted else whole)),
    )
