"""Which patterns are refused: those that do not compile, match nothing at all, or can take a line hostage.

A backtracking matcher takes exponential time on some patterns (`(a+)+b`). A repeat that holds another one, and nothing
that would end a turn of it, is refused by its form (`ambiguous`). Which others are slow is hard to tell from the
pattern alone, so it is tried: lines are made from the pattern itself with each of its repeats pumped up and the end
spoiled, and the real matcher has to be done with them in time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import regex

PUMPED = 1000  # characters of a made line; few log lines are longer
LONG = 20_000  # characters of some of them: a dumped configuration or a tensor in one line
LIMIT = 0.25  # seconds of processor time for one search; the analysis gives up after engine.matcher.TIMEOUT
WORDS = 4  # literals of a pattern of which lines are made, the longest ones
MADE = 24  # lines made from one pattern at most
BUDGET = 2.0  # seconds for all of them: thousands of searches that are each just below the limit are too slow as well


@lru_cache(maxsize=4096)
def unsafe(pattern: str, longest: int = PUMPED) -> str | None:
    """Why a pattern must be refused; None if it need not. At most about BUDGET seconds.

    longest: characters of the made lines, PUMPED or LONG. A search that only a line of LONG characters makes slow is
    given up there and said in the coverage, which an analysis can do with; who tests a pattern wants to know.
    """
    try:
        expression = regex.compile(pattern, regex.ASCII)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        return f"{pattern[:200]!r} is no regular expression: {error}"
    if ambiguous(pattern):
        return (
            f"{pattern[:200]!r} has a repeat within a repeat, which can share one text in many ways; "
            "say what stands between two turns of the outer one"
        )
    try:
        if expression.search("", timeout=LIMIT):
            return f"{pattern[:200]!r} matches an empty line, and so every line"
        spent = 0.0
        for text in _attacks(pattern, longest):
            started = time.thread_time()
            expression.search(text, timeout=LIMIT)
            spent += time.thread_time() - started
            if spent > BUDGET:
                raise TimeoutError
    except TimeoutError:
        return (
            f"{pattern[:200]!r} is too slow: a repeat within a repeat, or several in a row that can match the same text"
        )
    except (MemoryError, regex.error) as error:
        return f"{pattern[:200]!r} cannot be tried: {error}"
    return None


@lru_cache(maxsize=4096)
def unscannable(pattern: str) -> str | None:
    """Why the scan cannot look for a pattern; None where it can, or looks for a literal that the pattern holds."""
    from forensics.engine.literals import required

    if required([pattern])[0] is not None:
        return None
    from forensics.engine.expressions import scan_expression
    from forensics.engine.scan import Database, Pattern, ScanError

    try:
        Database([Pattern(0, scan_expression(pattern))], cache=False)
    except ScanError as error:
        return f"{str(error).rstrip('.')}; give the rule a literal `anchor`"
    return None


def _attacks(pattern: str, longest: int) -> Iterator[str]:
    """Lines that nearly match: each unbounded repeat pumped in turn, the end spoiled, and plain long lines.

    Also what the pattern begins or is found with, over and over: `error.*code` reads on to the end at each `error`.
    """
    for filler in ("a", "0", " ", "/", "a "):
        yield filler * (PUMPED // len(filler))
    tree = _tree(pattern)
    repeats = _count(tree)
    words = sorted(set(_literals(tree)), key=len, reverse=True)[:WORDS]
    for length in dict.fromkeys((PUMPED, longest)):
        for word in words:
            yield word * (length // len(word))
            yield f"{word} " * (length // (len(word) + 1))
        for pumped in range(min(repeats, MADE)):
            text = _Maker(pumped, length).text(tree)[: 2 * length]
            # The end spoiled; once more with the true end behind it, without which a matcher may not even begin.
            yield text[:-1] + "\x01"
            yield f"{text[:-1]}\x01{text[-20:]}\x01"


def _tree(pattern: str) -> list[tuple[Any, Any]]:
    """The syntax tree of a pattern; empty for syntax that only the `regex` module knows."""
    try:
        from re import ASCII, _parser  # type: ignore[attr-defined]

        return list(_parser.parse(pattern, ASCII))
    except Exception:
        return []


def _literals(items: list[tuple[Any, Any]]) -> Iterator[str]:
    """The runs of literal characters in a syntax tree, those in groups and branches too."""
    run = ""
    for op, argument in items:
        if str(op) == "LITERAL":
            run += chr(argument)
            continue
        if run:
            yield run
            run = ""
        for part in _parts(op, argument):
            yield from _literals(list(part))
    if run:
        yield run


def ambiguous(pattern: str) -> bool:
    """Whether an unbounded repeat holds another whose text it can itself divide at will, as `(a+)+` and `(\\w+\\s*)*`.

    What must stand between the turns of the inner one and cannot be part of it makes the whole unambiguous: `(\\w+,)+`.
    """
    return _ambiguous(_tree(pattern))


def _ambiguous(items: list[tuple[Any, Any]]) -> bool:
    for op, argument in items:
        parts = [list(part) for part in _parts(op, argument)]
        backtracks = str(op) in ("MAX_REPEAT", "MIN_REPEAT") and _unbounded(argument)
        if (backtracks and any(map(_divides, parts))) or any(map(_ambiguous, parts)):
            return True
    return False


def _divides(items: list[tuple[Any, Any]]) -> bool:
    """Whether a sequence has a repeat of no fixed length, and all else in it can be nothing or part of that repeat."""
    return any(all(_fits(item, letters) for item in rest) for letters, rest in _repeats(items))


def _repeats(items: list[tuple[Any, Any]]) -> Iterator[tuple[frozenset[str], list[tuple[Any, Any]]]]:
    """(what it repeats, what else the sequence must match) of each repeat of any length, however deep in groups.

    A repeat of more than one character counts as one of nothing: only what can be left out fits into it.
    """
    for n, (op, argument) in enumerate(items):
        rest = items[:n] + items[n + 1 :]
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT") and int(argument[1]) > max(1, int(argument[0])):
            yield _letters(list(argument[2])), rest
        elif name != "ATOMIC_GROUP" and name != "POSSESSIVE_REPEAT":
            for part in _parts(op, argument):
                for letters, inner in _repeats(list(part)):
                    yield letters, [*inner, *rest]


def _letters(items: list[tuple[Any, Any]]) -> frozenset[str]:
    """The ASCII characters that a sequence of one item can be."""
    if len(items) != 1:
        return frozenset()
    op, argument = items[0]
    name = str(op)
    if name == "SUBPATTERN":
        return _letters(list(argument[3]))
    return frozenset(c for c in map(chr, range(128)) if _is(name, argument, c))


def _is(name: str, argument: Any, char: str) -> bool:
    if name in ("LITERAL", "NOT_LITERAL"):
        return (chr(argument) == char) == (name == "LITERAL")
    return char != "\n" if name == "ANY" else name == "IN" and _within(char, argument)


def _fits(item: tuple[Any, Any], letters: frozenset[str]) -> bool:
    """Whether an item can match nothing, or only characters of `letters`; not, where what it asks for is unclear."""
    op, argument = item
    name = str(op)
    if _is_repeat(op):
        return int(argument[0]) == 0 or all(_fits(inner, letters) for inner in argument[2])
    if name in ("SUBPATTERN", "BRANCH", "ATOMIC_GROUP"):
        return any(all(_fits(inner, letters) for inner in part) for part in _parts(op, argument))
    return any(_is(name, argument, char) for char in letters)


def _count(items: list[tuple[Any, Any]]) -> int:
    return sum(
        (1 if _is_repeat(op) and _unbounded(argument) else 0) + sum(_count(list(part)) for part in _parts(op, argument))
        for op, argument in items
    )


def _is_repeat(op: Any) -> bool:
    return str(op) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _unbounded(argument: Any) -> bool:
    return int(argument[1]) > 64


def _parts(op: Any, argument: Any) -> list[Any]:
    name = str(op)
    if name == "SUBPATTERN":
        return [argument[3]]
    if name == "BRANCH":
        return list(argument[1])
    if name == "ATOMIC_GROUP":
        return [argument]
    return [argument[2]] if _is_repeat(op) else []


class _Maker:
    """Writes text that a syntax tree matches, with its nth unbounded repeat pumped up."""

    def __init__(self, pumped: int, length: int) -> None:
        self.pumped = pumped
        self.length = length  # characters, of the pumped repeat
        self.seen = -1

    def text(self, items: list[tuple[Any, Any]]) -> str:
        return "".join(self._one(op, argument) for op, argument in items)

    def _one(self, op: Any, argument: Any) -> str:
        name = str(op)
        if name == "LITERAL":
            return chr(argument)
        if name == "NOT_LITERAL":
            return "a" if chr(argument) != "a" else "b"
        if name == "ANY":
            return "a"
        if name == "IN":
            return _member(argument)
        if _is_repeat(op):
            least = int(argument[0])
            pumped = False
            if _unbounded(argument):
                self.seen += 1
                pumped = self.seen == self.pumped
            inner = self.text(list(argument[2]))
            if pumped:
                # A short part is repeated as it is; one that holds a repeat itself has it grow with the number.
                return (inner or "a") * max(1, self.length // max(1, len(inner)))
            return inner * max(1, least)
        if name == "BRANCH":
            made = [self.text(list(branch)) for branch in argument[1]]
            return made[0]
        return "".join(self.text(list(part)) for part in _parts(op, argument))


def _member(items: Any) -> str:
    """One character of a class; an `a` or `0` where it may be, so that neighbouring repeats can fight for it."""
    allowed = [c for c in "a0 /.:_-" if _within(c, items)]
    if allowed:
        return allowed[0]
    return next((chr(n) for n in range(33, 127) if _within(chr(n), items)), "a")


def _within(char: str, items: Any) -> bool:
    inverted, hit = False, False
    for op, argument in items:
        name = str(op)
        if name == "NEGATE":
            inverted = True
        elif name == "LITERAL":
            hit |= ord(char) == argument
        elif name == "RANGE":
            hit |= argument[0] <= ord(char) <= argument[1]
        elif name == "CATEGORY":
            kind = str(argument)
            word = char.isascii() and (char.isalnum() or char == "_")
            value = {
                "DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": word,
            }.get(kind.rpartition("_")[2], False)  # fmt: skip
            hit |= value != ("NOT" in kind)
    return hit != inverted
