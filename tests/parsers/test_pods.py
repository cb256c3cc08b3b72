"""Kubernetes' accounts of pods: node, end, limit and rank of what a sign in them is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict
from forensics.parsers.pods import assigned, read

DESCRIBED = """\
Name:             llm-worker-{n}
Namespace:        ml
Node:             pool-{n}/10.0.0.{n}
Labels:           training.kubeflow.org/job-name=llm
                  training.kubeflow.org/replica-index={n}
                  training.kubeflow.org/replica-type=worker
Status:           {status}
Containers:
  sidecar:
    State:          Running
    Limits:
      memory:  1Gi
  pytorch:
    State:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Fri, 20 Nov 2026 09:59:00 +0000
      Finished:     Fri, 20 Nov 2026 10:02:41 +0000
    Last State:     Terminated
      Reason:       Error
      Exit Code:    1
      Finished:     Fri, 20 Nov 2026 09:58:41 +0000
    Limits:
      memory:          64Gi
      nvidia.com/gpu:  {gpus}
    Requests:
      memory:          32Gi
    Environment:
      MASTER_ADDR:  llm-master-0
      WORLD_SIZE:   3
Events:
  Type    Reason     Age   From               Message
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "labels": {"batch.kubernetes.io/job-completion-index": "3"},
        "name": "llm-3-x7k2p",
        "ownerReferences": [{"kind": "Job", "name": "llm"}],
    },
    "spec": {
        "containers": [
            {
                "env": [{"name": "WORLD_SIZE", "value": "4"}],
                "name": "trainer",
                "resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": "1"}, "requests": {"memory": "32Gi"}},
            }
        ],
        "nodeName": "pool-7",
    },
    "status": {
        "containerStatuses": [
            {
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-20T08:00:00Z", "reason": "Error"}},
                "name": "trainer",
                "state": {"terminated": {"exitCode": 137, "finishedAt": "2026-11-20T10:02:41Z", "reason": "OOMKilled"}},
            }
        ],
        "phase": "Failed",
    },
}
STEPS = "".join(f"2026-11-20 {{hour}}:02:{n:02},000 INFO step {n} loss {2 - n / 100:.3f}\n" for n in range(1, 41))


def run(folder: Path, name: str, text: str, hour: str = "10") -> Diagnosis:
    (folder / name).write_text(text)
    (folder / "train.log").write_text(STEPS.format(hour=hour))
    return analyse([str(folder)], Options(threads=1))


def described(n: int = 1, reason: str = "OOMKilled", code: int = 137, gpus: int = 1) -> str:
    status = "Failed" if code else "Succeeded"
    return DESCRIBED.format(n=n, reason=reason, code=code, gpus=gpus, status=status)


def test_a_described_pod(tmp_path: Path) -> None:
    root = run(tmp_path, "describe.txt", described()).findings[0]
    assert (root.name, root.ranks, root.node, root.step) == ("host-oom-cgroup", (2,), "pool-1", 40)
    assert root.time == "2026-11-20T10:02:41.000Z"
    assert root.captures["limit"] == "64Gi" and root.captures["pod"] == "llm-worker-1"
    assert root.notes[0] == (
        "pod llm-worker-1 on pool-1: container pytorch, OOMKilled, exit code 137, finished 2026-11-20 10:02:41 UTC, "
        "memory limit 64Gi"
    )


def test_of_several_pods_each_end_is_its_own(tmp_path: Path) -> None:
    text = "\n\n".join(described(n, *end) for n, end in enumerate([("Completed", 0), ("OOMKilled", 137), ("Error", 1)]))
    root = run(tmp_path, "pods.txt", text).findings[0]
    assert (root.name, root.ranks, root.node) == ("host-oom-cgroup", (2,), "pool-1")


def test_a_pod_of_several_gpus_is_no_single_rank(tmp_path: Path) -> None:
    root = run(tmp_path, "describe.txt", described(gpus=8)).findings[0]
    assert (root.ranks, root.node) == (None, "pool-1")


