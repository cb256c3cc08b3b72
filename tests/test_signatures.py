"""Every signature's own examples and confusers, run through the real scan, log parser and cause analysis."""

from __future__ import annotations

import pytest

from forensics.signatures.check import Bench, check_signature
from forensics.signatures.schema import load_catalogue

BENCH = Bench(load_catalogue())


@pytest.mark.parametrize("name", sorted(BENCH.catalogue))
def test_examples(name: str) -> None:
    assert check_signature(BENCH.catalogue[name], BENCH) == []
