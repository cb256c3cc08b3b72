"""Pods that the scheduler could not place: the cause where they never got a node, a delay where they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.engine.scheduling import first_seen, seconds
from forensics.model import Diagnosis, Role, Verdict

WHY = "0/12 nodes are available: 4 Insufficient nvidia.com/gpu, 8 node(s) didn't match Pod's node affinity/selector."
PREEMPTION = " preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling."
DESCRIBED = f"""\
Name:             pt-worker-3
Namespace:        ml
Node:             {{node}}
Status:           {{status}}
Events:
  Type     Reason             Age                From               Message
  ----     ------             ----               ----               -------
  Warning  FailedScheduling   14m (x6 over 40m)  default-scheduler  {WHY}{PREEMPTION}
"""
HEAD = "LAST SEEN   TYPE      REASON             OBJECT              MESSAGE\n"
FAILED = f"14m (x6 over 40m)   Warning   FailedScheduling   pod/pt-worker-3   {WHY}{PREEMPTION}\n"
TIMEOUT = """\
[2026-11-20 13:00:00,101] torch.distributed.run: [INFO] Starting elastic_operator
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
"""


def told(folder: Path, **files: str) -> Diagnosis:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return analyse([str(folder)])


def roots(diagnosis: Diagnosis) -> list[str]:
    return [f.name for f in diagnosis.of_role(Role.ROOT)]


def test_a_pod_that_stays_pending_is_the_cause(tmp_path: Path) -> None:
    diagnosis = told(tmp_path, describe=DESCRIBED.format(node="<none>", status="Pending"))
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (root.name, diagnosis.verdict) == ("pod-unschedulable", Verdict.FAILED)
    assert root.captures["pod"] == "pt-worker-3"
    assert "pod-start-delays" not in [f.name for f in diagnosis.findings]


def test_a_described_pod_that_was_started_is_not(tmp_path: Path) -> None:
    started = DESCRIBED.format(node="gpu-3/10.0.0.3", status="Running") + (
        "  Normal   Scheduled          9m                 default-scheduler  Successfully assigned ml/pt-worker-3 to gpu-3\n"
        "  Normal   Started            8m                 kubelet            Started container pytorch\n"
    )
    diagnosis = told(tmp_path, describe=started)
    assert roots(diagnosis) == []
    assert "pod-start-delays" in [f.name for f in diagnosis.findings]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ("", ["pod-unschedulable"]),
        ("9m   Normal   Scheduled   pod/pt-worker-3   Successfully assigned ml/pt-worker-3 to gpu-3\n", []),
        ("9m   Normal   Started     pod/pt-worker-3   Started container pytorch\n", []),
        (
            "9m   Normal   Scheduled   pod/pt-worker-2   Successfully assigned ml/pt-worker-2 to gpu-3\n",
            ["pod-unschedulable"],
        ),
        # one of the same name that was there before it
        (
            "55m  Normal   Scheduled   pod/pt-worker-3   Successfully assigned ml/pt-worker-3 to gpu-3\n",
            ["pod-unschedulable"],
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["above", "below"])
def test_rows_of_events(tmp_path: Path, later: str, expected: list[str], first: bool) -> None:
    rows = later + FAILED if first else FAILED + later
    assert roots(told(tmp_path, events=HEAD + rows)) == expected


def test_a_listing_in_another_file_says_that_it_runs(tmp_path: Path) -> None:
    row = "pt-worker-3   1/1   Running   0   38m   10.2.0.4   gpu-3\n"
    assert roots(told(tmp_path, events=HEAD + FAILED, pods=row)) == []


def test_a_pod_that_has_a_log_was_started(tmp_path: Path) -> None:
    assert roots(told(tmp_path, events=HEAD + FAILED, **{"pt-worker-3": "loading the data\n"})) == []


def test_a_pod_waits_for_some_minutes_as_every_pod_does(tmp_path: Path) -> None:
    young = FAILED.replace("14m (x6 over 40m)", "40s")
    diagnosis = told(tmp_path, events=HEAD + young)
    assert (roots(diagnosis), diagnosis.verdict) == ([], Verdict.UNKNOWN)


def test_the_others_waited_for_it(tmp_path: Path) -> None:
    diagnosis = told(tmp_path, events=HEAD + FAILED, **{"pt-worker-0": TIMEOUT})
    assert roots(diagnosis) == ["pod-unschedulable"]
    assert "rendezvous-timeout" in [f.name for f in diagnosis.of_role(Role.CASCADE)]


def test_a_run_that_trained_had_its_pods(tmp_path: Path) -> None:
    log = "".join(f"step {n} | loss {3 - n / 100:.4f}\n" for n in range(40))
    log += "Traceback (most recent call last):\n  File \"/app/train.py\", line 9, in <module>\n    f()\nKeyError: 'x'\n"
    assert roots(told(tmp_path, events=HEAD + FAILED, **{"pt-worker-0": log})) == ["python-exception"]


def test_events_as_objects_are_told_apart_by_their_times(tmp_path: Path) -> None:
    def event(name: str, reason: str, message: str, time: str) -> dict[str, object]:
        return {
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "name": name},
            "lastTimestamp": time,
            "message": message,
            "reason": reason,
        }

    failed = event("pt-worker-3", "FailedScheduling", WHY, "2026-11-20T10:40:00Z")
    placed = event("pt-worker-3", "Scheduled", "Successfully assigned ml/pt-worker-3 to gpu-3", "2026-11-20T10:50:00Z")
    for name, items, expected in (
        ("a", [failed], ["pod-unschedulable"]),
        ("b", [failed, placed], []),
        ("c", [failed, {**placed, "lastTimestamp": "2026-11-20T09:50:00Z"}], ["pod-unschedulable"]),
    ):
        (tmp_path / name).mkdir()
        listing = json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=4)
        assert roots(told(tmp_path / name, events=listing)) == expected, name


@given(st.integers(0, 59), st.integers(0, 59))
def test_ages(minutes: int, left: int) -> None:
    assert seconds(f"{minutes}m{left}s") == 60 * minutes + left
    assert (
        first_seen(f"  Warning  FailedScheduling  1s (x3 over {minutes}m{left}s)  default-scheduler")
        == 60 * minutes + left
    )


def test_text_without_an_age() -> None:
    assert first_seen("Warning FailedScheduling default-scheduler") is None
