from __future__ import annotations

import pytest
import regex

from forensics.engine.expressions import scan_expression
from forensics.engine.literals import WINDOW, Literal, fixed_part, required, window
from forensics.engine.matcher import Matcher
from forensics.signatures.schema import load_catalogue


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"CUDA out of memory\. Tried", {Literal("CUDA out of memory. Tried")}),
        (r"(?:Alpha one|Beta two) \d+", {Literal("Alpha one"), Literal("Beta two")}),
        (r"(?i:Bus error)\d", {Literal("Bus error", True)}),
        (r"rank (?P<rank>\d+) Watchdog caught", {Literal(" Watchdog caught")}),
        (r"(?:No space left)? on device 4", {Literal(" on device 4")}),
        (r"checkpoint", None),
        (r"\d+ \w+", None),
        (r"(?:Long literal|\d+)", None),
    ],
)
def test_required(pattern: str, literals: set[Literal] | None) -> None:
    (found,) = required([pattern])
    assert (set(found) if found else None) == literals


def test_syntax_that_only_the_regex_module_knows_is_left_alone() -> None:
    assert required([r"\p{Lu}+ (?>atomic groups)"]) in ([None], [(Literal("atomic groups"),)])


def test_no_example_of_the_catalogue_is_missed_for_want_of_a_literal() -> None:
    rules = [(s, r.pattern) for s in load_catalogue().values() for r in s.evidence if r.source == "log" and r.pattern]
    checked = 0
    for (signature, pattern), literals in zip(rules, required([p for _, p in rules]), strict=True):
        for line in (line for example in signature.examples for line in example.log.split("\n")):
            if literals and regex.search(pattern, line, regex.ASCII):
                checked += 1
                assert any(x.text.lower() in line.lower() if x.caseless else x.text in line for x in literals), (
                    pattern,
                    line,
                )
    assert checked > 300


def test_no_example_of_the_catalogue_is_missed_for_what_is_scanned_instead_of_a_rule() -> None:
    rules = [(s, r.pattern) for s in load_catalogue().values() for r in s.evidence if r.source == "log" and r.pattern]
    checked = 0
    for (signature, pattern), literals in zip(rules, required([p for _, p in rules]), strict=True):
        for line in (line for example in signature.examples for line in example.log.split("\n")):
            if not literals and regex.search(pattern, line, regex.ASCII):
                checked += 1
                assert regex.search(scan_expression(pattern), line, regex.ASCII), (pattern, line)
    assert checked > 100


def test_every_example_is_hit_wherever_it_stands() -> None:
    """hyperscan misses matches of some expressions behind the first characters of a text."""
    catalogue = load_catalogue()
    matcher = Matcher(catalogue)
    of_rule: dict[tuple[str, int], set[int]] = {}
    for id_, rules in matcher.rules_of.items():
        for rule in rules:
            of_rule.setdefault((rule.signature.name, rule.index), set()).add(id_)
    missed = []
    for signature in catalogue.values():
        lines = {line.strip("\r") for example in signature.examples for line in example.log.split("\n")}
        for n, evidence in enumerate(signature.evidence):
            if evidence.source != "log" or evidence.pattern is None:
                continue
            for line in (x for x in lines if regex.search(evidence.pattern or "", x, regex.ASCII)):
                for before in ("", "y" * 13 + "\n", "y" * 150 + "\n"):
                    hit: set[int] = set()
                    matcher.database.scan((before + line).encode(), lambda id_, *_, hit=hit: hit.add(id_))
                    if hit.isdisjoint(of_rule[signature.name, n]):
                        missed.append((signature.name, n, len(before), line))
    assert len(of_rule) > 1000 and not missed


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"\| +(?P<gpu>\d+) +[^|]{1,80}\| +(?P<bus>[0-9A-F]{8}:[0-9A-F]{4}) ", "(?P<bus>[0-9A-F]{8}:[0-9A-F]{4}) "),
        (r"(?P<gpu>\d{1,3}), (?:[^,]{1,60}, ){0,6}id=[0-9a-f]{12}(?:,|$)", "id=[0-9a-f]{12}(?:,|$)"),
        (r"GPU (?P<bus>[0-9A-F]{8}:[0-9A-F]{2})", None),  # has no other part
        (r"(?:failed|unable) to save (?:the )?checkpoint", None),  # words are not rare
        (r"\d+ a|[0-9A-F]{16}", None),  # a match need not hold it
        (r"\d+ x[0-9A-F]{0,16} [0-9A-F]{8,16}", None),
    ],
)
def test_fixed_part(pattern: str, part: str | None) -> None:
    assert fixed_part(pattern) == part


def test_windows_end_where_text_is_rare() -> None:
    assert window("short") == 0
    text = "terminated with SIGABRT in the"
    start = window(text)
    assert text[start : start + WINDOW] == "ed with SIGA"
