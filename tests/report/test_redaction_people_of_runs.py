"""Who ran a job: below roots that many share, and in what scripts say; data, repositories and words of prose stay."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

GOES = [
    # paths
    'File "/shared/tveit/code/train.py", line 3',
    "/storage/tveit/exp7/train.py",
    "/workspace/tveit/code/train.py",
    "/mnt/x/tveit/repos/train.py",
    "/mnt/nfs/tveit/ckpt/step_100.pt",
    "/tmp/tveit/code/train.py",
    "/gpfs/work5/0/tveit/code/train.py",
    "/storage/team/tveit/repos/x/train.py",
    "/scratch/cluster/tveit/projects/x",
    "/tmp/pytest-of-tveit/x",
    # sentences
    "Job submitted by tveit",
    "launched by tveit at 12:00",
    "whoami: tveit",
    "Running as tveit on login",
    "user tveit submitted job 17",
    "session opened for user tveit by (uid=0)",
    "Failed password for user tveit from there",
]
STAYS = [
    "/workspace/flashy/src/flashy/train.py",
    "/workspace/flashy/flashy/code/x.py",
    "/workspace/data/code/x.py",
    "/mnt/nvme/checkpoints/run7/step.pt",
    "/mnt/nvme/baseline/checkpoints/step.pt",
    "/shared/imagenet/code/train.py",
    "/tmp/ray/session_latest/code/x.py",
    "/opt/nice/code/x.py",
    "launched by torchrun",
    "submitted by another job",
    "running as expected",
    "called by user code and expected",
    "Dict of user inputs that are mutated",
    "user code started",
    "grad norm goes up ~linearly then",
]


@pytest.mark.parametrize("text", GOES)
def test_a_user_goes(text: str) -> None:
    shown = Redactor().redact(text)
    assert "tveit" not in shown
    assert "user-" in shown


@pytest.mark.parametrize("text", STAYS)
def test_data_repositories_and_prose_stay(text: str) -> None:
    assert Redactor().redact(text) == text


def test_a_known_user_goes_below_any_root() -> None:
    redactor = Redactor()
    redactor.redact("UserId=tveit(1234)")
    assert redactor.redact("/tmp/tveit/a /any/thing/tveit/b /tmp/ckpt_tveit/c") == (
        "/tmp/user-1/a /any/thing/user-1/b /tmp/ckpt_user-1/c"
    )
