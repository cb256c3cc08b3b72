"""Detectors on small tables made by hand: each shape as trouble, and as the healthy run that looks like it."""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.engine.counters import counting_batches
from forensics.engine.detectors import REGISTRY, run_detectors
from forensics.engine.steps import step_clock
from forensics.model import METRICS_COLUMNS, Evidence, Observation, schema
from forensics.signatures.schema import EvidenceRule, Signature, SignatureError, load_catalogue

NAN = math.nan


def choices(detector: str) -> list[Mapping[str, object]]:
    """What a detector is to be told: nothing, or where it has to be, what the signatures tell it."""
    needed = [p for p in inspect.signature(REGISTRY[detector]).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if all(p.default is not p.empty for p in needed):
        return [{}]
    return [r.parameters for s in load_catalogue().values() for r in s.evidence if r.detector == detector]


CHOICES = {name: choices(name) for name in REGISTRY}
Rows = list[dict[str, object]]


def rows(
    series: Mapping[str, Sequence[float | None]],
    *,
    source: str = "train.log",
    rank: int | None = None,
    attempt: int | None = None,
    first: int = 1,
    every: int = 1,
    steps: bool = True,
    epochs: Sequence[float] | None = None,
    begin: float | None = None,
    first_line: int = 1,
) -> Rows:
    """One record a line (or, for an event file, a step) from columns of values; None leaves the value out."""
    binary = "tfevents" in source
    made: Rows = []
    for i in range(max(map(len, series.values()))):
        for name, values in series.items():
            if i < len(values) and values[i] is not None:
                made.append(
                    {
                        "source": source,
                        "line": None if binary else first_line + i,
                        "rank": rank,
                        "attempt": attempt,
                        "step": first + i * every if steps else None,
                        "epoch": epochs[i] if epochs else None,
                        "time": begin + i if begin is not None else None,
                        "name": name,
                        "value": float(values[i] or 0.0),
                    }
                )
    return made


def frame(*parts: Iterable[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame([row for part in parts for row in part], schema=schema(METRICS_COLUMNS))


def seen(metrics: pl.DataFrame, observations: Sequence[Observation] = ()) -> dict[str, Observation]:
    """Detector -> its observation, of all detectors."""
    found = {}
    for name, detector in REGISTRY.items():
        for choice in CHOICES[name]:
            result = detector(metrics, observations, **choice)
            assert len(result) <= 1, name
            if result:
                found[name] = result[0]
    return found


def falling(n: int, start: float = 4.0, end: float = 1.5, noise: float = 0.03, seed: int = 1) -> list[float]:
    random.seed(seed)
    return [end + (start - end) * math.exp(-3 * i / n) + random.gauss(0, noise) for i in range(n)]


LOG, EVENTS = "train.log", "tb/events.out.tfevents.1.node.1.0"
EITHER = pytest.mark.parametrize("source", [LOG, EVENTS])


# --- NaN ------------------------------------------------------------------------------------------------------------


@EITHER
def test_nan_loss_that_stays(source: str) -> None:
    loss = [*falling(30), *[NAN] * 10]
    found = seen(frame(rows({"loss": loss, "grad_norm": [*[0.5] * 30, *[NAN] * 10]}, source=source)))
    assert set(found) == {"nan_loss"}
    sign = found["nan_loss"]
    assert (sign.step, sign.step_is, sign.culprits) == (31, "exact", ())
    assert sign.evidence[0].text.startswith("step 31: loss nan, grad_norm nan")
    assert sign.evidence[1].text.startswith("step 30: loss ")
    assert sign.evidence[0].line == (31 if source == LOG else None)


def test_coarse_record_says_first_logged() -> None:
    sign = seen(frame(rows({"loss": [*falling(30), NAN, NAN, NAN]}, every=50, first=50)))["nan_loss"]
    assert (sign.step, sign.step_is) == (1550, "first_logged")


def test_single_nan_that_recovers_is_a_guarded_step() -> None:
    loss = falling(60)
    loss[30] = NAN
    assert not seen(frame(rows({"loss": loss})))


def test_isolated_bad_norms_under_a_scaler_are_normal() -> None:
    norm = [0.5] * 200
    norm[0] = norm[1] = math.inf
    norm[120] = NAN
    assert not seen(frame(rows({"loss": falling(200), "grad_norm": norm})))


def test_last_step_skipped_by_the_scaler_is_no_nan_loss() -> None:
    loss = [*falling(60), NAN]
    assert not seen(frame(rows({"loss": loss, "loss_scale": [65536.0] * 61})))
    assert set(seen(frame(rows({"loss": loss})))) == {"nan_loss"}


def test_norm_first_then_loss() -> None:
    norm = [*[0.5] * 30, *[NAN] * 10]
    found = seen(frame(rows({"loss": [*falling(31), *[NAN] * 9], "grad_norm": norm})))
    assert set(found) == {"nan_gradients"}
    assert found["nan_gradients"].step == 31


def test_norm_alone_that_stays_bad() -> None:
    metrics = frame(rows({"loss": falling(60), "grad_norm": [*[0.5] * 50, *[NAN] * 10]}))
    assert set(seen(metrics)) == {"nan_gradients"}


def test_zero_that_stands_for_nan() -> None:
    """HF Trainer prints 0.0 for NaN: with the norm beside it, and without (older versions)."""
    epochs = [0.01 * i for i in range(30)]
    with_norm = rows(
        {"loss": [*falling(20), *[0.0] * 10], "grad_norm": [*[1.0] * 19, *[NAN] * 11]}, steps=False, epochs=epochs
    )
    assert set(seen(frame(with_norm))) == {"nan_gradients"}
    without = rows({"loss": [*falling(20), *[0.0] * 10]}, steps=False, epochs=epochs)
    found = seen(frame(without))
    assert set(found) == {"nan_loss"}
    assert found["nan_loss"].evidence[0].line == 21
    assert found["nan_loss"].step is None


def test_zero_with_a_norm_that_is_nan_from_the_first_record_on() -> None:
    """Also of a policy, whose loss is 0 by itself before it moves; a few such records are a scaler's calibration."""
    lost = rows({"loss": [0.0] * 12, "grad_norm": [NAN] * 12, "reward": [0.5] * 12}, steps=False, epochs=[0.01] * 12)
    assert set(seen(frame(lost))) == {"nan_loss"}
    assert not seen(frame(rows({"loss": falling(40), "grad_norm": [*[NAN] * 8, *[1.0] * 32]})))
    assert set(seen(frame(rows({"loss": falling(12), "grad_norm": [NAN] * 12})))) == {"nan_gradients"}
    few = rows({"loss": falling(8), "grad_norm": [NAN] * 8})
    assert not seen(frame(few))


def test_zero_behind_a_spike_is_no_recovery() -> None:
    """Where the norm beside it is NaN; one such record on the way back is a step that was left out."""
    rise = [2.8, 5.2, 9.2, 14.8, 22.0, 30.8]
    norms = [*[1.0] * 80, *[8.0 * 2**k for k in range(6)]]
    loss = [*falling(80), *rise]
    assert set(seen(frame(rows({"loss": [*loss, *[0.0] * 20], "grad_norm": [*norms, *[NAN] * 20]})))) == {"nan_loss"}
    back = {"loss": [*loss, 0.0, *[1.6] * 20], "grad_norm": [*norms, NAN, *[1.0] * 20]}
    found = seen(frame(rows(back)))
    assert set(found) == {"loss_spike"}
    assert "is back at step 88" in found["loss_spike"].note


def test_zero_that_is_healthy() -> None:
    memorised = [2.0 * 0.6**i for i in range(20)] + [0.0] * 10
    assert not seen(frame(rows({"loss": memorised})))
    grpo = rows(
        {"loss": [0.1, 0.2, 0.1, *[0.0] * 30], "reward": [0.4] * 33, "reward_std": [0.3] * 33, "grad_norm": [0.2] * 33}
    )
    assert not seen(frame(grpo))


def test_megatron_leaves_out_a_nan_loss() -> None:
    zeros = [0.0] * 40
    loss: list[float | None] = [*falling(30), *[None] * 10]
    norm = [*[0.5] * 30, *[NAN] * 10]
    metrics = frame(
        rows({"loss": loss, "grad_norm": norm, "skipped_steps": zeros, "nan_steps": zeros, "loss_scale": [1.0] * 40})
    )
    found = seen(metrics)
    assert set(found) == {"nan_loss"}
    assert found["nan_loss"].step == 31
    skipped = [*[0.0] * 38, 1.0, 1.0]
    normal = rows({"loss": [*falling(38), None, None], "grad_norm": [0.5] * 40, "skipped_steps": skipped})
    assert not seen(frame(normal))


def test_rank_that_is_nan_first_is_named() -> None:
    parts = []
    for rank in range(4):
        onset = 22 if rank == 2 else 23
        loss = [*falling(onset, seed=rank), *[NAN] * (40 - onset)]
        norm = [*[0.5] * 22, *[NAN] * 18]
        parts.append(rows({"loss": loss, "grad_norm": norm}, source=f"rank{rank}.log", rank=rank))
        parts.append(rows({"loss": loss, "grad_norm": norm}, source=f"m/rank{rank}.jsonl", rank=rank))
    found = seen(frame(*parts))
    assert set(found) == {"nan_one_rank_first"}
    sign = found["nan_one_rank_first"]
    assert (sign.culprits, sign.step, sign.identity.rank) == ((2,), 23, 2)
    assert sign.evidence[0].file == "m/rank2.jsonl" or sign.evidence[0].file == "rank2.log"


def test_all_ranks_at_once_name_nobody() -> None:
    parts = [
        rows({"loss": [*falling(22, seed=rank), *[NAN] * 8]}, source=f"rank{rank}.log", rank=rank) for rank in range(4)
    ]
    found = seen(frame(*parts))
    assert set(found) == {"nan_loss"}
    assert found["nan_loss"].culprits == ()


def test_same_step_in_two_attempts() -> None:
    first = rows({"loss": [*falling(50), *[NAN] * 5]}, source="a.log", attempt=0)
    second = rows({"loss": [*falling(20, start=1.6), *[NAN] * 5]}, source="b.log", attempt=1, first=31)
    found = seen(frame(first, second))
    assert set(found) == {"nan_same_step"}
    assert found["nan_same_step"].step == 51
    elsewhere = rows({"loss": [*falling(25, start=1.6), *[NAN] * 5]}, source="b.log", attempt=1, first=31)
    assert set(seen(frame(first, elsewhere))) == {"nan_loss"}


def test_terms_stand_for_a_loss_that_is_not_logged() -> None:
    terms = rows({"loss_part": [*falling(30), *[NAN] * 10]}) + rows({"loss_part": [*falling(30), *[NAN] * 10]})
    terms.sort(key=lambda row: int(str(row["line"])))
    assert set(seen(frame(terms))) == {"nan_loss"}
    one_of_two = rows({"loss_part": falling(40)}) + rows({"loss_part": [NAN] * 40})
    one_of_two.sort(key=lambda row: int(str(row["line"])))
    assert not seen(frame(one_of_two))


def test_other_metrics_may_be_nan() -> None:
    assert not seen(
        frame(rows({"loss": falling(50), "iou_class_7": [NAN] * 50, "eval_loss": [NAN] * 50, "best": [math.inf] * 50}))
    )


# --- loss scale -----------------------------------------------------------------------------------------------------


def scales(start: float, halvings: int) -> list[float]:
    return [start * 0.5**i for i in range(halvings + 1)]


@EITHER
def test_collapse_without_end(source: str) -> None:
    scale = [*[65536.0] * 60, *scales(32768.0, 60)]
    found = seen(frame(rows({"loss_scale": scale, "loss": [2.3] * len(scale)}, source=source)))
    assert set(found) == {"scale_collapse"}
    assert (found["scale_collapse"].step, found["scale_collapse"].culprits) == (61, ())


@pytest.mark.parametrize("start", [2.0**16, 2.0**32])
def test_calibration_at_the_start_is_normal(start: float) -> None:
    scale = [*scales(start, int(math.log2(start / 1024))), *[1024.0] * 200, *[2048.0] * 200]
    down = len(scale) - 400
    norm = [*[math.inf] * down, *[0.5] * 400]
    assert not seen(frame(rows({"loss_scale": scale, "loss": falling(len(scale)), "grad_norm": norm})))


def test_sawtooth_is_normal() -> None:
    scale = [s for _ in range(20) for s in [*[65536.0] * 10, *[131072.0] * 2]]
    assert not seen(frame(rows({"loss_scale": scale, "loss": falling(len(scale))})))


def test_overflow_lines_at_the_floor() -> None:
    scale = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 1.0]
    found = seen(frame(rows({"loss_scale": scale, "overflow": [1.0] * 7}, first=402)))
    assert set(found) == {"scale_collapse"}
    assert found["scale_collapse"].step == 408
    found = seen(frame(rows({"loss_scale": [1.0] * 5, "overflow": [1.0] * 5}, first=98)))
    assert found["scale_collapse"].step == 98


def test_overflows_at_one_that_end_are_survived() -> None:
    overflows = rows({"loss_scale": [4.0, 2.0, 1.0, 1.0, 1.0], "overflow": [1.0] * 5}, rank=0)
    after = rows({"loss": falling(40)}, first_line=6, first=6)
    assert not seen(frame(overflows, after))


def test_many_ranks_that_print_one_overflow_each_are_no_stuck_scale() -> None:
    scale = [s for s in (32768.0, 16384.0) for _ in range(8)]
    assert not seen(frame(rows({"loss_scale": scale, "overflow": [1.0] * 16}, steps=False)))


def test_static_scale_and_bf16_are_normal() -> None:
    for value in (1.0, 128.0, 0.25):
        assert not seen(frame(rows({"loss_scale": [value] * 100, "loss": falling(100), "grad_norm": [0.5] * 100})))


@pytest.mark.parametrize(("every", "names"), [(2, {"scale_stall"}), (10, set())])
def test_a_scale_at_its_minimum_with_every_other_step_skipped_stalls(every: int, names: set[str]) -> None:
    skipped = [float(n // every) for n in range(200)]
    found = seen(frame(rows({"loss_scale": [1.0] * 200, "loss": [2.3] * 200, "skipped_total": skipped})))
    assert set(found) & {"scale_stall"} == names


def test_a_count_of_skips_is_of_the_steps_between_rare_records() -> None:
    totals = [float(n) for n in range(60)]  # one in ten steps
    table = frame(rows({"loss_scale": [1.0] * 60, "loss": falling(60), "skipped_total": totals}, every=10))
    assert "scale_stall" not in seen(table)


@EITHER
def test_stall_after_a_resume(source: str) -> None:
    scale = [*[65536.0] * 40, *[2.0**-20] * 80]
    norm = [*[0.5] * 40, *[0.0] * 80]
    found = seen(frame(rows({"loss_scale": scale, "grad_norm": norm, "loss": [1.2] * 120}, source=source)))
    assert set(found) == {"scale_stall"}
    assert found["scale_stall"].step == 41


def test_stall_seen_in_the_second_event_file_only() -> None:
    before = rows({"loss_scale": [65536.0] * 40}, source="a/tfevents.1", begin=0.0)
    after = rows({"loss_scale": [2.0**-20] * 40}, source="b/tfevents.2", begin=100.0, first=41)
    sign = seen(frame(before, after))["scale_stall"]
    assert sign.note is not None
    assert "65536 at step 40" in sign.note
    alone = rows({"loss_scale": [2.0**-20] * 40, "grad_norm": [0.0] * 40}, source="b/tfevents.2", first=41)
    assert set(seen(frame(alone))) == {"scale_stall"}


@pytest.mark.parametrize(("first", "attempts"), [(0, (0, 1)), (1, (None, None))])
def test_stall_in_the_file_of_the_next_launch_without_times(
    first: int, attempts: tuple[int | None, int | None]
) -> None:
    """What came first is told by the attempts, and without these by the steps."""
    tables = [{"loss_scale": [65536.0] * 100}, {"loss_scale": [2.0**-5] * 100}]
    names = ["z.log", "a.log"] if first else ["a.log", "z.log"]

    def launches(start: int) -> dict[str, Observation]:
        before = rows(tables[0], source=names[0], attempt=attempts[0])
        return seen(frame(before, rows(tables[1], source=names[1], attempt=attempts[1], first=start)))

    sign = launches(101)["scale_stall"]
    assert sign.step == 101
    assert sign.note is not None
    assert "65536 at step 100" in sign.note
    assert not launches(1)  # a run of its own
    if attempts[0] is None:
        assert not launches(30)  # or a record beside it


@pytest.mark.parametrize("begin", [None, 100.0])
@pytest.mark.parametrize("low", [1.0, 2.0])
def test_drop_to_little_in_the_file_of_the_next_launch(begin: float | None, low: float) -> None:
    def launches(loss: Sequence[float], scale: float = low) -> dict[str, Observation]:
        first = {"loss_scale": [65536.0] * 200, "loss": loss[:200]}
        second = {"loss_scale": [scale] * 300, "loss": loss[200:]}
        after = rows(second, source="run2.log", first=201, begin=None if begin is None else begin + 300)
        return seen(frame(rows(first, source="run1.log", begin=begin), after))

    found = launches(settling(500, 200))
    assert set(found) == {"scale_stall"}
    assert (found["scale_stall"].step, found["scale_stall"].weight) == (201, 0.9)
    assert not launches([3.0 - 0.002 * i for i in range(500)])  # it goes on in bf16 and learns
    assert not launches(settling(500, 50))  # or had learned before
    assert not launches(settling(500, 200), 64.0)  # a scale that models train with


def test_recalibration_after_a_resume_is_normal() -> None:
    scale = [*[1024.0] * 40, *scales(65536.0, 6), *[1024.0] * 60]
    assert not seen(frame(rows({"loss_scale": scale, "loss": falling(len(scale))})))


def settling(n: int, down: int) -> list[float]:
    """A loss that falls by a tenth over `down` records and stands from there on."""
    random.seed(5)
    return [2.0 - 0.2 * min(i, down) / down + random.gauss(0, 0.003) for i in range(n)]


@EITHER
@pytest.mark.parametrize("every", [1, 10])
def test_collapse_to_one_that_stays_there(source: str, every: int) -> None:
    """A scale that goes down to 1, at any pace, and never up again, while the loss stands."""
    fall = [s for s in scales(32768.0, 15) for _ in range(every)]
    scale = [*[65536.0] * 100, *fall, *[1.0] * 280]
    table = {"loss_scale": scale, "loss": settling(len(scale), 100)}
    found = seen(frame(rows(table, source=source)))
    assert set(found) == {"scale_collapse"}
    assert found["scale_collapse"].step == 101
    assert found["scale_collapse"].weight < 1
    assert not seen(frame(rows({**table, "loss": falling(len(scale))}, source=source)))  # steps are applied
    grown = [*scale[:-100], *[2.0] * 100]
    assert not seen(frame(rows({**table, "loss_scale": grown}, source=source)))


@EITHER
@pytest.mark.parametrize("every", [5, 10, 50])
def test_collapse_of_which_not_every_step_is_printed(source: str, every: int) -> None:
    scale = [*[65536.0] * 1200, *scales(32768.0, 164), *[0.0] * 1636][::every]
    loss = settling(len(scale), 1200 // every)
    found = seen(frame(rows({"loss_scale": scale, "loss": loss}, source=source, first=0, every=every)))
    assert set(found) == {"scale_collapse"}
    assert (found["scale_collapse"].step, found["scale_collapse"].step_is) == (1200, "first_logged")


@pytest.mark.parametrize(("every", "name"), [(50, "scale_collapse"), (5, "scale_stall")])
def test_a_scale_that_is_printed_as_zero_in_the_next_record(every: int, name: str) -> None:
    """Fifty steps suffice to halve 65536 until one decimal prints 0.0, and five do not."""
    scale = [*[65536.0] * 40, *[0.0] * 60]
    assert set(seen(frame(rows({"loss_scale": scale, "loss": settling(100, 40)}, every=every)))) == {name}
    learns = seen(frame(rows({"loss_scale": scale, "loss": falling(100)}, every=every)))
    assert "scale_collapse" not in learns  # it may go on without a scaler


def test_collapse_to_the_minimum_of_which_not_every_step_is_printed() -> None:
    scale = [*[65536.0] * 1000, *scales(32768.0, 15), *[1.0] * 1000][::10]
    table = {"loss_scale": scale, "loss": settling(len(scale), 100)}
    assert set(seen(frame(rows(table, every=10)))) == {"scale_collapse"}
    assert not seen(frame(rows({**table, "loss": falling(len(scale))}, every=10)))  # steps are applied


@pytest.mark.parametrize("every", [5, 10, 50])
@pytest.mark.parametrize(("start", "end"), [(2.0**16, 2.0**10), (2.0**32, 2.0**9), (2.0**32, 2.0**-2)])
def test_calibration_of_which_not_every_step_is_printed_is_normal(every: int, start: float, end: float) -> None:
    scale = [*scales(start, int(math.log2(start / end))), *[end] * 1960, *[2 * end] * 2000][::every]
    assert not seen(frame(rows({"loss_scale": scale, "loss": falling(len(scale))}, first=0, every=every)))
    alone = scale[: 30 if every < 50 else 10]  # the beginning of a run, in which the loss did not fall yet
    if end >= 256:
        assert not seen(frame(rows({"loss_scale": alone, "loss": [2.3] * len(alone)}, first=0, every=every)))


def test_more_halvings_than_steps_are_no_descent() -> None:
    scale = [*[65536.0] * 40, 2.0**-10, *[2.0**-30] * 80]
    assert "scale_collapse" not in seen(frame(rows({"loss_scale": scale, "loss": settling(121, 40)}, every=10)))


def test_a_descent_in_few_records_is_not_judged() -> None:
    scale = [*[65536.0] * 10, *scales(32768.0, 6), *[512.0] * 10]
    assert not seen(frame(rows({"loss_scale": scale, "loss": settling(len(scale), 10)})))


def test_drop_to_one_that_ends_the_learning() -> None:
    scale = [*[65536.0] * 200, *[1.0] * 300]
    found = seen(frame(rows({"loss_scale": scale, "loss": settling(500, 200)})))
    assert set(found) == {"scale_stall"}
    assert found["scale_stall"].step == 201
    # The scale that a run prints which goes on in bf16: it learns on, or had learned before.
    assert not seen(frame(rows({"loss_scale": scale, "loss": [3.0 - 0.002 * i for i in range(500)]})))
    assert not seen(frame(rows({"loss_scale": scale, "loss": settling(500, 50)})))


# --- shapes of the loss ---------------------------------------------------------------------------------------------


def test_divergence_that_stays() -> None:
    loss = [*falling(200, start=10.8, end=2.5), *[2.6, 3.4, 4.5, 5.9, 6.8], *[7.2 + 0.1 * (i % 3) for i in range(80)]]
    found = seen(frame(rows({"loss": loss})))
    assert set(found) == {"loss_divergence"}
    assert 200 <= (found["loss_divergence"].step or 0) <= 205


@pytest.mark.parametrize(("last", "told"), [(100, True), (30, True), (15, False)])
def test_a_divergence_late_in_a_long_record_counts_by_its_records(last: int, told: bool) -> None:
    rng = random.Random(3)
    level = [*falling(3000 - last, start=10.0, end=2.9), *[7.4] * last]
    loss = [v + rng.gauss(0, 0.04) for v in level]
    assert ("loss_divergence" in seen(frame(rows({"loss": loss})))) is told


def test_a_late_rise_that_harder_data_explain_is_no_divergence() -> None:
    rng = random.Random(3)
    loss = [v + rng.gauss(0, 0.04) for v in [*falling(2940, start=10.0, end=2.9), *[3.6] * 60]]
    assert not seen(frame(rows({"loss": loss})))


@pytest.mark.parametrize(("end", "told"), [(12.0, True), (3.2, False)])
def test_divergence_of_a_short_record_ends_above_where_it_began(end: float, told: bool) -> None:
    loss = [*falling(19, start=2.4, end=1.3), *[1.3 + (end - 1.3) * i / 16 for i in range(1, 17)], *[end] * 5]
    assert ("loss_divergence" in seen(frame(rows({"loss": loss})))) is told


def slow_rise(end: float, n: int = 200) -> list[float]:
    """A loss that falls from 4 to 2.6 and then rises to `end` over two thirds of the record, with a batch's noise."""
    rng = random.Random(11)
    third = n // 3
    level = [
        *falling(third, start=4.0, end=2.6),
        *(2.6 + (end - 2.6) * (i + 1) / (n - third) for i in range(n - third)),
    ]
    return [v + rng.gauss(0, 0.05) for v in level]


@pytest.mark.parametrize("records", [51, 200, 600])
def test_a_slow_rise_far_above_where_the_run_began_is_a_divergence(records: int) -> None:
    found = seen(frame(rows({"loss": slow_rise(20.0, records)})))
    assert set(found) == {"loss_divergence"}
    assert found["loss_divergence"].weight < 0.9
    assert records // 3 - 10 <= (found["loss_divergence"].step or 0) <= records // 2


def test_a_rise_that_grows_behind_a_steep_fall_is_a_divergence() -> None:
    loss = [*falling(26, start=4.0, end=1.9), *(1.9 * 1.085**k for k in range(24))]
    assert "loss_divergence" in seen(frame(rows({"loss": loss})))
    assert not seen(frame(rows({"loss": [v * (1 + 0.7 * (-1) ** i) for i, v in enumerate(loss)]})))  # batches of one


def test_a_slow_rise_above_where_a_run_began_that_had_learned_much_is_a_divergence() -> None:
    def told(best: float, end: float) -> bool:
        fall, rise = 50, 29
        loss = [
            *(8.5 - (8.5 - best) * i / fall for i in range(fall)),
            *(best + (end - best) * (i + 1) / rise for i in range(rise)),
        ]
        return "loss_divergence" in seen(frame(rows({"loss": loss})))

    assert told(4.1, 14.2)
    assert not told(4.1, 8.0)  # no higher than an untrained model
    assert not told(7.0, 14.2)


def test_a_slow_rise_that_is_no_divergence() -> None:
    assert set(seen(frame(rows({"loss": slow_rise(6.0)})))) == {"loss_creeps"}  # less sure: it may be a harder task
    running_sum = list(itertools.accumulate(falling(200, start=4.0, end=2.6)))
    assert not seen(frame(rows({"loss": running_sum})))
    assert not seen(frame(rows({"loss": slow_rise(20.0), "loss_part": [0.7] * 200})))  # a generator's


def test_divergence_until_it_overflows_is_one_finding() -> None:
    loss = [*falling(100), *[3.0 * 5**i for i in range(1, 8)], math.inf, *[NAN] * 20]
    found = seen(frame(rows({"loss": loss})))
    assert set(found) == {"loss_divergence"}
    assert 101 <= (found["loss_divergence"].step or 0) <= 103


def test_a_search_for_the_learning_rate_ends_where_it_breaks() -> None:
    loss = [*falling(80, 4.0, 2.4), *(2.4 * 1.3**k for k in range(1, 25))]
    rates = [1e-7 * 10 ** (k / 14) for k in range(104)]
    assert not seen(frame(rows({"loss": loss, "lr": rates})))
    assert "loss_divergence" in seen(frame(rows({"loss": loss, "lr": [1e-3 * (k + 1) / 104 for k in range(104)]})))
    assert "loss_divergence" in seen(frame(rows({"loss": loss})))


def test_spike_on_one_rank() -> None:
    parts = []
    for rank in range(4):
        loss = falling(70, seed=rank)
        if rank == 1:
            loss[35:40] = [5e4] * 5
        norm = [*[0.5] * 35, *[5e3] * 5, *[0.5] * 30]
        parts.append(rows({"loss": loss, "grad_norm": norm}, source=f"{rank}/out.log", rank=rank))
    found = seen(frame(*parts))
    assert set(found) == {"loss_spike"}
    assert (found["loss_spike"].culprits, found["loss_spike"].step) == ((1,), 36)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param([math.log(50257) + 0.01 * (i % 5) for i in range(300)], id="warm-up flat at ln C"),
        pytest.param([0.02 + 0.3 * ((i * 7919) % 101 / 101) ** 4 for i in range(400)], id="diffusion"),
        pytest.param([*falling(200), *[1.7 + 0.001 * i for i in range(200)]], id="slow drift up"),
        pytest.param([2.3 if i % 40 else 3.1 for i in range(300)], id="single hard batches"),
        pytest.param([*falling(100), *falling(100), *falling(100)], id="three runs in one log"),
        pytest.param([0.0003] * 100, id="tiny"),
    ],
)
def test_healthy_losses(loss: list[float]) -> None:
    steps = [i % 100 for i in range(len(loss))] if len(loss) == 300 and loss[0] > loss[99] else list(range(len(loss)))
    table = rows({"loss": loss})
    for row, step in zip(table, steps, strict=True):
        row["step"] = step
    assert not seen(frame(table))


def test_overfitting_is_no_divergence() -> None:
    eval_loss: list[float | None] = [
        2.0 if i < 100 else 2.0 + 0.05 * (i - 100) if i % 10 == 0 else None for i in range(300)
    ]
    assert set(seen(frame(rows({"loss": falling(300), "eval_loss": eval_loss})))) == {"held_out_rises"}


def results(*values: tuple[float, float], name: str = "eval_perplexity") -> Rows:
    """Evaluations that give a loss and a perplexity in one record."""
    return rows({"eval_loss": [loss for loss, _ in values], name: [value for _, value in values]})


def block(loss: float, perplexity: float, lines: int = 6) -> Rows:
    """The Trainer's "***** eval metrics *****": a line for each value."""
    before = rows({"eval_loss": [loss]}, steps=False, first_line=40)
    return before + rows({"perplexity": [perplexity]}, steps=False, first_line=40 + lines)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(block(2.3011, 23.8812), id="block of results"),
        pytest.param(results((2.4, 12.9), (2.2, 10.4), (2.1, 9.5)), id="means of batches"),
        pytest.param(results((3.61, 38.2), name="perplexity"), id="one record of an evaluation"),
    ],
)
def test_a_perplexity_that_its_loss_does_not_give(table: Rows) -> None:
    found = seen(frame(table))
    assert set(found) == {"perplexity_differs"}
    assert "exp(" in found["perplexity_differs"].note


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(block(2.3011, 9.9852), id="e to the power of it"),
        pytest.param(block(2.3, 10.4), id="rounded"),
        pytest.param(results((3.32, 9.99), (3.1, 8.57)), id="bits"),
        pytest.param(results((2.4, 12.9), (2.2, 9.03)), id="one of two fits"),
        pytest.param(results((48.25, 12.3)), id="a sum over tokens"),
        pytest.param(results((2.3011, math.inf)), id="overflown"),
        pytest.param(block(2.3011, 23.8812, lines=40), id="far below"),
        pytest.param(
            [*results((2.3011, 23.8812)), *rows({"loss_part": [0.01]}, first_line=90)], id="a loss of several parts"
        ),
        pytest.param(rows({"loss": [2.3], "eval_loss": [2.1], "perplexity": [9.97]}), id="that of the training loss"),
    ],
)
def test_a_perplexity_that_says_nothing_of_its_tokens(table: Rows) -> None:
    assert "perplexity_differs" not in seen(frame(table))


