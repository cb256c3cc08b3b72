"""Detectors of a pace that is lost, of memory that creeps, and of losses that stand still or repeat."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from tests.series import Series, logged, seen

from forensics.engine.pipeline import analyse
from forensics.model import Observation
from forensics.parsers.names import canonical


def about(values: Sequence[float], noise: float = 0.03, seed: int = 3) -> list[float]:
    rng = random.Random(seed)
    return [v * (1 + rng.gauss(0, noise)) for v in values]


def falling(n: int, start: float = 4.0, end: float = 2.0) -> list[float]:
    return about([end + (start - end) * math.exp(-3 * i / n) for i in range(n)], 0.01)


# --- pace -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "usual", "late"), [("throughput", 5e4, 9e3), ("tflops", 410.0, 50.0)])
def test_a_pace_that_is_lost(name: str, usual: float, late: float) -> None:
    found = seen(logged({"loss": falling(300), name: about([usual] * 150 + [late] * 150)}, every=10))
    assert set(found) == {"throughput-collapse"}
    assert found["throughput-collapse"].step == 1500
    assert found["throughput-collapse"].weight <= 0.6


@pytest.mark.parametrize(
    "series",
    [
        {"throughput": about([5e4] * 150 + [3e4] * 150)},
        {"throughput": about([5e4] * 285 + [9e3] * 15)},  # an evaluation at the end
        {"throughput": about([5e4 if i % 50 > 5 else 9e3 for i in range(300)])},  # evaluations in between
        {"throughput": about([9e3] * 12 + [5e4] * 288)},  # warm-up
        {"throughput": about([5e4] * 100 + [9e3] * 60 + [5e4] * 140)},  # it came back
        {"throughput": [5e4 / (1 + i / 50) for i in range(300)]},  # a mean over the run
        {"step_time": about([0.5] * 150 + [0.8] * 150)},
        {"step_time": about([0.5] * 150 + [2.5] * 150), "loss": about([2.3] * 150 + [1.9] * 150, 0.001)},  # other data
        # Longer sequences, by the running count of tokens.
        {
            "step_time": about([0.5] * 150 + [2.5] * 150),
            "tokens": list(itertools.accumulate([4e6] * 150 + [16e6] * 150)),
        },
        {"step_time": [3.0 + 0.5 * i for i in range(300)]},  # since the start
        {"step_time": [0.5 * (i % 60) for i in range(300)]},  # since the start of the epoch
        {"throughput": about([1e3 / (1 + (i % 60) / 12) for i in range(300)])},  # sorted by length in each epoch
        {"throughput": about([1e3 - 1.6 * i for i in range(300)])},  # to a half
        {
            "throughput": about([1e3 / (1 + i / 60) for i in range(300)]),
            "loss": about([2 + i / 300 for i in range(300)]),
        },
        {"throughput": about([5e4] * 150 + [9e3] * 150), "batch_size": [64.0] * 150 + [320.0] * 150},
        {"throughput": about([5e4] * 150 + [9e3] * 150), "reward": [0.1] * 300},  # longer answers
        {"throughput": about([5e4] * 150 + [9e3] * 150), "loss": about([2.3] * 150 + [1.9] * 150, 0.001)},  # other data
    ],
    ids=[
        "a-third",
        "end",
        "evaluations",
        "warm-up",
        "back",
        "mean",
        "time-a-third",
        "time-data",
        "sequences",
        "elapsed",
        "elapsed-of-epoch",
        "sorted",
        "slightly",
        "harder",
        "batch",
        "answers",
        "data",
    ],
)
def test_a_pace_that_is_no_finding(series: Series) -> None:
    assert "throughput-collapse" not in seen(logged({"loss": falling(300), **series}))


@pytest.mark.parametrize(
    "series",
    [
        {"step_time": about([0.3] * 150 + [3.3] * 150)},
        {"step_time": about([1.2] * 150 + [2.9] * 150), "batch_size": [512.0] * 300},
        {"step_time": about([0.3] * 150 + [3.3] * 150), "tokens": [4e6 * i for i in range(300)]},
        {"mfu": about([38.0] * 150 + [3.7] * 150), "step_time": about([0.135] * 150 + [1.4] * 150)},
    ],
    ids=["time", "batch", "tokens", "mfu"],
)
def test_a_pace_that_is_known_by_other_figures(series: Series) -> None:
    found = seen(logged({"loss": falling(300), **series}, every=10))
    assert set(found) == {"throughput-collapse"}
    assert found["throughput-collapse"].step == 1500
    assert (found["throughput-collapse"].weight < 0.6) is ("mfu" not in series)


@pytest.mark.parametrize("name", ["throughput", "step_time"])
def test_a_pace_that_is_lost_little_by_little(name: str) -> None:
    times = [1e-3 * (1 + 5 * i / 500) for i in range(500)]
    found = seen(logged({"loss": falling(500), name: about([1 / t if name == "throughput" else t for t in times])}))
    assert set(found) == {"throughput-collapse"}
    assert 70 <= (found["throughput-collapse"].step or 0) <= 250
    assert "little by little" in (found["throughput-collapse"].note or "")


def _waiting(own: Sequence[float], others: Sequence[float], whole: Sequence[float]) -> pl.DataFrame:
    """Eight ranks with equal steps, of which rank 6 has data times of its own."""
    return pl.concat(
        logged(
            {"loss": falling(120), "data_time": own if r == 6 else about(others, 0.1, r), "step_time": whole}, rank=r
        )
        for r in range(8)
    )


@pytest.mark.parametrize(("start", "step"), [(0, 0), (40, 40)])
def test_a_rank_that_waits_for_its_data_while_the_others_wait_for_it(start: int, step: int) -> None:
    own = [0.02] * start + about([2.9] * (120 - start))
    found = seen(_waiting(own, [0.02] * 120, [0.4] * start + about([3.3] * (120 - start))))
    assert found["slow-rank"].culprits == (6,)
    assert found["slow-rank"].step == step


@pytest.mark.parametrize(
    ("own", "others", "whole"),
    [
        ([2.9] * 120, [2.8] * 120, [3.3] * 120),  # all of them
        ([0.2] * 120, [0.02] * 120, [3.3] * 120),  # hidden behind the step
        ([2.9 if i % 10 == 0 else 0.02 for i in range(120)], [0.02] * 120, [3.3] * 120),
        ([2.9] * 60 + [0.02] * 60, [0.02] * 120, [3.3] * 120),  # it is over
    ],
    ids=["all", "little", "now-and-then", "over"],
)
def test_data_times_that_are_no_finding(own: list[float], others: list[float], whole: list[float]) -> None:
    assert "slow-rank" not in seen(_waiting(own, others, whole))


def test_a_new_attempt_has_a_pace_of_its_own() -> None:
    before = logged({"loss": falling(150), "throughput": about([5e4] * 150)})
    after = logged({"loss": falling(150), "throughput": about([9e3] * 150)}).with_columns(pl.col("line") + 150)
    assert "throughput-collapse" not in seen(pl.concat([before, after]))


def test_the_rank_whose_pace_is_lost() -> None:
    slow, usual = about([5e4] * 150 + [9e3] * 150), about([5e4] * 300)
    parts = [logged({"loss": falling(300), "throughput": slow if r == 2 else usual}, rank=r) for r in range(4)]
    assert seen(pl.concat(parts))["throughput-collapse"].culprits == (2,)
    parts = [logged({"loss": falling(300), "throughput": about(slow, 0.01, r)}, rank=r) for r in range(4)]
    assert seen(pl.concat(parts))["throughput-collapse"].culprits == ()


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory", "host_memory"])
def test_memory_that_creeps(name: str) -> None:
    found = seen(logged({"loss": falling(200), name: about([20 + 0.2 * i for i in range(200)], 0.002)}, every=10))
    assert set(found) == {"memory-creep"}
    assert found["memory-creep"].weight <= 0.6


@pytest.mark.parametrize(
    "memory",
    [
        about([31.0] * 200),
        [20 + 15 * (1 - math.exp(-i / 30)) for i in range(200)],  # a cache that fills
        [(20.0, 24.0, 27.0, 33.0, 36.0)[i // 40] for i in range(200)],  # a peak that is held
        [20 + 0.2 * (i % 50) for i in range(200)],  # given back
        [20 + 0.01 * i for i in range(200)],  # a tenth more
        [20 + 2.0 * i for i in range(40)],  # short
    ],
    ids=["flat", "fills", "peak", "given-back", "little", "short"],
)
def test_memory_that_is_no_finding(memory: list[float]) -> None:
    assert "memory-creep" not in seen(logged({"loss": falling(len(memory)), "memory": memory}))


def test_memory_that_crept_before_the_run_ended_is_shown_beside_its_end(tmp_path: Path) -> None:
    lines = [f"step {i * 10} loss: {2 - i / 200:.4f} mem_allocated: {20 + 0.4 * i:.2f}GB" for i in range(140)]
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 90.00 MiB is free."
    log = tmp_path / "train.log"
    for end, roots in (([], ["memory-creep"]), ([oom], ["cuda-oom"])):
        log.write_text("\n".join([*lines, *end]) + "\n")
        findings = analyse([str(tmp_path)]).findings
        assert [f.name for f in findings if f.role == "root"] == roots
        assert "memory-creep" in [f.name for f in findings]


@pytest.mark.parametrize("name", ["ram_used_gb", "cpu_mem_gb", "rss_gb"])
def test_a_kill_while_host_memory_grew_is_likely_for_want_of_it(tmp_path: Path, name: str) -> None:
    lines = [f"step={i * 10} loss={2 - i / 200:.4f} {name}={20 + 0.4 * i:.2f}" for i in range(140)]
    flat = [f"step={i * 10} loss={2 - i / 200:.4f} {name}={20 + i % 7 / 10:.2f}" for i in range(140)]
    log = tmp_path / "train.log"
    for said, root in ((lines, "host-oom"), (flat, "sigkill-unknown-sender")):
        log.write_text("\n".join([*said, "Killed"]) + "\n")
        findings = analyse([str(tmp_path)]).findings
        assert [f.name for f in findings if f.role == "root"] == [root]
    assert findings[0].confidence < 0.7


def test_memory_of_a_device_is_not_what_the_kernel_kills_for(tmp_path: Path) -> None:
    lines = [f"step={i * 10} loss={2 - i / 200:.4f} gpu_mem_gb={20 + 0.4 * i:.2f}" for i in range(140)]
    (tmp_path / "train.log").write_text("\n".join([*lines, "Killed"]) + "\n")
    assert [f.name for f in analyse([str(tmp_path)]).findings if f.role == "root"] == ["sigkill-unknown-sender"]


# --- skipped steps --------------------------------------------------------------------------------------------------


def test_steps_that_are_skipped_all_along() -> None:
    skipped = [3.0 + i % 3 for i in range(60)]
    found = seen(logged({"loss": falling(60), "skipped_steps": skipped, "loss_scale": [65536.0] * 60}, every=10))
    assert set(found) == {"steps-skipped-often"}
    assert "40%" in (found["steps-skipped-often"].note or "")


@pytest.mark.parametrize(
    ("skipped", "every"),
    [
        ([9.0] * 10 + [0.0] * 50, 10),  # calibration
        ([float(i % 10 == 0) for i in range(60)], 10),  # one step of a hundred
        ([4.0] * 35 + [0.0] * 25, 10),  # it is over
        ([4.0] * 25, 10),  # too few
        ([4.0] * 60, 2),  # not a count of these steps
    ],
    ids=["calibration", "seldom", "over", "few", "other-count"],
)
def test_skipped_steps_that_are_no_finding(skipped: list[float], every: int) -> None:
    series = {"loss": falling(len(skipped)), "skipped_steps": skipped, "loss_scale": [65536.0] * len(skipped)}
    assert "steps-skipped-often" not in seen(logged(series, every=every))


def test_steps_that_are_skipped_from_some_record_on() -> None:
    skipped = [float(i % 20 == 0) for i in range(80)] + [3.0 + i % 3 for i in range(60)]
    series = {"loss": falling(140), "skipped_steps": skipped, "loss_scale": [8192.0] * 140}
    found = seen(logged(series, every=10))["steps-skipped-often"]
    assert found.step is not None and abs(found.step - 800) <= 20
    assert "40%" in (found.note or "") and "of those up to step" in (found.note or "")


def test_steps_that_are_flagged_one_by_one() -> None:
    rng = random.Random(2)
    skipped = [float(rng.random() < (0.003 if i < 400 else 0.33)) for i in range(800)]
    series = {"loss": falling(800), "skipped_steps": skipped, "loss_scale": [65536.0] * 400 + [8192.0] * 400}
    found = seen(logged(series))["steps-skipped-often"]
    assert found.step is not None and abs(found.step - 400) <= 30


def test_a_burst_of_skipped_steps_at_the_end_may_be_a_calibration() -> None:
    skipped = [0.0] * 80 + [9.0, 8.0, 5.0]
    assert not seen(logged({"loss": falling(83), "skipped_steps": skipped}, every=10))


@pytest.mark.parametrize("said", ["overflow", "skipped_steps"])
def test_a_scale_at_its_minimum_from_the_first_record_on(said: str) -> None:
    """Every step is skipped, and the scale never fell: as after a resume with a scaler that is used up."""
    found = seen(logged({"loss": [2.1] * 60, "loss_scale": [1.0] * 60, said: [1.0] * 60}, first=4001))
    assert {n for n, o in found.items()} >= {"loss-scale-stall"} and "grad-scaler-collapse" not in found
    assert found["loss-scale-stall"].step == 4001
    assert "every step is skipped" in (found["loss-scale-stall"].note or "")


def test_overflow_messages_tell_the_step_of_the_next_record() -> None:
    notices = logged({"loss_scale": [1.0] * 40, "overflow": [1.0] * 40}).with_columns(step=pl.lit(None, dtype=pl.Int64))
    told = logged({"skipped_total": [10.0, 20.0, 30.0]}, first=4010, every=10)
    told = told.with_columns(line=pl.Series([11, 21, 31], dtype=pl.Int64))
    metrics = pl.concat([notices.filter(~pl.col("line").is_in([11, 21, 31])), told]).sort("line", maintain_order=True)
    stall = seen(metrics)["loss-scale-stall"]
    assert (stall.step, stall.step_is) == (4010, "first_logged")


@pytest.mark.parametrize(
    ("scale", "skipped", "every"),
    [
        ([1.0] * 60, [0.0] * 60, 1),  # bf16
        ([1.0] * 60, [1.0] * 60, 100),  # one of a hundred steps
        ([512.0] * 60, [1.0] * 60, 1),
    ],
    ids=["bf16", "seldom", "higher"],
)
def test_scales_that_stand_and_are_no_stall(scale: list[float], skipped: list[float], every: int) -> None:
    found = seen(logged({"loss": falling(60), "loss_scale": scale, "skipped_steps": skipped}, every=every))
    assert "loss-scale-stall" not in found


def test_a_value_loss_that_is_lost_with_the_loss_did_not_explode() -> None:
    nan = [math.nan] * 10
    reward = about([20.0 + i for i in range(40)])
    value = [79.0 - 0.5 * i for i in range(30)]
    loss = [v / 2 for v in value]
    assert set(seen(logged({"reward": reward, "loss": [*loss, *nan], "value_loss": [*value, *nan]}))) == {"nan-loss"}
    alone = seen(logged({"reward": reward, "loss": [*loss, *loss[:10]], "value_loss": [*value, *nan]}))
    assert "value-loss-explosion" in alone
    grown = [*value[:22], *(79.0 * 4**i for i in range(8)), *nan]
    assert "value-loss-explosion" in seen(logged({"reward": reward, "loss": [*loss, *nan], "value_loss": grown}))
    # A line of its own for each metric of a step, as in tables.
    table = [logged({n: v}) for n, v in (("reward", reward), ("loss", [*loss, *nan]), ("value_loss", [*value, *nan]))]
    table = [t.with_columns(line=pl.col("line") * 3 + k) for k, t in enumerate(reversed(table))]
    assert set(seen(pl.concat(table).sort("line"))) == {"nan-loss"}


def test_steps_skipped_while_the_scale_falls_are_another_finding() -> None:
    series = {
        "loss": falling(60),
        "skipped_steps": [4.0] * 60,
        "loss_scale": [65536.0 / 2 ** (i // 4) for i in range(60)],
    }
    assert "steps-skipped-often" not in seen(logged(series, every=10))


def test_names_of_memory() -> None:
    assert {canonical(key) for key in ("mem_allocated", "gpu_mem_gb", "memory/allocated")} == {"memory"}
    assert canonical("rss_gb") == "host_memory"


# --- losses that stand still ----------------------------------------------------------------------------------------

QUARTER = 1.3862943649291992


def test_a_loss_that_is_always_the_same() -> None:
    loss, lr = [QUARTER] * 60, [1e-3] * 60
    for series in ({"grad_norm": [0.0] * 60}, {"grad_norm": [0.731] * 60}, {}):
        found = seen(logged({"loss": loss, "lr": lr, **series}, every=10))
        assert set(found) == {"loss-constant"}
        assert found["loss-constant"].weight <= 0.6


@pytest.mark.parametrize(
    "series",
    [
        {"loss": [0.02] * 60},
        {"loss": [0.02] * 60, "grad_norm": about([0.1] * 60)},
        {"loss": [QUARTER] * 60, "grad_norm": about([0.1] * 60)},  # something is learned
        {"loss": [0.0] * 60, "grad_norm": [1e-9] * 60},
        {"loss": [QUARTER] * 59 + [1.25], "grad_norm": [0.0] * 60},
        {"loss": [QUARTER] * 40, "grad_norm": [0.0] * 40},
        {"loss": [QUARTER] * 60, "reward": [0.1] * 60},
        {"loss": [QUARTER] * 60, "loss_scale": [65536 / 2**i for i in range(60)]},
        {"eval_loss": [QUARTER] * 60},
    ],
    ids=["rounded", "converged", "gradients", "zero", "moves", "short", "rewards", "scaler", "eval"],
)
def test_a_loss_that_only_looks_the_same(series: Series) -> None:
    assert "loss-constant" not in seen(logged(series, every=10))


def test_a_loss_and_a_gradient_of_zero_from_the_first_record_on() -> None:
    nothing = {"loss": [0.0] * 60, "grad_norm": [0.0] * 60, "lr": [1e-4 - 1e-6 * i for i in range(60)]}
    found = seen(logged(nothing, first=10, every=10))
    assert set(found) == {"loss-constant"}
    assert "no label counts" in (found["loss-constant"].note or "")
    assert not seen(logged(nothing, first=9000, every=10))  # a task that is solved, and logged anew
    epochs = pl.Series([0.02 * (i // 3) for i in range(180)])
    by_epoch = logged(nothing).with_columns(step=pl.lit(None, dtype=pl.Int64), epoch=epochs)
    assert set(seen(by_epoch)) == {"loss-constant"}  # as HF Trainer prints it, without a step
    assert not seen(by_epoch.with_columns(epoch=epochs + 5))


def test_records_of_one_step_are_one() -> None:
    metrics = logged({"loss": [QUARTER] * 60}).with_columns(step=pl.lit(100, dtype=pl.Int64))
    assert "loss-constant" not in seen(metrics)


@pytest.mark.parametrize(("classes", "noise"), [(1000, 0.002), (50257, 0.001), (10, 0.0002)])
def test_a_loss_that_stands_at_chance(classes: int, noise: float) -> None:
    found = seen(logged({"loss": about([math.log(classes)] * 120, noise), "lr": [1e-3] * 120}, every=50))
    assert set(found) == {"loss-at-chance"}
    assert found["loss-at-chance"].captures == {"classes": str(classes)}


def test_a_loss_at_chance_whose_steps_are_counted_by_epoch() -> None:
    steps = pl.Series([50 * (i % 30) for i in range(120)], dtype=pl.Int64)
    epochs = pl.Series([float(i // 30) for i in range(120)])
    metrics = logged({"loss": about([math.log(1000)] * 120, 0.001)})
    assert "loss-at-chance" in seen(metrics.with_columns(step=steps, epoch=epochs))
    assert "loss-at-chance" not in seen(metrics.with_columns(step=steps))  # it may have begun anew


@pytest.mark.parametrize(("epochs", "told"), [(20, True), (14, False)])
def test_a_loss_at_chance_over_many_epochs_of_a_few_records(epochs: int, told: bool) -> None:
    steps = pl.Series([200 * (1 + i % 3) for i in range(3 * epochs)], dtype=pl.Int64)
    metrics = logged({"loss": [2.303] * 3 * epochs})
    of_epochs = pl.Series([float(1 + i // 3) for i in range(3 * epochs)])
    assert ("loss-at-chance" in seen(metrics.with_columns(step=steps, epoch=of_epochs))) is told


@pytest.mark.parametrize(
    ("other", "epochs", "told"), [("validation", 30, True), ("validation", 12, False), ("eval", 30, False)]
)
def test_epochs_as_keras_counts_them_in_its_event_files(other: str, epochs: int, told: bool) -> None:
    values = {"loss": about([math.log(2)] * epochs, 0.00002), "accuracy": [0.5] * epochs}
    parts = [
        logged(values).with_columns(
            source=pl.lit(f"logs/{folder}/events.out.tfevents.1.h"), line=pl.lit(None, pl.Int64)
        )
        for folder in ("train", other)
    ]
    assert ("loss-at-chance" in seen(pl.concat(parts))) is told


@pytest.mark.parametrize(
    ("loss", "first"),
    [
        (about([math.log(10)] * 120, 0.005), 0),  # a language model may be there
        (about([math.log(2)] * 120, 0.0005), 0),  # hard binary tasks are
        (about([6.0] * 120, 0.001), 0),
        (about([math.log(1000) + 0.03 - 0.0005 * i for i in range(120)], 0.001), 0),  # it falls
        (about([math.log(1000)] * 120, 0.002), 90_000),  # not from the start
        (about([math.log(1000)] * 90, 0.002), 0),
    ],
    ids=["level", "binary", "other", "falls", "late", "short"],
)
def test_a_loss_near_chance_that_is_no_finding(loss: list[float], first: int) -> None:
    assert "loss-at-chance" not in seen(logged({"loss": loss}, first=first, every=50))


def test_a_loss_at_chance_while_the_rate_still_grows() -> None:
    series = {"loss": about([math.log(1000)] * 120, 0.001), "lr": [1e-8 * (i + 1) for i in range(120)]}
    assert "loss-at-chance" not in seen(logged(series, every=50))


@pytest.mark.parametrize(
    ("classes", "name", "share", "noise"),
    [(10, "accuracy", 0.1, 0.005), (100, "accuracy", 1.0, 0.01), (17, "eval_accuracy", 1 / 17, 0.005)],
    ids=["ten", "per-cent", "any-number"],
)
def test_a_loss_and_an_accuracy_at_chance(classes: int, name: str, share: float, noise: float) -> None:
    loss, guessed = about([math.log(classes)] * 120, noise), about([share] * 120, 0.1, seed=5)
    found = seen(logged({"loss": loss, name: guessed, "lr": [1e-3] * 120}, every=50))
    assert set(found) == {"loss-at-chance"}
    assert abs(int(found["loss-at-chance"].captures["classes"]) - classes) <= 0.01 * classes
    for better in (1.5 * share, 0.4 * share):
        assert not seen(logged({"loss": loss, name: about([better] * 120, 0.1), "lr": [1e-3] * 120}, every=50))
    learns = [*guessed[:90], *about([1.5 * share] * 30, 0.1)]
    assert not seen(logged({"loss": loss, name: learns, "lr": [1e-3] * 120}, every=50))


@pytest.mark.parametrize("stepless", [True, False])
@pytest.mark.parametrize(
    ("level", "noise", "shares", "told"),
    [
        (math.log(10), 0.0015, [0.1], True),
        (math.log(10), 0.0015, [0.1, 10.0], False),  # a share and a percentage
        (math.log(10), 0.0015, [0.1, 0.104], False),
        (math.log(10), 0.0015, [], False),
        (math.log(10), 0.0100, [0.1], False),  # some batches are learned
        (math.log(10) - 0.005, 0.0015, [0.1], False),
        (math.log(2), 0.0015, [0.5], False),  # hard binary tasks are there
        (math.log(3), 0.0015, [0.3333], True),
    ],
)
def test_a_few_evaluations_at_chance(
    stepless: bool, level: float, noise: float, shares: list[float], told: bool
) -> None:
    """Dicts of HF Trainer: a loss every some steps, and an accuracy at the end of an epoch."""
    loss: list[float | None] = [round(v, 4) for v in about([level] * 117, noise)]
    metrics = logged({"loss": loss, "eval_accuracy": [*[None] * (117 - len(shares)), *shares]}, first=20, every=20)
    if stepless:
        epoch = (pl.col("line") * 20 / 782).round(2)
        metrics = metrics.with_columns(step=pl.lit(None, dtype=pl.Int64), epoch=epoch)
    assert ("loss-at-chance" in seen(metrics)) is told


def test_two_classes_at_chance_by_epochs() -> None:
    def told(accuracy: float, loss: float, epochs: int = 30) -> dict[str, Observation]:
        metrics = logged({"loss": about([loss] * epochs, 0.001), "eval_accuracy": about([accuracy] * epochs, 0.004)})
        return seen(metrics.with_columns(step=pl.lit(None, dtype=pl.Int64), epoch=pl.col("line").cast(pl.Float64) - 1))

    assert set(told(0.5, math.log(2))) == {"loss-at-chance"}
    assert not told(0.53, math.log(2))  # a hard task
    assert not told(0.5, 0.685)
    assert not told(0.5, math.log(2), 15)


def _by_epoch(loss: Sequence[float], accuracy: Sequence[float], step: int) -> pl.DataFrame:
    """A record an epoch, each at its last batch, as Keras prints it."""
    metrics = logged({"loss": loss, "eval_accuracy": accuracy})
    return metrics.with_columns(step=pl.lit(step, dtype=pl.Int64), epoch=pl.col("line").cast(pl.Float64))


def test_chance_in_records_that_count_the_batches_of_an_epoch() -> None:
    loss, accuracy = about([math.log(10)] * 20, 0.0001), [0.1] * 20
    assert set(seen(_by_epoch(loss, accuracy, 1563))) == {"loss-at-chance"}
    assert not seen(_by_epoch([v - 0.02 * i for i, v in enumerate(loss)], accuracy, 1563))
    assert not seen(_by_epoch(loss[:15], accuracy[:15], 1563))


@pytest.mark.parametrize(
    ("records", "each", "told"), [(300, 0.01, True), (150, 0.01, False), (300, 0.001, False)], ids=["", "few", "part"]
)
def test_chance_in_dicts_that_tell_fractions_of_an_epoch(records: int, each: float, told: bool) -> None:
    metrics = logged({"loss": about([math.log(32000)] * records, 0.0003), "lr": [1e-4] * records})
    epoch = (pl.col("line") * each).round(2)
    metrics = metrics.with_columns(step=pl.lit(None, dtype=pl.Int64), epoch=epoch)
    assert ("loss-at-chance" in seen(metrics)) is told


@pytest.mark.parametrize(
    ("series", "level", "told"),
    [
        ({"batch_size": [4096.0] * 120}, math.log(4096), True),
        ({"throughput": about([5603.0] * 120, 0.002), "step_time": [0.731] * 120}, math.log(4096), True),
        ({}, math.log(4096), False),
        ({"batch_size": [8192.0] * 120}, math.log(4096), False),
        ({"batch_size": [8.0] * 120}, math.log(8), False),
    ],
    ids=["said", "as-a-rate", "unknown", "other", "small"],
)
def test_a_contrastive_loss_at_chance(series: Series, level: float, told: bool) -> None:
    found = seen(logged({"loss": about([level] * 120, 0.0001), **series}, every=50))
    assert set(found) == ({"loss-at-chance"} if told else set())
    assert not told or abs(int(found["loss-at-chance"].captures["classes"]) - 4096) <= 40


def test_one_record_in_twenty_hides_no_chance_level() -> None:
    loss = about([math.log(1000)] * 200, 0.002)
    loss[::40] = [7.3] * 5
    assert "loss-at-chance" in seen(logged({"loss": loss}, every=50))
    loss[::10] = [7.3] * 20
    assert "loss-at-chance" not in seen(logged({"loss": loss}, every=50))


# --- a learning rate that is 0 --------------------------------------------------------------------------------------


def zero_rate(source: str, **series: Sequence[float]) -> dict[str, Observation]:
    made = {"loss": about([2.0] * 80, 0.01), "grad_norm": about([1.1] * 80), "lr": [0.0] * 80, **series}
    return seen(logged(made, every=10).with_columns(source=pl.lit(source)))


def test_a_rate_of_zero_while_gradients_arrive() -> None:
    assert set(zero_rate("metrics.csv")) == {"weights-not-updated"}


@pytest.mark.parametrize(
    ("source", "series"),
    [
        ("train.log", {}),
        ("metrics.csv", {"loss": falling(80)}),
        ("metrics.csv", {"lr": [1e-9, *[0.0] * 79]}),
        ("metrics.csv", {"grad_norm": [0.0] * 80}),
        ("metrics.csv", {"loss_scale": [65536.0 / 2 ** (i // 10) for i in range(80)]}),
        ("metrics.csv", {"reward": [0.1] * 80}),
    ],
    ids=["rounded", "learns", "warm-up", "no-gradient", "scaler", "rewards"],
)
def test_a_rate_of_zero_that_is_no_finding(source: str, series: dict[str, list[float]]) -> None:
    assert "weights-not-updated" not in zero_rate(source, **series)


def ended(**series: Sequence[float]) -> dict[str, Observation]:
    made = {
        "loss": [*falling(60, 3.0, 1.2), *about([1.2] * 60, 0.02)],
        "grad_norm": [*about([1.0] * 60), *[0.0] * 60],
        "lr": [*(2e-5 * (1 - i / 60) for i in range(60)), *[0.0] * 60],
    }
    return seen(logged({**made, **series}, every=10))


def test_updates_that_end_long_before_the_run() -> None:
    found = ended()
    assert set(found) == {"updates-ended-early"}
    assert found["updates-ended-early"].step == 600


def test_a_rate_that_ends_while_gradients_arrive() -> None:
    found = ended(grad_norm=about([1.0] * 120))
    assert set(found) == {"updates-ended-early"}
    assert found["updates-ended-early"].step == 600


ROUNDED = [*(round(4e-4 * 0.95**i, 4) for i in range(60)), *[0.0] * 60]  # of which 0.0000 says little


@pytest.mark.parametrize(
    "series",
    [
        {"grad_norm": about([1.0] * 120), "lr": ROUNDED},
        {"grad_norm": about([1.0] * 120), "loss": falling(120, 3.0, 1.2)},  # what is logged is not what trains
        {"lr": [2e-5] * 120},
        {"grad_norm": [*(0.3 * 0.93**i for i in range(60)), *[0.0] * 60], "lr": ROUNDED},
        {"grad_norm": [*about([0.02] * 60), *[0.0] * 60], "lr": ROUNDED},
        {"loss": [*falling(60, 3.0, 0.001), *[0.0] * 60]},
        {"grad_norm": [*about([1.0] * 60), *[0.0] * 59, 0.4], "lr": ROUNDED},
        {"loss_scale": [65536.0 / 2 ** max(0, i - 60) for i in range(120)]},
    ],
    ids=["gradients", "learns", "rate", "fades", "small", "solved", "comes-back", "scaler"],
)
def test_updates_that_do_not_end(series: dict[str, list[float]]) -> None:
    assert "updates-ended-early" not in ended(**series)


# --- one slow rank --------------------------------------------------------------------------------------------------


def ranks(times: Sequence[Sequence[float]]) -> pl.DataFrame:
    return pl.concat([logged({"loss": falling(len(t)), "step_time": t}, rank=r) for r, t in enumerate(times)])


def test_the_rank_that_became_slow() -> None:
    times = [about([0.5] * 100, seed=r) for r in range(4)]
    times[2] = about([0.5] * 40 + [0.9] * 60)
    found = seen(ranks(times))
    assert set(found) == {"slow-rank"}
    assert (found["slow-rank"].culprits, found["slow-rank"].step) == ((2,), 40)


@pytest.mark.parametrize(
    "slow",
    [
        about([0.5] * 40 + [0.6] * 60),
        about([0.5 if i % 9 else 2.0 for i in range(100)]),  # now and then
        about([0.5] * 40 + [0.9] * 30 + [0.5] * 30),  # it was over
        about([0.9] * 100),  # a stage with more layers
    ],
    ids=["little", "now-and-then", "over", "always"],
)
def test_a_rank_whose_times_are_no_finding(slow: list[float]) -> None:
    assert not seen(ranks([slow, *(about([0.5] * 100, seed=r) for r in range(3))]))


@pytest.mark.parametrize(("before", "after", "step"), [(20, 20, 20), (12, 28, 12), (19, 20, None), (28, 12, None)])
def test_twenty_slow_records_are_enough_after_as_many_in_all_before(before: int, after: int, step: int | None) -> None:
    times = [about([0.5] * (before + after), seed=r) for r in range(4)]
    times[2] = about([0.5] * before + [1.1] * after)
    found = seen(ranks(times)).get("slow-rank")
    assert (found.step if found else None) == step


def test_many_slow_ranks_and_pairs_of_ranks_blame_nobody() -> None:
    slow, usual = about([0.5] * 40 + [0.9] * 60), about([0.5] * 100, seed=7)
    assert "slow-rank" not in seen(ranks([slow, slow, usual, usual]))
    assert "slow-rank" not in seen(ranks([slow, usual]))


# --- a rate that the schedule does not move -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "rates", "epochs", "found"),
    [
        ({"lr_scheduler_type": "cosine", "warmup_ratio": 0.1}, [2e-5] * 60, 3.0, ["lr-not-as-scheduled"]),
        ({"lr_scheduler_type": "constant"}, [2e-5] * 60, 3.0, []),
        ({"lr_scheduler_type": "constant_with_warmup"}, [2e-5] * 60, 3.0, []),
        ({"lr_scheduler_type": "cosine"}, [2e-5 * (1 - i / 70) for i in range(60)], 3.0, []),
        ({"lr_scheduler_type": "cosine"}, [2e-5] * 60, 0.1, []),  # rounded, and only begun
        ({"lr_scheduler_type": "cosine"}, [2e-5] * 20, 3.0, []),
        ({"learning_rate": 2e-5}, [2e-5] * 60, 3.0, []),
    ],
    ids=["still", "constant", "warm-up", "moves", "begun", "short", "unstated"],
)
def test_a_rate_that_stands_still(
    tmp_path: Path, settings: dict[str, object], rates: list[float], epochs: float, found: list[str]
) -> None:
    (tmp_path / "training_args.json").write_text(json.dumps({"learning_rate": 2e-5, **settings}))
    losses = falling(len(rates))
    records = [
        {
            "loss": round(loss, 4),
            "grad_norm": 0.9,
            "learning_rate": rate,
            "epoch": round(epochs * (i + 1) / len(rates), 3),
        }
        for i, (loss, rate) in enumerate(zip(losses, rates, strict=True))
    ]
    (tmp_path / "train.log").write_text("".join(f"{r}\n" for r in records))
    assert [f.name for f in analyse([str(tmp_path)]).findings if f.role == "root"] == found


@pytest.mark.parametrize(
    ("settings", "rates", "found"),
    [
        ({"lr_scheduler_type": "cosine", "max_steps": 3000}, [3e-4] * 60, ["lr-not-as-scheduled"]),
        ({"lr_scheduler": "linear", "max_train_steps": 3000}, [3e-4] * 60, ["lr-not-as-scheduled"]),
        ({"lr_scheduler": "cosine", "max_steps": 30000}, [3e-4] * 60, []),  # only begun
        ({"lr_scheduler": "cosine"}, [3e-4] * 60, []),
        ({"lr_scheduler": "cosine", "max_steps": -1}, [3e-4] * 60, []),  # as HF writes it where epochs count
        ({"lr_scheduler": "cosine", "max_steps": 3000}, [3e-4] * 59 + [2.9e-4], []),
        ({"lr_scheduler": "constant", "max_steps": 3000}, [3e-4] * 60, []),
    ],
    ids=["hf", "diffusers", "begun", "unplanned", "by-epochs", "moves", "constant"],
)
@pytest.mark.parametrize("printed", [True, False])
def test_a_rate_that_stands_still_through_the_steps_that_are_planned(
    tmp_path: Path, printed: bool, settings: dict[str, object], rates: list[float], found: list[str]
) -> None:
    lines = [f"step {50 * i} loss {v:.4f} lr {r:.2e}" for i, (v, r) in enumerate(zip(falling(60), rates, strict=True))]
    stated = json.dumps({**settings, "warmup_steps": 100, "learning_rate": 3e-4})
    if printed:
        lines.insert(0, f"config: {stated}")
    else:
        (tmp_path / "args.json").write_text(stated)
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    assert [f.name for f in analyse([str(tmp_path)]).findings if f.role == "root"] == found


@pytest.mark.parametrize(
    ("settings", "first", "found"),
    [
        ({"lr_scheduler_type": "cosine", "warmup_steps": 500}, 0, ["lr-not-as-scheduled"]),
        ({"lr_scheduler": "linear", "lr_warmup_steps": 500}, 0, ["lr-not-as-scheduled"]),
        ({"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 500}, 0, []),
        ({"lr_scheduler_type": "cosine", "warmup_steps": 0}, 0, []),
        ({"lr_scheduler_type": "cosine", "warmup_steps": 500}, 600, []),  # resumed behind it
    ],
    ids=["hf", "diffusers", "constant", "none", "resumed"],
)
def test_a_rate_that_stands_still_in_a_warm_up(
    tmp_path: Path, settings: dict[str, object], first: int, found: list[str]
) -> None:
    lines = [f"step {first + 50 * i} loss {v:.4f} lr 3.00e-04" for i, v in enumerate(falling(60))]
    (tmp_path / "training_args.json").write_text(json.dumps(settings))
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    assert [f.name for f in analyse([str(tmp_path)]).findings if f.role == "root"] == found


# --- weights that stand still ---------------------------------------------------------------------------------------


def test_weights_that_stand_still_without_a_logged_rate() -> None:
    series = {"loss": about([2.3] * 60, 0.01), "update_ratio": [0.0] * 60, "grad_norm": about([1.0] * 60)}
    assert set(seen(logged(series))) == {"weights-not-updated"}
    assert "weights-not-updated" not in seen(logged({**series, "lr": [0.0] * 60}))
    assert "weights-not-updated" not in seen(logged({**series, "grad_norm": [0.0] * 60}))


# --- the loss on held-out data ---------------------------------------------------------------------------------------


def evaluated(eval_loss: Sequence[float], loss: Sequence[float], **more: Sequence[float]) -> dict[str, Observation]:
    """One evaluation every tenth record."""
    sparse = [eval_loss[i // 10] if i % 10 == 9 else None for i in range(10 * len(eval_loss))]
    return seen(logged({"loss": loss, "eval_loss": sparse, **more}, every=10))


def test_a_held_out_loss_that_explodes() -> None:
    found = evaluated([2.0] * 6 + [2e9] * 6, falling(120))
    assert set(found) == {"eval-loss-explodes"}
    assert found["eval-loss-explodes"].step == 690


@pytest.mark.parametrize(
    ("eval_loss", "more"),
    [
        ([2.0] * 6 + [2e9] + [2.0] * 5, {}),  # one evaluation
        ([2.0] * 6 + [60.0] * 6, {}),  # below a hundred times
        ([2.0] * 10 + [2e9] * 2, {}),  # too few
        ([1e-3] * 6 + [2.0] * 6, {}),  # no more than the training loss
        ([2.0] * 6 + [2e9] * 6, {"reward": [0.1] * 120}),
    ],
    ids=["once", "less", "few", "training", "rewards"],
)
def test_a_held_out_loss_that_does_not_explode(eval_loss: list[float], more: dict[str, list[float]]) -> None:
    assert "eval-loss-explodes" not in evaluated(eval_loss, falling(120), **more)


def test_over_fitting_is_told_and_no_failure(tmp_path: Path) -> None:
    rises = [1.5 - 0.1 * i for i in range(6)] + [1.0 + 0.05 * i for i in range(14)]
    assert set(evaluated(rises, falling(200, 3.0, 0.1))) == {"overfitting"}
    lines = (
        f"Epoch {i + 1}/60 train_loss={3 * 0.93**i:.4f} val_loss={abs(i - 15) / 20 + 0.5:.4f}\n" for i in range(60)
    )
    (tmp_path / "train.log").write_text("".join(lines) + "Training complete\n")
    diagnosis = analyse([str(tmp_path)])
    assert diagnosis.verdict == "healthy"
    assert [(f.name, f.role) for f in diagnosis.findings] == [("overfitting", "context")]


@pytest.mark.parametrize(
    ("eval_loss", "loss"),
    [
        ([1.5 - 0.04 * i for i in range(20)], falling(200, 3.0, 0.1)),
        (about([1.0] * 20, 0.05), falling(200, 3.0, 0.1)),  # flat
        ([1.5 - 0.1 * i for i in range(6)] + [1.0 + 0.05 * i for i in range(14)], about([1.0] * 200)),
        ([1.5 - 0.05 * i for i in range(17)] + [1.2, 1.3, 1.4], falling(200, 3.0, 0.1)),  # at the end only
    ],
    ids=["falls", "flat", "training-stands", "end"],
)
def test_held_out_losses_that_are_no_over_fitting(eval_loss: list[float], loss: list[float]) -> None:
    assert "overfitting" not in evaluated(eval_loss, loss)


# --- what a collapse of the loss scale says --------------------------------------------------------------------------


def test_a_descent_to_the_lowest_scale_is_counted_from_its_start(tmp_path: Path) -> None:
    scales = [65536 >> k for k in range(17)]
    lines = [f"steps: {10 * k} loss: {3 - 0.1 * k:.4f} iter time (s): 0.812 samples/sec: 39.4\n" for k in range(1, 8)]
    lines += [
        f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {a}, reducing to {b}\n"
        for a, b in itertools.pairwise(scales)
    ]
    lines.append("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n")
    (tmp_path / "train.log").write_text("".join(lines))
    diagnosis = analyse([str(tmp_path)])
    collapse = next(f for f in diagnosis.findings if f.role == "root")
    assert collapse.name == "grad-scaler-collapse"
    assert any("16 steps in a row overflow, from line 8 on" in note for note in collapse.notes)
    assert "loss-scale-calibration" not in {f.name for f in diagnosis.findings}


# --- a run that is stopped because it diverged ----------------------------------------------------------------------

_BY_HAND = '^CTraceback (most recent call last):\n  File "/srv/train.py", line 60, in <module>\n    loss.backward()\nKeyboardInterrupt\n'
_CANCELLED = "slurmstepd: error: *** JOB 4 ON n3 CANCELLED AT 2026-11-20T10:00:01 ***\n"


@pytest.mark.parametrize("end", [_BY_HAND, _CANCELLED], ids=["ctrl-c", "scancel"])
def test_a_stop_follows_from_what_it_was_stopped_for(tmp_path: Path, end: str) -> None:
    falls = [3 * 0.99**i for i in range(100)]
    for curve, first in (
        ([*falls, *(1.1 * 1.08**i for i in range(60))], "loss-divergence"),
        ([*falls, *[math.nan] * 20], "nan-loss"),
        (falls, None),
    ):
        lines = [f"step {10 * i} loss {v:.4f} lr 0.0003" for i, v in enumerate(curve)]
        (tmp_path / "train.log").write_text("\n".join(lines) + "\n" + end)
        diagnosis = analyse([str(tmp_path)])
        roots = [f.name for f in diagnosis.findings if f.role == "root"]
        assert diagnosis.verdict == ("interrupted" if first is None else "diverged")
        assert roots == [first] if first else len(roots) == 1
