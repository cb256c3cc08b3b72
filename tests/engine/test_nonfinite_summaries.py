"""W&B's summary holds the last value of each name: a loss that is lost there is lost, where nothing else has the curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Verdict

LOST = {
    "train/loss": "NaN",
    "train/grad_norm": "NaN",
    "train/global_step": 1840,
    "_step": 184,
    "_timestamp": 1778756000.1,
}


def diagnosed(folder: Path, **summaries: dict[str, Any]) -> Diagnosis:
    for name, values in summaries.items():
        files = folder / "wandb" / f"run-20260514_100000-{name}" / "files"
        files.mkdir(parents=True)
        (files / "wandb-summary.json").write_text(json.dumps(values))
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize("value", ["NaN", "Infinity", float("nan")], ids=["text", "infinite", "literal"])
def test_the_last_loss_that_was_recorded_is_lost(tmp_path: Path, value: object) -> None:
    found = diagnosed(tmp_path, a1=LOST | {"train/loss": value})
    root = found.findings[0]
    assert (found.verdict, root.name, root.step, root.step_is) == (Verdict.DIVERGED, "nan-loss", 1840, "last_seen")


@pytest.mark.parametrize(
    "changes",
    [{"train/loss": 2.1, "train/grad_norm": 0.4}, {"train/loss": 2.1, "eval/loss": "NaN"}, {"train/loss": "pending"}],
    ids=["finite", "held-out data alone", "a word"],
)
def test_other_values_say_nothing(tmp_path: Path, changes: dict[str, object]) -> None:
    found = diagnosed(tmp_path, a1=LOST | {"train/grad_norm": 0.4} | changes)
    assert "nan-loss" not in [f.name for f in found.findings]


def test_of_several_runs_the_newest_counts(tmp_path: Path) -> None:
    fine = {"train/loss": 1.9, "train/grad_norm": 0.4, "_timestamp": LOST["_timestamp"] + 9000}
    assert "nan-loss" not in [f.name for f in diagnosed(tmp_path, a1=LOST, b2=fine).findings]


def test_records_of_the_curve_count_for_more(tmp_path: Path) -> None:
    curve = [{"step": n, "loss": 3 - n / 100} for n in range(40)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in curve))
    assert "nan-loss" not in [f.name for f in diagnosed(tmp_path, a1=LOST).findings]
