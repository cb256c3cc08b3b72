"""Evaluations of detectors as consoles show them: YOLO's table over its versions, and detectron2's lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Kind, Source
from forensics.parsers.metric_lines import LogText, extract


def rows(text: str) -> list[tuple[int, str, float]]:
    source = Source(path="train.log", kind=Kind.LOG, file=Path("train.log"), size=len(text))
    frame = extract([LogText(source, [(text.encode(), 1)], frozenset(), 0.0)])
    return [(r["line"], r["name"], r["value"]) for r in frame.iter_rows(named=True) if "AP" in r["name"]]


def table(columns: str, width: int, values: str, bar: str = "") -> str:
    head, *titles = columns.split()
    said = values.split()
    first = max(width + 8, 20)
    top = f"{head:>{first}}" + "".join(f"{title:>{width}}" for title in titles)
    return f"{top}{bar}\n{'all':>{first}}" + "".join(f"{value:>{width}}" for value in said) + "\n"


BAR = ": 100%|##########| 8/8 [00:02<00:00,  3.1it/s]"


@pytest.mark.parametrize(
    ("columns", "width", "names"),
    [
        ("Class Images Targets P R mAP@.5 mAP@.5:.95", 12, ["mAP@.5", "mAP@.5:.95"]),  # YOLOv5 3 and 4
        ("Class Images Labels P R mAP@.5 mAP@.5:.95", 11, ["mAP@.5", "mAP@.5:.95"]),  # YOLOv5 5 to 6.1, YOLOv7
        ("Class Images Instances P R mAP50 mAP50-95", 11, ["mAP50", "mAP50-95"]),  # YOLOv5 6.2 and later, YOLOv9
        ("Class Images Instances Box(P R mAP50 mAP50-95)", 11, ["mAP50(B)", "mAP50-95(B)"]),  # Ultralytics 8
    ],
)
@pytest.mark.parametrize("bar", [BAR, "", f": 50%|#####     | 4/8 [00:01<00:01,  3.1it/s]\r{'':>20}Class{BAR}"])
def test_yolo(columns: str, width: int, names: list[str], bar: str) -> None:
    text = "starting\n" + 3 * table(columns, width, "128 929 0.71 0.63 0.701 0.478", bar)
    assert rows(text) == [
        (line, name, value) for line in (3, 5, 7) for name, value in zip(names, (0.701, 0.478), strict=True)
    ]


def test_masks_stand_apart_from_boxes() -> None:
    columns = "Class Images Instances Box(P R mAP50 mAP50-95) Mask(P R mAP50 mAP50-95)"
    found = rows(table(columns, 11, "128 929 0.7 0.6 0.5 0.4 0.3 0.2 0.1 0.05", BAR))
    assert [name for _, name, _ in found] == ["mAP50(B)", "mAP50-95(B)", "mAP50(M)", "mAP50-95(M)"]
    assert [value for _, _, value in found] == [0.5, 0.4, 0.1, 0.05]


def test_an_evaluation_over_no_objects_says_nothing() -> None:
    assert rows(table("Class Images Instances Box(P R mAP50 mAP50-95)", 11, "128 0 0 0 0 0", BAR)) == []


def test_the_row_of_a_class_is_none_of_all() -> None:
    text = table("Class Images Instances P R mAP50 mAP50-95", 11, "128 929 0.7 0.6 0.5 0.4")
    assert (
        len(rows(text + "                   car        128        61        0.7        0.6        0.1        0.2\n"))
        == 2
    )


HEAD = "[11/20 08:00:10 d2.evaluation.testing]: copypaste: "


def test_detectron2() -> None:
    text = (
        f"{HEAD}Task: bbox\n{HEAD}AP,AP50,AP75,APs,APm,APl\n{HEAD}21.4473,29.4910,23.2137,8.9807,21.3006,31.7864\n"
        f"{HEAD}Task: sem_seg\n{HEAD}mIoU,fwIoU\n{HEAD}41.2,60.1\n{HEAD}Task: segm\n{HEAD}AP,AP50\n{HEAD}nan,1.5\n"
        f"{HEAD}accuracy=0.3\n"
    )
    boxes = [(3, "bbox/AP", 21.4473), (3, "bbox/AP50", 29.491), (3, "bbox/AP75", 23.2137)]
    assert rows(text) == [*boxes, (9, "segm/AP50", 1.5)]


def yolo(i: int, found: str) -> str:
    top = f"{'Epoch':>10}{'gpu_mem':>10}{'box':>10}{'obj':>10}{'cls':>10}{'labels':>10}{'img_size':>10}\n"
    row = "".join(
        f"{cell:>10}" for cell in (f"{i}/11", "4.21G", *(f"{v / (1 + i / 4):.4g}" for v in (0.11, 0.03, 0.02)))
    )
    return f"\n{top}{row}{12:>10}{640:>10}: 100%|##########| 120/120 [00:31<00:00,  3.8it/s]\n" + table(
        "Class Images Labels P R mAP@.5 mAP@.5:.95", 11, f"128 929 {found}", BAR
    )


def detectron2(i: int, found: str) -> str:
    return (
        f"[11/20 08:{i:02}:10 d2.utils.events]:  eta: 1:20:11  iter: {500 * i + 499}  total_loss: {2 / (1 + i / 4):.4f}"
        "  lr: 0.0025  max_mem: 6121M\n"
        f"{HEAD}Task: bbox\n{HEAD}AP,AP50,AP75\n{HEAD}{','.join(found.split()[1:])}\n"
    )


@pytest.mark.parametrize(("console", "zero"), [(yolo, "0 0 0 0"), (detectron2, "0 0.0000 0.0000 0.0000")])
def test_precision_of_zero_in_every_evaluation_of_a_console(
    console: Callable[[int, str], str], zero: str, tmp_path: Path
) -> None:
    def roots(found: list[str]) -> list[str]:
        (tmp_path / "train.log").write_text("".join(console(i, said) for i, said in enumerate(found)))
        return [f.name for f in analyse([str(tmp_path)], Options(threads=1)).findings if f.role.value == "root"]

    assert roots([zero] * 12) == ["detection-metric-zero"]
    assert roots([zero] * 4 + ["0.1 0.2 0.01 0.3"] * 8) == []
