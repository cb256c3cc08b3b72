"""What loss and gradient norm show together, and neither would alone: spikes and breakdowns of language models."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.series import logged

from forensics.engine.detectors.loss_shape import loss_divergence
from forensics.engine.detectors.spikes import loss_spike
from forensics.engine.pipeline import Options, analyse

Curves = tuple[list[float], list[float]]


def language_model(n: int = 500, floor: float = 2.5) -> Curves:
    """Loss and gradient norm of a run that learns; the norm has a hard batch now and then."""
    draw = random.Random(11)
    loss = [floor + 8 * math.exp(-i / 40) + draw.gauss(0, 0.02) for i in range(n)]
    norm = [0.35 * math.exp(draw.gauss(0, 0.1)) * (6 if i % 97 == 60 else 1) for i in range(n)]
    return loss, norm


def table(curves: Curves) -> pl.DataFrame:
    loss, norm = curves
    return logged({"loss": loss, "grad_norm": norm}, every=10)


def jump(curves: Curves, at: int, height: float, norms: float, length: float = 5) -> Curves:
    """A rise of the loss that fades over some records, and of the norm with it."""
    loss, norm = ([*values] for values in curves)
    for k in range(30):
        loss[at + k] += height * math.exp(-k / length)
        norm[at + k] *= 1 + (norms - 1) * math.exp(-k / length)
    return loss, norm


def test_a_spike_that_the_gradient_norm_bears_out() -> None:
    (found,) = loss_spike(table(jump(language_model(), 300, 2.5, 15)), ())
    assert found.step == 3000 and found.note is not None and "with a gradient norm of" in found.note


def in_lines_of_their_own(curves: Curves) -> pl.DataFrame:
    rows = table(curves)
    return rows.with_columns(line=pl.col("line") * 2 + (pl.col("name") == "loss").cast(pl.Int64))


def test_loss_and_norm_of_one_step_may_stand_in_two_lines() -> None:
    (found,) = loss_spike(in_lines_of_their_own(jump(language_model(), 300, 2.5, 15)), ())
    assert found.step == 3000


def hard_batches() -> Curves:
    """Two or three hard batches on end, again and again: the norm goes with them."""
    loss, norm = language_model(floor=1.4)
    draw = random.Random(5)
    at = 60
    while at < 480:
        for k in range(draw.randint(1, 3)):
            loss[at + k] += draw.uniform(0.8, 2.2)
            norm[at + k] *= draw.uniform(4, 14)
        at += draw.randint(25, 60)
    return loss, norm


@pytest.mark.parametrize(
    "made",
    [
        lambda: jump(language_model(), 300, 2.5, 1.5),  # the loss alone
        lambda: jump(language_model(), 300, 0.3, 15),  # within what a curve does
        lambda: jump(language_model(), 300, 2.5, 15, length=0.4),  # one hard batch
        lambda: jump(language_model(), 10, 2.5, 15),  # nothing is settled yet
        hard_batches,
        language_model,
    ],
)
def test_rises_that_are_no_spike(made: Callable[[], Curves]) -> None:
    assert not loss_spike(table(made()), ())


def breakdown(norms: float, later: float = 1.0, learns: bool = False) -> Curves:
    """A rise by 1.6 nats over twenty records that stays; the norm rises with it, and is `later` of its level then."""
    loss, norm = language_model(floor=4.5)
    for i in range(200, len(loss)):
        k = i - 200
        loss[i] += 1.6 * (1 - math.exp(-k / 6)) - (0.8 * (1 - math.exp(-k / 80)) if learns else 0)
        norm[i] = norm[i] * (later + (norms - 1) * math.exp(-k / 15))
    return loss, norm


@pytest.mark.parametrize(("norms", "later"), [(8, 1.0), (1, 0.25)])
def test_a_language_model_that_breaks_down_by_less_than_half_its_progress(norms: float, later: float) -> None:
    (found,) = loss_divergence(table(breakdown(norms, later)), ())
    assert found.step is not None and 1980 <= found.step <= 2050


@pytest.mark.parametrize("curves", [breakdown(1.5), breakdown(8, learns=True), breakdown(1, 0.6)])
def test_other_data_bring_a_like_norm_or_are_learned(curves: Curves) -> None:
    assert not loss_divergence(table(curves), ())


def test_both_in_a_log(tmp_path: Path) -> None:
    loss, norm = jump(language_model(), 300, 2.5, 15)
    rows = enumerate(zip(loss, norm, strict=True))
    lines = [f"step {10 * i} | loss {a:.4f} | grad_norm {b:.3f} | lr 3.0e-04\n" for i, (a, b) in rows]
    (tmp_path / "train.log").write_text("".join(lines))
    found = analyse([str(tmp_path)], Options(threads=1))
    assert [(f.name, f.step) for f in found.findings[:1]] == [("loss-spike", 3000)]
