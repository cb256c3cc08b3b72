"""What a regex cannot match without: literals of which every match holds at least one.

Scanning for the literals of a thousand rules is several times faster than scanning for the rules themselves, and the
few lines that hold one are then given to the regex. The analysis is sound, not complete: where it is not sure, it says
None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from forensics.patterns import lazy

VERSION = 10  # raise it when the analysis or `expressions` changes: their results are cached
SHORTEST = 5  # characters; shorter ones are in too many lines to be worth a look
LONGEST = 40  # characters kept of one literal: more tell no more


# Words that stand in line after line of healthy logs; alone they announce nothing. Shorter ones than SHORTEST_WORD do
# neither, whatever they are.
_COMMON = frozenset(
    "accuracy allocated average batches buffer checkpoint checkpoints completed config connect connected connection "
    "consumed creating current dataset default device devices distributed elapsed epochs evaluation examples "
    "finished forward global gradient initialized iteration iterations learning loaded loading memory metrics model "
    "optimizer parameter parameters process processes progress rank received remaining reserved restored resumed "
    "running samples saving seconds sending started starting stopped stream success successfully tokenize tokenizer "
    "training validation version warning weights worker workers writing".split()
)
SHORTEST_WORD = 7  # letters of a lone lower-case word
_PLAIN_WORD = re.compile(r"[^A-Za-z0-9_]*([a-z]*)[^A-Za-z0-9_]*")


class Literal(NamedTuple):
    text: str
    caseless: bool = False

    @property
    def worth(self) -> int:
        """How rare a literal is likely to be, in characters; a lone common word is worth nothing."""
        word = _PLAIN_WORD.fullmatch(self.text.lower() if self.caseless else self.text)
        if word and (len(word[1]) < SHORTEST_WORD or word[1] in _COMMON):
            return 0
        return len(self.text)


class _Reader:
    """Walks the syntax tree that the standard library's own parser makes of a pattern."""

    def __init__(self) -> None:
        from re import _constants, _parser  # type: ignore[attr-defined]

        self.codes = _constants
        self.parse = _parser.parse
        self.ignorecase = _constants.SRE_FLAG_IGNORECASE

    def read(self, pattern: str) -> tuple[Literal, ...] | None:
        tree = self.parse(pattern)
        return self._sequence(list(tree), bool(tree.state.flags & self.ignorecase))

    def _sequence(self, items: Sequence[tuple[Any, Any]], caseless: bool) -> tuple[Literal, ...] | None:
        """The best set of a concatenation: all parts occur, so the one with the longest shortest literal is chosen."""
        codes = self.codes
        best: tuple[Literal, ...] | None = None
        run = ""
        for op, argument in [*items, (None, None)]:
            if op is codes.LITERAL and argument < 128:
                run += chr(argument)
                continue
            if op is codes.SUBPATTERN:
                _, add, drop, inner = argument
                same_case = not (add | drop) & self.ignorecase
                if same_case and all(o is codes.LITERAL and a < 128 for o, a in inner):
                    run += "".join(chr(a) for _, a in inner)
                    continue
                inside = caseless or bool(add & self.ignorecase)
                best = _better(best, self._sequence(list(inner), inside and not drop & self.ignorecase))
            elif op is codes.BRANCH:
                sets = [self._sequence(list(branch), caseless) for branch in argument[1]]
                if all(sets):
                    best = _better(best, tuple(dict.fromkeys(literal for s in sets if s for literal in s)))
            elif op in (codes.MAX_REPEAT, codes.MIN_REPEAT) and argument[0] >= 1:
                best = _better(best, self._sequence(list(argument[2]), caseless))
            if run:
                best = _better(best, (Literal(run[:LONGEST], caseless),))
            run = ""
        return best


# What is scanned for of a literal. hyperscan holds a thousand literals in eight buckets and looks at their last
# characters first (Wang et al., "Hyperscan", NSDI 2019): ends that are rare in any text spare it the closer look.
# Measured on logs of training: twelve characters, chosen by their last four, are scanned 1.2 to 1.6 times as fast as
# the literals themselves, and hold in few lines that the literal does not.
WINDOW = 12
_TAIL = 4  # as many as `window` adds up
_BY_FREQUENCY = " etaoinsrhldcumpgfywbvkxqjz"  # of English letters, the most usual one first


@cache
def _rarity(char: str) -> float:
    """How seldom a character is in logs, roughly: small letters and blanks, digits, separators, the rest, capitals."""
    if (place := _BY_FREQUENCY.find(char)) >= 0:
        return 1 + place / 9
    if char.isdigit():
        return 1.5
    return 2.0 if char in ":,.=-_/" else 4.0 if char.isupper() else 3.5


def window(text: str) -> int:
    """Where the WINDOW characters of a literal begin that are the best to scan for; 0 where it is no longer."""
    if len(text) <= WINDOW:
        return 0
    rarities = [*map(_rarity, text[WINDOW - _TAIL :])]
    worths = [a + b + c + d for a, b, c, d in zip(rarities, rarities[1:], rarities[2:], rarities[3:], strict=False)]
    return worths.index(max(worths))


