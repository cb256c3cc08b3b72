"""A loss that is still on its way up when the record ends."""

from __future__ import annotations

import math
import random

import pytest
from tests.series import logged, seen


def learned(records: int = 400, noise: float = 0.04) -> list[float]:
    chance = random.Random(11)
    return [2.4 + 6 * math.exp(-k / 25) + chance.gauss(0, noise) for k in range(records)]


def ends(tail: list[float]) -> list[float]:
    curve = learned()
    return [*curve[: -len(tail)], *(a + b for a, b in zip(curve[-len(tail) :], tail, strict=True))]


@pytest.mark.parametrize("each", [0.3, 0.6])
@pytest.mark.parametrize("records", [12, 18])
def test_a_climb_that_the_record_ends_in(each: float, records: int) -> None:
    found = seen(logged({"loss": ends([each * (i + 1) for i in range(records)])}, every=10))
    assert set(found) == {"loss-divergence"}
    assert abs((found["loss-divergence"].step or 0) - 10 * (400 - records)) <= 10


@pytest.mark.parametrize(
    "loss",
    [
        ends([3.0, 5.0, 4.0]),  # a spike
        ends([4.0] * 12),  # other data
        ends([0.06 * i for i in range(12)]),  # little
        ends([4.0 * abs(math.sin(i)) for i in range(12)]),
        [*ends([0.5 * i for i in range(12)])[:-1], 2.4],  # came back
        [2.4 + 0.5 * (k % 15) for k in range(400)],  # added up within each epoch
        ends([0.5 * i for i in range(12)])[340:],  # too short to know its level
    ],
    ids=["spike", "step", "little", "noise", "back", "sums", "short"],
)
def test_no_climb(loss: list[float]) -> None:
    assert "loss-divergence" not in seen(logged({"loss": loss}, every=10))