def test_rl_losses_are_left_alone() -> None:
    loss = [*[0.1] * 60, *[40.0] * 60]
    assert not seen(frame(rows({"loss": loss, "reward": list(range(120)), "value_loss": [5.0] * 120})))


def test_norms_that_part() -> None:
    parts = [
        rows({"grad_norm": [*[0.5] * 30, *[0.5 + (0.3 if rank == 3 else 0.0)] * 30]}, source=f"{rank}.log", rank=rank)
        for rank in range(4)
    ]
    found = seen(frame(*parts))
    assert set(found) == {"grad_norms_differ"}
    assert (found["grad_norms_differ"].step, found["grad_norms_differ"].culprits) == (31, (3,))
    local = [rows({"grad_norm": [0.5 + 0.1 * rank] * 60}, source=f"{rank}.log", rank=rank) for rank in range(4)]
    assert not seen(frame(*local))


def evaluated(held_out: Sequence[float], loss: Sequence[float] | None = None) -> pl.DataFrame:
    """An evaluation after every ten of some training losses."""
    trained = loss or falling(10 * len(held_out))
    parts = []
    for n, value in enumerate(held_out):
        begin = 11 * n
        parts.append(rows({"loss": trained[10 * n : 10 * n + 10]}, first=10 * n + 1, first_line=begin + 1))
        parts.append(rows({"eval_loss": [value]}, first=10 * n + 10, first_line=begin + 11))
    return frame(*parts)


