"""What a check yields: places in programs that show an entry of the catalogue."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forensics.model import Evidence
from forensics.sources.program import Program


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a program, from 1, both ends included; a frame of the run that lies in them speaks for the hit."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that a check found. `weight` (0..1) says how surely it is the fault that the check looks for.

    A check that finds several kinds of fault names the signature of this one, and what it supports, itself.
    """

    check: str
    note: str  # a sentence for people
    evidence: tuple[Evidence, ...]  # the first is the key line
    places: tuple[Place, ...]
    weight: float = 1.0
    signature: str | None = None
    supports: tuple[str, ...] | None = None


def place(program: Program, node: ast.AST) -> Place:
    first = int(getattr(node, "lineno", 1))
    return Place(program.path, first, int(getattr(node, "end_lineno", None) or first))


def hit(
    check: str, program: Program, key: ast.AST, note: str, *others: ast.AST, span: ast.AST | None = None,
    weight: float = 1.0,
) -> Hit:  # fmt: skip
    """A hit whose key line is that of `key`, with further lines; `span` is what a frame must lie in (default: key)."""
    evidence: dict[tuple[str, int | None], Evidence] = {}
    for node in (key, *others):
        found = program.evidence(node)
        evidence.setdefault((found.file, found.line), found)
    places = (place(program, span if span is not None else key), *(place(program, node) for node in (key, *others)))
    return Hit(check, note, tuple(evidence.values()), tuple(dict.fromkeys(places)), weight)
