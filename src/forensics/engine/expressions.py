"""What is scanned for of a rule's expression that has no literal: a part that is quick to find and misses no line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forensics.engine.literals import SHORTEST, TOKEN, depth_of, fixed_part, letters
from forensics.patterns import lazy

_ANY_OF = lazy(r"\.|\[.*\]|\\[dDsSwW]", re.S)  # tokens that stand for one character out of several
_BOUND = r"(?:\b|[\d\[]m)"  # of a word, or the end of a colour's escape
# hyperscan walks a gap of so many characters behind each of the words before it. Where such a word is short, and so in
# line after line, that costs more than to look only for what stands behind: "step N ... NaN in the batch" of
# nan-in-data as a whole takes 1.6 times as long as its end on training logs.
_GAP = 20
# Letters that must be left: each match is told of.
_FEWEST_LETTERS = 7


def scan_expression(pattern: str) -> str:
    """A rule's pattern as hyperscan wants it, which needs only its beginning to point at a line, or a rare part of it.

    It looks at raw lines, so anchors to the cleaned line fall away, and the bound of a word at the beginning of a
    branch, where a colour's escape ends in a letter; inside a group that may stand there instead. So do repetitions at
    the end: hyperscan would tell of a match at every character of the rest of the line.
    """
    whole = fixed_part(pattern.removeprefix("^").removesuffix("$")) or pattern
    tokens = [*_unbounded([token for token in TOKEN.findall(whole) if token not in ("^", "$")])]
    whole = "".join(tokens)
    while (shorter := _without_repetition(tokens)) is not None:
        tokens = shorter
    short = "".join(tokens)
    try:
        return _behind_gap(short if re.search(short, "") is None else whole)
    except re.error:  # syntax that only the `regex` module knows
        return whole


def _unbounded(tokens: Sequence[str]) -> Iterator[str]:
    """The tokens of an expression in which a colour may stand where a beginning asks for the beginning of a word.

    Without any bound inside of a group hyperscan 0.9 misses some matches: of `(?i:(?:finished|done)(?: x){0,2} y)`.
    """
    begins = [True]  # of each group that is open: whether nothing stands before it
    at_beginning = True
    for token in tokens:
        if token == r"\b" and at_beginning:
            if len(begins) > 1:
                yield _BOUND
            continue
        yield token
        if (deeper := depth_of(token)) > 0:
            begins.append(at_beginning)
        elif deeper < 0:
            begins = begins[:-1] or [False]
            at_beginning = False
        elif token == "|":
            at_beginning = begins[-1]
        elif token[0] != "(":
            at_beginning = False


def _without_repetition(tokens: list[str]) -> list[str] | None:
    """The tokens of an expression with the last one, where it is a repetition, down to its least count; else None."""
    end = len(tokens)
    while end and tokens[end - 1] == ")":
        end -= 1
    closing = tokens[end:]
    if end > 1 and tokens[end - 1] == "?" and tokens[end - 2][0] in "*+?{":
        end -= 1  # a lazy one
    if end < 2 or not _ANY_OF.fullmatch(tokens[end - 2]):
        return None
    atom, times = tokens[end - 2 : end]
    if (counts := _counts(times)) is None or counts[0] == counts[1]:
        return None
    least = counts[0]
    return [*tokens[: end - 2], *[atom][:least], *([f"{{{least}}}"] if least > 1 else []), *closing]


def _counts(token: str) -> tuple[int, float] | None:
    """How often at least and at most a quantifier repeats; None for another token."""
    if token in ("*", "+", "?"):
        return int(token == "+"), 1 if token == "?" else float("inf")
    if token[0] != "{" or len(token) < 3:
        return None
    least, comma, most = token[1:-1].partition(",")
    return int(least), float(most or "inf") if comma else int(least)


def _behind_gap(pattern: str) -> str:
    """The part of a pattern behind a wide gap, where only a short word stands before that."""
    opening, inner, closing = _group_of_all(pattern)
    tokens = TOKEN.findall(inner)
    depth, gap = 0, 0
    for n, token in enumerate(tokens):
        if depth == 0 and token == "|":
            return pattern
        if depth == 0 and not gap and n > 1 and _ANY_OF.fullmatch(tokens[n - 1]):
            counts = _counts(token)
            gap = n if counts is not None and counts[1] >= _GAP else 0
        depth += depth_of(token)
    if not gap:
        return pattern
    before, behind = tokens[: gap - 1], tokens[gap + 1 :]
    if behind[:1] == ["?"]:  # a lazy one
        behind = behind[1:]
    rest = "".join(_unbounded([*filter(None, (opening, *behind, closing))]))
    usual = letters("".join(before)) < SHORTEST
    return _behind_gap(rest) if usual and letters(rest) >= _FEWEST_LETTERS else pattern


def _group_of_all(pattern: str) -> tuple[str, str, str]:
    """A pattern in three: the flags or the opening of a group that holds all of it, what that holds, its closing."""
    tokens = TOKEN.findall(pattern)
    opening = tokens[0] if tokens else ""
    if opening[:2] != "(?" or opening[-1] not in ":)" or opening[2:3] in ("=", "!", "<"):
        return "", pattern, ""
    if opening[-1] == ")":
        return opening, "".join(tokens[1:]), ""
    depth = 0
    for n, token in enumerate(tokens):
        depth += depth_of(token)
        if depth == 0:
            return (opening, "".join(tokens[1:-1]), ")") if n == len(tokens) - 1 else ("", pattern, "")
    return "", pattern, ""
