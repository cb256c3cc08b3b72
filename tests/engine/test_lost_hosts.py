"""Of two hosts, the one that falls silent is where to look, and not the one whose ranks report that they lost it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

CLOSED = "{host}:10{rank}:20{rank} [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer {far}<4000>"
RETRIES = (
    "{host}:10{rank}:20{rank} [0] transport/net_ib.cc:1297 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5102> with "
    "status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0"
)
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:41234"
AWAKE = "".join(f"2026-05-14 10:03:{s:02},000 INFO [rank{{rank}}] step {s + 20} loss 1.5\n" for s in range(20))


def root(folder: Path, near: str, far: str = "", reporting: tuple[int, ...] = (0, 1, 2, 3)) -> Finding:
    """Ranks 0-3 on node-a end with `near`, if they report; ranks 4-7 on node-b with `far`."""
    for rank in range(8):
        host, other = ("node-a", "node-b") if rank < 4 else ("node-b", "node-a")
        words = (near if rank in reporting else "") if rank < 4 else far
        (folder / host).mkdir(exist_ok=True)
        steps = "".join(
            f"2026-05-14 10:00:{n:02},000 INFO [rank{rank}] step {n} loss {2 - n / 50:.3f}\n" for n in range(20)
        )
        head = f"2026-05-14 09:59:50,000 INFO [rank{rank}] host={host} world_size=8\n"
        (folder / host / f"rank{rank}.log").write_text(
            f"{head}{steps}{words.format(host=host, far=other, rank=rank)}\n"
        )
    return analyse([str(folder)]).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("words", [CLOSED, RETRIES, GLOO])
def test_the_host_that_falls_silent_is_where_to_look(tmp_path: Path, words: str) -> None:
    found = root(tmp_path, words)
    assert (found.node, found.ranks) == ("node-b", None)
    assert any("the logs of node-b end without a word" in note for note in found.notes)


@pytest.mark.parametrize(
    "far",
    [AWAKE, CLOSED],
    ids=["it goes on", "it lost the other as well"],
)
def test_a_host_that_speaks_is_not_proven(tmp_path: Path, far: str) -> None:
    assert root(tmp_path, CLOSED, far).node is None


def test_nor_is_it_where_some_of_the_others_say_nothing(tmp_path: Path) -> None:
    assert root(tmp_path, CLOSED, reporting=(0, 1)).node != "node-b"


REMOTE = (
    "[rank{rank}]:[E514 10:01:40.000000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process "
    "group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error\n"
)


@pytest.mark.parametrize(("minute", "roots"), [(5, ["node-failure"]), (40, ["node-failure", "nccl-remote-error"])])
def test_that_ranks_lost_a_host_follows_from_its_end_which_is_noticed_later(
    tmp_path: Path, minute: int, roots: list[str]
) -> None:
    head = "".join(
        f"2026-05-14 09:59:50,000 INFO [rank{rank}] hostname=node-{'ab'[rank // 2]} rank={rank} world_size=4\n"
        for rank in range(4)
    )
    steps = "".join(f"2026-05-14 10:00:{n:02},000 INFO [rank0] step {n} loss {2 - n / 50:.3f}\n" for n in range(20))
    down = (
        f"slurmstepd: error: *** STEP 7.0 ON node-a CANCELLED AT 2026-05-14T10:{minute:02}:00 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG FOR DETAILS ***\nsrun: error: Node failure on node-b\n"
    )
    (tmp_path / "slurm-7.out").write_text(head + steps + "".join(REMOTE.format(rank=rank) for rank in (0, 1)) + down)
    assert [f.name for f in analyse([str(tmp_path)]).of_role(Role.ROOT)] == roots


def of_several(folder: Path, peers: str = "222", silent: str = "") -> Finding:
    """Hosts a, b and d report an address each, of which nothing says whose it is; the log of host c ends before."""
    for n, name in enumerate("abcd"):
        head = f"2026-05-14 09:59:50,000 INFO torchrun --nnodes 4 --node_rank {n} --nproc_per_node 2\n"
        steps = "".join(
            f"2026-05-14 10:00:{s:02},000 INFO rank {2 * n} step {s} loss {2 - s / 50:.3f}\n" for s in range(20)
        )
        warned = "".join(
            f"hn{name}:10{local}:20{local} [{local}] transport/net_ib.cc:1360 NCCL WARN NET/IB : Got completion from peer "
            f"192.0.2.{peers['abd'.index(name)]}<39111> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_{local}\n"
            for local in range(2)
            if name != "c"
        )
        (folder / f"node{n}").mkdir()
        (folder / f"node{n}" / "train.log").write_text(head + steps + (silent if name == "c" else warned))
    return analyse([str(folder)]).of_role(Role.ROOT)[0]


def test_several_hosts_that_name_one_address_lost_the_silent_one(tmp_path: Path) -> None:
    found = of_several(tmp_path)
    assert (found.name, found.node, found.devices) == ("nccl-network-timeout", "node2", None)
    assert any("the logs of node2 end without a word" in note for note in found.notes)


@pytest.mark.parametrize(
    ("peers", "silent"),
    [
        ("223", ""),
        (
            "222",
            "2026-05-14 10:00:21,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        ),
    ],
    ids=["two addresses", "it has words of its own"],
)
def test_else_none_of_several_hosts_is_named(tmp_path: Path, peers: str, silent: str) -> None:
    assert not any("end without a word" in note for note in of_several(tmp_path, peers, silent).notes)


ENDED = (
    "[rank{rank}]:[E514 10:01:40.000000000 ProcessGroupNCCL.cpp:552] [Rank {rank}] Collective WorkNCCL(SeqNum=80, "
    "OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) raised the following async exception: NCCL error: "
    "remote process exited or there was a network error, NCCL version 2.21.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\nsocketProgress: Connection closed by remote peer {peer}<4411>\n"
)


@pytest.mark.parametrize(
    ("peer", "far", "node"),
    [("hn1", "", "hn1"), ("192.0.2.9", "", "hn1"), ("hn7", "", None), ("hn1", AWAKE.format(rank=8), None)],
    ids=["name", "address", "of no log", "it goes on"],
)
def test_several_hosts_whose_last_error_names_the_silent_one(
    tmp_path: Path, peer: str, far: str, node: str | None
) -> None:
    for n in range(3):
        steps = "".join(
            f"2026-05-14T10:00:{s:02}.000000Z hn{n} rank {8 * n} step {s} loss {2 - s / 50:.3f}\n" for s in range(20)
        )
        (tmp_path / f"hn{n}.log").write_text(steps + (far if n == 1 else ENDED.format(rank=8 * n, peer=peer)))
    found = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (found.name, found.node) == ("nccl-remote-error", node)


def test_the_process_that_jax_lost_is_the_one_that_does_not_say_so(tmp_path: Path) -> None:
    ended = (
        "F0514 10:02:48.100000 140001 client.h:80] Terminating process because the JAX distributed service detected "
        "fatal errors. This most likely indicates that another task died; see the other task logs for more details. "
        "absl::Status: INTERNAL: Heartbeat timeout\n"
    )
    for lost, folder in (((2,), tmp_path / "one"), ((1, 2), tmp_path / "two")):
        folder.mkdir()
        for rank in range(4):
            text = f"I0514 10:00:06.000000 140001 train.py:20] JAX process: {rank} / 4\n" + "".join(
                f"I0514 10:00:{10 + n}.000000 140001 train.py:33] step {n} loss {2.5 - n / 100:.4f}\n"
                for n in range(30)
            )
            (folder / f"process_{rank}.log").write_text(text + ("" if rank in lost else ended))
        found = analyse([str(folder)]).of_role(Role.ROOT)[0]
        assert (found.name, found.ranks) == ("jax-task-lost", lost if len(lost) == 1 else None)


AGENT = (
    "E0514 10:01:42.000000 4000 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) {who}"
)
KERNEL = (
    "[Thu May 14 10:01:38 2026] Out of memory: Killed process 5103 (python) total-vm:250000000kB, anon-rss:210000000kB, "
    "file-rss:90000kB, shmem-rss:20000kB, UID:1000 pgtables:410000kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(("kernel", "root"), [(KERNEL, "host-oom"), ("", "sigkill-unknown-sender")])
def test_a_process_that_was_killed_is_one_rank_of_the_host_that_others_lost(
    tmp_path: Path, kernel: str, root: str
) -> None:
    for n, host in enumerate(("node-a", "node-b", "node-c")):
        text = ""
        for rank in range(4 * n, 4 * n + 4):
            text += f"[rank{rank}] 2026-05-14 09:59:50,000 INFO hostname={host} rank={rank} world_size=12\n"
            text += "".join(
                f"[rank{rank}] 2026-05-14 10:00:{s:02},000 INFO step {s} loss {2 - s / 50:.3f}\n" for s in range(20)
            )
            text += REMOTE.format(rank=rank) if n != 1 else ""
        code, who = (-9, "local_rank: 2 (pid: 5103)") if n == 1 else (-6, "local_rank: 0 (pid: 5100)")
        (tmp_path / f"{host}.log").write_text(text + AGENT.format(code=code, who=who) + " of binary: /usr/bin/python\n")
    if kernel:
        (tmp_path / "node-b.dmesg").write_text(kernel)
    found = analyse([str(tmp_path)]).of_role(Role.ROOT)[0]
    assert (found.name, found.node, found.ranks) == (root, "node-b", (6,))


def test_a_host_whose_ranks_say_that_they_are_done_is_not_lost(tmp_path: Path) -> None:
    assert root(tmp_path, REMOTE, "2026-05-14 10:00:30,000 INFO [rank{rank}] training finished").node != "node-b"


@pytest.mark.parametrize(("warned", "verdict"), [(31, "interrupted"), (None, "hung")])
def test_a_stop_that_warned_the_processes_comes_before_what_they_lose_by_it(
    tmp_path: Path, warned: int | None, verdict: str
) -> None:
    for rank in range(4):
        text = f"[rank{rank}] 2026-05-14 09:59:50,000 INFO hostname=node-a rank={rank} world_size=4\n"
        text += "".join(
            f"[rank{rank}] 2026-05-14 10:01:{s:02},000 INFO step {s} loss {2 - s / 50:.3f}\n" for s in range(30)
        )
        if warned is not None:
            text += f"[rank{rank}] 2026-05-14 10:01:{warned},000 WARNING received SIGTERM, saving checkpoint\n"
        (tmp_path / f"rank{rank}.log").write_text(text + (REMOTE.format(rank=rank) if rank else ""))
    (tmp_path / "slurm-55.out").write_text(
        "slurmstepd: error: *** JOB 55 ON node-a CANCELLED AT 2026-05-14T10:03:00 DUE TO PREEMPTION ***\n"
    )
    assert analyse([str(tmp_path)]).verdict.value == verdict
