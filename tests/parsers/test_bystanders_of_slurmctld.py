"""Ends of several jobs in a log of slurmctld: of which the run is, nothing tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

STEPS = "".join(f"2026-03-11 09:14:{n:02} INFO step {n}0 loss {3 - n / 50:.3f} lr 3e-04\n" for n in range(40))
ENDED = STEPS + "2026-03-11 09:17:32 INFO training finished, saved final model to out/final\n"
KILLED = "[2026-03-11T09:30:01.010] _job_complete: JobId=552 WTERMSIG 9\n"
WELL = "[2026-03-11T09:30:00.120] _job_complete: JobId=551 WEXITSTATUS 0\n"


def diagnose(folder: Path, log: str, told: str, name: str = "train.log") -> Diagnosis:
    (folder / name).write_text(log)
    (folder / "slurmctld.log").write_text(told)
    return analyse([str(folder)], Options(cache=False))


@pytest.mark.parametrize("told", [WELL + KILLED, KILLED + WELL])
def test_the_end_of_one_of_several_jobs_is_none_of_a_run_that_finished(tmp_path: Path, told: str) -> None:
    found = diagnose(tmp_path, ENDED, told)
    assert found.verdict is Verdict.HEALTHY
    assert not found.of_role(Role.ROOT)


def test_the_only_job_is_the_runs(tmp_path: Path) -> None:
    assert diagnose(tmp_path, ENDED, KILLED).of_role(Role.ROOT)[0].name == "sigkill-unknown-sender"


def test_a_run_that_did_not_finish_may_be_the_one_that_was_killed(tmp_path: Path) -> None:
    assert diagnose(tmp_path, STEPS, WELL + KILLED).of_role(Role.ROOT)[0].name == "sigkill-unknown-sender"


def test_the_runs_own_job_is_known_by_its_log(tmp_path: Path) -> None:
    found = diagnose(tmp_path, ENDED, WELL + KILLED, "slurm-552.out")
    assert found.of_role(Role.ROOT)[0].name == "sigkill-unknown-sender"
