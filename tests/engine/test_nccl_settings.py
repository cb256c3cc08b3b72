"""Settings of NCCL that ranks have to share: who has another one is named where what comes of it was met."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Role

RANKS = 8
STEPS = "".join(f"step {n} loss {2.5 - n / 100:.3f}\n" for n in range(30))
INITS = "".join(
    f"n{1 + r // 4}:{400 + r}:{500 + r} [{r % 4}] NCCL INFO ncclCommInitRank comm 0x55 rank {r} nranks {RANKS} "
    f"cudaDev {r % 4} nvmlDev {r % 4} busId {r % 4 + 1}b000 commId 0x11 - Init COMPLETE\n"
    for r in range(RANKS)
)
HUNG = "".join(
    f"[rank{r}]:[E1128 10:20:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=100, NumelOut=100, Timeout(ms)=600000) ran for 600001 "
    "milliseconds before timing out.\n"
    for r in range(RANKS)
)
CUT = (
    "n1:400:700 [0] transport/net_socket.cc:508 NCCL WARN NET/Socket : peer 192.0.2.1<42110> message truncated : "
    "receiving 524288 bytes instead of 65536.\n"
)


def setting(rank: int, value: str, name: str = "NCCL_PROTO") -> str:
    return f"n{1 + rank // 4}:{400 + rank}:{400 + rank} [{rank % 4}] NCCL INFO {name} set by environment to {value}\n"


def told(folder: Path, settings: str, end: str) -> Diagnosis:
    (folder / "train.log").write_text(settings + INITS + STEPS + end)
    return analyse([str(folder)])


@pytest.mark.parametrize("end", [HUNG, CUT], ids=["hung", "truncated"])
@pytest.mark.parametrize(
    ("values", "ranks", "node"),
    [
        ({r: "Simple" if r == 7 else "LL128" for r in range(RANKS)}, (7,), "n2"),
        (dict.fromkeys((4, 5, 6), "Simple"), (4, 5, 6), "n2"),
        ({r: "Simple" for r in range(RANKS) if r != 2}, (2,), "n1"),
    ],
)
def test_ranks_whose_setting_is_another_are_named(
    tmp_path: Path, end: str, values: dict[int, str], ranks: tuple[int, ...], node: str
) -> None:
    root = told(tmp_path, "".join(setting(r, v) for r, v in values.items()), end).of_role(Role.ROOT)[0]
    assert (root.name, root.ranks, root.node) == ("nccl-env-mismatch", ranks, node)
    assert "NCCL_PROTO is" in " ".join(root.notes)


@pytest.mark.parametrize(
    "settings",
    [
        "".join(setting(r, "Simple") for r in range(RANKS)),
        "".join(setting(r, "Simple") for r in range(4)),
        setting(0, "Simple"),
        "".join(setting(r, f"mlx5_{r}", "NCCL_IB_HCA") for r in range(RANKS)),
    ],
    ids=["all alike", "half of them", "rank 0 speaks for all", "a setting of each host's own"],
)
def test_nobody_is_named_where_no_few_differ_in_what_is_shared(tmp_path: Path, settings: str) -> None:
    found = told(tmp_path, settings, HUNG)
    assert "nccl-env-mismatch" not in {f.name for f in found.findings}


def test_a_run_that_trains_on_with_them_has_no_root(tmp_path: Path) -> None:
    assert not told(tmp_path, setting(7, "Simple"), "").of_role(Role.ROOT)
