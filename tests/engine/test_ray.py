"""Ray: a node that died is more than a worker that did, and Ray Train says whose error it quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Finding, Role, Verdict

STEPS = "".join(
    f"(RayTrainWorker pid=2211, ip=192.0.2.17) {{'loss': {2 - n / 100:.3f}, 'step': {n}}}\n" for n in range(0, 50, 10)
)
DIED = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: RayTrainWorker
\tactor_id: 4a3f0a1c7d2e
\tpid: 2211
\tnamespace: 8789b499
\tip: 192.0.2.17
The actor {what}
"""
NODE = "died because its node has died. Node Id: 8f2c1b7be0d5f9e1\n\tthe actor's node was {how}: {why}"
WORKER = "is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits"
HEADS = ["[Rank 3]", "[Rank 3]:", "[Rank 3 Error Snippet]:"]


def told(folder: Path, text: str) -> Diagnosis:
    (folder / "driver.log").write_text(STEPS + text)
    return analyse([str(folder)])


def root(diagnosis: Diagnosis) -> Finding:
    (found,) = diagnosis.of_role(Role.ROOT)
    return found


def worker_group(head: str, error: str) -> str:
    return f"ray.train.WorkerGroupError: Training failed due to worker errors:\n{head}\n{error}"


@pytest.mark.parametrize("head", HEADS)
def test_a_node_died_with_the_rank_on_it(tmp_path: Path, head: str) -> None:
    why = NODE.format(how="terminated unexpectedly", why="health check failed due to missing too many heartbeats")
    found = root(told(tmp_path, worker_group(head, DIED.format(what=why))))
    assert (found.name, found.ranks, found.node, found.step) == ("node-failure", (3,), "192.0.2.17", 40)


def test_several_ranks_of_one_error_are_no_single_one(tmp_path: Path) -> None:
    why = NODE.format(how="terminated unexpectedly", why="health check failed")
    found = root(told(tmp_path, worker_group("[Rank 2,3 Error Snippet]:", DIED.format(what=why))))
    assert (found.name, found.ranks, found.node) == ("node-failure", None, "192.0.2.17")


def test_a_worker_that_died_is_no_dead_node(tmp_path: Path) -> None:
    found = root(told(tmp_path, worker_group(HEADS[0], DIED.format(what=WORKER))))
    assert (found.name, found.ranks) == ("ray-worker-died", (3,))


def test_a_node_that_was_taken_away(tmp_path: Path) -> None:
    why = NODE.format(how="preempted", why="spot instance")
    diagnosis = told(tmp_path, worker_group(HEADS[0], DIED.format(what=why)))
    assert (root(diagnosis).name, diagnosis.verdict) == ("preempted", Verdict.INTERRUPTED)


def test_a_task_whose_node_died(tmp_path: Path) -> None:
    text = (
        "ray.exceptions.NodeDiedError: Task failed due to the node (where this task was running)  was dead or unavailable."
        "\n\nThe node IP: 192.0.2.44, node ID: 8f2c1b7be0d5f9e1\n\nThis can happen if the instance where the node was running failed"
    )
    found = root(told(tmp_path, text))
    assert (found.name, found.node) == ("node-failure", "192.0.2.44")


@pytest.mark.parametrize("head", HEADS)
def test_an_exception_is_of_the_rank_whose_error_is_quoted(tmp_path: Path, head: str) -> None:
    error = "ray.exceptions.RayTaskError(KeyError): ray::_RayTrainWorker__execute()\nKeyError: 'labels'\n"
    raised = 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in step\n    x = batch["labels"]\n'
    found = root(told(tmp_path, worker_group(head, raised + error)))
    assert found.ranks == (3,)


def test_what_bears_another_mark_is_not_of_the_quoted_rank(tmp_path: Path) -> None:
    text = worker_group(HEADS[2], "ValueError: an error\n")
    text += "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    found = next(f for f in told(tmp_path, text).findings if f.name == "cuda-oom")
    assert found.ranks == (1,)


def test_the_controllers_own_prefix_stands_before_head_and_error(tmp_path: Path) -> None:
    error = 'Traceback (most recent call last):\n  File "/app/t.py", line 4, in f\n    g()\ntorch.OutOfMemoryError: CUDA out of memory.'
    text = worker_group(HEADS[2], error + " Tried to allocate 2.00 GiB.\n")
    prefixed = "".join(f"(TrainController pid=88) {line}" for line in text.splitlines(keepends=True))
    found = root(told(tmp_path, prefixed))
    assert (found.name, found.ranks) == ("cuda-oom", (3,))


def test_a_worker_that_speaks_below_it_is_not_the_quoted_rank(tmp_path: Path) -> None:
    text = worker_group(HEADS[2], "ValueError: an error\n")
    text += "(RayTrainWorker pid=2212, ip=192.0.2.18) torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    found = next(f for f in told(tmp_path, text).findings if f.name == "cuda-oom")
    assert found.ranks is None


