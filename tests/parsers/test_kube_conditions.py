"""Conditions of Kubernetes' objects: since when they hold is when what they tell came to pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role
from forensics.parsers.kube_conditions import read

MESSAGE = "Job was active longer than specified deadline"
SINCE = "2026-11-20T16:00:00Z"


def condition(kind: str, since: str | None, reason: str = "DeadlineExceeded") -> dict[str, str]:
    """As kubectl prints it: keys by name."""
    told = {"lastTransitionTime": since, "message": MESSAGE, "reason": reason, "status": "True", "type": kind}
    return {key: value for key, value in told.items() if value is not None}


def in_yaml(conditions: Sequence[Mapping[str, str]]) -> str:
    rows = [
        f"{'  - ' if n == 0 else '    '}{key}: {json.dumps(value) if 'T' in value and value.endswith('Z') else value}"
        for each in conditions
        for n, (key, value) in enumerate(each.items())
    ]
    return "\n".join(["kind: Job", "status:", "  conditions:", *rows, '  startTime: "2026-11-20T10:00:00Z"', ""])


def in_json(conditions: Sequence[Mapping[str, str]]) -> str:
    status = {"conditions": conditions, "startTime": "2026-11-20T10:00:00Z"}
    return json.dumps({"kind": "Job", "status": status}, indent=4)


def steps(rank: int, upto: int) -> str:
    return "".join(
        f"2026-11-20T10:{n // 12:02d}:{n % 12 * 5:02d}Z rank={rank} step={n} loss=2.5\n" for n in range(upto)
    )


def root(folder: Path, job: str, ends: Sequence[int]) -> Finding:
    (folder / "job.yaml").write_text(job)
    for rank, end in enumerate(ends):
        (folder / f"rank{rank}.log").write_text(steps(rank, end))
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("form", [in_yaml, in_json])
def test_a_deadline_that_ended_a_hang(tmp_path: Path, form: Callable[[Sequence[Mapping[str, str]]], str]) -> None:
    job = form([condition("FailureTarget", SINCE), condition("Failed", SINCE)])
    found = root(tmp_path, job, [60, 56, 60, 60])
    assert (found.name, found.ranks) == ("silent-hang", (1,))


@pytest.mark.parametrize("form", [in_yaml, in_json])
def test_a_deadline_that_ended_training(tmp_path: Path, form: Callable[[Sequence[Mapping[str, str]]], str]) -> None:
    job = form([condition("Failed", "2026-11-20T10:05:02Z")])
    assert root(tmp_path, job, [60, 56, 60, 60]).name == "scheduler-time-limit"


def test_a_condition_without_a_time_takes_none_of_another_line(tmp_path: Path) -> None:
    job = in_yaml([condition("Suspended", SINCE, "JobResumed"), condition("Failed", None)])
    assert root(tmp_path, job.replace(MESSAGE, "", 1), [60, 56, 60, 60]).name == "scheduler-time-limit"


def test_conditions_of_several_objects() -> None:
    items = [{"status": {"conditions": [condition("Failed", f"2026-11-20T1{n}:00:00Z")]}} for n in range(3)]
    found = read(json.dumps({"items": items}, indent=2))
    assert [c.since for c in found] == [f"2026-11-20T1{n}:00:00Z" for n in range(3)]
    assert all(a.last < b.first for a, b in pairwise(found))


@given(st.text(alphabet='conditions:-"[]{} \nT0', max_size=300))
def test_any_text(text: str) -> None:
    read(text)
