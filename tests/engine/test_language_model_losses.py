"""A language model's loss that is lost for good, and rises of such a loss that are none."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse


def log(folder: Path, later: float, *, back: bool = False) -> Path:
    """4,000 steps from ln 50257 down to 2.3; from step 2,500 on at a level of `later`, or back from there."""
    draw = random.Random(7)
    lines = []
    for step in range(0, 4000, 10):
        loss = 2.2 + 8.6 * math.exp(-step / 500)
        if step >= 2500:
            gone = min((step - 2500) / 300, 1.0)
            loss += (later - loss) * (gone if not back or step < 2900 else max(0.0, 1 - (step - 2900) / 300))
        lines.append(f"step {step} | loss {loss + draw.gauss(0, 0.03):.4f} | lr 3e-4 | grad_norm 0.4\n")
    (folder / "train.log").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("later", [5.2, 6.4, 7.6])
def test_a_loss_that_stays_at_the_level_of_an_untrained_model_is_lost(tmp_path: Path, later: float) -> None:
    found = analyse([str(log(tmp_path, later))], Options(threads=1))
    assert found.verdict == "diverged" and found.findings[0].name == "loss-divergence"
    assert 2490 <= (found.findings[0].step or 0) <= 2700


@pytest.mark.parametrize("later", [2.6, 3.2, 3.6])
def test_other_data_raise_it_a_little(tmp_path: Path, later: float) -> None:
    assert analyse([str(log(tmp_path, later))], Options(threads=1)).verdict == "healthy"


def test_a_loss_that_comes_back_is_not_lost(tmp_path: Path) -> None:
    assert analyse([str(log(tmp_path, 5.2, back=True))], Options(threads=1)).verdict != "diverged"


def early(folder: Path, later: float, *, wanders: float = 0.0) -> Path:
    """From ln 50257 down to 4.4 in 60 records, and then for 90 at a level of `later`."""
    draw = random.Random(7)
    lines = []
    for i in range(150):
        loss = 2.2 + 8.7 * math.exp(-i / 42) + wanders * math.sin(i / 4)
        if i >= 60:
            loss += (later - loss) * min((i - 60) / 15, 1.0)
        lines.append(f"iter {10 * i}: loss {loss + draw.gauss(0, 0.05):.4f}, time 212ms, mfu 38.11%\n")
    (folder / "train.log").write_text("".join(lines))
    return folder


def test_a_loss_that_is_lost_while_it_still_falls_steeply(tmp_path: Path) -> None:
    found = analyse([str(early(tmp_path, 7.6))], Options(threads=1))
    assert found.verdict == "diverged" and found.findings[0].name == "loss-divergence"
    assert 590 <= (found.findings[0].step or 0) <= 650


@pytest.mark.parametrize(("later", "wanders"), [(5.2, 0.0), (6.6, 1.2)])
def test_a_small_rise_after_a_steep_fall_or_one_of_a_curve_that_wanders_as_far(
    tmp_path: Path, later: float, wanders: float
) -> None:
    assert analyse([str(early(tmp_path, later, wanders=wanders))], Options(threads=1)).verdict == "healthy"
