"""Who keeps whom waiting: dumps compared rank by rank, and what logs state."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.collectives import desync, still_standing, vote
from forensics.engine.collectives.observations import title
from forensics.engine.pipeline import analyse
from forensics.engine.steps import step_clock
from forensics.model import (
    COLLECTIVES_COLUMNS,
    METRICS_COLUMNS,
    Evidence,
    Identity,
    Kind,
    Observation,
    Role,
    Source,
    Traceback,
    schema,
)
from forensics.parsers.flight_recorder import collectives, read_dump

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"
EMPTY = pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS))


def dumps(name: str, *ranks: int) -> pl.DataFrame:
    frames = []
    for file in sorted((DATA / name).iterdir()):
        source = Source(file.name, file, Kind.FLIGHT_RECORDER, file.stat().st_size)
        dump = read_dump(file, source)
        if not ranks or dump.rank in ranks:
            frames.append(collectives(dump, source))
    return pl.concat(frames)


def call(rank: int, seq: int, op: str = "all_reduce", *, done: bool = True, **changes: Any) -> dict[str, Any]:
    """A row as NCCL writes it: it says `completed`."""
    return {
        "source": f"trace_rank_{rank}",
        "rank": rank,
        "group": "0",
        "group_desc": "default_pg",
        "seq": seq,
        "op": op,
        "input_sizes": "[[64]]",
        "output_sizes": "[[64]]",
        "dtypes": '["Float"]',
        "state": "completed" if done else "scheduled",
        "retired": done,
        "time": 1000.0 + seq + rank / 1000,
        "is_p2p": False,
        "frame": "/app/train.py:88 step",
    } | changes


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema(COLLECTIVES_COLUMNS))


def history(ranks: Sequence[int], upto: int = 5, **changes: Any) -> list[dict[str, Any]]:
    return [call(rank, seq, **changes) for rank in ranks for seq in range(1, upto + 1)]


def seen(signature: str, rank: int | None, **captures: str) -> Observation:
    line = Evidence(f"rank_{rank}.log", 1, 0, signature)
    return Observation(
        signature=signature, weight=0.9, evidence=(line,), identity=Identity(rank=rank), culprits=(), captures=captures
    )


def raised(rank: int, message: str, *frames: tuple[str, int, str]) -> Traceback:
    line = Evidence(f"rank_{rank}.log", 9, 0, message)
    return Traceback(
        exception="RuntimeError", message=message, frames=frames, header=line, final=line, identity=Identity(rank=rank)
    )


def only(found: Sequence[Observation]) -> Observation:
    assert len(found) == 1, [(o.signature, o.note) for o in found]
    return found[0]


# Real gloo dumps


@pytest.mark.parametrize(
    ("name", "signature", "culprits", "words"),
    [
        ("rank0_barrier", "rank-conditional-collective", (0,), "rank 0 called barrier at train.py:114 main"),
        ("parked_rank2", "straggler-rank", (2,), "Rank 2 enqueued up to #19"),
        ("subgroup_order", "subgroup-order-mismatch", (0, 3), "circle"),
        ("shape_two_dumps", "collective-shape-mismatch", (), "no majority"),
        ("rank6_left_no_dump", "collective-timeout", (6,), "rank 6 left no dump"),
        ("detail_wrapper", "collective-desync", (2,), "train.py:119"),
    ],
)
def test_real_dumps(name: str, signature: str, culprits: tuple[int, ...], words: str) -> None:
    found = only(desync(dumps(name), (), None))
    assert (found.signature, found.culprits) == (signature, culprits)
    assert words in (found.note or "")
    assert found.evidence and all(e.line is None and e.offset is None for e in found.evidence)


def test_the_key_evidence_is_the_culprits_last_call() -> None:
    found = only(desync(dumps("parked_rank2"), (), None))
    first, second, *_ = found.evidence
    assert (first.file, first.text) == (
        "comm_lib_trace_rank_2",
        "all_reduce #19 sizes [[6896]] scheduled, retired, at train.py:99 main < train.py:131 <module>",
    )
    assert (
        second.text
        == "all_reduce #20 sizes [[6896]] scheduled, not retired, at train.py:99 main < train.py:131 <module>"
    )
    assert found.identity.rank == 2
    assert found.captures["seq"] == "20"


def test_the_order_of_ranks_does_not_matter() -> None:
    for name in ("rank0_barrier", "parked_rank2", "subgroup_order"):
        frame = dumps(name)
        assert desync(frame, (), None) == desync(
            frame.reverse().sort("rank", "seq", descending=[True, False]), (), None
        )


def test_a_rank_without_a_dump_takes_a_side_by_what_gloo_told_it() -> None:
    abort = seen("collective-desync", 1, got="32", expected="24")
    found = only([o for o in desync(dumps("shape_two_dumps"), [abort], None) if o.culprits])
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", (2,))


def test_dumps_of_a_recorder_that_was_off_say_nothing() -> None:
    assert desync(dumps("recorder_off"), (), [0, 1, 2, 3]) == ()


# NCCL-like rows


def test_no_trouble_no_finding() -> None:
    assert desync(table(*history(range(4))), (), range(4)) == ()
    assert desync(EMPTY, (), None) == ()


def test_a_rank_that_is_one_behind_on_request_is_no_straggler() -> None:
    rows = [*history((0, 1, 2), 6), *history((3,), 5)]
    assert desync(table(*rows), (), range(4)) == ()


@pytest.mark.parametrize("late", [(0,), (3,), (1, 2)])
def test_ranks_behind(late: tuple[int, ...]) -> None:
    rows = history(range(8))
    rows += [call(rank, 6, done=False) for rank in range(8) if rank not in late]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", late)
    assert "all_reduce #6" in (found.note or "")


def test_two_ranks_one_behind_in_the_same_line_of_code() -> None:
    found = only(desync(table(*history((0, 1)), call(0, 6, done=False)), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (1,))


def test_a_rank_ahead_in_a_line_that_nobody_else_knows() -> None:
    rows = [*history(range(4)), call(0, 6, "broadcast", done=False, frame="/app/train.py:130 save")]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("rank-conditional-collective", (0,))
    assert "ahead" in (found.note or "")


def test_a_rank_ahead_in_the_usual_line_blames_nobody() -> None:
    found = only(desync(table(*history(range(4)), call(0, 6, done=False)), (), None))
    assert (found.signature, found.culprits) == ("collective-timeout", ())


def test_asynchronous_calls_do_not_make_the_slower_caller_guilty() -> None:
    """All are stuck in #6; some hosts have run ahead."""
    rows = history(range(4)) + [call(rank, 6, done=False) for rank in range(4)]
    rows += [call(rank, 7, done=False) for rank in (0, 1, 2)]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits) == ("collective-timeout", ())
    assert "#6" in (found.note or "")


