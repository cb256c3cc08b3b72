"""What a user wants taken out besides: `--redact-also PATTERN`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.report.redaction.memory import Memory
from forensics.report.redaction.stand_ins import is_stand_in

if TYPE_CHECKING:
    from regex import Pattern

_TIME_A_TEXT = 1.0  # seconds that one pattern may spend on one text: those of a report have thousands of characters
LONGEST_PATTERN = 4000  # characters, as of a signature


class RedactionError(ValueError):
    """A pattern of the user's is wrong, or so slow that a report without what it is to find cannot be promised."""


def compile_also(patterns: Sequence[str]) -> tuple[Pattern[str], ...]:
    """The user's patterns, in the syntax of the package `regex`. Raises RedactionError for what is none."""
    if not patterns:
        return ()
    import regex

    compiled = []
    for pattern in patterns:
        if len(pattern) > LONGEST_PATTERN:
            raise RedactionError(f"a pattern of more than {LONGEST_PATTERN} characters")
        try:
            found = regex.compile(pattern)
        except regex.error as error:
            raise RedactionError(f"{pattern!r} is no regular expression: {error}") from None
        if found.fullmatch("") is not None:
            raise RedactionError(f"{pattern!r} matches nothing at all, and so everywhere")
        compiled.append(found)
    return tuple(compiled)


def also(text: str, memory: Memory, patterns: Sequence[Pattern[str]]) -> str:
    """`text` with what the patterns match replaced: group 1 where the pattern has one, else all of it.

    Raises RedactionError where a pattern takes too long: the text must not go out as it is.
    """

    def replace(match: object) -> str:
        from regex import Match

        assert isinstance(match, Match)
        group = 1 if match.re.groups and match[1] is not None else 0
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        whole, value = str(match[0]), str(match[group] or "")
        if not value or is_stand_in(value):
            return whole
        return whole[:start] + memory.of("private", value) + whole[end:]

    for pattern in patterns:
        try:
            text = str(pattern.sub(replace, text, timeout=_TIME_A_TEXT))
        except TimeoutError:
            raise RedactionError(f"{pattern.pattern!r} takes more than {_TIME_A_TEXT:g} s on one text") from None
    return text
