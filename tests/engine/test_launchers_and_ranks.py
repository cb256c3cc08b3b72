"""What launchers and names of files say of ranks, hosts and launches, in the words of the launchers."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role
from forensics.path_identity import identity_of


def analysed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def steps(rank: int, first: int = 0, hour: int = 3) -> str:
    return "".join(
        f"[rank{rank}]: 2026-11-20 {hour:02d}:{m:02d}:00,000 INFO step {first + m} loss {2 - m / 99:.3f}\n"
        for m in range(30)
    )


def raised(rank: int, error: str) -> str:
    head = [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/w/train.py", line 31, in step',
    ]
    return "\n".join([*head, f"[rank{rank}]:     f(batch)", f"[rank{rank}]: {error}"]) + "\n"


AGENT = (
    "W1120 03:31:03.100000 50 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 103 closing signal SIGTERM\n"
    "E1120 03:31:04.100000 50 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: {first} "
    "(pid: 102) of binary: /usr/bin/python3\n"
)
LOST = "RuntimeError: DataLoader worker (pid(s) 3311) exited unexpectedly"


def first_two(folder: Path, error: str, first: int) -> list[Finding]:
    files = {f"rank{n}.log": steps(n) for n in range(4)}
    files["rank2.log"] += raised(2, error)
    files["rank3.log"] += raised(3, LOST)
    return list(analysed(folder, files | {"torchrun.err": AGENT.format(first=first)}).findings)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("AssertionError: sequence of 8221 tokens", "python-exception"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 79.1 GiB "
         "of which 1.0 GiB is free.", "cuda-oom"),
    ],
)  # fmt: skip
def test_a_worker_that_another_rank_lost_follows_from_the_rank_that_died_first(
    tmp_path: Path, error: str, name: str
) -> None:
    found = first_two(tmp_path, error, first=2)
    assert [(f.name, f.ranks) for f in found if f.role == "root"] == [(name, (2,))]


def test_a_lost_worker_of_the_rank_that_died_first_is_the_cause(tmp_path: Path) -> None:
    found = first_two(tmp_path, "AssertionError: sequence of 8221 tokens", first=3)
    assert (found[0].name, found[0].ranks) == ("dataloader-worker-killed", (3,))


def test_in_the_file_of_one_rank_the_launcher_speaks_of_that_rank(tmp_path: Path) -> None:
    killed = AGENT.format(first=0).replace("exitcode: 1", "exitcode: -9")
    found = analysed(tmp_path, {"rank0.log": steps(0), "rank1.log": steps(1) + killed}).findings
    assert (found[0].name, found[0].ranks) == ("sigkill-unknown-sender", (1,))


def test_in_the_file_of_rank_0_a_local_rank_is_no_other_rank(tmp_path: Path) -> None:
    killed = AGENT.format(first=0).replace("exitcode: 1", "exitcode: -9")
    found = analysed(tmp_path, {"rank0.log": steps(0) + killed, "rank1.log": steps(1)}).findings
    assert (found[0].name, found[0].ranks) == ("sigkill-unknown-sender", (0,))


@pytest.mark.parametrize(
    ("label", "rank", "node"),
    [("9: ", 9, None), ("worker-1: ", None, "worker-1"), ("trainer-1-1  | ", None, "trainer-1-1"), ("[5] ", 5, None)],
)
def test_a_label_is_read_in_a_log_that_ends_with_its_imports(
    tmp_path: Path, label: str, rank: int | None, node: str | None
) -> None:
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 7, in <module>', "    import flash_attn"]
    body = "".join(f"{label}{line}\n" for line in [*lines, "ModuleNotFoundError: No module named 'flash_attn'"])
    log = f"+ date\nlaunching\nworld_size=16\n{body}srun: error: task exited\n"
    found = analysed(tmp_path, {"job.out": log}).findings[0]
    assert found.name == "module-not-found"
    assert (found.ranks or (None,))[0] == rank and (found.node == node)


def test_words_before_a_traceback_are_no_labels(tmp_path: Path) -> None:
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 7, in <module>', "KeyError: 'x'"]
    log = "start\nmore\nand more\n" + "".join(f"myprogram: {line}\n" for line in lines)
    assert analysed(tmp_path, {"job.out": log}).findings[0].node is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("nemo_99121_dgxa-04_13.log", "dgxa-04"),
        ("slurm-7711-gn12-3.out", "gn12"),
        ("slurm-8812-gpu01-2.out", "gpu01"),
        ("slurm-8812-gpu1-2.out", None),
        ("n001_0.log", "n001"),
        ("exp_20261120_lr3_1.log", None),
        ("slurm-dgx018-42.out", None),
        ("run_8812_bs128_1.log", None),
        ("train_4821_seed31_0.log", None),
        ("llama3_8b_2.log", None),
        ("job_4411_v2_3.out", None),
    ],
)
def test_hosts_in_names_that_srun_made(name: str, node: str | None) -> None:
    assert identity_of(name).node == node


def test_srun_tells_the_host_of_a_rank_where_tasks_are_ranks(tmp_path: Path) -> None:
    log = "".join(f"{n}: step {s} loss 2.0 rank {n} of world size 8\n" for s in range(5) for n in range(8))
    log += "".join(f"5: {line.removeprefix('[rank5]: ')}\n" for line in raised(5, "KeyError: 'x'").splitlines())
    log += "srun: error: cn202: task 5: Exited with exit code 1\nsrun: Terminating StepId=771.0\n"
    log += "srun: error: cn201: tasks 0-3: Killed\nsrun: error: cn202: tasks 4,6-7: Killed\n"
    found = analysed(tmp_path, {"slurm-771.out": log}).findings[0]
    assert (found.ranks, found.node) == ((5,), "cn202")


def test_numbers_behind_a_job_can_count_its_launches(tmp_path: Path) -> None:
    gone = "slurmstepd: error: *** STEP 88.0 ON n1 CANCELLED AT 2026-11-20T03:40:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***\n"
    resumed = "[rank0]: 2026-11-20 05:00:00,000 INFO Resuming from checkpoint at step 20\n"
    log = resumed + steps(0, first=20, hour=5) + raised(0, "KeyError: 'u-9'")
    found = analysed(tmp_path, {"log-x_88123_0.out": steps(0) + gone, "log-x_88123_1.out": log}).findings
    assert (found[0].name, found[0].attempt) == ("python-exception", 1)


RAY = (
    "(TaskRunner pid=7001) Traceback (most recent call last):\n(TaskRunner pid=7001)     run_ppo(config)\n"
    "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update_actor() (pid=88121, ip=10.2.0.6, actor_id=aa)\n"
    '  File "/w/dp_actor.py", line 390, in update_policy\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. GPU 1 has a total capacity of 79.15 GiB of "
    "which 6.01 GiB is free.\n"
)


@pytest.mark.parametrize(
    ("said", "ranks"), [("(WorkerDict pid=88121, ip=10.2.0.6) [rank9]:[W1124 03:50:01.000100 Module.cpp:156] x\n", (9,)), ("", None)]
)  # fmt: skip
def test_the_device_of_a_worker_of_ray_is_no_rank(tmp_path: Path, said: str, ranks: tuple[int, ...] | None) -> None:
    log = "".join(f"step:{n} - actor/pg_loss:0.011\n" for n in range(1, 38)) + said + RAY
    found = analysed(tmp_path, {"ray_job.log": log}).findings[0]
    assert (found.name, found.ranks, found.node) == ("cuda-oom", ranks, "10.2.0.6")


AMD = "[Fri Nov 20 13:29:3{n} 2026] amdgpu 0000:c9:00.0: amdgpu: {text}\n"


@pytest.mark.parametrize("text", ["uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "Uncorrectable hardware error (ERREVENT_ATHUB_INTERRUPT) detected!"])  # fmt: skip
def test_the_error_that_forces_a_reset_comes_before_it(tmp_path: Path, text: str) -> None:
    log = AMD.format(n=1, text=text) + AMD.format(n=2, text="GPU reset begin!")
    lost = raised(0, "torch.AcceleratorError: HIP error: unspecified launch failure")
    found = analysed(tmp_path, {"dmesg.txt": log, "rank0.log": steps(0, hour=13) + lost}).findings
    roots = [f.name for f in found if f.role == "root"]
    assert roots == ["gpu-hardware"]


def two_hosts(folder: Path, said: str = "") -> Finding:
    files = {}
    for host in (0, 1):
        for local in range(4):
            text = steps(local) if host == 0 else steps(0).replace("[rank0]: ", "")
            files[f"logs/node_{host}/none_q{host}x3ab1c2/attempt_0/{local}/stdout.log"] = (
                said.format(rank=local) if host == 0 else ""
            ) + text
    at = "logs/node_1/none_q1x3ab1c2/attempt_0/3/stderr.log"
    files[at] = raised(0, "KeyError: 'caption_en'").replace("[rank0]: ", "")
    return analysed(folder, files).findings[0]


def test_the_other_of_two_hosts_has_the_other_ranks(tmp_path: Path) -> None:
    found = two_hosts(tmp_path)
    assert (found.name, found.ranks, found.node) == ("python-exception", (7,), "node_1")


def test_of_a_larger_world_the_other_host_may_have_any_ranks(tmp_path: Path) -> None:
    found = two_hosts(tmp_path, "rank={rank} world_size=16\n")
    assert (found.ranks, found.local_ranks) == (None, (3,))


POD = """\
Name:             bert-pt-worker-{n}
Namespace:        ml
Node:             pool-{n}.internal/10.0.4.{n}
Status:           Failed
Containers:
  pytorch:
    State:          Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""
