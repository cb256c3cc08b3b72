"""Who keeps whom waiting, by what ranks print: numbers inside groups, stuck watchdogs, ranks ahead, last lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

import pytest

from forensics.engine.collectives.last_words import last_words
from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options, explain
from forensics.engine.reading import read, sniffers
from forensics.model import Diagnosis, Finding, Identity, Kind, Role, Source
from forensics.parsers.prefixes import clean
from forensics.report.words import located
from forensics.run import discover
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()
MATCHER = Matcher(CATALOGUE)
START = 9 * 3600
Lines = Mapping[str, Iterable[str]]


def diagnose(folder: Path, files: Lines) -> Diagnosis:
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    run = discover([str(folder)], sniffers())
    return explain(read(run, MATCHER, Options(threads=1)), CATALOGUE)


def first(diagnosis: Diagnosis) -> Finding:
    found = diagnosis.of_role(Role.ROOT)
    assert found, diagnosis.summary
    return found[0]


def clock(seconds: float) -> str:
    whole = int(START + seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def steps(rank: int, upto: int) -> list[str]:
    return [f"[rank{rank}]: 2026-08-10 {clock(n)} step {n} loss {3 - n / 100:.2f}" for n in range(1, upto + 1)]


def trained(ranks: int) -> list[str]:
    return [line for rank in range(ranks) for line in steps(rank, 9)]


def native(rank: int, text: str, at: float = 620) -> str:
    return f"[rank{rank}]:[E810 {clock(at)}.123456789 ProcessGroupNCCL.cpp:616] {text}"


def caught(number: int, seq: int) -> str:
    return (
        f"[Rank {number}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
        "NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
    )


def gathered(number: int, seq: int, size: int) -> str:
    """Like `caught`, in a call whose elements tell how many ranks take part."""
    return caught(number, seq).replace("ALLREDUCE", "_ALLGATHER_BASE").replace("NumelOut=64", f"NumelOut={64 * size}")


def waited(rank: int, seq: int, group: str = "PG ID 0 PG GUID 0(default_pg)", number: int | None = None) -> list[str]:
    """What a rank that waited prints, to the last words of its process, which bear no prefix."""
    n = rank if number is None else number
    return [
        native(rank, caught(n, seq)),
        native(
            rank,
            f"[{group} Rank {n}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued "
            f"work: {seq}, last completed work: {seq - 1}",
        ),
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  [{group} Rank {n}] Process group watchdog thread terminated with exception: {caught(n, seq)}",
    ]


def told(rank: int, enqueued: int, completed: int) -> str:
    return native(
        rank,
        f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from  rank 0 "
        f"and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL "
        f"work: {completed}.This is most likely caused by incorrect usages of collectives.",
    )


def stuck(rank: int, at: float = 500) -> str:
    return native(
        rank,
        f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
        "making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API hang.",
        at,
    )


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("  what():  [PG ID 2 PG GUID 5(dp_group) Rank 1] Process group watchdog: [Rank 1] Watchdog caught", None),
        ("  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog: [Rank 1] Watchdog caught", 1),
        ("[PG ID 1 PG GUID 0x5f3a Rank 3] Timeout", None),
        ("[PG ID 1 PG GUID 1 Rank 3] [Rank 3] Watchdog caught", None),
        ("[PG ID 0 PG GUID 0 Rank 3] [Rank 3] Watchdog caught", 3),
        ("[PG 1 (dp mesh) Rank 3] terminated: [Rank 3] Watchdog caught", None),
        ("[PG 0 (default_pg) Rank 3] Timeout at NCCL work: 7", 3),
        ("I0527 15:16:51.705945 58624 ProcessGroupNCCL.cpp:869] [PG 0 Rank 3] Timeout at NCCL work: 7", 3),
        ("[rank6]:[E810 15:00:00.123456789 P.cpp:1] [PG ID 2 PG GUID 5(dp) Rank 3] x: [Rank 3] y", 6),
        ("[Rank 7] NCCL watchdog thread terminated with exception: [Rank 7] Watchdog caught", 7),
    ],
)
def test_numbers_inside_a_group_are_no_ranks(line: str, rank: int | None) -> None:
    assert clean(line).identity.rank == rank


DATA_PARALLEL = "PG ID 2 PG GUID 5(dp_group)"


@pytest.mark.parametrize("apart", [False, True])
def test_the_member_that_is_missing_in_a_part_of_the_ranks(tmp_path: Path, apart: bool) -> None:
    """Ranks 0, 2, 4, 6 are numbers 0 to 3 of their group; the one that does not come is rank 4, number 2."""
    lines = {r: steps(r, 9) for r in range(8)}
    for number, rank in enumerate((0, 2, 4, 6)):
        lines[rank] += waited(rank, 301, DATA_PARALLEL, number) if rank != 4 else []
    files = {f"rank{r}.log": text for r, text in lines.items()} if apart else {"run.out": [*chain(*lines.values())]}
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == ("collective-timeout", (4,))
    assert "Ranks 0, 2, 6 timed out in group 5" in found.notes[0]


def test_a_part_of_the_ranks_that_does_not_show_its_spacing_blames_nobody(tmp_path: Path) -> None:
    lines = trained(8)
    for rank, number in ((0, 0), (1, 1), (5, 3)):
        lines += waited(rank, 301, DATA_PARALLEL, number)
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("collective-timeout", None)
    assert "nothing of the kind" not in found.notes[0]


def created(rank: int, group: str, number: int, size: int) -> str:
    return native(
        rank,
        f"[{group} Rank {number}] ProcessGroupNCCL initialization options: size: {size}, global rank: {rank}, "
        "TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0, SPLIT_FROM: 0, SPLIT_COLOR: 0, PG Name: 12",
        0,
    )


ODD = {1: 0, 2: 1, 4: 2, 7: 3}  # rank -> number in a group whose ranks are not evenly spaced


@pytest.mark.parametrize("group", ["PG ID 2 PG GUID 12(ep)", "PG 12 (ep)", "PG 12"])
def test_what_ranks_print_of_a_group_tells_who_is_missing_in_it(tmp_path: Path, group: str) -> None:
    lines = [created(rank, group, number, 4) for rank, number in ODD.items()] + trained(8)
    for rank, number in ODD.items():
        lines += waited(rank, 301, group, number) if rank != 4 else []
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("collective-timeout", (4,))
    assert "Ranks 1-2, 7 timed out in group 12" in found.notes[0]


def test_a_group_of_which_not_all_ranks_printed_anything_names_nobody(tmp_path: Path) -> None:
    group = "PG ID 2 PG GUID 12(ep)"
    lines = [created(rank, group, number, 4) for rank, number in ODD.items() if rank != 4] + trained(8)
    for rank, number in ODD.items():
        lines += waited(rank, 301, group, number) if rank != 4 else []
    assert first(diagnose(tmp_path, {"run.out": lines})).ranks is None


def test_ranks_outside_the_group_that_timed_out_are_not_missing_in_it(tmp_path: Path) -> None:
    """Five of eight ranks, with their own numbers: without their lines they would pass for a group of all ranks."""
    group = "PG ID 2 PG GUID 12(ep)"
    lines = trained(8) + [line for rank in range(5) for line in waited(rank, 301, group, rank)]
    assert first(diagnose(tmp_path, {"run.out": lines})).ranks == (5, 6, 7)
    lines += [created(rank, group, rank, 5) for rank in range(5)]
    assert first(diagnose(tmp_path, {"run.out": lines})).ranks is None


def in_groups(*groups: tuple[str, dict[int, int]], world: int = 8) -> list[str]:
    """What ranks print that wait in groups; of each: its name, rank -> number in it."""
    lines = trained(world)
    for n, (name, numbers) in enumerate(groups, 1):
        for rank, number in numbers.items():
            lines += waited(rank, 300 + n, f"PG ID {n} PG GUID {n}({name})", number)
    return lines


def test_waits_in_two_groups_are_two(tmp_path: Path) -> None:
    """Each has its own missing member; that of the second is known as the groups are of one size."""
    lines = in_groups(("tp", {0: 0, 1: 1, 3: 3}), ("tp", {4: 0, 5: 1, 6: 2}))
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("collective-timeout", (2, 7))
    assert "Ranks 0-1, 3 timed out in group 1 at #301" in found.notes[0]
    assert "Ranks 4-6 timed out in group 2 at #302" in found.notes[0]


def test_a_group_in_which_nobody_is_missing_beside_one_in_which_one_is(tmp_path: Path) -> None:
    lines = in_groups(("tp", {0: 0, 1: 1, 3: 3}), ("tp", {4: 0, 5: 1, 6: 2, 7: 3}))
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert found.ranks == (2,)
    assert "Ranks 4-7 timed out in group 2 at #302, where nobody is known to be missing" in found.notes[0]


def test_two_groups_of_which_no_line_says_who_is_missing(tmp_path: Path) -> None:
    lines = in_groups(("tp", {0: 0, 1: 1, 2: 2, 3: 3}), ("tp", {4: 0, 5: 1, 6: 2, 7: 3}))
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("collective-timeout", None)
    assert "2 process groups (ranks 0-3 in group 1 at #301; ranks 4-7 in group 2 at #302)" in found.notes[0]


CROSSED = [
    pytest.param((("dp", {1: 1, 3: 3}), ("dp", {0: 0, 2: 2})), 4, id="two parts"),
    pytest.param((("all", {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}), ("pp", {5: 1, 6: 2, 7: 3})), 8, id="all and a part"),
]


@pytest.mark.parametrize(("groups", "world"), CROSSED)
def test_groups_that_wait_for_members_that_wait_in_the_other(
    tmp_path: Path, groups: tuple[tuple[str, dict[int, int]], ...], world: int
) -> None:
    lines = in_groups(*groups, world=world)
    if world == 8:
        lines = [line.replace("PG ID 1 PG GUID 1(all)", "PG ID 0 PG GUID 0(default_pg)") for line in lines]
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("subgroup-order-mismatch", None)
    assert "a circle" in found.notes[0]


def test_a_group_that_waits_for_one_of_which_nobody_is_missing_is_no_circle(tmp_path: Path) -> None:
    """Ranks 0 and 1 may be all of their group, for which 2 and 3 wait in theirs."""
    found = first(diagnose(tmp_path, {"run.out": in_groups(("tp", {0: 0, 1: 1}), ("dp", {2: 2, 3: 3}), world=4)}))
    assert (found.name, found.ranks) == ("collective-timeout", None)


def test_a_group_of_most_ranks_under_their_own_numbers_is_that_of_all(tmp_path: Path) -> None:
    lines = trained(8)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        lines += waited(rank, 301, "PG ID 1 PG GUID 1(fsdp)")
    assert first(diagnose(tmp_path, {"run.out": lines})).ranks == (5,)


def test_the_rank_whose_watchdog_is_stuck_while_others_time_out(tmp_path: Path) -> None:
    lines = [*trained(4), stuck(2)]
    for rank in (0, 1, 3):
        lines += waited(rank, 610)
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("nccl-watchdog-stuck", (2,))
    assert "while ranks 0-1, 3 wait" in found.notes[0]


def test_one_stuck_watchdog_is_no_timeout(tmp_path: Path) -> None:
    found = diagnose(tmp_path, {"run.out": [*trained(4), stuck(2)]})
    assert (first(found).name, first(found).ranks) == ("nccl-watchdog-stuck", (2,))
    assert all(f.name != "collective-timeout" for f in found.findings)


def test_watchdogs_that_are_stuck_on_most_ranks_are_a_common_wait(tmp_path: Path) -> None:
    lines = [*trained(4), *(stuck(r) for r in (1, 2, 3))]
    found = diagnose(tmp_path, {"run.out": lines})
    assert (first(found).name, first(found).ranks) == ("collective-timeout", (0,))
    assert all(f.name != "nccl-watchdog-stuck" for f in found.findings)


def test_a_watchdog_that_hangs_in_the_abort_after_its_timeout(tmp_path: Path) -> None:
    lines = trained(4)
    for rank in (0, 1, 3):
        lines += [*waited(rank, 610), stuck(rank, 1200)]
    found = diagnose(tmp_path, {"run.out": lines})
    assert (first(found).name, first(found).ranks) == ("collective-timeout", (2,))


def test_a_rank_ahead_of_all_others(tmp_path: Path) -> None:
    lines = [
        *trained(8),
        *waited(3, 501),
        *(told(r, 500, 500) for r in range(8) if r != 3),
    ]
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("collective-desync", (3,))
    assert "Rank 3 is ahead" in found.notes[0]
    assert "before #501 that rank 3 made alone" in found.fix[0]


def test_a_rank_stuck_in_a_later_or_an_earlier_call_is_said_to_be_ahead_or_behind(tmp_path: Path) -> None:
    for rank, seq, direction in (
        (29, 4288, "Rank 29 is behind: it has not reached #4300"),
        (2, 4301, "Rank 2 is ahead"),
    ):
        lines = [*trained(64), *(line for r in range(64) for line in waited(r, seq if r == rank else 4300))]
        found = first(diagnose(tmp_path, {"run.out": lines}))
        assert (found.name, found.ranks) == ("collective-desync", (rank,))
        assert direction in found.notes[0]
        assert f"rank {rank} at #{seq}" in found.notes[0]
        assert ("behind" in found.notes[0]) is (seq < 4300)
        fix = f"rank {rank} stands short of #4300" if seq < 4300 else f"before #4300 that rank {rank} made alone"
        assert fix in found.fix[0]
        assert len([text for text in found.fix if f"rank {rank}" in text]) == 1


def test_no_side_is_ahead_where_half_wait_in_each_call(tmp_path: Path) -> None:
    lines = [*trained(4), *(line for r in range(4) for line in waited(r, 812 if r < 2 else 813))]
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert not any(word in note for note in found.notes for word in ("ahead", "behind"))
    assert not any("made alone" in text or "short of" in text for text in found.fix)


def test_rank_0_ahead_of_all_others(tmp_path: Path) -> None:
    lines = [*trained(4), *waited(0, 501), *(told(r, 500, 500) for r in (1, 2, 3))]
    found = first(diagnose(tmp_path, {"run.out": lines}))
    assert (found.name, found.ranks) == ("rank-conditional-collective", (0,))


def test_others_with_something_pending_are_not_told_to_be_behind_or_not(tmp_path: Path) -> None:
    lines = [*trained(4), *waited(0, 501), *(told(r, 500, 499) for r in (1, 2, 3))]
    assert first(diagnose(tmp_path, {"run.out": lines})).ranks is None


def test_the_rank_that_had_said_that_all_was_done(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in (0, 2, 3)}
    files["rank1.log"] = [*steps(1, 9), f"[rank1]: 2026-08-10 {clock(10)} INFO Training complete, 9 batches"]
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == ("rank-exited-early", (1,))
    assert "Training complete" in found.evidence[0].text


SAVING = ["Saving checkpoint at step 9 to /mnt/ckpt", "saved shard 3/8 (41.2 GB)"]
EVALUATING = ["***** Running Evaluation *****", "  Num examples = 5000", " 40%|####  | 40/100 [07:00<10:30,  9.1s/it]"]
TUNING = ["compiling model", "AUTOTUNE mm(4096x4096, 4096x1024)", "  triton_mm_4 0.0812 ms 100.0%"]


@pytest.mark.parametrize(
    ("rank", "last", "name", "doing"),
    [
        (0, SAVING, "rank0-side-work", "saving"),
        (0, EVALUATING, "rank0-side-work", "evaluating"),
        (0, ["Running tokenizer on dataset (num_proc=8):  61%|######    | 292/480 [30:30<20:00, 0.16 examples/s]"],
         "rank0-side-work", "preparing data"),
        (0, ["Grouping texts in chunks of 1024:  40%|####  | 192/480 [30:30<40:00, 0.1 examples/s]"],
         "rank0-side-work", "preparing data"),
        (0, TUNING, "collective-timeout", "compiling"),
        (2, SAVING, "collective-timeout", "saving"),
        (0, [*SAVING, "saved shard 8/8 (41.2 GB)"], "collective-timeout", None),
        (0, [*SAVING, "Checkpoint saved in 80 s"], "collective-timeout", None),
        (0, [*SAVING, "step 10 loss 2.9"], "collective-timeout", None),
    ],
)  # fmt: skip
def test_what_the_missing_rank_was_doing(
    tmp_path: Path, rank: int, last: list[str], name: str, doing: str | None
) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in range(4) if r != rank}
    files[f"rank{rank}.log"] = [*steps(rank, 9), *last]
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == (name, (rank,))
    assert (f"tell of {doing}" in found.notes[0]) if doing else ("tell of" not in found.notes[0])


def says(rank: int, at: float, text: str) -> str:
    return f"[rank{rank}] 2026-08-10 {clock(at)} INFO {text}"


BEGUN, DONE = "Saving checkpoint to /mnt/ckpt/step_9 ...", "Saved checkpoint /mnt/ckpt/step_9 in 1329.1s"


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize(
    ("rank", "before", "after", "name", "busy"),
    [
        (0, [BEGUN], [DONE], "rank0-side-work", "(saving), not stuck: it said later"),
        (0, ["Running evaluation", "eval batch 8100/12000"], [], "rank0-side-work", "not stuck: its last line tells"),
        (2, [BEGUN], [DONE], "collective-timeout", "rank 2 was busy (saving), not stuck"),
        (0, [BEGUN], [], "rank0-side-work", None),  # it may have been stuck in that
        (0, [BEGUN, DONE], ["closing the loader"], "collective-timeout", None),  # it was done before
        (0, [], [DONE], "collective-timeout", None),
    ],
)
def test_a_rank_that_was_busy_when_the_others_gave_up(
    tmp_path: Path, merged: bool, rank: int, before: list[str], after: list[str], name: str, busy: str | None
) -> None:
    others = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in range(4) if r != rank}
    first_half = [*steps(rank, 9), *(says(rank, 20 + n, text) for n, text in enumerate(before))]
    second_half = [says(rank, 4000, text) for text in after]
    files = {**others, f"rank{rank}.log": [*first_half, *second_half]}
    if merged:
        files = {"out.log": [*first_half, *(line for lines in others.values() for line in lines), *second_half]}
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == (name, (rank,))
    assert (busy in found.notes[0]) if busy else ("not stuck" not in found.notes[0])
    if busy and rank:
        assert found.fix[0].startswith("Give rank 2 the time for it (saving)")


def test_what_all_ranks_were_doing_is_no_side_work(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *SAVING, *waited(r, 70)] for r in (1, 2, 3)}
    files["rank0.log"] = [*steps(0, 9), *SAVING]
    assert first(diagnose(tmp_path, files)).name == "collective-timeout"


def source(file: Path, rank: int | None = 0) -> Source:
    return Source(file.name, file, Kind.LOG, file.stat().st_size if file.exists() else 9, Identity(rank=rank))


@pytest.mark.parametrize("data", [b"", b"\xff\x00\xfe" * 9000, b"x" * 600_000, b"\r" * 5000, b"Saving"])
def test_last_lines_of_any_bytes(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "rank0.log"
    file.write_bytes(data)
    words = last_words(0, [source(file)])
    assert (words is not None) == (data == b"Saving")
    assert last_words(0, [source(tmp_path / "gone.log")]) is None


def test_lines_of_a_rank_in_a_file_of_several(tmp_path: Path) -> None:
    file = tmp_path / "all.log"
    file.write_text("[rank0]: Evaluating 3/90\n[rank1]: waiting\n[rank0]:[E810 10:00:00.1 ProcessGroupNCCL.cpp:1] x\n")
    words = last_words(0, [source(file, None)])
    assert words is not None
    assert (words.doing, words.evidence[0].line) == ("evaluating", 1)
    assert last_words(1, [source(file, None)]) is None


def torn_down(rank: int, at: float) -> list[str]:
    return [
        native(
            rank,
            f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL "
            "error: remote process exited or there was a network error, NCCL version 2.21.5",
            at,
        ),
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ]


@pytest.mark.parametrize("late", [(0, 1, 2, 3), (1, 2, 3), (0,)])
def test_peers_that_are_lost_long_after_the_wait_was_given_up_are_its_effect(
    tmp_path: Path, late: tuple[int, ...]
) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in (1, 2, 3)}
    files["rank0.log"] = steps(0, 9)
    for rank in late:
        files[f"rank{rank}.log"] += torn_down(rank, 730)
    found = diagnose(tmp_path, files)
    assert [(f.name, f.ranks) for f in found.of_role(Role.ROOT)] == [("collective-timeout", (0,))]
    assert next(f.role for f in found.findings if f.name == "nccl-remote-error") is Role.CASCADE


def test_peers_that_are_lost_before_others_give_up_are_no_effect_of_that(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in (2, 3)}
    files |= {f"rank{r}.log": [*steps(r, 9), *torn_down(r, 60)] for r in (0, 1)}
    assert "nccl-remote-error" in [f.name for f in diagnose(tmp_path, files).of_role(Role.ROOT)]


def test_the_lines_that_tell_of_the_side_work_are_quoted(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70), *torn_down(r, 730)] for r in (1, 2, 3)}
    files["rank0.log"] = [*steps(0, 9), *SAVING]
    found = first(diagnose(tmp_path, files))
    assert found.name == "rank0-side-work"
    assert [e.text for e in found.evidence if e.file == "rank0.log"] == SAVING[::-1]


def test_the_last_line_of_the_missing_rank_is_told(tmp_path: Path) -> None:
    """Where no word in it is known, it says more than nothing all the same; the runtime's own below it does not."""
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in range(3)}
    files["rank3.log"] = [*steps(3, 9), "opening shard /mnt/nfs/data/shard-00412.tar", "NCCL INFO comm 0x1 idle"]
    found = first(diagnose(tmp_path, files))
    assert (found.name, found.ranks) == ("collective-timeout", (3,))
    line = len(files["rank3.log"]) - 1
    assert f"The last line of rank 3 (rank3.log:{line}): opening shard /mnt/nfs/data/shard-00412.tar" in found.notes[0]


