"""The catalogue's log rules, compiled: which patterns to scan for, and what a line that was hit means.

hyperscan decides which lines are looked at (`patterns`), the `regex` module decides what they say (`match`): signatures
can come from users, so a search that takes too long is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import regex

from forensics.engine.scan import Database, Pattern, ScanError
from forensics.parsers.tracebacks import HEADER
from forensics.signatures.schema import EvidenceRule, Signature, SignatureError

TIMEOUT = 0.2  # seconds a capture may take on one line
# Ids of patterns that are not rules.
TRACEBACK, NONFINITE = 0, 1
_FIRST_RULE = 16
_NONFINITE = r"[:= '\"(](?i:nan|[+-]?inf(?:inity)?)(?:[^A-Za-z_]|$)"


@dataclass(frozen=True, slots=True)
class Rule:
    """One log rule of one signature, ready to use."""

    id: int
    signature: Signature
    evidence: EvidenceRule
    near: int | None  # pattern id whose hits must lie near
    unless_near: int | None


@dataclass(frozen=True, slots=True)
class Match:
    captures: Mapping[str, str]


def scan_expression(pattern: str) -> str:
    """A rule's pattern as hyperscan wants it: it looks at raw lines, so anchors to the cleaned line fall away."""
    return pattern.removeprefix("^").removesuffix("$")


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """A rule's regex, compiled when a line first asks for it: a run hits few of the catalogue's rules."""
    return regex.compile(pattern, regex.ASCII)


class Matcher:
    """All log rules of a catalogue. Immutable after construction; safe to share between threads."""

    def __init__(self, catalogue: Mapping[str, Signature], *, use_cache: bool = True) -> None:
        patterns = [Pattern(TRACEBACK, HEADER), Pattern(NONFINITE, _NONFINITE)]
        rules: dict[int, Rule] = {}
        contexts: dict[str, int] = {}
        next_id = _FIRST_RULE

        def context(expression: str | None) -> int | None:
            nonlocal next_id
            if expression is None:
                return None
            if expression not in contexts:
                contexts[expression] = next_id
                patterns.append(Pattern(next_id, expression))
                next_id += 1
            return contexts[expression]

        for signature in catalogue.values():
            for evidence in signature.evidence:
                if evidence.source != "log" or evidence.pattern is None:
                    continue
                near, unless_near = context(evidence.near), context(evidence.unless_near)
                rules[next_id] = Rule(next_id, signature, evidence, near, unless_near)
                patterns.append(
                    Pattern(next_id, evidence.anchor, literal=True)
                    if evidence.anchor
                    else Pattern(next_id, scan_expression(evidence.pattern))
                )
                next_id += 1
        self.rules: Mapping[int, Rule] = rules
        self.patterns = tuple(patterns)
        try:
            self.database = Database(self.patterns, cache=use_cache)
        except ScanError as error:
            raise SignatureError(f"{error}; give the rule a literal `anchor`") from None

    def match(self, rule: Rule, texts: Iterable[str]) -> Match | None:
        """What a rule captures from a line, given as cleaned text first and as printed second; None if it does not match."""
        for text in texts:
            try:
                found = compiled(rule.evidence.pattern or "").search(text, timeout=TIMEOUT)
                if found is None:
                    continue
                if rule.evidence.unless and compiled(rule.evidence.unless).search(text, timeout=TIMEOUT):
                    return None
            except TimeoutError:
                return None
            return Match({k: v.strip() for k, v in found.groupdict().items() if v is not None})
        return None
