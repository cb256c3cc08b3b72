"""The trace of collective calls in NCCL's log, and what comparing it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.collectives import desync
from forensics.engine.pipeline import analyse
from forensics.model import Evidence, Identity, Kind, Observation, Role, Source
from forensics.parsers.nccl.calls import collective_calls

WORLD = 4
Edit = Callable[[int, int], str | None]


def birth(rank: int, stage: str, *, pid: int, size: int = WORLD, comm: str = "0x110f3bc0", id: str = "0xc2ff") -> str:
    return (
        f"node-0:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRankConfig comm {comm} rank {rank} nranks {size} cudaDev {rank} "
        f"nvmlDev {rank} busId {rank + 1}000 commId {id} - Init {stage}\n"
    )


def call(rank: int, n: int, *, pid: int, op: str = "AllReduce", size: int = 4096, comm: str = "0x110f3bc0") -> str:
    return (
        f"node-0:{pid}:{pid + 9} [{rank}] NCCL INFO {op}: opCount {n:x} sendbuff 0x7f3fd6ec{rank}400 recvbuff (nil) count "
        f"{size} datatype 7 op 0 root 0 comm {comm} [nranks={WORLD}] stream 0x185b19d0\n"
    )


def log(rank: int, calls: int, **odd: str | int) -> str:
    """One rank's log; `odd` changes its last call."""
    pid = 500 + rank
    comm = f"0x11{rank}f3bc0"
    text = f"node-0:{pid}:{pid} [{rank}] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    text += birth(rank, "START", pid=pid, comm=comm) + birth(rank, "COMPLETE", pid=pid, comm=comm)
    for n in range(calls):
        changes = odd if n == calls - 1 else {}
        text += f"step {n} loss=2.0\n" + call(rank, n, pid=pid, comm=comm, **changes)  # type: ignore[arg-type]
    return text


def sources(folder: Path, *logs: str) -> list[Source]:
    found = []
    for rank, text in enumerate(logs):
        file = folder / f"out.{rank}.txt"
        file.write_text(text)
        found.append(Source(file.name, file, Kind.LOG, file.stat().st_size))
    return found


def timed_out(rank: int, **captures: str) -> Observation:
    line = Evidence(f"out.{rank}.txt", 1, 0, "Watchdog caught collective operation timeout")
    return Observation(
        signature="collective-timeout", weight=0.9, evidence=(line,), identity=Identity(rank=rank), culprits=(),
        captures=captures,
    )  # fmt: skip


def test_calls_become_rows(tmp_path: Path) -> None:
    frame, cut = collective_calls(sources(tmp_path, *(log(rank, 3) for rank in range(WORLD))))
    assert frame is not None and cut == {}
    assert frame.height == 3 * WORLD
    row = frame.row(2, named=True)
    assert (row["rank"], row["seq"], row["op"], row["input_sizes"], row["dtypes"], row["line"]) == (
        0, 3, "all_reduce", "[[4096]]", '["Float"]', 9,
    )  # fmt: skip
    assert row["group_desc"] == "ranks 0-3"
    assert (
        (tmp_path / row["source"]).read_text().splitlines()[row["line"] - 1].startswith("node-0:500:509 [0] NCCL INFO")
    )


def test_one_file_of_all_ranks(tmp_path: Path) -> None:
    whole = "".join(log(rank, 3) for rank in range(WORLD))
    frame, _ = collective_calls(sources(tmp_path, whole))
    assert frame is not None
    assert sorted(frame["rank"].unique()) == list(range(WORLD))


def test_another_call_is_found_whoever_is_first(tmp_path: Path) -> None:
    for odd in range(WORLD):
        logs = [log(r, 5, **({"size": 1024} if r == odd else {})) for r in range(WORLD)]
        frame, _ = collective_calls(sources(tmp_path, *logs))
        assert frame is not None
        (found,) = desync(frame, (), range(WORLD))
        assert (found.signature, found.culprits) == ("collective-shape-mismatch", (odd,))
        assert found.evidence[0].file == f"out.{odd}.txt" and found.evidence[0].line is not None


def test_another_operation(tmp_path: Path) -> None:
    logs = [log(r, 5, **({"op": "AllGather"} if r == 1 else {})) for r in range(WORLD)]
    frame, _ = collective_calls(sources(tmp_path, *logs))
    assert frame is not None
    (found,) = desync(frame, (), range(WORLD))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (1,))


def test_a_rank_that_is_behind_counts_only_where_something_waited(tmp_path: Path) -> None:
    frame, _ = collective_calls(sources(tmp_path, *(log(r, 4 if r == 2 else 7) for r in range(WORLD))))
    assert frame is not None
    assert desync(frame, (), range(WORLD)) == ()
    found = desync(frame, [timed_out(r) for r in (0, 1, 3)], range(WORLD))
    assert [(o.signature, o.culprits) for o in found] == [("straggler-rank", (2,))]
    assert "device" not in (found[0].note or "")


