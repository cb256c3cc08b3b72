"""Flight Recorder dumps: every container and version, and what a hostile or damaged file may not do."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forensics.model import COLLECTIVES_COLUMNS, Identity, Kind, Source
from forensics.parsers.flight_recorder import collectives, looks_like_dump, not_compared, rank_of, read_dump, user_frame

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/opt/lib/python3.11/site-packages/torch/distributed/d.py", "line": 9},
            {"name": "step", "filename": "/app/train.py", "line": 88},
        ],
        "record_id": 0,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 7,
        "p2p_seq_id": 0,
        "op_id": 7,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_700_000_000_500_000_000,
        "input_sizes": [[6896]],
        "input_dtypes": ["Float"],
        "output_sizes": [[6896]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "timeout_ms": 600000,
        "is_p2p": False,
    } | changes


def dump_of(*entries: dict[str, Any], **top: Any) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries)} | top


def read(tmp_path: Path, data: bytes, name: str = "comm_lib_trace_rank_3", **identity: Any) -> tuple[Any, Any]:
    file = tmp_path / name
    file.write_bytes(data)
    source = Source(name, file, Kind.FLIGHT_RECORDER, len(data), Identity(**identity))
    dump = read_dump(file, source)
    return dump, collectives(dump, source)


def test_a_pickle_becomes_rows_of_the_model(tmp_path: Path) -> None:
    dump, table = read(tmp_path, pickle.dumps(dump_of(entry()), 2))
    assert (dump.problem, dump.version, dump.rank, dump.format) == (None, "2.10", 3, "pickle")
    assert dump.entries[0]["frames"][1]["line"] == 88
    assert table.columns == list(COLLECTIVES_COLUMNS)
    assert table.row(0, named=True) == {
        "source": "comm_lib_trace_rank_3",
        "rank": 3,
        "group": "0",
        "group_desc": "default_pg ranks 0-3",
        "seq": 7,
        "op": "all_reduce",
        "input_sizes": "[[6896]]",
        "output_sizes": "[[6896]]",
        "dtypes": '["Float"]',
        "state": "scheduled",
        "retired": False,
        "time": 1_700_000_000.5,
        "is_p2p": False,
        "frame": "/app/train.py:88 step",
        "stack": "/app/train.py:88 step",
        "line": None,
        "printed": None,
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_dump_that_a_script_pickled_again_is_read(tmp_path: Path, protocol: int) -> None:
    dump, table = read(tmp_path, pickle.dumps(dump_of(entry(), entry(collective_seq_id=8)), protocol))
    assert dump.problem is None
    assert table["seq"].to_list() == [7, 8]


def test_json_writes_counters_as_text_and_leaves_empty_entries_out(tmp_path: Path) -> None:
    one = entry(process_group=["0", "default_pg"])
    del one["frames"]
    status = {"0": {"last_enqueued_collective": "39", "last_completed_collective": "-1"}}
    dump, table = read(tmp_path, json.dumps(dump_of(one, pg_status=status)).encode(), "rank3.json")
    assert (dump.problem, dump.rank, dump.format) == (None, 3, "json")
    assert dump.pg_status == {"0": {"last_enqueued_collective": 39, "last_completed_collective": -1}}
    assert table["frame"].to_list() == [None]
    empty, table = read(
        tmp_path, b'{"comm_lib_version":"","pg_config":{},"pg_status":{},"version":"2.10"}', "r_rank_1.json"
    )
    assert "recorder was off" in empty.problem
    assert table.row(0)[:3] == ("r_rank_1.json", 1, None)


def test_the_list_of_torch_2_2_and_the_groups_of_2_3(tmp_path: Path) -> None:
    old = {
        "pg_id": 0,
        "seq_id": 41,
        "profiling_name": "nccl:send 0->1",
        "time_created_us": 1_700_000_000_500_000,
        "input_sizes": [[2, 3]],
        "output_sizes": [],
        "state": "completed",
        "retired": True,
    }
    dump, table = read(tmp_path, pickle.dumps([old], 2), "nccl_trace_rank_0")
    assert (dump.version, dump.problem) == (None, None)
    assert table.select("group", "seq", "op", "is_p2p", "time", "input_sizes").row(0) == (
        "0", 41, "send 0->1", True, 1_700_000_000.5, "[[2, 3]]",
    )  # fmt: skip
    named = dump_of(old | {"pg_id": 2}, version="1.4", pg_config={0: [0, 1], 2: [1, 3]})
    _, table = read(tmp_path, pickle.dumps(named, 2))
    assert table.select("group", "group_desc").row(0) == ("index 2", "ranks 1,3")


def test_the_detail_wrapper_has_no_group_names(tmp_path: Path) -> None:
    pair = dump_of(
        entry(process_group=("", "")), entry(process_group=("", ""), pg_id=1), pg_config={"": {"ranks": "[]"}}
    )
    _, table = read(tmp_path, pickle.dumps(pair, 2))
    assert table["group"].to_list() == ["0", "index 1"]
    assert table["group_desc"].to_list() == ["", ""]


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir()))
def test_real_gloo_dumps_are_recognised_and_read(name: str) -> None:
    for file in sorted((DATA / name).iterdir()):
        data = file.read_bytes()
        assert looks_like_dump(data[:4096], "renamed.bin")
        dump = read_dump(file, Source(file.name, file, Kind.FLIGHT_RECORDER, len(data)))
        assert dump.rank == int(file.name.rsplit("_", 1)[1])
        if name == "recorder_off":
            assert "recorder was off" in (dump.problem or "")
        else:
            assert dump.problem is None
            table = collectives(dump, Source(file.name, file, Kind.FLIGHT_RECORDER, len(data)))
            assert set(table["state"]) == {"scheduled"}
            assert all(frame.startswith("/app/train.py:") for frame in table["frame"])


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("dir_rank_9/comm_lib_trace_rank_3", 3),
        ("host-07_rank3.json", 3),
        ("fr/trace_4", 4),
        ("node2.rank-11.pickle", 11),
        ("rank_3_of_8", 3),
        ("local_rank_3", None),
        ("host-a_5", 5),
        ("gpu-node-7_12.pkl", 12),
        ("attempt_2", None),
        ("dump_node_1", None),
        ("dump.bin", None),
        ("crank5", None),
    ],
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_a_name_without_a_rank_leaves_it_to_the_folder(tmp_path: Path) -> None:
    dump, table = read(tmp_path, pickle.dumps(dump_of(entry()), 2), "latest.bin", rank=5)
    assert dump.rank == 5
    assert table["rank"].to_list() == [5]


def test_a_dump_of_an_unknown_rank_says_that_it_is_not_compared(tmp_path: Path) -> None:
    data = pickle.dumps(dump_of(entry()), protocol=2)
    unnamed, _ = read(tmp_path, data, "fr.bin")
    named, _ = read(tmp_path, data, "rank_3")
    assert (unnamed.rank, unnamed.problem) == (None, None)
    assert "not compared" in (not_compared(unnamed) or "")
    assert not_compared(named) is None
    cut, _ = read(tmp_path, data[:40], "fr.bin")
    assert not_compared(cut) == cut.problem


def test_other_pickles_and_json_are_not_claimed() -> None:
    assert not looks_like_dump(pickle.dumps({"version": "2.10", "entries": [1, 2]}, 2), "state.pkl")
    assert not looks_like_dump(pickle.dumps({"model": {"w": [1.0]}, "epoch": 3}, 4), "ckpt_rank_3.pt")
    assert not looks_like_dump(b'{"version": 3, "entries": []}', "rank_3.json")
    assert not looks_like_dump(b'{"loss": 1.0, "step": 3}\n', "metrics.jsonl")
    assert not looks_like_dump(b"[rank0]: Traceback: pg_config", "rank_0.log")
    assert not looks_like_dump(b"", "rank_0.log")
    assert looks_like_dump(b"", "nccl_trace_rank_0")


class _Runs:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_calls_something_is_refused_before_it_is_loaded(tmp_path: Path, protocol: int) -> None:
    victim = tmp_path / "victim"
    data = pickle.dumps(dump_of(entry(record_id=_Runs(str(victim)))), protocol)
    dump, table = read(tmp_path, data)
    assert dump.problem is not None and not dump.entries
    assert not victim.exists()
    assert table["op"].to_list() == [None]


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02X\x01\x00\x00\x00aQ.",  # a persistent id
        b"\x80\x02K\x01r\xff\xff\xff\x7f.",  # a memo index for which the C unpickler would allocate 32 GB
        b"\x80\x04\x96\x00\x00\x00\x00\x00\x00\x00\x7f.",  # a byte array of 2**62
        b"\x80\x02]\x82\x01.",  # an extension code
        b"\x80\x02" + b")" + b"\x85" * 200_000 + b"}" + b"h\x00" + b".",  # tuples that overflow the stack when hashed
        b"\x80\x02X\xff\xff\xff\xffabc",
        b"\x80\x02}}K\x01s.",  # an unhashable key
        b"\x80\x02h\x07.",
        b"\x80\x09}.",
        b"\x80",
        b"\x80\x02.",
        b"",
        b"[" * 100_000,
        b"{}",
        b'{"entries": [1, 2], "pg_config": {}}',
        b'{"entries": {"a": 1}, "pg_config": 3, "pg_status": [1]}',
        b"GIF89a",
        b"\xff\xfe{",
        b'{"pg_config": {}, "entries": [{"profiling_name": "nccl:all_reduce"',
    ],
)
def test_bad_files_give_a_reason(tmp_path: Path, data: bytes) -> None:
    dump, table = read(tmp_path, data)
    assert dump.problem
    assert len(dump.problem) < 300
    assert table.height == 1


def test_wrong_types_in_an_entry_become_nulls(tmp_path: Path) -> None:
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]  # its text would have 2**60 numbers
    odd = entry(
        process_group=3, pg_id="x", collective_seq_id="7", input_sizes=shared, output_sizes=[[2**80]], retired=1,
        state=9,
        input_dtypes=[1], time_created_ns=-1,
        frames=[1, {"filename": 2}, {"filename": "a.py", "line": "x", "name": "f"}],
        is_p2p=None,
    )  # fmt: skip
    dump, table = read(tmp_path, pickle.dumps(dump_of(odd), 2))
    assert dump.problem is None
    row = table.row(0, named=True)
    assert {k for k, v in row.items() if v is None} - {"line", "printed"} == {
        "seq", "input_sizes", "output_sizes", "dtypes", "state", "time", "frame", "stack",
    }  # fmt: skip


def test_lone_surrogates_do_not_stop_the_frame(tmp_path: Path) -> None:
    data = b"\x80\x02}X\x07\x00\x00\x00entries]}X\x0e\x00\x00\x00profiling_nameX\x03\x00\x00\x00\xed\xa0\x80sas."
    dump, table = read(tmp_path, data)
    assert dump.problem is None
    assert table["op"].to_list() == ["?"]


def test_large_entries_are_read_with_long_memo_indices(tmp_path: Path) -> None:
    many = [entry(collective_seq_id=i, thread_name=f"t{i}") for i in range(600)]
    dump, table = read(tmp_path, pickle.dumps(dump_of(*many), 2))
    assert dump.problem is None
    assert table.height == 600


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, 5000), flips=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4))
@example(cut=0, flips=[(285, 0)])
def test_damage_never_raises(tmp_path_factory: pytest.TempPathFactory, cut: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray((DATA / "rank0_barrier" / "comm_lib_trace_rank_1").read_bytes())
    for position, value in flips:
        data[position % len(data)] = value
    folder = tmp_path_factory.mktemp("fr")
    dump, table = read(folder, bytes(data[: len(data) - cut % len(data)]))
    # A dump may hold counters alone: one whose key of the entries is damaged looks like one of nothing pending.
    assert bool(dump.entries or dump.pg_status) if dump.problem is None else not dump.entries
    assert table.columns == list(COLLECTIVES_COLUMNS)
    if not flips and cut % len(data):
        assert "truncated" in (not_compared(dump) or "")
        assert dump.cut == bool(dump.entries)


def _names(dump: Any) -> list[int]:
    return [e["collective_seq_id"] for e in dump.entries]


def _written_by_torch(dump: dict[str, Any]) -> bytes:
    """As the C++ pickler of torch writes it: a mark for every container, strings with their length, memo puts."""

    def put(value: Any) -> bytes:
        if isinstance(value, dict):
            return b"}q\x01(" + b"".join(put(k) + put(v) for k, v in value.items()) + b"u"
        if isinstance(value, list):
            return b"]q\x02(" + b"".join(map(put, value)) + b"e"
        if isinstance(value, tuple):
            return b"(" + b"".join(map(put, value)) + b"tq\x03"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, int):
            return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)
        return b"X" + struct.pack("<I", len(value)) + value.encode() + b"q\x04"

    return b"\x80\x02" + put(dump) + b"."


@pytest.mark.parametrize("form", ["python", "torch", "list", "json", "json list"])
def test_what_is_whole_in_a_cut_dump_is_read(tmp_path: Path, form: str) -> None:
    """At every byte at which it can end: the entries are the first ones, as many as are whole, and coverage says so."""
    entries = [entry(collective_seq_id=n) for n in range(1, 7)]
    top = dump_of(*entries)
    data = {
        "python": pickle.dumps(top, 2),
        "torch": _written_by_torch(top),
        "list": pickle.dumps(entries, 2),
        "json": json.dumps(top, sort_keys=True).encode(),
        "json list": json.dumps(entries, indent=2).encode(),
    }[form]
    name = "rank_3.json" if "json" in form else "comm_lib_trace_rank_3"
    seen = set()
    for end in range(len(data) // 8, len(data) - 1, 7):
        dump, _ = read(tmp_path, data[:end], name)
        numbers = _names(dump)
        assert numbers == list(range(1, len(numbers) + 1))
        assert "truncated" in (not_compared(dump) or "")
        seen.add(len(numbers))
    assert seen >= set(range(6))
    dump, _ = read(tmp_path, data[: -len(data) // 4], name)
    many = len(dump.entries)
    reason = (
        f"truncated: the first {many} entries could be read, up to all_reduce #{many}; the calls after that are missing"
    )
    assert (2 < many < 6, not_compared(dump)) == (True, reason)


def test_a_cut_dump_does_not_say_how_far_its_rank_came(tmp_path: Path) -> None:
    entries = [entry(collective_seq_id=n) for n in range(1, 7)]
    cut = _written_by_torch(dump_of(*entries))[:-600]
    table = read(tmp_path, cut)[1]
    assert table["op"].to_list()[-1] is None
    assert table["op"].drop_nulls().len() == len(table) - 1 >= 3
    counted = {"0": {"last_enqueued_collective": 6, "last_completed_collective": 5}}
    table = read(tmp_path, _written_by_torch(dump_of(*entries, pg_status=counted) | {"entries": entries})[:-600])[1]
    last = table.row(-1, named=True)
    assert (last["seq"], last["state"], last["group"], last["rank"]) == (6, "scheduled", "0", 3)
    others = counted | {"1": {"last_enqueued_collective": 3}}  # of a group whose entries are all lost
    assert read(tmp_path, _written_by_torch(dump_of(*entries, pg_status=others))[:-600])[1]["op"].to_list()[-1] is None


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=200))
def test_any_bytes_behind_a_pickle_head_never_raise(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    dump, _ = read(tmp_path_factory.mktemp("fr"), b"\x80\x02" + body)
    assert dump.problem


def test_user_frames() -> None:
    library = {"name": "wrapper", "filename": "/opt/lib/python3.11/site-packages/torch/x.py", "line": 3}
    native = {"name": "c10d::work", "filename": "/src/ProcessGroup.cpp", "line": 5}
    assert user_frame([native, library, {"name": "f", "filename": "run.py", "line": 2}]) == "run.py:2 f"
    assert user_frame([native, library]) == f"{library['filename']}:3 wrapper"
    assert user_frame([]) is None
    assert user_frame(None) is None


def test_huge_number_of_long_ints(tmp_path: Path) -> None:
    number = (2**200).to_bytes(26, "little")
    data = b"\x80\x02}X\x07\x00\x00\x00entries]}" + b"X\x0e\x00\x00\x00profiling_nameX\x01\x00\x00\x00xs"
    data += b"X\x11\x00\x00\x00collective_seq_id\x8a" + struct.pack("B", len(number)) + number + b"sas."
    dump, table = read(tmp_path, data)
    assert dump.problem is None
    assert table["seq"].to_list() == [None]
