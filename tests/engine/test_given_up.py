"""Searches that take too long are given up, and the coverage says so."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from forensics.engine import matcher
from forensics.engine.matcher import Patience
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
    assert f"given up, {logs.MOST_GIVEN_UP} of them, for cuda-illegal-memory-access" in coverage.reason
    assert len(searched) == logs.MOST_GIVEN_UP


def test_slow_searches_in_long_texts_are_given_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 0.3)  # each search takes 0.3 s by it
    monkeypatch.setattr(matcher, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    patience = Patience()
    text = "x" * matcher.LONG
    assert [patience.holds("a", "x", text) for _ in range(6)] == [True] * 4 + [False] * 2
    assert patience.given_up == {"a": 2}
    assert patience.holds("a", "x", "x")  # a line of usual length is searched for all that
    assert patience.holds("b", "x", text)


def test_all_searches_of_a_file_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 0.9)
    monkeypatch.setattr(matcher, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    patience = Patience()
    found = [patience.holds(f"signature-{n}", "x", "x" * matcher.LONG) for n in range(20)]
    assert found == [True] * 12 + [False] * 8
