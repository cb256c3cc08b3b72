"""A draft of a signature for a group of unknown failures: a TOML file that passes its own test, to be edited.

A pattern is a message's template: its words as they stand, escaped, and a capture for each thing that differs. Where
the words say too little (`KeyError: 'x'`), the frame of the traceback must stand near. What is drafted is tried on the
lines that it was made from, as they are and as they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forensics.engine.matcher import LONGEST_NUMBER
from forensics.triage.insight import toml, unknown
from forensics.triage.insight.model import UnknownGroup
from forensics.triage.insight.templates import ANSI, Piece, clean, pieces, stand_in
from forensics.triage.model import JobResult, Unexplained

LONGEST = 240  # characters of a message from which a pattern is made; what follows seldom tells more
MEMBERS = 200  # jobs that are looked at
RULES = 4  # shapes of one group
EXAMPLES = 3  # of one shape
CAPTURES = 6  # of one pattern; what differs beyond that is matched and not named
LEAST_LETTERS = 10  # of a message's words from which it tells a failure without the frame beside it
NEAR_LINES = 100  # how far above a traceback's last line its frame can stand
AREA = "drafts"
PARENT = "python-exception"
_VALUES = {
    "n": r"[-+\w.]{1,40}",
    "hex": r"(?:0[xX])?[0-9A-Fa-f]{1,64}",
    "id": r"[^\n]{1,200}?",
    "time": r"[-\d:.,\x20TZ+]{4,40}",
    "path": r"\S{1,300}",
}
_MANY = r"[^\n]{1,300}"
_ANYTHING = r"[^\n]{1,200}?"  # what a stand-in stands for can hold blanks
_BLANKS = r"[^\x21-\x7e]{1,20}"  # what `clean` makes one blank of
_QUOTED = {"'": r"[^'\n]{0,300}", '"': r'[^"\n]{0,300}', "`": r"[^`\n]{0,300}"}
_NAMES = {"n": "number", "hex": "address", "id": "name", "time": "time", "path": "path", "text": "text"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_ .-]{0,80}")  # of quoted text that belongs to the message
_TOO_LONG = re.compile(rf"[0-9]{{{LONGEST_NUMBER + 1}}}")  # the matcher takes a match with such a capture back
_SLASH = re.compile(r"[/\\]")
# What loggers print before a message: names and the level.
_PREFIX = re.compile(r"[^\n]{0,80}?\b(?:WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE)\b")
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")


class DraftError(Exception):
    """Nothing can be drafted; the message says why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """name: the slug, and the file's name without ".toml"; text: TOML."""

    name: str
    text: str


def draft(
    group: UnknownGroup,
    members: Sequence[JobResult],
    *,
    name: str | None = None,
    redact: Callable[[str], str] | None = None,
) -> Draft:
    """The draft for a group. members: its jobs, in any order; redact: applied to all text from logs.

    Raises DraftError.
    """
    slug = name or group.name
    ordered = sorted(members, key=lambda r: (r.path != group.representative, r.path))[:MEMBERS]
    rests = [r.unexplained for r in ordered if r.unexplained is not None]
    if not rests:
        raise DraftError(f"{group.name}: none of its jobs left anything to draft from")
    shown = redact if redact is not None else _as_it_is
    lines: dict[str, _Line] = {}
    for rest in rests:
        raw = ANSI.sub("", unknown.said(rest))
        line = _Line(raw, clean(shown(clean(raw))), rest.exception is not None)
        if line.shown:
            lines.setdefault(line.shown, line)
    known = list(lines.values())
    near = _near(rests[0], shown)
    wrong = ["its jobs left no line that could be matched"]
    # A pattern can be refused for the text that it is made from: what says less is tried next.
    makers: tuple[Maker, ...] = (_from_template, _word_for_word, *([_head_alone] if near is not None else []))
    for make in makers:
        rules = _rules(known, make)
        if not rules:
            continue
        if rests[0].exception is None and rules[0].telling < LEAST_LETTERS:
            raise DraftError(f"{group.name}: its last line says too little: {rules[0].lines[0].shown[:200]!r}")
        for beside in (near, None) if near is not None else (None,):
            text = _written(slug, group, ordered[0], rests[0], rules, beside, shown)
            if not (wrong := problems(text, slug)):
                return Draft(slug, text)
    raise DraftError(wrong[0])


def _as_it_is(text: str) -> str:
    return text


def problems(text: str, slug: str) -> list[str]:
    """What `forensics signatures test` would say of a draft."""
    from forensics.signatures.check import check_signature
    from forensics.signatures.schema import SignatureError, parse

    try:
        return check_signature(parse(text, AREA, f"{slug}.toml"), None, text)
    except SignatureError as error:
        return [str(error)]