def test_of_two_streams_without_times_no_last_line_is_told(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in range(3)}
    files["rank3.out"] = ["opening shard /mnt/nfs/data/shard-00412.tar"]
    files["rank3.err"] = ["UserWarning: slow"]
    found = first(diagnose(tmp_path, files))
    assert found.ranks == (3,) and "The last line" not in found.notes[0]


def test_a_wait_is_said_to_be_for_the_rank_that_did_not_come(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*steps(r, 9), *waited(r, 70)] for r in range(3)}
    files["rank3.log"] = steps(3, 9)
    found = diagnose(tmp_path, files)
    assert found.summary.startswith("A collective did not finish in time, waiting for rank 3 after step ")
    assert located(found.findings[0]).startswith("A collective did not finish in time, waiting for rank 3 ")


PIPELINE = "PG ID 4 PG GUID 21(PIPELINE_MODEL_PARALLEL_GROUP)"


def paired(rank: int, seq: int, kind: str) -> list[str]:
    return [line.replace("OpType=ALLREDUCE", f"OpType={kind}") for line in waited(rank, seq, PIPELINE)]


def test_numbers_of_sends_and_receives_are_their_pairs(tmp_path: Path) -> None:
    calls = [*paired(0, 18, "RECV"), *paired(1, 17, "SEND"), *paired(3, 9, "RECV")]
    found = first(diagnose(tmp_path, {"run.out": [*trained(4), *calls]}))
    assert (found.name, found.ranks) == ("collective-timeout", (2,))


