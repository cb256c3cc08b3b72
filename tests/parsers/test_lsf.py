"""LSF's report of a job: above its output, below it, and with few times."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Verdict
from forensics.parsers.lsf import above_output, tells_of_the_beginning

LIMIT = "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.\n"
STEPS = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(40))
MORE = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(40, 80))
TIMES = """\
Started at Fri Nov 27 09:00:05 2026
Terminated at Fri Nov 27 10:00:10 2026
Results reported at Fri Nov 27 10:00:10 2026
"""
FOLLOWS = "\nThe output (if any) follows:\n\n"
ABOVE = "\nThe output (if any) is above this job summary.\n\n"


def report(end: str, last: str, times: str = TIMES) -> str:
    return f"""\
------------------------------------------------------------
Sender: LSF System <lsfadmin@gpu-01>
Subject: Job 4242: <train> in cluster <c1> Exited

Job <train> was submitted from host <login1> by user <u> in cluster <c1> at Thu Nov 26 09:00:01 2026
Job was executed on host(s) <8*gpu-01>, in queue <gpu>, as user <u> in cluster <c1> at Fri Nov 27 09:00:05 2026
{times}
Your job looked like:

------------------------------------------------------------
# LSBATCH: User input
python train.py
------------------------------------------------------------

{end}
Resource usage summary:

    CPU time :                                   2000.00 sec.
    Run time :                                   3600 sec.
{last}"""


def diagnose(folder: Path, text: str) -> tuple[Verdict, Finding | None]:
    (folder / "lsf.4242.out").write_text(text)
    found = analyse([str(folder)], Options(cache=False))
    return found.verdict, next(iter(found.findings), None)


def test_a_report_above_the_output_is_of_its_end(tmp_path: Path) -> None:
    verdict, root = diagnose(tmp_path, report(LIMIT, FOLLOWS) + STEPS)
    assert root is not None
    assert (verdict, root.name) == ("interrupted", "scheduler-time-limit")
    assert root.evidence[0].offset is not None


def test_steps_below_a_report_that_says_they_are_above_are_of_a_later_start(tmp_path: Path) -> None:
    assert diagnose(tmp_path, STEPS + report(LIMIT, ABOVE) + MORE)[0] == "healthy"


def test_a_job_that_ended_well_is_well(tmp_path: Path) -> None:
    assert diagnose(tmp_path, report("Successfully completed.\n", FOLLOWS) + STEPS)[0] == "healthy"


@pytest.mark.parametrize(("times", "time"), [(TIMES, True), ("", False), (TIMES.split("\n")[0] + "\n", False)])
def test_the_submission_is_no_time_of_the_limit(tmp_path: Path, times: str, time: bool) -> None:
    _, root = diagnose(tmp_path, STEPS + report(LIMIT, ABOVE, times))
    assert root is not None
    assert (root.name, root.time is not None) == ("scheduler-time-limit", time)


def test_where_a_report_stands() -> None:
    one = report(LIMIT, FOLLOWS).encode()
    assert one[above_output(one, one) :].startswith(b"The output (if any) follows:")
    assert above_output(one + one, one + one) == 0
    assert above_output(STEPS.encode() + one, b"") == 0
    assert tells_of_the_beginning("Started at Fri Nov 27 09:00:05 2026")
    assert not tells_of_the_beginning("Started at step 100")
    assert not tells_of_the_beginning("Terminated at Fri Nov 27 10:00:10 2026")
