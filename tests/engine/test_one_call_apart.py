"""Timeouts of versions that name no process group, and one rank that is a call ahead or behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

CAUGHT = (
    "[E ProcessGroupNCCL.cpp:474] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
    "OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=1800000) ran for 1800052 milliseconds before "
    "timing out.\n"
)


def root(folder: Path, *calls: tuple[int, int, int]) -> Finding:
    """calls: rank, number and size of a call in which it timed out."""
    steps = "".join(f"2024-06-02 04:00:{n:02} | INFO | step {n} | loss {3 - n / 50:.4f}\n" for n in range(20))
    lines = [CAUGHT.format(rank=rank, seq=seq, numel=numel) for rank, seq, numel in calls]
    (folder / "nohup.out").write_text(steps + "".join(lines))
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


OTHERS = [(1, 501, 1), (2, 501, 1), (3, 501, 1)]


@pytest.mark.parametrize("seq", [500, 502])
def test_one_rank_is_a_call_apart(tmp_path: Path, seq: int) -> None:
    found = root(tmp_path, (0, seq, 1000), *OTHERS)
    assert (found.name, found.ranks) == ("collective-desync", (0,))
    assert found.confidence < 0.7


@pytest.mark.parametrize(
    "calls",
    [
        [(0, 77, 1000), *OTHERS],
        [(0, 502, 1000), (1, 501, 1), (2, 501, 64), (3, 501, 1)],
        [(0, 502, 1), *OTHERS, (1, 502, 1), (2, 502, 1), (3, 502, 1)],
        [(0, 502, 1000), (1, 501, 1), (2, 501, 1)],
    ],
    ids=["another count", "several calls", "two groups of one shape", "few ranks"],
)
def test_else_the_numbers_may_be_those_of_groups(tmp_path: Path, calls: list[tuple[int, int, int]]) -> None:
    found = root(tmp_path, *calls)
    assert (found.name, found.ranks) == ("collective-timeout", None)
