"""Events of pods beside a log that simply stops: the run's own, another's, or nobody knows whose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

HEAD = "LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n"
EVICTED = "41m   Warning   Evicted   pod/{pod}   The node was low on resource: memory. Threshold quantity: 100Mi\n"
KILLED = "41m   Warning   OOMKilled   pod/{pod}   Container main was OOMKilled\n"
PULLED = "42m   Normal   Pulled   pod/{pod}   Container image already present on machine\n"
OTHER = "web-shop-7c9f5d8b6c-x2v4k"


def steps(prefix: str = "", last: int = 180) -> str:
    return "".join(
        f"{prefix}2026-11-20T08:{n // 60:02d}:{n % 60:02d}Z step {n} loss {2 + 1 / n:.3f}\n" for n in range(1, last)
    )


def diagnosed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def names(found: Diagnosis) -> list[str]:
    return [f.name for f in found.of_role(Role.ROOT)]


def listed(pod: str, time: str) -> str:
    event = {
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": pod},
        "reason": "Evicted",
        "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.",
        "lastTimestamp": time,
        "source": {"host": "pool-a-1"},
    }
    return json.dumps({"kind": "List", "items": [event]}, indent=1)


OWN_LOGS = [
    ("train.log", steps("[pod/llama-worker-0/pytorch] ")),
    ("train.log", "HOSTNAME=llama-worker-0\n" + steps()),
    ("train.log", "POD_NAME=llama-x7k2p\n" + steps()),
    ("llama-worker-0.log", steps()),
]


@pytest.mark.parametrize(("log", "text"), OWN_LOGS)
@pytest.mark.parametrize("row", [EVICTED, KILLED])
def test_an_event_of_another_pod_than_the_logs_own_is_context(tmp_path: Path, log: str, text: str, row: str) -> None:
    found = diagnosed(tmp_path, {log: text, "events.txt": HEAD + row.format(pod=OTHER)})
    assert (found.verdict, names(found)) == (Verdict.HEALTHY, [])
    assert any(f"pod {OTHER}, which is none of the run's" in f.why for f in found.of_role(Role.CONTEXT))


@pytest.mark.parametrize(("log", "text"), OWN_LOGS)
@pytest.mark.parametrize("pod", ["llama-worker-0", "llama-worker-3", "llama-x7k2p"])
def test_an_event_of_a_pod_of_the_logs_own_job_is_the_cause(tmp_path: Path, log: str, text: str, pod: str) -> None:
    assert names(diagnosed(tmp_path, {log: text, "events.txt": HEAD + EVICTED.format(pod=pod)})) == ["pod-evicted"]


def test_an_object_of_an_event_is_of_another_pod_too(tmp_path: Path) -> None:
    files = {"llama-worker-0.log": steps(), "events.json": listed(OTHER, "2026-11-20T08:03:00Z")}
    assert diagnosed(tmp_path, files).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("log", ["train.log", "worker-0.log"])
@pytest.mark.parametrize("rows", [EVICTED.format(pod=OTHER), EVICTED.format(pod="db-0"), KILLED.format(pod="db-0")])
def test_whose_pod_it_was_is_not_guessed(tmp_path: Path, log: str, rows: str) -> None:
    found = diagnosed(tmp_path, {log: steps(), "events.txt": HEAD + rows})
    assert (found.verdict, names(found)) == (Verdict.UNKNOWN, [])
    assert "if it is the run's pod" in found.summary


def test_of_two_jobs_that_are_listed_neither_is_known_to_be_the_runs(tmp_path: Path) -> None:
    rows = EVICTED.format(pod="ft-worker-1") + PULLED.format(pod=OTHER)
    assert names(diagnosed(tmp_path, {"train.log": steps(), "events.txt": HEAD + rows})) == []


def test_a_list_of_one_job_that_trains_is_of_the_run(tmp_path: Path) -> None:
    rows = PULLED.format(pod="ft-worker-0") + EVICTED.format(pod="ft-worker-1")
    assert names(diagnosed(tmp_path, {"worker-0.log": steps(), "events.txt": HEAD + rows})) == ["pod-evicted"]


def test_a_log_that_ends_when_a_pod_was_evicted_is_likely_that_pods(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, {"train.log": steps(), "events.json": listed("llm-0", "2026-11-20T08:03:10Z")})
    assert (names(found), found.of_role(Role.ROOT)[0].confidence < 0.8) == (["pod-evicted"], True)


def test_a_log_that_goes_on_past_the_end_of_a_pod_is_not_that_pods(tmp_path: Path) -> None:
    files = {"train.log": steps(last=900), "events.json": listed("llm-0", "2026-11-20T08:03:10Z")}
    found = diagnosed(tmp_path, files)
    assert (found.verdict, names(found)) == (Verdict.HEALTHY, [])
