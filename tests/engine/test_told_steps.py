"""A run that says at which step it resumes, and counts from the first one again."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

TOLD = "Resuming from step 5000"


def roots(folder: Path, *lines: str) -> list[str]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


def steps(first: int, last: int, form: str = "step {i} loss {loss:.4f}") -> list[str]:
    return [form.format(i=i, loss=2.1 + 3 / (1 + i / 200)) for i in range(first, last, 10)]


@pytest.mark.parametrize("told", [TOLD, "Resumed from checkpoint at step 5000", "resume: loaded step 5000 (model)"])
def test_the_first_step_again(tmp_path: Path, told: str) -> None:
    assert roots(tmp_path, told, *steps(10, 1000)) == ["epoch-restart-on-resume"]


def test_also_behind_an_earlier_record_without_rate_and_epoch(tmp_path: Path) -> None:
    assert roots(tmp_path, *steps(10, 5010), TOLD, *steps(10, 1000)) == ["epoch-restart-on-resume"]


def test_a_count_to_the_end_of_the_run(tmp_path: Path) -> None:
    assert roots(tmp_path, TOLD, *steps(10, 1000, "step {i}/9000 loss {loss:.4f}")) == ["epoch-restart-on-resume"]


@pytest.mark.parametrize(
    "lines",
    [
        [TOLD, *steps(5010, 6000)],
        ["Resuming from step 5000 of pretraining", *steps(10, 1000)],
        [TOLD, *steps(10, 1000, "epoch 5 step {i} loss {loss:.4f}")],
        [TOLD, *steps(10, 300), *steps(10, 300), *steps(10, 300)],  # the batches of epochs
        ["Resuming from step 40", *steps(10, 1000)],
        [TOLD, *steps(10, 60)],
        [TOLD, *steps(10, 1000, "step {i}/1000 loss {loss:.4f}")],  # to its end: the batches of an epoch
        [TOLD, *steps(10, 1000, "{i}/1000 [00:10<01:00, loss={loss:.4f}]")],
    ],
)
def test_what_is_none(tmp_path: Path, lines: list[str]) -> None:
    assert roots(tmp_path, *lines) == []
