from __future__ import annotations

import pytest
from samples import ALL, FAILED, HEALTHY, HOSTILE, UNKNOWN, diagnosis, finding

from forensics.model import Evidence
from forensics.report import github


@pytest.mark.parametrize("name", ALL)
def test_no_line_of_a_summary_is_a_command(name: str) -> None:
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in github.render(ALL[name]).split("\n"))


def test_a_log_cannot_set_an_output() -> None:
    evil = "::set-output name=x::y\n   ::add-mask::a\n##[set-env name=PATH]/tmp"
    report = github.render(diagnosis(finding(why=evil, evidence=(Evidence("a.log", 1, 0, evil),))))
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in report.split("\n"))
    assert "set-output name=x" in report


def test_a_summary_can_be_appended() -> None:
    report = github.render(FAILED)
    assert report.startswith("\n## FAILED: ") and report.endswith("\n\n")


def test_each_cause_is_one_command_with_its_place() -> None:
    lines = github.commands(FAILED, "runs/17").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(
        "::error file=runs/17/rank2/stderr.log,line=1234,title=CUDA out of memory on rank 2 (node-7) at step 412::torch.OutOfM"
    )
    assert "file=runs/17/ckpt/step_400.pt,title=" in lines[1]


@pytest.mark.parametrize(("made", "level"), [(HEALTHY, "notice"), (UNKNOWN, "warning")])
def test_without_a_cause_the_run_is_told(made: object, level: str) -> None:
    assert github.commands(made).startswith(f"::{level} title=forensics%3A ")  # type: ignore[arg-type]


def test_what_a_log_holds_stays_inside_its_command() -> None:
    lines = github.commands(HOSTILE).splitlines()
    assert len(lines) == 1
    root = finding(title="a,b:c%\n::error::x", why="50% of\n::warning::y", evidence=(Evidence("a,b\n.log", 1, 0, "t"),))
    (line,) = github.commands(diagnosis(root)).splitlines()
    head, _, message = line[2:].partition("::")
    assert head == "error file=a%2Cb .log,line=1,title=a%2Cb%3Ac% %3A%3Aerror%3A%3Ax".replace("c%", "c%25")
    assert "50%25 of ::warning::y" in message
