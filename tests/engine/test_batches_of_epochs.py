"""Loops that count the batches of each epoch: what came first is told by the epoch, then by the batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding

Value = Callable[[int, int], str]


def lines(loss: Value, epochs: int = 4, rest: Value = lambda epoch, batch: "") -> str:
    return "".join(
        f"Epoch [{epoch}/{epochs}], Step [{batch}/400], Loss: {loss(epoch, batch)}{rest(epoch, batch)}\n"
        for epoch in range(1, epochs + 1)
        for batch in range(20, 401, 20)
    )


def found(folder: Path, files: dict[str, str]) -> Finding:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1)).findings[0]


def healthy(epoch: int, batch: int) -> str:
    return f"{2.5 / epoch - batch / 4000:.4f}"


def lost_from(epoch: int, batch: int) -> Value:
    return lambda e, b: "nan" if (e, b) >= (epoch, batch) else healthy(e, b)


def test_a_loss_that_is_lost_in_one_epoch_is_not_first_lost_in_the_next(tmp_path: Path) -> None:
    root = found(tmp_path, {"train.log": lines(lost_from(2, 120))})
    assert (root.name, root.step, root.epoch) == ("nan-loss", 120, 2)


def test_the_rank_that_is_first_within_the_epoch_is_blamed(tmp_path: Path) -> None:
    files = {f"rank{n}.log": lines(lost_from(2, 120 if n == 2 else 140)) for n in range(4)}
    root = found(tmp_path, files)
    assert (root.ranks, root.step, root.epoch) == ((2,), 120, 2)


def test_the_scale_falls_first_in_the_earlier_epoch(tmp_path: Path) -> None:
    def scale(epoch: int, batch: int) -> str:
        n = (epoch - 2) * 20 + (batch - 200) // 20
        return f", Scale: {65536 / 2 ** max(n, 0):g}"

    root = found(tmp_path, {"train.log": lines(healthy, rest=scale)})
    assert root.name == "grad-scaler-collapse" and (root.epoch, (root.step or 0) >= 200) == (2, True)


def test_a_bar_that_writes_epochs_to_one_line_ends_in_the_last_of_them(tmp_path: Path) -> None:
    bar = "".join(
        f"\rEpoch {epoch}:  {batch // 4}%|###  | {batch}/400 [00:{batch % 60:02d}<01:00, 5.0it/s, loss={healthy(epoch + 1, batch)}]"
        for epoch in range(4)
        for batch in range(50, 401 if epoch < 3 else 151, 50)
    )
    raised = '\nTraceback (most recent call last):\n  File "/w/t.py", line 3, in step\n    f()\nValueError: bad mask\n'
    root = found(tmp_path, {"train.log": bar + raised})
    assert (root.name, root.step, root.epoch) == ("python-exception", 150, 3)


HF = "{{'loss': {loss:.4f}, 'grad_norm': 1.19, 'learning_rate': 1.9e-05, 'epoch': {epoch}}}\n"


@pytest.mark.parametrize("apart", [False, True])
def test_the_epoch_of_records_without_a_step_is_told(tmp_path: Path, apart: bool) -> None:
    log = "".join(HF.format(loss=2 - n / 50, epoch=round(0.07 * n, 2)) for n in range(1, 12))
    error = "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    g()\nKeyError: 'x'\n"
    files = {"train.out": log, "train.err": error} if apart else {"train.log": log + error}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert (found.step, found.epoch) == (None, 0.77)


@pytest.mark.parametrize(
    ("epoch", "first", "unit"), [(3, 0, "batch"), (2, 0, "batch"), (1, 0, "global step"), (3, 9000, "global step")]
)
def test_what_a_log_of_one_epoch_counts(tmp_path: Path, epoch: int, first: int, unit: str) -> None:
    log = "".join(f"epoch {epoch} it {first + n} loss {2 - n / 900:.3f}\n" for n in range(0, 800, 50))
    (tmp_path / "train.log").write_text(log + "Segmentation fault (core dumped)\n")
    found = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert (found.step, found.step_unit, found.epoch) == (first + 750, unit, epoch)
