"""TensorBoard event files: real writers, both scalar encodings, and every kind of damage."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
import types
from pathlib import Path

import pytest
from event_files import (
    T0,
    VERSION,
    crc32c,
    event,
    incomplete,
    masked,
    num,
    plugin,
    read,
    record,
    rows,
    scalar_records,
    scalar_rows,
    simple,
    sub,
    tensor,
    varint,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.engine.pipeline import analyse
from forensics.engine.reading import sniffers
from forensics.model import METRICS_COLUMNS, Identity, Kind, Source, schema
from forensics.parsers import tensorboard as tb
from forensics.parsers.tensorboard import checksums, frames
from forensics.run import discover


@pytest.fixture(scope="module")
def module_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tensorboard")


# --- checksums -------------------------------------------------------------------------------------------------------


def test_crc_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert checksums.advance(0xFFFFFFFF, b"123456789") ^ 0xFFFFFFFF == 0xE3069283


@given(st.lists(st.binary(max_size=200), max_size=40))
def test_columns_agree_with_the_definition(payloads: list[bytes]) -> None:
    payloads = [*payloads, *[bytes([n]) * n for n in range(20)]]  # enough for the column-wise way
    expected = [int.from_bytes(masked(payload), "little") for payload in payloads]
    assert checksums.masked_crcs(payloads) == expected


def test_one_long_payload_by_columns() -> None:
    payload = bytes(range(256)) * 50 + b"tail"
    assert checksums.masked_crcs([payload]) == [int.from_bytes(masked(payload), "little")]


# --- encodings -------------------------------------------------------------------------------------------------------


def test_simple_values(tmp_path: Path) -> None:
    data = VERSION + b"".join(scalar_records(300))
    file = read(tmp_path, data)
    assert rows(file) == scalar_rows(300)
    assert (file.records, file.bytes_read, file.problem) == (301, len(data), None)
    assert file.scalars.schema == schema(tb.EVENT_COLUMNS)


def test_nan_inf_negative_step_and_several_values(tmp_path: Path) -> None:
    payload = event(-7, simple("a", math.nan), simple("b", math.inf), simple("ü/ß", -math.inf))
    got = rows(read(tmp_path, VERSION + record(payload) * 3))
    assert [(step, tag) for step, _, tag, _ in got] == [(-7, "a"), (-7, "b"), (-7, "ü/ß")] * 3
    assert math.isnan(got[0][3])
    assert got[1][3] == math.inf
    assert got[2][3] == -math.inf


def test_step_bytes_that_look_like_the_next_field(tmp_path: Path) -> None:
    steps = [0x2A, 0x2A2A, 0x15, 42 << 7, 0, 2**40, 2**63 - 1, 0x2A]
    file = read(tmp_path, b"".join(record(event(step, simple("*\x15*", 1.5))) for step in steps))
    assert [step for step, *_ in rows(file)] == steps


@pytest.mark.parametrize(
    ("dtype", "body", "expected"),
    [
        (1, sub(5, struct.pack("<f", 0.25)), 0.25),
        (1, b"\x2d" + struct.pack("<f", 0.25), 0.25),  # float_val, not packed
        (1, sub(4, struct.pack("<f", -2.5)), -2.5),
        (2, sub(6, struct.pack("<d", 0.1)), 0.1),
        (2, sub(4, struct.pack("<d", 0.1)), 0.1),
        (3, sub(7, varint(-3)), -3.0),
        (3, num(7, 12), 12.0),
        (3, sub(4, struct.pack("<i", -12)), -12.0),
        (9, sub(10, varint(2**40)), 2.0**40),
        (9, sub(4, struct.pack("<q", -5)), -5.0),
        (19, sub(13, varint(0x3C00)), 1.0),
        (19, sub(4, struct.pack("<e", 65504.0)), 65504.0),
        (14, sub(13, varint(0x3F80)), 1.0),  # bfloat16
        (14, sub(4, b"\x80\x7f"), math.inf),
        (23, sub(17, varint(2**64 - 1)), 2.0**64),
        (1, b"", 0.0),  # a zero that TensorFlow compressed away
    ],
)
def test_tensor_scalars(tmp_path: Path, dtype: int, body: bytes, expected: float) -> None:
    # Three times: the second record of a layout takes another path than the first.
    payloads = [record(event(step, tensor("loss", dtype, body))) for step in (1, 2, 300)]
    assert rows(read(tmp_path, VERSION + b"".join(payloads))) == [(s, T0, "loss", expected) for s in (1, 2, 300)]


def test_tensors_that_are_no_scalars(tmp_path: Path) -> None:
    values = [
        tensor("two", 1, sub(5, struct.pack("<ff", 1, 2)), (2,)),
        tensor("filled", 1, sub(5, struct.pack("<f", 1)), (3, 3)),
        tensor("histogram", 2, sub(4, struct.pack("<d", 1)), (1, 1), plugin("histograms")),
        tensor("string", 7, sub(8, b"x")),
        tensor("undeclared", 1, b"", (), b""),
        sub(1, b"old histogram") + sub(5, b"\x09" + bytes(8)),
    ]
    file = read(tmp_path, VERSION + b"".join(record(event(1, value)) for value in values))
    assert rows(file) == []
    assert file.problem is None
    assert file.records == 7


def test_metadata_only_with_the_first_value(tmp_path: Path) -> None:
    body = sub(5, struct.pack("<f", 3))
    later = tensor("pr", 1, body, (), b"")
    data = record(event(1, tensor("pr", 1, body, (), plugin("pr_curves")))) + record(event(2, later))
    assert rows(read(tmp_path, data)) == []
    data = record(event(1, tensor("pr", 1, body))) + record(event(2, later))
    assert [step for step, *_ in rows(read(tmp_path, data))] == [1, 2]


@pytest.mark.parametrize(("status", "verdict"), [(1, "healthy"), (2, "failed"), (3, "healthy")])
def test_a_session_that_states_its_failure_has_failed(tmp_path: Path, status: int, verdict: str) -> None:
    """PyTorch's `add_hparams` states success (1) with the start; Keras' callback and people state it at the end."""
    ended = sub(1, b"_hparams_/session_end_info") + plugin("hparams", num(1, 0) + sub(4, num(1, status)))
    steps = [record(event(n, simple("loss", 3 - n / 100), time=T0 + n)) for n in range(40)]
    (tmp_path / "events.out.tfevents.1.host").write_bytes(VERSION + b"".join(steps) + record(event(40, ended)))
    found = analyse([str(tmp_path)])
    assert found.verdict == verdict
    (source,) = discover([str(tmp_path)], sniffers()).sources
    assert tb.facts(tb.read_events(source.file), source) == ()


def test_text_and_hyperparameters(tmp_path: Path) -> None:
    def entry(name: str, value: bytes) -> bytes:
        return sub(1, sub(1, name.encode()) + sub(2, value))

    start = entry("lr", b"\x11" + struct.pack("<d", 0.002)) + entry("opt", sub(3, b"adamw")) + entry("amp", num(4, 1))
    hparams = sub(1, b"_hparams_/session_start_info") + plugin("hparams", num(1, 0) + sub(3, start))
    text = tensor("config", 7, sub(8, b"depth: 2"), (1,), plugin("text"))
    file = read(tmp_path, VERSION + record(event(0, hparams)) + record(event(3, text)))
    assert file.text == (
        ("_hparams_/lr", 0, "0.002"),
        ("_hparams_/opt", 0, "adamw"),
        ("_hparams_/amp", 0, "True"),
        ("config", 3, "depth: 2"),
    )


# --- real writers ----------------------------------------------------------------------------------------------------


def test_tensorboards_own_writer(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    for step in range(60):
        value = math.nan if step == 50 else 1 / (1 + step)
        tensor_value = TensorProto(dtype=1, tensor_shape=TensorShapeProto(), float_val=[value])
        summary = Summary(
            value=[
                Summary.Value(tag="loss", simple_value=value),
                Summary.Value(tag="loss_v2", tensor=tensor_value, metadata=metadata),
            ]
        )
        writer.add_event(Event(wall_time=T0 + step, step=step, summary=summary))
        writer.add_event(
            Event(wall_time=T0, step=step, summary=Summary(value=[Summary.Value(tag="lr", simple_value=step)]))
        )
    writer.close()
    (path,) = tmp_path.iterdir()
    assert tb.looks_like_events(path.read_bytes()[:256])
    file = tb.read_events(path)
    assert file.problem is None
    assert file.scalars.height == 180
    reference = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    reference.Reload()
    for tag in ("loss", "lr"):
        expected = [(e.step, e.wall_time, e.value) for e in reference.Scalars(tag)]
        got = [(step, time, value) for step, time, name, value in rows(file) if name == tag]
        assert str(got) == str(expected)  # as text, for NaN's sake
    values = {tag: [value for *_, name, value in rows(file) if name == tag] for tag in ("loss", "loss_v2")}
    assert str(values["loss"]) == str(values["loss_v2"])


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the file is empty"),
        (b"\x18" + bytes(7), "the last record is incomplete (8 of at least 17 bytes): still being written, or cut off"),
        (VERSION[:20], f"the last record is incomplete (20 of {len(VERSION)} bytes): still being written, or cut off"),
        (b"no event file" + bytes(30), "43 bytes without a valid record header skipped at byte 0"),
    ],
)  # fmt: skip
def test_small_and_foreign_files(tmp_path: Path, data: bytes, problem: str) -> None:
    file = read(tmp_path, data)
    assert (file.problem, file.records, file.scalars.height, file.bytes_read) == (problem, 0, 0, len(data))


def test_missing_file(tmp_path: Path) -> None:
    file = tb.read_events(tmp_path / "gone")
    assert file.problem is not None
    assert file.problem.startswith("cannot be read: ")
    assert tb.read_events(tmp_path).problem is not None  # a directory


def test_cut_tail(tmp_path: Path) -> None:
    records = scalar_records(5)
    file = read(tmp_path, VERSION + b"".join(records)[:-9])
    assert rows(file) == scalar_rows(4)
    assert file.problem == incomplete(len(records[-1]) - 9, len(records[-1]))


def test_wrong_checksum_costs_one_record(tmp_path: Path) -> None:
    records = scalar_records(100)
    data = bytearray(VERSION + b"".join(records))
    at = len(VERSION) + sum(map(len, records[:40]))
    data[at + 14] ^= 0x40
    file = read(tmp_path, bytes(data))
    assert rows(file) == [row for row in scalar_rows(100) if row[0] != 40]
    assert file.problem == f"1 record with a wrong checksum skipped, first at byte {at}, what follows was still read"


@pytest.mark.parametrize("hole", [1, 3, 30, 5000])
def test_missing_and_inserted_bytes(tmp_path: Path, hole: int) -> None:
    records = scalar_records(400)
    data = VERSION + b"".join(records)
    at = len(VERSION) + sum(map(len, records[:40])) + 15
    file = read(tmp_path, data[:at] + data[at + hole :])
    lost = 400 - file.scalars.height
    assert rows(file)[:40] == scalar_rows(40)
    assert rows(file)[-200:] == scalar_rows(400)[-200:]
    assert lost == 1 + (15 + hole) // len(records[40]) or lost == 2 + (15 + hole) // len(records[40])
    for filler in (b"\0", b"\xff", b"warning: x\n"):
        file = read(tmp_path, data[:at] + filler * hole + data[at:])
        assert rows(file) == [row for row in scalar_rows(400) if row[0] != 40]
        assert file.problem is not None
        assert "what follows was still read" in file.problem


def test_records_after_a_shortened_one_are_read(tmp_path: Path) -> None:
    # The header of the text record is right, but its length now reaches far into the records after it.
    text = record(event(0, tensor("config", 7, sub(8, b"x" * 2000), (1,), plugin("text"))))
    start = len(VERSION) + len(text)
    for tail in (80, 3):  # with more than the missing bytes behind it, and with less: then it reaches beyond the end
        data = VERSION + text + b"".join(scalar_records(tail))
        file = read(tmp_path, data[:100] + data[1000:])
        assert rows(file) == scalar_rows(tail)
        assert file.text == ()
        assert file.problem == (
            f"{start - 900 - len(VERSION)} bytes without a valid record header skipped at byte {len(VERSION)}, "
            "what follows was still read"
        )


def test_damage_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = scalar_records(60)
    at = len(VERSION) + sum(map(len, records[:20])) + 15
    data = VERSION + b"".join(records)
    damaged = data[:at] + bytes(500) + b"?" * 700 + data[at:]
    whole = read(tmp_path, damaged)
    for block in (1, 7, 12, 13, 64, 333):
        monkeypatch.setattr(frames, "BLOCK", block)
        assert rows(read(tmp_path, data)) == scalar_rows(60)
        file = read(tmp_path, damaged)
        assert rows(file) == rows(whole) == [row for row in scalar_rows(60) if row[0] != 20]
        assert file.problem == whole.problem


def test_large_records_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", 256)
    monkeypatch.setattr(frames, "LARGE", 512)
    records = scalar_records(30)
    graph = record(b"\x09" + struct.pack("<d", T0) + sub(4, bytes(5000)))
    file = read(tmp_path, VERSION + b"".join(records[:10]) + graph + b"".join(records[10:]))
    assert (rows(file), file.problem, file.records) == (scalar_rows(30), None, 32)
    file = read(tmp_path, VERSION + b"".join(records[:10]) + graph[:3000])
    assert (rows(file), file.problem) == (scalar_rows(10), incomplete(3000, len(graph)))


def test_length_far_beyond_the_file(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**62)
    records = scalar_records(4)
    hostile = length + masked(length)
    file = read(tmp_path, VERSION + b"".join(records[:2]) + hostile + b"".join(records[2:]))
    assert rows(file) == scalar_rows(4)
    assert file.problem == (
        f"12 bytes without a valid record header skipped at byte {len(VERSION + records[0] + records[1])}, "
        "what follows was still read"
    )


def test_nested_headers_end_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every header is valid and claims a long payload whose checksum is wrong and which no header follows.
    monkeypatch.setattr(frames, "RESYNC_TRIES", 20_000)
    length = struct.pack("<Q", 100_000)
    header = length + masked(length)
    file = read(tmp_path, VERSION + header * 20_000)
    assert file.records == 1
    assert file.problem is not None
    assert "given up searching" in file.problem


def test_headers_of_all_lengths_are_found() -> None:
    for length in (1, 0xFF, 0x100, 0x1234, 0x10000, 0xABCDEF, 0x1000000, 0xFFFFFFFF):
        header = struct.pack("<Q", length) + masked(struct.pack("<Q", length))
        for before in (b"", b"\0", b"x", bytes(9), b"\x05" + bytes(4)):
            assert frames.next_header(before + header + b"x", 0, frames.Walk(tries=100)) == len(before)


def test_records_that_are_no_events(tmp_path: Path) -> None:
    data = VERSION + record(b"\xff\xff\xff") + record(sub(1, b"tf.Example")) + scalar_records(2)[1]
    file = read(tmp_path, data)
    assert rows(file) == scalar_rows(2)[1:]
    assert file.problem == f"2 records that are no Event ignored, first at byte {len(VERSION)}"


def test_max_bytes(tmp_path: Path) -> None:
    records = scalar_records(50)
    data = VERSION + b"".join(records)
    at = len(VERSION) + sum(map(len, records[:20]))
    for extra in (0, 5, 20):
        file = read(tmp_path, data, max_bytes=at + extra)
        assert rows(file) == scalar_rows(20)
        assert file.bytes_read == at + extra
        assert file.problem == f"only the first {at + extra} of {len(data)} bytes were read"
    assert read(tmp_path, data, max_bytes=len(data)).problem is None
    assert read(tmp_path, data, max_bytes=0).scalars.height == 0


RECORDS = scalar_records(40)
FILE = VERSION + b"".join(RECORDS)
ENDS = [len(VERSION) + sum(map(len, RECORDS[: n + 1])) for n in range(40)]
PROPERTY = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(st.integers(0, len(FILE)))
def test_truncation_loses_only_what_is_cut(module_path: Path, end: int) -> None:
    file = read(module_path, FILE[:end])
    whole = sum(at <= end for at in ENDS)
    assert rows(file) == scalar_rows(whole)
    assert (file.problem is None) == (end in (*ENDS, len(VERSION)))
    assert file.bytes_read == end


@PROPERTY
@given(st.dictionaries(st.integers(0, len(FILE) - 1), st.integers(1, 255), min_size=1, max_size=6))
def test_flipped_bytes_cost_no_more_than_their_records(module_path: Path, flips: dict[int, int]) -> None:
    data = bytearray(FILE)
    for at, bits in flips.items():
        data[at] ^= bits
    hit = {next((n for n, end in enumerate(ENDS) if at < end)) for at in flips if at >= len(VERSION)}
    file = read(module_path, bytes(data))
    assert rows(file) == [row for row in scalar_rows(40) if row[0] not in hit]
    assert file.problem is not None


@PROPERTY
@given(
    st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([bytes(9), *RECORDS[:3], VERSION]))), st.integers(1, 99)
)
def test_garbage_never_raises(module_path: Path, parts: list[bytes], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "BLOCK", block)
        patch.setattr(frames, "LARGE", 64)
        file = read(module_path, b"".join(parts))
    intact = sum(part in RECORDS for part in parts)
    assert file.scalars.height <= intact
    tb.looks_like_events(b"".join(parts))


@PROPERTY
@given(st.lists(st.binary(max_size=80), max_size=20), st.integers(0, 12))
def test_any_payload_with_correct_checksums(module_path: Path, payloads: list[bytes], cut: int) -> None:
    # Past the checksums: rubbish, and rubbish behind what a real event starts with.
    starts = [event(3, tensor("loss", 1, sub(5, bytes(4)))), event(3, simple("loss", 1))]
    mixed = [*payloads, *(start[: len(start) - cut] + payload for payload in payloads for start in starts)]
    file = read(module_path, VERSION + b"".join(record(payload) for payload in mixed))
    assert file.records <= 1 + len(mixed)


# --- sniffing --------------------------------------------------------------------------------------------------------


def test_sniff() -> None:
    assert tb.looks_like_events(VERSION)
    assert tb.looks_like_events(VERSION[:12])
    assert tb.looks_like_events(FILE[:256])
    assert tb.looks_like_events(RECORDS[0])  # without a version record
    assert tb.looks_like_events(b"\0" + VERSION[1:])  # damaged header
    for other in (
        b"",
        VERSION[:11],
        bytes(64),
        b"plain text that is long enough",
        record(sub(1, sub(1, b"tf.Example"))),
        record(sub(1, bytes(300)))[:100],
        record(b"\xff" * 20),
        record(b"") + VERSION[:4],
    ):
        assert not tb.looks_like_events(other), other


# --- metrics ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small stand-in for parsers/names.py, whose vocabulary has its own tests."""
    known = {"train/loss": "loss", "lr/a": "lr", "lr/b": "lr", "g_loss": "loss_part", "d_loss": "loss_part"}
    names = types.ModuleType("forensics.parsers.names")
    names.canonical = {**known, "train/epoch": "epoch", "step_ms": "step_time"}.get  # type: ignore[attr-defined]
    names.factor = lambda key: 1e-3 if key == "step_ms" else 1.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "forensics.parsers.names", names)


