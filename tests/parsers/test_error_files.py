from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Identity, Kind, Role, Source, Status
from forensics.parsers.error_files import ErrorFile, looks_like_error_file, read
from forensics.path_identity import identity_of
from forensics.signatures.schema import load_catalogue

STACK = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 357, in wrapper
    return f(*args, **kwargs)
  File "/app/train.py", line 31, in main
    batch = sample["labels"]
KeyError: 'labels'
"""


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return Matcher(load_catalogue())


def record(message: str, stack: str | None = None, stamp: str = "1700000000") -> str:
    if stack is None:
        return json.dumps({"message": message})
    return json.dumps({"message": {"message": message, "extraInfo": {"py_callstack": stack, "timestamp": stamp}}})


def parse(folder: Path, text: str, matcher: Matcher, path: str = "x/attempt_2/3/error.json") -> ErrorFile:
    file = folder / "error.json"
    file.write_text(text)
    return read(Source(path, file, Kind.ERROR_FILE, len(text), identity_of(path)), matcher, reference=1.7e9)


def test_a_record_is_a_traceback(tmp_path: Path, matcher: Matcher) -> None:
    found = parse(tmp_path, record("KeyError: 'labels'", STACK), matcher)
    (t,) = found.tracebacks
    assert (t.exception, t.message, t.user_frame) == ("KeyError", "'labels'", ("/app/train.py", 31, "main"))
    assert t.identity == Identity(local_rank=3, attempt=2)
    assert (t.time, t.zone_known) == (1_700_000_000.0, True)
    assert (t.final.file, t.final.line) == ("x/attempt_2/3/error.json", 1)
    assert found.problem is None


def test_signatures_see_what_it_holds(tmp_path: Path, matcher: Matcher) -> None:
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free."
    found = parse(tmp_path, record(said.split(".", 1)[1], STACK.replace("KeyError: 'labels'", said)), matcher)
    (o,) = [o for o in found.observations if o.signature == "cuda-oom"]
    assert (o.identity.local_rank, o.time, o.evidence[0].line) == (3, 1_700_000_000.0, 1)


def test_a_plain_message(tmp_path: Path, matcher: Matcher) -> None:
    (t,) = parse(tmp_path, record("ValueError: bad batch\nsecond line"), matcher).tracebacks
    assert (t.exception, t.frames) == ("ValueError", ())
    assert "bad batch" in t.message


def test_an_indented_file_gives_its_line(tmp_path: Path, matcher: Matcher) -> None:
    text = json.dumps(json.loads(record("KeyError: 'labels'", STACK)), indent=2)
    (t,) = parse(tmp_path, text, matcher).tracebacks
    line = text.splitlines()[(t.final.line or 0) - 1]
    assert "py_callstack" in line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"message": {"message": "Key',
        '{"message": null}',
        '{"message": {}}',
        '{"message": []}',
        "[1]",
        "null",
        '{"message": {"extraInfo": 3}}',
    ],
)
def test_bad_files_have_a_problem(tmp_path: Path, text: str, matcher: Matcher) -> None:
    found = parse(tmp_path, text, matcher)
    assert found.problem and not found.tracebacks


@pytest.mark.parametrize("stamp", ["", "soon", "nan", "-5", "1e400"])
def test_a_bad_time_is_no_time(tmp_path: Path, stamp: str, matcher: Matcher) -> None:
    (t,) = parse(tmp_path, record("KeyError: 'labels'", STACK, stamp), matcher).tracebacks
    assert t.time is None


def test_what_is_one_is_told_by_content() -> None:
    assert looks_like_error_file(record("KeyError: 1", STACK).encode(), "anything")
    assert looks_like_error_file(record("plain").encode(), "error.json")
    assert not looks_like_error_file(b'{"message": "hello", "level": "info"}\n{"message": "x"}\n', "log.jsonl")
    assert not looks_like_error_file(b'{"loss": 1}', "error.json")


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack", "timestamp"]), inner)
        ),
    )
)
def test_any_json_is_survived(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    folder = tmp_path_factory.mktemp("e")
    parse(folder, json.dumps({"message": value}), Matcher({}, use_cache=False))


def run_with(folder: Path, error: str) -> Diagnosis:
    place = folder / "logs/none_ab12cd/attempt_0/1"
    place.mkdir(parents=True)
    (place / "error.json").write_text(error)
    (folder / "train.log").write_text("".join(f"step {n} loss 2.{n}\n" for n in range(30)))
    return analyse([str(folder)])


def test_it_is_the_root_where_no_log_holds_the_exception(tmp_path: Path) -> None:
    found = run_with(tmp_path, record("KeyError: 'labels'", STACK))
    (root,) = found.of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("python-exception", (1,))
    assert root.captures["exception"] == "KeyError"
    assert {c.path: (c.kind, c.status) for c in found.coverage}["logs/none_ab12cd/attempt_0/1/error.json"] == (
        "error_file",
        Status.READ,
    )


def test_the_same_exception_in_the_log_is_one_finding(tmp_path: Path) -> None:
    place = tmp_path / "logs/none_ab12cd/attempt_0/1"
    place.mkdir(parents=True)
    (place / "stderr.log").write_text("".join(f"[rank1]: {line}\n" for line in STACK.splitlines()))
    (place / "error.json").write_text(record("KeyError: 'labels'", STACK))
    (root, *others) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert not others
    assert (root.name, root.ranks) == ("python-exception", (1,))


def test_a_cut_file_is_partial(tmp_path: Path) -> None:
    found = run_with(tmp_path, record("KeyError: 'labels'", STACK)[:-40])
    row = next(c for c in found.coverage if c.path.endswith("error.json"))
    assert row.status is Status.PARTIAL and "cut off" in (row.reason or "")


def test_a_message_of_null_is_no_message(tmp_path: Path, matcher: Matcher) -> None:
    text = '{"message": null}'
    assert looks_like_error_file(text.encode(), "attempt_0/0/error.json")
    assert parse(tmp_path, text, matcher).problem == "it holds no message"
