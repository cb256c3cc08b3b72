"""Ranks that say how many batches they have, and one that has fewer, at the end of its epoch and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.engine.collectives.batches import have_fewer, is_an_end
from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

CAUGHT = (
    "[rank{rank}]:[E311 09:{minute}:46.474453937 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=9911, OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, "
    "Timeout(ms)=600000) ran for 600068 milliseconds before timing out.\n"
    "[rank{rank}]:[E311 09:{minute}:46.474453937 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank "
    "{rank}]  failure detected by watchdog at work sequence id: 9911 PG status: last enqueued work: 9911, last "
    "completed work: 9910\n"
)


def log_of(rank: int, says: str, batches: int, last: int, *, numel: int | None) -> Iterator[str]:
    yield f"2026-03-11 09:14:00 [rank {rank}] {says.format(batches=batches)}\n"
    for n in range(50, last + 1, 50):
        yield f"2026-03-11 09:{14 + n // 500}:{n % 500 // 10:02d} [rank {rank}] step {n} loss {2 + n % 7 / 100:.4f}\n"
    if numel is not None:
        yield CAUGHT.format(rank=rank, minute=26 + last // 500, numel=numel)


def root(
    folder: Path,
    says: str = "dataset shard: {batches} batches",
    last: int = 1650,
    *,
    short: int = 1651,
    quiet: bool = False,
) -> Finding:
    """Four ranks, of which number 1 waits in another call, or says nothing; all others wait in an all-reduce."""
    for rank in range(4):
        numel = 13107200 if rank != 1 else None if quiet else 1
        lines = log_of(rank, says, short if rank == 1 else 1652, last, numel=numel)
        (folder / f"rank{rank}.log").write_text("".join(lines))
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


@pytest.mark.parametrize(
    "says", ["dataset shard: {batches} batches", "len(train_loader)={batches}", "steps per epoch: {batches}"]
)
def test_the_rank_with_fewer_batches_ran_out_of_them(tmp_path: Path, says: str) -> None:
    found = root(tmp_path, says)
    assert (found.name, found.ranks) == ("uneven-inputs", (1,))
    assert "end of an epoch" in found.notes[0]


def test_so_it_did_where_it_says_nothing_more(tmp_path: Path) -> None:
    found = root(tmp_path, quiet=True)
    assert (found.name, found.ranks) == ("uneven-inputs", (1,))


def test_in_the_middle_of_an_epoch_lengths_say_nothing(tmp_path: Path) -> None:
    assert root(tmp_path, last=900).name == "collective-shape-mismatch"


def test_equal_lengths_say_nothing(tmp_path: Path) -> None:
    assert root(tmp_path, short=1652).name == "collective-shape-mismatch"


def test_lengths_of_validation_say_nothing(tmp_path: Path) -> None:
    assert root(tmp_path, "validation data: {batches} batches").name == "collective-shape-mismatch"


def test_a_finished_run_with_uneven_lengths_is_healthy(tmp_path: Path) -> None:
    for rank in range(4):
        lines = [*log_of(rank, "dataset shard: {batches} batches", 1651 if rank == 1 else 1652, 1650, numel=None)]
        (tmp_path / f"rank{rank}.log").write_text("".join([*lines, "2026-03-11 09:18:00 Training complete\n"]))
    found = analyse([str(tmp_path)], Options(cache=False))
    assert not found.of_role(Role.ROOT)
    assert not found.of_role(Role.CASCADE)


@pytest.mark.parametrize(
    ("step", "every", "batches", "end"),
    [
        (1650, 50, 1651, True),
        (3300, 50, 1651, True),
        (900, 50, 1651, False),
        (1650, 200, 1651, False),
        (90, 10, 100, False),
    ],
)
def test_ends_of_epochs(step: int, every: int, batches: int, end: bool) -> None:
    assert is_an_end(step, every, batches) is end


def test_all_have_to_say_it() -> None:
    assert have_fewer({0: 10, 1: 9}, [1], [0])
    assert not have_fewer({0: 10, 1: 9}, [1], [0, 2])
    assert not have_fewer({0: 9, 1: 9}, [1], [0])