def source_of(tmp_path: Path) -> Source:
    return Source("tb/rank3/e", tmp_path / "e", Kind.TENSORBOARD, 1, Identity(rank=3, attempt=1))


def test_metrics(tmp_path: Path, vocabulary: None) -> None:
    odd = record(event(9, simple("my/own", math.nan)))
    frame = tb.metrics(read(tmp_path, VERSION + b"".join(scalar_records(2)) + odd), source_of(tmp_path))
    assert frame.schema == schema(METRICS_COLUMNS)
    assert frame["name"].to_list() == ["loss", "loss", "my/own"]
    assert frame.row(1, named=True) == {
        "source": "tb/rank3/e", "line": None, "rank": 3, "attempt": 1, "step": 1, "epoch": None, "time": T0 + 1,
        "name": "loss", "value": 0.25,
    }  # fmt: skip
    assert math.isnan(frame["value"][2])
    empty = tb.metrics(read(tmp_path, b""), source_of(tmp_path))
    assert empty.schema == schema(METRICS_COLUMNS)
    assert empty.height == 0


def test_metrics_tags_that_mean_the_same(tmp_path: Path, vocabulary: None) -> None:
    values = [("lr/a", 1.0), ("lr/b", 2.0), ("g_loss", 3.0), ("d_loss", 4.0), ("step_ms", 250.0), ("train/epoch", 0.5)]
    steps = [record(event(step, *(simple(*pair) for pair in values))) for step in (1, 1, 2)]
    alone = record(event(3, simple("lr/b", 7)))
    frame = tb.metrics(read(tmp_path, b"".join(steps) + alone), source_of(tmp_path))
    assert frame["name"].to_list() == ["lr", "lr/b", "loss_part", "loss_part", "step_time", "epoch"] * 3 + ["lr"]
    assert frame["value"].to_list() == [1.0, 2.0, 3.0, 4.0, 0.25, 0.5] * 3 + [7.0]
    assert frame["epoch"].to_list() == [0.5] * 18 + [None]


def test_metrics_with_the_real_vocabulary(tmp_path: Path) -> None:
    pytest.importorskip("forensics.parsers.names")
    frame = tb.metrics(read(tmp_path, FILE), source_of(tmp_path))
    assert set(frame["name"]) == {"loss"}


def test_import_is_light_and_needs_no_numpy(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(FILE)
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from pathlib import Path\n"
        "from forensics.parsers import tensorboard as tb\n"
        "assert not {'polars', 'tensorboard', 'google.protobuf'} & set(sys.modules)\n"
        f"assert tb.read_events(Path({str(path)!r})).scalars.height == 40\n"
        "assert not {'tensorboard', 'google.protobuf', 'tensorflow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
