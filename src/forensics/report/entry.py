"""One entry of the catalogue, for people: `forensics explain`, and the pages of docs/catalogue."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from forensics.signatures.schema import EvidenceRule, Signature

_KIND = {
    "cause": "a cause: it can be the root",
    "symptom": "a symptom: the root only where no cause explains it",
    "echo": "an echo: it always follows from something else",
    "benign": "harmless: it looks worse than it is",
    "milestone": "a milestone: it says where the run is",
    "knowledge": "knowledge: nothing that a run writes by itself shows it",
}
_CULPRIT = {
    "self": "the rank that shows it",
    "named": "ranks that the line names",
    "silent": "ranks that wrote nothing",
    "none": "nobody: it concerns the whole run",
}
# Named groups of patterns that say where something happened; others are details.
_PLACES = (
    "rank", "ranks", "local_rank", "device", "pid", "node", "task", "step", "epoch", "signal", "exitcode",
)  # fmt: skip
_GROUP = re.compile(r"\(\?P<([a-z_]+)>")
_EXAMPLES = 3  # shown of each kind
_EXAMPLE_LINES = 8  # shown of one: those that metrics are read from are long


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
        "locates": list(located(signature)),
        "why": " ".join(signature.why.split()),
        "fix": list(signature.fix),
        "confirm": list(signature.confirm),
        "causes": [*signature.causes, *signature.causes_on_rank],
        "see_also": list(signature.see_also),
        "lookalikes": [{"name": look.name, "tell": look.tell} for look in signature.lookalikes],
        "references": list(signature.references),
        "versions": signature.versions,
        "recognised_by": [
            {"source": rule.source, "pattern": rule.pattern, "detector": rule.detector, "weight": rule.weight}
            for rule in signature.evidence
        ],
        "examples": [
            {"log": e.log, "is_not": e.is_not, "seen_in": e.seen_in, "root": e.root} for e in signature.examples
        ],
    }


def located(signature: Signature) -> tuple[str, ...]:
    """What the signature's lines name of a place: rank, device, step, ... in a fixed order."""
    groups = {name for rule in signature.evidence for name in _GROUP.findall(rule.pattern or "")}
    return tuple(name for name in _PLACES if name in groups)


def _where(signature: Signature) -> str:
    places = located(signature)
    named = f"; its lines name {', '.join(p.replace('_', ' ') for p in places)}" if places else ""
    return f"blames {_CULPRIT[signature.culprit]}{named}"


def _parameters(rule: EvidenceRule) -> str:
    return ", ".join(f"{key} {value}" for key, value in rule.parameters.items())


def _rules(signature: Signature) -> Iterator[tuple[str, str, str]]:
    """(source, what, conditions) of each evidence rule."""
    for rule in signature.evidence:
        near = f"near, in its {rule.within}," if rule.within else "near"
        more = [
            f"not with {rule.unless}" if rule.unless else "",
            f"{near} {rule.near}" if rule.near else "",
            f"not {near} {rule.unless_near}" if rule.unless_near else "",
            f"at least {rule.at_least} times" if rule.at_least > 1 else "",
            _parameters(rule),
        ]
        yield rule.source, rule.pattern or rule.detector or "", "; ".join(m for m in more if m)


def _confirm(signature: Signature) -> list[str]:
    return [" - ".join(part.strip() for part in entry.split("::", 1)) for entry in signature.confirm]


def _confirm_title(signature: Signature) -> str:
    return "How to make it visible" if signature.kind == "knowledge" else "What would confirm it"


def _sections(signature: Signature) -> Iterator[tuple[str, list[str]]]:
    """Titles and entries that both renderings share, in their order."""
    if signature.kind == "knowledge":
        yield "How to make it visible", _confirm(signature)
    yield "What to do", list(signature.fix)
    yield "What looks like it", [f"{look.name}: {look.tell}" for look in signature.lookalikes]
    yield "What it can bring about", [*signature.causes, *signature.causes_on_rank]
    if signature.kind != "knowledge":
        yield "What would confirm it", _confirm(signature)
    yield "See also", list(signature.see_also)
    yield "Versions", [signature.versions] if signature.versions else []
    yield "References", list(signature.references)