@pytest.mark.parametrize(("calls", "absent"), [(17, True), (58, True), (59, False), (60, False)])
def test_a_rank_that_never_came_goes_before_calls_that_differ_later(tmp_path: Path, calls: int, absent: bool) -> None:
    """Programs run on past a call that hangs: rank 2's other operation, #60, is queued behind what rank 1 lacks."""
    logs = [log(r, calls if r == 1 else 60, **({"op": "AllGather"} if r == 2 else {})) for r in range(WORLD)]
    frame, _ = collective_calls(sources(tmp_path, *logs))
    assert frame is not None
    (found,) = desync(frame, [timed_out(0)], range(WORLD))
    if not absent:
        assert (found.signature, found.culprits, found.captures["seq"]) == ("collective-op-mismatch", (2,), "60")
        return
    assert (found.signature, found.culprits, found.captures["seq"]) == ("straggler-rank", (1,), str(calls + 1))
    assert f"wait in all_reduce #{calls + 1}" in (found.note or "")
    assert "differ later as well, at #60" in (found.note or "")


def test_calls_that_differ_count_where_nothing_shows_that_a_log_was_left_whole(tmp_path: Path) -> None:
    logs = [log(r, 17 if r == 1 else 60, **({"op": "AllGather"} if r == 2 else {})) for r in range(WORLD)]
    frame, _ = collective_calls(sources(tmp_path, *logs))
    assert frame is not None
    (found,) = desync(frame, (), range(WORLD))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (2,))


@pytest.mark.parametrize(("op", "seq", "named"), [("ALLREDUCE", "18", ()), ("_ALLGATHER_BASE", "18", (2,))])
def test_a_timeout_in_an_earlier_call_of_the_others_operation(
    tmp_path: Path, op: str, seq: str, named: tuple[int, ...]
) -> None:
    """The rank that called something else at #60 says itself in which operation it was stuck."""
    logs = [log(r, 60, **({"op": "AllGather"} if r == 2 else {})) for r in range(WORLD)]
    frame, _ = collective_calls(sources(tmp_path, *logs))
    assert frame is not None
    waits = [timed_out(r, op=op if r == 2 else "ALLREDUCE", seq=seq) for r in range(WORLD)]
    found = desync(frame, waits, range(WORLD))
    assert any(o.signature == "collective-op-mismatch" and o.culprits == (2,) for o in found) is bool(named)


def test_logs_that_are_read_from_their_end_are_aligned_by_the_printed_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forensics.parsers.nccl.calls.LEAST", 4096)
    padding = "x" * 99 + "\n"
    logs = []
    for rank in range(WORLD):
        head, _, rest = log(rank, 400, **({"size": 8} if rank == 3 else {})).partition("step 0 ")
        logs.append(head + padding * (10 + rank) + "step 0 " + rest)
    frame, cut = collective_calls(sources(tmp_path, *logs), budget=WORLD * 16384)
    assert frame is not None and len(cut) == WORLD
    assert frame["line"].null_count() == frame.height
    (found,) = desync(frame, (), range(WORLD))
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", (3,))


def test_sends_move_the_printed_count_so_that_cut_logs_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forensics.parsers.nccl.calls.LEAST", 4096)
    logs = [log(r, 400) + call(r, 400, pid=500 + r, op="Send", comm=f"0x11{r}f3bc0") for r in range(WORLD)]
    frame, _ = collective_calls(sources(tmp_path, *logs), budget=WORLD * 16384)
    assert frame is None


def test_a_pointer_that_is_used_again_is_another_communicator(tmp_path: Path) -> None:
    logs = []
    for rank in range(WORLD):
        pid, comm = 500 + rank, f"0x11{rank}f3bc0"
        again = birth(rank, "START", pid=pid, comm=comm, id="0xdd") + birth(
            rank, "COMPLETE", pid=pid, comm=comm, id="0xdd"
        )
        logs.append(log(rank, 2) + again + call(rank, 0, pid=pid, comm=comm, op="AllGather"))
    frame, _ = collective_calls(sources(tmp_path, *logs))
    assert frame is not None
    assert sorted(frame["group"].unique()) == ["NCCL 0xc2ff", "NCCL 0xdd"]
    assert frame.filter(pl.col("group") == "NCCL 0xdd")["seq"].to_list() == [1] * WORLD


