"""What stands beside a failure and is no cause of it: other pods, other processes, trials of a study, other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Finding, Role


def analysed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def roots(diagnosis: Diagnosis) -> list[Finding]:
    return [f for f in diagnosis.findings if f.role is Role.ROOT]


def steps(prefix: str = "", n: int = 30) -> str:
    return "".join(f"{prefix}2026-04-03 04:{m:02d}:00 INFO step {m * 10} loss {2 - m / 99:.3f}\n" for m in range(n))


def raised(error: str, prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 31, in step', "    f(batch)", error]
    return "".join(f"{prefix}{line}\n" for line in lines)


EVENTS = """\
LAST SEEN   TYPE      REASON      OBJECT                       MESSAGE
22m         Warning   Evicted     pod/yolo-sweep-14-worker-0   The node was low on resource: memory. Threshold quantity: 100Mi, available: 61128Ki.
14m         Warning   OOMKilling  node/gke-a3-91bb             Memory cgroup out of memory: Killed process 31191 (python3) total-vm:91231144kB, anon-rss:67101144kB, file-rss:1200kB
3m          Normal    Started     pod/ft-master-0              Started container pytorch
"""


@pytest.mark.parametrize("log", ["train.log", "ft-worker-1.log", "ft-master-0.log"])
@pytest.mark.parametrize("error", ["AssertionError: too long", "KeyError: 'x'", "ValueError: bad shape"])
def test_other_pods_do_not_bring_about_an_exception_of_the_program(tmp_path: Path, log: str, error: str) -> None:
    files = {log: steps() + raised(error), "events.txt": EVENTS}
    assert [f.name for f in roots(analysed(tmp_path, files))] == ["python-exception"]


def test_an_eviction_does_bring_about_the_loss_of_a_peer(tmp_path: Path) -> None:
    lost = raised(
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1"
    )
    assert roots(analysed(tmp_path, {"train.log": steps() + lost, "events.txt": EVENTS}))[0].name == "pod-evicted"


STUDY = "[I 2026-04-03 05:{m:02d}:11,114] Trial {n} finished with value: 0.7{n} and parameters: {{'lr': 0.001}}. Best is trial {n} with value: 0.7{n}.\n"
FAILED = "[W 2026-04-03 05:31:10,301] Trial 3 failed with value None.\n"


@pytest.mark.parametrize(
    "error", ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "ValueError: x"]
)
def test_a_trial_that_a_study_got_over_is_no_failure_of_it(tmp_path: Path, error: str) -> None:
    trials = [steps(n=5) + STUDY.format(n=n, m=n) for n in range(3)]
    log = "".join(trials) + steps(n=3) + raised(error) + FAILED
    after = steps(n=5) + STUDY.format(n=4, m=40)
    assert not roots(analysed(tmp_path, {"hpo.log": log + after}))
    assert roots(analysed(tmp_path, {"hpo.log": log}))


def test_the_error_of_a_data_worker_comes_before_that_it_is_gone(tmp_path: Path) -> None:
    own = "Exception in background worker 4:\n \n" + raised("ValueError: mmap length is greater than file size")
    gone = raised(
        "RuntimeError: One or more background workers are no longer alive. Exiting. Please check the print statements above"
    )
    found = analysed(tmp_path, {"train.log": steps() + own + gone}).findings
    assert [(f.name, f.role) for f in found] == [
        ("python-exception", Role.ROOT),
        ("background-worker-died", Role.CASCADE),
    ]
    assert roots(analysed(tmp_path, {"train.log": steps() + gone}))[0].name == "background-worker-died"


OLD = "[Mon Mar 30 11:02:11 2026] Out of memory: Killed process 918 (mysqld) total-vm:9123112kB, anon-rss:7120012kB, file-rss:0kB\n"
OWN = "[Fri Apr  3 04:30:02 2026] Out of memory: Killed process 3121 (python) total-vm:291231144kB, anon-rss:241101144kB, file-rss:0kB\n"


def test_of_several_kills_that_of_the_runs_own_process_counts(tmp_path: Path) -> None:
    log = steps() + "./train.sh: line 7:  3121 Killed                  python train.py --workers 32\n"
    root = roots(analysed(tmp_path, {"run.log": log, "dmesg.txt": OLD + OWN}))[0]
    assert (root.name, root.count, root.step) == ("host-oom", 1, 290)
    assert root.evidence[0].line == 2


def test_what_each_rank_prints_of_one_that_could_not_save_is_of_that_one(tmp_path: Path) -> None:
    told = [
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([5])",
        "Traceback (most recent call last): (RANK 5)",
        '  File "/opt/pt/torch/distributed/checkpoint/filesystem.py", line 448, in _write_data',
        "    torch.save(tensor, stream)",
        "OSError: [Errno 122] Disk quota exceeded",
    ]
    log = "".join(
        raised(told[0], f"[rank{n}]: ") + "".join(f"[rank{n}]: {line}\n" for line in told[1:]) for n in (4, 5)
    )
    found = roots(analysed(tmp_path, {"job.err": log}))
    assert [(f.name, f.ranks) for f in found] == [("disk-full", (5,))]


SRUN = "srun: error: gpu-2: task 1: Exited with exit code 1\n"


@pytest.mark.parametrize(("label", "table", "node"), [
    ("0: ", "", None),  # another task than the one that exited
    ("", "1:   host      : gpu-2\n1:   rank      : 9 (local_rank: 1)\n1:   exitcode  : -6 (pid: 4109)\n", None),
    ("1: ", "", "gpu-2"),
])  # fmt: skip
def test_the_host_that_srun_names_is_not_of_a_rank_elsewhere(
    tmp_path: Path, label: str, table: str, node: str | None
) -> None:
    head = "1: torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n1: [0]:\n" if table else ""
    log = steps(label or "0: ") + raised("KeyError: 'x'", f"{label}[rank1]: ") + head + table + SRUN
    assert roots(analysed(tmp_path, {"slurm-81.out": log}))[0].node == node


def test_one_rank_that_lost_a_peer_accuses_nobody_where_others_left_no_log(tmp_path: Path) -> None:
    lost = (
        "[rank12]:[E403 04:33:40.113 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank 12] Process group "
        "watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error\n"
    )
    found = analysed(tmp_path, {"slurm-910.out": steps("[rank0]: ") + lost}).findings
    assert not [f for f in found if f.name == "rank-exited-early"]


def table(*rows: tuple[int, int, str]) -> str:
    """torchelastic's table: (rank, exit code, time) of the first observed failure and of those after it."""

    def row(n: int, rank: int, code: int, time: str) -> str:
        return (
            f"[{n}]:\n  time      : 2026-09-07_{time}\n  host      : node-1\n  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {14600 + rank})\n  error_file: <N/A>\n"
            f"  traceback : {f'Signal {-code} received by PID {14600 + rank}' if code < 0 else 'To enable traceback see: x'}\n"
        )

    (first, *others) = (row(n, *values) for n, values in enumerate(rows))
    head = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\ntrain.py FAILED\n"
    return head + f"Failures:\n{''.join(others)}Root Cause (first observed failure):\n{first}" + "=" * 60 + "\n"


