"""A comparison as terminal text, Markdown or JSON. Whatever comes from a log is made inert here."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from forensics import __version__
from forensics.compare import words
from forensics.compare.model import Comparison
from forensics.report.inert import one_line

SCHEMA_VERSION = 1


def terminal(comparison: Comparison, *, width: int = 100) -> str:
    import textwrap

    width = max(40, min(width, 120))

    def wrapped(text: str, first: str, rest: str, limit: int = 1200) -> list[str]:
        return textwrap.wrap(
            one_line(text, limit), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        ) or [first.rstrip()]

    lines = wrapped(words.headline(comparison), "", "  ")
    lines.append("")
    for label, side in (*(("good", g) for g in comparison.goods), ("bad", comparison.bad)):
        lines += wrapped(f"{side.path}  {words.side_phrase(side)}", f"  {label:4} ", "       ")
    for section in words.sections(comparison):
        lines += ["", section.title]
        for text, below in section.items:
            lines += wrapped(text, "  ", "    ")
            for line in below:
                lines += wrapped(line, "      ", "        ", 300)
        if section.more:
            lines.append(f"  … and {section.more:,} more (all of them: --format json)")
    return "\n".join(lines) + "\n"


def markdown(comparison: Comparison) -> str:
    """GitHub's Markdown, at most 65,536 characters; the last sections lose items first."""
    from forensics.report.markdown import Part, code, escape, fit

    lines = [f"## {escape(words.headline(comparison))}", "", "| | run | |", "|---|---|---|"]
    for label, side in (*(("good", g) for g in comparison.goods), ("bad", comparison.bad)):
        path = code(side.path).replace("|", "\\|")
        lines.append(f"| {label} | {path} | {escape(words.side_phrase(side))} |")
    parts = [Part(1000, "\n".join(lines) + "\n", [])]
    for importance, section in enumerate(reversed(words.sections(comparison))):
        items = [
            "\n".join([f"- {escape(text)}", *(f"  - {code(line)}" for line in below), ""])
            for text, below in section.items
        ]
        tail = f"- … and {section.more:,} more (all of them: `--format json`)\n" if section.more else ""
        parts.insert(1, Part(importance, f"\n### {section.title}\n\n", items, tail))
    return fit(parts)


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values; docs/compare.md describes them. NaN and infinities are strings."""
    tree = _plain(comparison)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "forensics", "version": __version__},
        "differs": comparison.differs,
        "summary": words.headline(comparison),
        **tree,
    }


def as_json(comparison: Comparison) -> str:
    return json.dumps(as_dict(comparison), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
