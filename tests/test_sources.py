"""Checks of training code: each reports the marked lines of the bad programs and nothing else, and the good ones none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.signatures.schema import load_catalogue
from forensics.sources.checks import REGISTRY
from forensics.sources.rules import RULES
from forensics.sources.run import run_checks
from forensics.sources.walk import parse

DATA = Path(__file__).parent / "data" / "sources"
BAD = sorted((DATA / "bad").glob("*.py"))
GOOD = sorted((DATA / "good").glob("*.py"))
MARK = re.compile(r"# HIT ([\w, ]+)$")


def _found(file: Path) -> set[tuple[int, str]]:
    hits, faults = run_checks([parse(file.read_bytes(), file.name)])
    assert not faults
    return {(hit.evidence[0].line or 0, hit.check) for hit in hits}


def _marked(file: Path) -> set[tuple[int, str]]:
    return {
        (number, name.strip())
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if (mark := MARK.search(line))
        for name in mark[1].split(",")
    }


@pytest.mark.parametrize("file", BAD, ids=lambda f: f.stem)
def test_what_is_wrong_is_found_at_its_line(file: Path) -> None:
    assert _marked(file)
    assert _found(file) == _marked(file)


@pytest.mark.parametrize("file", GOOD, ids=lambda f: f.stem)
def test_good_code_is_left_alone(file: Path) -> None:
    assert _found(file) == set()


def test_every_check_has_a_program_that_shows_it() -> None:
    shown = {name for file in BAD for _, name in _marked(file)}
    assert shown == set(REGISTRY)


def test_every_check_has_a_rule_and_every_rule_an_entry_of_the_catalogue() -> None:
    catalogue = load_catalogue()
    assert set(RULES) == set(REGISTRY)
    for rule in RULES.values():
        assert {rule.signature, *rule.supports, *rule.at_place} <= set(catalogue)


def test_every_check_says_what_it_looks_for() -> None:
    assert all(check.__doc__ and len(check.__doc__) > 40 for check in REGISTRY.values())
