"""Golden diagnoses: every run of sample_logs is diagnosed as its expected.yaml says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from forensics.engine.pipeline import analyse
from forensics.model import Role

SAMPLES = Path(__file__).parent.parent / "sample_logs"
RUNS = sorted(p.parent for p in SAMPLES.glob("*/expected.yaml"))


def _truths(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


def test_there_are_samples() -> None:
    assert len(RUNS) >= 15


@pytest.mark.parametrize("run", RUNS, ids=lambda p: p.name)
def test_sample(run: Path) -> None:
    expected = yaml.safe_load((run / "expected.yaml").read_text("utf-8"))
    diagnosis = analyse([str(run / "input")])
    found = diagnosis.of_role(Role.ROOT)
    if expected["root_cause"] == "healthy":
        assert found == ()
        assert diagnosis.verdict in ("healthy", "recovered")
        return
    assert found, f"no root; verdict {diagnosis.verdict}"
    assert found[0].name in {expected["root_cause"], *expected.get("acceptable", [])}
    if "verdict" in expected:
        assert diagnosis.verdict == expected["verdict"]
    if expected.get("culprit_rank") is not None:
        assert found[0].ranks
        assert set(found[0].ranks) <= set(_truths(expected["culprit_rank"]))
    if expected.get("culprit_step") is not None:
        assert found[0].step is not None
        assert any(abs(found[0].step - s) <= 1 for s in _truths(expected["culprit_step"]))
    assert {c.path for c in diagnosis.coverage} == {
        p.relative_to(run / "input").as_posix() for p in (run / "input").rglob("*") if p.is_file()
    }