WAITED = (
    "[rank{n}]:[E1120 03:40:22.123456789 ProcessGroupNCCL.cpp:616] [Rank {n}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before "
    "timing out.\n"
)


def pods(folder: Path, killed: tuple[int, ...]) -> Finding:
    files = {f"worker-{n}.log": steps(n) + ("" if n in killed else WAITED.format(n=n)) for n in range(4)}
    return analysed(folder, files | {f"describe-{n}.txt": POD.format(n=n) for n in killed}).findings[0]


def test_the_rank_for_which_others_waited_is_of_the_pod_that_was_killed(tmp_path: Path) -> None:
    found = pods(tmp_path, (2,))
    assert (found.name, found.ranks) == ("host-oom-cgroup", (2,))


def test_of_two_pods_that_were_killed_none_is_one_rank_alone(tmp_path: Path) -> None:
    found = pods(tmp_path, (1, 2))
    assert found.name == "host-oom-cgroup" and found.ranks in (None, (1, 2))


def test_the_only_host_of_which_srun_says_that_a_task_exited_is_that_of_a_cause_without_one(tmp_path: Path) -> None:
    log = "ImportError: /v/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2Ev\n"
    one = "srun: error: gpu-3: task 0: Exited with exit code 1\n"
    other = "srun: error: gpu-4: task 1: Exited with exit code 1\n"
    assert analysed(tmp_path / "a", {"job.out": log + one}).findings[0].node == "gpu-3"
    assert analysed(tmp_path / "b", {"job.out": log + one + other}).findings[0].node is None