@pytest.mark.parametrize(
    ("late", "culprit"), [("13:03:29", False), ("13:02:59", True)], ids=["after the grace", "at once"]
)
def test_what_the_agent_killed_because_it_would_not_end_is_no_cause(tmp_path: Path, late: str, culprit: bool) -> None:
    failed = table((1, 1, "13:02:58"), (3, 1, "13:02:58"), (0, -9, late), (2, -15, late))
    found = roots(analysed(tmp_path, {"train.log": steps() + failed}))
    assert (found[0].name == "sigkill-unknown-sender") is culprit
    with_error = roots(analysed(tmp_path, {"train.log": steps() + raised("RuntimeError: HcclReduce failed") + failed}))
    assert with_error[0].name == ("sigkill-unknown-sender" if culprit else "python-exception")


def test_a_warning_of_nccl_is_of_the_only_rank_that_ends_by_it(tmp_path: Path) -> None:
    warns = (
        "worker-2: node2:4411:4620 [3] transport/net_ib.cc:1337 NCCL WARN NET/IB : Got completion from peer "
        "10.12.0.5<51234> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3\n"
    )
    ends = (
        "worker-2: [rank{n}]:[E403 04:31:01.443201110 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {n}] "
        "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network "
        "error, NCCL version 2.21.5\n"
    )
    one = roots(analysed(tmp_path, {"log": steps("worker-1: [rank0]: ") + warns + ends.format(n=11)}))
    assert [(f.name, f.ranks) for f in one] == [("nccl-network-timeout", (11,))]
    two = ends.format(n=11) + ends.format(n=12)
    both = roots(analysed(tmp_path, {"log": steps("worker-1: [rank0]: ") + warns + two}))
    assert both[0].ranks is None