def test_the_chain_of_waits_ends_at_the_one_who_waits_for_nobody() -> None:
    """Ranks 0 and 1 wait for 2 in the default group; 2 waits for 3 in its own group; 3 does nothing."""
    rows = history(range(4))
    rows += [call(r, s, group="5", group_desc="tp") for r in (2, 3) for s in (1, 2)]
    rows += [call(0, 6, done=False), call(1, 6, done=False), call(2, 3, done=False, group="5", group_desc="tp")]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))


def test_a_wait_that_ends_in_a_complete_group_blames_nobody() -> None:
    rows = history(range(4))
    rows += [call(r, s, group="5", group_desc="tp") for r in (2, 3) for s in (1, 2)]
    rows += [call(0, 6, done=False), call(1, 6, done=False)]
    rows += [call(r, 3, done=False, group="5", group_desc="tp") for r in (2, 3)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("collective-timeout", ())
    assert "tp" in (found.note or "")


def test_numbers_of_different_groups_are_not_compared() -> None:
    rows = history((0, 1), 900, group="1", group_desc="dp0") + history((2, 3), 3, group="2", group_desc="dp1")
    assert desync(table(*rows), [seen("collective-timeout", 9)], None)[0].culprits != (2, 3)


@pytest.mark.parametrize(
    ("changes", "signature"),
    [
        ({"op": "all_gather"}, "collective-op-mismatch"),
        ({"input_sizes": "[[48]]"}, "collective-shape-mismatch"),
        ({"dtypes": '["Half"]'}, "collective-dtype-mismatch"),
    ],
)
@pytest.mark.parametrize("odd", [0, 2])
def test_mismatches_are_decided_by_majority(changes: dict[str, Any], signature: str, odd: int) -> None:
    rows = history(range(4)) + [call(r, 6, done=False, **(changes if r == odd else {})) for r in range(4)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == (signature, (odd,))


def test_a_tie_names_nobody() -> None:
    rows = history(range(4)) + [call(r, 6, done=False, input_sizes=f"[[{32 * (1 + r % 2)}]]") for r in range(4)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", ())


def test_sizes_that_may_differ_are_no_mismatch() -> None:
    rows = history(range(4), op="all_to_all")
    rows += [call(r, 6, "all_to_all", done=False, input_sizes=f"[[{r}]]") for r in range(4)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("collective-timeout", ())


def test_a_difference_that_went_well_is_not_the_reason() -> None:
    rows = [call(r, 1, input_sizes=f"[[{r}]]") for r in range(4)]
    rows += [call(r, s) for r in range(4) for s in (2, 3)] + [call(r, 4, done=False) for r in (0, 1, 3)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))


def test_buffers_that_begin_at_different_numbers() -> None:
    rows = [call(r, s) for r in range(4) for s in range(100 + 7 * r, 150)]
    rows += [call(r, 150, done=False) for r in (0, 1, 2)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))


def test_a_member_that_never_called_its_group() -> None:
    """The dump states the members, and the buffer of the silent one goes back to its first call."""
    desc = "tp ranks 0-3"
    rows = history(range(4)) + [call(r, 1, done=False, group="7", group_desc=desc) for r in (0, 1, 2)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))
    wrapped = [call(3, s) for s in range(50, 60)] + history((0, 1, 2), 59)
    wrapped += [call(r, 1, done=False, group="7", group_desc=desc) for r in (0, 1, 2)]
    assert only(desync(table(*wrapped), (), None)).culprits == ()


def test_a_rank_whose_dump_cannot_be_read_is_named_as_one_without() -> None:
    rows = history(range(3)) + [call(r, 6, done=False) for r in range(3)]
    unreadable = dict.fromkeys(COLLECTIVES_COLUMNS) | {"source": "trace_rank_3", "rank": 3}
    assert only(desync(table(*rows), (), range(4))).culprits == (3,)
    found = only(desync(table(*rows, unreadable), (), range(4)))
    assert found.culprits == (3,)
    assert "no call can be read in the dump of rank 3" in (found.note or "")
    assert "left no dump" not in (found.note or "")
    both = only(desync(table(*rows, unreadable), (), range(5)))
    assert both.culprits == (3, 4)
    assert "rank 4 left no dump (or it was not collected), and no call" in (both.note or "")


def test_missing_dumps_of_the_majority_blame_nobody() -> None:
    rows = history(range(2)) + [call(r, 6, done=False) for r in range(2)]
    assert only(desync(table(*rows), (), range(8))).culprits == ()


def test_an_older_dump_of_the_same_rank_is_left_out() -> None:
    stale = [call(2, s, source="old_rank_2", time=10.0 + s) for s in range(1, 3)]
    rows = stale + history(range(4)) + [call(r, 6, done=False) for r in range(4)]
    assert only(desync(table(*rows), (), None)).culprits == ()


def test_a_call_that_the_others_never_make_is_no_turned_order() -> None:
    """The members of the group are declared, so that the waits form a circle."""
    alone = {"group": "1", "group_desc": "eval ranks 0-3", "frame": "/app/train.py:33 evaluate", "done": False}
    for odd, signature in ((0, "rank-conditional-collective"), (2, "collective-desync")):
        rows = history(range(4)) + [call(r, 6, done=False) for r in range(4) if r != odd]
        found = only(desync(table(*rows, call(odd, 1, **alone)), (), None))
        assert (found.signature, found.culprits) == (signature, (odd,))
        known = [call(r, 1, **alone | {"done": True}) for r in range(4)]
        found = only(desync(table(*rows, *known, call(odd, 2, **alone)), (), None))
        assert (found.signature, found.culprits) == ("subgroup-order-mismatch", ())


def test_opposite_orders_of_asynchronous_calls() -> None:
    rows = history(range(4))
    for r in range(4):
        first, second = (10.0, 11.0) if r != 2 else (11.0, 10.0)
        rows += [call(r, 1, done=False, group="1", group_desc="tp", time=first)]
        rows += [call(r, 1, done=False, group="2", group_desc="dp", time=second)]
    found = only(desync(table(*rows), (), None))
    assert (found.signature, found.culprits) == ("subgroup-order-mismatch", (2,))


def test_point_to_point() -> None:
    both = [call(0, 1, "recv 0<-1", done=False, is_p2p=True), call(1, 1, "recv 1<-0", done=False, is_p2p=True)]
    found = only(desync(table(*history((0, 1)), *both), (), None))
    assert (found.signature, found.culprits) == ("p2p-mismatch", ())
    fit = [call(0, 1, "send 0->1", done=False, is_p2p=True), call(1, 1, "recv 1<-0", done=False, is_p2p=True)]
    assert desync(table(*history((0, 1)), *fit), (), None) == ()
    sizes = [fit[0], fit[1] | {"input_sizes": "[[8]]"}]
    assert only(desync(table(*history((0, 1)), *sizes), (), None)).signature == "p2p-mismatch"


def test_a_dump_made_while_unwinding_needs_a_log_that_tells_of_trouble() -> None:
    """gloo retires the call that timed out, so that nothing is unfinished."""
    rows = [r | {"state": "scheduled"} for r in history((0, 1, 3), 6) + history((2,), 5)]
    assert desync(table(*rows), (), range(4)) == ()
    waited = [seen("collective-timeout", r, timeout_ms="12000") for r in (0, 1, 3)]
    found = only(desync(table(*rows), waited, range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))
    assert found.weight < 0.7
    closed = [seen("gloo-connection-closed", r) for r in (0, 1, 3)]
    assert only(desync(table(*rows), closed, range(4))).signature == "rank-exited-early"
    own = [raised(2, "token id 50047 outside of vocabulary", ("/app/train.py", 3, "load"))]
    assert only(desync(table(*rows), waited, range(4), own)).signature == "rank-exited-early"


def test_the_end_of_an_epoch_makes_it_uneven_inputs() -> None:
    rows = history(range(4)) + [call(r, 6, done=False) for r in (0, 2, 3)]
    rows += [call(1, 6, "barrier", done=False, input_sizes="[]", dtypes="[]", frame="/app/train.py:129 main")]
    assert only(desync(table(*rows), (), None)).signature == "collective-desync"
    ended = [seen("epoch-finished", 1, epoch="0", steps="25")]
    found = only(desync(table(*rows), ended, None))
    assert (found.signature, found.culprits) == ("uneven-inputs", (1,))
    everyone = [seen("epoch-finished", r, epoch="0") for r in range(4)]
    assert only(desync(table(*rows), everyone, None)).signature == "collective-desync"


# Logs


def fingerprint(a: int, b: int, op_a: str = "ALLREDUCE", op_b: str = "ALLREDUCE", **more: str) -> Observation:
    return seen("collective-shape-mismatch", a, rank_a=str(a), rank_b=str(b), op_a=op_a, op_b=op_b, **more)


def test_each_rank_of_a_detail_run_names_another_one() -> None:
    """Rank 2 is odd, and says itself that rank 0 is."""
    lines = [
        fingerprint(0, 2, seq_a="3", seq_b="3", shape_a="4", shape_b="7"),
        fingerprint(2, 0, seq_a="3", seq_b="3", shape_a="7", shape_b="4"),
        fingerprint(3, 2, seq_a="3", seq_b="3", shape_a="4", shape_b="7"),
    ]
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", (2,))
    pair = only(desync(EMPTY, lines[1:2], None))
    assert pair.culprits == (0, 2)  # one of the two is at fault, and nothing tells which
    assert "Two ranks" in (pair.note or "")


def test_fingerprints_of_different_operations_and_the_shape_exchange() -> None:
    lines = [fingerprint(r, 1, "ALLREDUCE", "BARRIER", seq_a="9", seq_b="9") for r in (0, 2, 3)]
    found = only(desync(EMPTY, [*lines, fingerprint(3, 0, "ALLREDUCE", "REDUCE", seq_a="9", seq_b="0")], None))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (1,))