@pytest.mark.parametrize(("tasks", "rank"), [("0-7", 12), ("0-3", None)])
def test_numbers_that_srun_calls_tasks_are_its_labels(tmp_path: Path, tasks: str, rank: int | None) -> None:
    log = (
        "+ srun python train.py\n12: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "5: waiting\nsrun: error: gpu-b07: task 12: Exited with exit code 1\n"
        f"srun: error: gpu-b06: tasks {tasks}: Terminated\nsrun: error: gpu-b07: tasks 8-11,13-15: Terminated\n"
    )
    found = analysed(tmp_path, {"slurm-5.out": log}).findings[0]
    assert (found.name, (found.ranks or (None,))[0]) == ("gpu-ecc-uncorrectable", rank)


def test_labels_of_many_tasks_with_a_line_each_are_read(tmp_path: Path) -> None:
    hosts = {n: f"dgx-{n // 8:03d}" for n in range(64)}
    init = "{n}: {host}:{pid}:{pid} [{local}] NCCL INFO comm 0x55d{n} rank {n} nranks 64 cudaDev {local} busId {bus}000 - Init COMPLETE\n"
    log = "".join(init.format(n=n, host=h, pid=9000 + n, local=n % 8, bus=40 + n % 8) for n, h in hosts.items())
    xid = "[Thu Nov 20 02:39:09 2026] NVRM: Xid (PCI:0000:43:00): 79, pid=9019, name=python3, GPU has fallen off the bus.\n"
    files = {"megatron.log": log + "0: step 100 loss 2.0\n0: step 110 loss 1.9\n", "dmesg-dgx-002.txt": xid}
    found = analysed(tmp_path, files).findings[0]
    assert (found.name, found.ranks, found.node) == ("gpu-fell-off-bus", (19,), "dgx-002")


