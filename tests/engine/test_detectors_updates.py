"""Detectors of updates that are too small or too large, of resumes, and of series that are logged to watch for one fault."""

from __future__ import annotations

import math
import random

import pytest
from tests.series import events, seen

from forensics.engine.detectors import dynamics


def noisy(n: int, start: float, end: float, noise: float = 0.03, seed: int = 3) -> list[float]:
    rng = random.Random(seed)
    return [end + (start - end) * math.exp(-3 * i / n) + rng.gauss(0, noise) for i in range(n)]


# --- the size of updates --------------------------------------------------------------------------------------------


def test_updates_that_add_up_to_nothing() -> None:
    sign = seen(events({"loss": noisy(250, 7.2, 6.6, 0.4), "update_ratio": [3e-6] * 250, "lr": [1e-5] * 250}))
    assert set(sign) == {"learning-rate-too-low"}
    assert (
        sign["learning-rate-too-low"].note is not None
        and "less than one healthy step" in sign["learning-rate-too-low"].note
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": noisy(250, 7.2, 3.0, 0.1)},  # it learns
        {"update_ratio": [1e-3] * 250},  # ordinary steps
        {"lr": [1e-8 * (i + 1) for i in range(250)]},  # a warm-up
    ],
    ids=["learns", "ordinary", "warm-up"],
)
def test_small_updates_that_are_no_fault(changed: dict[str, list[float]]) -> None:
    base = {"loss": noisy(250, 7.2, 6.6, 0.4), "update_ratio": [3e-6] * 250, "lr": [1e-5] * 250}
    assert not seen(events(base | changed))


def test_the_end_of_a_run_may_have_small_updates() -> None:
    base = {"loss": [2.0] * 250, "update_ratio": [3e-6] * 250, "lr": [1e-5] * 250}
    assert not dynamics.weights_hardly_move(events(base, first=90_000), ())
    assert dynamics.weights_hardly_move(events(base, first=1), ())


def test_updates_that_jump_about() -> None:
    ratio = [0.05 + 0.02 * math.sin(i) for i in range(80)]
    found = seen(events({"loss": noisy(80, 2.3, 2.2, 0.1), "update_ratio": ratio, "grad_norm": [0.5] * 80}))
    assert set(found) == {"learning-rate-too-high"}


@pytest.mark.parametrize(("loss", "ratio"), [(noisy(80, 2.3, 0.4), 0.05), (noisy(80, 2.3, 2.2, 0.1), 0.01)])
def test_large_updates_of_a_net_that_learns(loss: list[float], ratio: float) -> None:
    assert not seen(events({"loss": loss, "update_ratio": [ratio] * 80}))


def test_large_updates_of_one_tensor_or_late_in_the_run() -> None:
    loss = noisy(80, 2.3, 2.2, 0.1)
    assert not seen(events({"loss": loss, "update_ratio/head.bias": [0.3] * 80}))
    assert not seen(events({"loss": loss, "update_ratio": [0.05] * 80}, first=5_000))


@pytest.mark.parametrize(("first", "every", "told"), [(0, 1, True), (10, 10, True), (5_000, 10, False)])
def test_gradients_that_vanish(first: int, every: int, told: bool) -> None:
    series = {"loss": noisy(150, 2.30, 2.30, 0.01), "grad_norm": [3e-8] * 150, "lr": [1e-3] * 150}
    found = seen(events(series, first=first, every=every))
    assert set(found) == ({"vanishing-gradients"} if told else set())


def test_fewer_records_of_vanished_gradients_do_over_many_steps() -> None:
    series = {"loss": noisy(60, 2.30, 2.30, 0.01), "grad_norm": [3e-8] * 60, "lr": [1e-3] * 60}
    assert set(seen(events(series, every=50))) == {"vanishing-gradients"}
    assert "vanishing-gradients" not in seen(events(series))


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": noisy(150, 2.3, 0.5)},
        {"loss": [1e-4] * 150},  # the task is solved
        {"grad_norm": [3e-3] * 150},
        {"grad_norm": [0.0] * 150},  # no gradients at all: another fault
    ],
    ids=["learns", "solved", "ordinary", "zero"],
)
def test_small_gradients_that_are_no_fault(changed: dict[str, list[float]]) -> None:
    base = {"loss": noisy(150, 2.30, 2.30, 0.01), "grad_norm": [3e-8] * 150, "lr": [1e-3] * 150}
    assert "vanishing-gradients" not in seen(events(base | changed))


# --- divergence under a rate that only grows ------------------------------------------------------------------------


def ramp(n: int) -> list[float]:
    return [1e-3 * 1.045**i for i in range(n)]


def test_a_rate_that_grows_on_after_the_loss_is_lost_is_no_search() -> None:
    loss = [*noisy(120, 2.3, 1.8), *[2.0 * 1.3**i for i in range(30)], *[math.nan] * 60]
    assert set(seen(events({"loss": loss, "lr": ramp(len(loss))}))) == {"loss-divergence"}


def test_a_search_that_stops_where_the_loss_is_lost() -> None:
    loss = [*noisy(160, 2.3, 1.8), *[2.0 * 1.3**i for i in range(8)], math.nan, math.nan]
    assert "loss-divergence" not in seen(events({"loss": loss, "lr": ramp(len(loss))}))


