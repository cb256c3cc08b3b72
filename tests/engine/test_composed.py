"""What Docker Compose says of the end of a container is of the rank of which all other lines of the container are."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Finding, Role

LOST = (
    "[rank{0}]:[E314 09:13:50.528215114 ProcessGroupNCCL.cpp:552] [Rank {0}] Collective WorkNCCL(SeqNum=80, "
    "OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000) raised the following async exception: "
    "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5"
)


def root_of(folder: Path, ranks: dict[str, int], *ends: str) -> Finding:
    """The first root where each container prints as one rank, and `ends` follow."""
    lines = [
        f"{name}  | 2026-03-14 09:12:{n:02} rank {rank} step {n} loss {3 - n / 100:.3f}"
        for n in range(5)
        for name, rank in ranks.items()
    ]
    name, rank = next(iter(ranks.items()))
    lines += [*ends, f"{name}  | {LOST.format(rank)}"]
    (folder / "compose.log").write_text("\n".join(lines) + "\n")
    return analyse([str(folder)]).of_role(Role.ROOT)[0]


@pytest.mark.parametrize("name", ["trainer-2", "trainer_2_1"], ids=["v2", "v1"])
@pytest.mark.parametrize("code", [137, 139])
def test_the_rank_of_a_container_that_ended(tmp_path: Path, name: str, code: int) -> None:
    root = root_of(tmp_path, {"trainer-1": 1, name: 2}, f"{name} exited with code {code}")
    assert (root.ranks, root.node) == ((2,), name)


def test_containers_whose_first_rank_alone_prints(tmp_path: Path) -> None:
    root = root_of(tmp_path, {"trainer-0": 0, "trainer-1": 8}, "trainer-1 exited with code 137")
    assert (root.ranks, root.node) == (None, "trainer-1")


def test_a_program_that_is_no_container(tmp_path: Path) -> None:
    root = root_of(tmp_path, {"trainer-0": 0, "trainer-1": 1}, "loader exited with code 139")
    assert root.ranks is None


def test_of_containers_that_were_all_killed_none_is_the_first(tmp_path: Path) -> None:
    ends = [f"trainer-{n} exited with code 137" for n in (1, 0, 2)]
    root = root_of(tmp_path, {f"trainer-{n}": n for n in range(3)}, *ends)
    assert root.ranks is None


def test_containers_that_are_ended_after_one_had_failed(tmp_path: Path) -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 3, in <module>',
        "    main()",
        "ValueError: bad shape",
    ]
    ends = [f"trainer-1  | {line}" for line in raised]
    ends += ["trainer-1 exited with code 1", "Aborting on container exit...", "trainer-2 exited with code 137"]
    root = root_of(tmp_path, {f"trainer-{n}": n for n in range(3)}, *ends)
    assert (root.name, root.ranks) == ("python-exception", (1,))


def test_containers_that_are_started_again(tmp_path: Path) -> None:
    ends = ["trainer-1 exited with code 1 (restarting)", "trainer-2 exited with code 137"]
    root = root_of(tmp_path, {"trainer-1": 1, "trainer-2": 2}, *ends)
    assert root.ranks is None
