"""A resumed loop that logs no global step and counts its epochs from the first one again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

RESUMES = "Resuming from checkpoint ckpt/last.pth"
NAME = "epoch-restart-on-resume"
# As programs say it besides.
SAID = (
    "resume from ckpt/last.pth",
    "2026-01-05 10:00:00 INFO Resume from checkpoint: ckpt/last.pth",
    "Resume training from ckpt/last.pth",
    "Load checkpoint ckpt/last.pth, resume training",
    "INFO:root:Checkpoint loaded from ckpt/last.pth. Resuming...",
    "=> loaded checkpoint ckpt/last.pth (epoch 15)",
    "[train] restored model+optimizer from ckpt/last.pth",
    "Restoring optimizer state from checkpoint...",
)
# What tells of no resume: settings, advice, and checkpoints that are loaded to be evaluated.
UNSAID = (
    "resume_from=None",
    "Resume from checkpoint: None",
    "Hint: resume from ckpt/last.pth",
    "To resume from ckpt/last.pth run train.py again",
    "Loaded checkpoint ckpt/best.pth (epoch 15)",
    "Loaded model weights from ckpt/last.pth",
)
Rate = Callable[[int], float]


def roots(folder: Path, *files: list[str]) -> list[str]:
    for i, lines in enumerate(files):
        (folder / f"run_{'ab'[i]}.log").write_text("\n".join(lines) + "\n")
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


def constant(epoch: int) -> float:
    return 1e-3


def halved(epoch: int) -> float:
    return 1e-3 * 0.5 ** (epoch // 4)


def epochs(first: int, last: int, trained: int = 0, rate: Rate | None = None) -> list[str]:
    """A line an epoch; trained: epochs that the weights had seen beforehand."""
    told = [(e, f" - lr: {rate(e):.2e}" if rate else "") for e in range(first, last)]
    return [f"Epoch {e}/40 - train_loss: {0.2 + 2 * 0.8 ** (e + trained):.4f}{lr}" for e, lr in told]


def batches(first: int, last: int, trained: int = 0) -> list[str]:
    return [
        f"Epoch [{e}/30] Step [{s}/500] loss: {0.2 + 2 * 0.8 ** (e + trained + s / 500):.4f}"
        for e in range(first, last)
        for s in range(0, 500, 100)
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [*epochs(1, 16), RESUMES, *epochs(1, 5, 15)],
        [*epochs(1, 16), "Loaded checkpoint from ckpt/last.pth, resuming training", *epochs(1, 5, 15)],
        [*epochs(1, 16, 0, constant), RESUMES, *epochs(1, 5, 15, constant)],
        [*epochs(1, 16, 0, halved), RESUMES, *epochs(1, 5, 15, halved)],  # the schedule began anew as well
        [*epochs(1, 16, 0, halved), RESUMES, *epochs(1, 5, 15, lambda e: halved(15))],
        [*batches(0, 14), "=> resuming from ckpt/last.pt", *batches(0, 3, 14)],
        ["Resume training from epoch 16", *epochs(1, 5, 15)],
        [f"{RESUMES} (epoch 15)", *epochs(1, 5, 15)],
        *([*epochs(1, 16), said, *epochs(1, 5, 15)] for said in SAID),
    ],
)
def test_the_first_epoch_again(tmp_path: Path, lines: list[str]) -> None:
    assert roots(tmp_path, lines) == [NAME]


def test_the_record_before_in_a_file_of_its_own(tmp_path: Path) -> None:
    assert roots(tmp_path, epochs(1, 16), [RESUMES, *epochs(1, 5, 15)]) == [NAME]


@pytest.mark.parametrize(
    "lines",
    [
        [*epochs(1, 16), RESUMES, *epochs(16, 21)],
        [*epochs(1, 16), *epochs(1, 5, 15)],  # nothing says that it resumes
        [*epochs(1, 16), "Resuming from stage 1 weights ckpt/last.pth", *epochs(1, 5, 15)],
        [*epochs(1, 16), RESUMES, *epochs(1, 16)],  # a fold: other weights
        [*epochs(1, 16, 0, constant), RESUMES, *epochs(1, 5, 15, lambda e: 1e-5)],  # another rate: a later stage
        [*epochs(1, 3), RESUMES, *epochs(1, 5, 2)],
        [*batches(0, 14), RESUMES, *batches(14, 17)],
        ["Resume training from epoch 1", *epochs(0, 5, 1)],  # one counts from 0, the other from 1
        *([*epochs(1, 16), said, *epochs(1, 5, 15)] for said in UNSAID),
        # Fine-tuning, of which the epoch is another run's
        ["=> loaded checkpoint 'run/model.pth.tar' (epoch 45)", *epochs(0, 5, 10)],
        [*epochs(1, 16), "=> loaded checkpoint 'run/model.pth.tar' (epoch 45)", *epochs(1, 16)],
        ["Resuming from pretrained/epoch=50.ckpt", *epochs(0, 5, 10)],  # the name of another run's file
    ],
)
def test_what_is_none(tmp_path: Path, lines: list[str]) -> None:
    assert roots(tmp_path, lines) == []