@pytest.mark.parametrize(
    ("env", "limits", "command", "ranks"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, {}, "python", (1,)),
        ({"RANK": "1"}, {}, "python", None),
        ({"RANK": "4", "WORLD_SIZE": "4"}, {}, "python", None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, {}, "torchrun", None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, {"amd.com/gpu": "8"}, "python", None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, {"nvidia.com/gpu": "8"}, "python", None),
    ],
)
def test_a_pod_without_devices_has_the_rank_of_its_setting(
    tmp_path: Path, env: dict[str, str], limits: dict[str, str], command: str, ranks: tuple[int, ...] | None
) -> None:
    container = {
        "command": [command, "train.py"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "name": "trainer",
        "resources": {"limits": {"memory": "64Gi", **limits}},
    }
    pod = {**POD, "metadata": {"name": "llm-0"}, "spec": {"containers": [container], "nodeName": "pool-7"}}
    root = run(tmp_path, "pod.json", json.dumps(pod, indent=1)).findings[0]
    assert (root.name, root.ranks, root.node) == ("host-oom-cgroup", ranks, "pool-7")


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("listed", [True, False])
def test_pods_as_json_and_yaml(tmp_path: Path, form: str, listed: bool) -> None:
    document = {"apiVersion": "v1", "items": [POD], "kind": "List"} if listed else POD
    text = json.dumps(document, indent=4) if form == "json" else as_yaml(document)
    root = run(tmp_path, f"pods.{form}", text).findings[0]
    assert (root.name, root.ranks, root.node) == ("host-oom-cgroup", (3,), "pool-7")
    assert root.time == "2026-11-20T10:02:41.000Z"
    assert "container trainer, OOMKilled, exit code 137" in root.notes[0] and "memory limit 64Gi" in root.notes[0]


def as_yaml(value: object, indent: int = 0) -> str:
    """As kubectl prints it: items of lists stand at the indentation of their key."""
    pad, lines = " " * indent, ""
    assert isinstance(value, dict)
    for key, inner in value.items():
        if isinstance(inner, dict):
            lines += f"{pad}{key}:\n{as_yaml(inner, indent + 2)}"
        elif isinstance(inner, list):
            items = [as_yaml(one, indent + 2) for one in inner]
            lines += f"{pad}{key}:\n" + "".join(f"{pad}- {item[indent + 2 :]}" for item in items)
        else:
            lines += (
                f"{pad}{key}: {json.dumps(inner) if str(inner)[:1].isdigit() and isinstance(inner, str) else inner}\n"
            )
    return lines


@pytest.mark.parametrize("hour", ["18", "05"])
def test_a_log_of_another_zone_takes_no_time_from_the_pod(tmp_path: Path, hour: str) -> None:
    root = run(tmp_path, "describe.txt", described(), hour).findings[0]
    assert (root.name, root.step, root.time) == ("host-oom-cgroup", 40, None)
    assert "finished 2026-11-20 10:02:41 UTC" in root.notes[0]


def test_rows_of_events_name_pod_or_node(tmp_path: Path) -> None:
    row = (
        "2m   Warning   Evicted   pod/llm-worker-1   The node was low on resource: memory. Threshold quantity: 100Mi\n"
    )
    root = run(tmp_path, "events.txt", "LAST SEEN TYPE REASON OBJECT MESSAGE\n" + row).findings[0]
    assert (root.name, root.captures["pod"]) == ("pod-evicted", "llm-worker-1")


EVENTS = """\
LAST SEEN   TYPE      REASON      OBJECT             MESSAGE
42m         Normal    Scheduled   pod/llm-worker-2   Successfully assigned ml/llm-worker-2 to pool-9.example.internal
41m         Normal    Scheduled   pod/llm-worker-3   Successfully assigned llm-worker-3 to pool-3
3m10s       Warning   Evicted     pod/llm-worker-{n}   The node was low on resource: ephemeral-storage.
"""


def test_events_say_where_a_pod_ran(tmp_path: Path) -> None:
    root = run(tmp_path, "events.txt", EVENTS.format(n=2)).findings[0]
    assert (root.name, root.node, root.captures["pod"]) == ("pod-evicted", "pool-9.example.internal", "llm-worker-2")
    assert root.notes[0] == "pod llm-worker-2 on pool-9.example.internal"


def test_a_pod_that_was_moved_or_never_placed_has_no_node(tmp_path: Path) -> None:
    again = "2m   Normal   Scheduled   pod/llm-worker-2   Successfully assigned ml/llm-worker-2 to pool-4\n"
    assert assigned(EVENTS) == {"llm-worker-2": "pool-9.example.internal", "llm-worker-3": "pool-3"}
    assert assigned(EVENTS + again) == {"llm-worker-3": "pool-3"}
    assert run(tmp_path, "events.txt", EVENTS.format(n=5)).findings[0].node is None


@pytest.mark.parametrize(("phase", "verdict"), [("Succeeded", Verdict.HEALTHY), ("Failed", Verdict.FAILED)])
def test_what_a_pod_that_succeeded_had_to_start_again_is_context(tmp_path: Path, phase: str, verdict: Verdict) -> None:
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {2 - n / 100}\n" for n in range(1, 40)))
    (tmp_path / "describe.txt").write_text(
        f"Name:         job-0\nNode:         n1/10.0.0.1\nStatus:       {phase}\nContainers:\n  shipper:\n"
        "    State:          Terminated\n      Reason:       Completed\n      Exit Code:    0\n"
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
    )
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.verdict is verdict
    role = Role.CONTEXT if verdict is Verdict.HEALTHY else Role.ROOT
    assert "host-oom-cgroup" in [f.name for f in found.of_role(role)]


def test_a_pod_that_ended_well_is_no_trouble(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        "describe.txt",
        described(reason="Completed", code=0).replace(
            "Error\n      Exit Code:    1", "Completed\n      Exit Code:    0"
        ),
    )
    assert found.verdict.value == "healthy"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from(list('kind: PodNametusC-{}[]"\n ')), max_size=300), st.integers(0, 700))
