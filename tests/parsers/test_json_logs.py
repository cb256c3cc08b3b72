"""Tracebacks and errors that records of JSON lines hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Kind, Role, Source
from forensics.parsers.json_logs import read

FRAMES = """  File "/app/train.py", line 120, in <module>
    main()
  File "/app/data.py", line 33, in __getitem__
    row["caption"]
"""
STACK = f"Traceback (most recent call last):\n{FRAMES}KeyError: 'caption'"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.31 GiB is free."
STAMP = "2026-01-05T14:03:01Z"


def steps(start: int, end: int) -> list[dict[str, Any]]:
    return [
        {"ts": f"2026-01-05T14:02:{n:02}Z", "level": "INFO", "rank": 3, "msg": "train", "step": n, "loss": 2 - n / 100}
        for n in range(start, end)
    ]


def of(folder: Path, name: str, records: list[dict[str, Any]]) -> Diagnosis:
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))
    return analyse([str(folder)])


PYTHON_JSON_LOGGER = {"asctime": STAMP, "levelname": "ERROR", "rank": 3, "message": "uncaught", "exc_info": STACK}
STRUCTLOG = {"event": "uncaught", "level": "critical", "timestamp": STAMP, "rank": 3, "exception": STACK}
LOGURU = {
    "text": f"{STAMP} | ERROR | uncaught\n{STACK}\n",
    "record": {"level": {"name": "ERROR", "no": 40}, "time": {"repr": STAMP}, "message": "uncaught"},
}
ECS = {
    "@timestamp": STAMP,
    "log.level": "error",
    "message": "uncaught",
    "error": {"type": "KeyError", "message": "'caption'", "stack_trace": FRAMES},
}


@pytest.mark.parametrize("name", ["train.jsonl", "train.log"])
@pytest.mark.parametrize(
    "record", [PYTHON_JSON_LOGGER, STRUCTLOG, LOGURU, ECS], ids=["pjl", "structlog", "loguru", "ecs"]
)
def test_a_traceback_in_a_string_is_the_root(tmp_path: Path, name: str, record: dict[str, Any]) -> None:
    found = of(tmp_path, name, [*steps(0, 40), record])
    (root,) = found.of_role(Role.ROOT)
    assert (found.verdict, root.name) == ("failed", "python-exception")
    assert (root.evidence[0].file, root.evidence[0].line) == (name, 41)
    assert "KeyError: 'caption'" in root.evidence[0].text


@pytest.mark.parametrize("name", ["train.jsonl", "train.log"])
def test_a_message_of_an_error_is_found_once_with_its_rank(tmp_path: Path, name: str) -> None:
    found = of(tmp_path, name, [*steps(0, 40), {"ts": STAMP, "level": "ERROR", "rank": 3, "msg": OOM}])
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.ranks, root.count, root.evidence[0].line) == ("cuda-oom", (3,), 1, 41)


def test_a_signature_in_both_the_line_and_its_stack_counts_once(tmp_path: Path) -> None:
    stack = STACK.replace("KeyError: 'caption'", OOM)
    found = of(tmp_path, "train.log", [*steps(0, 40), {**PYTHON_JSON_LOGGER, "exc_info": stack}])
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.count) == ("cuda-oom", 1)


@pytest.mark.parametrize("name", ["train.jsonl", "train.log"])
def test_what_a_record_calls_less_than_an_error_is_none(tmp_path: Path, name: str) -> None:
    caught = {"ts": STAMP, "level": "WARNING", "rank": 3, "msg": "sample skipped", "exc_info": STACK}
    found = of(tmp_path, name, [*steps(0, 30), caught, *steps(30, 60)])
    assert (found.verdict, found.of_role(Role.ROOT)) == ("healthy", ())


@pytest.mark.parametrize("place", [{"record": {"level": {"name": "WARNING", "no": 30}}}, {"log": {"level": "warning"}}])
def test_a_level_inside_another_object_counts(tmp_path: Path, place: dict[str, Any]) -> None:
    found = of(tmp_path, "train.log", [*steps(0, 30), {"text": STACK, **place}])
    assert found.of_role(Role.ROOT) == ()


def test_an_error_that_names_no_fault_is_none(tmp_path: Path) -> None:
    noise = {"ts": STAMP, "level": "ERROR", "rank": 3, "msg": "could not upload the artifact, will try again"}
    found = of(tmp_path, "train.jsonl", [*steps(0, 30), noise, *steps(30, 60)])
    assert (found.verdict, found.of_role(Role.ROOT)) == ("healthy", ())


def test_a_cut_record_is_passed_over(tmp_path: Path) -> None:
    whole = "".join(json.dumps(r) + "\n" for r in steps(0, 40))
    (tmp_path / "train.jsonl").write_text(whole + json.dumps(PYTHON_JSON_LOGGER)[:-20])
    assert analyse([str(tmp_path)]).of_role(Role.ROOT) == ()


def structured(kind: str, value: str, line: int, **more: Any) -> dict[str, Any]:
    """An exception as structlog's `dict_tracebacks` writes it."""
    frames = [
        {"filename": "/app/train.py", "lineno": 120, "name": "<module>", "line": "", "locals": {"row": "{}"}},
        {"filename": "", "lineno": -1, "name": "Skipped frames: 4"},
        {"filename": "/app/data.py", "lineno": line, "name": "__getitem__", "line": 'row["caption"]', "locals": None},
    ]
    return {"exc_type": kind, "exc_value": value, "syntax_error": None, "is_cause": False, "frames": frames, **more}