def test_labels_count_the_tasks_of_a_large_job(tmp_path: Path) -> None:
    begin = "".join(f"{n:>3}: Loading module python for nid00{2000 + n // 8}\n" for n in range(64))
    log = begin + "".join(f"  0: step {n} loss {2 - n / 99:.3f}\n" for n in range(5)) + " 51: Bus error (core dumped)\n"
    assert analysed(tmp_path, {"slurm-1.out": log}).findings[0].ranks == (51,)


def test_a_numbered_list_is_no_output_of_tasks(tmp_path: Path) -> None:
    layers = "".join(f"{n:>3}: Linear(in_features=64, out_features=64)\n" for n in range(64))
    found = analysed(tmp_path, {"train.log": layers + "Bus error (core dumped)\n"}).findings[0]
    assert found.ranks is None


@pytest.mark.parametrize("order", [list(range(512)), [n * 37 % 512 for n in range(512)]], ids=["in order", "mixed"])
def test_labels_of_more_tasks_than_lines_that_are_looked_at(tmp_path: Path, order: list[int]) -> None:
    log = "".join(f"{n:>3}: step={step} loss=2.{n % 9}\n" for step in range(3) for n in order)
    log += "300: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    assert analysed(tmp_path, {"slurm-1.out": log}).findings[0].ranks == (300,)


def test_numbers_of_steps_are_no_labels_of_tasks(tmp_path: Path) -> None:
    log = "".join(f"{n}: loss {3 - n / 300:.3f} lr 1e-4\n" for n in range(300)) + "12: Bus error (core dumped)\n"
    assert analysed(tmp_path, {"train.log": log}).findings[0].ranks is None


@pytest.mark.parametrize("epochs", [2, 4])
def test_batches_that_are_counted_anew_are_no_tasks(tmp_path: Path, epochs: int) -> None:
    log = "".join(
        f"{n}: loss={'nan' if epoch and n > 19 else round(3 - n / 300, 3)} lr=0.1\n"
        for epoch in range(epochs)
        for n in range(100)
    )
    run = analysed(tmp_path, {"train.log": log})
    assert (run.findings[0].name, run.findings[0].ranks, run.run.world_size) == ("nan-loss", None, None)


def test_rows_of_a_table_after_each_epoch_are_no_tasks(tmp_path: Path) -> None:
    table = "".join(f"{n:>2}: class_{n} acc=0.{50 + n}\n" for n in range(20))
    run = analysed(tmp_path, {"train.log": f"epoch done\n{table}" * 4 + "Bus error (core dumped)\n"})
    assert (run.findings[0].ranks, run.run.world_size) in ((None, None), (None, 1))


ZOMBIES = "Forcefully terminating all other processes to avoid zombies 🧟"
BARS = "".join(f"Epoch 3:  {n}%|####      | {n}0/1000 [03:11<04:35, 2.14it/s, v_num=7]\n" for n in range(10, 42))


