"""Kubernetes' events as objects, and rows of `kubectl get pods`: whose and when is what they tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Verdict
from forensics.parsers.kube_events import read

LOG = "".join(f"2026-11-20T10:{n // 12:02d}:{n % 12 * 5:02d}Z step {n} loss {5 - n / 100:.2f}\n" for n in range(1, 61))


def event(pod: str, reason: str, message: str, time: str, host: str | None = None, **more: object) -> dict[str, object]:
    """As kubectl prints it: keys by name, and null where an API of another age has a value."""
    return {
        "apiVersion": "v1",
        "count": 1,
        "eventTime": None,
        "firstTimestamp": "2026-11-20T09:00:00Z",
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": "ml"},
        "kind": "Event",
        "lastTimestamp": time,
        "message": message,
        "metadata": {"creationTimestamp": time, "name": f"{pod}.17f2", "namespace": "ml"},
        "reason": reason,
        "source": {"component": "kubelet"} | ({"host": host} if host else {}),
        "type": "Warning",
    } | more


OTHER = event("data-prep-0", "Pulled", "Container image already present", "2026-11-20T10:01:00Z", "gke-b-1")
EVICTED = event("llm-worker-1", "Evicted", "The node was low on resource: memory. ", "2026-11-20T10:05:02Z", "gke-a-2")


def written(items: list[dict[str, object]], form: str) -> str:
    if form == "lines":
        return "".join(f"{json.dumps(item, separators=(',', ':'))}\n" for item in items)
    listed = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    if form == "json":
        return json.dumps(listed, indent=4)
    yaml = pytest.importorskip("yaml")
    return str(yaml.safe_dump(listed))


def root_of(folder: Path) -> Finding:
    return analyse([str(folder)], Options(cache=False)).findings[0]


@pytest.mark.parametrize("form", ["json", "yaml", "lines"])
def test_an_event_is_of_its_pod_at_its_time(tmp_path: Path, form: str) -> None:
    (tmp_path / f"events.{form}").write_text(written([OTHER, EVICTED], form))
    for n in range(3):
        (tmp_path / f"llm-worker-{n}.log").write_text(f"[rank{n}]: up\n{LOG}")
    root = root_of(tmp_path)
    assert (root.name, root.ranks, root.node, root.step) == ("pod-evicted", (1,), "gke-a-2", 60)
    assert (root.time, root.captures["pod"]) == ("2026-11-20T10:05:02.000Z", "llm-worker-1")


@pytest.mark.parametrize(
    ("more", "time"),
    [
        ({"lastTimestamp": None, "firstTimestamp": None, "eventTime": "2026-11-20T10:04:00.5Z"}, "2026-11-20T10:04:00.5Z"),
        ({"series": {"count": 3, "lastObservedTime": "2026-11-20T10:06:00Z"}}, "2026-11-20T10:06:00Z"),
        ({}, "2026-11-20T10:05:02Z"),
    ],
    ids=["newer API", "series", "last of several"],
)  # fmt: skip
def test_the_time_at_which_an_event_was_seen_last(more: dict[str, object], time: str) -> None:
    (found,) = read(written([EVICTED | more], "json"))
    assert (found.time, found.name, found.kind, found.host) == (time, "llm-worker-1", "Pod", "gke-a-2")


def test_a_pod_that_made_way_for_another_and_its_successor(tmp_path: Path) -> None:
    gone = event("train-0-a", "Preempted", "Preempted by pod 1c2d on node gpu-node-2", "2026-11-20T10:05:02Z")
    (tmp_path / "events.json").write_text(written([gone], "json"))
    (tmp_path / "train-0-a.log").write_text(LOG)
    later = "".join(f"2026-11-20T11:{n // 12:02d}:{n % 12 * 5:02d}Z step {n} loss 2.5\n" for n in range(51, 160))
    (tmp_path / "train-0-b.log").write_text(f"resuming from step 50\n{later}2026-11-20T11:20:00Z Training complete\n")
    found = analyse([str(tmp_path)], Options(cache=False))
    root = found.findings[0]
    assert (found.verdict, root.name, root.step) == (Verdict.RECOVERED, "preempted", 60)


@given(st.text(max_size=300), st.integers(0, 900))
def test_no_text_breaks_it(text: str, cut: int) -> None:
    read(text)
    read(written([EVICTED], "json")[:cut] + text)


ROWS = """\
NAME             READY   STATUS      RESTARTS      AGE   IP            NODE      NOMINATED NODE
llm-worker-0     0/1     Error       0             32m   10.1.0.4      gke-a-1   <none>
llm-worker-1     0/1     {status:<11} {restarts:<13} 32m   10.1.0.5      gke-a-2   <none>
llm-worker-2     0/1     Error       0             32m   10.1.0.6      gke-a-3   <none>
"""


@pytest.mark.parametrize("restarts", ["0", "3 (88s ago)"])
@pytest.mark.parametrize(
    ("status", "name"),
    [("OOMKilled", "host-oom-cgroup"), ("Evicted", "pod-evicted"), ("Init:OOMKilled", "host-oom-cgroup")],
)
def test_a_row_of_pods_is_of_the_rank_whose_log_bears_its_name(
    tmp_path: Path, status: str, name: str, restarts: str
) -> None:
    (tmp_path / "pods.txt").write_text(ROWS.format(status=status, restarts=restarts))
    for n in range(3):
        text = "".join(f"[rank {n}] step {s} loss {3 - s / 400:.3f}\n" for s in range(0, 300, 10))
        (tmp_path / f"llm-worker-{n}.log").write_text(text)
    root = root_of(tmp_path)
    assert (root.name, root.ranks, root.node, root.step) == (name, (1,), "gke-a-2", 290)


def test_rows_without_hosts_and_with_namespaces(tmp_path: Path) -> None:
    (tmp_path / "pods.txt").write_text(
        "NAMESPACE   NAME           READY   STATUS      RESTARTS   AGE\nml          llm-worker-1   0/1     OOMKilled   0          32m\n"
    )
    (tmp_path / "llm-worker-1.log").write_text("[rank 1] step 10 loss 2.9\n[rank 1] step 20 loss 2.8\n")
    (tmp_path / "llm-worker-0.log").write_text("[rank 0] step 10 loss 2.9\n[rank 0] step 20 loss 2.8\n")
    root = root_of(tmp_path)
    assert (root.name, root.ranks) == ("host-oom-cgroup", (1,))
    assert root.notes[0] == "pod llm-worker-1: OOMKilled"


def test_the_kubelet_reports_by_the_name_of_its_node(tmp_path: Path) -> None:
    about = "The node was low on resource: memory. "
    mine = event("llm-worker-1", "Evicted", about, "2026-11-20T10:05:02Z", reportingInstance="gke-a-2")
    other = event("data-0", "Killing", "x", "2026-11-20T10:05:02Z", reportingInstance="s-1", source={"component": "s"})
    (tmp_path / "events.json").write_text(written([mine, other], "json"))
    assert root_of(tmp_path).node == "gke-a-2"


@pytest.mark.parametrize("by", ["ml/other-0", "a pod", "pod 4c1c7a2e-0000-4000-8000-000000000000"])
@pytest.mark.parametrize("form", ["json", "row"])
def test_the_scheduler_names_the_node_on_which_a_pod_made_way(tmp_path: Path, by: str, form: str) -> None:
    said = f"Preempted by {by} on node gke-a-2"
    if form == "json":
        made = event(
            "llm-worker-1", "Preempted", said, "2026-11-20T10:05:02Z", source={"component": "default-scheduler"}
        )
        (tmp_path / "events.json").write_text(written([made], "json"))
    else:
        (tmp_path / "events.txt").write_text(f"5m   Normal   Preempted   pod/llm-worker-1   {said}\n")
    assert (root_of(tmp_path).name, root_of(tmp_path).node) == ("preempted", "gke-a-2")


def test_a_wide_row_has_the_node_of_its_kubelet(tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text(
        "LAST SEEN   TYPE      REASON    OBJECT             SUBOBJECT   SOURCE             MESSAGE\n"
        "5m          Warning   Evicted   pod/llm-worker-1               kubelet, gke-a-2   The node was low on resource: "
        "memory. Threshold quantity: 100Mi, available: 50Mi.   5m   1   llm-worker-1.17\n"
    )
    assert (root_of(tmp_path).name, root_of(tmp_path).node) == ("pod-evicted", "gke-a-2")