def _facts(signature: Signature) -> str:
    facts = [f"{_KIND[signature.kind]}", f"severity {signature.severity}", f"area {signature.area}"]
    if signature.kind not in ("milestone", "knowledge"):
        facts.append(_where(signature))
    if signature.kind != "knowledge":
        facts.append(signature.status)
    return "; ".join(facts)


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
        return ["", title.upper(), *(block(entry, "    ", "  - ") for entry in entries)] if entries else []

    codes = f" ({', '.join(signature.codes)})" if signature.codes else ""
    lines = [
        f"{signature.name}{codes}",
        block(signature.title, ""),
        "",
        block(signature.why),
        "",
        block(_facts(signature)),
    ]
    if signature.parent:
        lines.append(block(f"a case of {signature.parent}"))
    for title, entries in _sections(signature):
        lines += items(title, entries)
    shown = [f"{source}: {what}" + (f" ({more})" if more else "") for source, what, more in _rules(signature)]
    lines += items("How it is recognised", shown)
    for title, logs in _looks(signature):
        lines += ["", title.upper()]
        for log in logs:
            first, *rest = _shortened(log)
            lines += [block(first, "      ", "  - "), *(block(line, "      ", "    ") for line in rest)]
    return "\n".join(lines) + "\n"


def render_markdown(signature: Signature, *, level: int = 1) -> str:
    """An entry as Markdown; its heading is of `level`, those of its parts one deeper."""
    codes = f" ({', '.join(signature.codes)})" if signature.codes else ""
    sub = "#" * (level + 1)
    head = [f"{'#' * level} {signature.name}{codes}", "", f"**{_escape(signature.title)}**", ""]
    lines = [*head, _escape(signature.why.strip()), "", f"*{_escape(_facts(signature))}*", ""]
    if signature.parent:
        lines += [f"A case of `{signature.parent}`.", ""]
    for title, entries in _sections(signature):
        if entries:
            plain = title in ("What to do", "Versions", _confirm_title(signature))
            shown = [_escape(e) if plain else e if title == "References" else _slugged(e) for e in entries]
            lines += [f"{sub} {title}", "", *(f"- {entry}" for entry in shown), ""]
    if signature.evidence:
        lines += [f"{sub} How it is recognised", ""]
        for source, what, more in _rules(signature):
            lines.append(f"- {source}: {_code(what)}" + (f"; {_code(more)}" if more else ""))
        lines.append("")
    for title, logs in _looks(signature):
        lines += [f"{sub} {title}", ""]
        for log in logs:
            fence = "`" * max(3, _longest_run(log) + 1)
            lines += [f"{fence}text", *_shortened(log), fence, ""]
    return "\n".join(lines)


def _looks(signature: Signature) -> Iterator[tuple[str, list[str]]]:
    """Examples that stand for themselves, and near-misses; confusers are for the test alone."""
    alone = [e for e in signature.examples if e.root is None]
    for title, is_not in (("How it looks", False), ("And what is not it", True)):
        if logs := [e.log for e in alone if e.is_not is is_not][:_EXAMPLES]:
            yield title, logs


def _shortened(log: str) -> list[str]:
    lines = log.strip("\n").split("\n")
    more = len(lines) - _EXAMPLE_LINES
    return lines if more <= 1 else [*lines[:_EXAMPLE_LINES], f"... {more} more lines"]


def _slugged(entry: str) -> str:
    name, colon, tell = entry.partition(": ")
    return f"`{name}`{colon}{_escape(tell)}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _code(text: str) -> str:
    """Text as inline code, whatever backticks it holds."""
    fence = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


_MARKUP = re.compile(r"([\\`*_\[\]<>|])")


def _escape(text: str) -> str:
    """Text whose characters mean themselves in Markdown."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
