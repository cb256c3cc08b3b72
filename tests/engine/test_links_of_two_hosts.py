"""What befalls a link is met at both of its ends: the rank that reports it is not of the host whose port went down."""

from __future__ import annotations

from pathlib import Path

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
