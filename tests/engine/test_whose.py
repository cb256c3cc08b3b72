"""Whose failure it was: layouts of launchers, from small run folders to rank, node and step."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine import pipeline, reading, whose
from forensics.engine.matcher import Matcher
from forensics.model import Evidence, Finding, Identity, Observation, Role
from forensics.run import discover
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)

VALUE = """Traceback (most recent call last):
  File "/app/train.py", line 388, in <module>
    main()
  File "/app/train.py", line 91, in parse
    row = float(text)
ValueError: could not convert string to float: '3.1x'"""
STEPS = "\n".join(f"2026-03-14 10:{n:02d}:00 INFO step {n} loss {4 - n / 50:.3f} lr 3.0e-04" for n in range(1, 31))


def oom(device: int) -> str:
    return VALUE.rpartition("\n")[0] + (
        "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. "
        f"GPU {device} has a total capacity of 79.15 GiB of which 1.02 GiB is free."
    )


def row(rank: int, local: int, code: int, number: int, host: str = "node-0", traceback: str = "<none>") -> str:
    return (
        f"[{number}]:\n  time      : 2026-03-14_10:40:00\n  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {4100 + local})\n"
        f"  error_file: <N/A>\n  traceback : {traceback}"
    )


def root(folder: Path, files: dict[str, str]) -> Finding:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
    run = discover([str(folder)], reading.sniffers())
    diagnosis = pipeline.explain(reading.read(run, MATCHER, pipeline.Options(threads=1)), CATALOGUE)
    found = diagnosis.of_role(Role.ROOT)
    assert found, diagnosis.summary
    return found[0]


def prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


def test_local_ranks_of_two_hosts_by_the_rendezvous(tmp_path: Path) -> None:
    files = {
        f"node-{n}/agent.log": f"[default] Rendezvous complete for workers. Result:\n  local_ranks=[0, 1]\n"
        f"  global_ranks=[{2 - 2 * n}, {3 - 2 * n}]"
        for n in range(2)
    }
    files |= {f"node-{n}/r/attempt_0/{i}/stdout.log": STEPS for n in range(2) for i in range(2)}
    found = root(tmp_path, files | {"node-1/r/attempt_0/0/stderr.log": VALUE})
    assert (found.ranks, found.node, found.step) == ((0,), "node-1", 30)


def test_local_ranks_of_two_hosts_without_a_mapping_are_no_ranks(tmp_path: Path) -> None:
    files = {f"node-{n}/r/attempt_0/{i}/stdout.log": STEPS for n in range(2) for i in range(2)}
    found = root(tmp_path, files | {"node-1/r/attempt_0/1/stderr.log": VALUE})
    assert (found.ranks, found.local_ranks, found.node) == (None, (1,), "node-1")


@pytest.mark.parametrize(
    "mapping",
    [
        "[INFO] [launch.py:162:main] global_rank_mapping=defaultdict(<class 'list'>, "
        "{'node-0': [0, 1, 2, 3], 'node-1': [4, 5, 6, 7]})",
        "[INFO] [launch.py:145:main] WORLD INFO DICT: {'node-0': [0, 1, 2, 3], 'node-1': [0, 1, 2, 3]}",
    ],
)
def test_device_of_a_host_that_deepspeed_maps(tmp_path: Path, mapping: str) -> None:
    text = prefixed("node-0: ", f"{mapping}\n{STEPS}") + "\n" + prefixed("node-1: ", oom(2))
    found = root(tmp_path, {"run.log": text})
    assert (found.ranks, found.node) == ((6,), "node-1")


def test_ray_maps_pids(tmp_path: Path) -> None:
    lines = [
        f"(TorchTrainer pid=2000) - (node_id=ab{n}, ip=10.0.0.{n}, pid=310{i}) "
        f"world_rank={n * 2 + i}, local_rank={i}, node_rank={n}"
        for n in range(2)
        for i in range(2)
    ]
    worker = prefixed("(RayTrainWorker pid=3100, ip=10.0.0.1) ", oom(0))
    found = root(tmp_path, {"driver.log": "\n".join(lines) + "\n" + worker})
    assert (found.ranks, found.node) == ((2,), "10.0.0.1")


def test_ray_says_which_actor_raised(tmp_path: Path) -> None:
    text = (
        "(Worker pid=11) Exception in creation task: ray::Worker.__init__() (pid=11, ip=10.0.0.2, repr=Worker[rank=0])\n"
        'Traceback (most recent call last):\n  File "run.py", line 150, in <module>\n    main()\n'
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.train() (pid=13, ip=10.0.0.2, repr=Worker[rank=2])\n"
        '  File "/app/worker.py", line 566, in train\n    loss.backward()\n' + oom(0).rpartition("\n")[2]
    )
    assert root(tmp_path, {"driver.log": text}).ranks == (2,)


def test_a_file_is_the_rank_that_announced_itself(tmp_path: Path) -> None:
    files = {
        f"proc-{name}.log": f"Initializing distributed: GLOBAL_RANK: {n}, MEMBER: {n + 1}/3\n{STEPS}"
        for n, name in enumerate("zyx")
    }
    files["proc-z.log"] += "\n" + VALUE
    assert root(tmp_path, files).ranks == (0,)


@pytest.mark.parametrize(("ranks", "world"), [((0, 8), 16), ((0,), 4), ((3, 5), 8)])
def test_one_announcement_of_a_host_makes_nothing_its_own(tmp_path: Path, ranks: tuple[int, ...], world: int) -> None:
    files = {f"out-{r}x.log": f"init process group rank={r} world_size={world}\n{STEPS}" for r in ranks}
    last = list(files)[-1]
    assert root(tmp_path, files | {last: files[last] + "\n" + VALUE}).ranks is None


def test_one_task_a_host_is_no_rank(tmp_path: Path) -> None:
    init = "node-0:70:71 [0] NCCL INFO comm 0x55f0 rank 0 nranks 16 cudaDev 0 busId 1b000 - Init COMPLETE"
    text = f"0: {init}\n" + "\n".join(f"{t}: {line}" for line in STEPS.split("\n") for t in range(2))
    found = root(tmp_path, {"slurm-1.out": text + "\n" + prefixed("1: ", oom(3))})
    assert (found.ranks, found.devices) == (None, (3,))


def test_as_many_tasks_as_ranks_are_ranks(tmp_path: Path) -> None:
    files = {f"slurm-1_{t}.out": f"ready on node-{t // 2}, world size: 4\n{STEPS}" for t in range(4)}
    files["slurm-1_2.out"] += "\n" + oom(0)
    assert root(tmp_path, files).ranks == (2,)


def test_composer_repeats_the_output_of_a_rank(tmp_path: Path) -> None:
    text = f"{STEPS}\n----------Begin global rank 3 STDERR----------\n{VALUE}\n----------End global rank 3 STDERR----------"
    assert root(tmp_path, {"run.log": text + "\nERROR:composer.cli.launcher:Global rank 0 exited"}).ranks == (3,)


def test_the_only_worker_that_raised_printed_the_only_traceback(tmp_path: Path) -> None:
    table = "\n".join(["Failures:", row(0, 0, -6, 1), row(3, 3, 1, 0)])
    assert root(tmp_path, {"out.log": f"{STEPS}\n{VALUE}\n{table}"}).ranks == (3,)


def test_two_workers_that_raised_leave_a_traceback_to_nobody(tmp_path: Path) -> None:
    table = "\n".join(["Failures:", row(0, 0, 1, 1), row(3, 3, 1, 0)])
    assert root(tmp_path, {"out.log": f"{STEPS}\n{VALUE}\n{table}"}).ranks is None


def test_a_device_contradicts_the_table(tmp_path: Path) -> None:
    table = "\n".join(["Failures:", row(1, 1, -6, 1), row(3, 3, 1, 0)])
    assert root(tmp_path, {"out.log": f"{STEPS}\n{oom(2)}\n{table}"}).ranks == (3,)


def test_a_traceback_in_a_row_is_that_workers(tmp_path: Path) -> None:
    inside = VALUE.replace("\n", "\n  ")
    table = "\n".join(["Failures:", row(0, 0, -15, 1), row(2, 2, 1, 0, traceback=inside)])
    found = root(tmp_path, {"out.log": f"{STEPS}\n{table}"})
    assert (found.name, found.ranks) == ("python-exception", (2,))


def test_a_logger_names_the_process_above_the_traceback(tmp_path: Path) -> None:
    lines = [f"2026-03-14 10:00:{n:02d} | INFO | rank={n % 4} | step={n // 4} | loss=3.{n}" for n in range(40)]
    text = "\n".join(lines) + "\n2026-03-14 10:01:00 | ERROR | rank=3 | unhandled exception\n" + VALUE
    assert root(tmp_path, {"all.log": text}).ranks == (3,)


def test_the_host_of_a_kernel_line_finds_the_pid(tmp_path: Path) -> None:
    files = {
        f"node-{n}.log": "\n".join(
            f"node-{n}:{50 + i}:9{i} [{i}] NCCL INFO comm 0x55f0 rank {n * 2 + i} nranks 4 cudaDev {i} busId {i}b000 - Init"
            for i in range(2)
        )
        + "\n"
        + STEPS
        for n in range(2)
    }
    files["kern.log"] = "Mar 14 10:31:00 node-1 kernel: Out of memory: Killed process 51 (python) total-vm:412345678kB"
    found = root(tmp_path, files)
    assert (found.name, found.ranks, found.node) == ("host-oom", (3,), "node-1")


def test_an_old_stamp_above_a_traceback_is_not_its_time(tmp_path: Path) -> None:
    files = {f"rank{r}.out": STEPS for r in range(4)}
    files |= {f"rank{r}.err": "2026-03-14 10:00:00 WARNING slow tokenizer in use" for r in range(4)}
    files["rank2.err"] += "\n" + VALUE
    found = root(tmp_path, files)
    assert (found.ranks, found.step) == ((2,), 30)


def test_the_step_is_the_culprits_own(tmp_path: Path) -> None:
    short = "\n".join(STEPS.split("\n")[:11])
    lines = "[rank{}]:[E314 10:50:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600043 milliseconds before timing out."
    files = {f"rank{r}.log": STEPS + "\n" + lines.format(r, r) for r in (0, 1, 3)} | {"rank2.log": short}
    found = root(tmp_path, files)
    assert (found.ranks, found.step) == ((2,), 11)


def mapping(line: int, node: str | None = None, **captures: str) -> Observation:
    return Observation(
        signature=whose.MAPPING,
        weight=1,
        evidence=(Evidence("a.log", line, 0, ""),),
        identity=Identity(node=node),
        captures=captures,
    )


def test_hostile_mappings_map_nothing() -> None:
    for text in ("'a': [0, -1]", "'a': ['x']", "'a': __import__('os')", "[" * 5000, "'a': [True]", "**{}"):
        assert whose.local_ranks([mapping(1, node_ranks=text), mapping(2, node_devices=text)]) == {}


def test_accelerates_two_lines_belong_together_only_side_by_side() -> None:
    together = [mapping(5, process_index="7"), mapping(6, local_process_index="3")]
    assert whose.local_ranks(together) == {(None, 3): 7}
    assert whose.local_ranks([mapping(5, process_index="7"), mapping(8, local_process_index="3")]) == {}


def test_nameless_hosts_with_different_ranks_map_nothing() -> None:
    lists = [mapping(1, global_ranks="0, 1"), mapping(9, global_ranks="2, 3")]
    assert whose.local_ranks(lists) == {}


def test_a_local_rank_between_known_ones_of_its_host() -> None:
    known: dict[tuple[str | None, int], int] = {("node-1", 1): 9, ("node-1", 2): 10, ("node-2", 0): 16}
    seen = [("node-1", 0), ("node-2", 3), (None, 4), ("node-1", 2)]
    assert whose.neighbours(known, seen) == {("node-1", 0): 8}
    assert whose.neighbours({("node-1", 1): 9, ("node-1", 2): 11}, [("node-1", 0)]) == {}


WARNS = "gpu-a01:{pid}:200 [{device}] NCCL WARN Cuda failure 2 'out of memory'\n"
RANKS = "".join(f"[rank{r}]: step {s} loss 2.{s}\n" for s in range(1, 9) for r in range(4))


@pytest.mark.parametrize(
    ("text", "ranks", "devices"),
    [
        pytest.param(WARNS.format(pid=100, device=0), None, (0,), id="no rank is known"),
        pytest.param(WARNS.format(pid=100, device=3), (3,), None, id="a process that sees several"),
        pytest.param(RANKS + WARNS.format(pid=100, device=2), (2,), None, id="one host whose ranks are known"),
        pytest.param(
            RANKS + WARNS.format(pid=100, device=0) + WARNS.format(pid=101, device=0), None, (0,), id="own devices only"
        ),
        pytest.param(
            RANKS + WARNS.format(pid=100, device=2) + WARNS.format(pid=100, device=2).replace("a01", "a02"),
            None,
            (2,),
            id="two hosts",
        ),
    ],
)
def test_the_device_in_nccls_lines(
    tmp_path: Path, text: str, ranks: tuple[int, ...] | None, devices: tuple[int, ...] | None
) -> None:
    (tmp_path / "train.log").write_text(text)
    found = pipeline.analyse([str(tmp_path)], pipeline.Options(threads=1)).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks, found.devices) == ("nccl-cuda-oom", ranks, devices)


PEER_GONE = (
    VALUE.rpartition("\n")[0] + "\ntorch.distributed.DistBackendError: NCCL error in: "
    "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2395, remote process exited or there was a network error, "
    "NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
)


@pytest.mark.parametrize(
    ("told", "silent", "ranks"),
    [
        ("task 1", (1,), (1,)),
        ("tasks 1-2", (1, 2), (1, 2)),
        ("tasks 1,3", (1, 3), (1, 3)),
        ("task 1", (2,), None),  # two tasks, each of two ranks
        ("task 1", (), None),
        ("task 1", (0, 1, 2, 3), None),
        ("tasks 0-3", (1,), None),
        ("task 0", (0,), None),  # rank 0 is of task 0 however many ranks that drives
    ],
)
def test_a_task_is_the_rank_of_its_number_where_that_one_alone_is_silent(
    tmp_path: Path, told: str, silent: tuple[int, ...], ranks: tuple[int, ...] | None
) -> None:
    files = {}
    for rank in range(4):
        text = STEPS if rank in silent else f"{STEPS}\n{PEER_GONE}"
        files[f"rank_{rank}.log"] = prefixed(f"[rank{rank}] ", text)
    files["slurm-8812.out"] = f"srun: error: gpu-c03: {told}: Out Of Memory\nsrun: Terminating StepId=8812.0"
    found = root(tmp_path, files)
    assert found.name == "host-oom-cgroup"
    assert found.ranks == ranks


def test_killed_in_a_ranks_own_log_is_that_rank(tmp_path: Path) -> None:
    files = {f"rank{r}.log": "\n".join(f"step {i} loss 2.{i}" for i in range(9)) for r in range(4)}
    lost = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    peers = {name: f"{text}\n{lost}" for name, text in files.items()}
    found = root(tmp_path, peers | {"rank2.log": files["rank2.log"] + "\nKilled"})
    assert (found.name, found.ranks) == ("sigkill-unknown-sender", (2,))
    # In a log of all ranks it is not known whose it is.
    together = "\n".join(f"[rank{r}]: step {i} loss 2.{i}" for i in range(9) for r in range(4))
    (tmp_path / "all").mkdir()
    assert root(tmp_path / "all", {"train.log": together + "\nKilled"}).ranks is None


def _numbered(tellers: set[int], number: int) -> dict[str, str]:
    """Logs named by job, host and rank, of which only some bear their rank on a line; one raised an exception."""
    steps = "\n".join(f"step {i} loss 2.{i}" for i in range(9))
    logs = {f"llm_8392_gpu{r // 4}_{r + number}.log": steps for r in range(8)}
    for r in tellers:
        logs[f"llm_8392_gpu{r // 4}_{r + number}.log"] += f"\n[rank{r}]: step 9 loss 2.9"
    logs[f"llm_8392_gpu1_{6 + number}.log"] += (
        '\nTraceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    x[key]\nKeyError: 1'
    )
    return logs


def test_a_number_of_names_is_the_rank_where_siblings_prove_it(tmp_path: Path) -> None:
    assert root(tmp_path, _numbered({1, 2, 7}, 0)).ranks == (6,)


@pytest.mark.parametrize(("tellers", "number"), [({1}, 0), ({1, 2, 7}, 100)])
def test_a_number_of_names_is_no_rank_where_siblings_do_not_prove_it(
    tmp_path: Path, tellers: set[int], number: int
) -> None:
    assert root(tmp_path, _numbered(tellers, number)).ranks is None


@pytest.mark.parametrize(("device", "named", "rank"), [(0, (5,), 5), (5, (5,), 5), (0, (0,), 0), (0, (5, 7), None)])
def test_a_table_tells_more_than_the_index_of_a_device(
    tmp_path: Path, device: int, named: tuple[int, ...], rank: int | None
) -> None:
    table = "\n".join(row(r, r, 1, n) for n, r in enumerate(named))
    failed = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\nFailures:\n"
    found = root(tmp_path, {"out.log": f"{STEPS}\n{oom(device)}\n{failed}{table}"})
    assert (found.name, found.ranks) == ("cuda-oom", None if rank is None else (rank,))


def test_a_lone_process_may_use_any_device(tmp_path: Path) -> None:
    assert root(tmp_path / "a", {"out.log": f"{STEPS}\n{oom(3)}"}).ranks is None
    assert root(tmp_path / "b", {"out.log": f"world_size: 1\n{STEPS}\n{oom(3)}"}).ranks is None
    assert root(tmp_path / "c", {"out.log": f"{RANKS}{oom(3)}"}).ranks == (3,)


@pytest.mark.parametrize(
    "paths",
    [
        ("job.out", "job.err", "job.log"),
        ("a/0/stdout", "a/0/stderr", "a/0/stdout.log"),
        ("run_stdout.log", "run_stderr.log", "run-err.txt"),
        ("stdout.log", "stderr"),
    ],
)
def test_the_streams_of_one_program_have_one_name(paths: tuple[str, ...]) -> None:
    assert len({whose.without_stream(path) for path in paths}) == 1


def test_a_word_that_ends_as_a_stream_does_is_none() -> None:
    assert len({whose.without_stream(path) for path in ("rollout.log", "roll.log", "layout", "lay")}) == 4
