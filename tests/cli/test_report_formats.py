"""The options that choose a report's form and what is taken out of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli import main
from forensics.report.own import is_report

LOG = """\
Traceback (most recent call last):
  File "/home/qkowalski/train.py", line 3, in step
    call(zebra)
RuntimeError: zebra-77 is closed, password=hunter2x
"""


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out.log").write_text(LOG)
    return str(tmp_path / "run")


@pytest.mark.parametrize("form", ["markdown", "github", "junit", "sarif"])
def test_what_is_shared_is_redacted_unless_one_says_otherwise(run: str, form: str) -> None:
    shown = CliRunner().invoke(main, ["analyze", run, "--format", form]).stdout
    assert "zebra-77 is closed" in shown and "hunter2x" not in shown and "qkowalski" not in shown
    assert "hunter2x" in CliRunner().invoke(main, ["analyze", run, "--format", form, "--no-redact"]).stdout
    also = CliRunner().invoke(main, ["analyze", run, "--format", form, "--redact-also", r"zebra-\d+"]).stdout
    assert "private-1 is closed" in also


@pytest.mark.parametrize("form", ["terminal", "json"])
def test_what_stays_in_the_house_is_not_redacted_unless_asked(run: str, form: str) -> None:
    assert "hunter2x" in CliRunner().invoke(main, ["analyze", run, "--format", form]).stdout
    for option in (["--redact"], ["--redact-also", "zebra"]):
        assert "hunter2x" not in CliRunner().invoke(main, ["analyze", run, "--format", form, *option]).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--redact-also", "("], "no regular expression"),
        (["--redact-also", "x", "--no-redact"], "--no-redact turns off"),
    ],
)
def test_wrong_patterns_are_wrong_usage(run: str, options: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["analyze", run, *options])
    assert result.exit_code == 2 and said in result.stderr


@pytest.mark.parametrize(("name", "parse"), [("r.xml", ET.fromstring), ("r.sarif", json.loads)])
def test_the_suffix_chooses_and_the_report_is_known_again(run: str, tmp_path: Path, name: str, parse: object) -> None:
    file = tmp_path / name
    assert CliRunner().invoke(main, ["analyze", run, "-o", str(file)]).exit_code == 1
    parse(file.read_text())  # type: ignore[operator]
    assert is_report(file.read_bytes())


def test_annotations_go_to_stderr_and_only_when_asked(run: str) -> None:
    asked = CliRunner().invoke(main, ["analyze", run, "--format", "github", "--annotate"])
    assert asked.stderr.startswith("::error ") and "::error" not in asked.stdout and "hunter2x" not in asked.stderr
    assert CliRunner().invoke(main, ["analyze", run, "--format", "github"]).stderr == ""


def test_the_fingerprint_is_the_same_in_every_form(run: str) -> None:
    name = json.loads(CliRunner().invoke(main, ["analyze", run, "--format", "json"]).stdout)["fingerprint"]
    assert len(name) == 16
    for form in ("terminal", "markdown", "github", "junit", "sarif"):
        assert name in CliRunner().invoke(main, ["analyze", run, "--format", form]).stdout


def test_in_a_workflow_a_log_gives_no_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out.log").write_text(
        LOG.replace("zebra-77 is closed", "x\n::set-output name=a::b") + "RuntimeError: ::error::x\n"
    )
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for form in ("terminal", "github"):
        shown = CliRunner().invoke(main, ["analyze", str(tmp_path), "--format", form]).stdout
        assert not any(line.lstrip().startswith("::") for line in shown.splitlines())


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("r.html", [], "(html, redacted)"),
        ("r.json", [], "(json, not redacted)"),
        ("r.txt", ["--redact"], "(terminal, redacted)"),
        ("r.md", ["--no-redact"], "(markdown, not redacted)"),
    ],
)
def test_what_was_written_is_said_on_stderr(run: str, tmp_path: Path, name: str, options: list[str], said: str) -> None:
    file = tmp_path / name
    result = CliRunner().invoke(main, ["analyze", run, "-o", str(file), *options])
    assert (result.stdout, result.stderr) == ("", f"wrote {file} {said}\n")
    assert CliRunner().invoke(main, ["analyze", run, "-o", str(file), "-q", *options]).stderr == ""