def test_a_ranks_own_line_wins_over_what_others_read_of_it() -> None:
    """Ranks 0 and 1 read a helper collective of rank 2, and rank 2 one of rank 0."""
    lines = [
        fingerprint(0, 2, "ALLREDUCE", "GATHER", seq_a="23", seq_b="0"),
        fingerprint(2, 0, "BROADCAST", "ALLGATHER_COALESCED", seq_a="23", seq_b="0"),
        fingerprint(1, 2, "ALLREDUCE", "GATHER", seq_a="23", seq_b="0"),
    ]
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (2,))
    assert "#23" in (found.note or "")
    assert "GATHER" not in (found.note or "")


def test_a_connection_is_closed_by_the_only_other_rank() -> None:
    found = only(desync(EMPTY, [seen("gloo-connection-closed", 0)], range(2)))
    assert (found.signature, found.culprits) == ("rank-exited-early", (1,))
    ended = seen("epoch-finished", 1)
    assert only(desync(EMPTY, [seen("gloo-connection-closed", 0), ended], range(2))).signature == "uneven-inputs"
    assert only(desync(EMPTY, [seen("collective-timeout", 0), ended], range(2))).culprits == (1,)
    assert only(desync(EMPTY, [seen("collective-timeout", 0)], range(2))).culprits == ()
    everyone = [seen("epoch-finished", r) for r in range(2)]
    assert only(desync(EMPTY, [seen("collective-timeout", 0), *everyone], range(2))).culprits == ()


def stuck(rank: int, seq: int, group: str | None = "0", **more: str) -> Observation:
    where = {} if group is None else {"group": group}
    return seen("collective-timeout", rank, seq=str(seq), **where, **more)


def test_everybody_stuck_at_one_number_names_nobody() -> None:
    found = only(desync(EMPTY, [stuck(r, 2144, None, op="ALLREDUCE") for r in range(8)], range(8)))
    assert (found.signature, found.culprits) == ("collective-timeout", ())
    assert "TORCH_FR_BUFFER_SIZE" in (found.note or "")


def test_the_silent_rank() -> None:
    lines = [stuck(r, 9) for r in (1, 2, 3)]
    assert only(desync(EMPTY, lines, None)).culprits == (0,)
    assert only(desync(EMPTY, lines, range(4))).culprits == (0,)
    assert only(desync(EMPTY, lines, range(8))).culprits == ()  # most were not heard: their logs are not there
    inside = [stuck(r, 9, "17") for r in (1, 2, 3)]
    assert only(desync(EMPTY, inside, range(4))).culprits == ()  # who belongs to group 17 is not known


def test_a_silent_rank_is_not_blamed_where_the_log_names_one() -> None:
    barrier = Observation(
        signature="monitored-barrier-timeout", weight=0.9, evidence=(), identity=Identity(rank=0), culprits=(1,)
    )
    assert desync(EMPTY, [seen("collective-timeout", 0), seen("collective-timeout", 2), barrier], range(4)) == ()