@pytest.mark.parametrize("name", ["train.jsonl", "train.log"])
def test_frames_that_are_objects_are_a_traceback(tmp_path: Path, name: str) -> None:
    """Of a chain, which begins with what was raised last, the origin is the cause."""
    chain = [structured("RuntimeError", "bad batch", 50), structured("KeyError", "'caption'", 33, is_cause=True)]
    found = of(tmp_path, name, [*steps(0, 40), {**STRUCTLOG, "exception": chain}])
    (root,) = found.of_role(Role.ROOT)
    assert (found.verdict, root.name) == ("failed", "python-exception")
    assert (root.captures["exception"], root.captures["file"], root.captures["line"]) == (
        "KeyError",
        "/app/data.py",
        "33",
    )
    assert (root.evidence[0].file, root.evidence[0].line) == (name, 41)


@pytest.mark.parametrize("level", ["info", "critical"])
@pytest.mark.parametrize(
    "exception",
    [
        [],
        [{"exc_type": "KeyError", "frames": []}],
        [{"exc_type": "KeyError", "frames": [{"filename": 3}, 4, None]}],
        [{"exc_type": 3, "frames": [{"filename": "a", "lineno": 3, "name": "b"}]}],
        {"exc_type": "KeyError", "frames": "x"},
        [structured("KeyError", "x", 3), "more"],
    ],
)
def test_other_objects_are_no_traceback(tmp_path: Path, exception: Any, level: str) -> None:
    record = {**STRUCTLOG, "event": "quotes", "level": level, "exception": exception}
    found = of(tmp_path, "train.log", [*steps(0, 40), record, *steps(40, 45)])
    assert not found.of_role(Role.ROOT)


RECORD = st.dictionaries(
    st.sampled_from(["ts", "level", "msg", "rank", "exc_info", "exception", "error", "time", "message"]),
    st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(["ERROR", STAMP, STACK]),
              st.just({"type": "E", "stack_trace": FRAMES}), st.just([{"exc_type": "E", "frames": [1]}])),
)  # fmt: skip
LINES = st.one_of(
    st.binary(max_size=60).map(lambda b: b.replace(b"\n", b"")), RECORD.map(lambda r: json.dumps(r).encode())
)
MATCHER = Matcher({}, use_cache=False)


@settings(max_examples=80, deadline=None)
@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=6), st.sampled_from([Kind.LOG, Kind.METRICS]))
def test_a_traceback_is_found_among_any_lines(
    tmp_path_factory: pytest.TempPathFactory, above: list[bytes], below: list[bytes], kind: Kind
) -> None:
    lines = [*above, json.dumps({**PYTHON_JSON_LOGGER, "rank": 7}).encode(), *below]
    file = tmp_path_factory.getbasetemp() / "records.jsonl"
    file.write_bytes(b"\n".join(lines))
    found = read(Source("records.jsonl", file, kind, file.stat().st_size), MATCHER, reference=1.7e9)
    assert len(above) + 1 in [t.header.line for t in found.tracebacks if t.exception == "KeyError"]
    places = [e.line for o in found.observations for e in o.evidence] + [t.final.line for t in found.tracebacks]
    assert all(line is not None and 1 <= line <= len(lines) for line in places)


@pytest.mark.parametrize("name", ["train.jsonl", "train.log"])
def test_the_end_that_a_record_tells_counts(tmp_path: Path, name: str) -> None:
    skipped = {"ts": STAMP, "level": "ERROR", "logger": "data", "message": "failed to decode, skipping"}
    end = {"ts": STAMP, "level": "INFO", "message": "Training complete", "step": 40}
    assert of(tmp_path, name, [*steps(0, 40), skipped, end]).verdict == "healthy"
    assert of(tmp_path, name, [*steps(0, 40), skipped]).verdict == "unknown"
    assert of(tmp_path, name, [*steps(0, 40), end | {"message": "begins"}, STRUCTLOG]).verdict == "failed"


@pytest.mark.parametrize(
    "added",
    [
        {"labels": {"rank": "3", "host": "n-3"}},
        {"ctx": {"rank": 3, "host": "n-3"}},
        {"labels": {"rank": 3}, "host": {"hostname": "n-3"}},
        {"record": {"extra": {"rank": 3, "host": "n-3"}}},
        {"rank": 3, "hostname": "n-3"},
    ],
)
def test_rank_and_host_of_a_record_stand_where_programs_add_them(tmp_path: Path, added: dict[str, Any]) -> None:
    lost = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2027, remote process exited or there was a network error"
    peers = [
        {"time": "2026-01-05T14:03:02Z", "level": "ERROR", "labels": {"rank": n}, "message": lost} for n in (0, 1, 2)
    ]
    failed = {"time": STAMP, "level": "ERROR", "message": f"failed\n{STACK}", **added}
    (root,) = of(tmp_path, "train.log", [*steps(0, 20), failed, *peers]).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.node) == ("python-exception", (3,), "n-3")