@pytest.mark.parametrize(
    ("code", "name", "rank"),
    [(-9, "sigkill-unknown-sender", 3), (-11, "rank-segfault", 3), (-6, "rank-sigabrt", 3), (-7, "rank-sigbus", 3)],
)
def test_lightnings_launcher_names_the_process_that_ended_first(
    tmp_path: Path, code: int, name: str, rank: int
) -> None:
    line = f"[rank: 3] Child process with PID 31878 terminated with code {code}. {ZOMBIES}\n"
    killed = "/work/job.sh: line 9: 31870 Killed                  python train.py\n"
    diagnosis = analysed(tmp_path, {"train.log": BARS + line + killed})
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (root.name, root.ranks) == (name, (rank,))


def test_the_only_traceback_above_lightnings_line_is_of_the_rank_that_it_names(tmp_path: Path) -> None:
    crash = (
        "Traceback (most recent call last):\n  File \"/x/train.py\", line 4, in <module>\n    fit()\nKeyError: 'img'\n"
    )
    line = f"[rank: 1] Child process with PID 31878 terminated with code 1. {ZOMBIES}\n"
    (root,) = analysed(tmp_path, {"train.log": BARS + crash + line + "Killed\n"}).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("python-exception", (1,))


def test_the_errors_file_of_a_submitit_task_is_of_the_rank_that_its_output_states(tmp_path: Path) -> None:
    starts = "submitit INFO (2026-03-11 04:00:00,111) - Starting with JobEnvironment(job_id=7712, hostname=a7, {})\n"
    files = {
        f"7712_{n}_log.out": starts.format(f"local_rank={n}(3), node=0(1), global_rank={n}(3)")
        + "".join(f"step {10 * k} loss {3 - k / 10:.2f}\n" for k in range(9))
        for n in range(3)
    }
    error = 'Traceback (most recent call last):\n  File "/x/train.py", line 4, in <module>\n    run()\nValueError: bad box\n'
    (root,) = analysed(tmp_path, {**files, "7712_2_log.err": error}).of_role(Role.ROOT)
    assert (root.ranks, root.node) == ((2,), "a7")


def test_the_process_that_rays_memory_monitor_killed_is_of_the_rank_that_its_controller_listed(tmp_path: Path) -> None:
    listed = "".join(
        f"(TrainController pid=100) - (ip=192.0.2.{n}, pid=41{n}) world_rank={n}, local_rank=0, node_rank={n}\n"
        for n in range(2)
    )
    trained = "".join(
        f"(RayTrainWorker pid=410, ip=192.0.2.0) step={n} loss={3 - n / 50:.3f}\n" for n in range(0, 90, 10)
    )
    killed = (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 192.0.2.1, ID: 7be1) where the task (actor ID: 01aa, name=RayTrainWorker.__init__, "
        "pid=411, memory used=51.20GB) was running was 61.3GB / 62.0GB (0.988), which exceeds the memory usage threshold "
        "of 0.95. Ray killed this worker (ID: 02bb) because it was the most recently scheduled task\n"
    )
    (root,) = analysed(tmp_path, {"driver.log": listed + trained + killed}).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("host-oom-ray-monitor", (1,))


def test_who_waits_at_the_rendezvous_is_not_who_is_waited_for(tmp_path: Path) -> None:
    waits = (
        "[default0]:[rank0]: Traceback (most recent call last):\n"
        '[default0]:[rank0]:   File "/x/train.py", line 22, in <module>\n'
        "[default0]:[rank0]: torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
        "4/8 clients joined.\n"
    )
    cannot = (
        "[E319 21:17:46.220144110 socket.cpp:1019] [c10d] The client socket has timed out after 900000ms while trying to "
        "connect to (192.0.2.21, 29500).\n"
    )
    (root,) = analysed(tmp_path, {"node0.log": waits, "node1.log": cannot}).of_role(Role.ROOT)
    assert (root.name, root.ranks, root.local_ranks) == ("rendezvous-timeout", None, None)


