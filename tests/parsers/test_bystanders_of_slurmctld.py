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


LIMIT = "[2026-03-11T17:30:01.010] Time limit exhausted for JobId={job}\n"


def test_a_time_limit_of_the_only_job_ends_a_run_that_went_silent(tmp_path: Path) -> None:
    found = diagnose(tmp_path, STEPS, LIMIT.format(job=551))
    assert "scheduler-time-limit" in {f.name for f in found.findings if f.role is not Role.CONTEXT}
    assert found.verdict in (Verdict.INTERRUPTED, Verdict.HUNG)


@pytest.mark.parametrize("job", ["552", "550_3(552)"])
@pytest.mark.parametrize(("log", "name"), [(ENDED, "train.log"), (STEPS, "slurm-551.out")])
def test_a_time_limit_of_another_job_is_none_of_the_run(tmp_path: Path, log: str, name: str, job: str) -> None:
    found = diagnose(tmp_path, log, WELL + LIMIT.format(job=job), name)
    assert not found.of_role(Role.ROOT)


def test_an_error_of_the_run_is_before_a_limit_of_one_of_several_jobs(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    main()\nKeyError: 4\n'
    )
    found = diagnose(tmp_path, STEPS + raised, WELL + LIMIT.format(job=552))
    assert found.of_role(Role.ROOT)[0].name == "python-exception"
