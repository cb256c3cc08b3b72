"""Preference tuning that does not move, by its loss, margins and accuracies."""

from __future__ import annotations

import math
import random

import pytest
from tests.series import Series, logged, seen


def tuning(n: int = 120, margin: float = 0.0, noise: float = 5e-4, late: float = 0.0) -> dict[str, list[float]]:
    """n records of DPO whose margin grows to `margin`, from a part `late` of them on."""
    draw = random.Random(9)
    margins = [margin * max(0.0, i / n - late) / (1 - late) + draw.gauss(0, noise) for i in range(n)]
    return {
        "loss": [math.log1p(math.exp(-m)) + draw.gauss(0, 3e-4) for m in margins],
        "margin": margins,
        "accuracy": [min(1.0, 0.5 + 0.4 * math.tanh(2 * max(m, 0)) + draw.gauss(0, 0.02)) for m in margins],
        "lr": [5e-9 * (1 - i / n) for i in range(n)],
    }


def test_jitter_about_ln_2_all_along() -> None:
    found = seen(logged(tuning(), every=10))
    assert set(found) == {"learning-rate-too-low"}
    assert "without a trend in 120 records" in (found["learning-rate-too-low"].note or "")


def still(value: float) -> Series:
    return {**tuning(), "accuracy": [value] * 120}


@pytest.mark.parametrize(
    "series",
    [
        tuning(margin=0.5),
        tuning(margin=0.4, late=0.5),  # it begins late
        tuning(margin=0.008, noise=1e-3),  # slow, and sure
        tuning(60),  # too short to tell
        {**tuning(), "lr": [5e-9 * i / 120 for i in range(120)]},  # a warm-up
        still(0.8),  # it tells the pairs apart
        {**tuning(), "loss": [0.55] * 120},  # another loss
    ],
    ids=["learns", "late", "slow", "short", "warm-up", "accurate", "loss"],
)
def test_tuning_that_moves_or_may_yet(series: Series) -> None:
    assert "learning-rate-too-low" not in seen(logged(series, every=10))
