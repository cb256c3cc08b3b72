from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, FAILED, HOSTILE, diagnosis, finding, read

from forensics.model import Coverage, Evidence, Role, RuledOut, Status, Verdict
from forensics.report import terminal, words

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_window(name: str, width: int) -> None:
    for line in terminal.render(ALL[name], width=width, colour=False).splitlines():
        assert sum(map(terminal._cells, line)) <= width


@pytest.mark.parametrize("name", ALL)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    plain = terminal.render(ALL[name], width=80, colour=False)
    assert "\x1b" not in plain
    coloured = terminal.render(ALL[name], width=80, colour=True)
    assert "\x1b[" in coloured
    assert SGR.sub("", coloured) == plain


def test_the_headline_names_verdict_cause_rank_node_step_and_certainty() -> None:
    first = terminal.render(FAILED, width=100, colour=False).splitlines()[0]
    assert first == "FAILED  CUDA out of memory on rank 2 (node-7) at step 412 · 97 % sure"


@given(st.text(), st.integers(-5, 500))
def test_whatever_a_log_says_is_inert_and_fits(text: str, width: int) -> None:
    root = finding(title=text, why=text, node=text, notes=(text,), evidence=(Evidence(text, 1, 0, text),), fix=(text,))
    report = terminal.render(diagnosis(root, summary=text), width=width, colour=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", report)
    for line in report.split("\n"):
        assert sum(map(terminal._cells, line)) <= max(40, width)


def test_wide_characters_take_two_columns() -> None:
    report = terminal.render(diagnosis(finding(why="损失变成了非数值" * 20)), width=40, colour=False)
    assert all(sum(map(terminal._cells, line)) <= 40 for line in report.splitlines())
    assert report.count("损") == 20


def test_a_cascade_of_a_cascade_belongs_to_its_root() -> None:
    report = terminal.render(FAILED, width=200, colour=False)
    assert (
        "explained by it: collective-timeout waiting for ranks 0, 1, 3 (7 lines), launcher-summary (1 line)" in report
    )


def test_what_is_ruled_out_by_a_line_names_it() -> None:
    own = FAILED.findings[0].evidence[0]
    told = (RuledOut("shown", "its line says so", (own,)), *FAILED.ruled_out)
    report = terminal.render(dataclasses.replace(FAILED, ruled_out=told), width=200, colour=False)
    assert "- shown: its line says so (rank2/stderr.log:1234, above)\n" in report
    assert "- host-oom: no process was killed\n    dmesg.txt:5" in report
    assert "- gpu-shared: the process holds 78.13 of 79.15 GiB itself\n" in report


def test_a_ring_of_explanations_ends() -> None:
    assert "not shown here" in terminal.render(HOSTILE, width=100, colour=False)


def test_what_was_not_read_is_told_in_few_lines() -> None:
    skipped = tuple(Coverage(f"f{i}", "binary", 1, Status.SKIPPED, f"reason {i % 30}") for i in range(3000))
    report = terminal.render(diagnosis(coverage=(read("a"), *skipped)), width=100, colour=False)
    lines = report[report.index("NOT READ") :].splitlines()
    assert lines[1].startswith("  1 file read (1.0 kB), 3,000 skipped")
    assert len(lines) <= 12
    assert "and 2,300 more files" in lines[-1]


def test_recovered_says_which_attempt_failed() -> None:
    report = terminal.render(
        diagnosis(finding(ranks=(3,), attempt=0), verdict=Verdict.RECOVERED, run={"attempts": 2}),
        width=100,
        colour=False,
    )
    assert report.startswith("RECOVERED  after: CUDA out of memory on rank 3, in attempt 0 · 97 % sure\n")


def test_no_colour_wins() -> None:
    assert terminal.use_colour(isatty=True, environ={"TERM": "xterm"})
    assert not terminal.use_colour(isatty=True, environ={"NO_COLOR": "1"})
    assert not terminal.use_colour(isatty=False, environ={})


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "100 % sure"), (0.999, "99 % sure"), (float("nan"), ""), (-1, "0 % sure")]
)
def test_certainty_is_never_rounded_up_to_all(value: float, text: str) -> None:
    assert words.percent(value) == text


def test_a_local_rank_is_not_shown_as_a_rank() -> None:
    root = dataclasses.replace(FAILED.findings[0], ranks=None, local_ranks=(1,), node="node-3")
    assert words.located(root) == "CUDA out of memory on local rank 1 (node-3) at step 412"


def test_context_of_a_healthy_run_is_not_called_harmless() -> None:
    report = terminal.render(diagnosis(finding(role=Role.CONTEXT), verdict=Verdict.HEALTHY), width=80, colour=False)
    assert "\nSEEN\n" in report


def test_forced_colour_reaches_a_pipe_and_no_colour_wins() -> None:
    assert terminal.use_colour(isatty=False, environ={"FORCE_COLOR": "1"})
    assert not terminal.use_colour(isatty=False, environ={"FORCE_COLOR": "0"})
    assert not terminal.use_colour(isatty=True, environ={"FORCE_COLOR": "1", "NO_COLOR": "1"})


@pytest.mark.parametrize(("text", "columns"), [("e\u0301", 1), ("損", 2), ("\u1112\u1161\u11ab", 2), ("abc", 3)])
def test_marks_that_join_a_letter_take_no_column(text: str, columns: int) -> None:
    assert terminal._columns(text) == columns


def test_the_fingerprint_ends_the_report() -> None:
    assert terminal.render(FAILED, width=80, colour=False).splitlines()[-1].startswith("Fingerprint 47bd574887884257")


def test_the_header_of_a_traceback_is_no_evidence_worth_a_line() -> None:
    header = Evidence("a.log", 1, 0, "Traceback (most recent call last):")
    report = terminal.render(
        diagnosis(finding(evidence=(header, Evidence("a.log", 9, 9, "KeyError: 'x'")))), width=80, colour=False
    )
    assert "KeyError: 'x'" in report and "most recent call" not in report
    assert "… and 1 more place" in report
