"""Lines that pass on an exit status name no failure: the trouble before them does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forensics.model import Kind, Source
from forensics.triage.endings import before, ending, is_of_a_report, last_told, passes_on
from forensics.triage.insight.unknown import group
from forensics.triage.model import Unexplained
from tests.triage.rows import row


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: gpu-0113: task 0: Exited with exit code 3",
        "srun: error: gpu-[0113-0114]: tasks 0-7: Terminated",
        "srun: Terminating StepId=7211903.0",
        "command terminated with exit code 137",
        "make: *** [Makefile:12: train] Error 3",
        "gmake[1]: *** [all] Killed",
        "Process finished with exit code 1",
        "exiting with status 1",
        "JOB EXIT CODE: 2",
        "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",
    ],
)
def test_a_status_that_is_passed_on(line: str) -> None:
    assert passes_on(line)


@pytest.mark.parametrize(
    "line",
    [
        "FATAL: tokenizer cache 0x7f is poisoned in bucket 7, refusing to go on",
        "srun: error: Unable to create step for job 7211903: Invalid generic resource (gres) specification",
        "slurm_script: line 31: ./prep_boxes: cannot execute binary file: Exec format error",
        "error: exit status file of peer 3 is missing",
        "make: *** No rule to make target 'train'.  Stop.",
        "exit code 3 means that the licence server gave no seat",
    ],
)
def test_a_line_that_says_why(line: str) -> None:
    assert not passes_on(line)


def test_the_trouble_before_a_status(tmp_path: Path) -> None:
    lines = [
        "step 1 loss 2.0",
        "FATAL: bucket 7 is poisoned",
        "",
        "srun: error: gpu-1: task 0: Exited with exit code 3",
    ]
    assert before(lines) == "FATAL: bucket 7 is poisoned"
    assert before([lines[0], lines[-1]]) is None
    assert before([lines[1], *[lines[0]] * 40, lines[-1]]) is None  # long ago, and survived
    log = tmp_path / "a.log"
    log.write_text("\n".join(["x" * 100] * 1000 + lines))
    assert ending(Source("a.log", log, Kind.LOG, log.stat().st_size)) == lines[1]
    assert ending(Source("b.log", tmp_path / "b.log", Kind.LOG, 10)) is None


def test_another_log_that_says_why_names_the_group() -> None:
    status = "srun: error: gpu-0113: task 0: Exited with exit code 3"
    rest = Unexplained(last_lines=(status, "ERROR: licence server gave no seat"))
    (found,) = group([replace(row(1), verdict="failed", unexplained=rest)])
    assert found.line == "ERROR: licence server gave no seat"
    (alone,) = group([replace(row(1), verdict="failed", unexplained=Unexplained(last_lines=(status,)))])
    assert alone.line == status


LSF = """\
step 120 loss 2.0813

------------------------------------------------------------
Sender: LSF System <lsfadmin@dgx01>
Subject: Job 5519[1]: <python train.py> in cluster <prod> Exited

TERM_UNKNOWN: unknown termination reason.
Exited with exit code 9.

Resource usage summary:

    CPU time :                                   3599.11 sec.
    Run time :                                   3600 sec.

The output (if any) is above this job summary.
"""


def test_a_schedulers_report_is_no_last_word(tmp_path: Path) -> None:
    file = tmp_path / "5519.out"
    file.write_text(LSF)
    source = Source("5519.out", file, Kind.LOG, file.stat().st_size)
    assert ending(source) is None and last_told(source) == "step 120 loss 2.0813"
    assert all(map(is_of_a_report, ("...", "The output (if any) is above this job summary.", "---")))
    assert not any(map(is_of_a_report, ("Running time: 3 s", "step 1 ...", "012 files read", "Started training")))
