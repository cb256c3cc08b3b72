"""Which texts are no logs: sources of programs, and documents. Both quote messages that nobody printed.

A log is made by running something, line by line, and shows it: times, ranks, levels, counters, tracebacks. A source is
made of statements, a document of sentences that go on over line ends, and neither shows any of that. What is looked at
are windows over the whole file, and all of them must agree: a log may begin with the script that was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from forensics.parsers import program_text
from forensics.patterns import lazy

WINDOW = 8 << 10  # bytes of one window
WINDOWS = 7  # of a file: at both ends, and between
LONGEST = 300  # characters of a line that are looked at
FEWEST = 40  # lines, in all windows together, that tell what a text is
EARLY = 12  # lines that are looked at first: most logs show by these that they are one
# Share of lines with a mark of a log that sources and documents may have, which quote some. The logs that this was set
# on have 10 % and more. Notes in Markdown quote whole stretches of logs.
MARKS, MARKS_IN_NOTES = 0.02, 0.1
_NOTES = (".md", ".markdown")
LATE = 60  # lines at the end of a file, none of which may have a mark: a log of generated texts ends in a traceback
# Of the lines of a source, those that are statements. Of those of a document, sentences, and lines that go on with the
# sentence of the line above: the full share of either is enough, or half of both. A folder's files one after another
# have one or the other in each window.
STATEMENTS = 0.12
SENTENCES, CARRIED = 0.4, 0.25
FEWEST_SENTENCES = 0.15  # in any window of a document
DIGITS = 0.1  # of the characters of a sentence, at most
SHAPES = 0.6  # of the lines of a document differ in more than their numbers; those of a log repeat a few shapes
# Names that programs give to what they print; what is called so must be longer to be taken for anything else.
_NAMED_AS_LOG = (".log", ".out", ".err", ".stdout", ".stderr")
SMALLEST, LONG_LOG = 1 << 10, 64 << 10  # bytes

SOURCE = "source code, which quotes messages that nobody printed"
DOCUMENT = "a document and no log"

_MARK = lazy(
    r"^\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d[ T_]\d\d:\d\d|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{10}\.\d"
    r"|[IWEF]\d{4} \d\d:\d\d|rank ?\d+\b|\d+: |[ \d.]{6,}\]|INFO\b|WARNING\b|ERROR\b|DEBUG\b|CRITICAL\b)"
    r"|^Traceback \(most recent call last|^\s*File \"[^\"]+\", line \d+"
    r"|^\S{1,200}:\d+(?::\d+)?: (?:error|warning|note|fatal)\b"
    r"|\d(?:\.\d+)?(?:it/s|s/it)\b|\d%\||\bNCCL (?:INFO|WARN) |\[(?:INFO|WARNING|ERROR|DEBUG|rank\d+)\]"
    r"|(?i:\b(?:loss|lr|epoch|step|iteration|iter|grad_norm)['\"]?\s?[:=\[/ ]\s?[-+]?\d)"
)
_SENTENCE = lazy(
    r"(?i:\b(?:the|of|to|is|are|be|a|an|in|for|and|with|that|this|or|by|it|as|not|on|from|you|if|when|which|can)\b)"
)
_GOES_ON = lazy(r"^\s*[a-z(\"'`]")
_ENDED = (".", ":", ";", "!", "?", ",}", "]")
_DIGITS = lazy(r"\d")


def what_else(head: bytes, size: int, name: str, read: Callable[[int, int], bytes]) -> str | None:
    """What a text is if it is no log: SOURCE or DOCUMENT; None for a log and for whatever is not surely another thing.

    head: the first bytes of the file. size: its bytes. read: gives up to n bytes from an offset; it may raise OSError.
    """
    lower = name.lower()
    if size < SMALLEST or (size < LONG_LOG and (lower.endswith(_NAMED_AS_LOG) or lower in ("stdout", "stderr"))):
        return None
    first = _lines(head[:WINDOW], whole=size <= WINDOW)
    if any(_MARK.search(line) for line in first[:EARLY]):
        return None
    marks_allowed = MARKS_IN_NOTES if lower.endswith(_NOTES) else MARKS
    lines = statements = marks = 0
    late = False
    for m in _measured(head, size, read):
        lines, statements, marks = lines + m.lines, statements + m.statements, marks + m.marks
        late = m.late
        if not m.foreign:
            return None
    if lines < FEWEST or marks > marks_allowed * lines or (late and not lower.endswith(_NOTES)):
        return None
    return SOURCE if statements >= STATEMENTS * lines else DOCUMENT


class Measures:
    """What the lines of one window are; numbers of lines that are not blank."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = len(lines)
        self.marks = self.statements = self.sentences = self.carried = 0
        self.late = any(_MARK.search(line) for line in lines[-LATE:])  # a mark stands near the end
        shapes: set[str] = set()
        before = ""
        for line in lines:
            self.marks += _MARK.search(line) is not None
            self.statements += program_text.is_statement(line)
            digits = len(_DIGITS.findall(line))
            self.sentences += digits <= DIGITS * len(line) and len(_SENTENCE.findall(line)) >= 2
            another = line.split(maxsplit=1)[0] != before.partition(" ")[0]
            self.carried += another and bool(before) and not before.endswith(_ENDED) and _goes_on(line)
            shapes.add(_DIGITS.sub("0", line))
            before = line.lstrip()
        self.shapes = len(shapes)

    @property
    def foreign(self) -> bool:
        """Whether this window can be part of a source or a document."""
        if self.statements >= STATEMENTS * self.lines:
            return True
        told = self.sentences >= FEWEST_SENTENCES * self.lines and self.shapes >= SHAPES * self.lines
        return told and self.sentences / SENTENCES + self.carried / CARRIED >= self.lines


def _goes_on(line: str) -> bool:
    return _GOES_ON.search(line) is not None


def _measured(head: bytes, size: int, read: Callable[[int, int], bytes]) -> Iterator[Measures]:
    if size <= len(head):
        yield Measures(_lines(head, whole=True))
        return
    number = min(WINDOWS, -(-size // WINDOW))
    for i in range(number):
        start = max(size - WINDOW, 0) * i // max(number - 1, 1)
        data = read(start, WINDOW) if start + WINDOW > len(head) else head[start : start + WINDOW]
        lines = _lines(data, whole=False)
        if len(lines) > 3:
            yield Measures(lines)


def _lines(data: bytes, *, whole: bool) -> list[str]:
    lines = data.replace(b"\r", b"\n").decode("utf-8", "replace").split("\n")
    shown = (line[:LONGEST].rstrip() for line in (lines if whole else lines[1:-1]))
    return [line for line in shown if line and "\0" not in line]
