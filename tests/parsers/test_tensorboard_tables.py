"""What event files hold besides plain scalars: histograms, hyperparameters, texts, sessions; and how they become rows."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest
from event_files import T0, VERSION, event, num, plugin, read, record, scalar_records, simple, sub, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.model import Identity, Kind, Source
from forensics.parsers import tensorboard as tb
from forensics.parsers.tensorboard import histograms
from forensics.parsers.tensorboard.wire import Malformed

INF, NAN = math.inf, math.nan


def source_of(path: str = "tb/e", attempt: int | None = None) -> Source:
    return Source(path, Path("e"), Kind.TENSORBOARD, 1, Identity(rank=3, attempt=attempt))


def double(number: int, value: float) -> bytes:
    return bytes([number << 3 | 1]) + struct.pack("<d", value)


def packed(number: int, *values: float) -> bytes:
    return sub(number, struct.pack(f"<{len(values)}d", *values))


def proto(values: list[float], limits: list[float], counts: list[float]) -> bytes:
    """A HistogramProto as PyTorch makes it: `num`, sum and extremes of all values, buckets of the finite ones."""
    return (
        double(1, min(values, key=lambda v: (not math.isnan(v), v)))
        + double(2, max(values, key=lambda v: (math.isnan(v), v)))
        + double(3, len(values))
        + double(4, sum(values))
        + double(5, sum(v * v for v in values))
        + packed(6, *limits)
        + packed(7, *counts)
    )


def histogram_of(data: bytes) -> dict[str, float]:
    found = histograms.from_proto(data, 0, len(data))
    assert found is not None
    return dict(found.numbers())


def session(step: int, time: float = T0) -> bytes:
    return record(event(step, time=time) + sub(7, num(1, 1)))


# --- histograms --------------------------------------------------------------------------------------------------------


def test_old_histogram(tmp_path: Path) -> None:
    data = proto([0.0, 0.0, 0.0, 2.0], [0.0, 1e-12, 1.9, 2.1], [0, 3, 0, 1])
    value = sub(1, b"act/relu1") + sub(5, data)
    file = read(tmp_path, VERSION + record(event(7, value)))
    assert {tag: number for _, _, tag, number in file.scalars.iter_rows()} == {
        "act/relu1/min": 0.0,
        "act/relu1/max": 2.0,
        "act/relu1/mean": 0.5,
        "act/relu1/std": math.sqrt(0.75),
        "act/relu1/zeros": 0.75,
        "act/relu1/nonfinite": 0.0,
    }
    assert set(file.scalars["step"]) == {7}


def test_new_histogram(tmp_path: Path) -> None:
    rows = [(-1.0, 0.0, 2.0), (0.0, 1.0, 2.0)]
    flat = struct.pack("<6d", *[number for row in rows for number in row])
    for body in (sub(4, flat), packed(6, *[number for row in rows for number in row])):
        value = tensor("w", 2, body, (2, 3), plugin("histograms"))
        file = read(tmp_path, VERSION + record(event(1, value)))
        got = {tag: number for _, _, tag, number in file.scalars.iter_rows()}
        # No share of zeros: they share a bucket with other values.
        assert got == {"w/min": -1.0, "w/max": 1.0, "w/mean": 0.0, "w/std": 0.5, "w/nonfinite": 0.0}


@pytest.mark.parametrize(
    ("rows", "zeros"),
    [
        ([(-0.5, 0.5, 64.0)], 1.0),  # all equal, up to TensorBoard 2.3
        ([(0.0, 0.0, 0.0)] * 29 + [(0.0, 0.0, 64.0)], 1.0),  # all equal, later
        ([(1.0, 2.0, 3.0)], 0.0),
        ([(-3.0, -1.0, 3.0)], 0.0),
    ],
)
def test_zeros_of_new_histograms(rows: list[tuple[float, float, float]], zeros: float) -> None:
    found = histograms.from_rows([number for row in rows for number in row])
    assert found is not None
    assert found.zeros == zeros


def test_histograms_with_nan_and_inf() -> None:
    got = histogram_of(proto([NAN, NAN, 1.0, 1.0], [0.9, 1.1], [0, 2]))
    assert math.isnan(got["min"])
    assert got["nonfinite"] == 0.5
    assert "mean" not in got
    got = histogram_of(proto([INF, 0.0, 0.0, 0.0], [0.0, 1e-12], [0, 3]))
    assert (got["min"], got["max"], got["nonfinite"]) == (0.0, INF, 0.25)
    found = histograms.from_rows([NAN, NAN, 0.0, NAN, NAN, 4.0])
    assert found is not None
    assert math.isnan(found.minimum)
    assert (found.mean, found.zeros, found.nonfinite) == (None, None, None)


def test_empty_and_malformed_histograms() -> None:
    assert histograms.from_proto(b"", 0, 0) is None
    assert histograms.from_rows([]) is None
    assert histograms.from_rows([0.0, 1.0, 0.0]) is None
    with pytest.raises(Malformed):
        histograms.from_proto(sub(6, bytes(9)), 0, 11)
    # Limits and counts that do not belong together cost the shares only.
    got = histogram_of(proto([0.0, 1.0], [0.0, 1.0, 2.0], [1]))
    assert (got["min"], got["max"], got["mean"]) == (0.0, 1.0, 0.5)
    assert "zeros" not in got


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(), max_size=12))
def test_any_rows(values: list[float]) -> None:
    found = histograms.from_rows(values)
    if found is not None:
        assert found.zeros is None or 0 <= found.zeros <= 1


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.integers(1, 5), st.floats()),
    st.lists(st.floats(), max_size=6),
    st.lists(st.floats(), max_size=6),
)
def test_any_proto(named: dict[int, float], limits: list[float], counts: list[float]) -> None:
    data = b"".join(double(n, v) for n, v in named.items()) + packed(6, *limits) + packed(7, *counts)
    found = histograms.from_proto(data, 0, len(data))
    if found is not None:
        dict(found.numbers())
        assert found.zeros is None or 0 <= found.zeros <= 1


def test_pytorchs_writer(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        values = torch.relu(torch.linspace(-3, 1, 400))
        writer.add_histogram("act", values, 1)
        writer.add_histogram("bad", torch.tensor([float("nan"), 1.0, 2.0, float("inf")]), 2)
        writer.add_text("args", json.dumps({"lr": 0.1, "name": "a"}), 0)
        writer.add_scalar("new", 0.1, 3, new_style=True, double_precision=True)
        writer.add_hparams({"lr": 0.25, "opt": "sgd", "amp": True}, {"hparam/loss": 1.0}, run_name=".")
    # Hyperparameters go into a file of their own.
    files = [tb.read_events(path) for path in sorted(tmp_path.glob("events*"))]
    assert [file.problem for file in files] == [None, None]
    got = {tag: value for file in files for _, _, tag, value in file.scalars.iter_rows()}
    assert got["act/zeros"] == pytest.approx((values == 0).float().mean().item())
    assert got["act/max"] == 1.0
    assert got["act/std"] == pytest.approx(values.std(correction=0).item(), rel=1e-4)
    assert got["bad/nonfinite"] == 0.5
    assert math.isnan(got["bad/min"])
    assert got["new"] == 0.1
    stated = {fact.name: fact.value for file in files for fact in tb.facts(file, source_of())}
    assert stated == {
        "args.lr": "0.1",
        "args.name": "a",
        "hparam.lr": "0.25",
        "hparam.opt": "sgd",
        "hparam.amp": "1",
    }


def test_tensorboards_own_summaries(tmp_path: Path) -> None:
    """What `tf.summary` writes (tensors), made by the same code without TensorFlow."""
    np = pytest.importorskip("numpy")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    values = np.array([-2.0, 0.0, 0.0, 1.0, 5.0])
    summaries = [
        histogram_pb("h", values),
        histogram_pb("zero", np.zeros(9)),
        histogram_pb("one", np.full(4, 3.5)),
        histogram_pb("none", np.array([])),
        scalar_pb("s", 0.25),
        text_pb("t", "hello"),
    ]
    data = b"".join(record(Event(wall_time=T0, step=4, summary=s).SerializeToString()) for s in summaries)
    file = read(tmp_path, VERSION + data)
    assert file.problem is None
    got = {tag: value for _, _, tag, value in file.scalars.iter_rows()}
    assert (got["h/min"], got["h/max"]) == (-2.0, 5.0)
    assert got["h/mean"] == pytest.approx(values.mean(), abs=7 / 30)
    assert got["h/std"] == pytest.approx(values.std(), abs=7 / 30)
    assert "h/zeros" not in got
    assert (got["zero/zeros"], got["zero/std"]) == (1.0, 0.0)
    assert (got["one/min"], got["one/max"], got["one/zeros"]) == (3.5, 3.5, 0.0)
    assert not [tag for tag in got if tag.startswith("none")]
    assert got["s"] == 0.25
    assert file.text == (("t", 4, "hello"),)


# --- facts -------------------------------------------------------------------------------------------------------------


def text_record(tag: str, text: str, step: int = 0) -> bytes:
    return record(event(step, tensor(tag, 7, sub(8, text.encode()), (1,), plugin("text"))))


def test_facts_of_texts(tmp_path: Path) -> None:
    arguments = json.dumps({"lr_scheduler_type": "linear", "max_steps": 100, "fp16": False, "tags": ["a", None]})
    data = text_record("args/text_summary", arguments) + text_record("note", "first") + text_record("note", "last", 9)
    stated = {f.name: f.value for f in tb.facts(read(tmp_path, VERSION + data), source_of())}
    assert stated == {
        "args.lr_scheduler_type": "linear",
        "args.max_steps": "100",
        "args.fp16": "false",
        "args.tags": '["a", null]',
        "note": "last",
    }


def test_hostile_texts(tmp_path: Path) -> None:
    deep = '{"a":' * 5000
    data = text_record("deep", deep) + text_record("long" * 500, "x" * 50_000) + text_record("cut", '{"a": 1, ')
    stated = tb.facts(read(tmp_path, VERSION + data), source_of())
    assert len(stated) == 3
    assert all(len(f.name) <= 200 and len(f.value) <= 1000 for f in stated)


def test_number_of_texts_is_bounded(tmp_path: Path) -> None:
    data = b"".join(text_record(f"t{n}", "x") for n in range(1200))
    assert len(read(tmp_path, VERSION + data).text) == 1000


# --- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_that_goes_back_within_a_file(tmp_path: Path) -> None:
    again = b"".join(record(event(n, simple("train/loss", 1.0), time=T0 + 90 + n)) for n in range(5, 8))
    file = read(tmp_path, VERSION + b"".join(scalar_records(10)) + session(5, T0 + 90) + again)
    rows = tb.metrics(file, source_of())
    # Nothing is lost: why the run went back stands in what the session supersedes.
    assert rows["step"].to_list() == [*range(10), 5, 6, 7]
    assert rows["attempt"].to_list() == [*[0] * 10, *[1] * 3]
    (resumed,) = tb.resumes(file, source_of())
    assert (resumed.signature, resumed.step, resumed.time) == ("run-resumed", 5, T0 + 90)
    assert resumed.note is not None
    assert "supersedes 5 values up to step 9" in resumed.note
    # A path that names the attempt knows better.
    assert set(tb.metrics(file, source_of(attempt=4))["attempt"]) == {4}


def test_sessions_that_supersede_nothing(tmp_path: Path) -> None:
    file = read(tmp_path, VERSION + session(0) + b"".join(scalar_records(3)))
    assert file.sessions == (tb.Session(0, 0, T0),)
    assert tb.resumes(file, source_of()) == ()
    assert tb.metrics(file, source_of())["attempt"].to_list() == [None] * 3
    file = read(tmp_path, VERSION + session(100) + record(event(100, simple("loss", 1.0))))
    (resumed,) = tb.resumes(file, source_of())
    assert (resumed.step, resumed.note) == (100, "step 100: a session starts (SessionLog START)")
    assert tb.metrics(file, source_of())["attempt"].to_list() == [None]
    stop = record(event(9) + sub(7, num(1, 2)))
    assert read(tmp_path, VERSION + stop).sessions == ()


def test_pytorchs_purge_step(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(tmp_path), purge_step=40) as writer:
        writer.add_scalar("loss", 0.5, 40)
    (path,) = tmp_path.iterdir()
    (resumed,) = tb.resumes(tb.read_events(path), source_of())
    assert resumed.step == 40


# --- tails -------------------------------------------------------------------------------------------------------------


def test_zeros_at_the_end(tmp_path: Path) -> None:
    for zeros in (1, 11, 12, 5000):
        file = read(tmp_path, VERSION + b"".join(scalar_records(3)) + bytes(zeros))
        assert file.scalars.height == 3
        assert file.problem is not None
        assert file.problem.startswith(f"{zeros} zero byte")
    file = read(tmp_path, VERSION + scalar_records(1)[0] + bytes(5000) + b"".join(scalar_records(3)))
    assert file.scalars.height == 4
    assert file.problem is not None
    assert "5000 bytes without a valid record header" in file.problem


# --- steps that repeat without a session start --------------------------------------------------------------------------


def logged(*spans: tuple[int, int], tags: tuple[str, ...] = ("train/lr", "train/loss")) -> bytes:
    """Series over spans of steps, one span after the other, a second a step."""
    steps = [step for begin, end in spans for step in range(begin, end)]
    return b"".join(record(event(n, simple(tag, n / 4), time=T0 + at)) for at, n in enumerate(steps) for tag in tags)


def test_steps_that_repeat_are_one_resume(tmp_path: Path) -> None:
    file = read(tmp_path, VERSION + logged((1, 100), (60, 150)))
    table = tb.metrics(file, source_of())
    assert table.height == 2 * (99 + 90)
    assert table["attempt"].to_list() == [0] * 198 + [1] * 180
    (resumed,) = tb.resumes(file, source_of())
    assert (resumed.signature, resumed.step, resumed.time) == ("run-resumed", 60, T0 + 99)
    assert resumed.note == "step 60: the steps repeat from here on; it supersedes 80 values up to step 99"
    assert resumed.weight < 0.9


def test_each_repetition_is_a_resume_of_its_own(tmp_path: Path) -> None:
    file = read(tmp_path, VERSION + logged((1, 100), (60, 150), (120, 200)))
    assert tb.metrics(file, source_of())["attempt"].to_list() == [0] * 198 + [1] * 180 + [2] * 160
    assert [r.step for r in tb.resumes(file, source_of())] == [120]


def test_a_session_start_at_the_same_place_counts_once(tmp_path: Path) -> None:
    file = read(tmp_path, VERSION + logged((1, 100)) + session(60, T0 + 99) + logged((60, 80), (70, 90)))
    assert tb.metrics(file, source_of())["attempt"].to_list() == [0] * 198 + [1] * 40 + [2] * 40
    told = read(tmp_path, VERSION + logged((1, 100)) + session(60, T0 + 99) + logged((60, 80)))
    (resumed,) = tb.resumes(told, source_of())
    assert "SessionLog START" in (resumed.note or "")


@pytest.mark.parametrize(
    "data",
    [
        logged((0, 50), (0, 50)),  # the next fold
        logged((1, 50), (1, 50)),
        logged((1, 100)),
        logged((1, 100)) + logged((1, 9), tags=("val/acc",)),  # counts epochs, and is written late
        logged((1, 100)) + logged((50, 60), tags=("other",)) + logged((100, 150)),
        b"".join(logged((n, n + 2)) for n in range(400)),  # each step is logged twice, in turns
    ],
)
def test_what_is_no_resume(tmp_path: Path, data: bytes) -> None:
    file = read(tmp_path, VERSION + data)
    assert tb.resumes(file, source_of()) == ()
    assert set(tb.metrics(file, source_of())["attempt"]) == {None}


def test_a_series_that_alone_goes_back_is_no_resume(tmp_path: Path) -> None:
    loss = b"".join(record(event(n, simple("loss", 1.0))) for n in (*range(1, 60), *range(30, 60)))
    others = b"".join(logged((n, n + 1), tags=("a", "b", "c", "d")) for n in range(1, 60))
    later = b"".join(logged((n, n + 1), tags=("a", "b", "c", "d")) for n in range(60, 80))
    file = read(tmp_path, VERSION + others + loss + later)
    assert tb.resumes(file, source_of()) == ()
