"""What befalls a link is met at both of its ends: the rank that reports it is not of the host whose port went down."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

KERNEL = "2026-11-28T10:22:10.123456+00:00 {} kernel: mlx5_core 0000:18:00.0 ib0: Link down"
INIT = "{0}:4100:4150 [0] NCCL INFO comm 0x5664 rank {1} nranks 4 cudaDev 0 busId 7000 commId 0x9a1b - Init COMPLETE"
FAILED = (
    "[2026-11-28 10:22:30] node-a:4100:4260 [0] transport/net_ib.cc:1297 NCCL WARN NET/IB : Got completion from peer "
    "10.1.0.12<49322> with error 12, opcode 0, len 0, vendor err 129 (Send)"
)


def root(folder: Path, host: str) -> Finding:
    (folder / "kern.log").write_text(KERNEL.format(host) + "\n")
    lines = ["NCCL version 2.18.6+cuda12.1", INIT.format("node-a", 0), INIT.format("node-b", 3), FAILED]
    (folder / "nccl.log").write_text("".join(f"{line}\n" for line in lines))
    return analyse([str(folder)], Options()).of_role(Role.ROOT)[0]


def test_a_port_of_the_other_host_is_not_of_the_rank_that_reports_it(tmp_path: Path) -> None:
    found = root(tmp_path, "node-b")
    assert (found.name, found.ranks, found.node) == ("ib-link-flap", None, "node-b")


def test_a_port_of_the_same_host_is(tmp_path: Path) -> None:
    found = root(tmp_path, "node-a")
    assert (found.name, found.ranks, found.node) == ("ib-link-flap", (0,), "node-a")


def test_nor_of_the_rank_that_torch_ends_at_the_other_end(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(KERNEL.format("node-b") + "\n")
    lines = [
        INIT.format("node-a", 0),
        INIT.format("node-b", 3),
        "[2026-11-28 10:22:30] node-a:4100:4201 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by "
        "remote peer node-b<44312>",
        "[rank0]:[E1128 10:22:33.102334455 ProcessGroupNCCL.cpp:1484] [PG 0 (default_pg) Rank 0] Process group watchdog "
        "thread terminated with exception: NCCL error: remote process exited or there was a network error",
    ]
    (tmp_path / "nccl.log").write_text("".join(f"{line}\n" for line in lines))
    found = analyse([str(tmp_path)], Options()).of_role(Role.ROOT)[0]
    assert (found.name, found.ranks, found.node) == ("ib-link-flap", None, "node-b")


COMPLETION = "{}:4411:4620 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.31.7.22<43118> "
BOOTSTRAP = "{0}:{1}:{1} [0] NCCL INFO Bootstrap : Using eno1:10.31.7.{2}<0>\n"
STEPS = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(50))
NOTED = "Mar  3 04:11:09 {} kernel: {}\n"
OOM = (
    "Out of memory: Killed process {} (python) total-vm:91231231kB, anon-rss:61231231kB, file-rss:0kB, shmem-rss:0kB, "
    "UID:1004 pgtables:123123kB oom_score_adj:0"
)
XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
CLOSED = "{}:4411:4620 [0] misc/socket.cc:58 NCCL WARN Call to recv failed : Connection reset by peer\n"


def on_two(folder: Path, hosts: tuple[str, str], message: str, at: str, last: str = COMPLETION) -> Finding:
    """The first root of two ranks, one on each of two hosts, of which the first one reports the other lost."""
    (folder / "kern.log").write_text(NOTED.format(at, message))
    last = last.format(hosts[0]) + "with status=12 opcode=0 len=0 vendor err 129 (Recv)\n" * (last == COMPLETION)
    (folder / "rank0.log").write_text(BOOTSTRAP.format(hosts[0], 4411, 21) + STEPS + last)
    (folder / "rank1.log").write_text(BOOTSTRAP.format(hosts[1], 4977, 22) + STEPS)
    return analyse([str(folder)], Options()).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("hosts", [("alder", "birch"), ("cn041", "cn042"), ("alder", "cn042")])
def test_hosts_whose_names_follow_no_scheme_are_two_where_a_rank_is_on_each(
    tmp_path: Path, hosts: tuple[str, str]
) -> None:
    found = on_two(tmp_path, hosts, "mlx5_core 0000:3b:00.0 ib0: Link down", hosts[1])
    assert (found.name, found.ranks, found.node) == ("ib-link-flap", (1,), hosts[1])


def test_what_befalls_the_host_of_one_rank_alone_befalls_that_rank(tmp_path: Path) -> None:
    found = on_two(tmp_path, ("alder", "birch"), XID, "birch", CLOSED)
    assert (found.name, found.ranks, found.node) == ("gpu-fell-off-bus", (1,), "birch")


def test_what_befalls_a_host_of_several_ranks_names_none_of_them(tmp_path: Path) -> None:
    for rank, pid in ((2, 5100), (3, 5101)):
        host = ("alder", "birch")[rank % 2]
        (tmp_path / f"rank{rank}.log").write_text(BOOTSTRAP.format(host, pid, 21 + rank % 2) + STEPS)
    found = on_two(tmp_path, ("alder", "birch"), XID, "birch", CLOSED)
    assert (found.name, found.ranks, found.node) == ("gpu-fell-off-bus", None, "birch")


@pytest.mark.parametrize("hosts", [("alder", "birch"), ("cn041", "cn042")])
def test_a_process_that_nccls_lines_name_in_a_ranks_log_is_that_rank(tmp_path: Path, hosts: tuple[str, str]) -> None:
    (tmp_path / "rank2.log").write_text(BOOTSTRAP.format(hosts[1], 5100, 22) + STEPS)
    found = on_two(tmp_path, hosts, OOM.format(4977), hosts[1], CLOSED)
    assert (found.name, found.ranks, found.node) == ("host-oom", (1,), hosts[1])


def test_one_of_several_processes_of_a_log_is_not(tmp_path: Path) -> None:
    (tmp_path / "rank2.log").write_text(
        BOOTSTRAP.format("birch", 5100, 22) + BOOTSTRAP.format("birch", 5101, 22) + STEPS
    )
    found = on_two(tmp_path, ("alder", "birch"), OOM.format(5101), "birch", CLOSED)
    assert (found.name, found.ranks, found.node) == ("host-oom", None, "birch")


MODIFY_QP = (
    "node-b:4411:{} [3] misc/ibvwrap.cc:300 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n"
)
PORT_ERROR = "node-b:4411:4619 [3] transport/net_ib.cc:103 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n"


@pytest.mark.parametrize("flapped", [True, False])
def test_a_peer_that_is_not_reached_below_a_port_that_went_down_follows_from_it(tmp_path: Path, flapped: bool) -> None:
    steps = "".join(f"node-b rank 16 step {n}0 loss 1.{99 - n}\n" for n in range(40))
    (tmp_path / "node-b.log").write_text(steps + PORT_ERROR * flapped + MODIFY_QP.format(4620))
    found = analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)
    assert [f.name for f in found] == ["ib-link-flap" if flapped else "nccl-connect-failed"]