def test_no_text_breaks_it(text: str, cut: int) -> None:
    read(text)
    read(json.dumps(POD, indent=2)[:cut] + text)
    read(described()[:cut] + text)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "name", "containers", "containerStatuses", "state"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(0, 700))
def test_no_object_in_one_line_breaks_it(value: object, cut: int) -> None:
    read(json.dumps({"a": value, "kind": "Pod", "spec": value}))
    read(json.dumps(POD)[:cut] + "}")
    read('{"kind": "Pod", "a": ' + "[" * 5000 + "]" * 5000 + "}")


def test_a_pod_in_one_line_is_read_as_one_in_many() -> None:
    many, one = read(json.dumps(POD, indent=2)), read("\n" + json.dumps(POD, separators=(",", ":")))
    assert [(p.name, p.node, p.labels) for p in one] == [(p.name, p.node, p.labels) for p in many]
    ends = [{(2, e.reason, e.code) for p in pods for e in p.ends} for pods in (one, many)]
    assert ends[0] == ends[1] and {e.first for p in one for e in p.ends} == {2}


def _of_api(n: int, code: int | None) -> dict[str, object]:
    state: dict[str, object] = {"running": {"startedAt": "2026-11-20T09:58:41Z"}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "reason": "OOMKilled" if code == 137 else "Completed"}}
    return {
        "kind": "Pod",
        "metadata": {"name": f"llm-worker-{n}"},
        "spec": {"nodeName": f"pool-{n}"},
        "status": {"containerStatuses": [{"name": "pytorch", "state": state}]},
    }


@pytest.mark.parametrize(("codes", "node"), [([None, 137, 0], "pool-1"), ([137, 137, None], None)])
def test_of_several_pods_in_one_line_the_only_one_that_failed(
    tmp_path: Path, codes: list[int | None], node: str | None
) -> None:
    listed = {"kind": "List", "items": [_of_api(n, code) for n, code in enumerate(codes)]}
    (tmp_path / "pods.json").write_text(json.dumps(listed) + "\n")
    root = analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)[0]
    assert (root.name, root.node) == ("host-oom-cgroup", node)
