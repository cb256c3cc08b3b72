"""Slurm's accounting beside a run: states of its job in all column sets, and rows of other jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Role
from forensics.parsers.accounting import ended, places, rows

STEPS = "".join(f"step {n} loss {2 - n / 100:.3f}\n" for n in range(20))
HEAD = "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n"
TABLE = (
    "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
    "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
)
ENDS = {
    "CANCELLED by 1001": ("external-sigterm", "interrupted"),
    "TIMEOUT": ("scheduler-time-limit", "interrupted"),
    "DEADLINE": ("scheduler-time-limit", "interrupted"),
    "NODE_FAIL": ("node-failure", "failed"),
    "OUT_OF_MEMORY": ("host-oom-cgroup", "failed"),
    "PREEMPTED": ("preempted", "interrupted"),
}


def parsable(state: str, job: str = "4242") -> str:
    steps = f"{job}.batch|batch||ml|16|CANCELLED|0:15\n{job}.extern|extern||ml|32|COMPLETED|0:0\n"
    return f"{job}|train|gpu|ml|32|{state}|0:0\n{steps}{job}.0|python||ml|32|CANCELLED by 0|0:15\n"


def table(state: str, job: str = "4242") -> str:
    cut = state if len(state) <= 10 else state[:9] + "+"
    return (
        f"{job:12} {'train':>10} {'gpu':>10} {'ml':>10} {32:>10} {cut:>10} {'0:0':>8} \n"
        f"{job + '.batch':12} {'batch':>10} {'':10} {'ml':>10} {16:>10} {'CANCELLED':>10} {'0:15':>8} \n"
        f"{job + '.0':12} {'python':>10} {'':10} {'ml':>10} {32:>10} {'CANCELLED+':>10} {'0:15':>8} \n"
    )


def block(state: str, job: str = "4242") -> str:
    return (
        f"JobId={job} JobName=train\n   UserId=user(1001) GroupId=user(1001) MCS_label=N/A\n"
        f"   JobState={state.split()[0]} Reason=None Dependency=(null)\n   RunTime=01:00:01 TimeLimit=01:00:00\n\n"
    )


def diagnose(folder: Path, listing: str, log: str = "train.log") -> Diagnosis:
    (folder / log).write_text(STEPS)
    (folder / "accounting.txt").write_text(listing)
    return analyse([str(folder)])


@pytest.mark.parametrize("state", ENDS)
@pytest.mark.parametrize("form", ["parsable", "without head", "table", "scontrol"])
def test_the_state_of_the_job(tmp_path: Path, state: str, form: str) -> None:
    listing = {
        "parsable": HEAD + parsable(state),
        "without head": parsable(state),
        "table": TABLE + table(state),
        "scontrol": block(state),
    }[form]
    found = diagnose(tmp_path, listing)
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, found.verdict) == ENDS[state]


def test_who_cancelled_is_named_as_it_is(tmp_path: Path) -> None:
    (root,) = diagnose(tmp_path, HEAD + parsable("CANCELLED by 1001")).of_role(Role.ROOT)
    assert root.captures["uid"] == "1001"


def test_a_failed_job_is_not_healthy_and_its_reason_is_not_known(tmp_path: Path) -> None:
    found = diagnose(tmp_path, HEAD + parsable("FAILED"))
    assert [f.name for f in found.of_role(Role.ROOT)] == ["insufficient-evidence"]


@pytest.mark.parametrize("state", ["COMPLETED", "RUNNING", "PENDING"])
@pytest.mark.parametrize("form", [parsable, table, block])
def test_what_became_of_steps_alone_is_no_root(tmp_path: Path, state: str, form: object) -> None:
    assert callable(form)
    heads = {parsable: HEAD, table: TABLE, block: ""}
    found = diagnose(tmp_path, heads[form] + form(state))  # type: ignore[index]
    assert not found.of_role(Role.ROOT)
    assert found.verdict == "healthy"


def test_rows_of_other_jobs_do_not_count(tmp_path: Path) -> None:
    listing = HEAD + parsable("TIMEOUT", "4241") + parsable("COMPLETED") + parsable("NODE_FAIL", "4243")
    assert diagnose(tmp_path, listing, "slurm-4242.out").verdict == "healthy"


def test_the_row_of_the_job_that_a_path_names_counts(tmp_path: Path) -> None:
    listing = TABLE + table("COMPLETED", "4242_1") + table("TIMEOUT", "4242_2") + table("NODE_FAIL", "4242_3")
    (root,) = diagnose(tmp_path, listing, "slurm-4242_2.out").of_role(Role.ROOT)
    assert root.name == "scheduler-time-limit"


def test_of_several_jobs_none_counts_where_nothing_says_which_is_the_runs(tmp_path: Path) -> None:
    assert not diagnose(tmp_path, block("TIMEOUT", "4241") + block("COMPLETED")).of_role(Role.ROOT)


def test_of_a_job_that_was_started_again_the_last_row_counts(tmp_path: Path) -> None:
    listing = HEAD + parsable("PREEMPTED") + parsable("COMPLETED")
    assert not diagnose(tmp_path, listing).of_role(Role.ROOT)
    (tmp_path / "accounting.txt").write_text(HEAD + parsable("PREEMPTED") + parsable("TIMEOUT"))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert root.name == "scheduler-time-limit"


def test_rows_are_told_from_other_lines() -> None:
    text = "4242 requests CANCELLED\n7 steps\n" + parsable("COMPLETED", "7_3") + block("FAILED", "9")
    found = [(row.line, row.job, row.base, row.step) for row in rows(text)]
    assert found[:2] == [(3, "7_3", "7", False), (4, "7_3", "7", True)]
    assert found[-1][1:] == ("9", "9", False)
    assert len(found) == 5
    assert len(list(rows(TABLE + table("FAILED")))) == 3
    assert not list(rows(table("FAILED")))  # no head above it


LINES = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [*HEAD.splitlines(), *TABLE.splitlines(), *parsable("FAILED", "7").splitlines(), "JobState=FAILED"]
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8), st.sampled_from([parsable, table, block]))
def test_a_job_is_found_among_any_lines(above: list[str], below: list[str], form: Callable[[str], str]) -> None:
    head = TABLE if form is table else ""
    own = form("NODE_FAIL").splitlines()
    text = "\n".join([*above, head + "\n".join(own), *below])
    found = list(rows(text))
    count = text.count("\n") + 1
    assert [row.line for row in found] == sorted({row.line for row in found})
    assert all(1 <= row.line <= count for row in found)
    assert form is block or all(row.base in text.split("\n")[row.line - 1] for row in found)
    wanted = sum("JobState=" in line for line in own) if form is block else len(own)
    assert sum(row.base == "4242" for row in found) >= wanted


def test_a_row_bears_the_time_of_its_jobs_end() -> None:
    piped = (
        "JobID|JobName|State|Start|End|NodeList\n"
        "77|train|CANCELLED by 1001|2026-11-05T10:30:00|2026-11-05T11:02:03|n[1-2]\n"
        "77.0|python|RUNNING|2026-11-05T10:30:02|Unknown|n[1-2]\n"
    )
    assert ended(piped) == {2: "2026-11-05T11:02:03"}
    cut = (
        "JobID           JobName      State               Start                 End \n"
        "------------ ---------- ---------- ------------------- ------------------- \n"
        "77                train CANCELLED+ 2026-11-05T10:30:00 2026-11-05T11:02:03 \n"
        "77.0             python    RUNNING 2026-11-05T10:30:02             Unknown \n"
    )
    assert ended(cut) == {3: "2026-11-05T11:02:03"}
    assert ended(HEAD + "77|train|2026-11-05T10:30:00|CANCELLED|\n") == {}


@pytest.mark.parametrize("columns", ["JobID|State|Start|End", "JobID|Start|End|State"])
def test_a_cancelled_job_is_told_at_its_end(tmp_path: Path, columns: str) -> None:
    times = "2026-11-05T10:30:00|2026-11-05T11:02:03"
    row = f"77|CANCELLED by 50123|{times}" if columns.startswith("JobID|State") else f"77|{times}|CANCELLED by 50123"
    diagnosis = diagnose(tmp_path, f"{columns}\n{row}\n", "slurm-77.out")
    root = next(f for f in diagnosis.findings if f.role is Role.ROOT)
    assert root.name == "external-sigterm"
    assert root.captures["uid"] == "50123"
    assert root.time is not None
    assert root.time.startswith("2026-11-05T11:02:03")


def test_the_one_host_of_a_row() -> None:
    piped = "JobID|JobName|NodeList|State\n77|train|n3|NODE_FAIL\n78|train|n[1-4]|NODE_FAIL\n79|train|n1,n2|FAILED\n80|t|None assigned|FAILED\n"
    assert places(piped) == {2: "n3"}
    table = (
        "JobID           JobName        NodeList      State\n------------ ---------- --------------- ----------\n"
        "77                train            n[3]  NODE_FAIL\n78                train        n[03-05]  NODE_FAIL\n"
        "79                train   None assigned CANCELLED+\n"
    )
    assert places(table) == {3: "n3"}


def test_a_jobs_script_is_on_the_first_of_its_hosts_only() -> None:
    head = "JobID|State|ExitCode|NodeList\n"
    two = "77|OUT_OF_MEMORY|0:125|n[1-2]\n77.batch|OUT_OF_MEMORY|0:125|n1\n77.0|OUT_OF_MEMORY|0:125|n[1-2]\n"
    assert places(head + two) == {}
    assert places(head + two.replace("77.0|OUT_OF_MEMORY|0:125|n[1-2]", "77.0|OUT_OF_MEMORY|0:125|n2")) == {4: "n2"}
    one = "77|OUT_OF_MEMORY|0:125|n1\n77.batch|OUT_OF_MEMORY|0:125|n1\n78|FAILED|1:0|n[1-2]\n"
    assert places(head + one) == {2: "n1", 3: "n1"}
