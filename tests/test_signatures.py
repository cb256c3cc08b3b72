"""Every signature's own examples and confusers, run through the real scan, log parser and cause analysis."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.signatures.check import Bench, check_signature, observe_text
from forensics.signatures.schema import BUILT_IN, INDEX, load_catalogue, parse, signature_files

BENCH = Bench(load_catalogue())


@pytest.mark.parametrize("name", sorted(BENCH.catalogue))
def test_examples(name: str) -> None:
    assert check_signature(BENCH.catalogue[name], BENCH) == []


def test_an_example_that_a_detector_may_see_is_left_to_the_whole_catalogue() -> None:
    text = """
name = "curve-gone"
title = "The curve is gone"
kind = "cause"
severity = "error"
why = "It is."
fix = ["Look."]
confirm = ["more :: less"]
[[evidence]]
source = "log"
pattern = "our-trainer: the curve is gone"
weight = 0.9
[[evidence]]
source = "metrics"
detector = "nan_loss"
weight = 0.9
[[example]]
log = "our-trainer: the curve is gone"
[[example]]
log = "our-trainer: all is well"
"""
    signature = parse(text, "ours", "curve-gone.toml")
    assert check_signature(signature, None) == []
    told = check_signature(signature, Bench(BENCH.catalogue | {"curve-gone": signature}))
    assert told == ["curve-gone: example 2 does not match: 'our-trainer: all is well'"]


def test_the_index_of_the_built_in_signatures_is_none_of_them() -> None:
    files = signature_files(BUILT_IN)
    assert INDEX.is_file() and INDEX not in files
    assert {file.stem for file in files} == set(BENCH.catalogue)
    assert set(load_catalogue(BUILT_IN)) == set(BENCH.catalogue)


def test_an_own_signature_may_be_called_index(tmp_path: Path) -> None:
    (tmp_path / "index.toml").touch()
    assert signature_files(tmp_path) == [tmp_path / "index.toml"]


def test_lines_are_found_wherever_they_stand() -> None:
    """An anchor is of the cleaned line, and not of the beginning of a file."""
    missed = []
    for signature in BENCH.catalogue.values():
        for example in signature.examples:
            alone, below = (
                {o.signature for o in observe_text(before + example.log.lstrip("\n"), BENCH.matcher, BENCH.folder)}
                for before in ("", "another line\n")
            )
            if signature.name in alone - below:
                missed.append((signature.name, example.log))
    assert missed == []
