"""The filters of a served page as a form, which sends them as an address."""

from __future__ import annotations

from forensics.report.html.markup import Markup, tag
from forensics.triage.filters import SEVERITIES
from forensics.triage.page.material import Asked

_TEXTS = (
    ("cause", "slug, code or glob"),
    ("node", "name or glob"),
    ("label", "name or name=value"),
    ("path", "glob"),
    ("since", "2h, 3d, or a date"),
)
_VERDICTS = ("failed", "hung", "diverged", "suspect", "interrupted", "recovered", "healthy", "unknown", "error")


def form(asked: Asked) -> Markup:
    """One field a filter, filled with what was asked; a filter that was given several times has a field for each."""
    fields: list[Markup] = []
    for name, hint in _TEXTS:
        for value in _given(asked, name):
            fields.append(_labelled(name, tag("input", name=name, value=value, placeholder=hint, maxlength=200)))
    for name, values in (("verdict", _VERDICTS), ("severity", SEVERITIES)):
        for value in _given(asked, name):
            options = [tag("option", v, value=v, selected=v == value) for v in values]
            fields.append(_labelled(name, tag("select", tag("option", "any", value=""), *options, name=name)))
    return tag(
        "form",
        *fields,
        tag("button", "filter", type="submit"),
        tag("a", f"all {asked.total:,} jobs", href="/") if asked.values else None,
        method="get",
        action="/",
        class_="filters",
    )


def _given(asked: Asked, name: str) -> list[str]:
    return [value for key, value in asked.values if key == name] or [""]


def _labelled(name: str, field: Markup) -> Markup:
    return tag("label", name, " ", field)
