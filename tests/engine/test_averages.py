"""Metrics of averaged weights that are thrown back in the middle of a run, beside those of the raw weights."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest
from tests.series import logged, seen

NAME = "ema-lost-on-resume"
N, AT = 40, 20


def noisy(values: Sequence[float], size: float = 0.004) -> list[float]:
    rng = random.Random(11)
    return [v + rng.gauss(0, size) for v in values]


def learning(high: float, low: float) -> list[float]:
    return noisy([low + (high - low) * 0.9**k for k in range(N)])


def thrown(values: Sequence[float], back: Callable[[int], float]) -> list[float]:
    """The average, further from where it was by back(records since) from AT on."""
    return [v + (back(k - AT) if k >= AT else 0.0) for k, v in enumerate(values)]


def filling(size: float) -> Callable[[int], float]:
    return lambda since: size * 0.7**since


@pytest.mark.parametrize(
    ("averaged", "raw", "values", "size"),
    [
        ("ema_val_loss", "val_loss", learning(4.0, 0.8), 5.0),
        ("val/loss_ema", "eval_loss", learning(4.0, 0.8), 5.0),
        ("val/cross_entropy_ema", "val/cross_entropy", learning(4.0, 0.8), 5.0),
        ("val_acc_ema", "val_acc", learning(0.2, 0.85), -0.8),
        ("val/face_mAP_ema", "val/face_mAP", learning(0.2, 0.85), -0.8),
    ],
)
def test_an_average_that_is_thrown_back(averaged: str, raw: str, values: list[float], size: float) -> None:
    average = noisy([v + 0.01 for v in values])
    assert NAME not in seen(logged({averaged: average, raw: values}))
    found = seen(logged({averaged: thrown(average, filling(size)), raw: values}))
    assert set(found) == {NAME}
    assert found[NAME].step == AT


@pytest.mark.parametrize(
    ("average", "raw"),
    [
        pytest.param(filling(5.0), filling(5.0), id="both: the weights are lost"),
        pytest.param(lambda since: 5.0 if since == 0 else 0.0, lambda since: 0.0, id="one evaluation"),
        pytest.param(lambda since: 5.0 if since in (0, 1) else 2.5 * (since == 2), lambda since: 0.0, id="no filling"),
        pytest.param(lambda since: 0.02, lambda since: 0.0, id="noise"),
        pytest.param(lambda since: -0.3, lambda since: 0.0, id="better"),
        pytest.param(lambda since: 0.05 * since, lambda since: 0.0, id="drifts away"),
    ],
)
def test_what_is_no_average_begun_anew(average: Callable[[int], float], raw: Callable[[int], float]) -> None:
    values = learning(4.0, 0.8)
    metrics = {"ema_val_loss": thrown(noisy([v + 0.01 for v in values]), average), "val_loss": thrown(values, raw)}
    assert NAME not in seen(logged(metrics))


def test_an_average_lags_behind_at_the_start_of_training() -> None:
    raw = learning(4.0, 0.8)
    average = list(itertools.accumulate(raw, lambda a, v: 0.8 * a + 0.2 * v, initial=6.9))[1:]
    assert NAME not in seen(logged({"ema_val_loss": average, "val_loss": raw}))
