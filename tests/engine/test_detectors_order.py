"""A loss that repeats from epoch to epoch, and those that only look as if they did."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import polars as pl
import pytest
from tests.series import logged

from forensics.engine.detectors.data_order import data_order_repeats

EPOCHS = 4


def frame(losses: Sequence[float], epochs: Sequence[float | None], steps: Sequence[int]) -> pl.DataFrame:
    return logged({"loss": losses}).with_columns(
        epoch=pl.Series(epochs, dtype=pl.Float64), step=pl.Series(steps, dtype=pl.Int64)
    )


def curve(kind: str, n: int, epochs: int = EPOCHS) -> list[float]:
    rng = random.Random(n)
    batches = [rng.gauss(0, 0.1) for _ in range(n)]
    made = []
    for k in range(epochs):
        order = batches if kind == "repeats" else rng.sample(batches, n)
        for i in range(n):
            level = 1.5 * math.exp(-0.002 * (k * n + i)) + 0.6 + rng.gauss(0, 0.005)
            level += {"tasks": 0.2 * (0, 1, 3, 0.5, 2)[i % 5], "saw": -0.3 * i / n}.get(kind, order[i])
            made.append(round(level, 4))
    return made


@pytest.mark.parametrize("n", [40, 100])
@pytest.mark.parametrize("told", ["whole", "parts"])
def test_batches_that_come_in_one_order(n: int, told: str) -> None:
    at = range(EPOCHS * n)
    epochs = {"whole": [float(i // n) for i in at], "parts": [round((i + 1) / n, 4) for i in at]}[told]
    (sign,) = data_order_repeats(frame(curve("repeats", n), epochs, list(at)), ())
    assert sign.note is not None and f"epochs of {n} records" in sign.note and sign.culprits == ()


@pytest.mark.parametrize("kind", ["shuffled", "tasks", "saw"])
@pytest.mark.parametrize("n", [40, 100])
def test_what_only_looks_so(kind: str, n: int) -> None:
    at = range(EPOCHS * n)
    assert not data_order_repeats(frame(curve(kind, n), [float(i // n) for i in at], list(at)), ())


def test_two_epochs_or_uneven_ones_prove_nothing() -> None:
    n = 40
    at = range(2 * n)
    assert not data_order_repeats(frame(curve("repeats", n, 2), [float(i // n) for i in at], list(at)), ())
    at = range(EPOCHS * n)  # the epochs of the record are not those of the data
    assert not data_order_repeats(frame(curve("repeats", n), [float(i // 33) for i in at], list(at)), ())
    assert not data_order_repeats(frame([0.5] * len(at), [float(i // n) for i in at], list(at)), ())


def test_the_same_run_three_times_is_no_epoch() -> None:
    n = 40
    at = range(3 * n)
    losses = curve("shuffled", n, 1) * 3
    assert not data_order_repeats(frame(losses, [None] * len(at), [i % n for i in at]), ())
    assert not data_order_repeats(frame(losses, [(i % n) / 10 for i in at], [i % n for i in at]), ())


def test_a_loss_rounded_to_nothing_is_not_compared() -> None:
    n = 40
    rounded = [round(v, 1) for v in curve("repeats", n)]
    assert not data_order_repeats(frame(rounded, [float(i // n) for i in range(EPOCHS * n)], range(EPOCHS * n)), ())
