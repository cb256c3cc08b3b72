"""The diagnosis for a terminal: what a tired person needs, in the order in which they need it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from forensics.model import Diagnosis, Evidence, Finding, Role, Verdict
from forensics.report import words
from forensics.report.inert import ELLIPSIS, inert, one_line

_MIN_WIDTH, _MAX_WIDTH = 40, 400
_PROSE_WIDTH = 100  # longer lines of prose are hard to read, however wide the window is

# How much of each is shown; JSON and the files themselves have the rest, and the report says so.
_EVIDENCE_SHOWN = 4
_TEXT_LINES = 4  # screen lines a physical line of evidence
_EVIDENCE_LINES = 6  # physical lines an evidence
_PROSE_LINES = 12
_ROOTS_SHOWN = 5
_GROUPS_SHOWN = 8
_ITEMS_SHOWN = 6
_NOT_READ_SHOWN = 7

_STYLES = {
    "bold": "\x1b[1m",
    "file": "\x1b[36m",
    "red": "\x1b[1;31m",
    "yellow": "\x1b[1;33m",
    "green": "\x1b[1;32m",
}
_RESET = "\x1b[0m"
_VERDICT_STYLE = {
    Verdict.FAILED: "red",
    Verdict.HUNG: "red",
    Verdict.DIVERGED: "red",
    Verdict.SUSPECT: "yellow",
    Verdict.INTERRUPTED: "yellow",
    Verdict.UNKNOWN: "yellow",
    Verdict.RECOVERED: "green",
    Verdict.HEALTHY: "green",
}

Part = tuple[str, str]  # text, style ("" or a key of _STYLES)


def use_colour(*, isatty: bool, environ: Mapping[str, str]) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb.

    FORCE_COLOR (https://force-color.org) asks for it in a pipe as well; NO_COLOR wins, as in Python itself.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0") or environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return isatty and environ.get("TERM") != "dumb"


def _cells(char: str) -> int:
    """Columns that a character takes in a terminal."""
    if char.isascii():
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff":
        return 0  # the last: vowels and finals of Hangul, which join the consonant before them
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _breaks(text: str, first: int, rest: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each screen line of `text`, with `first` columns on the first line and `rest` on the others.

    Breaks at the last space that fits, and inside a word only where the word is longer than a line.
    """
    start, room = 0, first
    while start < len(text):
        used, end, space = 0, start, -1
        while end < len(text) and (used := used + _cells(text[end])) <= room:
            if text[end] == " " and text[start:end].strip():
                space = end
            end += 1
        if end < len(text):
            if text[end] == " ":
                space = end
            end = space if space > start else max(end, start + 1)
        yield start, end
        start = end
        while start < len(text) and text[start] == " ":
            start += 1
        room = rest


