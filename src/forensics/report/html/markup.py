"""HTML from parts: what is no `Markup` is text, and is made inert and escaped. Nobody can forget it."""

from __future__ import annotations

from html import escape
from typing import Any

from forensics.report.inert import inert, one_line


class Markup(str):
    """HTML that this package has made; never text of a log."""

    __slots__ = ()


Child = Markup | str | None
_VOID = frozenset({"meta", "br", "hr", "input"})


def tag(name: str, /, *children: Child, **attributes: Any) -> Markup:
    """`<name attributes>children</name>`.

    Names of elements and attributes are ours (`class_` is class, `aria_label` aria-label); values and strings are
    anyone's. An attribute that is None or False is left out, one that is True stands without a value.
    """
    shown = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        shown += f" {key}" if value is True else f' {key}="{_attribute(str(value))}"'
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Parts one after the other."""
    return Markup("".join(c if isinstance(c, Markup) else prose(c) for c in children if c is not None))


def _attribute(value: str) -> str:
    return escape(inert(value, 1000))


def prose(text: str, limit: int = 4000) -> Markup:
    """Text as one line: white space runs together, what acts on a screen is shown as an escape.

    A space at either end stays one, for parts of a sentence are joined.
    """
    line = one_line(text, limit)
    if text and not text.strip():
        return Markup(" ")
    before = " " if text[:1] == " " else ""
    after = " " if text[-1:] == " " else ""
    return Markup(escape(f"{before}{line}{after}", quote=False))


def verbatim(text: str, limit: int = 4000) -> Markup:
    """Text with its line breaks and spaces, for `<pre>`."""
    return Markup(escape(inert(text, limit, keep_newlines=True), quote=False))
