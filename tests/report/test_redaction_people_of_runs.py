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
    "output_dir=/mnt/fsx/tveit/ckpts/run7",
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PBS_O_WORKDIR=/lustre/tveit/runs", "PBS_O_WORKDIR=/lustre/user-1/runs"),
        ("file:///shared/tveit/code/x.py", "file:///shared/user-1/code/x.py"),
        ("pid 17 user tveit gpu 0", "pid 17 user user-1 gpu 0"),
        ("uname: Linux tiger 5.14.0", "uname: Linux host-1 5.14.0"),
        ("Job <17>, User <tveit>, Project <zproj>, Status <RUN>", "Job <17>, User <user-1>, Project <project-1>, Status <RUN>"),
        ("Submitted from host <zlogin7>, CWD <x>", "Submitted from host <host-1>, CWD <x>"),
        ("17.zpbs01  STDIN  tveit  00:00:00 R gpuq", "17.host-1  STDIN  user-1  00:00:00 R gpuq"),
        ("nodes: [{'name': 'rack3n01', 'gpus': 8}]", "nodes: [{'name': 'host-1', 'gpus': 8}]"),
        ("WANDB_DIR=/fsx/tveit/wandb", "WANDB_DIR=/fsx/user-1/wandb"),
        ("SLURM_JOB_RESERVATION=zresv", "SLURM_JOB_RESERVATION=account-1"),
        ("PYTORCHJOB_NAME=z-llm", "PYTORCHJOB_NAME=run-1"),
        ("RAY_NODE_ID=" + "0a" * 28, "RAY_NODE_ID=uuid-1"),
        ('"job_name": "z-2025-01-01"', '"job_name": "run-1"'),
        ("k8s.pod.name=zllm-0", "k8s.pod.name=host-1"),
        ("DISPLAY=zlogin7:10.0", "DISPLAY=host-1:10.0"),
        ("NCCL_DEBUG_FILE=/logs/nccl.rack3n01.4242.log", "NCCL_DEBUG_FILE=/logs/nccl.host-1.4242.log"),
        ("t1v-n-0123abcd-w-0: step 3", "host-1: step 3"),
        ("hostname     rack3n01\nowner        tveit", "hostname     host-1\nowner        user-1"),
        ("train.py --node_list rack3n01,rack3n02", "train.py --node_list host-1,host-2"),
    ],
)  # fmt: skip
def test_lines_of_schedulers_and_environments(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "DISPLAY=localhost:10.0",
        "DISPLAY=:0",
        '"job_name": "worker"',
        "DATA_DIR=/data/redpajama/x",
        "HF_HOME=/shared/cache/huggingface",
        "NCCL_DEBUG_FILE=/logs/nccl.log",
        "nccl.4242.log",
    ],
)
def test_other_settings_stay(text: str) -> None:
    assert Redactor().redact(text) == text
