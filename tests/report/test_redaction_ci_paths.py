"""Folders in which runners of continuous integration check code out."""

from __future__ import annotations

import pytest

from forensics.report.redaction import Redactor

GOES = [
    ("/builds/vexlab/asr-z/train.py line 3", "/builds/account-1/repo-1/train.py line 3"),
    ("/builds/t3_abcdEF/0/vexlab/asr-z/train.py", "/builds/t3_abcdEF/0/account-1/repo-1/train.py"),
    ("Cloning into '/builds/vexlab/asr-z'...", "Cloning into '/builds/account-1/repo-1'..."),
    ("/home/runner/work/asr-z/asr-z/train.py", "/home/runner/work/repo-1/repo-1/train.py"),
    ("/__w/asr-z/asr-z/train.py", "/__w/repo-1/repo-1/train.py"),
    ("/var/lib/jenkins/workspace/asr-z/train.py", "/var/lib/jenkins/workspace/job-1/train.py"),
]
STAYS = [
    "/opt/builds/x/y/train.py /builds/x /home/runner/work/x/y.py /x/_work/a/b/c.py",
    "/__w/pytorch/pytorch/c10/x.cpp:3 /builds/nvidia/apex/x.py /home/runner/work/vllm/vllm/csrc/x.cu",
    "/workspace/x/train.py jenkins/workspace is full",
]


@pytest.mark.parametrize(("text", "expected"), GOES)
def test_it_goes(text: str, expected: str) -> None:
    assert Redactor().redact(text) == expected


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(text: str) -> None:
    assert Redactor().redact(text) == text
