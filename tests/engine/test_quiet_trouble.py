"""Trouble that one curve shows by its shape alone: a spike without a norm, a rate of next to nothing, a lost NaN."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

Curve = Callable[[int], float]


def roots(folder: Path, lines: list[str]) -> list[str]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


def level(k: int) -> float:
    return 3.0 + 6 * math.exp(-k / 40)


def thrown_off(k: int, at: int = 180, high: float = 3.5, decay: float = 6.0) -> float:
    return level(k) + (high * math.exp(-(k - at) / decay) if k >= at else 0.0)


def steps(loss: Curve, form: str = "step {i} loss {loss:.4f}", n: int = 300, noise: float = 0.03) -> list[str]:
    draw = random.Random(5)
    return [form.format(i=20 * (k + 1), e=k // 60, loss=loss(k) + draw.gauss(0, noise)) for k in range(n)]


def test_a_spike_that_is_learned_back(tmp_path: Path) -> None:
    assert roots(tmp_path, steps(thrown_off)) == ["loss-spike"]


@pytest.mark.parametrize(
    "lines",
    [
        steps(lambda k: level(k) + (3.5 if k == 180 else 0.0)),  # a hard batch
        steps(lambda k: level(k) + (3.5 if 180 <= k < 186 else 0.0)),  # several of them
        steps(lambda k: thrown_off(k, high=0.8)),
        steps(thrown_off, "epoch {e} step {i} loss {loss:.4f}"),  # the first batch of an epoch
        [*steps(thrown_off)[:180], "Resuming from checkpoint ckpt/last.pt", *steps(thrown_off)[180:]],
        [f"{line} lr {3e-4 if k < 180 else 1e-3}" for k, line in enumerate(steps(thrown_off))],
        steps(lambda k: level(k) if k < 180 else level(k - 180)),  # weights made anew
        steps(lambda k: thrown_off(k) + (1.5 if k % 25 == 0 else 0.0)),  # it has outliers all along
    ],
)
def test_a_spike_that_may_be_by_design(tmp_path: Path, lines: list[str]) -> None:
    assert "loss-spike" not in roots(tmp_path, lines)


def rated(rate: float, loss: Curve = lambda k: 3.9) -> list[str]:
    return [f"{line} lr {rate:.1e} grad_norm {2 + k % 7 / 10}" for k, line in enumerate(steps(loss))]


def test_a_rate_that_moves_nothing(tmp_path: Path) -> None:
    assert roots(tmp_path, rated(1e-10)) == ["learning-rate-too-low"]


@pytest.mark.parametrize("lines", [rated(5e-7), rated(1e-10, level), rated(1e-10, lambda k: 0.01), rated(1e-10)[:60]])
def test_a_rate_that_may_do(tmp_path: Path, lines: list[str]) -> None:
    assert roots(tmp_path, lines) == []


def keras(accuracy: Curve, held_out: Curve, trained: Curve, epochs: int = 20) -> list[str]:
    return [
        line
        for e in range(epochs)
        for line in (
            f"Epoch {e + 1}/{epochs}",
            f"1563/1563 ━━━━━━━━━━━━━━━━━━━━ 12s 7ms/step - accuracy: {0.83 + e % 3 / 1000:.4f} - loss: {trained(e):.4f}"
            f" - val_accuracy: {accuracy(e):.4f} - val_loss: {held_out(e):.4f}",
        )
    ]


def prior(e: int) -> float:
    return 0.4559 + e % 3 / 2000


def test_shares_of_two_classes_and_nothing_else(tmp_path: Path) -> None:
    assert roots(tmp_path, keras(lambda e: 0.83, prior, prior)) == ["majority-class-collapse"]


@pytest.mark.parametrize(
    "lines",
    [
        keras(lambda e: 0.83 + e / 500, prior, prior),
        keras(lambda e: 0.83, lambda e: 0.40 + e % 3 / 2000, prior),  # it knows more than the shares
        keras(lambda e: 0.83, prior, lambda e: 0.45 - e / 100),  # it learns: another state is evaluated
        keras(lambda e: 0.83, prior, prior, 5),
    ],
)
def test_accuracies_that_stand_for_another_reason(tmp_path: Path, lines: list[str]) -> None:
    assert "majority-class-collapse" not in roots(tmp_path, lines)


def grpo(kl: Curve, n: int = 200) -> list[str]:
    draw = random.Random(7)
    return [
        f"{{'loss': {0.001 * kl(k):.4f}, 'grad_norm': 0.4, 'reward': {0.6 + draw.gauss(0, 0.03):.4f}, 'reward_std': 0.28,"
        f" 'kl': {kl(k) * (1 + draw.uniform(-0.05, 0.05)):.4f}, 'epoch': {k / n:.3f}}}"
        for k in range(n)
    ]


def test_a_kl_that_runs_away_at_the_end(tmp_path: Path) -> None:
    assert roots(tmp_path, grpo(lambda k: 0.05 * math.exp(max(0, k - 170) * 0.23))) == ["kl-divergence-explosion"]


@pytest.mark.parametrize(
    "kl",
    [
        lambda k: 0.05 + k * 0.03,  # slowly to its target
        lambda k: 12.0 if k == 199 else 0.05,  # one sample
        lambda k: 0.05 * math.exp(max(0, k - 180) * 0.12),
    ],
)
def test_a_kl_that_is_held(tmp_path: Path, kl: Curve) -> None:
    assert roots(tmp_path, grpo(kl)) == []


def megatron(lost: int, scale: str = "1.0", n: int = 80) -> list[str]:
    """Megatron-LM's records, which leave out a loss that is not above 0."""
    lines = []
    for k in range(n):
        bad = k >= n - lost
        loss = "" if bad else f" lm loss: {level(k):.6E} |"
        lines.append(
            f" [2026-03-01 10:{k // 60:02d}:{k % 60:02d}] iteration {10 * (k + 1):8d}/   30000 | consumed samples: "
            f" {5120 * (k + 1):11d} | elapsed time per iteration (ms): 5000.1 | learning rate: 6.600000E-05 | global batch"
            f" size:   512 |{loss} loss scale: {scale} | grad norm: {'nan' if bad else '0.803'} | number of skipped"
            " iterations:   0 | number of nan iterations:   0 |"
        )
    return lines


