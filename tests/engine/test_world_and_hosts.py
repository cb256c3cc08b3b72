"""How many processes a run has, and on which host a root is, as far as anything says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis

RAISED = "Traceback (most recent call last):\n  File \"/w/train.py\", line 31, in step\n    f(batch)\nKeyError: 'x'\n"


def analysed(folder: Path, files: dict[str, str]) -> Diagnosis:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def steps(prefix: str = "") -> str:
    return "".join(f"{prefix}2026-11-20 03:{m:02d}:00 INFO step {m} loss {2 - m / 99:.3f}\n" for m in range(20))


def behind(label: str, text: str) -> str:
    return "".join(f"{label}{line}\n" for line in text.splitlines())


def test_the_highest_rank_that_was_seen_is_no_world_size(tmp_path: Path) -> None:
    log = steps("[rank0]: ") + behind("[rank5]: ", RAISED)
    run = analysed(tmp_path, {"job.log": log})
    assert run.findings[0].ranks == (5,)
    assert run.run.world_size is None


def test_a_rank_of_each_number_is_a_world_size(tmp_path: Path) -> None:
    files = {f"rank{n}.log": steps() for n in range(4)}
    files["rank2.log"] += RAISED
    assert analysed(tmp_path, files).run.world_size == 4


@pytest.mark.parametrize("line", ["0: world_size=16", "0: 2026-11-20 03:00:00 world_size=16 nnodes=2"])
def test_a_printed_world_size_counts(tmp_path: Path, line: str) -> None:
    log = f"{line}\n" + steps("0: ") + behind("9: ", RAISED)
    run = analysed(tmp_path, {"slurm-9.out": log})
    assert (run.run.world_size, run.findings[0].ranks) == (16, (9,))


def test_tasks_of_which_srun_tells_take_part(tmp_path: Path) -> None:
    log = steps("0: ") + behind("3: ", RAISED)
    log += "srun: error: n1: task 3: Exited with exit code 1\nsrun: error: n1: tasks 0-2: Terminated\n"
    log += "srun: error: n2: tasks 4-7: Terminated\n"
    assert analysed(tmp_path, {"slurm-9.out": log}).run.world_size == 8


def test_tasks_of_a_launcher_on_each_host_are_no_ranks(tmp_path: Path) -> None:
    """srun starts torchrun once a host: task 1 of a world of 16 is no rank 1."""
    table = (
        "ChildFailedError: \n[1]:\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 71)\n  error_file: <N/A>\n"
    )
    failed = "E1120 03:20:01.000 70 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 71) of binary: /usr/bin/python\n"
    log = "0: world_size=16\n" + steps("0: ") + behind("1: ", RAISED + failed + table)
    assert analysed(tmp_path, {"slurm-9.out": log}).findings[0].ranks != (1,)


@pytest.mark.parametrize(
    "announced", ["rank {n}/4 host=edge-{n} backend gloo", "rank {n} of 4 on edge-{n} (10.1.0.5), backend gloo"]
)
def test_a_rank_that_announces_itself_with_its_host_writes_the_whole_file(tmp_path: Path, announced: str) -> None:
    files = {f"site-{'abcd'[n]}.log": f"INFO {announced.format(n=n)}\n" + steps() for n in range(4)}
    files["site-c.log"] += RAISED
    root = analysed(tmp_path, files).findings[0]
    assert (root.name, root.ranks, root.node) == ("python-exception", (2,), "edge-2")


def test_a_device_is_no_host(tmp_path: Path) -> None:
    files = {f"site-{'ab'[n]}.log": f"INFO rank {n}/2 on cuda:{n}\n" + steps() for n in range(2)}
    files["site-b.log"] += RAISED
    root = analysed(tmp_path, files).findings[0]
    assert (root.ranks, root.node) == ((1,), None)


@pytest.mark.parametrize(("hosts", "node"), [("8*cmp042", "cmp042"), ("4*cmp042:4*cmp043", None)])
def test_a_job_of_one_host_fails_on_it(tmp_path: Path, hosts: str, node: str | None) -> None:
    log = steps() + (
        f"Job was executed on host(s) <{hosts}>, in queue <gpu>, as user <u> in cluster <c> at Fri Nov  6 10:00:31 2026\n"
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 130.\n"
    )
    root = analysed(tmp_path, {"lsf.1.out": log}).findings[0]
    assert (root.name, root.node) == ("host-oom-cgroup", node)


def test_the_host_of_all_local_ranks_is_that_of_the_root(tmp_path: Path) -> None:
    log = "[default0]:Running on host dl-box3\n" + steps("[default0]:") + behind("[default1]:", RAISED)
    assert analysed(tmp_path, {"run.log": log}).findings[0].node == "dl-box3"


def test_a_file_named_after_a_pod_is_of_the_host_that_its_lines_name(tmp_path: Path) -> None:
    files = {}
    for n in range(3):
        init = f"ft-worker-{n}:1:9 [0] NCCL INFO comm 0x55d{n} rank {n} nranks 3 cudaDev 0 busId 1b000 commId 0x7fa1 - Init COMPLETE\n"
        files[f"ft-worker-{n}.log"] = init + steps()
    files["ft-worker-1.log"] += RAISED
    run = analysed(tmp_path, files)
    assert (run.findings[0].node, run.run.nodes) == ("ft-worker-1", 3)


def test_workers_that_are_numbered_through_the_folders_of_hosts_are_ranks(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"n{'ab'[n // 2]}01").mkdir(exist_ok=True)
    files = {f"n{'ab'[n // 2]}01/worker{n}.log": steps() for n in range(4)}
    files["nb01/worker3.log"] += RAISED
    run = analysed(tmp_path, files)
    assert (run.findings[0].ranks, run.findings[0].node, run.run.world_size, run.run.nodes) == ((3,), "nb01", 4, 2)


def test_the_same_numbers_in_the_folders_of_hosts_are_no_ranks(tmp_path: Path) -> None:
    for host in ("na01", "nb01"):
        (tmp_path / host).mkdir()
    files = {f"n{'ab'[n // 2]}01/worker{n % 2}.log": steps() for n in range(4)}
    files["nb01/worker1.log"] += RAISED
    assert analysed(tmp_path, files).findings[0].ranks is None


def test_hosts_of_ranks_in_json_records(tmp_path: Path) -> None:
    record = '{{"ts":"2026-11-25T02:{m:02d}:00Z","rank":{r},"host":"p5-0{h}","step":{m},"loss":{loss}}}\n'
    rows = [
        record.format(m=m, r=r, h=r // 2, loss="NaN" if m > 20 and (r == 3 or m > 22) else 3.1 - m / 50)
        for m in range(30)
        for r in range(4)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(rows))
    run = analyse([str(tmp_path)], Options(threads=1))
    assert (run.findings[0].ranks, run.findings[0].node, run.run.nodes) == ((3,), "p5-01", 2)


@pytest.mark.parametrize(("first", "second"), [("hgx11", "hgx12"), ("gn-011", "gn-012"), ("gpu11", "gpu12")])
def test_logs_that_are_called_as_machines_are_of_hosts(tmp_path: Path, first: str, second: str) -> None:
    files = {f"{first}.log": steps(), f"{second}.log": steps() + RAISED}
    assert analysed(tmp_path, files).findings[0].node == second


@pytest.mark.parametrize(
    ("first", "second"), [("gpu00", "gpu01"), ("hgx1", "hgx2"), ("bert11", "bert12"), ("gn16", "gn32")]
)
def test_names_of_cards_and_of_anything_else_are_no_hosts(tmp_path: Path, first: str, second: str) -> None:
    files = {f"{first}.log": steps(), f"{second}.log": steps() + RAISED}
    assert analysed(tmp_path, files).findings[0].node is None


def test_a_process_says_which_of_its_hosts_local_ranks_it_is(tmp_path: Path) -> None:
    files = {f"r{g}.log": f"starting on g{g:02d} (local rank 0/8, world 16)\n" + steps() for g in range(2)}
    files["r1.log"] += RAISED
    run = analysed(tmp_path, files)
    found = run.findings[0]
    assert (found.node, found.ranks, found.local_ranks, run.run.world_size) == ("g01", None, (0,), 16)


def test_a_program_prints_the_card_of_each_rank(tmp_path: Path) -> None:
    told = "".join(f"rank {r} on n{1 + r // 4}, GPU bus id 0000:{r % 4 + 1}b:00.0\n" for r in range(16))
    lost = "n3: [12345.678901] NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.\n"
    found = analysed(tmp_path, {"o.log": told + steps(), "x.txt": lost}).findings[0]
    assert (found.name, found.node, found.ranks) == ("gpu-fell-off-bus", "n3", (9,))


def test_the_logs_of_paddles_launcher_are_of_local_ranks(tmp_path: Path) -> None:
    files = {f"workerlog.{n}": steps() for n in range(4)}
    files["workerlog.2"] += RAISED
    assert analysed(tmp_path, files).findings[0].ranks == (2,)


AGENT_STOPPED = (
    "W1120 03:20:03.100000 50 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, "
    "shutting down workers\n"
)


@pytest.mark.parametrize(
    ("folders", "host", "node"),
    [
        (("h0", "h1"), "h0", "h1"),
        (("h0", "h1"), "h0.lab.org", "h1"),
        (("runs0", "runs1"), "h0", None),  # the host has another name than its folder: these are none
    ],
)
def test_a_folder_that_its_launcher_calls_its_host_tells_that_others_are_hosts(
    tmp_path: Path, folders: tuple[str, str], host: str, node: str | None
) -> None:
    table = f"[0]:\n  time      : 2026-11-20_03:20:08\n  host      : {host}\n  rank      : 0 (local_rank: 0)\n"
    table += "  exitcode  : 1 (pid: 71)\n  error_file: <N/A>\n"
    for folder in folders:
        (tmp_path / folder).mkdir()
    files = {f"{folders[0]}/agent.log": steps() + table, f"{folders[1]}/agent.log": AGENT_STOPPED}
    found = analysed(tmp_path, files).findings[0]
    assert (found.name, found.node) == ("external-sigterm", node)


LOST = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote process exited or there was a "
    "network error, NCCL version 2.21.5\n"
)


@pytest.mark.parametrize(("lost", "ranks"), [((0, 1, 3), (2,)), ((0, 1), None), ((0, 1, 2, 3), None)])
def test_an_error_without_a_rank_is_of_the_only_one_that_lost_no_peer(
    tmp_path: Path, lost: tuple[int, ...], ranks: tuple[int, ...] | None
) -> None:
    log = "".join(steps(f"[rank{n}]: ") for n in range(4)) + RAISED + "".join(f"[rank{n}]: {LOST}" for n in lost)
    found = analysed(tmp_path, {"job.log": log}).findings[0]
    assert (found.name, found.ranks) == ("python-exception", ranks)


DESCRIBED = """Name:         {pod}
Namespace:    infra
Node:         pool-2/10.1.0.2
Status:       Failed
Containers:
  main:
    State:          Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""


@pytest.mark.parametrize("pod", ["redis-0", "train-worker-2"])
def test_where_a_pod_runs_is_no_host_more(tmp_path: Path, pod: str) -> None:
    files = {f"train-worker-{n}.log": f"rank {n} of world size 4\n" + steps() for n in range(4)}
    files["train-worker-2.log"] += RAISED
    assert analysed(tmp_path, files | {"describe.txt": DESCRIBED.format(pod=pod)}).run.nodes == 4
