"""What a host or a cluster says of other jobs, pods, nodes and containers than the run's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.model import (
    BYSTANDER,
    UNTIED,
    Diagnosis,
    Evidence,
    Fact,
    Identity,
    Kind,
    Observation,
    Role,
    Source,
    Verdict,
)
from forensics.parsers import run_pods
from forensics.parsers.bystanders import marked

STEPS = "".join(f"2026-05-14 10:00:{n:02},000 INFO step {n} loss {2 - n / 100:.3f}\n" for n in range(30))
RAISED = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 7, in <module>\n    f(x)\n'
    '  File "/app/train.py", line 3, in f\n    return names[x]\nKeyError: 1004\n'
)
MEMCG = (
    "[Thu May 14 10:00:05 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
    "oom_memcg=/system.slice/slurmstepd.scope/job_{job}/step_0/user,task_memcg=/system.slice/slurmstepd.scope/"
    "job_{job}/step_0/user/task_0,task=python3,pid=77001,uid=5002\n"
    "[Thu May 14 10:00:05 2026] Memory cgroup out of memory: Killed process 77001 (python3) total-vm:98000000kB, "
    "anon-rss:67000000kB, file-rss:48492kB, shmem-rss:0kB, UID:5002 pgtables:146875kB oom_score_adj:0\n"
)
SECONDS = (
    "[12345.678901] Memory cgroup out of memory: Killed process 77001 (python3) total-vm:98000000kB, "
    "anon-rss:67000000kB, file-rss:48492kB, shmem-rss:0kB, UID:5002 pgtables:146875kB oom_score_adj:0\n"
)
SLURMD = (
    "[2026-05-14T10:00:31.103] [{job}.batch] error: Detected 1 oom_kill event in StepId={job}.batch. "
    "Some of the step tasks have been OOM Killed.\n"
)
SCHEDULED = "".join(
    f"44m   Normal   Scheduled   pod/llm-worker-{n}   Successfully assigned ml/llm-worker-{n} to gpu-{n + 7}\n"
    for n in range(2)
)
PULLED = "44m   Normal   Pulled   pod/sft-gpu-0-1-x7k2p   Container image already present on machine\n"
HEAD = "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n"
EVICTED = "14m   Warning   Evicted   pod/{pod}   The node was low on resource: memory. Threshold quantity: 100Mi\n"
PODS = (
    "NAME             READY   STATUS      RESTARTS   AGE   IP         NODE    NOMINATED NODE   READINESS GATES\n"
    "eval-mmlu-0      0/1     OOMKilled   0          31m   10.4.0.5   gpu-2   <none>           <none>\n"
    "llm-worker-1     0/1     Error       0          44m   10.4.1.8   gpu-8   <none>           <none>\n"
)
CONTAINERS = (
    "CONTAINER ID   IMAGE          COMMAND             CREATED        STATUS                     PORTS     NAMES\n"
    '0a1b2c3d4e5f   train:1.0      "python train.py"   2 hours ago    Exited (1) 3 minutes ago             sft-run\n'
    '77aa88bb99cc   serve:0.9      "serve"             3 hours ago    Exited (137) 2 hours ago             {name}\n'
)


def diagnosed(folder: Path, log: str, listing: str, name: str = "host.txt", text: str = STEPS + RAISED) -> Diagnosis:
    (folder / log).write_text(text)
    (folder / name).write_text(listing)
    return analyse([str(folder)])


def roots(found: Diagnosis) -> list[str]:
    return [f.name for f in found.of_role(Role.ROOT)]


@pytest.mark.parametrize(
    ("log", "listing", "sign"),
    [
        ("slurm-4711.out", MEMCG.format(job=9990), "host-oom-cgroup"),
        ("slurm-4711.out", SLURMD.format(job=9990), "host-oom-cgroup"),
        ("llm-worker-1.log", HEAD + EVICTED.format(pod="notebook-0") + SCHEDULED, "pod-evicted"),
        ("llm-worker-1.log", PODS, "host-oom-cgroup"),
        ("sft-run.log", CONTAINERS.format(name="serve-old"), "sigkill-unknown-sender"),
    ],
    ids=["kernel", "slurmd", "events", "pods", "containers"],
)
def test_what_happened_to_others_is_context(tmp_path: Path, log: str, listing: str, sign: str) -> None:
    found = diagnosed(tmp_path, log, listing)
    assert roots(found) == ["python-exception"]
    (context,) = [f for f in found.findings if f.name == sign]
    assert context.role is Role.CONTEXT and BYSTANDER in context.captures


@pytest.mark.parametrize(
    ("log", "listing", "sign"),
    [
        ("slurm-4711.out", MEMCG.format(job=4711), "host-oom-cgroup"),
        ("slurm-4711_3.out", MEMCG.format(job=4714), "host-oom-cgroup"),  # a task's own number is not the array's
        ("train.log", MEMCG.format(job=9990), "host-oom-cgroup"),  # the run's job is not known
        ("slurm-4711.out", SLURMD.format(job=4711), "host-oom-cgroup"),
        ("slurm-4711.out", SECONDS, "host-oom-cgroup"),  # seconds since boot are no job and step
        ("llm-worker-1.log", HEAD + EVICTED.format(pod="llm-worker-2") + SCHEDULED, "pod-evicted"),
        ("llm-worker-1.log", HEAD + EVICTED.format(pod="llm-master-0") + SCHEDULED, "pod-evicted"),
        # Parts of a JobSet, of which one left a log
        ("sft-gpu-0-1-x7k2p.log", HEAD + EVICTED.format(pod="sft-gpu-1-0-b8m4q") + PULLED, "pod-evicted"),
        ("gpu-8.log", HEAD + EVICTED.format(pod="llm-worker-1") + SCHEDULED, "pod-evicted"),  # a node's name
        ("train.log", CONTAINERS.format(name="sft-run2"), "sigkill-unknown-sender"),
    ],
)
def test_what_may_be_the_runs_own_stays(tmp_path: Path, log: str, listing: str, sign: str) -> None:
    found = diagnosed(tmp_path, log, listing, text=STEPS)
    assert roots(found) == [sign]


def test_a_kill_that_the_launcher_saw_may_be_of_any_number(tmp_path: Path) -> None:
    killed = "srun: error: n17: task 3: Exited with exit code 137\n"
    found = diagnosed(tmp_path, "slurm-4711.out", MEMCG.format(job=4712), text=STEPS + killed)
    assert "host-oom-cgroup" in roots(found)


@pytest.mark.parametrize(
    ("log", "own", "job"),
    [
        ("slurm-4711.out", "", 9990),
        ("slurm-4711.out", "", 4710),  # no component of a heterogeneous job: these follow
        ("train.log", "srun: Terminating StepId=4711.0\n", 9990),
        ("train.log", "slurmstepd: error: *** STEP 4711.0 ON n17 CANCELLED AT 2026-05-14T10:00:31 ***\n", 9990),
    ],
)
def test_a_kill_in_another_jobs_group_explains_none_of_the_runs(tmp_path: Path, log: str, own: str, job: int) -> None:
    killed = "srun: error: n17: task 3: Killed\n"
    found = diagnosed(tmp_path, log, MEMCG.format(job=job), text=STEPS + killed + own)
    assert roots(found) == ["sigkill-unknown-sender"]
    (context,) = [f for f in found.findings if f.name == "host-oom-cgroup"]
    assert context.role is Role.CONTEXT and context.captures[BYSTANDER] == f"job {job}"


def test_a_step_that_a_host_tells_of_is_not_the_runs_own_word(tmp_path: Path) -> None:
    told = "May 14 10:00:31 n17 slurmstepd[811]: error: *** STEP 4711.0 ON n17 CANCELLED AT 2026-05-14T10:00:31 ***\n"
    (tmp_path / "messages").write_text(told)
    killed = "srun: error: n17: task 3: Killed\n"
    found = diagnosed(tmp_path, "train.log", MEMCG.format(job=9990), text=STEPS + killed)
    assert "host-oom-cgroup" in roots(found)


def test_a_node_counts_where_every_pod_of_the_run_is_placed(tmp_path: Path) -> None:
    kill = "12m   Warning   OOMKilling   node/{node}   Memory cgroup out of memory: Killed process 7 (python3)\n"
    pending = "44m   Normal   Pulled   pod/llm-worker-2   Container image already present on machine\n"
    for n, (node, more, foreign) in enumerate([("gpu-3", "", True), ("gpu-8", "", False), ("gpu-3", pending, False)]):
        folder = tmp_path / str(n)
        folder.mkdir()
        found = diagnosed(folder, "llm-worker-1.log", HEAD + kill.format(node=node) + SCHEDULED + more)
        (sign,) = [f for f in found.findings if f.name == "host-oom-cgroup"]
        assert (sign.captures.get(BYSTANDER) == f"node {node}") is foreign


def test_of_one_sign_of_the_run_and_of_others_the_runs_own_is_left(tmp_path: Path) -> None:
    listing = HEAD + EVICTED.format(pod="notebook-0") + EVICTED.format(pod="llm-worker-1") + SCHEDULED
    (root,) = diagnosed(tmp_path, "llm-worker-1.log", listing, text=STEPS).of_role(Role.ROOT)
    assert (root.name, root.captures["pod"], root.count) == ("pod-evicted", "llm-worker-1", 1)


@pytest.mark.parametrize(
    ("log", "pod"),
    [("train-worker-0.log", "llama-gpu-2"), ("run-trainer-1.log", "gpt-0"), ("train.log", "notebook-0")],
)
def test_what_a_file_is_called_ties_no_pod_to_the_run_and_excludes_none(tmp_path: Path, log: str, pod: str) -> None:
    found = diagnosed(tmp_path, log, HEAD + EVICTED.format(pod=pod), text=STEPS)
    (sign,) = [f for f in found.findings if f.name == "pod-evicted"]
    assert BYSTANDER not in sign.captures and sign.captures[UNTIED] == pod
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("pod", ["gpt-node-0-0-x7k2p", "ft-head-0", "llama-ps-0"])
def test_the_only_pods_of_a_list_are_the_runs_if_they_train(tmp_path: Path, pod: str) -> None:
    (root,) = diagnosed(tmp_path, "train.log", HEAD + EVICTED.format(pod=pod), text=STEPS).of_role(Role.ROOT)
    assert root.name == "pod-evicted"


@pytest.mark.parametrize(("name", "own"), [("llm-worker-0", True), ("trainer-0", False), ("gpu-7", False)])
def test_a_variable_names_a_pod_where_no_host_is_called_so(tmp_path: Path, name: str, own: bool) -> None:
    (tmp_path / "a.log").write_text(f"HOSTNAME={name}\n")
    named = run_pods.named_in(Source("a.log", tmp_path / "a.log", Kind.LOG, 1))
    assert named == (frozenset((name,)) if own else frozenset())


LINES = st.one_of(
    st.text(max_size=60),
    st.sampled_from([*PODS.splitlines(), *CONTAINERS.splitlines(), *SCHEDULED.splitlines(), EVICTED, SLURMD]),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=8), st.sampled_from(["slurm-1.out", "llm-worker-1.log", "sft-run.log"]))
def test_any_lines_keep_their_order_and_gain_one_capture_at_most(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], log: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "listing.txt"
    file.write_text("\n".join(lines), errors="replace")
    sources = [Source("listing.txt", file, Kind.LOG, 1), Source(log, file, Kind.LOG, 1)]
    signs = [
        Observation(
            signature=f"s{n}",
            weight=0.9,
            evidence=(Evidence("listing.txt", n + 1, 0, line),),
            identity=Identity(),
            captures={"pod": line.split()[0]} if line.split() and "0/1" in line else {},
        )
        for n, line in enumerate(lines)
    ]
    found = marked(signs, sources, [Fact("env.SLURM_JOB_ID", "1", log, 1)])
    assert [o.signature for o in found] == [o.signature for o in signs]  # none of one signature: none is left out
    assert all(
        {k: v for k, v in o.captures.items() if k not in (BYSTANDER, UNTIED)} == s.captures
        for o, s in zip(found, signs, strict=True)
    )
    alone = marked(signs, sources[:1])
    assert alone == signs  # where nothing of the run is known, nothing is another's


QSTAT = "".join(
    f"Job Id: {job}.pbs-1\n    Job_Name = train\n    job_state = F\n    Exit_status = {status}\n\n"
    for job, status in ((4242, 0), (4243, 1), (4244, -29))
)
QSTAT_JSON = (
    '{\n    "timestamp":1795168800,\n    "Jobs":{\n'
    '        "4243.pbs-1":{\n            "Job_Name":"train",\n            "Exit_status":1\n        },\n'
    '        "4244.pbs-1":{\n            "Exit_status":265\n        }\n    }\n}\n'
)


@pytest.mark.parametrize("listing", [QSTAT, QSTAT_JSON])
@pytest.mark.parametrize("log", ["train.o4242", "train.log"])
def test_how_other_jobs_of_pbs_ended_is_context(tmp_path: Path, log: str, listing: str) -> None:
    found = diagnosed(tmp_path, log, listing, name="qstat.txt", text=f"{STEPS}Training finished.\n")
    assert (found.verdict, roots(found)) == (Verdict.HEALTHY, [])


@pytest.mark.parametrize(
    ("log", "listing", "name"),
    [
        ("train.o4244", QSTAT, "scheduler-time-limit"),
        ("train.e4244", QSTAT_JSON, "sigkill-unknown-sender"),
        ("train.log", "Job: 4244.pbs-1\n\n05/14/2026 10:00:36  S    Exit_status=-29 resources_used.mem=1kb\n",
         "scheduler-time-limit"),
    ],
)  # fmt: skip
def test_how_the_runs_own_job_of_pbs_ended(tmp_path: Path, log: str, listing: str, name: str) -> None:
    assert roots(diagnosed(tmp_path, log, listing, name="qstat.txt", text=STEPS)) == [name]