def escaped(text: str) -> str:
    """A regular expression that matches this text; a stand-in in it matches what it may stand for.

    What is no ASCII matches any characters, as many as there are or as its UTF-8 has bytes.
    """
    built, at = [], 0
    for m in stand_in().finditer(text):
        built += [_plain(text[at : m.start()]), _ANYTHING]
        at = m.end()
    return "".join([*built, _plain(text[at:])])


def _plain(text: str) -> str:
    found = _SPECIAL.sub(r"\\\1", text)
    return re.sub(r"[^\x20-\x7e]+", lambda m: f".{{1,{len(m[0].encode('utf-8', 'replace'))}}}", found)


@dataclass(frozen=True, slots=True)
class _Line:
    raw: str  # as it was printed
    shown: str  # as the draft may show it
    is_exception: bool

    @property
    def parts(self) -> tuple[str, str]:
        """("KeyError: ", the message)."""
        if not self.is_exception:
            return "", self.shown
        head, colon, message = self.shown.partition(": ")
        return head + colon, message


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    telling: int  # letters of words that must stand as they are, without the exception's name
    lines: tuple[_Line, ...]  # that it matches
    search: Callable[[str], bool]


Maker = Callable[[Sequence[_Line]], tuple[str, int]]  # lines -> (a pattern for the first, its `telling`)


def _rules(lines: Sequence[_Line], make: Maker) -> list[_Rule]:
    """A rule for each shape that the lines have, RULES at most: near-duplicates in a group differ by words."""
    rules: list[_Rule] = []
    left = list(lines)
    while left and len(rules) < RULES:
        rule = _tried(*make(left), left)
        if rule is not None:
            rules.append(rule)
            left = [line for line in left if line not in rule.lines]
        else:
            left = left[1:]
    return rules


def _tried(pattern: str, telling: int, lines: Sequence[_Line]) -> _Rule | None:
    """The rule, if it matches its first line, raw and shown; with any blanks for each blank where it has to."""
    for expression in (pattern, pattern.replace(" ", _BLANKS)):
        search = _searcher(expression)
        if search is not None and search(lines[0].raw) and search(lines[0].shown):
            return _Rule(expression, telling, tuple(x for x in lines if search(x.raw) and search(x.shown)), search)
    return None


def _from_template(lines: Sequence[_Line]) -> tuple[str, int]:
    """From the pieces of the first line; a quoted word that all lines of its shape share stays as it is."""
    head, message = lines[0].parts
    own = _cut(pieces(message))
    shape = _shape(own)
    like = [other for line in lines[1:] if _shape(other := _cut(pieces(line.parts[1]))) == shape]
    built, captures, words = [escaped(head)], 0, ""
    for n, piece in enumerate(own):
        kept = piece.kind is None or (
            piece.kind == "text"
            and not piece.many
            and _IDENTIFIER.fullmatch(piece.text[1:-1]) is not None
            and all(other[n].text == piece.text for other in like)
        )
        if kept:
            built.append(escaped(piece.text))
            words += piece.text
        else:
            short = not any(_TOO_LONG.search(other[n].text) for other in (own, *like))
            captures += short
            built.append(
                _slot(piece, f"{_NAMES[piece.kind or 'id']}_{captures}" if short and captures <= CAPTURES else None)
            )
    return "".join(built).rstrip(), _letters(words, is_exception=lines[0].is_exception)


def _shape(found: Sequence[Piece]) -> list[tuple[str | None, str]]:
    return [(p.kind, p.text if p.kind is None else "") for p in found]


def _slot(piece: Piece, name: str | None) -> str:
    if piece.many:
        value, quote = _MANY, ""
    elif piece.kind == "text":
        quote = piece.text[0]
        value = _QUOTED[quote]
    else:
        value, quote = _VALUES[piece.kind or "id"], ""
    return f"{quote}(?P<{name}>{value}){quote}" if name else f"{quote}(?:{value}){quote}"


def _word_for_word(lines: Sequence[_Line]) -> tuple[str, int]:
    """The first line as it stands."""
    head, message = lines[0].parts
    telling = _letters(message[:LONGEST], is_exception=lines[0].is_exception)
    return escaped((head + message)[:LONGEST]).rstrip(), telling


def _head_alone(lines: Sequence[_Line]) -> tuple[str, int]:
    """The exception, whatever its message: the frame beside it has to tell which it is."""
    head, message = lines[0].parts
    return escaped(head.strip() or message[:LONGEST]), 0


def _cut(found: Iterable[Piece]) -> list[Piece]:
    """As many pieces as LONGEST characters hold; the last words may be cut."""
    kept: list[Piece] = []
    size = 0
    for piece in found:
        room = LONGEST - size
        if room <= 0:
            break
        if len(piece.text) > room:
            if piece.kind is None:
                kept.append(Piece(None, piece.text[:room]))
            break
        kept.append(piece)
        size += len(piece.text)
    return kept


