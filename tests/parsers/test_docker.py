"""`docker inspect`: when a container ended, and what its state rules out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Evidence, Identity, Kind, Observation, Source
from forensics.parsers import docker


def state(**more: object) -> dict[str, object]:
    return {"Status": "exited", "OOMKilled": False, "ExitCode": 137, "FinishedAt": "2026-11-17T03:16:02.991Z", **more}


def refined(folder: Path, value: object, exitcode: str = "137") -> Observation:
    file = folder / "inspect.json"
    file.write_text(json.dumps(value))
    source = Source("inspect.json", file, Kind.LOG, file.stat().st_size, Identity())
    line = Evidence("inspect.json", 1, 0, '"ExitCode": 137')
    sign = Observation(
        signature="sigkill-unknown-sender",
        weight=0.75,
        evidence=(line,),
        identity=Identity(),
        captures={"exitcode": exitcode},
    )
    return docker.refine(source, file.read_bytes(), [sign])[0]


def test_the_end_of_a_container_and_what_it_was_not(tmp_path: Path) -> None:
    found = refined(tmp_path, [{"Name": "/train-1", "Created": "2026-11-17T03:13:58.1Z", "State": state()}])
    assert found.time == pytest.approx(1794885362.991) and found.zone_known and found.timed
    assert found.note == f"container train-1 ended with exit code 137; {docker.NOT_FOR_MEMORY}"


def test_a_container_that_was_killed_at_its_limit_is_not_said_to_be_none(tmp_path: Path) -> None:
    assert docker.NOT_FOR_MEMORY not in str(refined(tmp_path, [{"State": state(OOMKilled=True)}]).note)


@pytest.mark.parametrize(
    "value",
    [
        [{"State": state()}, {"State": state(ExitCode=1)}],  # two: the sign may be of either
        [{"State": state(Running=True)}],
        [{"State": "OOMKilled"}],
        {"State": state(ExitCode="137")},
        [[[[[[[[{"State": state()}]]]]]]]],
    ],
)
def test_what_tells_of_no_one_end_adds_nothing(tmp_path: Path, value: object) -> None:
    assert refined(tmp_path, value).note is None


def test_a_sign_of_another_exit_is_not_of_this_container(tmp_path: Path) -> None:
    assert refined(tmp_path, [{"State": state()}], exitcode="143").time is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["State", "ExitCode", "OOMKilled", "Running", "Name", "FinishedAt"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3), st.integers(0, 200))
def test_a_container_is_found_among_any_values(above: list[object], below: list[object], cut: int) -> None:
    known = {"Name": "/train-1", "State": state()}
    text = json.dumps([*above, known, *below])
    assert docker.Ended("train-1", 137, False, "2026-11-17T03:16:02.991Z") in docker.read(text)
    docker.read(text[:cut])  # cut anywhere