def test_a_rank_that_only_says_how_far_it_had_come() -> None:
    lines = [stuck(r, 78, enqueued="79", completed="77") for r in (1, 2, 3)]
    lines += [seen("nccl-dump-signal", 0, enqueued="77", completed="77", from_rank="1", group="0")]
    found = only(desync(EMPTY, lines, range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (0,))
    assert "rank 0 had enqueued up to #77" in (found.note or "")
    ahead = [*lines[:3], seen("nccl-dump-signal", 0, enqueued="79", completed="77", group="0")]
    assert only(desync(EMPTY, ahead, range(4))).culprits == ()


def test_counters_of_the_default_group_say_nothing_about_another_group() -> None:
    lines = [stuck(r, 7800, "4") for r in (1, 2, 3)]
    lines += [seen("nccl-dump-signal", 0, enqueued="77", completed="77", group="0")]
    assert all(o.culprits == () for o in desync(EMPTY, lines, range(4)))


def test_ranks_of_one_group_that_are_stuck_apart() -> None:
    found = only(desync(EMPTY, [stuck(0, 78), stuck(1, 78), stuck(2, 77), stuck(3, 78)], range(4)))
    assert (found.signature, found.culprits) == ("collective-desync", (2,))
    unknown = [stuck(0, 86433, None), stuck(3, 57622, None), stuck(7, 57622, None)]
    found = only(desync(EMPTY, unknown, [0, 3, 7]))
    assert (found.signature, found.culprits) == ("collective-timeout", ())
    assert "different groups" in (found.note or "")


def test_one_number_different_calls() -> None:
    lines = [stuck(r, 9, op="ALLREDUCE", numel="64" if r != 1 else "48") for r in range(4)]
    found = only(desync(EMPTY, lines, range(4)))
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", (1,))
    lines = [stuck(r, 9, op="ALLREDUCE" if r != 3 else "BROADCAST", numel="64") for r in range(4)]
    found = only(desync(EMPTY, lines, range(4)))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (3,))


def test_closed_connections_and_one_silent_rank() -> None:
    found = only(desync(EMPTY, [seen("gloo-connection-closed", r) for r in (0, 1, 3)], range(4)))
    assert (found.signature, found.culprits) == ("rank-exited-early", (2,))


def test_tracebacks_say_where_the_ranks_stood() -> None:
    timeout = "[/src/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete"
    stacks = [raised(r, timeout, ("/app/train.py", 114 if r == 0 else 96, "main")) for r in range(4)]
    found = only(desync(EMPTY, [seen("collective-timeout", r) for r in range(4)], range(4), stacks))
    assert (found.signature, found.culprits) == ("rank-conditional-collective", (0,))
    c10d = "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    pair = [
        raised(r, timeout, ("/app/train.py", 70, "stage"), (c10d, 2700, kind)) for r, kind in ((1, "send"), (2, "recv"))
    ]
    assert only(desync(EMPTY, [seen("collective-timeout", r) for r in (1, 2)], None, pair)).signature == "p2p-mismatch"


TORCH = "/opt/lib/python3.11/site-packages/torch"
BACKWARD = (f"{TORCH}/autograd/graph.py:979 _engine_run_backward", f"{TORCH}/_tensor.py:623 backward")


def standing(rank: int, *frames: str, kind: str = "timeout") -> Observation:
    return seen("stack-dump", rank, kind=kind, frames="\n".join((*frames, "/app/train.py:141 <module>")))


def test_the_rank_that_is_in_its_own_code_keeps_the_others_waiting() -> None:
    lines = [standing(r, *BACKWARD, "/app/train.py:109 main") for r in (0, 1, 3)]
    lines.append(standing(2, "/app/data.py:31 read_index", "/app/train.py:104 main"))
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))
    assert "data.py:31 read_index" in (found.note or "")
    assert "the backward pass" in (found.note or "")


@pytest.mark.parametrize(
    ("file", "what"),
    [
        (f"{TORCH}/utils/data/dataloader.py:1100 _try_get_data", "the data loader"),
        ("/opt/lib/python3.11/site-packages/filelock/_api.py:213 acquire", "a file lock"),
        (f"{TORCH}/utils/file_baton.py:49 wait", "a file lock"),
        ("/opt/lib/python3.11/subprocess.py:1209 communicate", "a child process"),
        ("/opt/lib/python3.11/ssl.py:1166 read", "the network"),
    ],
)
def test_what_the_rank_was_doing(file: str, what: str) -> None:
    """In a trainer all ranks stand at one line of the user's code; the library's frames tell them apart."""
    lines = [standing(r, *BACKWARD, "/app/train.py:12 main", kind="py-spy") for r in range(7)]
    lines.append(standing(7, file, "/app/train.py:12 main", kind="py-spy"))
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("straggler-rank", (7,))
    assert what in (found.note or "")


def test_the_stack_of_a_rank_0_that_saves() -> None:
    lines = [standing(r, *BACKWARD, "/app/train.py:109 main") for r in (1, 2, 3)]
    lines.append(standing(0, "/app/ckpt.py:31 save_checkpoint", "/app/train.py:120 main"))
    assert only(desync(EMPTY, lines, None)).signature == "rank0-side-work"
    lines[-1] = standing(0, "/app/ckpt.py:31 flush", "/app/train.py:120 main")
    assert only(desync(EMPTY, lines, None)).signature == "straggler-rank"


def test_the_stack_of_a_rank_0_that_waits_elsewhere() -> None:
    lines = [standing(r, *BACKWARD, "/app/train.py:109 main") for r in (1, 2, 3)]
    lines.append(standing(0, f"{TORCH}/distributed/distributed_c10d.py:3252 all_reduce", "/app/train.py:33 evaluate"))
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("rank-conditional-collective", (0,))
    assert "all_reduce" in (found.note or "")


def test_a_minority_that_waits_for_a_majority_in_one_place_is_ahead() -> None:
    lines = [standing(r, "/app/train.py:109 main") for r in (0, 1, 2)]
    lines.append(standing(3, f"{TORCH}/distributed/distributed_c10d.py:3252 barrier", "/app/train.py:130 main"))
    found = only(desync(EMPTY, lines, None))
    assert (found.signature, found.culprits) == ("collective-desync", (3,))


def test_stacks_that_prove_nothing() -> None:
    same = [standing(r, *BACKWARD, "/app/train.py:109 main") for r in range(4)]
    assert desync(EMPTY, same, None) == ()
    scattered = [standing(r, f"/app/data.py:{r} load", "/app/train.py:104 main") for r in range(4)]
    assert desync(EMPTY, scattered, None) == ()
    loading = [standing(r, f"{TORCH}/utils/data/dataloader.py:{r} f", "/app/train.py:1 main") for r in range(3)]
    assert desync(EMPTY, [*loading, standing(3, *BACKWARD, "/app/train.py:109 main")], None) == ()
    assert desync(EMPTY, [standing(0, "/app/a.py:1 f")], None) == ()
    odd = standing(2, "/app/data.py:31 read_index", kind="fatal")
    assert desync(EMPTY, [*same[:2], same[3], odd], None) == ()  # it died of something: no place in the hang
    busy = standing(2, "/app/data.py:31 read_index")
    assert desync(EMPTY, [*same[:2], same[3], busy, seen("run-finished", 0)], None) == ()