def test_all_but_one_that_report_at_a_barrier_of_the_store_wait_for_that_one(tmp_path: Path) -> None:
    said = (
        "[rank{0}]: torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank "
        "{0}, for key: store_based_barrier_key:1 (world_size=4, num_workers_joined=3, timeout=0:30:00)\n"
    )
    text = "[rank2]: importing tokenizers\n" + "".join(said.format(n) for n in (0, 1, 3))
    (root,) = analysed(tmp_path, {"train.log": text}).of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("rendezvous-timeout", (2,))


CRASHED = [
    "Traceback (most recent call last):",
    '  File "t.py", line 8, in <module>',
    "    x = a / n",
    "ZeroDivisionError: division by zero",
]


def test_a_rank_is_on_the_host_of_the_attempt_in_which_it_failed(tmp_path: Path) -> None:
    def started(first: int) -> list[str]:
        return [f"[rank{n}]: up host=n{first + n // 2} world=4" for n in range(4)]

    def trained(low: int) -> list[str]:
        return [f"[rank0]: step {n} loss {3 - n / 500:.3f}" for n in range(low, low + 100, 10)]

    restart = (
        "I0914 08:20:14.300000 900 torch/distributed/elastic/agent/server/api.py:905] [default] Worker group FAILED. "
        "1/1 attempts left; will restart worker group"
    )
    lines = [*started(0), *trained(10), restart, *started(3), *trained(110), *(f"[rank3]: {line}" for line in CRASHED)]
    (root,) = analysed(tmp_path, {"run.log": "\n".join(lines) + "\n"}).of_role(Role.ROOT)
    assert (root.ranks, root.node) == ((3,), "n4")


def test_what_ranks_raise_when_the_launcher_stops_them_follows_from_what_one_raised_above(tmp_path: Path) -> None:
    stops = (
        "W0914 08:01:43.001000 77 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 120 closing signal "
        "SIGTERM"
    )
    handler = ["Traceback (most recent call last):", '  File "t.py", line 44, in on_term', "RuntimeError: terminated"]
    lines = [f"step {n} loss {3 - n / 50:.3f}" for n in range(20)]
    lines += [*(f"[rank3]: {line}" for line in CRASHED), stops]
    lines += [f"[rank{n}]: {line}" for n in range(8) if n != 3 for line in handler]
    (root,) = analysed(tmp_path, {"run.log": "\n".join(lines) + "\n"}).of_role(Role.ROOT)
    assert root.ranks == (3,)


RAISED_BY_ONE = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 5, in <module>\n    x = rows[key]\nKeyError: 1004\n'
)
EXITED = "srun: error: n3: task 6: Exited with exit code 1\n"
ENDED = "".join(f"srun: error: n{n}: tasks {2 * n}-{2 * n + 1}: {{0}}\n" for n in range(3))
ALSO = "srun: error: n3: task 7: {0}\n"


@pytest.mark.parametrize("end", ["Terminated", "Killed", "Exited with exit code 143"])
def test_the_only_traceback_is_that_of_the_task_that_exited_with_1(tmp_path: Path, end: str) -> None:
    told = EXITED + "srun: Terminating StepId=77.0\n" + (ENDED + ALSO).format(end)
    (tmp_path / "slurm-77.out").write_text("step: 3 loss: 2.1\n" + RAISED_BY_ONE + told)
    root = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks, root.node) == ("python-exception", (6,), "n3")


