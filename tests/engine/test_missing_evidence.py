"""What a run already holds is not asked for; what it lacks is."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse

SAMPLES = Path(__file__).parents[2] / "sample_logs"


@pytest.mark.parametrize(
    ("sample", "held"),
    [
        ("exception-rank2", "torchrun --redirects"),
        ("parked-rank2-flight-recorder", "TORCH_FR_BUFFER_SIZE"),
        ("hung-rank0-evaluation", "py-spy dump"),
    ],
)
def test_evidence_that_is_there_is_not_asked_for(sample: str, held: str) -> None:
    diagnosis = analyse([str(SAMPLES / sample / "input")], Options(threads=1))
    assert not [item for item in diagnosis.missing_evidence if held in item.how]


def test_evidence_that_is_not_there_is_asked_for() -> None:
    diagnosis = analyse([str(SAMPLES / "sigkill-rank3" / "input")], Options(threads=1))
    assert any("dmesg" in item.how for item in diagnosis.missing_evidence)
