"""The world size that the scripts of several hosts print, and the ranks of it that never spoke."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis

TIMEOUT = (
    "[rank{0}]:[E314 09:24:35.110350654 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=501, OpType=ALLREDUCE, NumelIn=13107200, NumelOut=13107200, Timeout(ms)=600000) ran for "
    "600086 milliseconds before timing out."
)


def in_one_line(size: int, host: int) -> str:
    return f"MASTER_ADDR=gpu-a WORLD_SIZE={size} NODE_RANK={host}"


def in_lines(size: int, host: int) -> str:
    return f"MASTER_ADDR=gpu-a\nWORLD_SIZE={size}\nNODE_RANK={host}"


def diagnosed(folder: Path, sizes: list[int], said: Callable[[int, int], str] = in_lines) -> Diagnosis:
    for host, size in enumerate(sizes):
        lines = [TIMEOUT.format(rank) for rank in range(4 * host, 4 * host + 4)]
        (folder / f"node{host}.out").write_text("\n".join([said(size, host), *lines]) + "\n")
    return analyse([str(folder)])


@pytest.mark.parametrize("said", [in_lines, in_one_line])
def test_ranks_that_no_line_names_are_those_that_the_others_wait_for(
    tmp_path: Path, said: Callable[[int, int], str]
) -> None:
    found = diagnosed(tmp_path, [16, 16, 16], said)
    assert found.run.world_size == 16
    assert found.findings[0].ranks == (12, 13, 14, 15)


@pytest.mark.parametrize(
    "sizes",
    [[3, 3, 3], [64, 64, 64], [14, 14, 14], [16, 16, 20]],
    ids=["hosts", "of many hosts", "no blocks", "several"],
)
def test_a_number_that_may_be_another_one(tmp_path: Path, sizes: list[int]) -> None:
    found = diagnosed(tmp_path, sizes)
    assert found.run.world_size == 12
    assert found.findings[0].ranks is None
