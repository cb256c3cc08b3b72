"""Folders in which runners of continuous integration check code out: they are called after its owner and itself."""

from __future__ import annotations

import re

from forensics.patterns import lazy
from forensics.report.redaction.memory import Memory, second
from forensics.report.redaction.words import ORDINARY, PROGRAMS, PUBLIC_OWNERS

_PART = r"[A-Za-z0-9][\w.-]{0,99}"
# GitLab: `/builds/GROUP/REPO/`, with a shared folder `/builds/TOKEN/NUMBER/GROUP/REPO/`.
_GITLAB = lazy(rf"((?<![\w./-])/builds/(?:[\w-]{{8,20}}/\d{{1,4}}/)?)({_PART})/({_PART})(?=[/'\"])", re.ASCII)
# GitHub: `/home/runner/work/REPO/REPO/`, in a container `/__w/REPO/REPO/`, of one's own runner `_work/REPO/REPO/`.
_GITHUB = lazy(rf"((?<![\w.-])(?:runner/work|__w|_work)/)(?P<repo>{_PART})/(?P=repo)(?=[/\s\"',:)]|\Z)", re.ASCII)
# Jenkins: `/var/lib/jenkins/workspace/JOB/`, `/home/jenkins/agent/workspace/JOB/`.
_JENKINS = lazy(rf"((?<![\w.-])(?:jenkins(?:_home)?(?:/agent)?)/workspace/)({_PART})(?=/)", re.ASCII)


def _public(name: str) -> bool:
    """Whether a repository is one that everybody uses: binaries of PyTorch name files in `/__w/pytorch/pytorch/`."""
    return name.lower() in PUBLIC_OWNERS or name.lower() in ORDINARY or name.lower() in PROGRAMS


def ci_paths(text: str, memory: Memory) -> str:
    """`text` without owners, repositories and jobs in paths of runners of GitLab, GitHub and Jenkins."""

    def gitlab(match: re.Match[str]) -> str:
        if _public(match[2]):
            return match[0]
        return f"{match[1]}{memory.account(match[2])}/{memory.of('repo', match[3])}"

    def github(match: re.Match[str]) -> str:
        return match[0] if _public(match["repo"]) else match[1] + "/".join([memory.of("repo", match["repo"])] * 2)

    if "/builds/" in text:
        text = _GITLAB.sub(gitlab, text)
    if "work/" in text or "__w/" in text:
        text = _GITHUB.sub(github, text)
    if "/workspace/" in text:
        text = second(_JENKINS, lambda name: memory.of("job", name), text)
    return text
