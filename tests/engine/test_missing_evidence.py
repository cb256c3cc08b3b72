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


SIZE = "using world size: 64, data-parallel size: 64\n"
RAISED = [
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 60, in <module>',
    '    loss = model(batch["y"])',
    "KeyError: 'y'",
]


def missing(folder: Path, text: str) -> list[str]:
    (folder / "slurm.out").write_text(text)
    return [item.what for item in analyse([str(folder)], Options(threads=1)).missing_evidence]


def test_ranks_that_labels_name_are_not_missing(tmp_path: Path) -> None:
    said = "".join(f"{r}: loaded shard {n} of 8 in {n + 0.1 * r:.1f} s\n" for n in range(4) for r in range(63))
    told = missing(tmp_path, f"0: {SIZE}" + said + "".join(f"5: {line}\n" for line in RAISED))
    assert [what for what in told if "rank" in what] == ["anything from rank 63"]


def test_lines_that_name_no_rank_say_nothing_of_who_is_missing(tmp_path: Path) -> None:
    told = missing(tmp_path, SIZE + "step 1 loss 2.5\n" * 9 + "\n".join(RAISED) + "\n")
    assert [what for what in told if "rank" in what] == ["which rank each line is of: no line or file names one"]


def test_a_scale_that_the_run_logs_is_not_asked_for(tmp_path: Path) -> None:
    scales = [2.0 ** (16 - n) if n < 17 else 0.0 for n in range(40)]
    logged = "".join(f"step {n} loss {3 - n / 100:.2f} loss_scale {scale}\n" for n, scale in enumerate(scales))
    raised = "FloatingPointError: Minimum loss scale reached (0.0001).\n"
    without = "".join(f"step {n} loss {3 - n / 100:.2f}\n" for n in range(40))
    assert "the scale over time" in missing(tmp_path, without + raised)
    assert "the scale over time" not in missing(tmp_path, logged + raised)
