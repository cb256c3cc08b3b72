"""Folders with runs of their own below one path: the end of one says nothing of another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Analysis, Options, analyse_with_data
from forensics.model import Verdict

STEPS = "".join(f"2026-11-03 09:{n:02}:00 step {n} loss {3 - n / 50:.3f}\n" for n in range(1, 21))
END = "2026-11-03 09:30:00 Training complete\n"
CRASH = """\
Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    main()
  File "/w/train.py", line 8, in main
    row = table[key]
KeyError: 'en'
"""
RESTARTED = f"{STEPS}{CRASH}2026-11-03 09:31:00 Resuming from checkpoint /ckpt/step_10.pt\n{STEPS}{END}"

Make = Callable[[dict[str, str]], Analysis]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def analysed(logs: dict[str, str]) -> Analysis:
        for name, text in logs.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "train.log").write_text(text)
        return analyse_with_data([str(tmp_path)], Options(threads=1, folders=tuple(logs)))

    return analysed


def ranked(ranks: range, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines() for rank in ranks)


def test_a_run_that_ended_does_not_absolve_another(made: Make) -> None:
    found = made({"vision": STEPS + CRASH, "speech": STEPS + END, "text": STEPS + END})
    assert found.runs == ("vision", "speech", "text")
    assert found.diagnosis.verdict is Verdict.FAILED
    assert found.diagnosis.findings[0].evidence[0].file.startswith("vision/")
    assert {row.path.split("/")[0] for row in found.diagnosis.coverage} == {"vision", "speech", "text"}


def test_a_restart_in_one_folder_does_not_absolve_another(made: Make) -> None:
    found = made({"vision": STEPS + CRASH, "speech": STEPS + END, "old": RESTARTED})
    assert (found.diagnosis.verdict, found.told_of) == (Verdict.FAILED, "vision")


def test_runs_that_all_ended_are_healthy(made: Make) -> None:
    found = made({"vision": STEPS + END, "speech": STEPS + END})
    assert (found.diagnosis.verdict, found.runs, found.told_of) == (Verdict.HEALTHY, ("vision", "speech"), None)


def test_attempts_side_by_side_are_one_run(made: Make) -> None:
    found = made({"first": STEPS, "second": f"Resuming from checkpoint /ckpt/step_10.pt\n{STEPS}{END}"})
    assert (found.runs, found.told_of) == ((), None)


def test_machines_side_by_side_are_one_run(made: Make) -> None:
    found = made({"left": ranked(range(2), STEPS), "right": ranked(range(2, 4), STEPS)})
    assert found.runs == ()


def test_a_folder_without_a_log_is_no_run(made: Make) -> None:
    assert made({"vision": STEPS + END, "cache": ""}).runs == ()


def test_what_a_monitor_writes_is_no_run(made: Make) -> None:
    xid = "2026-11-03 09:12:00 gpu0 NVRM: Xid (PCI:0000:3b:00): 31, pid=77\n"
    assert made({"vision": STEPS + END, "monitor": xid}).runs == ()


def test_beside_a_log_of_training_folders_are_its_parts(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(STEPS + END)
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.log").write_text(STEPS + CRASH)
    assert analyse_with_data([str(tmp_path)], Options(threads=1, folders=("left", "right"))).runs == ()
