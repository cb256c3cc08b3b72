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
