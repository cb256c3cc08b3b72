"""Counts of an epoch's samples are no steps: the report says the epoch, and how many samples of it were seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.engine.sample_counts import are_samples
from forensics.model import Diagnosis, Role, Verdict

RAISED = "Traceback (most recent call last):\n  File \"/app/main.py\", line 50, in train\n    x\nKeyError: 'image'\n"
CLIP = (
    "2026-10-10,10:0{e}:{b:02d} | INFO | Train Epoch: {e} [{n:>8}/10000384 ({p}%)] Data (t): 0.123 Batch (t): 0.567, "
    "1234.5/s, 154.3/s/gpu LR: 0.000123 Logit Scale: 14.286 Contrastive_loss: {loss:.4f} (5.1)\n"
)
MNIST = "Train Epoch: {e} [{n}/{total} ({p}%)]\tLoss: {loss:.6f}\n"


def log(line: str, stride: int, total: int) -> str:
    return "".join(
        line.format(e=e, b=b, n=b * stride, total=total, p=100 * b * stride // total, loss=3 - e - b / 20)
        for e in (1, 2)
        for b in range(15)
    )


def diagnosed(folder: Path, text: str) -> Diagnosis:
    (folder / "train.log").write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize(
    ("line", "stride", "total"), [(MNIST, 640, 60000), (MNIST, 1000, 50000), (CLIP, 51200, 10000384)]
)
def test_samples_are_called_samples(tmp_path: Path, line: str, stride: int, total: int) -> None:
    text = log(line, stride, total)
    found = diagnosed(tmp_path, text)
    assert found.verdict is Verdict.HEALTHY and f"{14 * stride:,} samples of epoch 2" in found.summary
    found = diagnosed(tmp_path, text + RAISED)
    (first,) = found.of_role(Role.ROOT)
    assert (first.step_unit, first.epoch) == ("sample", 2.0)
    assert f"after {14 * stride:,} samples of epoch 2" in found.summary


def test_an_index_of_batches_is_none_of_samples(tmp_path: Path) -> None:
    (first,) = diagnosed(tmp_path, log(MNIST, 10, 938) + RAISED).of_role(Role.ROOT)
    assert (first.step, first.step_unit, first.epoch) == (140, "batch", 2.0)


@pytest.mark.parametrize(
    ("counts", "total", "samples"),
    [
        ([0, 640, 1280], 60000, True),
        ([0, 3200, 6400], 60000, True),
        ([0, 1000, 2000], 50000, True),
        ([0, 100, 200], 10009, False),
        ([0, 10, 20], 938, False),
        ([0, 50, 100, 150], 1563, False),
        ([], 10, False),
        ([0, 100, 200], 5000, False),
        ([0, 64, 128], 1875, False),
    ],
)
def test_what_numbers_tell(counts: list[int], total: int, samples: bool) -> None:
    assert are_samples(counts, total) is samples
