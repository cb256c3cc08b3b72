"""Every signature's own examples, run through the real scan and log parser."""

from __future__ import annotations

import pytest

from forensics.signatures.check import check_signature
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_examples(name: str) -> None:
    assert check_signature(CATALOGUE[name]) == []
