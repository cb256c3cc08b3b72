"""Pods, processes, tasks and hosts that launchers and schedulers name, as ranks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.engine.whose import Hosts, path_names, processes
from forensics.model import Diagnosis, Evidence, Finding, Identity, Kind, Observation, Role, Source
from forensics.signatures.schema import Signature, load_catalogue

STEPS = "".join(f"2026-05-02 15:00:{i * 2:02d} step {i} loss {2.5 - i / 100:.3f}\n" for i in range(30))
KILLED = (
    "May  2 15:01:00 gpu-a01 kernel: [900060.000000] Out of memory: Killed process 2003 (python) total-vm:250000000kB, "
    "anon-rss:210000000kB, file-rss:90000kB, shmem-rss:20000kB, UID:1000 pgtables:410000kB oom_score_adj:0\n"
)
DESCRIBED = """Name:             trainer-worker-{n}
Namespace:        ml
Node:             ip-10-0-0-4/10.0.0.4
Status:           Failed
Containers:
  pytorch:
    State:          Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Finished:     Sat, 02 May 2026 15:00:59 +0000
    Limits:
      memory:          128Gi
"""


@cache
def catalogue() -> dict[str, Signature]:
    return load_catalogue()


def diagnose(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1), catalogue())


def root(diagnosis: Diagnosis) -> Finding:
    return diagnosis.of_role(Role.ROOT)[0]


def pods(ranks_each: int = 1, number: int = 3) -> dict[str, str]:
    return {
        f"pods/trainer-worker-{n}.log": "".join(
            f"RANK={n * ranks_each + i} WORLD_SIZE={number * ranks_each} LOCAL_RANK={i} HOSTNAME=trainer-worker-{n}\n"
            for i in range(ranks_each)
        )
        + STEPS
        for n in range(number)
    }


def test_a_pod_is_the_rank_that_its_log_names(tmp_path: Path) -> None:
    found = diagnose(tmp_path, pods() | {"describe.txt": DESCRIBED.format(n=2)})
    first = root(found)
    assert (first.name, first.ranks, first.node) == ("host-oom-cgroup", (2,), "ip-10-0-0-4")
    assert found.run.nodes == 3  # the node is where one of the pods runs


def test_a_pod_of_several_ranks_is_none_of_them(tmp_path: Path) -> None:
    found = diagnose(tmp_path, pods(ranks_each=2) | {"describe.txt": DESCRIBED.format(n=2)})
    assert (root(found).name, root(found).ranks) == ("host-oom-cgroup", None)


def test_a_pod_in_one_line_of_json(tmp_path: Path) -> None:
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-05-02T15:00:59Z"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "trainer-worker-1"},
        "spec": {"nodeName": "n7"},
        "status": {"containerStatuses": [{"name": "m", "state": state}]},
    }
    found = diagnose(tmp_path / "one", pods() | {"pods.json": json.dumps(pod) + "\n"})
    assert (root(found).ranks, root(found).node, root(found).time) == ((1,), "n7", "2026-05-02T15:00:59.000Z")
    # Two pods in one line: which of them it is of is not known.
    other = pod | {"metadata": {"name": "trainer-worker-0"}}
    both = diagnose(tmp_path / "two", pods() | {"pods.json": json.dumps({"items": [pod, other]}) + "\n"})
    assert root(both).ranks is None


def spawned(host: str = "gpu-a01", hosts: str = "'gpu-a01': [0, 1, 2, 3]") -> str:
    launch = f"{host}: [2026-05-02 15:00:00,100] [INFO] [launch.py:256:main]"
    return f"{launch} WORLD INFO DICT: {{{hosts}}}\n" + "".join(
        f"{launch} process {2000 + n} spawned with command: ['/opt/bin/python', '-u', 'train.py', '--local_rank={n}', "
        "'--deepspeed', 'ds.json']\n"
        for n in range(4)
    )


@pytest.mark.parametrize("prefixed", [False, True])
def test_deepspeeds_launcher_names_the_process_of_a_local_rank(tmp_path: Path, prefixed: bool) -> None:
    log = spawned() if prefixed else spawned().replace("gpu-a01: [2026", "[2026")
    found = diagnose(tmp_path, {"train.log": log + STEPS, "dmesg.txt": KILLED})
    assert (root(found).name, root(found).ranks) == ("host-oom", (3,))


def test_a_local_rank_of_an_unnamed_host_is_no_rank_of_two_hosts(tmp_path: Path) -> None:
    hosts = "'gpu-a01': [0, 1, 2, 3], 'gpu-a02': [0, 1, 2, 3]"
    log = spawned(hosts=hosts).replace("gpu-a01: [2026", "[2026")
    found = diagnose(tmp_path, {"train.log": log + STEPS, "dmesg.txt": KILLED})
    assert root(found).ranks is None


def test_the_worker_that_ray_killed_is_the_rank_that_its_prefix_and_line_name(tmp_path: Path) -> None:
    lines = "".join(
        f"(RayTrainWorker pid={8800 + r}, ip=10.0.0.{5 + r // 2}) [rank {r}] step {i} loss 2.1\n"
        for i in range(3)
        for r in range(4)
    )
    error = (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.{n}, ID: a1b2) where the task (actor ID: 77aa, name=RayTrainWorker, pid=8802, "
        "memory used=210.33GB) was running was 244.10GB / 251.00GB (0.97), which exceeds the memory usage threshold of "
        "0.95. Ray killed this worker (ID: ff00) because it was the most recently scheduled task;\n"
    )
    found = diagnose(tmp_path / "own", {"driver.log": lines + error.replace("{n}", "6")})
    assert (root(found).name, root(found).ranks) == ("host-oom-ray-monitor", (2,))
    other = diagnose(tmp_path / "other", {"driver.log": lines + error.replace("{n}", "5")})  # the number is of a host
    assert root(other).ranks is None


def test_a_host_that_went_down_takes_the_tasks_that_srun_lists(tmp_path: Path) -> None:
    logs = {
        f"logs/gpu-a0{n}.out": "".join(
            f"{r}: [rank{r}] host=gpu-a0{n} local_rank={r % 2} ready\n"
            + "".join(f"{r}: step {i} loss 2\n" for i in range(4))
            for r in (2 * n, 2 * n + 1)
        )
        for n in range(4)
    }
    srun = "srun: error: Node failure on gpu-a02\nsrun: error: gpu-a02: tasks 4-5: Killed\n"
    found = diagnose(tmp_path, logs | {"slurm-1.err": srun})
    first = root(found)
    assert (first.name, first.ranks, first.node, found.run.nodes) == ("node-failure", (4, 5), "gpu-a02", 4)


def seen(signature: str, identity: Identity, **captures: str) -> Observation:
    return Observation(
        signature=signature, weight=0.5, evidence=(Evidence("a", 1, 0, "x"),), identity=identity, captures=captures
    )


def test_a_process_that_two_ranks_claim_is_none_of_theirs() -> None:
    lines = [seen("process-seen", Identity(rank=r, node="n", pid=7)) for r in (1, 2)]
    lines.append(seen("process-seen", Identity(rank=3, node="n", pid=8)))
    assert processes(lines, {}) == {("n", 8): 3}


def test_all_ranks_of_a_host_only_where_none_is_missing() -> None:
    def source(node: str, rank: int) -> Source:
        return Source(f"{node}/{rank}.log", Path(), Kind.LOG, 1, Identity(node=node, rank=rank))

    four = [source(node, rank) for rank, node in enumerate(("a", "a", "b", "b"))]
    assert Hosts(four, [], False).all_ranks("b", 4) == (2, 3)
    assert Hosts(four[:3], [], False).all_ranks("b", 4) == ()
    assert Hosts(four, [], False).all_ranks("b", 8) == ()
    assert Hosts(four, [], False).of_pod("a") is None


def test_what_a_file_may_be_named_after() -> None:
    assert path_names("logs/trainer-2_pytorch.log") == {"logs", "trainer-2"}
