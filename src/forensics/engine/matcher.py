"""The catalogue's log rules, compiled: what to scan for, and what a line that was hit means.

The scan looks for literals that a rule's matches must contain (engine.literals), and for a part of those few rules that
have none (engine.expressions). The `regex` module then decides what the lines say (`match`): signatures can come from
users, so a search that takes too long is given up.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import regex

from forensics import cache as files
from forensics.engine.expressions import scan_expression
from forensics.engine.literals import VERSION, Literal, required
from forensics.engine.scan import Database, Pattern, ScanError
from forensics.parsers.launchers import ROW
from forensics.parsers.stacks import HEADERS as STACK_HEADERS
from forensics.parsers.tracebacks import HEADER, REMOTE_HEADER
from forensics.signatures.schema import EvidenceRule, Signature, SignatureError

LONGEST_NUMBER = 20  # digits of 2**64 - 1; a longer one is no number that a program printed
TIMEOUT = 0.2  # seconds a search may take on one line
LONG = 2048  # characters of a text whose searches are added up
MOST_SECONDS = 1.0  # that searches for one signature may take in the long texts of one file,
MOST_SECONDS_OF_ALL = 10.0  # and those for all
# Ids of patterns that are not rules.
TRACEBACK, NONFINITE, WORKER_ROW = 0, 1, 2
STACK = 8  # headers of stacks: parsers.stacks
_FIRST = 16
# Written out, since one class-and-case pattern for all spellings costs as much as the whole rest of the scan. A word
# between spaces alone does not count: every Megatron line ends in "number of nan iterations".
_NONFINITE = tuple(
    expression
    for word in ("nan", "NaN", "NAN", "inf", "-inf", "Infinity", "-Infinity", "INF")
    for expression in (rf"[:='\"(] ?{word}[ ,|}})'\"\]\r\n]", rf" {word}(?: [|]|[,\r\n])")
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One log rule of one signature."""

    signature: Signature
    evidence: EvidenceRule
    index: int  # of the evidence rule in its signature


class Match(NamedTuple):
    captures: Mapping[str, str]


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """A rule's regex, compiled when a line first asks for it: a run hits few of the catalogue's rules."""
    return regex.compile(pattern, regex.ASCII)


@cache
def is_anchored(pattern: str) -> bool:
    """Whether a rule's regex asks for the beginning of a line."""
    return "^" in pattern.replace("[^", "")


class Matcher:
    """All log rules of a catalogue. Immutable after construction; safe to share between threads.

    rules_of: pattern id -> the rules whose matches that pattern announces.
    """

    def __init__(self, catalogue: Mapping[str, Signature], *, use_cache: bool = True) -> None:
        rules = [
            Rule(signature, evidence, index)
            for signature in catalogue.values()
            for index, evidence in enumerate(signature.evidence)
            if evidence.source == "log" and evidence.pattern is not None
        ]
        expressions = list(dict.fromkeys(r.evidence.pattern or "" for r in rules))
        announcing = dict(zip(expressions, _announcing(expressions, use_cache), strict=True))
        patterns = [
            Pattern(TRACEBACK, HEADER),
            Pattern(TRACEBACK, REMOTE_HEADER),
            Pattern(WORKER_ROW, ROW),
            *(Pattern(NONFINITE, expression) for expression in _NONFINITE),
        ]
        patterns += [Pattern(STACK, expression) for expression in STACK_HEADERS]
        ids: dict[tuple[str, bool, bool], int] = {}

        def id_of(text: str, *, literal: bool, caseless: bool = False) -> int:
            key = (text, literal, caseless)
            if key not in ids:
                ids[key] = _FIRST + len(ids)
                patterns.append(Pattern(ids[key], text, literal=literal, caseless=caseless))
            return ids[key]

        def announced_by(expression: str, anchor: str | None = None) -> list[int]:
            if anchor is not None:
                return [id_of(anchor, literal=True)]
            known = announcing[expression]
            if isinstance(known, str):
                return [id_of(known, literal=False)]
            return [id_of(x.text, literal=True, caseless=x.caseless) for x in known]

        rules_of: dict[int, list[Rule]] = defaultdict(list)
        for rule in rules:
            for pattern_id in announced_by(rule.evidence.pattern or "", rule.evidence.anchor):
                rules_of[pattern_id].append(rule)
        self.rules_of: Mapping[int, Sequence[Rule]] = dict(rules_of)
        self.patterns = tuple(patterns)
        try:
            self.database = Database(self.patterns, cache=use_cache)
        except ScanError as error:
            raise SignatureError(f"{error}; give the rule a literal `anchor`") from None

    def match(self, rule: Rule, texts: Iterable[str], patience: Patience | None = None) -> Match | None:
        """What a rule captures from a line (its cleaned text first, then as printed); None if it does not match.

        patience: of the file that the line is in; a search that is given up is counted there, and is no match either.
        """
        name, evidence = rule.signature.name, rule.evidence
        patience = patience if patience is not None else Patience()
        for text in texts:
            try:
                found = patience.search(name, evidence.pattern or "", text)
                if found is None:
                    continue
                if evidence.unless and patience.search(name, evidence.unless, text):
                    return None
            except TimeoutError:
                return None
            captures = {k: v.strip() for k, v in found.groupdict().items() if v is not None}
            if any(len(v) > LONGEST_NUMBER and v.isdecimal() for v in captures.values()):
                return None
            return Match(captures)
        return None


