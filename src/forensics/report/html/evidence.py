"""A place in a file, and what stands there, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.model import Evidence
from forensics.report import words
from forensics.report.html.context import Context, Place
from forensics.report.html.markup import Markup, join, tag, verbatim

_LINE = 600  # characters of a line
_TEXT = 3000


def place(evidence: Evidence) -> Markup:
    """`file:line` as code; empty where there is no file."""
    where = words.place(evidence)
    return tag("code", where, class_="place") if where else Markup("")


def block(evidence: Evidence, around: Mapping[Place, Context]) -> Markup:
    """The place, and below it the line that shows it with its neighbours, or its text where the file is no log."""
    context = around.get((evidence.file, evidence.line)) if evidence.line is not None else None
    if context is None:
        text = tag("pre", verbatim(evidence.text.rstrip("\n"), _TEXT)) if evidence.text.strip() else None
        return tag("figure", tag("figcaption", place(evidence)), text, class_="evidence")
    key = next((text for _, text, is_key in context.lines if is_key), "")
    # What was made of a record, or read from a line that only looks like that once it is cleaned.
    first = evidence.text.strip().split("\n", 1)[0].strip()
    said = tag("p", first, class_="said") if first and _essence(first) not in _essence(key) else None
    width = len(str(context.lines[-1][0]))
    rows = [
        tag(
            "mark" if is_key else "span",
            tag("i", f"{number:>{width}}".replace(" ", "\u2007")),
            verbatim(text, _LINE),
            class_="l",
        )
        for number, text, is_key in context.lines
    ]
    pre = tag("pre", Markup("\n".join(rows)), class_="lines")
    return tag("figure", tag("figcaption", place(evidence)), said, pre, class_="evidence")


def _essence(text: str) -> str:
    return "".join(text.split())


def blocks(shown: Sequence[Evidence], around: Mapping[Place, Context], limit: int) -> Markup:
    """The first `limit` places, and how many more there are."""
    rest = len(shown) - limit
    more = tag("p", f"… and {words.plural(rest, 'more place')}", class_="more") if rest > 0 else None
    return join(*(block(e, around) for e in shown[:limit]), more)
