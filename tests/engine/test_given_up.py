"""Searches that take too long are given up, and the coverage says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine import matcher
from forensics.engine.pipeline import Options, analyse
from forensics.model import Status
from forensics.parsers import logs
from forensics.signatures.schema import load_catalogue


def test_given_up_searches_are_said_once_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    class Slow:
        def search(self, text: str, timeout: float) -> None:
            searched.append(text)
            raise TimeoutError

    monkeypatch.setattr(matcher, "compiled", lambda pattern: Slow())
    lines = [f"RuntimeError: CUDA error: an illegal memory access was encountered {n}" for n in range(50)]
    (tmp_path / "train.log").write_text("\n".join(lines))
    catalogue = {"cuda-illegal-memory-access": load_catalogue()["cuda-illegal-memory-access"]}
    (coverage,) = analyse([str(tmp_path)], Options(), catalogue).coverage
    assert coverage.status is Status.PARTIAL and coverage.reason is not None
    assert f"in {logs.MOST_GIVEN_UP} lines, for cuda-illegal-memory-access" in coverage.reason
    assert len(searched) == logs.MOST_GIVEN_UP