def test_the_last_stack_of_a_rank_counts() -> None:
    first = [standing(r, f"/app/x.py:{r} f") for r in range(4)]
    last = [standing(r, *BACKWARD, "/app/train.py:109 main") for r in (0, 1, 2)] + [standing(3, "/app/d.py:3 load")]
    assert only(desync(EMPTY, [*first, *last], None)).culprits == (3,)


def test_dumps_name_the_rank_and_its_stack_says_what_it_did() -> None:
    rows = history(range(4)) + [call(r, 6, done=False) for r in (0, 1, 3)]
    found = only(desync(table(*rows), [standing(2, "/app/data.py:31 read_index")], range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))
    assert "data.py:31 read_index" in (found.note or "")


def test_what_training_outlived_is_no_hang() -> None:
    metrics = pl.DataFrame(
        [
            {"source": "r0.log", "line": n, "rank": 0, "attempt": None, "step": n, "epoch": None, "time": None,
             "name": "loss", "value": 1.0}
            for n in (10, 20, 30)
        ],
        schema=schema(METRICS_COLUMNS),
    )  # fmt: skip

    def dumped(rank: int, line: int) -> Observation:
        return replace(standing(rank, "/app/x.py:1 f"), evidence=(Evidence(f"r{rank}.log", line, 0, "f"),))

    dumps = [dumped(0, 15), dumped(0, 40), dumped(1, 15), dumped(1, 40)]
    kept = still_standing([*dumps, seen("collective-timeout", 0)], step_clock(metrics, {}))
    assert kept == [dumps[1], dumps[3], seen("collective-timeout", 0)]


def test_a_rank_that_waits_alone_in_a_group_without_declared_members() -> None:
    """gloo's dumps do not say who belongs to a group. A group of one would not wait."""
    rows = history(range(3)) + [call(r, 6, done=False) for r in (1, 2)]
    alone = {"group": "1", "group_desc": "", "frame": "/app/train.py:33 evaluate"}
    found = only(desync(table(*rows, call(0, 1, done=False, **alone)), (), None))
    assert (found.signature, found.culprits) == ("rank-conditional-collective", (0,))
    rows = history(range(3)) + [call(r, 6, done=False) for r in (0, 1)]
    found = only(desync(table(*rows, call(2, 1, done=False, **alone)), (), None))
    assert (found.signature, found.culprits) == ("collective-desync", (2,))
    pair = [*history(range(2)), call(0, 6, done=False), call(1, 1, done=False, **alone)]
    assert only(desync(table(*pair), (), None)).culprits == ()


def test_attempts_are_taken_apart() -> None:
    """In attempt 0 rank 2 was silent; attempt 1 went well, and the dumps are of attempt 0."""
    first = [seen("collective-timeout", r) for r in (0, 1, 3)]
    lines = [replace(o, identity=Identity(rank=o.identity.rank, attempt=0)) for o in first]
    lines += [replace(seen("epoch-finished", r, epoch="0"), identity=Identity(rank=r, attempt=1)) for r in range(4)]
    found = only(desync(EMPTY, lines, range(4)))
    assert (found.culprits, found.identity.attempt) == ((2,), 0)
    found = only(desync(dumps("parked_rank2"), lines, range(4)))
    assert (found.signature, found.culprits, found.identity.attempt) == ("straggler-rank", (2,), 0)


def test_a_misread_rank_does_not_make_a_world() -> None:
    found = desync(EMPTY, [seen("collective-timeout", 10**12), seen("collective-timeout", 1)], None)
    assert only(found).culprits == ()


# Properties


def test_vote() -> None:
    assert vote({}) == (None, ())
    assert vote({0: "a", 1: "b"}) == (None, ())
    assert vote({0: "b", 1: "a", 2: "a"}) == ("a", (0,))


calls = st.builds(
    lambda rank, seq, op, done, size, group, p2p: call(
        rank,
        seq,
        op,
        done=done,
        input_sizes=size,
        group=group,
        is_p2p=p2p,
        group_desc=None if seq % 2 else "g ranks 0-2",
    ),
    st.integers(0, 4),
    st.integers(-1, 4) | st.none().map(lambda _: 3),
    st.sampled_from(["all_reduce", "send 0->1", "recv 1<-0", "barrier", ""]),
    st.booleans(),
    st.sampled_from(["[[64]]", "[]", None, "junk"]),
    st.sampled_from(["0", "index 1", "3", None]),
    st.booleans() | st.none(),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(calls, max_size=14), world=st.none() | st.just([0, 1, 2, 3, 4]))
def test_any_rows_are_answered_and_culprits_are_a_minority(
    rows: list[Mapping[str, Any]], world: list[int] | None
) -> None:
    known = {row["rank"] for row in rows} | set(world or ()) | {0, 1, 2}
    for found in desync(table(*map(dict, rows)), [seen("collective-timeout", 0)], world):
        assert found.note and found.note.endswith((".", ")"))
        assert set(found.culprits or ()) <= set(range(max(known, default=0) + 1))
        assert 0 < found.weight <= 1


def test_sixty_four_ranks_with_two_thousand_calls_each() -> None:
    n, m = 64, 2000
    ranks = pl.int_range(0, n, eager=True).repeat_by(m).explode()
    seqs = pl.concat([pl.int_range(1, m + 1, eager=True)] * n)
    frame = pl.DataFrame([call(0, 1)], schema=schema(COLLECTIVES_COLUMNS)).drop("rank", "seq", "source", "time")
    big = pl.DataFrame({"rank": ranks.cast(pl.Int32), "seq": seqs}).join(frame, how="cross")
    big = big.with_columns(
        source=pl.format("trace_rank_{}", "rank"),
        time=pl.col("seq").cast(pl.Float64),
        state=pl.when(pl.col("seq") == m).then(pl.lit("scheduled")).otherwise(pl.col("state")),
    ).filter((pl.col("rank") != 17) | (pl.col("seq") < m))
    began = time.process_time()
    found = only(desync(big.select(list(COLLECTIVES_COLUMNS)), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (17,))
    assert time.process_time() - began < 5


# Where a rank hangs, and both sides' stacks


def behind(**late: Any) -> list[dict[str, Any]]:
    """Ranks 0 to 2 wait in #6, rank 3 has enqueued #5 and no more."""
    rows = [*history((0, 1, 2)), *history((3,), 4), call(3, 5, **late)]
    return rows + [call(rank, 6, done=False) for rank in (0, 1, 2)]


def test_nothing_pending_on_the_late_rank_means_its_own_program() -> None:
    found = only(desync(table(*behind()), (), range(4)))
    assert found.culprits == (3,)
    assert "on the host" in (found.note or "")
    assert "device" not in (found.note or "")


def test_an_older_pending_call_on_the_late_rank_means_device_or_network() -> None:
    found = only(desync(table(*behind(done=False)), (), range(4)))
    assert found.culprits == (3,)
    assert "all_reduce #5 of the default group, is older" in (found.note or "")
    assert "on the device or in the network" in (found.note or "")
    assert found.signature == "rank-stuck-on-device"


def test_an_older_pending_call_of_gloo_proves_no_device() -> None:
    rows = [row | {"state": "scheduled"} for row in behind(done=False)]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))
    assert "device" not in (found.note or "")


