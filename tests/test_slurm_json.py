"""`sacct --json` and `scontrol show job --json` of several versions, beside the rows that they print without it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.archives import slurm
from forensics.archives.formats import format_of
from forensics.archives.limits import Stop
from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = "".join(f"step {n} loss {2 - n / 100:.3f}\n" for n in range(20))


def number(value: int | None) -> dict[str, Any]:
    """A number as data parsers from 23.02 on print it."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def accounted(state: Any, exit_code: Any, step_state: Any, step_id: Any, **more: Any) -> dict[str, Any]:
    job = {
        "account": "ml",
        "derived_exit_code": exit_code,
        "exit_code": exit_code,
        "job_id": 4242,
        "name": "train|it",
        "nodes": "n[1-2]",
        "partition": "gpu",
        "state": {"current": state, "reason": "None"},
        "steps": [
            {
                "exit_code": exit_code,
                "nodes": {"count": 1, "range": "n1"},
                "state": step_state,
                "step": {"id": step_id, "name": "batch"},
            }
        ],
    }
    return {"meta": {"Slurm": {"release": "21.08.8"}}, "errors": [], "jobs": [job | more]}


OLD_CODE = {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 15, "name": "Terminated"}}
NEW_CODE = {"status": ["SIGNALED"], "return_code": number(None), "signal": {"id": number(15), "name": "Terminated"}}


def old(state: str, **more: Any) -> dict[str, Any]:
    return accounted(state, OLD_CODE, "CANCELLED", {"job_id": 4242, "step_id": "batch"}, **more)


def new(state: str, **more: Any) -> dict[str, Any]:
    return accounted([state, "COMPLETING"], NEW_CODE, ["CANCELLED"], "4242.batch", **more)


def shown(state: Any, code: Any, **more: Any) -> dict[str, Any]:
    job = {"derived_exit_code": code, "exit_code": code, "job_id": 4242, "job_state": state, "name": "train"}
    return {"jobs": [job | {"nodes": "n[1-2]", "batch_host": "n1", "state_reason": "None"} | more], "errors": []}


def rows(document: dict[str, Any]) -> list[str]:
    return b"".join(slurm.text(io.BytesIO(json.dumps(document).encode()))).decode().splitlines()


@pytest.mark.parametrize("make", [old, new])
def test_rows_of_sacct(make: Any) -> None:
    assert rows(make("TIMEOUT")) == [
        "JobID|JobName|Partition|State|ExitCode|NodeList",
        "4242|train_it|gpu|TIMEOUT|0:15|n[1-2]",
        "4242.batch|batch||CANCELLED|0:15|n1",
    ]


def test_tasks_of_an_array_and_who_cancelled() -> None:
    array = {"job_id": 4200, "task_id": number(7)}
    assert rows(new("CANCELLED", array=array, kill_request_user="1001"))[1].startswith(
        "4200_7|train_it|gpu|CANCELLED by 1001|"
    )
    assert "|CANCELLED|" in rows(old("CANCELLED", kill_request_user="alice"))[1]


@pytest.mark.parametrize(
    ("state", "code", "exit_code"),
    [
        ("FAILED", 256, "1:0"),  # 21.08: a wait status
        ("FAILED", 9, "0:9"),
        (["FAILED"], {"status": ["ERROR"], "return_code": number(1), "signal": {"id": number(None)}}, "1:0"),
    ],
)
def test_blocks_of_scontrol(state: Any, code: Any, exit_code: str) -> None:
    assert rows(shown(state, code)) == [
        "JobId=4242 JobName=train",
        "   JobState=FAILED Reason=None",
        f"   ExitCode={exit_code}",
        "   NodeList=n[1-2]",
        "   BatchHost=n1",
        "",
    ]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("document", [old, new, lambda state: shown([state], 15)], ids=["old", "new", "scontrol"])
@pytest.mark.parametrize(
    ("state", "name"),
    [("TIMEOUT", "scheduler-time-limit"), ("NODE_FAIL", "node-failure"), ("PREEMPTED", "preempted")],
)
def test_the_state_of_the_job_is_the_cause(
    tmp_path: Path, document: Any, state: str, name: str, indent: int | None
) -> None:
    (tmp_path / "train.log").write_text(STEPS)
    (tmp_path / "jobs.json").write_text(json.dumps(document(state), indent=indent))
    found = analyse([str(tmp_path)], Options(threads=1))
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.evidence[0].file) == (name, "jobs.json!/jobs.txt")


def test_a_job_that_completed_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(STEPS)
    done = accounted(["COMPLETED"], {"return_code": number(0), "signal": {"id": number(None)}}, ["COMPLETED"], "4242.0")
    (tmp_path / "jobs.json").write_text(json.dumps(done))
    assert not analyse([str(tmp_path)], Options(threads=1)).of_role(Role.ROOT)


@pytest.mark.parametrize(
    "text",
    ['{"jobs": [{"id": 1, "state": "TIMEOUT"}]}', '{"derived_exit_code": 1}', '[{"jobs": 1}]', '{"jobs": 3, "x": "y"}'],
)
def test_other_documents_are_none_of_slurm(text: str) -> None:
    assert format_of(text.encode(), "jobs.json") is None


def test_a_document_that_is_cut_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(STEPS)
    (tmp_path / "jobs.json").write_text(json.dumps(new("TIMEOUT"))[:-40])
    found = analyse([str(tmp_path)], Options(threads=1))
    row = next(c for c in found.coverage if c.path == "jobs.json")
    assert "damaged: it is no whole JSON document" in (row.reason or "")
    assert not found.of_role(Role.ROOT)


@pytest.mark.parametrize("jobs", [[None, 3, {}], "x", [{"job_id": {"set": False}, "job_state": None}], [{"state": []}]])
def test_any_shape_gives_no_row(jobs: Any) -> None:
    assert [r for r in rows({"jobs": jobs}) if "4242" in r] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["job_id", "state", "job_state", "steps", "step", "id", "exit_code", "number", "set", "nodes"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_a_job_is_found_among_any_values(above: list[Any], below: list[Any]) -> None:
    # What has a `job_state` is of scontrol, whose documents are read another way.
    above, below = ([v for v in some if not isinstance(v, dict) or "job_state" not in v] for some in (above, below))
    document = new("FAILED")
    document["jobs"] = [*above, *document["jobs"], *below]
    said = b"".join(slurm.text(io.BytesIO(json.dumps(document).encode()))).decode()
    assert any(line.startswith("4242|") and "|FAILED|" in line for line in said.splitlines())


@settings(max_examples=120, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_bytes_are_rows_or_damage(data: bytes, cut: int) -> None:
    for document in (data, json.dumps(new("FAILED")).encode()[:cut] + data):
        try:
            list(slurm.text(io.BytesIO(document)))
        except Stop as stop:
            assert "JSON document" in str(stop)
