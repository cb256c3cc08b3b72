"""NCCL's service threads note whose connections close: of one process alone that tells, of all of them nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = "".join(f"2026-05-14 10:0{n // 6}:{n % 6}0 step {n} loss {3 - n / 100:.3f}\n" for n in range(40))
BORN = "".join(
    f"dgx1:90{n}:110{n} [{n}] NCCL INFO ncclCommInitRankConfig comm 0x55600{n} rank {4 + n} nranks 8 cudaDev {n} nvmlDev {n} "
    f"busId 1b{n}00 commId 0x77aa - Init COMPLETE\n"
    for n in range(4)
)


def noted(by: int, of: int) -> str:
    return f"dgx1:90{by}:130{by} [{by}] NCCL INFO [Service thread] Connection closed by localRank {of}\n"


ONE = "".join(noted(by, 3) for by in range(3))


def context(folder: Path, text: str) -> list[tuple[tuple[int, ...] | None, str | None]]:
    (folder / "dgx1.log").write_text(text)
    found = analyse([str(folder)], Options(cache=False))
    assert not found.of_role(Role.ROOT)
    return [(f.ranks, f.node) for f in found.of_role(Role.CONTEXT) if f.name == "nccl-local-rank-closed"]


def test_all_others_of_a_host_saw_one_process_go(tmp_path: Path) -> None:
    assert context(tmp_path, BORN + STEPS + ONE) == [((7,), "dgx1")]


@pytest.mark.parametrize(
    "end",
    [
        "".join(noted(by, of) for by in range(4) for of in range(4) if by != of),
        noted(0, 3) + noted(1, 3),
        ONE + noted(3, 3),
        ONE + "2026-05-14 10:08:00 Training complete.\n",
    ],
    ids=["each of all", "not all others", "the process itself", "the run ended well"],
)
def test_other_ends_of_connections_are_nothing(tmp_path: Path, end: str) -> None:
    assert context(tmp_path, BORN + STEPS + end) == []


def test_without_the_births_nothing_tells_that_they_are_all(tmp_path: Path) -> None:
    assert context(tmp_path, STEPS + ONE) == []
