"""Signatures and warnings that only one of two runs has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forensics.compare.around import heads_table, says_nothing
from forensics.compare.model import Sign
from forensics.compare.trouble import WORDS, speaks_of_trouble
from forensics.model import Diagnosis, Evidence, Finding, Kind, Source

if TYPE_CHECKING:
    from forensics.engine.scan import Pattern

MOST_TEMPLATES = 5_000
BYTES = 256 << 20  # bytes of a run's logs that are searched
SHOWN = 200  # signs of either kind that are kept
LONGEST = 300

_VARIES = re.compile(
    r"\x1b\[[0-9;]*[A-Za-z]"
    r"|'[^']{0,200}'|\"[^\"]{0,200}\""
    r"|(?:[A-Za-z]:)?[/\\][\w.@%+:=~/\\-]+"  # paths
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{8,}\b"
    r"|[-+]?\d+(?:[.,:_-]\d+)*(?:[eE][-+]?\d+)?"
    r"|\b(?:nan|inf)\b",
    re.I,
)
_LEVEL = re.compile(r"^\s*\[?(?:rank)?\d*\]?:?\s*")


def template(line: str) -> str:
    """A line without what differs from print to print: numbers, paths, quoted words, addresses, times."""
    text = _VARIES.sub("<>", line[: 4 * LONGEST])
    text = re.sub(r"(?:<>[\s:,./|\[\]()-]*){2,}", "<> ", text)
    return " ".join(text.split())[:LONGEST]


def signatures(goods: Sequence[Diagnosis], bad: Diagnosis) -> tuple[tuple[Sign, ...], tuple[Sign, ...]]:
    """(only in the bad run, only in the good ones): findings by name; one that is worse than context there counts."""
    mine = _by_name(bad)
    theirs = [_by_name(g) for g in goods]
    only_bad = [_sign(f) for n, f in mine.items() if not any(_alike(f, run.get(n)) for run in theirs)]
    only_good = [
        _sign(f)
        for n, f in theirs[0].items()
        if n not in mine and all(n in run for run in theirs)
    ]  # fmt: skip
    return tuple(only_bad[:SHOWN]), tuple(only_good[:SHOWN])


def _alike(one: Finding, other: Finding | None) -> bool:
    return other is not None and (other.role != "context" or one.role == "context")


def _by_name(diagnosis: Diagnosis) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for finding in diagnosis.findings:
        found.setdefault(finding.name, finding)
    return found


def _sign(finding: Finding) -> Sign:
    evidence = finding.evidence[0] if finding.evidence else None
    return Sign(name=finding.name, title=finding.title, role=finding.role.value, count=finding.count, evidence=evidence)


def warnings(sources: Sequence[Source]) -> dict[str, Sign]:
    """The lines of a run's logs that speak of trouble, by template, with how many there are of each.

    Lines are found by a scan for a few words, so a large run costs what its analysis does. Of one word's lines in a
    span of a file a thousand are looked at (`engine.scan.KEEP`).
    """
    from forensics.engine.scan import Database, Pattern, scan_files

    logs, size = [], 0
    for source in sources:
        if source.kind is Kind.LOG and size + source.size <= BYTES:
            logs.append(source)
            size += source.size
    if not logs:
        return {}
    patterns: tuple[Pattern, ...] = tuple(Pattern(i, word, literal=True, caseless=True) for i, word in enumerate(WORDS))
    files: list[tuple[Path, int, Sequence[int]]] = [(s.file, s.size, ()) for s in logs]
    found: dict[str, Sign] = {}
    for source, scan in zip(logs, scan_files(Database(patterns), files), strict=True):
        lines = {hit.offset: (hit.line, hit.data.decode("utf-8", "replace").strip()) for hit in scan.hits}
        heads = {line for line, text in lines.values() if heads_table(text)}
        for offset, (line, text) in lines.items():
            said = _LEVEL.sub("", text)
            if says_nothing(said, line, heads) or not speaks_of_trouble(said):
                continue
            key = template(said)
            known = found.get(key)
            if known is None:
                if len(found) >= MOST_TEMPLATES:
                    continue
                evidence = Evidence(source.path, line, offset, text[:1000])
                found[key] = Sign(name=key, title=text[:LONGEST], role="message", count=1, evidence=evidence)
            else:
                found[key] = Sign(
                    name=key, title=known.title, role="message", count=known.count + 1, evidence=known.evidence
                )
    return found


def only(mine: Mapping[str, Sign], others: Sequence[Mapping[str, Sign]], told: Sequence[Sign] = ()) -> tuple[Sign, ...]:
    """The templates that no other run has, in the order of the files; without the lines that `told` already show."""
    shown = {(sign.evidence.file, sign.evidence.line) for sign in told if sign.evidence is not None}
    return tuple(
        sign
        for key, sign in mine.items()
        if not any(key in other for other in others)
        and not (sign.evidence is not None and (sign.evidence.file, sign.evidence.line) in shown)
    )[:SHOWN]