def test_communicators_that_are_parts_of_a_job_give_no_global_ranks(tmp_path: Path) -> None:
    logs = []
    for rank in range(8):
        pid, comm, id = 700 + rank, f"0x11{rank % 4}f3bc0", f"0xa{rank // 4}"
        logs.append(birth(rank % 4, "COMPLETE", pid=pid, comm=comm, id=id) + call(rank % 4, 0, pid=pid, comm=comm))
    found = sources(tmp_path, *logs)
    assert collective_calls(found) == (None, {})
    assert collective_calls(found, stated=8) == (None, {})
    named = [Source(s.path, s.file, s.kind, s.size, Identity(rank=n)) for n, s in enumerate(found)]
    frame, _ = collective_calls(named)
    assert frame is not None
    groups = frame.group_by("group_desc").agg(pl.col("rank").sort()).sort("group_desc")
    assert groups.rows() == [("ranks 0-3", [0, 1, 2, 3]), ("ranks 4-7", [4, 5, 6, 7])]


def test_logs_without_calls_are_not_read(tmp_path: Path) -> None:
    assert collective_calls(sources(tmp_path, "step 1 loss=2\n", "")) == (None, {})
    gone = Source("x", tmp_path / "gone", Kind.LOG, 5)
    assert collective_calls([gone]) == (None, {})


def test_garbage_in_the_lines(tmp_path: Path) -> None:
    odd = "NCCL INFO x: opCount zz\n" + "a" * 9000 + ": opCount 1 sendbuff\n\x00\xff - Init START\n"
    frame, _ = collective_calls(sources(tmp_path, odd + log(0, 2), odd + log(1, 2)))
    assert frame is not None
    assert sorted(frame["rank"].unique()) == [0, 1]


def test_the_whole_way(tmp_path: Path) -> None:
    for rank in range(WORLD):
        text = log(rank, 4 if rank == 2 else 7)
        if rank != 2:
            text += (
                f"[rank{rank}]:[E1128 03:01:35.724121033 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) "
                "ran for 600083 milliseconds before timing out.\n"
            )
        (tmp_path / f"rank{rank}.log").write_text(text)
    diagnosis = analyse([str(tmp_path)])
    (root,) = diagnosis.of_role(Role.ROOT)
    assert (root.name, root.ranks) == ("straggler-rank", (2,))


def test_a_run_that_ended_well_has_no_root(tmp_path: Path) -> None:
    for rank in range(WORLD):
        (tmp_path / f"rank{rank}.log").write_text(log(rank, 7) + "training finished\n")
    assert analyse([str(tmp_path)]).of_role(Role.ROOT) == ()


def _trace(folder: Path, counts: list[int], end: str = "") -> Path:
    for rank, count in enumerate(counts):
        head = f"node-0:{700 + rank}:{700 + rank} [{rank}] NCCL INFO "
        born = (
            f"{head}comm 0x55{rank}0 rank {rank} nranks {len(counts)} cudaDev {rank} nvmlDev {rank} busId 1b000 commId 0xabc "
            "- Init COMPLETE\n"
        )
        lines = (
            f"{head}AllReduce: opCount {n:x} sendbuff 0x7f00 recvbuff 0x7f00 count 1000 datatype 7 op 0 root 0 "
            f"comm 0x55{rank}0 [nranks={len(counts)}] stream 0x1\n"
            for n in range(count)
        )
        (folder / f"rank{rank}.log").write_text(born + "".join(lines) + end)
    return folder


def test_a_log_that_ends_many_calls_before_the_others_is_told_with_its_caveat(tmp_path: Path) -> None:
    found = analyse([str(_trace(tmp_path, [60, 60, 41, 60]))])
    (behind,) = [f for f in found.findings if f.name == "nccl-calls-behind"]
    assert (behind.role, behind.ranks) == (Role.CONTEXT, (2,))
    assert not found.of_role(Role.ROOT)
    note = behind.notes[0]
    assert "19 calls before" in note and "looks the same" in note
    assert "(opCount 28)" in note and "opCount 28 " in (tmp_path / "rank2.log").read_text()
    assert behind.evidence[0].line == 42


@pytest.mark.parametrize("counts", [[60, 60, 58, 60], [60, 41], [60, 41, 41, 60], [60, 50, 41, 60], [60, 60, 60, 60]])
def test_few_calls_or_no_majority_tell_nothing(tmp_path: Path, counts: list[int]) -> None:
    assert not analyse([str(_trace(tmp_path, counts))]).findings