def test_operations_of_a_group_that_do_not_fit_are_a_mismatch_still(tmp_path: Path) -> None:
    calls = [*waited(0, 18), *waited(1, 18), *(line.replace("ALLREDUCE", "BROADCAST") for line in waited(2, 18))]
    found = first(diagnose(tmp_path, {"run.out": [*trained(3), *calls]}))
    assert (found.name, found.ranks) == ("collective-op-mismatch", (2,))


@pytest.mark.parametrize(("silent", "ranks"), [((7,), (7,)), ((6, 7), None)])
def test_the_one_rank_of_which_nothing_is_heard_whatever_the_groups(
    tmp_path: Path, silent: tuple[int, ...], ranks: tuple[int, ...] | None
) -> None:
    """Ranks 0-6 wait in tensor and data parallel groups of two and four; the last members of groups leave no gap."""
    groups = {
        rank: ("PG ID 1 PG GUID 1(dp)", rank // 2) if rank < 6 else ("PG ID 2 PG GUID 3(tp)", 0) for rank in range(8)
    }
    lines = [line for rank in range(8) if rank not in silent for line in waited(rank, 15, *groups[rank])]
    found = first(diagnose(tmp_path, {"run.out": [*trained(8), *lines]}))
    assert (found.name, found.ranks) == ("collective-timeout", ranks)


def test_one_of_eight_that_is_behind_is_a_minority_though_one_alone_timed_out(tmp_path: Path) -> None:
    lines = [*waited(3, 77), *(told(rank, 77 if rank != 6 else 76, 76) for rank in range(8) if rank != 3)]
    found = first(diagnose(tmp_path, {"run.out": [*trained(8), *lines]}))
    assert (found.name, found.ranks) == ("straggler-rank", (6,))


def test_of_two_ranks_the_one_that_did_not_time_out_is_missing_where_its_log_is_there(tmp_path: Path) -> None:
    files = {"rank1.log": [*steps(1, 9), *waited(1, 70)]}
    assert first(diagnose(tmp_path, files)).ranks is None
    assert first(diagnose(tmp_path, files | {"rank0.log": steps(0, 9)})).ranks == (0,)
    assert first(diagnose(tmp_path, files | {"rank0.log": [*steps(0, 9), *waited(0, 70)]})).ranks is None


def test_what_a_shared_log_shows_without_a_rank_is_of_rank_0_alone(tmp_path: Path) -> None:
    bar = " 23%|██        | 11086/48211 [11:00<1:10:00, 11.0it/s]"
    busy = ["***** Running Evaluation *****", "  Num examples = 48211", bar]
    trains = [f"2026-08-10 {clock(n)} INFO step {n} loss {3 - n / 100:.2f}" for n in range(1, 10)]

    def of_missing(rank: int) -> str:
        folder = tmp_path / str(rank)
        folder.mkdir()
        waits = [line for r in range(4) if r != rank for line in waited(r, 70)[:2]]
        return first(diagnose(folder, {"out.log": [*trained(4), *trains, *busy, *waits]})).name

    assert of_missing(0) == "rank0-side-work"
    assert of_missing(2) == "collective-timeout"


@pytest.mark.parametrize("spread", [False, True])
def test_half_of_the_ranks_that_wait_point_at_the_other_host(tmp_path: Path, spread: bool) -> None:
    for node, ranks in (("node0", (0, 1)), ("node1", (2, 3))):
        (tmp_path / node).mkdir()
        for rank in ranks:
            waits = [native(rank, gathered(rank, 700, 4))] if spread else [native(rank, caught(rank, 700))]
            group = "[PG ID 1 PG GUID 1(mesh_fsdp) Rank {r}] Timeout at NCCL work: 700, last enqueued NCCL work: 702."
            waits += [native(rank, group.format(r=rank))] if spread else []
            lines = [*steps(rank, 9), *(waits if node == "node0" else [])]
            (tmp_path / node / f"rank{rank}.log").write_text("".join(f"{line}\n" for line in lines))
    root = first(diagnose(tmp_path, {}))
    assert (root.name, root.ranks, root.node) == ("collective-timeout", (2, 3), "node1")


def test_half_of_the_ranks_of_no_host_or_of_both_are_not_blamed(tmp_path: Path) -> None:
    for node, ranks in (("node0", (0, 1)), ("node1", (2, 3))):
        (tmp_path / node).mkdir()
        for rank in ranks:
            lines = [*steps(rank, 9), *([native(rank, caught(rank, 700))] if rank in (0, 3) else [])]
            (tmp_path / node / f"rank{rank}.log").write_text("".join(f"{line}\n" for line in lines))
    root = first(diagnose(tmp_path, {}))
    assert (root.name, root.ranks, root.node) == ("collective-timeout", None, None)
    assert any("their logs are there" in note for note in root.notes)


OBSERVED = (
    "[PG ID 0 PG GUID 0(default_pg) Rank {r}] Observed flight recorder dump signal from another rank via TCPStore."
)


@pytest.mark.parametrize(
    ("only_told", "at", "ranks"),
    [
        ((5,), 640, (5,)),
        ((5,), 600, None),  # it was told, and ended, before the others gave up
        ((1, 3, 5), 640, None),
    ],
)
def test_a_rank_that_only_heard_of_the_timeout_did_not_wait(
    tmp_path: Path, only_told: tuple[int, ...], at: float, ranks: tuple[int, ...] | None
) -> None:
    files = {}
    for rank in range(8):
        end = native(rank, OBSERVED.format(r=rank), at) if rank in only_told else native(rank, caught(rank, 700))
        files[f"rank{rank}.log"] = [*steps(rank, 9), end]
    root = first(diagnose(tmp_path, files))
    assert (root.name, root.ranks) == ("collective-timeout", ranks)


def test_a_rank_that_heard_of_the_timeout_and_had_come_as_far_waits_as_well(tmp_path: Path) -> None:
    files = {f"rank{rank}.log": [*steps(rank, 9), native(rank, caught(rank, 700))] for rank in range(7)}
    files["rank7.log"] = [*steps(7, 9), told(7, 700, 699)]
    assert first(diagnose(tmp_path, files)).ranks is None


@pytest.mark.parametrize("ahead", [0, 1900, 3600])
def test_an_error_is_told_before_by_the_clock_of_its_own_host(tmp_path: Path, ahead: int) -> None:
    """Rank 3 runs out of memory, and all others give up the same call; the clock of its host runs ahead."""
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 79 GiB."
    )
    for node, ranks in (("node0", (0, 1)), ("node1", (2, 3))):
        late = ahead if node == "node1" else 0
        lines = []
        for rank in ranks:
            lines += [
                f"[rank{rank}]: 2026-08-10 {clock(n + late)} step {n} loss {3 - n / 100:.2f}" for n in range(1, 10)
            ]
        if node == "node1":
            lines += ["[rank3]: Traceback (most recent call last):", '[rank3]:   File "/w/t.py", line 9, in <module>']
            lines += ["[rank3]:     loss.backward()", f"[rank3]: {oom}"]
        lines += [native(rank, caught(rank, 700), 620 + late) for rank in ranks if rank != 3]
        (tmp_path / f"{node}.log").write_text("".join(f"{line}\n" for line in lines))
    found = diagnose(tmp_path, {}).of_role(Role.ROOT)
    assert [(f.name, f.ranks) for f in found] == [("cuda-oom", (3,))]


def test_what_a_rank_recorded_before_it_was_gone_may_stand_below_the_others_words_in_a_shared_file(
    tmp_path: Path,
) -> None:
    gone = (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41823"
    )
    closed = [f"[rank{rank}]: {gone}" for rank in (0, 2, 3)]
    early = [line for rank in (0, 2, 3) for line in steps(rank, 9)] + steps(1, 8)
    root = first(diagnose(tmp_path, {"launcher.log": [*early, *closed, *steps(1, 9)[8:]]}))
    assert (root.name, root.ranks, root.step) == ("rank-exited-early", (1,), 9)