def pending(*states: str, seq: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """A call that all ranks have enqueued and none has completed, in these states."""
    rows = [call(rank, seq, done=False, **changes) for rank in range(len(states))]
    return [row | {"state": state} for row, state in zip(rows, states, strict=True)]


def test_a_gpu_that_is_stuck_is_explained_by_its_host_s_kernel_log(tmp_path: Path) -> None:
    """And without one it is a root of its own, which does not send anybody to the program."""
    for rank in range(4):
        last = 8 if rank == 2 else 9
        entries = [
            {
                "record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq,
                "p2p_seq_id": 0, "op_id": seq, "profiling_name": "nccl:all_reduce", "time_created_ns": (1791195072 + seq) * 10**9,
                "input_sizes": [[64]], "input_dtypes": ["Float"], "output_sizes": [[64]], "output_dtypes": ["Float"],
                "state": "completed" if seq < last else "started", "retired": seq < last, "is_p2p": False,
                "frames": [],
            }
            for seq in range(1, last + 1)
        ]  # fmt: skip
        dump = {"version": "2.9", "pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}}, "entries": entries}
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))
    (found,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert (found.name, found.ranks) == ("rank-stuck-on-device", (2,))
    assert not any("py-spy" in text for text in found.fix)
    (tmp_path / "dmesg-node-0.txt").write_text(
        "[Mon Oct  5 10:11:12 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
        "the bus.\n"
    )
    diagnosis = analyse([str(tmp_path)])
    assert [f.name for f in diagnosis.of_role(Role.ROOT)] == ["gpu-fell-off-bus"]
    assert "rank-stuck-on-device" in [f.name for f in diagnosis.of_role(Role.CASCADE)]


def test_a_call_that_one_gpu_has_not_begun() -> None:
    rows = [*history(range(4)), *pending("started", "started", "started", "scheduled")]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits, found.captures["seq"]) == ("rank-stuck-on-device", (3,), "6")
    assert "#6 sizes [[64]] scheduled" in found.evidence[0].text
    assert "#6 sizes [[64]] started" in found.evidence[1].text


@pytest.mark.parametrize(
    "states",
    [
        ("scheduled",) * 4,  # a recorder that does not time calls
        ("started",) * 4,
        ("started", "started", "scheduled", "scheduled"),
        ("started", "scheduled", "scheduled", "scheduled"),
    ],
)
def test_states_that_show_no_gpu_to_be_behind(states: tuple[str, ...]) -> None:
    rows = [*history(range(4)), *pending(*states)]
    assert all(not o.culprits for o in desync(table(*rows), (), range(4)))


def test_a_gpu_that_is_in_a_call_of_another_group_is_not_to_blame() -> None:
    rows = [*history(range(4)), *pending("started", "started", "started", "scheduled")]
    other = [call(rank, 2, done=False, group="3", group_desc="tp ranks 2-3") | {"state": "started"} for rank in (2, 3)]
    assert all(not o.culprits for o in desync(table(*rows, *other), (), range(4)))


def test_calls_that_differ_behind_one_that_hangs_everywhere_are_not_the_cause() -> None:
    """All GPUs are in #6; what was enqueued after it has not begun on any of them."""
    rows = [*history(range(4)), *pending("started", "started", "started", "started")]
    rows += [call(rank, 7, "broadcast" if rank == 2 else "all_reduce", done=False) for rank in range(4)]
    assert [(o.signature, o.culprits) for o in desync(table(*rows), (), range(4))] == [("collective-timeout", ())]
    done = [row | {"state": "completed", "retired": True} if row["seq"] == 6 else row for row in rows]
    found = only(desync(table(*done), (), range(4)))
    assert (found.signature, found.culprits) == ("collective-op-mismatch", (2,))


def test_a_gpu_that_is_behind_though_its_program_is_not() -> None:
    rows = history((0, 1, 2)) + history((3,), 3)
    rows += [call(3, seq, done=False) for seq in (4, 5, 6)] + [call(rank, 6, done=False) for rank in (0, 1, 2)]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits, found.captures["seq"]) == ("rank-stuck-on-device", (3,), "4")
    assert "enqueued as much as the others" in (found.note or "")


def test_entries_of_gloo_do_not_tell_how_far_a_gpu_is() -> None:
    def gloo(rank: int, seq: int, done: bool) -> dict[str, Any]:
        return call(rank, seq, done=done) | {"state": "scheduled"}

    rows = [gloo(rank, seq, seq < (4 if rank == 3 else 6)) for rank in range(4) for seq in range(1, 7)]
    assert all(not o.culprits for o in desync(table(*rows), (), range(4)))


def test_both_sides_stacks_are_told() -> None:
    late = {"stack": "/app/io.py:7 read\n/app/train.py:90 step"}
    rows = [row | ({} if row["rank"] != 3 else late) for row in behind()]
    found = only(desync(table(*rows), (), range(4)))
    assert "rank 3 at io.py:7 read < train.py:90 step; ranks 0-2 at train.py:88 step" in (found.note or "")
    assert [e.file for e in found.evidence][:2] == ["trace_rank_3", "trace_rank_0"]


def test_a_peer_is_shown_beside_many_culprits() -> None:
    rows = history(range(12)) + [call(rank, 6, done=False) for rank in range(5, 12)]
    found = only(desync(table(*rows), (), range(12)))
    assert found.culprits == (0, 1, 2, 3, 4)
    assert found.evidence[-1].file == "trace_rank_5"


def test_sizes_inside_operations_that_are_issued_together() -> None:
    rows = history(range(4), 2)
    for rank in range(4):
        size = "[[32], [8]]" if rank == 2 else "[[64], [8]]"
        rows += [
            call(rank, 3, "allreduce_coalesced", done=False, input_sizes=size),
            call(rank, 3, "coalesced", done=False, input_sizes="[]", output_sizes="[]", dtypes="[]"),
        ]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits) == ("collective-shape-mismatch", (2,))


