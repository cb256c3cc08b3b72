"""Losses under names of their own, and counters that stand in front of them without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.test_hangs import diagnose, first

from forensics.parsers.metric_lines.reader import read
from forensics.parsers.names import canonical, is_objective

NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("[ 660] train_loss=0.31  |g|=1.0", "660"),
        ("[140] loss=nan", "140"),
        ("[0140/2000] loss: 0.31", "0140"),
        ("140 train_loss=nan", "140"),
        ("140: train_mse 0.31", "140"),
        ("7/200 nll: 0.31", "7"),
    ],
)
def test_counters_without_a_word(text: str, step: str) -> None:
    reading = read(text, NOBODY)
    assert reading is not None
    assert [text[f.start : f.end] for f in reading.fields if f.role == "step"] == [step]


@pytest.mark.parametrize("text", ["[2026] the loss of power", "140 files, loss of 3", "[3/4] loading 0.31"])
def test_numbers_that_count_nothing(text: str) -> None:
    assert read(text, NOBODY) is None


def test_a_counter_with_a_word_wins(tmp_path: Path) -> None:
    text = "[3] step 140 loss 0.31"
    reading = read(text, NOBODY)
    assert reading is not None
    assert [text[f.start : f.end] for f in reading.fields if f.role == "step"] == ["140"]


@pytest.mark.parametrize("key", ["mse loss", "train_mse", "rmse", "NLL", "train/nll_loss", "bce", "elbo", "cost"])
def test_objectives_are_parts_of_a_loss(key: str) -> None:
    assert canonical(key) == "loss_part"


@pytest.mark.parametrize("key", ["error", "train_error", "val_mse", "cost_per_hour", "mse_weight", "bce_lambda"])
def test_names_that_are_no_objective(key: str) -> None:
    assert canonical(key) is None
    assert not is_objective(key)


def _log(line: str, *, explodes: bool, lost: bool = False) -> str:
    values = [1.5 * 0.97**n for n in range(60)]
    if explodes:
        values = [v if n < 30 else 4.0 ** (n - 30) for n, v in enumerate(values)]
    return "".join(
        line.format(n=n * 10, v="nan" if lost and n >= 30 else f"{v:.5g}") + "\n" for n, v in enumerate(values)
    )


LINES = [
    "step {n} mse loss: {v}",
    "[{n:4d}] train_mse={v}",
    "{n} nll: {v}",
    "Cost after iteration {n}: {v}",
    "step {n} rmse {v} lr 0.1",
    "step {n} bce: {v} acc 0.9",
]


@pytest.mark.parametrize("line", LINES)
def test_objectives_that_explode_or_are_lost(line: str, tmp_path: Path) -> None:
    good = diagnose(tmp_path / "good", {"train.log": _log(line, explodes=False)})
    assert (good.verdict, good.findings) == ("healthy", ())
    exploded = diagnose(tmp_path / "exploded", {"train.log": _log(line, explodes=True)})
    assert (exploded.verdict, first(exploded).name) == ("diverged", "loss-divergence")
    lost = diagnose(tmp_path / "lost", {"train.log": _log(line, explodes=False, lost=True)})
    assert (lost.verdict, first(lost).name) == ("diverged", "nan-loss")


@pytest.mark.parametrize(
    "line",
    ["step {n} loss 0.3 mse {v}", "step {n} error {v}", "step {n} cost: {v} reward: 3.1", "step {n} val_mse {v}"],
)
def test_what_is_measured_beside_the_loss_may_grow(line: str, tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"train.log": _log(line, explodes=True)}).verdict in ("healthy", "unknown")
