"""The diagnosis as GitHub-flavoured Markdown, made to be pasted into an issue.

Two things are certain whatever a log holds: no text from it can act as markup, mention or link, and the document fits
into an issue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forensics.model import Diagnosis, Evidence, Finding, Role, Status
from forensics.report import words
from forensics.report.environment import beyond, gist, notable
from forensics.report.inert import inert, one_line

# GitHub: "body is too long (maximum is 65536 characters)". A margin, for it is not documented how it counts.
LIMIT = 65_536
_AIM = 65_000

_EVIDENCE_TEXT = 3000  # characters
_EVIDENCE_SHOWN = 8

_MARKUP = re.compile(r"[\\`*_\[\]~|]")
# What GitHub links by itself: @user, #1, GH-1, o/r#1, URLs, addresses. A link to an issue also leaves a trace there.
# `:x:` and its like become pictures.
_LINKED = re.compile(r"@[\w.-]|#\d|\bGH-\d|\w://|\bwww\.|\bmailto:|\bxmpp:|:[\w+-]+:", re.I)
_BLOCK_START = re.compile(r"(?:#+|[-+=>:]+|\d{1,9}(?=[.)]))")


def escape(text: str, limit: int = 1500) -> str:
    """Text from a log as one line of prose that shows the text and does nothing else.

    Words that GitHub would link become code spans: there they are inert, and a command is still copied as it was
    (a zero-width space would break mentions as well, and the command with them).
    """
    pieces = [code(word, None) if _LINKED.search(word) else _escaped(word) for word in one_line(text, limit).split(" ")]
    return _at_start(" ".join(pieces))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    return _MARKUP.sub(lambda match: "\\" + match[0], text)


def _at_start(text: str) -> str:
    """What opens a heading, list, quote or rule does so at the start of a line only."""
    if match := _BLOCK_START.match(text):
        end = match.end()
        return text[:end] + "\\" + text[end:] if match[0][0].isdigit() else "\\" + text
    return text


def _longest_run(text: str, char: str) -> int:
    return max((len(run) for run in re.findall(re.escape(char) + "+", text)), default=0)


def code(text: str, limit: int | None = 400) -> str:
    """A code span: in it GitHub links nothing and knows no markup. Empty text is an empty string."""
    text = one_line(text, limit)
    if not text:
        return ""
    ticks = "`" * (_longest_run(text, "`") + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _cell(text: str) -> str:
    """A code span in a table, which takes `|` first, and takes the backslash off."""
    return code(text).replace("|", "\\|")


def fenced(text: str, limit: int = _EVIDENCE_TEXT) -> str:
    """A fenced block whose fence is longer than any run of backticks in it."""
    text = inert(text, limit, keep_newlines=True).rstrip("\n")
    fence = "`" * max(3, _longest_run(text, "`") + 1)
    return f"{fence}text\n{text}\n{fence}"


@dataclass(slots=True)
class Part:
    """A part of the document that can lose items from its end, so that the whole fits."""

    importance: int  # the least important loses first
    head: str
    items: list[str]
    tail: str = ""
    kept: int = field(init=False)

    def __post_init__(self) -> None:
        self.kept = len(self.items)

    def render(self) -> str:
        items = self.items[: self.kept]
        if lost := len(self.items) - self.kept:
            items.append(f"\n*{lost:,} left out here, so that the report fits into an issue.*\n")
        return self.head + "".join(items) + self.tail


def fit(sections: Sequence[Part], limit: int = _AIM) -> str:
    """The document; what is least important loses items until it is no longer than `limit` characters."""
    total = sum(len(section.render()) for section in sections)
    for section in sorted(sections, key=lambda section: section.importance):
        if total <= limit:
            break
        if section.items:
            total += 80  # the sentence that says so
        while total > limit and section.kept:
            section.kept -= 1
            total -= len(section.items[section.kept])
    return "".join(section.render() for section in sections)


def _details(importance: int, summary: str, items: list[str]) -> Part:
    """`summary` must be our own words: it stands in HTML."""
    return Part(importance, f"\n<details>\n<summary>{summary}</summary>\n\n", items, "\n</details>\n")


def _evidence(evidence: Evidence) -> str:
    parts = [code(words.place(evidence)), fenced(evidence.text) if evidence.text.strip() else ""]
    return "".join(f"\n{part}\n" for part in parts if part)


def _place_note(evidence: Sequence[Evidence]) -> str:
    return f" ({code(words.place(evidence[0]))})" if evidence and evidence[0].file else ""


def _core(diagnosis: Diagnosis) -> Part:
    verdict, sentence, sure = words.headline(diagnosis)
    text = f"## {verdict}: {escape(sentence, 400)}" + (f" ({sure})" if sure else "") + "\n"
    if words.says_more(diagnosis.summary, sentence):
        text += f"\n{escape(words.continued(diagnosis.summary), 800)}\n"
    rows: list[tuple[str, str]] = []
    roots = diagnosis.of_role(Role.ROOT)
    if roots:
        # Numbers and our own words need no code span; what can hold a log's text does.
        plain = ("rank", "ranks", "local rank", "GPU", "epoch", "attempt", "seen", "step")
        rows += [
            (escape(label, 40), value if label in plain else _cell(value))
            for label, value in words.where(roots[0], diagnosis.run)
        ]
        names = ", ".join(roots[0].codes)
        rows.append(("signature", _cell(roots[0].name + (f" ({names})" if names else ""))))
    rows.append(("run", _cell("; ".join([diagnosis.run.path, *words.run_phrase(diagnosis.run)]))))
    if environment := gist(diagnosis.environment):
        rows.append(("environment", _cell(environment)))
    if diagnosis.fingerprint:
        rows.append(("fingerprint", _cell(diagnosis.fingerprint)))
    text += "\n| | |\n| --- | --- |\n" + "".join(f"| {label} | {value} |\n" for label, value in rows)
    if roots and roots[0].why.strip():
        text += f"\n### Why\n\n{escape(roots[0].why, 2000)}\n"
    return Part(100, text, [])


def _further(root: Finding, first: Finding) -> str:
    sure = words.percent(root.confidence)
    text = f"\n**{escape(words.in_attempt(root, first), 400)}**" + (f" ({sure})" if sure else "") + "\n"
    if root.why.strip():
        text += f"\n{escape(root.why, 800)}\n"
    text += "".join(f"\n{escape(note, 400)}.\n" for note in root.notes[:1])
    text += "".join(_evidence(evidence) for evidence in root.evidence[:2])
    if root.fix:
        text += "\n" + "".join(f"{number}. {escape(fix, 400)}\n" for number, fix in enumerate(root.fix[:3], 1))
    return text


def _sections(diagnosis: Diagnosis) -> list[Part]:
    sections = [_core(diagnosis)]
    roots = diagnosis.of_role(Role.ROOT)
    if roots:
        top = roots[0]
        sections.append(Part(8, "\n" if top.notes else "", [f"- {escape(note, 600)}\n" for note in top.notes]))
        told = words.telling(top.evidence)
        shown = [_evidence(evidence) for evidence in told[:_EVIDENCE_SHOWN]]
        if (rest := len(top.evidence) - len(told[:_EVIDENCE_SHOWN])) > 0:
            shown.append(f"\n… and {words.plural(rest, 'more place')}\n")
        sections.append(Part(9, "", shown))
        if top.fix:
            fixes = [f"{number}. {escape(fix, 600)}\n" for number, fix in enumerate(top.fix, 1)]
            sections.append(Part(10, "\n### What to do\n\n", fixes))
        if top.see_also:
            sections.append(Part(6, "\n", [f"See also: `forensics explain {' '.join(top.see_also)}`\n"]))
        again, others = words.after_the_first(roots)
        if again:
            repeated = [f"- {escape(words.in_attempt(root, top), 400)}\n" for root in again]
            sections.append(Part(7, "\n### The same again\n\n", repeated))
        if others:
            causes = [_further(root, top) for root in others]
            sections.append(Part(7, "\n### Further causes, independent of the first\n", causes))
    cascade: list[str] = []
    for root, groups in words.cascades(diagnosis):
        name = escape(root.title, 200) if root else "something that is not shown here"
        cascade.append(f"Explained by {name}:\n\n" if not cascade else f"\nExplained by {name}:\n\n")
        for group in groups:
            on = f" on {words.ranks_phrase(group.ranks)}" if group.ranks else ""
            lines = words.plural(group.count, "line")
            cascade.append(
                f"- {code(group.name, 100)}{on} ({lines}), first at {code(words.place(group.evidence[0]))}\n"
                if group.evidence
                else f"- {code(group.name, 100)}{on} ({lines})\n"
            )
    if cascade:
        number = len(diagnosis.of_role(Role.CASCADE))
        sections.append(_details(6, f"Cascade: {words.plural(number, 'finding')} explained by the above", cascade))
    context = diagnosis.of_role(Role.CONTEXT)
    if context:
        items = []
        for finding in context:
            reason = f": {escape(finding.why, 600)}" if finding.why.strip() else ""
            notes = "".join(f" {escape(note, 300)}" for note in finding.notes[:2])
            items.append(f"- {escape(words.located(finding), 400)}{reason}{notes}{_place_note(finding.evidence)}\n")
        sections.append(_details(3, "Seen, not the cause" if roots else "Seen", items))
    if nothing := words.nothing_in_the_code(diagnosis):
        sections.append(_details(4, "Hints from the code", [f"- {nothing}\n"]))
    if hints := diagnosis.hints_apart():
        items = [
            f"- {escape(hint.title, 200)}: {escape(hint.why, 600)}{_place_note(hint.evidence)}\n" for hint in hints
        ]
        sections.append(_details(4, "Hints from the code", items))
    if diagnosis.ruled_out:
        items = [
            f"- {code(o.name, 100)}: {escape(o.reason, 600)}{_place_note(o.evidence)}\n" for o in diagnosis.ruled_out
        ]
        sections.append(_details(2, "Ruled out", items))
    if diagnosis.missing_evidence:
        items = [
            f"- {escape(m.what.rstrip(' .'), 600)}. Next time: {escape(m.how, 600)}\n"
            for m in diagnosis.missing_evidence
        ]
        sections.append(_details(4, "Missing evidence", items))
    if beyond(facts := notable(diagnosis.environment)):
        rows = [f"| {_cell(f.name)} | {_cell(f.value)} | {_cell(words.stated_at(f))} |\n" for f in facts]
        environment = _details(5, f"Environment and settings ({len(rows)})", rows)
        environment.head += "| name | value | where |\n| --- | --- | --- |\n"
        sections.append(environment)
    order = (Status.UNREADABLE, Status.PARTIAL, Status.SKIPPED, Status.READ)
    rows = [
        f"| {_cell(source.path)} | {_cell(source.kind)} | {'' if source.rank is None else source.rank} "
        f"| {source.status.value} | {_cell(source.reason or '')} |\n"
        for source in sorted(diagnosis.coverage, key=lambda source: order.index(source.status))
    ]
    title = f"Coverage: {words.coverage_phrase(diagnosis.coverage)}"
    coverage = _details(1, title, rows)
    if rows:
        coverage.head += "| file | kind | rank | status | reason |\n| --- | --- | --- | --- | --- |\n"
    return [*sections, coverage]


def render(diagnosis: Diagnosis) -> str:
    """The document, at most 65,536 characters: coverage goes first, then what was ruled out, and the verdict never.

    It is not redacted here: callers that share it pass the diagnosis through `redaction.redact_diagnosis`.
    """
    return fit(_sections(diagnosis))
