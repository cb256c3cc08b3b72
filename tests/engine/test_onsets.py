"""Where a loss that rises is said to have begun to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from tests.series import logged, seen

from forensics.engine.detectors.onsets import leaves_level

BEGINS = 201  # record; a record each ten steps


def curve(rise: Callable[[int], float], noise: float = 0.03, records: int = 400) -> list[float]:
    chance = random.Random(7)
    return [2 + 5 * math.exp(-k / 25) + rise(max(0, k - BEGINS + 1)) + chance.gauss(0, noise) for k in range(records)]


@pytest.mark.parametrize(
    ("rise", "within"),
    [
        (lambda n: 4.0 * (n > 0), 0),
        (lambda n: min(0.05 * n, 5.0), 4),
        (lambda n: 3 * (1 - math.exp(-n / 60)), 4),
        (lambda n: 0.01 * n, 10),
        (lambda n: 0.02 * (math.exp(n / 15) - 1), 30),
    ],
    ids=["step", "fast", "saturates", "creeps", "runs-away"],
)
def test_a_rise_begins_where_the_loss_leaves_its_level(rise: Callable[[int], float], within: int) -> None:
    found = seen(logged({"loss": curve(rise)}, every=10))
    assert 10 * BEGINS <= (found["loss-divergence"].step or 0) <= 10 * (BEGINS + within)


def test_noise_before_a_rise_is_none_of_it() -> None:
    chance = random.Random(1)
    level = [1 + chance.gauss(0, 0.1) for _ in range(3000)]
    assert leaves_level([*level, *[3.0] * 100], 3000, 0, 0.1) == 3000
    assert leaves_level([*level, *[3.0] * 100], 3020, 0, 0.1) == 3000


def test_a_fall_before_a_rise_is_none_of_it() -> None:
    falls = [5 - 0.01 * k for k in range(300)]
    rises = [2 + 0.05 * k for k in range(1, 60)]
    assert 298 <= leaves_level([*falls, *rises], 340, 0, 0.02) <= 310
