"""One entry of the catalogue, for people: `forensics explain`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.signatures.schema import Signature

_KIND = {
    "cause": "a cause: it can be the root",
    "symptom": "a symptom: the root only where no cause explains it",
    "echo": "an echo: it always follows from something else",
    "benign": "harmless: it looks worse than it is",
    "milestone": "a milestone: it says where the run is",
}


def find(catalogue: Mapping[str, Signature], wanted: str) -> list[Signature]:
    """The entries that a slug or a code (any case) means; empty if none does."""
    if wanted in catalogue:
        return [catalogue[wanted]]
    return [s for s in catalogue.values() if wanted.upper() in (code.upper() for code in s.codes)]


def near_names(catalogue: Mapping[str, Signature], wanted: str) -> list[str]:
    """Slugs that a mistyped one may have meant."""
    import difflib

    inside = [name for name in catalogue if wanted.lower() in name]
    return (inside or difflib.get_close_matches(wanted.lower(), catalogue, n=5, cutoff=0.5))[:8]


def as_dict(signature: Signature) -> dict[str, Any]:
    """An entry as JSON shows it. `recognised_by` holds the patterns and detectors."""
    return {
        "name": signature.name,
        "codes": list(signature.codes),
        "title": signature.title,
        "area": signature.area,
        "kind": signature.kind,
        "severity": signature.severity,
        "status": signature.status,
        "parent": signature.parent,
        "verdict": signature.verdict,
        "culprit": signature.culprit,
        "why": " ".join(signature.why.split()),
        "fix": list(signature.fix),
        "confirm": list(signature.confirm),
        "causes": [*signature.causes, *signature.causes_on_rank],
        "lookalikes": [{"name": look.name, "tell": look.tell} for look in signature.lookalikes],
        "references": list(signature.references),
        "versions": signature.versions,
        "recognised_by": [
            {"source": rule.source, "pattern": rule.pattern, "detector": rule.detector, "weight": rule.weight}
            for rule in signature.evidence
        ],
    }


def render(signature: Signature, *, width: int = 100) -> str:
    """An entry as plain text, wrapped to `width` columns."""
    width = max(40, min(width, 120))

    def block(text: str, indent: str = "  ", first: str | None = None) -> str:
        return textwrap.fill(
            " ".join(text.split()),
            width,
            initial_indent=first or indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )

    def items(title: str, entries: Sequence[str]) -> list[str]:
        return ["", title, *(block(entry, "    ", "  - ") for entry in entries)] if entries else []

    codes = f" ({', '.join(signature.codes)})" if signature.codes else ""
    lines = [
        f"{signature.name}{codes}",
        block(signature.title, ""),
        "",
        block(signature.why),
        "",
        block(f"{_KIND[signature.kind]}; severity {signature.severity}; area {signature.area}; {signature.status}"),
    ]
    if signature.parent:
        lines.append(block(f"a case of {signature.parent}"))
    lines += items("WHAT TO DO", signature.fix)
    shown = [
        f"{rule.source}: {rule.pattern or rule.detector}" if rule.pattern or rule.detector else rule.source
        for rule in signature.evidence
    ]
    lines += items("HOW IT IS RECOGNISED", shown)
    lines += items("WHAT LOOKS LIKE IT", [f"{look.name}: {look.tell}" for look in signature.lookalikes])
    lines += items("WHAT IT CAN BRING ABOUT", [*signature.causes, *signature.causes_on_rank])
    lines += items("WHAT WOULD CONFIRM IT", [entry.replace("::", "- next time:") for entry in signature.confirm])
    lines += items("REFERENCES", signature.references)
    return "\n".join(lines) + "\n"


def render_markdown(signature: Signature) -> str:
    """An entry as Markdown, a page of its own."""
    codes = f" ({', '.join(signature.codes)})" if signature.codes else ""
    lines = [f"# {signature.name}{codes}", "", signature.title, "", signature.why.strip(), ""]
    for title, entries in (
        ("What to do", signature.fix),
        ("What looks like it", [f"`{look.name}`: {look.tell}" for look in signature.lookalikes]),
        ("What it can bring about", [f"`{name}`" for name in (*signature.causes, *signature.causes_on_rank)]),
        ("What would confirm it", [entry.replace("::", "- next time:") for entry in signature.confirm]),
        ("References", signature.references),
    ):
        if entries:
            lines += [f"## {title}", "", *(f"- {entry}" for entry in entries), ""]
    return "\n".join(lines)
