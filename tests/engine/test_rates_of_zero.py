"""Learning rates of exactly 0, from the start or from some step on, and those that are only printed so."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse


def losses(n: int, still: bool = True) -> list[float]:
    draw = random.Random(3)
    return [3.2 + draw.gauss(0, 0.04) - (0 if still else i / n) for i in range(n)]


def roots(folder: Path, lines: list[str]) -> list[str]:
    (folder / "train.log").write_text("***** Running training *****\n" + "".join(f"{line}\n" for line in lines))
    return [f.name for f in analyse([str(folder)], Options(threads=1)).findings if f.role.value == "root"]


def trainer(rates: list[str], *, still: bool = True) -> list[str]:
    """Records of HF Trainer with these texts for the rate."""
    n = len(rates)
    each = zip(rates, losses(n, still), strict=True)
    return [
        f"{{'loss': {v:.4f}, 'grad_norm': {7 + i % 5 / 10}, 'learning_rate': {rate}, 'epoch': {2 * (i + 1) / n:.3f}}}"
        for i, (rate, v) in enumerate(each)
    ]


@pytest.mark.parametrize("zero", ["0.0", "'0'"])
def test_a_rate_of_zero_in_every_record(tmp_path: Path, zero: str) -> None:
    assert roots(tmp_path, trainer([zero] * 120)) == ["weights-not-updated"]


def test_a_rate_of_zero_with_an_exponent(tmp_path: Path) -> None:
    rows = enumerate(losses(120))
    lines = [f"step: {20 * i} | loss: {v:.4f} | grad_norm: {1 + i % 7 / 10:.2f} | lr: 0.000e+00" for i, v in rows]
    assert roots(tmp_path, lines) == ["weights-not-updated"]


def test_a_rate_that_is_rounded_may_be_any(tmp_path: Path) -> None:
    rows = enumerate(losses(120))
    lines = [f"step: {20 * i} | loss: {v:.4f} | grad_norm: {1 + i % 7 / 10:.2f} | lr: 0.0000" for i, v in rows]
    assert roots(tmp_path, lines) == []


def test_a_loss_that_falls_shows_another_rate(tmp_path: Path) -> None:
    assert roots(tmp_path, trainer(["0.0"] * 120, still=False)) == []


def decayed(n: int, at: int) -> list[str]:
    return [repr(max(0.0, round(2e-5 * (1 - (i + 1) / at), 12))) for i in range(n)]


def test_a_schedule_that_is_over_before_the_training(tmp_path: Path) -> None:
    assert roots(tmp_path, trainer(decayed(160, 80))) == ["updates-ended-early"]


def test_a_schedule_that_ends_with_the_training(tmp_path: Path) -> None:
    assert roots(tmp_path, trainer(decayed(160, 159))) == []


def test_the_loss_goes_on_falling_so_that_something_is_updated(tmp_path: Path) -> None:
    assert roots(tmp_path, trainer(decayed(160, 80), still=False)) == []


def test_rounded_rates_that_fade_away(tmp_path: Path) -> None:
    """A rate of 4e-4 that halves every ten records is printed as 0.0000 from 5e-5 on."""
    rows = enumerate(losses(160))
    lines = [
        f"step: {20 * i} | loss: {v:.4f} | grad_norm: {1 + i % 7 / 10:.2f} | lr: {4e-4 * math.exp2(-i / 10):.4f}"
        for i, v in rows
    ]
    assert roots(tmp_path, lines) == []
