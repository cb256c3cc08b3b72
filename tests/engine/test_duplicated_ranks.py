"""Processes that come with one and the same rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port:"
    " 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
ALONE = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."
KEYS = "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/2"


def roots(folder: Path, processes: Sequence[tuple[str, str]], step: str = "") -> list[str]:
    for i, (said, error) in enumerate(processes):
        (folder / f"proc{i}.log").write_text(
            f'{said}\n{step}Traceback (most recent call last):\n  File "train.py", line 8, in <module>\n{error}\n'
        )
    return [f.name for f in analyse([str(folder)], Options(threads=1)).of_role(Role.ROOT)]


def said(rank: int, size: int) -> str:
    return f"rank {rank} of {size} starting, pid {4000 + rank}"


def test_two_of_rank_0_on_one_host(tmp_path: Path) -> None:
    assert roots(tmp_path, [(said(0, 2), ALONE), (said(0, 2), TAKEN)]) == ["duplicate-rank-launch"]


def test_two_of_another_rank(tmp_path: Path) -> None:
    found = roots(tmp_path, [(said(0, 3), KEYS), (said(1, 3), KEYS), (said(1, 3), KEYS)])
    assert found == ["duplicate-rank-launch"]


@pytest.mark.parametrize(
    "processes",
    [
        [(said(0, 3), KEYS), (said(1, 3), KEYS)],  # one did not come
        [(said(0, 2), TAKEN), (said(1, 2), ALONE)],
        [(said(0, 3), KEYS), (said(1, 3), KEYS), (said(1, 2), KEYS)],  # of another run
        [  # one after the other
            (f"2026-11-27 20:00:00 {said(1, 2)}", f"2026-11-27 20:05:00 {KEYS}"),
            (f"2026-11-27 21:00:00 {said(1, 2)}", f"2026-11-27 21:05:00 {KEYS}"),
        ],
    ],
    ids=["absent", "each-once", "sizes-differ", "repeated"],
)
def test_ranks_that_are_no_duplicates(tmp_path: Path, processes: list[tuple[str, str]]) -> None:
    assert "duplicate-rank-launch" not in roots(tmp_path, processes)
