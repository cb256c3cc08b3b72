"""A loss that stands at ln C, where the settings say how many classes C are."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.engine.stated_classes import numbers
from forensics.model import Fact, Role


def roots(folder: Path, level: float, settings: str, extra: str = "", slope: float = 0.0) -> list[str]:
    chance = random.Random(3)
    lines = [f"step {20 * k} loss {level - slope * k + chance.gauss(0, 0.01):.4f}{extra} lr 0.1000" for k in range(200)]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    (folder / "config.yaml").write_text(settings)
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


@pytest.mark.parametrize("name", ["num_classes", "num_labels", "nb_classes"])
def test_a_loss_at_the_number_that_is_stated(tmp_path: Path, name: str) -> None:
    assert roots(tmp_path, math.log(37), f"model:\n  name: resnet18\n  {name}: 37\nlr: 0.1\n") == ["loss-at-chance"]


def test_a_vocabulary_of_no_usual_size(tmp_path: Path) -> None:
    assert roots(tmp_path, math.log(48213), "vocab_size: 48213\nlr: 0.1\n") == ["loss-at-chance"]


@pytest.mark.parametrize(
    ("level", "settings", "extra", "slope"),
    [
        (math.log(37), "model:\n  hidden: 37\n", "", 0.0),
        (math.log(37), "num_classes: 36\n", "", 0.0),  # 1 % above ln 36 is not within 1 % of it
        (math.log(2), "num_labels: 2\n", "", 0.0),  # where hard tasks end
        (math.log(37), "num_classes: 37\n", " acc 0.4120", 0.0),
        (math.log(37), "num_classes: 37\n", "", 0.0005),  # it falls
    ],
    ids=["unstated", "other", "binary", "accurate", "falls"],
)
def test_no_chance_level(tmp_path: Path, level: float, settings: str, extra: str, slope: float) -> None:
    assert roots(tmp_path, level + (0.02 if "36" in settings else 0), settings, extra, slope) == []


def test_numbers_that_settings_state() -> None:
    stated = {"config.model.num_classes": "37", "config.hidden": "12", "config.vocab_size": "1e4", "num_labels": "2"}
    facts = [Fact(name, value, "config.yaml", 1) for name, value in stated.items()]
    labels = [Fact(f"model.id2label.{i}", f"LABEL_{i}", "config.json", i) for i in range(5)]
    assert numbers(facts) == {37: "num_classes"}
    assert numbers([*facts, *labels]) == {37: "num_classes", 5: "id2label"}
    assert not numbers([Fact("config.num_classes", str(n), "sweep.yaml", n) for n in range(10, 20)])
