"""A loss that repeats from epoch to epoch, and those that only look as if they did."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import polars as pl
import pytest
from tests.series import logged

from forensics.engine.detectors.data_order import data_order_repeats
from forensics.engine.detectors.loss_reset import loss_reset

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


# --- an arc in each epoch -------------------------------------------------------------------------------------------


def arcs(n: int, epochs: int = 6, height: float = 2.0, kind: str = "arc", fall: float = 0.02) -> list[float]:
    """Losses of sorted data: the same arc, or ramp, in each epoch, and what looks like it."""
    rng = random.Random(7)
    shape = {
        "arc": lambda x: math.sin(math.pi * x),
        "ramp": lambda x: x,
        "mean": lambda x: 1 / (1 + 9 * x),  # a mean over the epoch so far
        "tasks": lambda x: 0.5 + 0.5 * math.sin(6 * math.pi * x),
    }.get(kind, lambda x: 0.0)
    return [
        0.5 + height * shape(i / n) * (1 - fall * k) + rng.gauss(0, 0.04 if kind != "noise" else 0.5)
        for k in range(epochs)
        for i in range(n)
    ]


def told(losses: Sequence[float], n: int, lr: Sequence[float] | None = None) -> bool:
    at = range(len(losses))
    metrics = logged({"loss": losses} if lr is None else {"loss": losses, "lr": lr})
    epochs = pl.Series([float(i // n) for i in at], dtype=pl.Float64)
    rows = 1 if lr is None else 2
    metrics = metrics.with_columns(epoch=pl.Series([e for e in epochs for _ in range(rows)], dtype=pl.Float64))
    return bool(data_order_repeats(metrics, ()))


@pytest.mark.parametrize("kind", ["arc", "ramp"])
@pytest.mark.parametrize("n", [60, 100])
def test_an_arc_in_each_epoch(kind: str, n: int) -> None:
    assert told(arcs(n, kind=kind), n)
    assert told(arcs(n, kind=kind), n, [1e-3 * (1 - i / (6 * n)) for i in range(6 * n)])


def test_curves_without_an_arc_in_each_epoch() -> None:
    n = 100
    for kind in ("mean", "tasks", "noise"):
        assert not told(arcs(n, kind=kind), n), kind
    assert not told(arcs(n, 2), n)
    assert not told(arcs(n, height=0.1), n)  # within the noise
    assert not told(arcs(n, fall=0.15), n)  # no two epochs alike
    assert not told(arcs(24), 24)  # too few records
    warm = [1e-3 * math.sin(math.pi * (i % n) / n) + 1e-6 for i in range(6 * n)]
    assert not told(arcs(n), n, warm)  # a rate that runs through a cycle in each epoch
    assert told(arcs(n), n, [1e-3] * (6 * n))


# --- blocks: data that are joined source by source ------------------------------------------------------------------


def blocks(levels: Sequence[float], n: int = 96, epochs: int = 5, fall: float = 0.1) -> list[float]:
    """Losses of sources that are gone through one after the other in each epoch, and are learned slowly."""
    rng = random.Random(13)
    return [
        0.3 + levels[i * len(levels) // n] * math.exp(-fall * k) + rng.gauss(0, 0.04)
        for k in range(epochs)
        for i in range(n)
    ]


@pytest.mark.parametrize("levels", [(1.4, 0.5), (0.5, 1.4), (1.9, 1.1, 2.4), (2.0, 2.0, 0.8)])
def test_sources_in_one_order_in_each_epoch(levels: Sequence[float]) -> None:
    assert told(blocks(levels), 96)


@pytest.mark.parametrize(
    "losses",
    [
        blocks((1.4, 0.5), epochs=2),
        blocks((1.4, *[0.5] * 23)),  # the first batches of each epoch
        blocks((1.4, 1.37, 0.5), fall=0.6),  # learned: no two epochs alike
        [1.5 - 0.25 * k + random.Random(k * 96 + i).gauss(0, 0.04) for k in range(5) for i in range(96)],  # by epochs
        [1.4 - 0.9 * (i / 96) + random.Random(k * 96 + i).gauss(0, 0.03) for k in range(5) for i in range(96)],
    ],
    ids=["short", "first", "learned", "stairs", "sawtooth"],
)
def test_falls_within_epochs_that_are_no_blocks(losses: list[float]) -> None:
    assert not told(losses, 96)


def test_sources_in_one_order_do_not_reset_the_loss() -> None:
    for seed in range(5):
        rng = random.Random(seed)
        losses = [v + rng.gauss(0, 0.04) for v in blocks((1.9, 1.1, 2.4), 120)]
        assert not loss_reset(logged({"loss": losses}), (), resumed=False)
