"""Hosts and ranks that only names of files bear."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.named import host_in
from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Finding, Role

STEPS = "".join(f"step {n} loss {2 - n / 100:.3f}\n" for n in range(20))
ERROR = 'Traceback (most recent call last):\n  File "/w/train.py", line 7, in <module>\n    main()\nValueError: bad\n'
FALLEN = (
    "[ 1000.000000] usb 1-1: new high-speed USB device\n"
    "[ 1234.567890] NVRM: Xid (PCI:0000:1c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_log", ".log")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def root(diagnosis: Diagnosis) -> Finding:
    (found,) = diagnosis.of_role(Role.ROOT)
    return found


def two_hosts(folder: Path, kernel_log: str, text: str = FALLEN) -> Path:
    """Ranks 0 and 1 on node-a, 2 and 3 on node-b: the same bus ids and pids on both."""
    for rank in range(4):
        host, device = "node-a" if rank < 2 else "node-b", rank % 2
        head = f"{host}:{700 + device}:{700 + device} [{device}] NCCL INFO "
        birth = f"comm 0x55{rank}0 rank {rank} nranks 4 cudaDev {device} nvmlDev {device} busId {0x1B + device:x}000"
        (folder / f"rank{rank}.log").write_text(f"{head}{birth} commId 0xabc - Init COMPLETE\n{STEPS}")
    end = "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error\n"
    (folder / "rank0.log").write_text((folder / "rank0.log").read_text() + end)
    (folder / kernel_log).parent.mkdir(exist_ok=True)
    (folder / kernel_log).write_text(text)
    return folder


@pytest.mark.parametrize(
    "name",
    ["dmesg-node-b.txt", "node-b.dmesg", "node-b/dmesg.log", "journal-node-b.txt", "k/dmesg_node-b.corp.example.log"],
)
def test_a_kernel_log_is_of_the_host_that_its_path_names(tmp_path: Path, name: str) -> None:
    found = root(analyse([str(two_hosts(tmp_path, name))]))
    assert (found.name, found.ranks, found.node) == ("gpu-fell-off-bus", (3,), "node-b")


def test_a_process_of_that_host_is_the_rank_with_its_pid(tmp_path: Path) -> None:
    killed = (
        "[ 1234.567890] Out of memory: Killed process 701 (python) total-vm:250000000kB, anon-rss:210000000kB, "
        "file-rss:90000kB, shmem-rss:20000kB, UID:1000 pgtables:410000kB oom_score_adj:0\n"
    )
    found = root(analyse([str(two_hosts(tmp_path, "dmesg-node-b.txt", killed))]))
    assert (found.name, found.ranks, found.node) == ("host-oom", (3,), "node-b")


@pytest.mark.parametrize("name", ["dmesg.txt", "dmesg-after.txt", "dmesg-node-bb.txt"])
def test_a_kernel_log_of_no_known_host_names_no_rank(tmp_path: Path, name: str) -> None:
    found = root(analyse([str(two_hosts(tmp_path, name))]))
    assert (found.name, found.ranks) == ("gpu-fell-off-bus", None)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("node-k3.dmesg", "node-k3"),
        ("node-k3/dmesg.txt", "node-k3"),
        ("host_ab12/dmesg.txt", "host_ab12"),
        ("dmesg.txt", None),
        ("node-v2/dmesg.txt", None),
    ],
)
def test_the_rank_whose_worker_the_kernel_killed_is_on_its_host(tmp_path: Path, name: str, node: str | None) -> None:
    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_text("".join(f"[rank{rank}] {line}\n" for line in STEPS.splitlines()))
    lost = "[rank1]: RuntimeError: DataLoader worker (pid 8123) is killed by signal: Killed. \n"
    head = "[rank1]: Traceback (most recent call last):\n"
    (tmp_path / "rank_1.log").write_text((tmp_path / "rank_1.log").read_text() + head + lost)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(
        "[ 9120.118201] Memory cgroup out of memory: Killed process 8123 (pt_data_worker) total-vm:92334112kB, "
        "anon-rss:60993120kB, file-rss:1200kB, shmem-rss:120kB, UID:0 pgtables:120000kB oom_score_adj:0\n"
    )
    found = root(analyse([str(tmp_path)]))
    assert (found.name, found.ranks, found.node) == ("host-oom-cgroup", (1,), node)


def test_what_the_kernel_calls_its_host_counts_more_than_the_name_of_the_file(tmp_path: Path) -> None:
    text = FALLEN.replace("[ 1234", "May  2 15:01:30 node-a kernel: [ 1234")
    found = root(analyse([str(two_hosts(tmp_path, "dmesg-node-b.txt", text))]))
    assert (found.ranks, found.node) == ((1,), "node-a")


@pytest.mark.parametrize(
    ("path", "hosts", "host"),
    [
        ("dmesg-gpu17.txt", ["gpu17.cluster", "gpu1"], "gpu17.cluster"),
        ("dmesg-node-1-2.txt", ["node-1", "node-1-2"], "node-1-2"),
        ("logs/gpu1/dmesg.log", ["gpu17"], None),
        ("dmesg.log", ["log", "dmesg"], None),
        ("dmesg-node-c.txt", [], "node-c"),
        ("dmesg-node-count.txt", [], None),
        ("dmesg-gn12.txt", [], "gn12"),
        ("evidence/cn-0113_dmesg.log", [], "cn-0113"),
        ("dmesg-gn12.txt", ["gn1"], "gn12"),
        ("dmesg-run2.txt", [], None),
        ("dmesg-xid79.txt", [], None),
        ("kern.log.1", [], None),
        ("gpu1-gpu2-dmesg.txt", ["gpu1", "gpu2"], None),
    ],
)
def test_hosts_in_paths(path: str, hosts: list[str], host: str | None) -> None:
    assert host_in(path, hosts) == host


@pytest.mark.parametrize("name", ["worker_{}.log", "worker-{}.out", "trainer_{}.txt"])
def test_workers_of_one_folder_are_ranks(tmp_path: Path, name: str) -> None:
    for rank in range(4):
        (tmp_path / name.format(rank)).write_text(STEPS + (ERROR if rank == 3 else ""))
    diagnosis = analyse([str(tmp_path)])
    assert (root(diagnosis).ranks, root(diagnosis).node) == ((3,), None)
    assert {(c.rank, c.node) for c in diagnosis.coverage} == {(n, None) for n in range(4)}


def test_a_stated_world_of_that_size_agrees(tmp_path: Path) -> None:
    for rank in range(2):
        text = f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/2\n{STEPS}"
        (tmp_path / f"worker-{rank}.log").write_text(text + (ERROR if rank else ""))
    assert root(analyse([str(tmp_path)])).ranks == (1,)


def names_of(folder: Path) -> tuple[tuple[int, ...] | None, str | None]:
    found = root(analyse([str(folder)]))
    return found.ranks, found.node


def test_folders_of_workers_stay_nodes(tmp_path: Path) -> None:
    files = {f"worker-{n}__stdout_log": STEPS + (ERROR if n == 1 else "") for n in range(3)}
    assert names_of(written(tmp_path, **files)) == (None, "worker-1")


def test_a_worker_with_several_ranks_is_a_node(tmp_path: Path) -> None:
    lines = "".join(f"[rank{{}}]: step {n} loss 2.{n}\n" for n in range(9))
    files = {f"worker-{n}_log": lines.format(*[2 * n] * 9) + lines.format(*[2 * n + 1] * 9) for n in range(2)}
    files["worker-1_log"] += ERROR
    assert names_of(written(tmp_path, **files)) == (None, "worker-1")


def test_a_larger_world_makes_workers_nodes(tmp_path: Path) -> None:
    files = {f"worker-{n}_log": f"world_size: 16\nWORLD_SIZE=16\n{STEPS}" + (ERROR if n else "") for n in range(2)}
    files["worker-0_log"] = "torchrun: WORLD_SIZE=16\nInitializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16\n" + STEPS
    assert names_of(written(tmp_path, **files)) == (None, "worker-1")


@pytest.mark.parametrize("other", ["master-0_log", "launcher_log", "rank0_log", "train-master-0_log"])
def test_other_processes_beside_them_leave_workers_what_they_are(tmp_path: Path, other: str) -> None:
    files = {f"worker-{n}_log": STEPS + (ERROR if n == 1 else "") for n in range(3)}
    assert names_of(written(tmp_path, **files, **{other: STEPS})) == (None, "worker-1")


def test_a_gap_in_the_numbers_leaves_workers_what_they_are(tmp_path: Path) -> None:
    files = {f"worker-{n}_log": STEPS + (ERROR if n == 1 else "") for n in (1, 2, 3)}
    assert names_of(written(tmp_path, **files)) == (None, "worker-1")


OOM = "step 20 loss 2.0\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("metadata", "node"),
    [('{"host": "gpu-a02", "gpu_count": 8}', "gpu-a02"), ('{"host": "localhost"}', None), ('{"host"', None)],
)
def test_what_wandb_kept_of_the_output_is_of_the_host_that_it_names(
    tmp_path: Path, metadata: str, node: str | None
) -> None:
    files = tmp_path / "wandb" / "run-20260302_100000-ab12cd" / "files"
    files.mkdir(parents=True)
    (files / "wandb-metadata.json").write_text(metadata)
    (files / "output.log").write_text(OOM)
    assert root(analyse([str(tmp_path)])).node == node


def test_a_host_that_the_output_itself_names_counts_more(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "wandb-metadata.json").write_text('{"host": "login-1"}')
    (files / "output.log").write_text(OOM.replace("torch.Out", "(Worker pid=7, ip=192.0.2.6) torch.Out"))
    assert root(analyse([str(tmp_path)])).node == "192.0.2.6"


@pytest.mark.parametrize(
    ("variable", "node"),
    [("HOSTNAME=lora-worker-1", "lora-worker-1"), ("HOSTNAME=other-worker-7", "worker-1"), ("", "worker-1")],
)
def test_a_pod_is_called_as_its_environment_says(tmp_path: Path, variable: str, node: str) -> None:
    for n in range(2):
        own = variable.replace("worker-1", f"worker-{n}")
        text = f"RANK={n}\nWORLD_SIZE=2\n{own}\n{STEPS}{ERROR if n == 1 else ''}"
        (tmp_path / f"lora-worker-{n}.log").write_text(text)
    assert root(analyse([str(tmp_path)])).node == node


TABLE = """\
[rank{0}]: 2026-11-27 10:00:01,110 INFO train: step 10 loss 2.31
[rank{0}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
E1127 10:00:09.000000 90 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: {1} (pid: 41)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_10:00:09
  host      : {2}
  rank      : {0} (local_rank: {1})
  exitcode  : 1 (pid: 41)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""


@pytest.mark.parametrize(
    ("host", "beside", "expected"),
    [
        ("gpu-b1", "", "gpu-b1"),
        ("localhost", "", "node1"),
        ("gpu-b1", "srun: error: node1: task 1: Exited with exit code 1\n", "node1"),  # a host that goes by that name
    ],
)
def test_a_log_called_otherwise_than_the_host_in_its_table_is_of_that(
    tmp_path: Path, host: str, beside: str, expected: str
) -> None:
    for n, name in ((0, "gpu-b0"), (1, host)):
        lines = "".join(f"[rank{4 * n + r}]: 2026-11-27 10:00:00,{r}10 INFO train: step 0\n" for r in range(4))
        (tmp_path / f"node{n}.log").write_text(lines + (TABLE.format(5, 1, name) if n else ""))
    if beside:
        (tmp_path / "job.err").write_text(beside)
    sources = analyse([str(tmp_path)]).coverage
    assert {c.path: c.node for c in sources}["node1.log"] == expected
