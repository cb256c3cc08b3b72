"""Names of series that are watched for one fault, in the spellings of those who log them, and what only looks alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Identity, Kind, Source
from forensics.parsers import metric_files, metric_lines
from forensics.parsers.instruments import is_average_precision, is_dead_share, name_of, raw_names, recall_class
from forensics.parsers.metric_files import looks_like_metrics

PRECISIONS = (
    "val/mAP", "AP", "map_50", "coco/bbox_mAP", "coco/bbox_mAP_50", "bbox/AP50", "metrics/mAP50(B)",
    "metrics/mAP50-95(B)", "metrics/mAP_0.5", "metrics/mAP_0.5:0.95", "mAP@0.5",
)  # fmt: skip


@pytest.mark.parametrize("name", PRECISIONS)
def test_average_precision(name: str) -> None:
    assert is_average_precision(name)
    assert name_of(name) == name


@pytest.mark.parametrize("name", ["Map", "swap", "gap", "bbox/APs", "bbox_mAP_m", "mape", "heatmap", "recap"])
def test_no_average_precision(name: str) -> None:
    assert not is_average_precision(name)
    assert name_of(name) is None


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("val/recall/cat", "cat"), ("val_recall_class_0", "0"), ("recall_0", "0"), ("recall_class1", "class1"),
        ("cat_recall", "cat"), ("0/recall", "0"),
        ("recall", None), ("val_recall", None), ("metrics/recall(B)", None), ("recall_macro", None),
        ("macro avg/recall", None), ("recall@5", None), ("recall_at_5", None),
    ],
)  # fmt: skip
def test_class_of_a_recall(name: str, of: str | None) -> None:
    assert recall_class(name) == of


@pytest.mark.parametrize(
    ("name", "dead"),
    [
        ("stats/layer3/dead_frac", True), ("act/dead_neurons/fraction", True), ("relu3/zero_frac", True),
        ("relu/zero_fraction", True), ("weights/zero_frac", False), ("reward/zero_frac", False),
        ("frac_reward_zero_std", False), ("deadline", False),
    ],
)  # fmt: skip
def test_share_of_dead_units(name: str, dead: bool) -> None:
    assert is_dead_share(name) is dead


def test_metric_of_averaged_weights_and_that_of_the_raw_ones() -> None:
    assert "eval_accuracy" in raw_names("val/acc_ema")
    assert "val_loss_raw" in raw_names("val_loss_ema")
    assert name_of("val_loss_raw") == "val_loss_raw"
    assert raw_names("loss_ema") == ()  # a training loss that is smoothed
    assert raw_names("val/cinema") == ()


def test_canonical_names_stay_as_they_are() -> None:
    assert name_of("train/loss") == "loss"
    assert name_of("val/acc") == "eval_accuracy"
    assert name_of("probe/dead_units/act") is None
    assert name_of("weather") is None


WATCHED = ("val/mAP", "max_logit", "act/layer3/dead_frac", "val_recall_class_0", "val/acc_ema", "frozen/norm")


@pytest.mark.parametrize("name", WATCHED)
def test_every_carrier_gives_the_same_name(name: str, tmp_path: Path) -> None:
    """JSON lines, CSV and log lines (read one by one, and by template) keep what TensorBoard does."""
    records = [{"step": n, "loss": 2.0, name: n / 128} for n in range(1, 101)]
    csv = "\n".join([f"step,loss,{name}", *(f"{r['step']},{r['loss']},{r[name]}" for r in records)]) + "\n"
    texts = {
        "metrics.jsonl": "".join(json.dumps(r) + "\n" for r in records),
        "metrics.csv": csv,
        "line.log": "".join(f"step {r['step']} loss: {r['loss']} {name}: {r[name]}\n" for r in records),
        "few.log": "".join(f"step {r['step']} loss: {r['loss']} {name}: {r[name]}\n" for r in records[:3]),
        "dict.log": "".join(f"{r}\n" for r in records),
    }
    for file, text in texts.items():
        path = tmp_path / file
        path.write_text(text)
        kind = Kind.LOG if file.endswith(".log") else Kind.METRICS
        source = Source(file, path, kind, len(text), Identity())
        if kind is Kind.LOG:
            log = metric_lines.LogText(source, [(text.encode(), 1)], frozenset(), 1.78e9)
            table = metric_lines.extract([log])
        else:
            assert looks_like_metrics(text.encode(), file)
            table, _ = metric_files.read(path, source)
        rows = table.filter(name=name).select("step", "value").rows()
        assert rows == [(n, n / 128) for n in range(1, len(rows) + 1)]
        assert len(rows) == (3 if file == "few.log" else 100), file


def test_a_record_of_an_evaluation_alone_is_a_record() -> None:
    assert looks_like_metrics(b'{"epoch": 1, "bbox_mAP": 0.0}\n{"epoch": 2, "bbox_mAP": 0.0}\n', "x.jsonl")
    assert not looks_like_metrics(b'{"map": 3, "width": 20}\n{"map": 4, "width": 20}\n', "x.jsonl")


def lines(text: str) -> list[tuple[object, ...]]:
    source = Source("train.log", Path("train.log"), Kind.LOG, len(text), Identity())
    table = metric_lines.extract([metric_lines.LogText(source, [(text.encode(), 1)], frozenset(), 1.78e9)])
    return table.select("line", "step", "epoch", "name", "value").rows()


SUMMARY = """\
 Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.104
 Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=1000 ] = 0.253
 Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=1000 ] = 0.051
 Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = -1.000
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.211
"""


@pytest.mark.parametrize("prefix", ["", "[rank0]:"])
def test_summary_of_pycocotools(prefix: str) -> None:
    rows = lines("".join(prefix + line + "\n" for line in SUMMARY.splitlines()) * 40)
    assert rows[:3] == [(1, None, None, "AP", 0.104), (2, None, None, "AP50", 0.253), (3, None, None, "AP75", 0.051)]
    assert len(rows) == 3 * 40


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-07 11:00:00,123 - mmdet - INFO - Epoch(val) [7][5000]\tbbox_mAP: 0.1030, bbox_mAP_s: 0.2",
        "2026/03/07 11:00:00 - mmengine - INFO - Epoch(val) [7][5000/5000]    bbox_mAP: 0.1030  time: 0.05",
    ],
)
def test_batches_of_a_pass_over_held_out_data_are_no_steps(line: str) -> None:
    assert lines(line) == [(1, None, 7.0, "bbox_mAP", 0.103)]


def test_iterations_of_mmengines_validation_are_no_steps() -> None:
    assert lines("2026/03/07 11:00:00 - mmengine - INFO - Iter(val) [50/50]    coco/bbox_mAP: 0.1030") == [
        (1, None, None, "coco/bbox_mAP", 0.103)
    ]
    training = lines("2026/03/07 11:00:00 - mmengine - INFO - Iter(train) [ 500/5000]  loss: 1.2500  time: 0.0500")
    assert (1, 500, None, "loss", 1.25) in training


def test_bars_of_a_data_set_are_no_metrics() -> None:
    assert lines("Map:  12%|#1        | 120/1000 [00:01<00:02, 500.00 examples/s]\nMap: 100\n") == []


WORDS = st.sampled_from(
    ["val", "recall", "mAP", "f1", "ema", "raw", "dead", "zero_frac", "grad_norm", "logits", "max", "cat"]
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, min_size=1, max_size=4).map("/".join)))
def test_any_name_is_told_once_and_for_all(name: str) -> None:
    found = name_of(name)
    assert found is None or (0 < len(found) <= 120 and name_of(found) == found)
    assert name not in raw_names(name)
    own = recall_class(name)
    assert own is None or "recall" in name.lower()


@settings(max_examples=80, deadline=None)
@given(st.from_regex(r"[a-z]{3,9}", fullmatch=True))
def test_the_class_of_a_recall_is_found_beside_any_phase(word: str) -> None:
    own = recall_class(f"val/recall/{word}")
    assert own in (word, None) and (own is None) == (recall_class(f"{word}_recall") is None)
