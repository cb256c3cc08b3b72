"""Detectors on records that count the batches of each epoch anew: a run is one curve, and its epochs are no runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from tests.series import logged, seen

from forensics.engine.detectors.series import Stream, batches_anew, courses, streams, teeth
from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

_EACH = 20  # records of an epoch
_GAP = 50  # batches between them
Line = Callable[[int, int, float, float], str]


def _noisy(values: Sequence[float], noise: float = 0.005) -> list[float]:
    rng = random.Random(5)
    return [v * (1 + rng.gauss(0, noise)) for v in values]


def _diverging() -> list[float]:
    """6.9 to 5.2 in 200 records, to 14 in 30, and there for 200 more."""
    down = [5.2 + 1.7 * math.exp(-i / 40) for i in range(200)]
    return _noisy([*down, *(5.2 + 8.8 * (i + 1) / 30 for i in range(30)), *[14.0] * 200])


def _learning(records: int) -> list[float]:
    return _noisy([1 + 5 * math.exp(-i / 40) for i in range(records)], 0.02)


def _by_epoch(each: int = _EACH, **series: Sequence[float]) -> pl.DataFrame:
    """Records whose steps begin anew with each epoch."""
    record = pl.col("line") - 1
    return logged(series).with_columns(step=(record % each) * _GAP, epoch=(record // each).cast(pl.Float64))


def _stream(table: pl.DataFrame) -> Stream:
    return streams(table, ("loss",))[0]


_LINES: dict[str, Line] = {
    "mmengine": lambda e, b, loss, t: (
        f"2025/01/01 10:{e:02d}:{b // 20:02d} - mmengine - INFO - Epoch(train)  [{e + 1}][{b + 50:4d}/1000]  "
        f"lr: 1.6000e-03  eta: 0:10:00  time: {t:.4f}  data_time: 0.0110  memory: 3120  loss: {loss:.4f}"
    ),
    "imagenet": lambda e, b, loss, t: (
        f"Epoch: [{e}][{b:4d}/1001]\tTime {t:5.2f} ( 0.32)\tData  0.00 ( 0.01)\tLoss {loss:.4e} (5.0000e+00)"
    ),
    "mnist": lambda e, b, loss, t: f"Train Epoch: {e} [{b * 64}/64000 ({b // 10}%)]\tLoss: {loss:.6f}",
    "timm": lambda e, b, loss, t: (
        f"Train: {e} [{b:4d}/1000 ({b // 10:3d}%)]  Loss: {loss:.2f} ({loss:.2f})  Time: {t:.3f}s, {1024 / t:.2f}/s  "
        f"({t:.3f}s, {1024 / t:.2f}/s)  LR: 1.600e-04  Data: 0.011 (0.012)"
    ),
    "tqdm": lambda e, b, loss, t: (
        f"Epoch {e}: {b // 10:3d}%|#         | {b}/1000 [00:10<00:20, {1 / t:.1f}it/s, loss={loss:.3f}]"
    ),
    "bare": lambda e, b, loss, t: f"epoch {e} iter {b} loss {loss:.4f}",
}


def _roots(tmp_path: Path, line: Line, losses: Sequence[float], times: Sequence[float] | None = None) -> list[Finding]:
    times = times or _noisy([0.3] * len(losses), 0.02)
    places = [(i // _EACH, i % _EACH * _GAP) for i in range(len(losses))]
    lines = [line(*place, loss, t) for place, loss, t in zip(places, losses, times, strict=True)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    return [f for f in analyse([str(tmp_path)]).findings if f.role is not Role.CONTEXT]


@pytest.mark.parametrize("logger", _LINES)
def test_a_divergence_over_several_epochs(tmp_path: Path, logger: str) -> None:
    (found,) = _roots(tmp_path, _LINES[logger], _diverging())
    assert found.name == "loss-divergence"
    assert found.epoch == (11 if logger == "mmengine" else 10)


@pytest.mark.parametrize("logger", _LINES)
def test_a_run_that_learns_over_several_epochs(tmp_path: Path, logger: str) -> None:
    assert _roots(tmp_path, _LINES[logger], _learning(430)) == []


def test_the_place_is_told_with_its_epoch(tmp_path: Path) -> None:
    _roots(tmp_path, _LINES["bare"], _diverging())
    assert "batch 0 of epoch 10" in analyse([str(tmp_path)]).summary


def test_a_spike_that_decays_within_an_epoch() -> None:
    spike = [6 * 0.85**i for i in range(40)]
    losses = _learning(600)
    at = 15 * _EACH + 4
    assert "loss-spike" in seen(
        _by_epoch(loss=[v + (spike[i - at] if at <= i < at + 40 else 0) for i, v in enumerate(losses)])
    )
    assert "loss-spike" not in seen(_by_epoch(loss=losses))


@pytest.mark.parametrize(
    ("start", "late", "told"),
    [
        (15 * _EACH, 1.4, True),  # a loader that lost its workers with the epoch
        (15 * _EACH, 0.9, False),  # layers that were unfrozen with it
        (15 * _EACH + 7, 0.9, True),
    ],
)
def test_a_pace_that_is_lost_with_an_epoch(start: int, late: float, told: bool) -> None:
    times = _noisy([0.3] * start + [late] * (600 - start), 0.02)
    assert ("throughput-collapse" in seen(_by_epoch(loss=_learning(600), step_time=times))) is told


@pytest.mark.parametrize(("within", "told"), [(True, True), (False, False)])
def test_a_pace_that_is_lost_little_by_little_over_epochs(within: bool, told: bool) -> None:
    """A list that grows, and images that grow with the epochs by plan."""
    times = _noisy([0.1 + 0.001 * (i if within else i // 100 * 100) for i in range(600)], 0.02)
    assert ("throughput-collapse" in seen(_by_epoch(100, loss=_learning(600), step_time=times))) is told


@pytest.mark.parametrize("each", [20, 100])
def test_sums_and_means_that_begin_anew_with_each_epoch(each: int) -> None:
    losses = _learning(10 * each)
    parts = [losses[k : k + each] for k in range(0, len(losses), each)]
    sums = [sum(part[: i + 1]) for part in parts for i in range(each)]
    means = [sum(part[: i + 1]) / (i + 1) for part in parts for i in range(each)]
    assert not {"loss-divergence", "loss-spike"} & seen(_by_epoch(each, loss=sums)).keys()
    assert not {"loss-divergence", "loss-spike"} & seen(_by_epoch(each, loss=means)).keys()
    assert teeth(_stream(_by_epoch(each, loss=sums)), "loss") > each / 2


def test_a_loss_that_steps_up_with_an_epoch_is_by_design() -> None:
    """Mixing of samples that is switched on between epochs."""
    learned = [0.3 + 2 * math.exp(-i / 40) for i in range(300)]
    assert "loss-divergence" not in seen(_by_epoch(loss=_noisy([*learned, *[1.6] * 200], 0.03)))


def test_data_that_become_harder_with_each_epoch_are_by_design() -> None:
    """The loss falls within each epoch and is higher in the next one."""
    losses = [1 + 0.15 * (i // _EACH) + 0.8 * math.exp(-(i % _EACH) / 4) for i in range(440)]
    assert "loss-divergence" not in seen(_by_epoch(loss=_noisy(losses, 0.03)))


def test_what_a_course_is() -> None:
    table = _by_epoch(loss=_learning(100))
    stream = _stream(table)
    assert batches_anew(stream)
    assert [len(part) for part in courses(stream)] == [100]
    assert stream.where(25) == "step 250 of epoch 1"
    # Epochs that begin with the first one again are another run; steps that go back within an epoch are a restart.
    again = _stream(table.with_columns(epoch=pl.col("epoch") % 3))
    assert [len(part) for part in courses(again)] == [60, 40]
    within = _stream(table.with_columns(epoch=pl.lit(1.0)))
    assert [len(part) for part in courses(within)] == [20] * 5
    # Fractions of an epoch belong to steps that go on: where these go back, the run was resumed.
    parts = _stream(table.with_columns(epoch=pl.col("epoch") + 0.5))
    assert [len(part) for part in courses(parts)] == [20] * 5
    attempts = _stream(table.with_columns(attempt=(pl.col("epoch") // 2).cast(pl.Int64)))
    assert [len(part) for part in courses(attempts)] == [40, 40, 20]


def test_a_gradient_norm_is_that_of_the_same_epoch() -> None:
    """A logger that writes loss and norm of a step in lines of their own."""
    table = _by_epoch(loss=_learning(60), grad_norm=[float(i) for i in range(60)])
    apart = pl.concat(
        [
            table.filter(pl.col("name") == "loss").with_columns(line=2 * pl.col("line")),
            table.filter(pl.col("name") == "grad_norm").with_columns(line=2 * pl.col("line") + 1),
        ]
    ).sort("line")
    stream = streams(apart, ("loss", "grad_norm"))[0]
    told = [g for g, v in zip(stream.by_step("grad_norm"), stream.column("loss"), strict=True) if v is not None]
    assert told == [float(i) for i in range(60)]