@pytest.mark.parametrize("lost", [1, 2])
def test_a_loss_that_is_lost_in_the_last_records(tmp_path: Path, lost: int) -> None:
    assert roots(tmp_path, megatron(lost)) == ["nan-loss"]


def test_with_a_scaler_it_may_be_a_step_that_is_skipped(tmp_path: Path) -> None:
    assert roots(tmp_path, megatron(1, "65536.0")) == []


def there_and_back(e: int) -> float:
    return 0.4 + 1.9 * math.exp(-e / 10) if e <= 36 else 0.45 + (e - 36) * 0.08


def epochs(accuracy: Curve | None, loss: Curve = there_and_back) -> list[str]:
    return [
        f"Epoch {e}/60 train_loss: {loss(e):.4f} val_loss: {loss(e) + 0.1:.4f}"
        + (f" val_acc: {accuracy(e):.4f}" if accuracy else "")
        for e in range(1, 61)
    ]


def learned(loss: float) -> float:
    return max(0.1, 0.1 + 0.37 * (2.2 - loss))


def test_what_was_learned_is_lost_epoch_by_epoch(tmp_path: Path) -> None:
    assert roots(tmp_path, epochs(lambda e: learned(there_and_back(e)))) == ["loss-divergence"]


def test_a_slow_rise_while_the_accuracy_stays(tmp_path: Path) -> None:
    assert roots(tmp_path, epochs(lambda e: min(0.75, 0.1 + e / 50))) == []


def scheduled(folder: Path, settings: str, rate: Curve, epochs: int = 12) -> list[str]:
    (folder / "args.yaml").write_text(f"model: resnet50\nlr: 0.1\n{settings}\n")
    return [
        f"INFO Epoch [{e}/90][{s}/500] loss: {7 * math.exp(-(e + s / 500) / 8) + 0.5:.4f} lr: {rate(e):.6f}"
        for e in range(epochs)
        for s in range(0, 500, 100)
    ]


def cosine(e: int) -> float:
    return 0.05 * (1 + math.cos(math.pi * e / 90))


def still(e: int) -> float:
    return 0.1


@pytest.mark.parametrize("settings", ["sched: cosine\nepochs: 90", "scheduler: CosineAnnealingLR\nepochs: 90"])
def test_a_schedule_by_other_names(tmp_path: Path, settings: str) -> None:
    assert roots(tmp_path, scheduled(tmp_path, settings, still)) == ["lr-not-as-scheduled"]


@pytest.mark.parametrize(
    ("settings", "rate", "epochs"),
    [
        ("sched: cosine\nepochs: 90", cosine, 12),
        ("sched: cosine\nepochs: 90", still, 6),  # it may be too early to see
        ("sched: cosine", still, 12),  # how far it is to go, nobody says
        ("sched: step\nepochs: 90", still, 12),
        ("scheduler: linear\nnum_train_timesteps: 1000\nepochs: 90", still, 12),  # of the noise
        ("sched: cosine\nlr_scheduler_type: constant\nepochs: 90", still, 12),
    ],
)
def test_a_schedule_that_may_be_followed(tmp_path: Path, settings: str, rate: Curve, epochs: int) -> None:
    assert roots(tmp_path, scheduled(tmp_path, settings, rate, epochs)) == []