def _letters(text: str, *, is_exception: bool) -> int:
    """How many letters of a text its pattern holds: none of a stand-in, of what is no ASCII, of a logger's prefix."""
    prefix = None if is_exception else _PREFIX.match(text)
    kept = stand_in().sub("", text[prefix.end() if prefix else 0 :])
    return sum(c.isascii() and c.isalpha() for c in kept)


def _near(rest: Unexplained, shown: Callable[[str], str]) -> str | None:
    """The line of a traceback that names the innermost user frame; None where there is none."""
    if rest.exception is None or not rest.frames:
        return None
    file, _, function = rest.frames[-1]
    name = _SLASH.split(clean(shown(file)))[-1]
    return f'["/\\\\]{escaped(name)}", line \\d+, in {escaped(clean(function))}'


def _written(
    slug: str,
    group: UnknownGroup,
    first: JobResult,
    rest: Unexplained,
    rules: Sequence[_Rule],
    near: str | None,
    shown: Callable[[str], str],
) -> str:
    where = f" in {rest.frames[-1][2]}" if rest.exception is not None and rest.frames else ""
    why = f"Jobs ended with {rest.exception or 'this line'}{where}. Why that happens is still to be written."
    jobs = f"{len(group.jobs)} job{'s' * (len(group.jobs) != 1)}"
    out = [
        toml.comment("A draft: say what happened and what to do, and take out what others should not read."),
        toml.comment(f"Made from {jobs}; try it with: forensics signatures test {slug}.toml"),
    ]
    if rest.exception is None and rest.last_error is None and unknown.telling(rest) is None:
        out.append(toml.comment("Nothing in this line speaks of trouble: healthy runs may print it too."))
    if near is None and any(rule.telling < LEAST_LETTERS for rule in rules):
        out.append(
            toml.comment("The pattern says little and no frame is known: add what tells this failure from others.")
        )
    out += [
        f"name = {toml.string(slug)}",
        f"title = {toml.string(_title(unknown.retold(group, shown).title))}",
        'kind = "cause"',
        'severity = "fatal"',
        'status = "experimental"',
        f"verdict = {toml.string(_verdict(first))}",
        *([f"parent = {toml.string(PARENT)}"] if rest.exception is not None else []),
        f"why = {toml.string(clean(shown(why)))}",
        toml.comment('fix = ["what to do"]'),
        toml.comment('confirm = ["what is missing :: how to get it next time"]'),
    ]
    by_frame = False
    for rule in rules:
        out += ["", "[[evidence]]", 'source = "log"', f"pattern = {toml.literal(rule.pattern)}", "weight = 0.9"]
        if near is not None and rule.telling < LEAST_LETTERS:
            by_frame = True
            out += [f"near = {toml.literal(near)}", f"near_lines = {NEAR_LINES}"]
    trace = _trace(rest, shown)
    for line in [line for rule in rules for line in rule.lines[:EXAMPLES]][: 2 * EXAMPLES]:
        log = "\n".join([*trace, line.shown])
        out += ["", "[[example]]", f"log = {toml.string(log)}"]
    miss = _near_miss(rules, by_frame=by_frame)
    out += ["", "[[example]]", f"log = {toml.string(miss)}", "is_not = true"]
    return "\n".join(out) + "\n"


def _searcher(expression: str) -> Callable[[str], bool] | None:
    import regex

    try:
        compiled = regex.compile(expression, regex.ASCII)
    except (regex.error, RecursionError, OverflowError):
        return None

    def search(line: str) -> bool:
        try:
            return compiled.search(line, timeout=0.2) is not None
        except TimeoutError:
            return False

    return search


def _trace(rest: Unexplained, shown: Callable[[str], str]) -> list[str]:
    """The header and the innermost user frames; the lines of code between them are not known."""
    if rest.exception is None:
        return []
    frames = [f'  File "{clean(shown(file))}", line {n}, in {clean(name)}' for file, n, name in rest.frames[-3:]]
    return ["Traceback (most recent call last):", *frames]


def _near_miss(rules: Sequence[_Rule], *, by_frame: bool) -> str:
    """What looks like it and is not: the same exception raised elsewhere, or with another message."""
    line = rules[0].lines[0].shown
    if by_frame and all(rule.telling < LEAST_LETTERS for rule in rules):
        return f'Traceback (most recent call last):\n  File "elsewhere.py", line 1, in elsewhere\n{line}'
    head, colon, _ = line.partition(": ")
    for candidate in (f"{head}: something else went wrong" if colon else "", f"{head[:40]} ended", "training finished"):
        if candidate and not any(rule.search(candidate) for rule in rules):
            return candidate
    return "all is well"


def _title(text: str) -> str:
    return clean(text)[:120].rstrip(" .:") or "An unknown failure"


def _verdict(row: JobResult) -> str:
    from forensics.signatures.schema import VERDICTS

    return row.verdict if row.verdict in VERDICTS else "failed"
