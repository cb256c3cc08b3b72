"""Series that stand for one fault in their names: classes, detections, logits, averages of weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from forensics.engine.detectors import run_detectors
from forensics.engine.pipeline import Options, analyse
from forensics.model import METRICS_COLUMNS, Observation, Verdict, schema
from forensics.signatures.schema import load_catalogue

NAN = math.nan


def frame(series: Mapping[str, Sequence[float | None]], every: int = 1) -> pl.DataFrame:
    """One record a line; None leaves a value out."""
    made = [
        ("metrics.jsonl", i + 1, None, None, i * every, None, None, name, float(value))
        for i in range(max(map(len, series.values())))
        for name, values in series.items()
        if i < len(values) and (value := values[i]) is not None
    ]
    return pl.DataFrame(made, schema=schema(METRICS_COLUMNS), orient="row")


def seen(series: Mapping[str, Sequence[float | None]]) -> dict[str, Observation]:
    return {o.signature: o for o in run_detectors(load_catalogue(), frame(series), [])}


# --- one class ------------------------------------------------------------------------------------------------------

FALLING = [0.45 - 0.001 * i for i in range(24)]
STILL = [0.8731] * 24


@pytest.mark.parametrize(
    "recalls",
    [("val_recall_class_0", "val_recall_class_1"), ("val/recall/cat", "val/recall/dog"), ("cat_recall", "dog_recall")],
)
def test_majority_class_in_validation(recalls: tuple[str, str]) -> None:
    one, none = recalls
    base = {"loss": FALLING, "eval_accuracy": STILL}
    found = seen({**base, one: [1.0] * 24, none: [0.0] * 24})
    assert set(found) == {"majority-class-collapse"}
    assert none in (found["majority-class-collapse"].note or "")
    assert not seen({**base, one: [1.0] * 24, none: [0.0] * 20 + [0.1] * 4})
    assert not seen({**base, one: [0.9] * 24, none: [0.0] * 24})
    rising = [0.6 + 0.01 * i for i in range(24)]
    assert not seen({"loss": FALLING, "eval_accuracy": rising, one: [1.0] * 24, none: [0.0] * 24})


def test_a_third_class_that_is_found_now_and_then() -> None:
    recalls = {"recall_0": [1.0] * 24, "recall_1": [0.0] * 24, "recall_2": [0.4] * 24}
    assert not seen({"loss": FALLING, "eval_accuracy": STILL, **recalls})


def test_few_evaluations_are_not_judged() -> None:
    assert not seen({"loss": FALLING[:8], "eval_accuracy": STILL[:8], "recall_0": [1.0] * 8, "recall_1": [0.0] * 8})


@pytest.mark.parametrize(("share", "classes"), [(0.8731, 2), (0.4, 5), (0.95, 2)])
def test_macro_f1_of_one_class(share: float, classes: int) -> None:
    """One class given to all samples has F1 2p/(1+p), every other 0; as programs round it."""
    macro = round(2 * share / (1 + share) / classes, 4)
    base = {"loss": FALLING, "eval_accuracy": [share] * 24}
    found = seen({**base, "val_f1_macro": [macro] * 24})
    assert set(found) == {"majority-class-collapse"}
    assert f"{classes} classes" in (found["majority-class-collapse"].note or "")
    assert not seen({**base, "val_f1_macro": [min(0.99, 1.3 * macro)] * 24})
    assert not seen({**base, "val_f1_macro": [macro] * 18 + [1.1 * macro] * 6})
    assert not seen({**base, "val_f1": [macro] * 24})


@pytest.mark.parametrize(
    ("accuracy", "score"), [("eval_accuracy", "val_f1"), ("eval_accuracy", "eval/f1_score"), ("accuracy", "f1")]
)
def test_an_f1_of_zero_beside_an_accuracy_that_stands(accuracy: str, score: str) -> None:
    base = {"loss": FALLING, accuracy: [0.7312] * 24}
    found = seen({**base, score: [0.0] * 24})
    assert set(found) == {"majority-class-collapse"}
    assert f"{score} is exactly 0 from step 0 on" in (found["majority-class-collapse"].note or "")
    late = seen({**base, score: [0.3] * 6 + [0.0] * 18})["majority-class-collapse"]
    assert "exactly 0 from step 0 on" not in (late.note or "")
    assert not seen({**base, score: [0.0] * 20 + [0.01] * 4})
    assert not seen({**base, score: [0.0] * 20 + [None] * 4, accuracy: [0.4] * 24})  # it is wrong more often than not
    assert not seen({**base, score: [0.0] * 24, accuracy: [0.6 + 0.01 * i for i in range(24)]})
    assert not seen({"loss": FALLING[:8], accuracy: [0.7312] * 8, score: [0.0] * 8})


def test_an_f1_of_training_says_nothing_of_an_accuracy_on_held_out_data() -> None:
    assert not seen({"loss": FALLING, "eval_accuracy": [0.7312] * 24, "f1": [0.0] * 24})
    assert not seen({"loss": FALLING, "accuracy": [0.7312] * 24, "val_f1": [0.0] * 24})


def test_macro_f1_of_a_classifier_that_works() -> None:
    assert not seen({"loss": FALLING, "eval_accuracy": [0.92] * 24, "val_f1_macro": [0.9] * 24})


# --- detections -----------------------------------------------------------------------------------------------------

LEARNT: list[float | None] = [2.0 * math.exp(-i / 60) + 0.3 for i in range(400)]


def every_fortieth(value: float) -> list[float | None]:
    return [value if i % 40 == 0 else None for i in range(400)]


def test_average_precision_of_zero_where_only_terms_of_the_loss_are_told() -> None:
    zero, some = every_fortieth(0.0), every_fortieth(0.01)
    assert set(seen({"loss_part": LEARNT, "metrics/mAP50(B)": zero})) == {"detection-metric-zero"}
    assert set(seen({"loss": LEARNT, "AP": zero, "AP50": zero})) == {"detection-metric-zero"}
    assert "detection-metric-zero" not in seen({"loss_part": [2.0] * 400, "metrics/mAP50(B)": zero})
    assert not seen({"loss": LEARNT, "AP": zero, "AP50": some})


# --- logits and units -----------------------------------------------------------------------------------------------

GROWING = [8 * math.exp(i / 260) for i in range(600)]
FLAT = [2.5 + 4 * math.exp(-i / 50) for i in range(600)]


@pytest.mark.parametrize("name", ["max_logit", "train/logit_max", "logits/max"])
def test_logits_that_grow_until_the_loss_is_lost(name: str) -> None:
    lost = {name: GROWING[:560] + [NAN] * 40, "loss": FLAT[:560] + [NAN] * 40}
    assert "logit-growth" in seen(lost)
    assert set(seen({name: GROWING, "loss": FLAT})) == {"logit-growth"}
    short = {name: GROWING[:150] + [NAN] * 450, "loss": FLAT[:150] + [NAN] * 450}
    assert "logit-growth" not in seen(short)
    learns = {name: GROWING, "loss": [2.5 * math.exp(-i / 400) for i in range(600)]}
    assert "logit-growth" not in seen(learns)


def test_a_loss_that_is_lost_by_what_was_suspect_has_diverged(tmp_path: Path) -> None:
    def run(name: str, lost: int) -> tuple[Verdict, str]:
        records = [
            {"step": 10 * i, "loss": NAN if i >= lost else FLAT[i], "max_logit": NAN if i >= lost else GROWING[i]}
            for i in range(600)
        ]
        folder = tmp_path / name
        folder.mkdir()
        (folder / "m.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        found = analyse([str(folder)], Options(threads=1))
        return found.verdict, found.findings[0].name

    assert run("lost", 560) == (Verdict.DIVERGED, "logit-growth")
    assert run("kept", 600) == (Verdict.SUSPECT, "logit-growth")


def test_units_that_give_zero() -> None:
    share = [min(0.97, 0.1 + i / 100) for i in range(200)]
    loss = [2.0 + 0.01 * (i % 3) for i in range(200)]
    assert "dead-units" in seen({"relu3/zero_frac": share, "loss": loss})
    assert "dead-units" in seen({"relu3/zero_frac": [*share, NAN, NAN], "loss": loss})
    assert "dead-units" not in seen({"weights/zero_frac": share, "loss": loss})
    assert "dead-units" not in seen({"relu3/zero_frac": [0.5] * 200, "loss": loss})


# --- averages of weights --------------------------------------------------------------------------------------------


def test_average_beside_a_metric_of_a_canonical_name() -> None:
    raw = [0.4 + i / 2000 for i in range(60)]
    average = [v + 0.1 for v in raw]
    assert not seen({"val/acc_ema": average, "eval_accuracy": raw})
    average[30] = raw[30]
    assert set(seen({"val/acc_ema": average, "eval_accuracy": raw})) == {"ema-lost-on-resume"}
    assert not seen({"loss_ema": average, "loss": raw[::-1]})


# --- places ---------------------------------------------------------------------------------------------------------


def test_batches_of_epochs_are_told_as_such(tmp_path: Path) -> None:
    lines = [
        f"2026/03/01 {9 + e:02d}:{b // 20:02d}:00 - mmengine - INFO - Epoch(train) [{e}][{b:>3}/500]  lr: 1.0e-03"
        f"  time: 0.3000  loss: {2 / e + 1 / b:.4f}\n"
        for e in range(1, 6)
        for b in range(50, 501, 50)
    ]
    (tmp_path / "x.log").write_text("".join(lines))
    found = analyse([str(tmp_path)], Options(threads=1))
    assert "batch 500 of epoch 5" in found.summary
    steps = [f"step {n} loss: {2 - n / 500:.4f}\n" for n in range(1, 501)]
    (tmp_path / "x.log").write_text("".join(steps))
    assert "step 500" in analyse([str(tmp_path)], Options(threads=1)).summary


# --- nothing predicted ------------------------------------------------------------------------------------------------


def test_evaluations_that_find_nothing_while_the_loss_falls() -> None:
    falling = [2 / (1 + i / 4) for i in range(12)]
    assert "no-detections" in seen({"loss": falling, "predictions": [0.0] * 6})
    assert "no-detections" not in seen({"loss": falling, "predictions": [0.0] * 4})
    assert "no-detections" not in seen({"loss": [2.0] * 12, "predictions": [0.0] * 6})
    assert "no-detections" not in seen({"loss": falling, "predictions": [0.0] * 6, "bbox/AP": [None] * 6 + [0.0, 3.1]})
    assert "no-detections" in seen({"loss": falling, "predictions": [0.0] * 6, "bbox/AP": [NAN] * 6})