# --- resumes --------------------------------------------------------------------------------------------------------


def test_an_optimizer_that_was_built_anew() -> None:
    rate = [2e-4, *[5e-3 * (1 - i / 200) for i in range(150)]]
    found = seen(events({"loss": noisy(151, 0.2, 0.1), "lr": rate}, first=200))
    assert set(found) == {"optimizer-not-restored"}
    assert found["optimizer-not-restored"].step == 200


@pytest.mark.parametrize(
    ("rate", "first"),
    [
        ([5e-3 * (1 - i / 200) for i in range(151)], 200),  # it goes on smoothly
        ([2e-4, *[5e-3 * (1 - i / 200) for i in range(150)]], 0),  # a warm-up of one step, at the start
        ([2e-4, *[5e-3 if i % 3 else 1e-3 for i in range(150)]], 200),  # a rate that jumps all the time
        ([5e-3, *[5e-4] * 150], 200),  # a step down, as schedules have them
    ],
    ids=["smooth", "start", "cyclic", "down"],
)
def test_rates_that_are_no_sign_of_a_new_optimizer(rate: list[float], first: int) -> None:
    assert "optimizer-not-restored" not in seen(events({"loss": noisy(151, 0.2, 0.1), "lr": rate}, first=first))


# --- series that are logged for one purpose -------------------------------------------------------------------------


def test_frozen_weights_that_move() -> None:
    norm = [4.6 - 0.03 * i for i in range(40)]
    found = seen(events({"train/frozen_weight_norm": norm, "loss": noisy(40, 2.3, 1.0)}))
    assert set(found) == {"frozen-weights-moved"}


@pytest.mark.parametrize(
    "norm",
    [
        [4.6 + 1e-6 * (i % 2) for i in range(40)],  # rounding
        [*[4.6] * 20, *[4.6 - 0.05 * i for i in range(20)]],  # unfrozen on purpose
        [4.6, 4.5],
        [0.0] * 40,
    ],
    ids=["still", "unfrozen", "short", "zero"],
)
def test_frozen_weights_that_are_in_order(norm: list[float]) -> None:
    assert not seen(events({"train/frozen_weight_norm": norm, "loss": noisy(40, 2.3, 1.0)}))


def test_the_number_of_frozen_parameters_is_no_norm() -> None:
    assert not seen(events({"frozen_params": [float(i) for i in range(40)], "loss": noisy(40, 2.3, 1.0)}))


def test_units_that_die() -> None:
    share = [*[0.2] * 20, *[0.95] * 30]
    found = seen(events({"act/dead_relu/fraction": share, "loss": noisy(50, 2.3, 1.0)}))
    assert set(found) == {"dead-units"} and found["dead-units"].step == 20
    for healthy in ([0.5] * 50, [0.95] * 50, [*[0.2] * 20, *[0.95] * 20, *[0.3] * 10]):
        assert not seen(events({"act/dead_relu/fraction": healthy, "loss": noisy(50, 2.3, 1.0)}))


@pytest.mark.parametrize(("share", "at_first"), [([0.0, *[0.99] * 20], 0), ([0.25, 0.9, *[0.99] * 20], 25)])
def test_what_units_were_at_first_is_what_the_record_shown_says(share: list[float], at_first: int) -> None:
    found = seen(events({"probe/dead_units/act": share, "loss": noisy(22, 2.3, 1.0)}, first=1))["dead-units"]
    assert f"({at_first} % at step 1)" in (found.note or "")
    assert any(e.text.startswith("step 1: ") for e in found.evidence)


def test_units_that_are_nearly_all_dead_from_early_on() -> None:
    """Dead are nine tenths of them, not the last few."""
    share = [0.0, 0.4, *[0.97] * 12, *[1.0] * 8]
    found = seen(events({"probe/dead_units/act": share, "loss": noisy(22, 2.3, 1.0)}, first=1))["dead-units"]
    assert found.step == 3


def test_logits_that_grow() -> None:
    logits = [10 + 0.2 * i for i in range(400)]
    flat, falling = noisy(400, 2.0, 2.0, 0.01), noisy(400, 4.0, 1.0)
    assert set(seen(events({"stats/max_logit": logits, "loss": flat}))) == {"logit-growth"}
    assert not seen(events({"stats/max_logit": logits, "loss": [v - i * 0.002 for i, v in enumerate(falling)]}))
    assert not seen(events({"stats/max_logit": [10.0 + i % 7 for i in range(400)], "loss": flat}))


def test_a_precision_that_stays_zero() -> None:
    loss = noisy(100, 3.0, 0.8)
    zero: list[float | None] = [0.0 if i % 10 == 9 else None for i in range(100)]
    assert set(seen(events({"loss": loss, "val/bbox_mAP": zero}))) == {"detection-metric-zero"}
    late = [0.02 if i == 99 else v for i, v in enumerate(zero)]
    assert not seen(events({"loss": loss, "val/bbox_mAP": late}))
    assert not seen(events({"loss": noisy(100, 3.0, 2.9), "val/bbox_mAP": zero}))
    assert not seen(events({"loss": loss, "val/bbox_mAP": [-1.0 if v == 0 else v for v in zero]}))
    assert not seen(events({"loss": loss, "train/map_location": zero}))
