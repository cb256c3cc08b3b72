"""A record behind the head of a logger: where its message begins, and which counter stands in front of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.parsers.metric_lines.heads import end_of_head
from forensics.parsers.metric_lines.reader import read

HEADS = [
    "2026-11-20 08:00:10,123 - INFO - ",
    "2026-11-20 08:00:10,123 - __main__ - INFO - ",
    "2026-11-20 08:00:10,123 INFO trainer.py:88 ",
    "2026-11-20 08:00:10 | INFO | ",
    "2026-11-20 08:00:10 [INFO] ",
    "2026-11-20 08:00:10,123 [4242] [MainThread] [INFO ] ",
    "2026-11-20,08:00:01 | INFO | ",
    "2026-11-20 08:00:10.123 | INFO     | __main__:main:88 - ",
    "2026/11/20 08:00:10 - mmengine - INFO - ",
    "[2026-11-20 08:00:10] ",
    "[2026-11-20 08:00:10,123][__main__][INFO] - ",
    "[2026-11-20 08:00:10,123] [INFO] [logging.py:96:log_dist] [Rank 0] ",
    "[2026-11-20 08:00:10,123 INFO] ",
    "[I 2026-11-20 08:00:10,123] ",
    "[NeMo I 2026-11-20 08:00:10 train:88] ",
    "[11/20 08:00:10 d2.utils.events]: ",
    "[11/20/26 08:00:10] INFO     ",
    "11/20/2026 08:00:10 - INFO - __main__ - ",
    "I1120 08:00:10.123456 140 train.py:88] ",
    "08:00:10 - ",
    "Fri Nov 20 08:00:10 2026 ",
    "INFO:root:",
    "INFO: ",
    "[INFO] ",
]


def said(line: str) -> dict[str, str] | None:
    reading = read(line, frozenset())
    return None if reading is None else {f.name or f.role: line[f.start : f.end] for f in reversed(reading.fields)}


@pytest.mark.parametrize("head", HEADS)
def test_a_message_begins_behind_the_head_of_its_logger(head: str) -> None:
    for message in ("[1330/20000] loss: 2.31", "Training loss: 2.31", "Train [1330/20000] Loss: 2.31"):
        assert (head + message)[end_of_head(head + message, 0) :] == message


@pytest.mark.parametrize("text", ["Train [10/200] loss: 2.3", "[10/200] loss: 2.3", "step 10 loss: 2.3", "loss: 2.3"])
def test_a_message_without_a_head_begins_at_once(text: str) -> None:
    assert end_of_head(text, 0) == 0


@pytest.mark.parametrize("head", HEADS)
def test_a_loss_is_read_behind_any_head(head: str) -> None:
    for message, step in {
        "[ 1330/20000] loss: nan": "1330",
        "1330/20000: loss nan": "1330",
        "[1330/20000] | loss nan | lr 3.0e-04": "1330",
        "[1330/20000] |loss nan|lr 3.0e-04": "1330",
        "[1330/20000] - loss: nan": "1330",
        "Train [1330/20000] Loss: nan": "1330",
        "[2, 1330] loss: nan": "1330",
        "loss: nan": None,
        "Training loss: nan": None,
    }.items():
        found = said(head + message)
        assert found is not None, message
        assert (found["loss"], found.get("step")) == ("nan", step), message


@pytest.mark.parametrize(
    "message",
    [
        "4242 loss: 2.3",  # a process
        "[0] loss: 2.3",  # a rank, or a process
        "Model saved with loss: 2.3",
        "Best loss: 2.3",
        "Loss scale: 65536",
        "Val [10/200] Loss: 2.3",
    ],
)
def test_near_misses_behind_a_head(message: str) -> None:
    assert said("2026-11-20 08:00:10,123 - INFO - " + message) is None


def test_a_held_out_loss_behind_a_head_is_none_of_training() -> None:
    for message in ("Validation loss: 2.3", "Validation - loss: 2.3"):
        found = said("2026-11-20 08:00:10,123 - INFO - " + message)
        assert found is not None
        assert "loss" not in found
        assert found["eval_loss"] == "2.3"


@pytest.mark.parametrize("form", ["[{step:>6}/20000] loss: {loss}", "{step}/20000: loss {loss} lr 3.00e-04"])
def test_a_nan_behind_the_usual_head_of_logging_is_found_with_its_step(form: str, tmp_path: Path) -> None:
    lines = [
        f"2026-11-20 08:{i // 60:02}:{i % 60:02},123 - INFO - "
        + form.format(step=10 * i, loss="nan" if i >= 133 else f"{2 + 9 / (1 + i / 20):.4f}")
        for i in range(1, 160)
    ]
    (tmp_path / "train.log").write_text("".join(f"{line}\n" for line in lines))
    (root,) = [f for f in analyse([str(tmp_path)], Options(threads=1)).findings if f.role.value == "root"]
    assert (root.name, root.step) == ("nan-loss", 1330)
