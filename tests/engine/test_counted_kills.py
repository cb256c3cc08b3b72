"""What Slurm counts as killed for memory, below the run's own end and above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role, Verdict

STEPS = "".join(f"2026-08-10 09:00:{n:02} INFO step {n} loss 2.5\n" for n in range(1, 30))
DONE = "2026-08-10 09:00:40 INFO Training complete, final checkpoint saved\n"
COUNTED = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=3.{step}. Some of the step tasks have been OOM Killed.\n"
)
SHELL = "/var/spool/slurmd/job00003/slurm_script: line 12:  4242 Killed                  python train.py\n"
SRUN = "srun: error: node-1: task 0: Out Of Memory\n"


def verdict(folder: Path, log: str) -> tuple[Verdict, list[str]]:
    (folder / "slurm-3.out").write_text(log)
    found = analyse([str(folder)], Options(threads=1))
    return found.verdict, [f.name for f in found.of_role(Role.ROOT)]


@pytest.mark.parametrize("step", ["extern", "batch", "0"])
def test_a_count_below_the_runs_end_is_of_no_process_that_trained(tmp_path: Path, step: str) -> None:
    assert verdict(tmp_path, STEPS + DONE + COUNTED.format(step=step)) == (Verdict.HEALTHY, [])


@pytest.mark.parametrize("between", ["", SHELL, SRUN])
def test_a_count_without_an_end_or_with_a_process_that_was_killed_is_the_cause(tmp_path: Path, between: str) -> None:
    log = STEPS + (DONE if between else "") + between + COUNTED.format(step="batch")
    found, roots = verdict(tmp_path, log)
    assert found is Verdict.FAILED
    assert roots == ["host-oom-cgroup"]


def test_training_after_words_for_an_end_is_no_end(tmp_path: Path) -> None:
    more = "".join(f"2026-08-10 09:01:{n:02} INFO step {n} loss 2.5\n" for n in range(30, 50))
    found, roots = verdict(tmp_path, STEPS + DONE + more + COUNTED.format(step="batch"))
    assert found is Verdict.FAILED
    assert roots == ["host-oom-cgroup"]