def _better(a: tuple[Literal, ...] | None, b: tuple[Literal, ...] | None) -> tuple[Literal, ...] | None:
    if not a or not b:
        return a or b
    shortest_a, shortest_b = min(x.worth for x in a), min(x.worth for x in b)
    if min(shortest_a, shortest_b) >= 12 and len(a) != len(b):  # both are rare enough: fewer is better
        return a if len(a) < len(b) else b
    return a if shortest_a >= shortest_b else b


def required(patterns: Sequence[str]) -> list[tuple[Literal, ...] | None]:
    """For each pattern, literals one of which every match contains; None where there are none worth looking for."""
    reader = _Reader()
    found: list[tuple[Literal, ...] | None] = []
    for pattern in patterns:
        try:
            literals = reader.read(pattern)
        except Exception:  # syntax that only the `regex` module knows: the pattern is scanned for as it is
            literals = None
        if not literals or min(x.worth for x in literals) < SHORTEST or any("\n" in x.text for x in literals):
            literals = None
        found.append(literals)
    return found


RARE_BITS = 30.0  # in classes of characters: a bus id has 34
_CHARACTERS = 95  # printable ones of ASCII
_CASES = 2  # members of a class that stands for a letter, large or small
_QUANTIFIER = lazy(r"[*+?]|\{\d+(?:,\d*)?\}")
_OPENING = r"\((?:\?(?:[aims]{0,4}[:)]|P<\w+>|<?[=!]))?"
TOKEN = lazy(rf"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|{_OPENING}|\{{\d+(?:,\d*)?\}}|.", re.S)


def depth_of(token: str) -> int:
    """What a token adds to the depth of groups; nothing for flags of the whole expression, as `(?i)`."""
    return (token[0] == "(") - (token[-1] == ")" and token[0] in "()")


def fixed_part(pattern: str) -> str | None:
    """The part of a pattern without repetitions of open length that is rare by its form, as ids are; else None.

    hyperscan walks what begins with a number or a blank at every number and blank of a log. Every match of the pattern
    holds a match of the part. Words, however long, are not taken for rare: what is told of is kept up to a limit.
    """
    parts: list[str] = []
    part: list[str] = []
    last = depth = 0
    for token in TOKEN.findall(pattern):
        if token == "|" and depth == 0:
            return None
        if depth == 0 and part and _QUANTIFIER.fullmatch(token):
            if not (token[0] == "{" and "," not in token):
                parts.append("".join(part[:last]))
                part, last = [], 0
                continue
            part[-1] += token
            continue
        if depth == 0:
            last = len(part)
        depth += depth_of(token)
        part.append(token)
    parts.append("".join(part))
    if len(parts) == 1:
        return None
    best = max(parts, key=_bits)
    return best if _bits(best) >= RARE_BITS else None


def _bits(part: str) -> float:
    """What the classes of characters in a part of a pattern say at least; 0 where it cannot be told."""

    def of_class(codes: Any, op: Any, argument: Any) -> float:
        if op is not codes.IN:
            return 0.0
        return math.log2(_CHARACTERS / min(max(_members(codes, argument), 1), _CHARACTERS))

    return _least(part, of_class)


def letters(part: str) -> int:
    """How many letters and digits every match of a part of a pattern has at least; 0 if that is not known."""

    def one(codes: Any, op: Any, argument: Any) -> float:
        if op is codes.LITERAL:
            return chr(argument).isalnum()
        return op is codes.IN and _members(codes, argument) <= _CASES

    return int(_least(part, one))


def _least(part: str, of: Callable[[Any, Any, Any], float]) -> float:
    """The least sum, over all that a part of a pattern can match, of what its characters count; 0 if not known."""
    reader = _Reader()
    codes = reader.codes

    def total(items: Iterable[tuple[Any, Any]]) -> float:
        count = 0.0
        for op, argument in items:
            if op is codes.SUBPATTERN:
                count += total(argument[3])
            elif op is codes.BRANCH:
                count += min(map(total, argument[1]))
            elif op in (codes.MAX_REPEAT, codes.MIN_REPEAT):
                count += argument[0] * total(argument[2])
            else:
                count += of(codes, op, argument)
        return count

    try:
        return total(reader.parse(part))
    except Exception:  # syntax that only the `regex` module knows
        return 0.0


def _members(codes: Any, members: Sequence[tuple[Any, Any]]) -> int:
    """How many characters a class holds; all of them for one that is not simply listed."""
    count = 0
    for op, argument in members:
        if op is codes.LITERAL:
            count += 1
        elif op is codes.RANGE:
            count += argument[1] - argument[0] + 1
        elif op is codes.CATEGORY and argument is codes.CATEGORY_DIGIT:
            count += 10
        else:
            return _CHARACTERS
    return count