def test_held_out_loss_that_is_no_number() -> None:
    assert seen(evaluated([NAN] * 4))["nan_held_out"].step == 10
    assert seen(evaluated([2.0, 1.9, math.inf, NAN]))["nan_held_out"].step == 30
    beside = {"loss": falling(6), "eval_loss": [2.0, 1.9, 1.8, 1.7, NAN, NAN]}
    assert seen(frame(rows(beside)))["nan_held_out"].step == 5
    fills = {"loss": falling(60), "eval_loss": [1.9 if i % 10 == 0 else NAN for i in range(60)]}
    assert "nan_held_out" not in seen(frame(rows(fills)))
    assert "nan_held_out" not in seen(evaluated([NAN, 1.9, 1.8, 1.7]))
    assert "nan_held_out" not in seen(evaluated([2.0, 1.9, 1.8, NAN]))
    assert "nan_held_out" not in seen(evaluated([NAN] * 4, [*falling(20), *[NAN] * 20]))
    assert "nan_held_out" not in seen(evaluated([NAN] * 4, [*falling(20), *[0.0] * 20]))


# --- resume ---------------------------------------------------------------------------------------------------------


def warm_up(n: int) -> list[float]:
    return [1e-3 * min(1.0, (i + 1) / 20) * (1 - i / 1000) for i in range(n)]


