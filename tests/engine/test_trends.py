"""What shows itself over a whole record: a loss that creeps up, evaluations of another model, a wait for data."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role


def roots(folder: Path, lines: list[str]) -> list[str]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


def steps(
    loss: Callable[[int], float], noise: float, form: str = "step {i} loss {loss:.4f}", n: int = 300
) -> list[str]:
    chance = random.Random(n)
    return [form.format(i=10 * k, k=k, loss=loss(k) + chance.gauss(0, noise)) for k in range(n)]


def down(k: float, to: float = 2.5) -> float:
    return to + 5 * math.exp(-k / 20)


@pytest.mark.parametrize(("times", "noise"), [(1.65, 0.02), (2.2, 0.08), (3.0, 0.05)])
def test_a_loss_that_creeps_up(tmp_path: Path, times: float, noise: float) -> None:
    lines = steps(lambda k: down(k) * (1 + (times - 1) * max(0, k - 90) / 210), noise)
    assert roots(tmp_path, lines) == ["loss-divergence"]


@pytest.mark.parametrize(
    "lines",
    [
        steps(lambda k: down(k) * (1 + 0.15 * max(0, k - 90) / 210), 0.03),
        steps(lambda k: down(k) + (1.6 if k > 150 else 0), 0.03),  # other data
        steps(lambda k: down(k) + 1.5 * math.exp(-(((k - 170) / 40) ** 2)), 0.03),
        steps(lambda k: down(k) + 0.008 * max(0, k - 90), 0.03, "step {i} loss {loss:.4f} recon_loss 1.2 kl_loss 0.8"),
        [
            line + f" val_loss {down(k):.4f}"
            for k, line in enumerate(steps(lambda k: down(k) + 0.008 * max(0, k - 90), 0.03))
        ],
        steps(lambda k: 0.2 + k * 0.002, 0.02, "iter {i} policy_loss {loss:.4f} mean_reward 12.0"),
    ],
)
def test_what_creeps_for_a_reason(tmp_path: Path, lines: list[str]) -> None:
    assert roots(tmp_path, lines) == []


@pytest.mark.parametrize(
    "form",
    [
        "Epoch {e} train_loss {loss:.4f} val_loss 2.3109 val_acc 0.0980",
        "epoch={e} train/loss={loss:.4f} val/loss=2.3109",
        "Epoch {e}: loss={loss:.4f}, val_acc=0.1135",
    ],
)
def test_evaluations_of_another_model(tmp_path: Path, form: str) -> None:
    lines = [form.format(e=e, loss=2 * math.exp(-e / 6)) for e in range(1, 13)]
    assert roots(tmp_path, lines) == ["eval-result-fixed"]


@pytest.mark.parametrize(
    "form",
    [
        "Epoch {e} train_loss {loss:.4f} val_loss {held:.4f} val_acc 0.5135",
        "Epoch {e} train_loss {loss:.4f} val_acc 1.0000",
        "Epoch {e} train_loss {loss:.4f} val_acc 0.9548",
        "Epoch {e} train_loss {loss:.4f} val_loss 2.3",
        "Epoch {e} train_loss 2.3026 val_loss 2.3109",
    ],
)
def test_evaluations_that_may_be_equal(tmp_path: Path, form: str) -> None:
    lines = [form.format(e=e, loss=2 * math.exp(-e / 6), held=2.2 * math.exp(-e / 9)) for e in range(1, 13)]
    assert "eval-result-fixed" not in roots(tmp_path, lines)


TIMED = [
    "Train: 0 [{i:4d}/5004 (  3%)]  Loss: {loss:.3f} (6.90)  Time: {step:.3f}s, 176.3/s  (1.4s, 176.5/s)"
    "  LR: 1.000e-03  Data: {data:.3f} (1.205)",
    "Epoch: [0]  [{i:4d}/5004]  eta: 1:59:10  lr: 0.1  loss: {loss:.4f} (6.90)  time: {step:.4f}  data: {data:.4f}",
    "2026-01-05 10:00:00,000 - mmdet - INFO - Epoch [1][{i}/7330]\tlr: 2.000e-02, eta: 3:10:00, time: {step:.3f},"
    " data_time: {data:.3f}, memory: 3900, loss: {loss:.4f}",
    "Epoch: [0][{i:4d}/5004]\tTime  {step:.3f} ( 1.450)\tData  {data:.3f} ( 1.205)\tLoss {loss:.4e} (6.9e+00)",
]


def timed(form: str, step: float, data: float) -> list[str]:
    return [form.format(i=i, loss=6.9 - i / 2000, step=step, data=data) for i in range(50, 5000, 50)]


@pytest.mark.parametrize("form", TIMED)
def test_steps_that_wait_for_data(tmp_path: Path, form: str) -> None:
    assert roots(tmp_path, timed(form, 1.452, 1.21)) == ["loader-starves-gpu"]


@pytest.mark.parametrize(("step", "data"), [(1.45, 0.3), (0.01, 0.008), (0.25, 0.01)])
def test_steps_that_do_not(tmp_path: Path, step: float, data: float) -> None:
    assert roots(tmp_path, timed(TIMED[1], step, data)) == []


def test_workers_that_only_start_slowly(tmp_path: Path) -> None:
    lines = timed(TIMED[1], 1.45, 1.21)[:30] + [line.replace("[0]", "[1]", 1) for line in timed(TIMED[1], 0.25, 0.01)]
    assert roots(tmp_path, lines) == []
