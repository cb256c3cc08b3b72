"""The host that several others name as the far end of what broke is the one to look at, and they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

HOSTS = ("gpu-a", "gpu-b", "gpu-c", "gpu-d")
RETRIES = "NET/IB : Got completion from peer {}<5102> with error 12, opcode 0, len 0, vendor err 129"
NAMED = (
    "NET/IB: Got completion from peer {}<5102> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) hca mlx5_0"
)
REFUSED = "Net : Connect to {}<41207> failed : Connection refused"


def root(folder: Path, reports: dict[str, str], words: str = RETRIES) -> Finding:
    """reports: host -> the last part of the address that it complains of; gpu-a is 10.0.1.1, and so on."""
    for rank, host in enumerate(HOSTS):
        lines = [
            f"{host}:100{rank}:100{rank} [0] NCCL INFO Bootstrap : Using eth0:10.0.1.{rank + 1}<0>",
            f"{host}:100{rank}:101{rank} [0] NCCL INFO comm 0x55d rank {rank} nranks 4 cudaDev 0 busId 1000 commId 0xab"
            " - Init COMPLETE",
            *(f"2026-11-20 10:00:{s} step {s} loss {3 - s / 50:.3f}" for s in range(10, 60, 10)),
        ]
        if host in reports:
            warning = words.format(f"10.0.1.{reports[host]}")
            lines.append(f"{host}:100{rank}:102{rank} [0] transport/net_ib.cc:1234 NCCL WARN {warning}")
        (folder / f"rank{rank}.log").write_text("".join(f"{line}\n" for line in lines))
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("words", [RETRIES, NAMED])
def test_the_host_that_several_complain_of(tmp_path: Path, words: str) -> None:
    found = root(tmp_path, {"gpu-a": "3", "gpu-b": "3", "gpu-d": "3"}, words)
    assert (found.name, found.node, found.ranks, found.devices) == ("nccl-network-timeout", "gpu-c", None, None)
    assert found.captures["peer_node"] == "gpu-c"


def test_a_rank_of_that_host_that_complains_of_others_is_told(tmp_path: Path) -> None:
    found = root(tmp_path, {"gpu-a": "3", "gpu-d": "3", "gpu-c": "1"})
    assert (found.node, found.ranks) == ("gpu-c", (2,))


def test_one_report_does_not_say_which_end_it_is(tmp_path: Path) -> None:
    found = root(tmp_path, {"gpu-a": "3"})
    assert (found.node, found.ranks) == ("gpu-a", (0,))


def test_nor_do_reports_of_different_hosts(tmp_path: Path) -> None:
    assert root(tmp_path, {"gpu-a": "3", "gpu-b": "3", "gpu-d": "2"}).node is None


def test_nor_does_a_chain_in_which_each_gave_up_after_the_next(tmp_path: Path) -> None:
    assert root(tmp_path, {"gpu-b": "3", "gpu-a": "2"}).node is None


def test_a_host_that_refuses_connections_of_several(tmp_path: Path) -> None:
    found = root(tmp_path, {"gpu-a": "3", "gpu-b": "3"}, REFUSED)
    assert (found.name, found.node, found.ranks) == ("nccl-connect-failed", "gpu-c", None)