def test_epoch_restart() -> None:
    before = rows({"loss": falling(150)}, source="a/0.log", rank=0, epochs=[i // 64 for i in range(150)], begin=0.0)
    wrong = rows(
        {"loss": [1.5] * 70}, source="b/0.log", rank=0, epochs=[i // 64 for i in range(70)], begin=500.0, first=151
    )
    found = seen(frame(before, wrong))
    assert set(found) == {"epoch_restart"}
    assert found["epoch_restart"].step == 151
    assert "epoch 0" in found["epoch_restart"].evidence[0].text
    right = rows(
        {"loss": [1.5] * 70},
        source="b/0.log",
        rank=0,
        epochs=[(150 + i) // 64 for i in range(70)],
        begin=500.0,
        first=151,
    )
    assert not seen(frame(before, right))


def test_replay_from_an_older_checkpoint_is_normal() -> None:
    before = rows({"loss": falling(150), "lr": warm_up(150)}, epochs=[i // 64 for i in range(150)])
    again = rows(
        {"loss": falling(150)[100:], "lr": warm_up(150)[100:]},
        epochs=[i // 64 for i in range(100, 150)],
        first=101,
        first_line=151,
    )
    assert not seen(frame(before, again))


def test_schedule_that_begins_anew() -> None:
    before = rows({"lr": warm_up(150), "loss": falling(150)})
    after = rows({"lr": warm_up(100), "loss": [1.5] * 100}, first=121, first_line=200)
    found = seen(frame(before, after))
    assert set(found) == {"lr_reset"}
    assert found["lr_reset"].step == 121
    alone = rows({"lr": warm_up(100), "loss": [1.5] * 100}, first=200, source=EVENTS)
    assert seen(frame(alone))["lr_reset"].weight < 1
    assert not seen(frame(rows({"lr": warm_up(100)})))
    rounded = rows({"lr": [0.0] * 100}, first=500)  # 0.0000, as logs print small rates
    assert "lr_reset" not in seen(frame(rounded))
    sparse = rows({"lr": warm_up(100)}, first=256, every=256)
    assert not seen(frame(sparse))


def test_resume_within_one_file_by_its_message() -> None:
    """Steps that only go on do not show a resume; a line that says so does."""
    table = rows({"lr": [*warm_up(150), *warm_up(100)]})
    resumed = Observation(
        signature="resumed-from-checkpoint", weight=0.9, evidence=(Evidence(LOG, 150, None, "resumed"),)
    )
    assert set(seen(frame(table), [resumed])) == {"lr_reset"}


def resumed_epoch(epoch: int, line: int, file: str = "train.log") -> Observation:
    evidence = (Evidence(file, line, None, f"resumed epoch: {epoch}, iter: 3500"),)
    return Observation(signature="run-resumed", weight=0.9, evidence=evidence, captures={"epoch": str(epoch)})


def batches(epochs: Iterable[int], first_line: int) -> Rows:
    """Ten records an epoch, whose steps are the batches of the epoch."""
    made: Rows = []
    for n, epoch in enumerate(epochs):
        made += rows({"loss": [2.0] * 10}, epochs=[epoch] * 10, every=50, first=50, first_line=first_line + 10 * n)
    return made


def test_epoch_restart_where_steps_are_batches_of_an_epoch() -> None:
    before = batches(range(1, 8), 1)
    found = seen(frame(before, batches(range(1, 4), 72)), [resumed_epoch(7, 71)])
    assert set(found) == {"epoch_restart"}
    assert found["epoch_restart"].epoch == 1
    table = frame(before, batches(range(1, 4), 72))
    (said,) = (
        o for o in run_detectors(load_catalogue(), table, [resumed_epoch(7, 71)]) if o.epoch == 1 and o.step is not None
    )
    assert (said.step, said.step_unit) == (50, "batch")
    assert not seen(frame(before, batches(range(8, 11), 72)), [resumed_epoch(7, 71)])
    assert not seen(frame(before, batches(range(1, 4), 72)), [resumed_epoch(7, 71, "other.log")])


def test_a_run_s_own_steps_are_no_batches() -> None:
    before = rows({"loss": falling(150)}, epochs=[i // 50 for i in range(150)])
    wrong = rows({"loss": [1.5] * 120}, epochs=[i // 50 for i in range(120)], first=151, first_line=200)
    told = run_detectors(load_catalogue(), frame(before, wrong), [resumed_epoch(3, 199)])
    assert {(o.step, o.step_unit) for o in told if o.signature == "epoch-restart-on-resume"} == {(151, None)}


def test_last_batches_of_epochs_are_batches() -> None:
    """A line at each epoch's end: the same count at each, and none that goes back."""
    last = frame(*(rows({"loss": [2.0]}, epochs=[e], first=390, first_line=e) for e in range(1, 5)))
    assert counting_batches(last) == {"train.log"}
    assert step_clock(last, {}).unit == {"train.log": "batch"}
    run = frame(*(rows({"loss": [2.0]}, epochs=[e], first=390 * e, first_line=e) for e in range(1, 5)))
    assert not counting_batches(run)
    assert step_clock(run, {}).unit == {"train.log": "global step"}
    fractions = frame(rows({"loss": [2.0] * 40}, epochs=[i / 20 for i in range(40)], every=10))
    assert not counting_batches(fractions)


def says_it_resumes(text: str, line: int, file: str = LOG, **captures: str) -> Observation:
    evidence = (Evidence(file, line, None, text),)
    return Observation(signature="run-resumed", weight=0.9, evidence=evidence, captures=captures)


def decayed(n: int) -> list[float]:
    return [3e-4 * (1 - i / (2 * n)) for i in range(n)]


def first_run(n: int = 100, **place: object) -> Rows:
    """A run of steps 0, 50, ... whose loss comes down from 8 to 2, at a rate that falls by half."""
    return rows({"loss": falling(n, start=8.0, end=2.0), "lr": decayed(n)}, first=0, every=50, **place)  # type: ignore[arg-type]


LOW = falling(60, start=2.2, end=1.9, noise=0.01)


def test_steps_that_begin_anew_with_restored_weights() -> None:
    mark = says_it_resumes("Resuming from /ckpt/step_4950.pt", 101)
    again = rows({"loss": LOW, "lr": decayed(100)[:60]}, first=0, every=50, first_line=102)
    found = seen(frame(first_run(), again), [mark])
    assert set(found) == {"counter_restart"}
    sign = found["counter_restart"]
    assert (sign.step, sign.evidence[1].text, sign.weight) == (0, "Resuming from /ckpt/step_4950.pt", 1.0)
    assert not seen(frame(first_run(), again))  # nothing says that it resumes
    told = [says_it_resumes("=> loaded checkpoint (step 4950)", 1, "b.log", step="4950")]
    other = rows({"loss": LOW, "lr": decayed(100)[:60]}, source="b.log", first=0, every=50, first_line=2)
    assert set(seen(frame(first_run(), other), told)) == {"counter_restart"}
    third = first_run(source="c.log")
    assert not seen(frame(first_run(), other, third), told)  # nothing tells which of two it goes on from


@pytest.mark.parametrize(
    ("loss", "rate", "text"),
    [
        pytest.param(LOW, [r / 10 for r in decayed(60)], "Resuming from step_4950.pt", id="stage-of-its-own-schedule"),
        pytest.param(falling(60, start=8.0, end=3.0), decayed(100)[:60], "Resuming from step_4950.pt", id="no-weights"),
        pytest.param(LOW, decayed(100)[:60], "Resuming from stage1/step_20000.pt", id="checkpoint-of-another-run"),
        pytest.param(LOW, decayed(100)[:60], "Resuming from step_0.pt", id="checkpoint-of-the-start"),
        pytest.param(LOW, None, "Resuming from step_4950.pt", id="bar-that-counts-what-is-left"),
    ],
)
def test_steps_that_begin_anew_by_design(loss: list[float], rate: list[float] | None, text: str) -> None:
    table: dict[str, list[float]] = {"loss": loss} if rate is None else {"loss": loss, "lr": rate}
    again = rows(table, first=0, every=50, first_line=102)
    assert "counter_restart" not in seen(frame(first_run(), again), [says_it_resumes(text, 101)])


def test_steps_and_epochs_that_begin_anew_without_a_rate() -> None:
    mark = says_it_resumes("Restored all states from the checkpoint at last.ckpt", 101)
    before = rows({"loss": falling(100, start=8.0, end=2.0)}, first=0, every=50, epochs=[i // 20 for i in range(100)])
    again = rows({"loss": LOW}, first=0, every=50, first_line=102, epochs=[i // 20 for i in range(60)])
    assert seen(frame(before, again), [mark])["counter_restart"].weight < 1
    batches_of_five = rows({"loss": LOW}, first=0, every=50, first_line=102, epochs=[5 + i // 20 for i in range(60)])
    assert "counter_restart" not in seen(frame(before, batches_of_five), [mark])


def test_schedule_that_begins_anew_where_only_epochs_are_told() -> None:
    """Two files without times or steps are in the order of their epochs; so are two parts of one that says so."""
    old = rows({"lr": warm_up(150)}, steps=False, epochs=[(i + 1) / 20 for i in range(150)])
    again = rows({"lr": warm_up(100)}, steps=False, epochs=[7 + i / 20 for i in range(100)], first_line=200)
    resumed = Observation(signature="run-resumed", weight=0.9, evidence=(Evidence("train.log", 199, None, "resumed"),))
    found = seen(frame(old, again), [resumed])
    assert set(found) == {"lr_reset"}
    assert found["lr_reset"].epoch == 7
    assert not seen(frame(old, again))
    on = rows({"lr": warm_up(250)[140:]}, steps=False, epochs=[7 + i / 20 for i in range(110)], first_line=200)
    assert not seen(frame(old, on), [resumed])


def test_files_without_times_are_in_the_order_of_their_steps() -> None:
    before = rows({"lr": warm_up(150)}, source="a.log")
    after = rows({"lr": warm_up(100)}, source="b.log", first=121)
    found = seen(frame(after, before))
    assert set(found) == {"lr_reset"}
    assert found["lr_reset"].step == 121
    on = rows({"lr": warm_up(250)[120:]}, source="b.log", first=121)
    assert not seen(frame(on, before))


def test_phases_of_one_process_are_no_resume() -> None:
    """Steps go on, epoch and schedule begin anew by design: no line speaks of a resume, and nothing is repeated."""
    epochs = [i // 50 for i in range(200)] + [i // 50 for i in range(200)]
    table = rows({"loss": [*falling(200), *falling(200)], "lr": [*warm_up(200), *warm_up(200)]}, epochs=epochs)
    assert not seen(frame(table))
    resumed = Observation(signature="run-resumed", weight=0.9, evidence=(Evidence("train.log", 200, None, "resumed"),))
    assert "epoch_restart" in seen(frame(table), [resumed])


def test_weights_not_restored() -> None:
    before = rows({"loss": falling(150)}, source="a.log", begin=0.0, attempt=0)
    after = rows({"loss": falling(60)}, source="b.log", begin=900.0, first=151, attempt=1)
    found = seen(frame(before, after))
    assert set(found) == {"weights_not_restored"}
    assert found["weights_not_restored"].step == 151
    fresh = rows({"loss": falling(60)}, source="b.log", begin=900.0, first=1, attempt=1)
    assert not seen(frame(before, fresh))


def resume_at_5200(old: Sequence[float], new: Sequence[float]) -> Mapping[str, Observation]:
    before = rows({"loss": old}, source="a.log", begin=0.0, first=5201 - len(old), attempt=0)
    after = rows({"loss": new}, source="b.log", begin=900.0, first=5201, attempt=1)
    return seen(frame(before, after))


def settled(level: float, n: int = 200) -> list[float]:
    rng = random.Random(4)
    return [level + rng.gauss(0, 0.02) for _ in range(n)]


def test_a_loss_that_jumps_where_a_late_record_is_continued() -> None:
    found = resume_at_5200(settled(2.1), falling(200, start=8.9, end=4.0))
    assert set(found) == {"loss_jumps"}
    assert found["loss_jumps"].step == 5201
    # Where the record shows what was learned, a part of that is enough.
    assert set(resume_at_5200(falling(200, start=9.0, end=2.0), falling(200, start=5.0, end=2.1))) == {"loss_jumps"}


def test_a_smaller_part_of_what_was_learned_that_comes_all_the_way_back() -> None:
    old = [*falling(100, start=11.0, end=2.1), *settled(2.1, 100)]
    assert set(resume_at_5200(old, [*falling(120, start=4.0, end=2.1), *settled(2.1, 20)])) == {"loss_jumps"}
    other = [*falling(120, start=4.0, end=2.7), *settled(2.7, 20)]
    assert "loss_jumps" not in resume_at_5200(old, other)


@pytest.mark.parametrize(
    "new",
    [
        settled(2.1),
        falling(200, start=3.0, end=2.1),  # below three times
        settled(8.9),  # other data
        [*falling(8, start=8.9, end=2.2), *settled(2.1)],  # back within ten records
        falling(12, start=8.9, end=7.0),  # too few
    ],
    ids=["goes-on", "a-little", "other-data", "spike", "short"],
)
def test_a_loss_after_a_resume_that_is_no_jump(new: list[float]) -> None:
    assert "loss_jumps" not in resume_at_5200(settled(2.1), new)


def cold(loss: Sequence[float], norms: Sequence[float], **others: Sequence[float]) -> bool:
    """Whether the optimizer is seen to begin cold, after records whose loss is 2.1 and whose gradient norm is 1.1."""
    old = {
        "loss": settled(2.1),
        "grad_norm": [1.1 + v - 2.1 for v in settled(2.1)],
        **{k: [1e-4] * 200 for k in others},
    }
    before = rows(old, source="a.log", begin=0.0, first=5001, attempt=0)
    after = rows({"loss": loss, "grad_norm": norms, **others}, source="b.log", begin=900.0, first=5201, attempt=1)
    return "loss_and_gradients_jump" in seen(frame(before, after))


UP, STEEP = [3.4, 3.3, 3.1, 3.0, 2.9, 2.8, 2.5, 2.3], [9.0, 8.5, 7.0, 6.5, 6.0, 5.0, 2.5, 1.5]


def test_a_loss_and_gradients_that_are_up_after_a_resume_and_come_back() -> None:
    loss, norms = [*UP, *settled(2.1)], [*STEEP, *([1.1] * 200)]
    assert cold(loss, norms)
    assert cold(loss, norms, lr=[1e-4] * 208)


@pytest.mark.parametrize(
    ("loss", "norms", "others"),
    [
        ([*UP, *settled(2.1)], [1.1] * 208, {}),  # the loss alone
        (settled(2.1), [*STEEP, *([1.1] * 192)], {}),  # the gradients alone
        ([*UP[:4], *settled(2.1)], [*STEEP[:4], *([1.1] * 200)], {}),  # no more than five steps
        ([*UP[:6], *settled(2.8)], [*STEEP[:6], *([4.0] * 200)], {}),  # other data
        ([*UP, *settled(2.1)], [*STEEP, *([1.1] * 200)], {"lr": [4e-4] * 208}),  # another learning rate
        ([*UP, 2.1], [*STEEP, 1.1], {}),  # too few
    ],
    ids=["loss", "gradients", "spike", "other-data", "rate", "short"],
)
def test_a_start_after_a_resume_that_is_not_cold(
    loss: list[float], norms: list[float], others: dict[str, list[float]]
) -> None:
    assert not cold(loss, norms, **others)


def test_records_that_bear_the_step_of_a_bar_are_continued_by_its_next() -> None:
    told = [50 * (1 + i // 5) for i in range(60)]
    before = rows({"loss": settled(2.1, 60), "grad_norm": [1.1] * 60}, source="a.log")
    after = rows({"loss": [*UP, *settled(2.1, 40)], "grad_norm": [*STEEP, *([1.1] * 40)]}, source="b.log")

    def at(table: Rows, steps: list[int]) -> Rows:
        return [{**row, "step": steps[i // 2]} for i, row in enumerate(table)]

    later = [650 + 50 * (i // 5) for i in range(48)]
    assert "loss_and_gradients_jump" in seen(frame(at(before, told), at(after, later)))
    far = [s + 500 for s in later]
    assert "loss_and_gradients_jump" not in seen(frame(at(before, told), at(after, far)))


def resumed_at(step: int | None, file: str = "stdout.log") -> Observation:
    said = {} if step is None else {"step": str(step)}
    evidence = (Evidence(file, 1, None, "resumed"),)
    return Observation(signature="run-resumed", weight=0.9, evidence=evidence, captures=said)


def resets(loss: Sequence[float], *marks: Observation, names: Sequence[str] = ()) -> list[tuple[str, int | None]]:
    """(signature, step) of what the catalogue says about a jump of the loss in a metrics file."""
    table = frame(rows({"loss": loss, **{name: [0.0] * len(loss) for name in names}}, source="metrics.jsonl"))
    wanted = {"resume-weights-not-restored", "loss-jump-after-resume", "loss-reset"}
    found = run_detectors({k: v for k, v in load_catalogue().items() if k in wanted}, table, list(marks))
    return [(o.signature, o.step) for o in found]


def test_loss_back_at_its_start_within_one_record() -> None:
    again = [*falling(200, end=1.0), *falling(150, end=1.0, seed=2)]
    assert resets(again) == [("loss-reset", 201)]
    assert resets(again, resumed_at(None)) == [("resume-weights-not-restored", 201)]
    assert resets(again, resumed_at(200)) == [("resume-weights-not-restored", 201)]
    assert resets(again, resumed_at(60)) == [("loss-reset", 201)]
    assert resets(again, names=["reward"]) == []


def test_part_of_the_loss_back_after_a_resume() -> None:
    part = [*falling(200, end=1.0), *falling(150, start=2.3, end=1.0, seed=2)]
    assert resets(part, resumed_at(200)) == [("loss-jump-after-resume", 201)]
    assert resets(part) == []


def test_jumps_that_are_no_reset() -> None:
    spike = falling(300, end=1.0)
    spike[200:208] = [4.0] * 8
    assert resets(spike) == []
    assert resets([*falling(200, end=1.0), *[4.0] * 100]) == []  # a divergence
    folds = [v for seed in range(3) for v in falling(150, end=1.0, seed=seed)]
    assert resets(folds) == []
    assert resets(falling(350, end=1.0), resumed_at(200)) == []
    assert resets([*falling(200, end=1.0), *falling(15, end=1.0)]) == []  # too short to be judged


# --- reinforcement learning -----------------------------------------------------------------------------------------


def test_kl_jump() -> None:
    found = seen(frame(rows({"kl": [0.017, 1.74, 3.8, 4.33, 4.47], "entropy": [0.35] * 5}, steps=False)))
    assert set(found) == {"kl_explosion"}
    assert found["kl_explosion"].evidence[0].line == 2
    slow = [0.001 * 1.02**i for i in range(300)]
    assert not seen(frame(rows({"kl": slow, "reward": falling(300)[::-1]})))
    to_target = [6.0 * (1 - math.exp(-i / 80)) for i in range(300)]
    assert not seen(frame(rows({"kl": to_target, "reward": falling(300)[::-1]})))


def test_kl_that_grows_ever_faster_over_the_whole_run() -> None:
    def kl(shape: Callable[[float], float]) -> dict[str, Observation]:
        noise = random.Random(5)
        curve = [shape(i / 399) * math.exp(0.2 * noise.gauss(0, 1)) for i in range(400)]
        return seen(frame(rows({"kl": curve, "reward": falling(400)[::-1]})))

    found = kl(lambda x: 0.01 * 1000**x)
    assert set(found) == {"kl_explosion"}
    assert 100 <= (found["kl_explosion"].step or 0) <= 200  # a tenth of a nat: ten times the first level
    assert not kl(lambda x: 0.001 + 10 * x)  # as fast as ever
    assert not kl(lambda x: 0.001 + 10 / (1 + math.exp(-12 * (x - 0.5))))  # levels off
    assert not kl(lambda x: 0.001 + 0.3 * x**2)  # far below any target
    assert not kl(lambda x: 0.01 * 1000**x if x < 1 else 0.01)  # the last record is back where it began


def test_kl_of_an_autoencoder() -> None:
    noise = random.Random(6)
    annealed = [0.02 + 18 * (i / 399) ** 2 * math.exp(0.05 * noise.gauss(0, 1)) for i in range(400)]
    cyclical = [0.01] * 100 + [14.0] * 100
    for curve in (annealed, cyclical, [80.0 * (1 - math.exp(-i / 40)) for i in range(200)]):
        assert not seen(frame(rows({"kl": curve, "loss": falling(len(curve), start=180, end=110)})))


def test_negative_kl() -> None:
    assert set(seen(frame(rows({"kl": [0.1, -2.0, -8.0, -30.0, -90.0]})))) == {"kl_negative"}
    assert not seen(frame(rows({"kl": [0.1, -0.02, -0.4, 0.2, -0.3]})))


def test_no_learning_signal() -> None:
    dead = {
        "reward_std": [0.0] * 5,
        "frac_reward_zero_std": [1.0] * 5,
        "loss": [0.0] * 5,
        "grad_norm": [0.0] * 5,
        "reward": [3.0] * 5,
    }
    assert set(seen(frame(rows(dead)))) == {"no_learning_signal"}
    now_and_then = {"reward_std": [0.3, 0.0, 0.2, 0.0, 0.1] * 10, "loss": [0.0] * 50, "reward": [3.0] * 50}
    assert not seen(frame(rows(now_and_then)))


def test_policy_collapse_needs_a_companion() -> None:
    random.seed(3)
    reward = [min(1.0, i / 60) + random.gauss(0, 0.02) for i in range(120)] + [
        0.05 + random.gauss(0, 0.02) for _ in range(60)
    ]
    length = [*[400.0] * 120, *[20.0] * 60]
    assert set(seen(frame(rows({"reward": reward, "response_length": length})))) == {"policy_collapse"}
    assert not seen(frame(rows({"reward": reward, "response_length": [400.0] * 180})))


def test_reward_that_falls_alone_and_for_long() -> None:
    random.seed(3)
    reward = [min(300.0, 5.0 * i) + random.gauss(0, 5) for i in range(120)]
    entropy = {"entropy": [-0.6] * 320}
    low, half = ([level + random.gauss(0, 5) for _ in range(200)] for level in (20.0, 150.0))

    def told(rewards: list[float]) -> list[str]:
        table = frame(rows({"reward": rewards, **entropy}))
        return [o.signature for o in run_detectors(load_catalogue(), table, [])]

    assert told(reward + low) == ["reward-lost"]
    assert told(reward + half) == []
    assert told(reward + low[:60]) == []
    # Far below where it began, fewer records are enough
    deep = [value - 270 for value in low]
    assert told(reward + deep[:40]) == ["reward-lost"]
    assert told(reward + deep[:25]) == []
    assert told(reward + deep[:30] + low[:10]) == []  # on its way back


def test_value_loss() -> None:
    value = [*[1.0] * 30, *[1e5] * 10]
    assert set(seen(frame(rows({"value_loss": value, "reward": [5.0] * 40})))) == {"value_loss_explosion"}
    assert not seen(frame(rows({"value_loss": value, "reward": [float(i) for i in range(40)]})))
    rising_a_little = [1.0 + 0.03 * i for i in range(40)]
    assert set(seen(frame(rows({"value_loss": value, "reward": rising_a_little})))) == {"value_loss_explosion"}
    assert not seen(frame(rows({"value_loss": [*[1.0] * 30, *[2e3] * 10], "reward": rising_a_little})))


def test_preference_that_never_moves() -> None:
    assert set(seen(frame(rows({"loss": [math.log(2)] * 60, "margin": [0.0] * 60})))) == {"flat_preference"}
    jitter = [0.002 * (i % 3 - 1) for i in range(60)]
    assert not seen(frame(rows({"loss": [math.log(2) + j for j in jitter], "margin": jitter})))


# --- runs that learn nothing ----------------------------------------------------------------------------------------


def test_weights_that_do_not_move() -> None:
    base = {"loss": [2.3] * 60, "grad_norm": [0.3] * 60, "lr": [1e-3] * 60}
    assert set(seen(frame(rows({**base, "train/update_ratio": [0.0] * 60})))) == {"weights_not_updated"}
    assert not seen(frame(rows({**base, "train/update_ratio": [1e-3] * 60})))


def test_learning_rate_too_low() -> None:
    base = {"loss": [2.3 + 0.01 * (i % 3) for i in range(400)], "grad_norm": [0.3] * 400}
    assert set(seen(frame(rows({**base, "update_ratio": [5e-6] * 400})))) == {"learning_rate_too_low"}
    assert not seen(frame(rows({"loss": falling(400), "update_ratio": [5e-6] * 400})))


def test_clipping_of_scaled_gradients() -> None:
    base = {"loss_scale": [65536.0] * 60, "grad_norm": [2e4] * 60}
    assert set(seen(frame(rows({**base, "loss": [2.3] * 60})))) == {"clipped_while_scaled"}
    assert not seen(frame(rows({**base, "loss": falling(60)})))


def test_majority_class() -> None:
    metrics = {
        "accuracy": [0.5, 0.7, *[0.95] * 28],
        "recall_class0": [0.5, 0.7, *[1.0] * 28],
        "recall_class1": [0.5, 0.3, *[0.0] * 28],
    }
    assert set(seen(frame(rows(metrics)))) == {"majority_class"}
    assert not seen(frame(rows({**metrics, "recall_class1": [0.5, 0.3, *[0.2] * 28]})))


def test_average_that_began_anew() -> None:
    raw = [2.3 + 0.1 * (i % 3) for i in range(30)]
    average = [2.2] * 30
    assert not seen(frame(rows({"val_loss_ema": average, "val_loss_raw": raw})))
    average[15] = raw[15]
    found = seen(frame(rows({"val_loss_ema": average, "val_loss_raw": raw})))
    assert set(found) == {"average_lost"}
    assert found["average_lost"].step == 16


# --- all of them ----------------------------------------------------------------------------------------------------

_VALUE = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, 1.0, NAN, math.inf, -math.inf, 65536.0]))
_NAMES = [
    "loss",
    "grad_norm",
    "lr",
    "loss_scale",
    "overflow",
    "skipped_steps",
    "kl",
    "reward",
    "reward_std",
    "value_loss",
    "margin",
    "entropy",
    "update_ratio",
    "accuracy",
    "recall_0",
    "recall_1",
    "ema",
    "raw",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(_NAMES), st.lists(_VALUE, min_size=1, max_size=40), min_size=1, max_size=6),
            st.sampled_from([LOG, "b.log", EVENTS]),
            st.one_of(st.none(), st.integers(0, 3)),
            st.booleans(),
            st.integers(0, 100),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_table_is_taken(parts: list[tuple[dict[str, list[float | None]], str, int | None, bool, int]]) -> None:
    table = frame(
        *(rows(s, source=source, rank=rank, steps=steps, first=first) for s, source, rank, steps, first in parts)
    )
    for name, detector in REGISTRY.items():
        for choice in CHOICES[name]:
            for sign in detector(table, (), **choice):
                assert sign.evidence and all(e.text for e in sign.evidence), name
                assert 0 < sign.weight <= 1


def test_empty_table() -> None:
    assert run_detectors(load_catalogue(), frame(), ()) == ()


def _signature(detector: str, **parameters: object) -> dict[str, Signature]:
    rule = EvidenceRule("metrics", 0.5, detector=detector, parameters=parameters)
    made = Signature("x", "numerics", "t", "cause", "error", "why", evidence=(rule,), file="numerics/x.toml")
    return {"x": made}


def test_run_fills_name_and_weight_and_passes_parameters() -> None:
    metrics = frame(rows({"loss": [*falling(30), NAN, NAN]}))
    (found,) = run_detectors(_signature("nan_loss"), metrics, ())
    assert (found.signature, found.weight) == ("x", 0.5)
    mixed = frame(rows({"loss": [*falling(20), NAN, NAN, *falling(20)]}))
    assert run_detectors(_signature("nan_loss"), mixed, ()) == ()
    assert run_detectors(_signature("nan_loss", persist=2), mixed, ())


def test_wrong_detector_and_wrong_parameter_are_named() -> None:
    metrics = frame(rows({"loss": falling(30)}))
    with pytest.raises(SignatureError, match=r"numerics/x\.toml.*no_such"):
        run_detectors(_signature("no_such"), metrics, ())
    with pytest.raises(SignatureError, match="persists"):
        run_detectors(_signature("nan_loss", persists=2), metrics, ())


def test_catalogue_names_only_detectors_that_exist() -> None:
    for signature in load_catalogue().values():
        for rule in signature.evidence:
            if rule.source == "metrics":
                assert rule.detector in REGISTRY, signature.file
                REGISTRY[rule.detector](frame(rows({"loss": [1.0]})), (), **rule.parameters)