def test_a_dump_of_active_collectives_only_says_how_far_its_rank_came(tmp_path: Path) -> None:
    rows = history((0, 1, 2)) + [call(rank, 6, done=False) for rank in (0, 1, 2)]
    status = {"0": {"last_enqueued_collective": 5, "last_started_collective": -1, "last_completed_collective": 5}}
    file = tmp_path / "nccl_trace_rank_3"
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    file.write_bytes(pickle.dumps({"version": "2.10", "pg_config": config, "pg_status": status, "entries": []}, 2))
    source = Source(file.name, file, Kind.FLIGHT_RECORDER, 1)
    rows = [row | {"group_desc": "default_pg ranks 0-3"} for row in rows]
    found = only(desync(pl.concat([table(*rows), collectives(read_dump(file, source), source)]), (), None))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))


# Sends and receives


def p2p(rank: int, op: str, seq: int = 1, **changes: Any) -> dict[str, Any]:
    return call(rank, seq, op, done=False, is_p2p=True) | changes


def batch(rank: int, seq: int, *ops: str, done: bool = True, sizes: str = "[[20]]") -> list[dict[str, Any]]:
    """Sends and receives of a batch: the recorder only keeps the state of the entry that closes it."""
    closing = call(rank, seq, "coalesced", done=done, is_p2p=True, input_sizes="[]", dtypes="[]")
    inside = [p2p(rank, op, seq, input_sizes=sizes, state="scheduled", retired=False) for op in ops]
    return [*inside, closing]


def batches(last: int) -> list[dict[str, Any]]:
    """Batches of ranks 0 and 1 that ended."""
    rows = history(range(2), 2)
    for seq in range(1, last + 1):
        rows += batch(0, seq, "send 0->1", "recv 0<-1") + batch(1, seq, "recv 1<-0", "send 1->0")
    return rows


@pytest.mark.parametrize("before", [0, 2])
def test_a_size_inside_a_batch_that_does_not_fit(before: int) -> None:
    rows = batches(before) + batch(0, before + 1, "send 0->1", "recv 0<-1", done=False)
    rows += batch(1, before + 1, "recv 1<-0", "send 1->0", done=False, sizes="[[99]]")
    found = only(desync(table(*rows), (), range(2)))
    assert (found.signature, found.culprits) == ("p2p-mismatch", ())
    assert "[[99]]" in (found.note or "")


def test_a_batch_that_lacks_a_half() -> None:
    rows = batches(2) + batch(0, 3, "send 0->1", "recv 0<-1", done=False) + batch(1, 3, "recv 1<-0", done=False)
    found = only(desync(table(*rows), (), range(2)))
    assert (found.signature, found.culprits) == ("p2p-mismatch", ())
    assert "rank 1 never made the other half" in (found.note or "")


def test_a_rank_that_did_not_come_to_a_batch() -> None:
    rows = batches(2) + batch(0, 3, "send 0->1", "recv 0<-1", done=False)
    found = only(desync(table(*rows), (), range(2)))
    assert (found.signature, found.culprits) == ("straggler-rank", (1,))


def test_batches_that_fit_or_have_ended_say_nothing() -> None:
    assert desync(table(*batches(3)), (), range(2)) == ()
    rows = batches(2) + batch(0, 3, "send 0->1", "recv 0<-1", done=False)
    ahead = batch(0, 4, "send 0->1", "recv 0<-1", done=False)  # which the other rank is yet to issue
    rows += [*ahead, *batch(1, 3, "recv 1<-0", "send 1->0", done=False)]
    assert desync(table(*rows), (), range(2)) == ()


