"""The chain of causes as a tree: what each root brought about, and what followed from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.model import Diagnosis, Finding, Role
from forensics.report.words import Group, grouped

_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Link:
    """Findings of one name that the same thing explains, and what they explain in turn."""

    group: Group
    first: Finding
    effects: tuple[Link, ...]


def chain(diagnosis: Diagnosis) -> tuple[list[Link], list[Link]]:
    """(a tree for each root, trees of what follows from something that is not shown). Each finding stands once."""
    cascade = diagnosis.of_role(Role.CASCADE)
    placed: set[str] = set()
    roots = [_link([root], cascade, placed, 0) for root in diagnosis.of_role(Role.ROOT)]
    loose: list[Link] = []
    ids = {finding.id for finding in diagnosis.findings}
    for orphaned in (True, False):  # last those that only a circle explains
        heads = [f for f in cascade if f.id not in placed and (f.explained_by not in ids or not orphaned)]
        for group in _by_name(heads):
            if members := [f for f in group if f.id not in placed]:
                loose.append(_link(members, cascade, placed, 0))
    return roots, loose


def _link(members: Sequence[Finding], cascade: Sequence[Finding], placed: set[str], depth: int) -> Link:
    placed.update(f.id for f in members)
    above = {f.id for f in members}
    children = [f for f in cascade if f.explained_by in above and f.id not in placed] if depth < _DEEPEST else []
    placed.update(f.id for f in children)
    effects = tuple(_link(group, cascade, placed, depth + 1) for group in _by_name(children))
    return Link(grouped(members)[0], members[0], effects)


def _by_name(findings: Sequence[Finding]) -> list[list[Finding]]:
    names: dict[str, list[Finding]] = {}
    for finding in findings:
        names.setdefault(finding.name, []).append(finding)
    return list(names.values())
