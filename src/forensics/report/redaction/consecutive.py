"""What only the lines around a line tell of it: a value by its name, a cell of a table by its head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forensics.report.redaction.apart import apart
from forensics.report.redaction.memory import Memory
from forensics.report.redaction.pairs import paired
from forensics.report.redaction.tables import tables
from forensics.report.redaction.variables import values_below

_RULES: tuple[Callable[[str, Memory], str], ...] = (apart, paired, values_below)


def line_by_line(lines: Sequence[str], memory: Memory) -> tuple[str, ...]:
    """Consecutive lines of a file without secrets and names that a line around tells; as many lines as before."""
    text = "\n".join(lines)
    for rule in _RULES:
        found = rule(text, memory)
        if found.count("\n") == text.count("\n"):
            text = found
    found_lines = text.split("\n")
    return tuple(tables(found_lines if len(found_lines) == len(lines) else lines, memory))