def test_the_end_of_a_pipeline_that_waits_is_to_blame() -> None:
    rows = history(range(4), 3)
    rows += [p2p(0, "recv 0<-1"), p2p(1, "recv 1<-2"), p2p(2, "recv 2<-3")]
    found = only(desync(table(*rows), (), range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (3,))
    assert "for rank 3, and rank 3 waits for nobody" in (found.note or "")
    assert "Ranks 0-1 wait behind it" in (found.note or "")


def test_the_ranks_that_wait_for_one_are_told_by_group_and_call() -> None:
    rows = history(range(4), 3) + [call(rank, 4, done=False) for rank in (0, 3)]
    rows += [p2p(2, "recv 1<-0", group="5", group_desc="pp ranks 1,2")]
    note = only(desync(table(*rows), (), range(4))).note or ""
    assert note.startswith("Ranks 0, 3 wait in all_reduce #4 of the default group")
    assert ", and rank 2 waits in recv 1<-0 #1 of group 5 (pp ranks 1,2)" in note
    assert "for rank 1, and rank 1 waits for nobody" in note


def test_a_stage_without_a_dump_is_weaker() -> None:
    rows = [*history(range(3), 3), p2p(0, "recv 0<-1"), p2p(1, "recv 1<-2"), p2p(2, "recv 2<-3")]
    found = only(desync(table(*rows), (), range(4)))
    assert found.culprits == (3,)
    assert "left no dump" in (found.note or "")
    assert found.weight < 0.6


def test_matching_sends_and_receives_keep_nobody_waiting() -> None:
    rows = [*history(range(4), 3), p2p(0, "send 0->1"), p2p(1, "recv 1<-0")]
    assert all(o.signature == "collective-timeout" for o in desync(table(*rows), (), range(4)))


def test_a_circle_of_receives_and_collectives() -> None:
    rows = [*history(range(2), 3), p2p(0, "recv 0<-1"), call(1, 4, done=False)]
    found = only(desync(table(*rows), (), range(2)))
    assert (found.signature, found.culprits) == ("p2p-mismatch", ())
    assert "circle" in (found.note or "")


def test_types_of_a_pair_that_differ() -> None:
    rows = [p2p(0, "send 0->1"), p2p(1, "recv 1<-0", dtypes='["Half"]')]
    found = only(desync(table(*rows), (), range(2)))
    assert found.signature == "p2p-mismatch" and "Half" in (found.note or "")


def test_peers_are_counted_inside_their_group() -> None:
    where = {"group": "7", "group_desc": "pp ranks 2,5,6"}
    rows = [*history(range(8), 3), p2p(2, "recv 0<-1", **where), p2p(5, "recv 1<-2", **where)]
    found = only(desync(table(*rows), (), range(8)))
    assert found.culprits == (6,)


def exchanges(upto: int, first: int = 1) -> list[dict[str, Any]]:
    """Rank 0 sends to rank 1, which takes it, many times."""
    rows = [(call(0, n, "send 0->1"), call(1, n, "recv 1<-0")) for n in range(first, upto + 1)]
    return [row | {"is_p2p": True} for pair in rows for row in pair]


@pytest.mark.parametrize(
    ("first", "last", "culprits"),
    [
        (1, p2p(0, "send 0->1", 6), (1,)),
        (1, p2p(1, "recv 1<-0", 6), (0,)),
        (40, p2p(0, "send 0->1", 46, time=1046.0), (1,)),  # buffers that have dropped their oldest calls
    ],
)
def test_one_rank_alone_waits_for_a_peer_that_always_came(
    first: int, last: dict[str, Any], culprits: tuple[int, ...]
) -> None:
    found = only(desync(table(*exchanges(first + 4, first), last), (), range(2)))
    assert (found.signature, found.culprits, found.weight) == ("straggler-rank", culprits, 0.5)
    assert "the other half of each such exchange before" in (found.note or "")


@pytest.mark.parametrize(
    "rows",
    [
        [p2p(0, "send 0->1"), call(1, 1, "recv 1<-2", is_p2p=True)],  # they never exchanged anything
        [*exchanges(5), call(1, 6, "recv 1<-0", is_p2p=True), p2p(0, "send 0->1", 6)],  # the other half is there
        [*exchanges(5), p2p(0, "send 0->2", 6), call(2, 1, "recv 2<-1", is_p2p=True)],
        [*exchanges(5), p2p(0, "send 0->1", 6), p2p(3, "send 3->2", 6)],  # two waits at once: of a run that goes on
    ],
)
def test_one_rank_that_waits_proves_little(rows: list[dict[str, Any]]) -> None:
    assert all(not o.culprits for o in desync(table(*rows), (), range(4)))


def test_an_exchange_that_ended_at_its_other_end_hangs_on_the_device() -> None:
    rows = [*exchanges(5), call(1, 6, "recv 1<-0", is_p2p=True), p2p(0, "send 0->1", 6)]
    found = desync(table(*rows), [seen("collective-timeout", 0, seq="6", op="SEND")], range(2))
    assert [(o.signature, o.culprits) for o in found] == [("rank-stuck-on-device", (0,))]
    assert "rank 1 has made and finished the other half" in (found[0].note or "")


# Communicators that were never completed


def birth(rank: int, size: int, stage: str, id: str = "0xc2") -> Observation:
    text = f"h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks {size} cudaDev 0 nvmlDev 0 busId 6 commId {id} - Init {stage}"
    line = Evidence(f"rank_{rank}.log", 3, 0, text)
    return Observation(signature="nccl-init", weight=0.9, evidence=(line,), identity=Identity(rank=rank))


def test_a_rank_that_never_came_to_the_set_up() -> None:
    lines = [birth(rank, 4, "START") for rank in (0, 1, 3)] + [seen("store-timeout", 0)]
    found = only(desync(EMPTY, lines, range(4), present=range(4)))
    assert (found.signature, found.culprits) == ("straggler-rank", (2,))
    assert "which rank 2 never began" in (found.note or "")
    absent = only(desync(EMPTY, lines, range(4), present=(0, 1, 3)))
    assert absent.weight < found.weight


def test_a_set_up_says_nothing_without_a_wait_or_where_it_completed() -> None:
    lines = [birth(rank, 4, "START") for rank in (0, 1, 3)]
    assert desync(EMPTY, lines, range(4)) == ()
    done = [*lines, birth(0, 4, "COMPLETE"), seen("store-timeout", 0)]
    assert desync(EMPTY, done, range(4)) == ()


def test_ranks_of_a_smaller_communicator_are_not_those_of_the_job() -> None:
    lines = [birth(rank, 8, stage) for rank in range(8) for stage in ("START", "COMPLETE")]
    lines += [birth(rank, 3, "START", "0xdd") for rank in (0, 1)] + [seen("store-timeout", 0)]
    assert only(desync(EMPTY, lines, range(8))).culprits == ()


def test_a_call_that_all_have_made_hangs_on_the_device() -> None:
    rows = history(range(2)) + [call(rank, 6, done=False) for rank in range(2)]
    found = only(desync(table(*rows), (), range(2)))
    assert (found.signature, found.culprits) == ("collective-timeout", ())
    assert "every rank has called it" in (found.note or "")


def test_a_group_of_one_counts_only_where_it_timed_out() -> None:
    rows = [*history((0,)), call(0, 6, done=False)]
    assert desync(table(*rows), (), range(1)) == ()
    found = desync(table(*rows), [seen("collective-timeout", 0, seq="6")], range(1))
    assert "every rank has called it" in (found[0].note or "")


def test_all_others_wait_in_the_call_that_one_has_finished() -> None:
    rows = [call(r, 6, done=r == 1) for r in range(4)]
    found = only(desync(table(*history(range(4)), *rows, call(1, 7, done=False)), [], range(4)))
    assert (found.signature, found.culprits) == ("collective-desync", (1,))
    assert "ahead" in str(found.note)


def test_a_line_that_the_odd_rank_never_came_by_is_no_end_of_its_data() -> None:
    """The others may have had fewer batches as well as the odd one more of its own: the calls differ, no more is known."""
    rows = [call(r, 6, done=False, frame="/t/train.py:90 evaluate") for r in (0, 1, 3)]
    odd = call(2, 6, "_all_gather_base", done=False)
    assert only(desync(table(*history(range(4)), *rows, odd), [], range(4))).signature == "collective-op-mismatch"


def test_a_rank_without_a_dump_that_said_that_all_was_done() -> None:
    rows = table(*history((0, 1, 2)), *(call(r, 6, done=False) for r in (0, 1, 2)))
    ended = [seen("collective-timeout", 0), seen("run-finished", 3)]
    found = only(desync(rows, ended, range(4)))
    assert (found.signature, found.culprits) == ("rank-exited-early", (3,))
    everyone = [*ended, *(seen("run-finished", rank) for rank in range(3))]
    assert only(desync(rows, everyone, range(4))).signature != "rank-exited-early"


def test_of_a_group_of_many_ranges_the_title_says_the_first() -> None:
    assert title(("65", "tp_64 ranks 512-519")) == "65 (tp_64 ranks 512-519)"
    assert title(("3", "dp ranks 4-5")) == "3 (dp ranks 4-5)"
    strided = ",".join(str(rank) for rank in range(5, 1024, 8))
    assert title(("134", f"dp_5 ranks {strided}")) == (
        "134 (dp_5 ranks 5,13,21,29,37,45,53,61,69,77,85,93,… (128 in all))"
    )
    assert title(("0", f"default_pg ranks {strided}")) == "default_pg"