class _Page:
    """Collects lines of one width. Everything that comes in is made inert here, so that no caller can forget it."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = max(_MIN_WIDTH, min(_MAX_WIDTH, width))
        self.prose = min(self.width, _PROSE_WIDTH)
        self.colour = colour
        self.lines: list[str] = []

    def _styled(self, parts: Sequence[Part]) -> str:
        if not self.colour:
            return "".join(text for text, _ in parts)
        return "".join(f"{_STYLES[style]}{text}{_RESET}" if style and text else text for text, style in parts)

    def heading(self, text: str) -> None:
        self.lines += ["", self._styled([(text, "bold")])]

    def flow(
        self, *parts: Part, first: str = "  ", rest: str = "  ", width: int | None = None, limit: int = _PROSE_LINES
    ) -> None:
        """Adds parts as one wrapped paragraph of at most `limit` lines; `first` and `rest` are the indents."""
        text, styles = "", list[str]()
        for raw, style in parts:
            text += raw
            styles += [style] * len(raw)
        width = width or self.prose
        lines = list(_breaks(text, width - len(first), width - len(rest)))
        for number, (start, end) in enumerate(lines[:limit]):
            cut = number == limit - 1 and len(lines) > limit
            if cut:
                while end > start and sum(map(_cells, text[start:end])) >= width - len(rest):
                    end -= 1
            spans: list[Part] = []
            at = start
            for index in range(start + 1, end + 1):
                if index == end or styles[index] != styles[at]:
                    spans.append((text[at:index], styles[at]))
                    at = index
            tail = ELLIPSIS if cut else ""
            self.lines.append(((first if number == 0 else rest) + self._styled(spans) + tail).rstrip())

    def say(self, text: str, first: str = "  ", rest: str = "  ", limit: int = _PROSE_LINES) -> None:
        self.flow((one_line(text, 4000), ""), first=first, rest=rest, limit=limit)

    def evidence(self, evidence: Evidence, indent: str = "  ", lines: int = _EVIDENCE_LINES) -> None:
        """A file reference on a line of its own, that can be clicked and copied; below it what stands there."""
        self.flow((_reference(evidence), "file"), first=indent, rest=indent + "  ", width=self.width, limit=4)
        texts = [line.rstrip() for line in inert(evidence.text, 8000, keep_newlines=True).split("\n") if line.strip()]
        for line in texts[:lines]:
            self.flow((line, ""), first=indent + "    ", rest=indent + "      ", width=self.width, limit=_TEXT_LINES)
        if len(texts) > lines:
            self.say(f"{ELLIPSIS} {words.plural(len(texts) - lines, 'more line')}", indent + "    ")

    def more(self, count: int, what: str, indent: str = "  ") -> None:
        if count > 0:
            self.say(
                f"{ELLIPSIS} and {count:,} more {what if count == 1 else what + 's'} (all of them: --format json)",
                indent,
            )


def _columns(text: str) -> int:
    return sum(map(_cells, text))


def _reference(evidence: Evidence) -> str:
    return one_line(words.place(evidence), 400)


def _headline(page: _Page, diagnosis: Diagnosis) -> None:
    verdict, sentence, sure = words.headline(diagnosis)
    first = [(f"{verdict}", _VERDICT_STYLE[diagnosis.verdict]), ("  " + one_line(sentence, 600), "bold")]
    if sure:
        # No-break spaces keep "· 97 % sure" in one piece, and are plain spaces to the eye.
        first.append((" ·\u00a0" + sure.replace(" ", "\u00a0"), "bold"))
    page.flow(*first, first="", rest=" " * (len(verdict) + 2), width=page.width)
    page.lines = [line.replace("\u00a0", " ") for line in page.lines]
    if words.says_more(diagnosis.summary, sentence):
        page.say(words.continued(diagnosis.summary))


def _where(page: _Page, finding: Finding, diagnosis: Diagnosis) -> None:
    page.heading("WHERE")
    rows = words.where(finding, diagnosis.run)
    labels = [one_line(label, 16) for label, _ in rows]
    margin = max(map(_columns, labels), default=0) + 2
    for label, (_, value) in zip(labels, rows, strict=True):
        page.say(value, "  " + label + " " * (margin - _columns(label)), " " * (margin + 2), limit=3)


def _why(page: _Page, finding: Finding) -> None:
    page.heading("WHY")
    if finding.why.strip():
        page.say(finding.why)
    for note in finding.notes[:_ITEMS_SHOWN]:
        page.say(note, "  - ", "    ", limit=4)
    page.more(len(finding.notes) - _ITEMS_SHOWN, "note")
    shown = words.telling(finding.evidence)[:_EVIDENCE_SHOWN]
    for evidence in shown:
        page.evidence(evidence)
    page.more(len(finding.evidence) - len(shown), "place")


def _numbered(page: _Page, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts[:9], 1):
        page.say(text, f"  {number}. ", "     ", limit=5)
    page.more(len(texts) - 9, "step")


def _cascade(page: _Page, diagnosis: Diagnosis) -> None:
    cascades = words.cascades(diagnosis)
    if not cascades:
        return
    page.heading("CASCADE")
    for root, groups in cascades[: _ROOTS_SHOWN + 1]:
        if root is None:
            lead = "follows from something that is not shown here: "
        else:
            lead = "explained by it: " if root is diagnosis.findings[0] else f"explained by {root.title.rstrip(' .')}: "
        text = ", ".join(words.group_phrase(group) for group in groups[:_GROUPS_SHOWN])
        if len(groups) > _GROUPS_SHOWN:
            text += f" and {words.plural(len(groups) - _GROUPS_SHOWN, 'more kind')}"
        page.say(lead + text, rest="    ", limit=6)


def _further(page: _Page, roots: Sequence[Finding]) -> None:
    again, others = words.after_the_first(roots)
    if again:
        page.heading("THE SAME AGAIN")
    for root in again[:_ROOTS_SHOWN]:
        page.say(words.in_attempt(root, roots[0]), "  ", "  ", limit=3)
    page.more(len(again) - _ROOTS_SHOWN, "time")
    if others:
        page.heading("FURTHER CAUSES, INDEPENDENT OF IT" if len(others) > 1 else "A FURTHER CAUSE, INDEPENDENT OF IT")
    for root in others[:_ROOTS_SHOWN]:
        sure = words.percent(root.confidence)
        page.say(words.in_attempt(root, roots[0]) + (f" · {sure}" if sure else ""), "  - ", "    ", limit=3)
        if root.why.strip():
            page.say(root.why, "    ", "    ", limit=2)
        for note in root.notes[:1]:
            page.say(f"{note}.", "    ", "    ", limit=2)
        for evidence in root.evidence[:1]:
            page.evidence(evidence, "    ", lines=2)
        for fix in root.fix[:1]:
            page.say(f"To do: {fix}", "    ", "    ", limit=3)
    page.more(len(others) - _ROOTS_SHOWN, "cause")


def _context(page: _Page, diagnosis: Diagnosis) -> None:
    findings = diagnosis.of_role(Role.CONTEXT)
    if not findings:
        return
    # Without a root these are what the verdict rests on, and nobody had asked whether they do harm.
    page.heading("SEEN, NOT THE CAUSE" if diagnosis.of_role(Role.ROOT) else "SEEN")
    groups = words.grouped(findings)
    reasons = {finding.name: finding.why for finding in reversed(findings)}
    notes = {finding.name: finding.notes for finding in reversed(findings)}
    for group in groups[:_ITEMS_SHOWN]:
        on = f" on {words.ranks_phrase(group.ranks)}" if group.ranks else ""
        count = f" ({group.count:,} times)" if group.count > 1 else ""
        reason = reasons[group.name].strip()
        head = group.title.rstrip(" .") + on + count
        page.say(f"{head}: {reason}" if reason else head, "  - ", "    ", limit=3)
        for note in notes[group.name][:2]:
            page.say(note, "    ", "    ", limit=2)
        for evidence in group.evidence[:1]:
            page.flow((_reference(evidence), "file"), first="    ", rest="      ", width=page.width, limit=2)
    page.more(len(groups) - _ITEMS_SHOWN, "kind")


def _hints(page: _Page, diagnosis: Diagnosis) -> None:
    if nothing := words.nothing_in_the_code(diagnosis):
        page.heading("HINTS FROM THE CODE")
        page.say(nothing, "  ", "  ")
    rest = diagnosis.hints_apart()
    if not rest:
        return
    page.heading("HINTS FROM THE CODE")
    for hint in rest[:_ITEMS_SHOWN]:
        page.say(f"{hint.title.rstrip(' .')}: {hint.why}", "  - ", "    ", limit=4)
        for evidence in hint.evidence[:1]:
            page.evidence(evidence, "    ", lines=1)
    page.more(len(rest) - _ITEMS_SHOWN, "hint")


def _ruled_out(page: _Page, diagnosis: Diagnosis) -> None:
    if not diagnosis.ruled_out:
        return
    page.heading("RULED OUT")
    shown = {words.place(e) for root in diagnosis.of_role(Role.ROOT)[:1] for e in root.evidence}
    for item in diagnosis.ruled_out[:_ITEMS_SHOWN]:
        above = [place for e in item.evidence[:1] if e.file and (place := words.place(e)) in shown]
        compare = f" ({'; '.join(above)}, above)" if above else ""  # with its text
        page.say(f"{item.name}: {item.reason}{compare}", "  - ", "    ", limit=3)
        for evidence in item.evidence[: 0 if above else 1]:
            page.flow((_reference(evidence), "file"), first="    ", rest="      ", width=page.width, limit=2)
    page.more(len(diagnosis.ruled_out) - _ITEMS_SHOWN, "candidate")


def _missing(page: _Page, diagnosis: Diagnosis) -> None:
    if not diagnosis.missing_evidence:
        return
    page.heading("MISSING EVIDENCE")
    for item in diagnosis.missing_evidence[:_ITEMS_SHOWN]:
        page.say(item.what, "  - ", "    ", limit=3)
        if item.how.strip():
            page.say(f"next time: {item.how}", "    ", "    ", limit=4)
    page.more(len(diagnosis.missing_evidence) - _ITEMS_SHOWN, "item")


def _coverage(page: _Page, diagnosis: Diagnosis) -> None:
    groups = words.not_read(diagnosis.coverage)
    page.heading("NOT READ" if groups else "READ")
    page.say("; ".join([words.coverage_phrase(diagnosis.coverage), *words.run_phrase(diagnosis.run)]))
    for status, reason, paths in groups[:_NOT_READ_SHOWN]:
        names = ", ".join(one_line(path, 120) for path in paths[:3])
        if len(paths) > 3:
            names += f" and {len(paths) - 3:,} more"
        page.say(f"{status.value}: {names}: {reason}", "  - ", "    ", limit=2)
    rest = groups[_NOT_READ_SHOWN:]
    page.more(sum(len(paths) for _, _, paths in rest), "file")
    if diagnosis.fingerprint:
        page.lines.append("")
        page.say(f"Fingerprint {diagnosis.fingerprint}: the same for this failure in other runs.", "")


def render(diagnosis: Diagnosis, *, width: int, colour: bool) -> str:
    """The report as lines of at most `width` columns (40 to 400 are honoured), ending in a newline.

    With `colour`, the verdict and file references are coloured and headings bold; without, there is no escape sequence
    at all. Nothing from a log acts on the terminal either way.
    """
    page = _Page(width, colour)
    _headline(page, diagnosis)
    roots = diagnosis.of_role(Role.ROOT)
    if roots:
        _where(page, roots[0], diagnosis)
        _why(page, roots[0])
        if roots[0].fix:
            page.heading("WHAT TO DO")
            _numbered(page, roots[0].fix)
        if roots[0].see_also:
            page.say(f"See also: forensics explain {' '.join(roots[0].see_also)}")
    _cascade(page, diagnosis)
    _further(page, roots)
    _context(page, diagnosis)
    _hints(page, diagnosis)
    _ruled_out(page, diagnosis)
    _missing(page, diagnosis)
    _coverage(page, diagnosis)
    return "\n".join(page.lines) + "\n"