@pytest.mark.parametrize(
    "told",
    [
        RAISED_BY_ONE + EXITED + (ENDED + ALSO).format("Killed"),
        "srun: error: n3: tasks 6-7: Exited with exit code 1\n" + ENDED.format("Killed"),
        EXITED + "srun: error: n0: task 1: Exited with exit code 1\n" + ENDED.format("Killed"),
        EXITED.replace("code 1", "code 2") + (ENDED + ALSO).format("Killed"),
    ],
    ids=["two raised", "two exited in one line", "two exited", "another status"],
)
def test_whose_it_is_stays_open_where_two_can_have_raised(tmp_path: Path, told: str) -> None:
    (tmp_path / "slurm-77.out").write_text("step: 3 loss: 2.1\n" + RAISED_BY_ONE + told)
    found = next(f for f in analyse([str(tmp_path)]).findings if f.name == "python-exception")
    assert found.ranks is None


@pytest.mark.parametrize(
    ("task_host", "first_host", "ranks"),
    [
        ("n07", "n06", (9,)),  # one task on each would put task 9 on n15, or behind it
        ("n06", "n06", (9,)),
        ("n07.cluster", "n06.cluster", (9,)),
        ("n15", "n06", None),  # one task on each, which may drive the ranks of all its devices
        ("big03", "n06", None),
        ("n07", "rack2-n06", None),
    ],
)
def test_a_task_is_a_rank_where_its_host_is_too_near_to_the_first_for_one_task_on_each(
    tmp_path: Path, task_host: str, first_host: str, ranks: tuple[int, ...] | None
) -> None:
    log = "".join(f"2026-11-20 03:{m:02d}:00,000 INFO step {m} loss {2 - m / 99:.3f}\n" for m in range(30))
    log += "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0. Some of the step tasks have been OOM Killed.\n"
    log += f"srun: error: {task_host}: task 9: Out Of Memory\nsrun: Terminating StepId=88.0\n"
    log += f"slurmstepd: error: *** STEP 88.0 ON {first_host} CANCELLED AT 2026-11-20T03:30:00 ***\n"
    found = analysed(tmp_path, {"slurm-88.out": log}).findings[0]
    assert (found.name, found.ranks, found.node) == ("host-oom-cgroup", ranks, task_host)


TERMINATED = "srun: error: n1: tasks 0-7: Terminated\nsrun: error: n2: tasks 8,10,12-15: Terminated\n"


@pytest.mark.parametrize(("ended", "ranks"), [(TERMINATED, (9, 11)), ("srun: error: n1: task 0: Terminated\n", None)])
def test_several_tasks_that_ran_out_of_memory_are_ranks_where_a_host_has_many(
    tmp_path: Path, ended: str, ranks: tuple[int, ...] | None
) -> None:
    log = "".join(f"2026-11-20 03:{m:02d}:00,000 INFO step {m} loss {2 - m / 99:.3f}\n" for m in range(30))
    killed = "tasks 9,11" if ranks else "task 1"
    log += f"srun: error: n2: {killed}: Out Of Memory\nsrun: Terminating StepId=5.0\n{ended}"
    found = analysed(tmp_path, {"slurm-5.out": log}).findings[0]
    assert (found.name, found.ranks, found.node) == ("host-oom-cgroup", ranks, "n2")


@pytest.mark.parametrize(("host", "ranks"), [("n4", (35,)), ("n5", None)])
def test_a_kernels_kill_is_of_the_one_task_that_was_killed_on_its_host(
    tmp_path: Path, host: str, ranks: tuple[int, ...] | None
) -> None:
    log = "".join(f"2026-11-20 03:{m:02d}:00,000 INFO step {m} loss {2 - m / 99:.3f}\n" for m in range(30))
    log += "srun: error: n4: task 35: Killed\nsrun: Terminating StepId=9.0\n"
    log += "".join(f"srun: error: n{n}: tasks {8 * n}-{8 * n + 7}: Terminated\n" for n in range(6) if n != 4)
    kernel = (
        "[Fri Nov 20 03:29:32 2026] Out of memory: Killed process 77123 (python) total-vm:98213312kB, anon-rss:1kB\n"
    )
    found = analysed(tmp_path, {"slurm-9.out": log, f"{host}.dmesg.txt": kernel})
    killed = next(f for f in found.findings if f.name == "host-oom")
    assert (killed.ranks, killed.node) == (ranks, host)
