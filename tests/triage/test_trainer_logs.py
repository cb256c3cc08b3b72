"""Logs of several trainings side by side whose records bear the loss before the epoch, and no step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli import main
from forensics.engine.pipeline import Options, analyse
from forensics.model import Verdict

RECORDS = [
    f"{{'loss': {3 - n / 20:.4f}, 'grad_norm': 1.2, 'learning_rate': 2e-05, 'epoch': {n / 10}}}" for n in range(1, 31)
]
DONE = "{'train_runtime': 2448.0, 'train_samples_per_second': 12.1, 'train_loss': 2.1, 'epoch': 3.0}"
CRASH = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "    main()", "KeyError: 'labels'"]


@pytest.mark.parametrize("stamp", ["", "2026-11-20T08:00:00.123456789Z "])
def test_each_is_a_job(tmp_path: Path, stamp: str) -> None:
    for name in ("bert", "roberta", "deberta"):
        lines = RECORDS[:12] + CRASH if name == "deberta" else [*RECORDS, DONE]
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / f"{name}.log").write_text("".join(f"{stamp}{line}\n" for line in lines))
    told = CliRunner().invoke(
        main, ["triage", str(tmp_path / "logs"), "--store", str(tmp_path / "s.sqlite"), "--format", "jsonl"]
    )
    rows = [json.loads(line)["job"] for line in told.stdout.splitlines()]
    found = {Path(row["path"]).stem: (row["verdict"], row["root"]) for row in rows}
    assert found["deberta"] == ("failed", "python-exception")
    assert {found["bert"], found["roberta"]} == {("healthy", None)}


def test_the_end_of_another_training_does_not_absolve_a_crash(tmp_path: Path) -> None:
    (tmp_path / "train_bert.log").write_text("\n".join([*RECORDS, DONE]) + "\n")
    (tmp_path / "train_t5.log").write_text("\n".join([*RECORDS[:12], *CRASH]) + "\n")
    assert analyse([str(tmp_path)], Options(threads=1)).verdict is Verdict.FAILED
