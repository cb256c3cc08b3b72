"""Hosts that only names of folders and files tell, ranks that follow from a host, and what a cluster says beside a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role, Verdict

LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356,"
    " remote process exited or there was a network error, NCCL version 2.21.5"
)
TRACEBACK = 'Traceback (most recent call last):\n  File "/opt/t/train.py", line {line}, in fit\n    step()\n{error}'
EVENTS = (
    "LAST SEEN   TYPE      REASON     OBJECT            MESSAGE\n"
    "41m         Warning   Evicted    pod/{pod}    The node was low on resource: ephemeral-storage. Threshold"
    " quantity: 10Gi, available: 8Gi. Container main was using 220Gi, request is 0.\n"
)


def stamp(seconds: int) -> str:
    return f"2026-11-20 {8 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def steps(first: int = 1, last: int = 20, begin: int = 0, prefix: str = "") -> str:
    return "\n".join(f"{prefix}{stamp(begin + n)} step {n} loss {2 + 1 / n:.3f}" for n in range(first, last + 1)) + "\n"


def raised(error: str, line: int = 88, prefix: str = "") -> str:
    text = TRACEBACK.format(line=line, error=error)
    return "\n".join(prefix + row for row in text.split("\n")) + "\n"


def diagnosed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def root(folder: Path, files: dict[str, str]) -> Finding:
    return diagnosed(folder, files).of_role(Role.ROOT)[0]


@pytest.mark.parametrize(
    "name",
    [
        "cn-{host}/local_rank_{local}.log",
        "cn-{host}/none_a1b2c3/attempt_0/{local}/stderr.log",
        "cn-{host}.local_rank{local}.log",
    ],
)
def test_the_same_local_ranks_in_several_folders_are_of_several_hosts(tmp_path: Path, name: str) -> None:
    files = {name.format(host=host, local=local): steps() for host in (117, 118) for local in range(4)}
    failed = name.format(host=118, local=2)
    found = root(tmp_path, files | {failed: files[failed] + raised("KeyError: 'image'")})
    assert (found.ranks, found.local_ranks, found.node) == (None, (2,), "cn-118")


def test_blocks_of_ranks_are_of_hosts(tmp_path: Path) -> None:
    files = {f"dgx-{11 + rank // 4}/rank{rank}.log": steps() for rank in range(8)}
    files["dgx-12/rank6.log"] += raised("KeyError: 'image'")
    found = root(tmp_path, files)
    assert (found.ranks, found.node) == ((6,), "dgx-12")


@pytest.mark.parametrize("folder", ["seed{n}", "run{n}", "{n}", "exp{n}", "exp-{n}", "my-run-{n}"])
def test_folders_of_other_things_are_no_hosts(tmp_path: Path, folder: str) -> None:
    files = {f"{folder.format(n=11 + rank // 4)}/rank{rank}.log": steps() for rank in range(8)}
    files[f"{folder.format(n=12)}/rank6.log"] += raised("KeyError: 'image'")
    assert root(tmp_path, files).node is None


ANNOUNCED = "| distributed init (rank {rank}): env://, gpu {local}\n"


@pytest.mark.parametrize("hosts", ["gpu0{n}", "dgx-{n}", "host{n}"])
def test_ranks_in_names_that_repeat_are_local_where_the_logs_announce_others(tmp_path: Path, hosts: str) -> None:
    files = {
        f"{hosts.format(n=1 + rank // 2)}/rank{rank % 2}.log": ANNOUNCED.format(rank=rank, local=rank % 2) + steps()
        for rank in range(4)
    }
    failed = f"{hosts.format(n=2)}/rank1.log"
    found = root(tmp_path, files | {failed: files[failed] + raised("KeyError: 'image'")})
    assert (found.ranks, found.node) == ((3,), hosts.format(n=2))


def test_ranks_in_names_that_repeat_are_local_in_a_world_as_large_as_all(tmp_path: Path) -> None:
    files = {f"gpu0{n}/rank{r}.log": "world_size=4\n" + steps() for n in (1, 2) for r in range(2)}
    files["gpu01/rank0.log"] = "Initialized process group: rank 0/4 local_rank 0\n" + steps()
    files["gpu02/rank1.log"] += raised("KeyError: 'image'")
    found = root(tmp_path, files)
    assert (found.ranks, found.local_ranks, found.node) == (None, (1,), "gpu02")


@pytest.mark.parametrize("hosts", [("hgx-a", "hgx-b"), ("gpu-alpha", "gpu-beta")])
def test_hosts_without_numbers_hold_blocks_of_ranks(tmp_path: Path, hosts: tuple[str, str]) -> None:
    files = {f"{hosts[r // 2]}/{r % 2}.out": f"rank={r} local_rank={r % 2} world_size=4\n" + steps() for r in range(4)}
    files[f"{hosts[1]}/1.out"] += raised("KeyError: 'image'")
    found = root(tmp_path, files)
    assert (found.ranks, found.node) == ((3,), hosts[1])


def test_variants_of_a_model_are_no_hosts(tmp_path: Path) -> None:
    files = {f"bert-{name}/local_rank_{r}.log": steps() for name in ("small", "large") for r in range(2)}
    files["bert-large/local_rank_1.log"] += raised("KeyError: 'image'")
    assert root(tmp_path, files).node is None


def test_ranks_of_a_host_that_went_down_are_known_by_what_its_processes_print(tmp_path: Path) -> None:
    ready = "".join(f"{r}: host gpu-b{r // 2} rank {r} local_rank {r % 2} ready\n" for r in range(6))
    text = ready + steps(prefix="0: ") + "srun: error: Node failure on gpu-b1\n"
    found = root(tmp_path, {"train.out": text})
    assert (found.name, found.ranks, found.node) == ("node-failure", (2, 3), "gpu-b1")


def test_runs_side_by_side_with_the_same_ranks_are_no_hosts(tmp_path: Path) -> None:
    files = {f"{n}/rank{r}.log": steps() for n in ("bert-1", "bert-2") for r in range(2)}
    files["bert-2/rank1.log"] += raised("KeyError: 'image'")
    found = root(tmp_path, files)
    assert (found.ranks, found.node) == ((1,), None)


REFUSED = LOST + "\nLast error:\nsocketPollConnect: connect to 10.0.0.13<40011> returned Connection refused"


@pytest.mark.parametrize("host", ["gpu01{n}", "gpu-1{n}", "exp-3-2{n}", "gpunode{n}", "catalog-{n}"])
def test_a_process_of_a_host_that_its_peers_could_not_reach_any_more_is_the_cause(tmp_path: Path, host: str) -> None:
    files = {f"{host.format(n=n)}/local_rank_{r}.log": steps() + raised(REFUSED) for n in (4, 5) for r in range(3)}
    files[f"{host.format(n=5)}/local_rank_2.log"] = steps() + raised("KeyError: 'image'")
    found = root(tmp_path, files)
    assert (found.name, found.ranks, found.local_ranks) == ("python-exception", None, (2,))
    assert found.node == host.format(n=5)


NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


@pytest.mark.parametrize(("failed", "named"), [((5,), (5,)), ((4, 5), (4, 5)), (tuple(range(8)), None)])
def test_a_cause_that_a_few_ranks_print_is_of_these(
    tmp_path: Path, failed: tuple[int, ...], named: tuple[int, ...] | None
) -> None:
    files = {f"rank{r}.log": steps() + raised(NO_IMAGE if r in failed else REFUSED) for r in range(8)}
    found = diagnosed(tmp_path, files).of_role(Role.ROOT)
    assert [(f.name, f.ranks) for f in found] == [("no-kernel-image", named)]


def test_a_fault_of_one_ranks_network_explains_what_its_peers_say_of_it(tmp_path: Path) -> None:
    error = "RuntimeError: NCCL error: Mismatched NCCL version detected : ncclVersion 22703 ncclVersion 22105"
    files = {f"rank{r}.log": steps() + raised(REFUSED if r != 5 else error) for r in range(8)}
    found = diagnosed(tmp_path, files).of_role(Role.ROOT)
    assert len(found) == 1 and found[0].name != "nccl-connect-failed"


def test_folders_of_one_device_each_are_no_hosts(tmp_path: Path) -> None:
    files = {f"gpu-{n}/local_rank_0.log": steps() for n in (0, 1)}
    files["gpu-1/local_rank_0.log"] += raised("KeyError: 'image'")
    assert root(tmp_path, files).node is None


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            "AssertionError: Rank 3: found NaN in local grad norm for bucket #4 in backward pass before data-parallel communication collective. Device: 3, node: gpu-19",
            "nan-gradients",
        ),
        ("KeyError: 'image'", "python-exception"),
    ],
)
def test_refused_connections_follow_from_the_rank_that_raised_something_else(
    tmp_path: Path, error: str, name: str
) -> None:
    files = {f"rank{r}.log": steps() + raised(REFUSED) for r in range(4)} | {"rank3.log": steps() + raised(error)}
    found = diagnosed(tmp_path, files)
    assert [(f.name, f.ranks) for f in found.of_role(Role.ROOT)] == [(name, (3,))]


def test_folders_written_one_after_the_other_are_no_hosts(tmp_path: Path) -> None:
    files = {f"cn-{n}/local_rank_{r}.log": steps(begin=3600 * (n - 1)) for n in (1, 2) for r in range(2)}
    files["cn-2/local_rank_1.log"] += raised("KeyError: 'image'")
    assert root(tmp_path, files).node is None


def test_the_one_rank_that_lost_no_peer_is_the_one_to_look_at(tmp_path: Path) -> None:
    silent = {f"rank{r}.log": steps() + (raised(LOST) if r != 2 else "") for r in range(6) if r != 2}
    found = root(tmp_path, silent)
    assert (found.name, found.ranks) == ("nccl-remote-error", (2,))


def test_of_two_silent_ranks_none_is_named(tmp_path: Path) -> None:
    files = {f"rank{r}.log": steps() + (raised(LOST) if r not in (2, 4) else "") for r in range(6)}
    assert root(tmp_path, files).ranks is None


def test_what_stops_a_host_is_of_the_rank_for_which_the_others_waited(tmp_path: Path) -> None:
    wait = (
        "[rank{r}]:[E1120 08:20:01.000000 ProcessGroupNCCL.cpp:685] [Rank {r}] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600010"
        " milliseconds before timing out.\n"
    )
    files = {f"n{r // 2}/rank{r}.log": steps() + (wait.format(r=r) if r != 4 else "") for r in range(6)}
    files["n2/kern.log"] = "Nov 20 08:00:21 n2 kernel: nfs: server nfs1 not responding, still trying\n"
    found = root(tmp_path, files)
    assert (found.name, found.ranks, found.node) == ("storage-io-error", (4,), "n2")


def test_errors_of_two_places_are_two_errors(tmp_path: Path) -> None:
    one = steps() + f"{stamp(21)} failed\n" + raised("RuntimeError: shard 7 is unreadable", 88)
    two = steps() + f"{stamp(27)} failed\n" + raised("RuntimeError: the queue of batches is empty", 140)
    files = {f"rank{r}.log": steps() for r in range(4)} | {"rank1.log": one, "rank3.log": two}
    assert root(tmp_path, files).ranks == (1,)


def test_errors_of_one_place_are_one_error(tmp_path: Path) -> None:
    files = {f"rank{r}.log": steps() for r in range(4)}
    for r in (1, 3):
        files[f"rank{r}.log"] += raised(f"RuntimeError: shard {r} is unreadable")
    assert root(tmp_path, files).ranks == (1, 3)


def test_an_eviction_that_another_pod_got_over_is_recovered(tmp_path: Path) -> None:
    files = {
        "train-0-a.log": steps(1, 60),
        "train-0-b.log": steps(50, 200, begin=1800) + f"{stamp(2100)} Training complete\n",
        "events.txt": EVENTS.format(pod="train-0-a"),
    }
    found = diagnosed(tmp_path, files)
    assert (found.verdict, found.of_role(Role.ROOT)[0].step) == (Verdict.RECOVERED, 60)


def test_events_of_other_pods_are_beside_a_run_that_finished(tmp_path: Path) -> None:
    files = {
        "train-0-a.log": steps(1, 60) + f"{stamp(70)} Training complete\n",
        "events.txt": EVENTS.format(pod="redis-0"),
    }
    assert diagnosed(tmp_path, files).verdict is Verdict.HEALTHY


def test_an_eviction_in_a_run_that_did_not_finish_stands(tmp_path: Path) -> None:
    files = {"train-0-a.log": steps(1, 60), "events.txt": EVENTS.format(pod="train-0-a")}
    assert root(tmp_path, files).name == "pod-evicted"


def test_what_the_last_run_of_a_file_came_to_grief_by_leads(tmp_path: Path) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB"
    nan = "".join(f"{stamp(7200 + n)} step {n} loss nan\n" for n in range(101, 111))
    text = f"+ torchrun train.py\n{steps(1, 4)}{raised(oom)}+ torchrun train.py\n{steps(1, 100, begin=7200)}{nan}"
    found = diagnosed(tmp_path, {"train.log": text})
    first = found.of_role(Role.ROOT)[0]
    assert (found.verdict, first.name) == (Verdict.DIVERGED, "nan-loss")


def test_a_crash_after_the_end_says_so(tmp_path: Path) -> None:
    agent = (
        "E1120 08:01:20.000000 4900 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -11)"
        " local_rank: 2 (pid: 4902) of binary: /usr/bin/python\n"
    )
    end = f"{stamp(40)} Training complete\n"
    files = {f"rank{r}.log": steps() + end for r in range(4)} | {"agent.log": agent}
    assert any("came to its end" in note for note in root(tmp_path, files).notes)
    (tmp_path / "no").mkdir()
    files["rank2.log"] = steps()
    assert not any("came to its end" in note for note in root(tmp_path / "no", files).notes)


def test_a_kernels_process_is_the_rank_that_told_its_number(tmp_path: Path) -> None:
    kill = "Nov 20 08:00:22 n1 kernel: Out of memory: Killed process 6202 (python) total-vm:2100kB, anon-rss:1200kB\n"
    told = "RANK={r} LOCAL_RANK={r} WORLD_SIZE=4 pid=620{r} hostname=n1\n"
    files = {f"rank{r}.log": told.format(r=r) + steps() for r in range(4)} | {"kern.log": kill}
    assert root(tmp_path, files).ranks == (2,)


def test_ray_names_the_actor_that_died(tmp_path: Path) -> None:
    rows = "".join(
        f"(RayTrainWorker pid=51{20 + r}, ip=192.0.2.{8 + r}) {stamp(n)} [rank {r}] step {n} loss 2.{n:02d}\n"
        for r in range(4)
        for n in range(1, 10)
    )
    died = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    block = "\tclass_name: RayTrainWorker\n\tactor_id: 77aa\n\tpid: 5123\n\tnamespace: x\n\tip: 192.0.2.11\n"
    found = root(tmp_path, {"driver.log": rows + died + block})
    assert (found.name, found.ranks, found.node) == ("ray-worker-died", (3,), "192.0.2.11")


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ("train failed rc=1", "insufficient-evidence"),
        ("FAILED", "insufficient-evidence"),
        ("client_loop: send disconnect: Broken pipe", "session-closed"),
        ("Aborted!", "keyboard-interrupt"),
        ("n0: Test NCCL failure common.cu:1005 'unhandled system error / '", "nccl-system-error"),
    ],
)
def test_a_log_that_ends_in_a_word_of_failure_is_not_healthy(tmp_path: Path, last: str, name: str) -> None:
    assert root(tmp_path, {"train.log": steps() + last + "\n"}).name == name


def test_who_asked_for_a_stop_is_not_asked_for_where_it_is_told(tmp_path: Path) -> None:
    table = "JobID|JobName|State|ExitCode|NodeList\n9|train|{state}|0:0|n1\n"
    by = diagnosed(tmp_path, {"train.log": steps(), "sacct.txt": table.format(state="CANCELLED by 1042")})
    assert not any(m.what == "who sent the signal" for m in by.missing_evidence)
    assert any("1042" in note for note in by.of_role(Role.ROOT)[0].notes)
    unknown = diagnosed(tmp_path, {"sacct.txt": table.format(state="CANCELLED")})
    assert any(m.what == "who sent the signal" for m in unknown.missing_evidence)


def test_the_step_of_a_kernels_message_in_another_zone_is_that_of_its_rank(tmp_path: Path) -> None:
    init = "n1:60{r}:70{r} [{r}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {b}000 commId 0xa1 - Init COMPLETE\n"
    dead = raised("torch.AcceleratorError: CUDA error: unspecified launch failure")
    files = {f"rank{r}.log": init.format(r=r, b=61 + r) + steps() for r in range(4)}
    files["rank3.log"] += dead
    files["journal-k.txt"] = (
        "2026-11-19T23:00:21.020113+00:00 n1 kernel: NVRM: Xid (PCI:0000:64:00): 79, pid=603, name=python,"
        " GPU has fallen off the bus.\n"
    )
    found = diagnosed(tmp_path, files)
    first = found.of_role(Role.ROOT)[0]
    assert (first.name, first.ranks, first.step) == ("gpu-fell-off-bus", (3,), 20)
    assert not any("which rank drives" in m.what for m in found.missing_evidence)


@pytest.mark.parametrize(("joined", "size", "ranks"), [(1, 2, (1,)), (3, 4, (1, 2, 3)), (1, 4, (1, 2, 3))])
def test_the_ranks_of_which_nothing_is_seen_are_those_that_did_not_come(
    tmp_path: Path, joined: int, size: int, ranks: tuple[int, ...]
) -> None:
    """Three of four came, and one log is there: nothing tells which of the other three it was."""
    said = f"torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. {joined}/{size} clients joined."
    (tmp_path / "rank0.log").write_text(f"WORLD_SIZE={size} RANK=0\n{said}\n")
    root = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert (root.name, root.ranks) == ("rendezvous-timeout", ranks if size - joined == len(ranks) else None)


def test_a_pod_whose_image_is_missing_while_the_others_gave_up(tmp_path: Path) -> None:
    rows = [
        "NAME           READY   STATUS             RESTARTS   AGE    IP           NODE",
        "llm-master-0   0/1     Error              0          35m    10.2.0.3     gpu-1",
        "llm-worker-1   0/1     ImagePullBackOff   0          35m    10.2.0.9     gpu-7",
    ]
    (tmp_path / "pods.txt").write_text("\n".join(rows) + "\n")
    said = "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined."
    (tmp_path / "llm-master-0.log").write_text(f"WORLD_SIZE=2 RANK=0\n{said}\n")
    root = analyse([str(tmp_path)], Options(threads=1)).findings[0]
    assert (root.name, root.node, root.captures["pod"]) == ("image-pull-failed", "gpu-7", "llm-worker-1")


def test_the_error_of_the_last_attempt_leads_where_both_attempts_lost_peers(tmp_path: Path) -> None:
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    files = {}
    for attempt, (first, last, failed, error) in enumerate(
        [(1, 40, 2, ecc), (31, 90, 1, "ZeroDivisionError: division by zero")]
    ):
        for r in range(4):
            text = steps(first, last, begin=600 * attempt) + raised(error if r == failed else LOST)
            files[f"logs/none_a1b2c3d4/attempt_{attempt}/{r}/stderr.log"] = text
    found = diagnosed(tmp_path, files).of_role(Role.ROOT)
    assert next((f.name, f.attempt) for f in found) == ("python-exception", 1)


@pytest.mark.parametrize("joined", [6, 5])
def test_ranks_with_empty_files_are_those_that_did_not_come(tmp_path: Path, joined: int) -> None:
    late = (
        f"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {joined}/8 clients joined."
    )
    files = {f"gpt_4410_{r}.out": steps(1, 2) + raised(late) if r not in (3, 4) else "" for r in range(8)}
    found = root(tmp_path, files)
    assert (found.name, found.ranks) == ("rendezvous-timeout", (3, 4))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total", "cuda-oom"),
        ("OSError: [Errno 28] No space left on device: '/data/out.pt'", "disk-full"),
        ("KeyError: 'image'", "python-exception"),
    ],
)
def test_what_befell_another_pod_is_not_why_a_program_met_an_error_of_its_own(
    tmp_path: Path, error: str, name: str
) -> None:
    agent = (
        "E1120 08:01:45.000000 77 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 3 "
        "(pid: 123) of binary: /usr/bin/python\n"
    )
    log = steps(prefix="[rank0]: ") + raised(error, prefix="[rank3]: ") + agent
    found = diagnosed(tmp_path, {"train.log": log, "events.txt": EVENTS.format(pod="jupyter-bob-0")})
    first = found.of_role(Role.ROOT)[0]
    assert (first.name, first.ranks) == (name, (3,))
    assert "pod-evicted" not in [f.name for f in found.of_role(Role.ROOT)]


def test_what_a_rank_meets_as_it_is_stopped_is_no_cause(tmp_path: Path) -> None:
    stops = "W1120 08:01:43.000000 77 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 120 closing signal SIGTERM\n"
    saving = "OSError: [Errno 28] No space left on device: '/data/last.pt'"
    log = steps() + raised("KeyError: 'x'", prefix="[rank3]: ") + stops + raised(saving, prefix="[rank0]: ")
    (only,) = diagnosed(tmp_path, {"train.log": log}).of_role(Role.ROOT)
    assert (only.name, only.ranks) == ("python-exception", (3,))


def test_who_was_killed_for_its_hosts_memory_may_have_been_evicted_for_it(tmp_path: Path) -> None:
    kernel = "2026-11-20T08:00:30.000000+00:00 node-1 kernel: Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:8kB"
    files = {"train.log": steps(), "kern.log": kernel + "\n", "events.txt": EVENTS.format(pod="train-0")}
    found = diagnosed(tmp_path, files)
    assert not any("nothing ties this pod" in f.why for f in found.of_role(Role.CONTEXT))


UNREACHED = {
    "pair": "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to ({host}, 29500).",
    "socket": "[W612 00:10:00.1 socket.cpp:697] [c10d] The client socket has failed to connect to [{host}]:29500 (errno: 111 - Connection refused).",
}
NO_LIBRARY = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize("said", UNREACHED.values(), ids=UNREACHED)
def test_logs_are_called_after_hosts_of_which_others_name_one(tmp_path: Path, said: str) -> None:
    files = {f"b{n}.log": f"torchrun --node_rank {n} --nnodes 3\n" + raised(said.format(host="b0")) for n in range(2)}
    files["b2.log"] = "torchrun --node_rank 2 --nnodes 3\n" + raised(NO_LIBRARY)
    found = root(tmp_path, files)
    assert (found.name, found.node) == ("missing-shared-library", "b2")


def test_another_host_says_nothing_of_how_logs_are_called(tmp_path: Path) -> None:
    said = UNREACHED["pair"].format(host="gpu-b07")
    files = {f"b{n}.log": f"torchrun --node_rank {n} --nnodes 3\n" + raised(said) for n in range(2)}
    files["b2.log"] = "torchrun --node_rank 2 --nnodes 3\n" + raised(NO_LIBRARY)
    assert root(tmp_path, files).node is None
