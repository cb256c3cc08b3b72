"""An accuracy on held-out data that stands at chance while training goes well, and over-fitting beside it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.series import logged, seen

from forensics.engine.pipeline import Options, analyse

NAME, OVER = "input-normalisation-differs", "overfitting"


def curves(
    share: Callable[[int], float], start: float, end: float = 0.05, n: int = 20, held_out: float = 2.4
) -> dict[str, Sequence[float]]:
    """Epochs of a training loss that falls exponentially, and evaluations whose loss rises."""
    rng = random.Random(7)
    return {
        "loss": [end + (start - end) * math.exp(-0.3 * k) for k in range(n)],
        "accuracy": [min(0.99, 0.2 + 0.08 * k) for k in range(n)],
        "eval_loss": [held_out + 0.3 * k for k in range(n)],
        "eval_accuracy": [share(k) * (1 + rng.gauss(0, 0.05)) for k in range(n)],
    }


def test_chance_from_the_first_evaluation_on() -> None:
    found = seen(logged(curves(lambda k: 0.1, 2.32)))
    assert set(found) == {NAME}
    assert found[NAME].captures["classes"] == "10"
    assert found[NAME].note is not None
    assert "with 10 classes" in found[NAME].note


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(lambda k: 0.1 + 0.5 * (1 - math.exp(-k)), id="gets better first"),
        pytest.param(lambda k: 0.62, id="trained before, best at once"),
        pytest.param(lambda k: 0.11 + 0.02 * k, id="learns slowly"),
        pytest.param(lambda k: 0.1 + 0.005 * k, id="learns more slowly"),
    ],
)
def test_over_fitting_is_told_where_the_accuracy_is_none_of_chance(share: Callable[[int], float]) -> None:
    assert set(seen(logged(curves(share, 2.32)))) == {OVER}


@pytest.mark.parametrize(
    ("share", "start"),
    [
        (0.1 / 3, 1.67),  # what C is nobody says
        (0.5, 0.69),  # hard tasks of two classes
        (0.16, 2.31),  # neither 1/10 nor another number's whose ln the loss begins at
    ],
)
def test_neither_is_told_where_it_may_be_either(share: float, start: float) -> None:
    assert set(seen(logged(curves(lambda k: share, start)))) == set()


@pytest.mark.parametrize(("share", "classes", "held_out"), [(0.1, 10, 2.4), (0.01, 100, 5.0), (0.25, 4, 1.5)])
def test_a_first_epochs_mean_is_below_ln_c_and_the_accuracies_tell_c(
    share: float, classes: int, held_out: float
) -> None:
    found = seen(logged(curves(lambda k: share, 0.8 * math.log(classes), held_out=held_out)))
    assert set(found) == {NAME}
    assert found[NAME].captures["classes"] == str(classes)
    assert found[NAME].weight < seen(logged(curves(lambda k: 0.1, 2.32)))[NAME].weight


@pytest.mark.parametrize(
    ("share", "held_out", "trained"),
    [
        pytest.param(0.1, 5.2, 1.0, id="a tenth right of many tokens"),
        pytest.param(0.1, 2.1, 1.0, id="a loss that no guess has"),
        pytest.param(0.1, 2.4, 0.6, id="training learns little too"),
        pytest.param(0.02, 4.1, 1.0, id="an unusual number of classes"),
    ],
)
def test_an_accuracy_is_near_one_over_some_number_whatever_it_is(share: float, held_out: float, trained: float) -> None:
    made = curves(lambda k: share, 1.67, held_out=held_out)
    assert NAME not in seen(logged({**made, "accuracy": [trained * v for v in made["accuracy"]]}))


def test_a_training_loss_that_does_not_fall_is_another_matter() -> None:
    assert NAME not in seen(logged(curves(lambda k: 0.1, 2.32, 2.2)))


def findings(folder: Path, held_out: float, settings: str, share: float = 1 / 37) -> list[tuple[str, str]]:
    made = curves(lambda k: share, 2.0, held_out=held_out)
    rows = [",".join(["epoch", "train_loss", "train_acc", "val_loss", "val_acc"])]
    rows += [",".join(map(str, (k, *values))) for k, values in enumerate(zip(*made.values(), strict=True))]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    (folder / "hparams.yaml").write_text(settings)
    return [(f.name, f.role) for f in analyse([str(folder)], Options(threads=1)).findings]


def test_a_number_of_classes_that_settings_state(tmp_path: Path) -> None:
    assert findings(tmp_path, 3.7, "num_classes: 37\n") == [(NAME, "root")]


@pytest.mark.parametrize(
    ("held_out", "settings"),
    [(3.7, "num_classes: 5\n"), (3.7, "hidden: 37\n"), (2.0, "num_classes: 37\n")],
    ids=["other", "unstated", "a loss that no guess has"],
)
def test_stated_numbers_that_say_nothing(tmp_path: Path, held_out: float, settings: str) -> None:
    assert findings(tmp_path, held_out, settings) == []


@pytest.mark.parametrize(("share", "found"), [(0.25, [(NAME, "root")]), (0.275, [])])
def test_a_hard_task_of_few_classes_is_learned_a_little(
    tmp_path: Path, share: float, found: list[tuple[str, str]]
) -> None:
    assert [f for f in findings(tmp_path, 2.4, "num_classes: 4\n", share) if f[0] == NAME] == found
