"""Ranks that wait in groups of a part of the ranks, in logs that hold several ranks each, and one that is silent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding, Role

HEAD = "[rank{rank}]:[E311 09:33:02.957362266 ProcessGroupNCCL.cpp:{line}] "
CAUGHT = (
    "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
    "NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600033 milliseconds before timing out."
)
DETECTED = (
    "[PG ID 3 PG GUID {guid}({name}) Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: "
    "last enqueued work: {seq}, last completed work: {done}"
)


def waits(ranks: Iterable[int], guid: int, name: str, seq: int) -> str:
    said = ((629, CAUGHT), (2168, DETECTED))
    return "".join(
        f"{HEAD}{text}\n".format(rank=rank, line=line, guid=guid, name=name, seq=seq, done=seq - 1)
        for rank in ranks
        for line, text in said
    )


TENSOR = waits((4, 5, 7), 15, "TENSOR_MODEL_PARALLEL_GROUP", 40211)
DATA = waits((0, 1, 2, 3), 22, "DATA_PARALLEL_GROUP", 412)


def root(folder: Path, **logs: str) -> Finding:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return analyse([str(folder)], Options(cache=False)).of_role(Role.ROOT)[0]


def test_the_one_rank_that_waits_in_no_group_is_waited_for(tmp_path: Path) -> None:
    found = root(tmp_path, train=TENSOR + DATA)
    assert (found.name, found.ranks) == ("collective-timeout", (6,))
    assert "2 process groups" in found.notes[0]


def test_so_it_is_in_one_log_a_host(tmp_path: Path) -> None:
    assert root(tmp_path, first=DATA, second=TENSOR).ranks == (6,)


def test_of_two_that_are_silent_none_is_named(tmp_path: Path) -> None:
    assert root(tmp_path, train=TENSOR + waits((0, 2), 22, "DATA_PARALLEL_GROUP", 412)).ranks is None


def test_a_log_of_one_rank_may_be_lost(tmp_path: Path) -> None:
    logs = {f"rank{rank}": waits((rank,), 15, "TENSOR_MODEL_PARALLEL_GROUP", 40211) for rank in (4, 5, 7)}
    logs |= {f"rank{rank}": waits((rank,), 22, "DATA_PARALLEL_GROUP", 412) for rank in (0, 1, 2, 3)}
    assert root(tmp_path, **logs).ranks is None


ID = (
    "[rank{rank}]: torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving "
    "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: {error}"
)


def test_a_store_of_either_spelling_tells_who_waits_for_rank_0(tmp_path: Path) -> None:
    error = "Wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
    assert root(tmp_path, out="".join(ID.format(rank=rank, error=error) + "\n" for rank in (1, 2, 3))).ranks == (0,)


def test_one_rank_alone_may_be_at_fault_itself(tmp_path: Path) -> None:
    error = "Wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
    assert root(tmp_path, out="[rank0]: ready\n" + ID.format(rank=1, error=error) + "\n").ranks is None


TERMINATED = {
    "2.6": "[PG ID 3 PG GUID {guid}({name}) Rank {number}] Process group watchdog thread terminated with exception: ",
    "2.4": "[PG {guid} ({name}) Rank {number}] Process group watchdog thread terminated with exception: ",
    "2.3": "[PG {guid} Rank {number}] NCCL watchdog thread terminated with exception: ",
}


@pytest.mark.parametrize("version", TERMINATED)
def test_the_line_of_a_watchdogs_end_names_its_group(tmp_path: Path, version: str) -> None:
    def ended(ranks: Iterable[int], guid: int, name: str, seq: int, first: int, step: int = 1) -> str:
        head = "[rank{rank}]:[E311 09:33:02.957362266 ProcessGroupNCCL.cpp:1895] "
        return "".join(
            (head + TERMINATED[version] + CAUGHT).format(
                rank=rank, number=(rank - first) // step, guid=guid, name=name, seq=seq
            )
            + "\n"
            for rank in ranks
        )

    text = ended((4, 5, 7), 15, "tp", 40211, 4) + ended((0, 1, 2, 3), 22, "dp", 412, 0)
    found = root(tmp_path, train=text)
    assert (found.name, found.ranks) == ("collective-timeout", (6,))
    assert "in group 15 at #40211" in found.notes[0]