LIMIT = "slurmstepd: error: *** JOB 123 ON node-0 CANCELLED AT 2026-08-10T15:36:05 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize(
    ("counts", "late", "words"), [([60, 60, 59, 60], (2,), "one call"), ([60, 57, 60, 60, 59], (1, 4), "up to 3 calls")]
)
def test_in_a_run_that_was_stopped_one_call_is_told_as_a_weak_sign(
    tmp_path: Path, counts: list[int], late: tuple[int, ...], words: str
) -> None:
    found = analyse([str(_trace(tmp_path, counts, LIMIT))])
    (behind,) = [f for f in found.findings if f.name == "nccl-calls-behind"]
    assert (behind.role, behind.ranks) == (Role.CONTEXT, late)
    assert behind.confidence < 0.5
    assert f"ends {words} before those of the others" in behind.notes[0]
    assert "in a buffer" in behind.notes[0]
    assert [f.name for f in found.of_role(Role.ROOT)] == ["scheduler-time-limit"]


@pytest.mark.parametrize("counts", [[60, 60, 59, 58], [60, 59, 59, 60], [60, 59], [60, 59, 58, 60, 60, 59, 59]])
def test_in_a_run_that_was_stopped_others_that_differ_tell_nothing(tmp_path: Path, counts: list[int]) -> None:
    found = analyse([str(_trace(tmp_path, counts, LIMIT))])
    assert "nccl-calls-behind" not in {f.name for f in found.findings}


def test_where_a_rank_left_no_log_nobody_is_told_to_be_behind(tmp_path: Path) -> None:
    folder = _trace(tmp_path, [60, 60, 59, 60], LIMIT)
    (folder / "rank3.log").unlink()
    assert "nccl-calls-behind" not in {f.name for f in analyse([str(folder)]).findings}


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("count 1000", "count 999", "collective-shape-mismatch"),
        ("datatype 7", "datatype 9", "collective-dtype-mismatch"),
        ("AllReduce", "AllGather", "collective-op-mismatch"),
    ],
)
@pytest.mark.parametrize("end", ["", LIMIT])
def test_another_last_call_at_the_same_place_is_found_without_a_watchdog(
    tmp_path: Path, old: str, new: str, name: str, end: str
) -> None:
    file = _trace(tmp_path, [60, 60, 60, 60], end) / "rank2.log"
    lines = file.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if "opCount" in line)
    lines[last] = lines[last].replace(old, new)
    file.write_text("".join(lines))
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (root.name, root.ranks) == (name, (2,))


@pytest.mark.parametrize(("stated", "known"), [(WORLD, True), (2 * WORLD, False), (None, False)])
def test_ranks_of_rccl_calls_whose_communicators_birth_was_not_logged(
    tmp_path: Path, stated: int | None, known: bool
) -> None:
    def called(rank: int) -> str:
        lines = (call(rank, n, pid=900 + 7 * rank, comm=f"0x22{rank}").rstrip("\n") for n in range(3))
        return "".join(f"{line} task {n} globalrank {WORLD - 1 - rank}\n" for n, line in enumerate(lines))

    file = tmp_path / "all.log"
    file.write_text("".join(called(rank) for rank in range(WORLD)))
    frame, _ = collective_calls([Source("all.log", file, Kind.LOG, file.stat().st_size)], stated)
    assert (frame is not None) is known
    if frame is not None:
        pairs = set(frame.select("rank", "line").rows())
        assert {(3, 1), (2, 4), (1, 7), (0, 10)} <= pairs and len(pairs) == 3 * WORLD


OTHERS = st.one_of(
    st.binary(max_size=80).map(lambda b: b.replace(b"\n", b"")),
    st.sampled_from([
        b"NCCL INFO AllReduce: opCount zz", b"x opCount 0 - Init START", b"h:1:1 [0] NCCL INFO - Init COMPLETE",
        b"h:7:7 [0] NCCL INFO Send: opCount 1 sendbuff a recvbuff b count 1 datatype 99 op 0 root 0 comm 0x1 [nranks=0]",
    ]),
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), OTHERS), max_size=10))
def test_calls_are_found_among_any_lines(
    tmp_path_factory: pytest.TempPathFactory, others: list[tuple[int, bytes]]
) -> None:
    lines = log(0, 5).encode().splitlines()
    for at, line in others:
        lines.insert(min(at, len(lines)), line)
    odd, *peers = sources(tmp_path_factory.getbasetemp(), *(log(rank, 5) for rank in range(WORLD)))
    odd.file.write_bytes(b"\n".join(lines) + b"\n")
    frame, cut = collective_calls([replace(odd, size=odd.file.stat().st_size), *peers], WORLD)
    assert frame is not None and not cut
    own = frame.filter(pl.col("op") == "all_reduce", pl.col("rank") == 0)
    wanted = [
        n for n, line in enumerate(lines, 1) if b"AllReduce: opCount " in line and line.startswith(b"node-0:500:")
    ]
    assert own["line"].to_list() == wanted
