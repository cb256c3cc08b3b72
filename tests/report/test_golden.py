"""Whole documents, byte for byte.

After an intended change: FORENSICS_BLESS=1 pytest tests/report, and read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import ALL

from forensics.model import Diagnosis
from forensics.report import github, jsonreport, junit, markdown, sarif, terminal
from forensics.report.redaction import redact_diagnosis

GOLDEN = Path(__file__).parent.parent / "data" / "report"
FORMATS: dict[str, Callable[[Diagnosis], str]] = {
    "40.txt": lambda diagnosis: terminal.render(diagnosis, width=40, colour=False),
    "60.txt": lambda diagnosis: terminal.render(diagnosis, width=60, colour=False),
    "100.txt": lambda diagnosis: terminal.render(diagnosis, width=100, colour=False),
    "200.txt": lambda diagnosis: terminal.render(diagnosis, width=200, colour=False),
    "md": lambda diagnosis: markdown.render(redact_diagnosis(diagnosis)),
    "github.md": lambda diagnosis: github.render(redact_diagnosis(diagnosis)),
    "xml": lambda diagnosis: junit.render(redact_diagnosis(diagnosis)),
    "sarif": lambda diagnosis: sarif.render(redact_diagnosis(diagnosis)),
    "json": jsonreport.render,
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ALL)
def test_the_document_is_as_it_was(name: str, form: str) -> None:
    text = FORMATS[form](ALL[name])
    path = GOLDEN / f"{name}.{form}"
    if os.environ.get("FORENSICS_BLESS"):
        path.write_bytes(text.encode("utf-8"))
    assert text == path.read_bytes().decode("utf-8")