def test_a_rank_in_brackets_elsewhere_heads_no_error(tmp_path: Path) -> None:
    found = root(told(tmp_path, f"{HEADS[0]}\nRuntimeError: CUDA error: an illegal memory access was encountered\n"))
    assert found.ranks is None


WAITED = "The worker group startup timed out after 600.0 seconds waiting for 8 workers. Potential causes include: (1) temporary"
PENDING = "(autoscaler +{n}s) Error: No available node types can fulfill resource request {{'GPU': 8.0}}. Add suitable node types\n"


def test_what_the_cluster_could_not_give_is_the_cause(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/app/t.py", line 5, in <module>\n    trainer.fit()\n'
    error = f"ray.train.v2._internal.exceptions.WorkerGroupStartupTimeoutError: {WAITED}\n"
    (tmp_path / "driver.log").write_text(PENDING.format(n=14) + raised + error)
    assert root(analyse([str(tmp_path)])).name == "ray-resources-unavailable"


def test_trials_that_wait_for_their_turn_are_no_failure(tmp_path: Path) -> None:
    waiting = "".join(PENDING.format(n=14 + 35 * n) for n in range(5))
    assert told(tmp_path, waiting + STEPS + "Training completed\n").of_role(Role.ROOT) == ()


GROUP = "".join(f"(RayTrainWorker pid={{0}}{k}, ip=192.0.2.{k}) step: {{1}} loss: 2.{{2}}\n" for k in (2, 3))
ILLEGAL = "(RayTrainWorker pid=13, ip=192.0.2.3) " + "\n(RayTrainWorker pid=13, ip=192.0.2.3) ".join(
    (
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 10, in train',
        "    loss.backward()",
        "RuntimeError: CUDA error: an illegal memory access was encountered\n",
    )
)


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-28 10:00:00,123\tWARNING backend_executor.py:735 -- Failure identified during training. Restarting all "
        "workers and continuing training from latest checkpoint.\n",
        "2026-11-28 10:00:00,123\tINFO trainer.py:12 -- Restarting training worker group from latest checkpoint.\n",
        "(TrainController pid=9) Deciding to RETRY, since the failure count (1) <= the maximum failure count (3).\n",
        "(TrainController pid=9) [FailurePolicy] RETRY\n(TrainController pid=9)   Source: worker group\n",
    ],
)
@pytest.mark.parametrize(
    "started", ["", "(TrainController pid=9) Attempting to start training worker group of size 2 with 2 GPUs\n"]
)
def test_a_group_of_workers_that_was_started_again_has_recovered(tmp_path: Path, said: str, started: str) -> None:
    before = "".join(GROUP.format(1, n, 99 - n) for n in range(20))
    after = "".join(GROUP.format(2, n, 99 - n) for n in range(10, 40))
    (tmp_path / "driver.log").write_text(before + ILLEGAL + said + started + after)
    found = analyse([str(tmp_path)])
    assert (found.verdict, root(found).name) == (Verdict.RECOVERED, "cuda-illegal-memory-access")
    assert root(found).node == "192.0.2.3"


def test_a_policy_that_gives_up_starts_nothing_again(tmp_path: Path) -> None:
    before = "".join(GROUP.format(1, n, 99 - n) for n in range(20))
    found = told(tmp_path, before + ILLEGAL + "(TrainController pid=9) [FailurePolicy] RAISE\n")
    assert (found.verdict, root(found).name) == (Verdict.FAILED, "cuda-illegal-memory-access")


RAYLET = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    "problem, check the logs for the dead worker. Worker IP address: 192.0.2.17 Worker port: 10007 Worker PID: {pid} "
    "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2.\n"
)
CRASHED = "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.\n"
OOM = (
    "2026-08-10T10:01:01.123456+00:00 node-a kernel: Out of memory: Killed process {pid} ({name}) total-vm:98304000kB, "
    "anon-rss:64000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1200kB oom_score_adj:0\n"
)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize(
    ("worker", "killed", "name", "root"),
    [
        (1482211, 1482211, "ray::RayTrainWo", "host-oom"),
        (1482211, 1486711, "ray::IDLE", "ray-worker-died"),
        (1482211, 1486711, "java", "ray-worker-died"),
        (2211, 1486711, "java", "ray-worker-died"),
        (2211, 1486711, "ray::RayTrainWo", "host-oom"),  # counted anew in its container
    ],
)
def test_the_kernel_has_to_have_killed_the_worker_that_died(
    tmp_path: Path, worker: int, killed: int, name: str, root: str, block: bool
) -> None:
    (tmp_path / "kern.log").write_text(OOM.format(pid=killed, name=name))
    died = DIED.format(what=WORKER).replace("pid: 2211", f"pid: {worker}")
    found = told(tmp_path, died if block else CRASHED + RAYLET.format(pid=worker))
    assert [f.name for f in found.of_role(Role.ROOT)] == [root]