@pytest.mark.parametrize(("clock", "own"), [("04:30:20", True), ("04:31:20", False)])
def test_a_link_that_stopped_after_a_rank_had_died_is_its_effect(tmp_path: Path, clock: str, own: bool) -> None:
    oom = f"[rank3]: 2026-04-03 {clock},000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has\n"
    warns = (
        "[2026-04-03 04:31:00] node2:4411:4620 [0] transport/net_ib.cc:1337 NCCL WARN NET/IB : Got completion from peer "
        "10.12.0.5<51234> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3\n"
    )
    lines = sorted([oom, warns], key=lambda line: line[line.index("04:3") :])
    found = roots(analysed(tmp_path, {"log": steps("[rank0]: ") + "".join(lines)}))
    assert ("nccl-network-timeout" in [f.name for f in found]) is not own and "cuda-oom" in [f.name for f in found]


def test_a_rank_that_its_monitor_killed_had_hung(tmp_path: Path) -> None:
    log = steps() + (
        "[2026-04-03 04:40:21,512] [ERROR] [ft_launcher@node-3] [rank_monitor_server] [RankMonitorServer:global_rank=37 "
        "local_rank=5] Did not get subsequent heartbeat. Waited 600.02 seconds.\n"
        "E0403 04:40:25.001000 412000 nvidia_resiliency_ext/fault_tolerance/launcher.py:601] failed (exitcode: -9) "
        "local_rank: 5 (pid: 412231) of binary: /usr/bin/python\n"
    )
    found = roots(analysed(tmp_path, {"ft.log": log}))
    assert [(f.name, f.ranks) for f in found] == [("rank-heartbeat-lost", (37,))]


def test_a_rank_that_was_killed_before_its_monitor_missed_it_had_not(tmp_path: Path) -> None:
    log = steps() + (
        "E0403 04:30:10.001000 412000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
        "local_rank: 5 (pid: 412231) of binary: /usr/bin/python\n"
        "[2026-04-03 04:40:21,512] [WARNING] [RankMonitorServer:5] Did not get subsequent heartbeat. Waited 600.02 seconds.\n"
    )
    assert roots(analysed(tmp_path, {"ft.log": log}))[0].name == "sigkill-unknown-sender"


LOST = "ConnectionResetError: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize("error", [LOST, "BrokenPipeError: [Errno 32] Broken pipe"])
def test_a_lost_connection_is_the_exception_where_nothing_else_is_told(tmp_path: Path, error: str) -> None:
    root = roots(analysed(tmp_path, {"train.log": steps() + raised(error, "[rank2]: ")}))[0]
    assert (root.name, root.ranks, root.captures["exception"]) == ("python-exception", (2,), error.partition(":")[0])


