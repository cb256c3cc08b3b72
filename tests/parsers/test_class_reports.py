"""Reports of scikit-learn in a log: the recall of each class, and a classifier that knows one class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Kind, Source
from forensics.parsers.metric_lines import LogText, extract


def report(
    recalls: Sequence[float], names: Sequence[str] = ("0", "1"), whole: str = "accuracy", digits: int = 2
) -> str:
    """As sklearn.metrics.classification_report makes it."""
    width = max(len("weighted avg"), *map(len, names))
    rows = [
        f"{name:>{width}s} " + "".join(f" {v:>9.{digits}f}" for v in (recall * 0.9, recall, recall * 0.94)) + f" {n:>9}"
        for name, recall, n in zip(names, recalls, (1780, 220, 30), strict=False)
    ]
    numbers = f" {'':>9} {'':>9} {0.89:>9.{digits}f} {2000:>9}"
    if whole != "accuracy":
        numbers = f" {0.89:>9.{digits}f}" * 3 + f" {2000:>9}"
    means = [
        f"{mean:>{width}s} " + f" {0.45:>9.{digits}f}" * 3 + f" {2000:>9}" for mean in ("macro avg", "weighted avg")
    ]
    head = f"{'':>{width}s} " + "".join(f" {title:>9}" for title in ("precision", "recall", "f1-score", "support"))
    return "\n".join((head, "", *rows, "", f"{whole:>{width}s} {numbers}", *means, ""))


def recalls(text: str) -> list[tuple[int, str, float]]:
    source = Source(path="train.log", kind=Kind.LOG, file=Path("train.log"), size=len(text))
    frame = extract([LogText(source, [(text.encode(), 1)], frozenset(), 0.0)])
    return [(r["line"], r["name"], r["value"]) for r in frame.iter_rows(named=True) if "recall" in r["name"]]


def test_the_recall_of_each_class() -> None:
    text = "Epoch 1 train loss 0.3598\n" + report((1, 0)) + "Epoch 2 train loss 0.3590\n" + report((0.97, 0.12))
    assert recalls(text) == [(4, "recall/0", 1), (5, "recall/1", 0), (13, "recall/0", 0.97), (14, "recall/1", 0.12)]


def test_digits_and_names_of_several_words() -> None:
    found = recalls(report((0.9123, 0.25, 0), ("no tumour", "tumour", "test"), digits=4))
    assert found == [(3, "recall/no tumour", 0.9123), (4, "recall/tumour", 0.25), (5, "recall/test_2", 0)]


def test_behind_the_label_of_a_rank() -> None:
    text = "".join(f"[rank0]: {line}\n" for line in report((0.91, 0.25)).splitlines())
    assert recalls(text) == [(3, "recall/0", 0.91), (4, "recall/1", 0.25)]


@pytest.mark.parametrize("text", [report((1, 0), whole="micro avg"), report((1, 0)).split("accuracy")[0]])
def test_reports_of_several_labels_and_those_cut_short_are_left_out(text: str) -> None:
    assert recalls(text) == []


def test_a_classifier_that_knows_one_class(tmp_path: Path) -> None:
    def roots(told: list[tuple[float, float]]) -> list[str]:
        lines = [f"Epoch {i} train loss {0.36 - i / 1000:.4f}\n{report(each)}" for i, each in enumerate(told)]
        (tmp_path / "train.log").write_text("".join(lines))
        return [f.name for f in analyse([str(tmp_path)], Options(threads=1)).findings if f.role.value == "root"]

    assert roots([(1.0, 0.0)] * 12) == ["majority-class-collapse"]
    assert roots([(1.0, 0.0)] * 6 + [(0.98, 0.21)] * 6) == []
    assert roots([(1.0, 0.0)] * 6) == []  # too few
