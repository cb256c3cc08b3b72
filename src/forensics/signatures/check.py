"""Lint a signature and run its examples: what `forensics signatures test` and the test suite do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import regex

from forensics.engine.matcher import Matcher, compiled
from forensics.engine.scan import scan_span
from forensics.model import Kind, Observation, Source
from forensics.parsers.logs import read_log
from forensics.signatures.schema import Signature, SignatureError

REFERENCE = 1_767_225_600.0  # 2026-01-01: dates without a year in examples are put before it


def observe_text(text: str, matcher: Matcher) -> tuple[Observation, ...]:
    """The observations that a log with this text yields."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "example.log")
        file.write_text(text, "utf-8", "surrogateescape", newline="")
        size = file.stat().st_size
        source = Source("example.log", file, Kind.LOG, size)
        scan = scan_span(matcher.database, file, 0, size)
        return read_log(source, scan, matcher, reference=REFERENCE).observations


def check_signature(signature: Signature) -> list[str]:
    """What is wrong with a signature, a line each; empty if nothing is."""
    problems = []
    patterns = [rule.pattern for rule in signature.evidence if rule.source == "log" and rule.pattern]
    for pattern in patterns:
        if pattern.endswith((".*", ".+", ".*?")):
            problems.append(
                f"{signature.name}: a pattern must not end in {pattern[-3:]!r}: every byte would be a match end"
            )
        for part in (pattern, *(r.unless for r in signature.evidence if r.unless)):
            try:
                compiled(part)
            except regex.error as error:
                problems.append(f"{signature.name}: {part!r}: {error}")
    if not signature.evidence or problems:
        return problems
    try:
        matcher = Matcher({signature.name: signature}, use_cache=False)
    except SignatureError as error:
        return [*problems, f"{signature.name}: {error}"]
    if patterns and not any(not e.is_not for e in signature.examples):
        problems.append(f"{signature.name}: no positive example")
    if patterns and signature.kind != "milestone" and not any(e.is_not for e in signature.examples):
        problems.append(f"{signature.name}: no near-miss (is_not = true)")
    for n, example in enumerate(signature.examples, 1):
        seen = [o for o in observe_text(example.log, matcher) if o.signature == signature.name]
        if example.is_not and seen:
            problems.append(f"{signature.name}: example {n} must not match: {example.log[:100]!r}")
        if not example.is_not and not seen:
            problems.append(f"{signature.name}: example {n} does not match: {example.log[:100]!r}")
        for key, value in example.captures.items():
            got = [o.captures.get(key) for o in seen]
            if value not in got:
                problems.append(f"{signature.name}: example {n}: {key} should be {value!r}, got {got}")
    return problems