@pytest.mark.parametrize(
    ("beside", "names"),
    [
        (raised("KeyError: 'x'", "[rank1]: "), {"python-exception"}),
        ("Out of memory: Killed process 4411 (python) total-vm:99120012kB, anon-rss:64012000kB\n", {"host-oom"}),
        (raised(LOST, "[rank3]: "), {"insufficient-evidence"}),
    ],
    ids=["another exception", "a kill", "two ranks"],
)
def test_a_lost_connection_beside_anything_else_is_an_echo(tmp_path: Path, beside: str, names: set[str]) -> None:
    found = roots(analysed(tmp_path, {"train.log": steps() + beside + raised(LOST, "[rank2]: ")}))
    assert {f.name for f in found} == names
    assert all(f.captures.get("exception") != "ConnectionResetError" for f in found)


LINK_DOWN = "Nov 20 10:00:56 node-a kernel: mlx5_core 0000:5d:00.0 eth3: Link down\n"
TIMED_OUT = (
    "[rank{rank}]:[E1120 10:11:40.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=300, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)
PEER_LOST = (
    "[rank{rank}]:[E1120 10:01:40.000000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process "
    "group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error\n"
)
CARD_FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 79 GiB"
)
OUT_OF_RANGE = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "/app/train.py", line 88, in <module>\n'
    "[rank3]: IndexError: list index out of range\n"
)


@pytest.mark.parametrize(
    ("others", "last", "root"),
    [
        (TIMED_OUT, OUT_OF_RANGE, "python-exception"),
        (PEER_LOST, OUT_OF_RANGE, "python-exception"),
        (TIMED_OUT, OUT_OF_RANGE.replace("IndexError: list index out of range", CARD_FULL), "cuda-oom"),
        (PEER_LOST, PEER_LOST.format(rank=3), "ib-link-flap"),
        (PEER_LOST, PEER_LOST.format(rank=3) + OUT_OF_RANGE, "ib-link-flap"),  # the exception may come of the loss
    ],
)
def test_a_port_that_went_down_beside_a_ranks_own_error(tmp_path: Path, others: str, last: str, root: str) -> None:
    for rank in range(4):
        host = f"node-{'ab'[rank // 2]}"
        lines = [f"2026-11-20 09:59:50,000 INFO [rank{rank}] hostname={host} rank={rank} world_size=4\n"]
        lines += [f"2026-11-20 10:00:{n:02},000 INFO [rank{rank}] step {n} loss {2 - n / 90:.3f}\n" for n in range(58)]
        (tmp_path / host).mkdir(exist_ok=True)
        end = last if rank == 3 else others.format(rank=rank)
        (tmp_path / host / f"rank{rank}.log").write_text("".join(lines) + end)
    (tmp_path / "node-a" / "kern.log").write_text(LINK_DOWN)
    assert [f.name for f in analyse([str(tmp_path)]).of_role(Role.ROOT)] == [root]


@pytest.mark.parametrize("host", ["node-a", "node-b"])
def test_a_fault_of_a_host_for_whose_ranks_nobody_waited_stands_behind(tmp_path: Path, host: str) -> None:
    for rank in range(4):
        home = f"node-{'ab'[rank // 2]}"
        lines = [f"2026-11-20 09:59:50,000 INFO [rank{rank}] hostname={home} rank={rank} world_size=4\n"]
        lines += [f"2026-11-20 10:00:{n:02},000 INFO [rank{rank}] step {n} loss {2 - n / 90:.3f}\n" for n in range(58)]
        (tmp_path / home).mkdir(exist_ok=True)
        end = OUT_OF_RANGE.replace("IndexError: list index out of range", CARD_FULL)
        text = "".join(lines) + (end if rank == 3 else TIMED_OUT.format(rank=rank))
        (tmp_path / home / f"rank{rank}.log").write_text(text)
    fault = (
        "Nov 20 10:00:56 {} kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    )
    (tmp_path / host / "kern.log").write_text(fault.format(host))
    names = [f.name for f in analyse([str(tmp_path)]).of_role(Role.ROOT)]
    assert names == (["cuda-oom", "nvlink-fatal-error"] if host == "node-a" else ["nvlink-fatal-error", "cuda-oom"])