class Patience:
    """How long searches of one file's lines may take, and how many were given up.

    A search ends after `timeout` seconds. What many slow searches may take together is bounded as well, of one
    signature and of all: behind that, only texts of usual length are searched. The bounds are far above what honest
    logs take, whose long lines are few.
    """

    def __init__(self) -> None:
        self.given_up: Counter[str] = Counter()  # signature -> searches
        self._spent: Counter[str] = Counter()  # signature -> milliseconds, in long texts
        self._all = 0.0

    def search(self, name: str, pattern: str, text: str, timeout: float = TIMEOUT) -> regex.Match[str] | None:
        """The first match of a pattern of a signature. Raises TimeoutError where the search is given up."""
        if len(text) < LONG:
            return self._search(name, pattern, text, timeout)
        if self._spent[name] >= 1000 * MOST_SECONDS or self._all >= MOST_SECONDS_OF_ALL:
            self.given_up[name] += 1
            raise TimeoutError
        started = time.perf_counter()
        try:
            return self._search(name, pattern, text, timeout)
        finally:
            took = time.perf_counter() - started
            self._spent[name] += round(1000 * took)
            self._all += took

    def _search(self, name: str, pattern: str, text: str, timeout: float) -> regex.Match[str] | None:
        try:
            return compiled(pattern).search(text, timeout=timeout)
        except TimeoutError:
            self.given_up[name] += 1
            raise

    def holds(self, name: str, expression: str, text: str) -> bool:
        """Whether a `near` expression matches anywhere in a stretch of lines."""
        try:
            return self.search(name, expression, text, 5 * TIMEOUT) is not None
        except TimeoutError:
            return False


def _announcing(expressions: Sequence[str], use_cache: bool) -> list[tuple[Literal, ...] | str]:
    """What each expression is found by: literals one of which a match must hold, or else an expression to scan for.

    Remembered between starts: the analysis takes a tenth of a second.
    """
    name = f"literals-{hashlib.sha256(repr((VERSION, expressions)).encode()).hexdigest()[:32]}.json"
    if use_cache and (data := files.load(name)):
        try:
            stored = json.loads(data)
            if len(stored) == len(expressions):
                return [
                    known if isinstance(known, str) else tuple(Literal(text, bool(ci)) for text, ci in known)
                    for known in stored
                ]
        except (ValueError, TypeError):
            pass
    needed = zip(expressions, required(expressions), strict=True)
    found = [literals if literals is not None else scan_expression(expression) for expression, literals in needed]
    if use_cache:
        table = [x if isinstance(x, str) else [[literal.text, literal.caseless] for literal in x] for x in found]
        files.store("literals", name, json.dumps(table).encode())
    return found
