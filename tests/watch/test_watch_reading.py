"""Reading what a file has grown by brings what reading it at once brings, wherever the looks fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options
from forensics.engine.reading import read, sniffers
from forensics.model import Identity, Kind, Source
from forensics.parsers import tensorboard as tb
from forensics.run import discover
from forensics.signatures.schema import Signature
from forensics.watch import logs
from forensics.watch.watcher import Settings, Watcher
from tests.watch.live_run import OOM, STEP, record, version

PIECES = (
    *(STEP.format(step=n, loss=3 - n / 100) + "\n" for n in range(1, 8)),
    "".join(OOM),
    "[rank1]: RuntimeError: CUDA error: device-side assert triggered\n",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n",
    "loss is fine\r\n",
    "a bar  10%|#         | 10/100 [00:01<00:09]\r a bar  20%|##        | 20/100 [00:02<00:08]\n",
    "\n",
    "x" * 300 + "\n",
    "caf\u00e9 \x1b[31mred\x1b[0m \x00 end\n",
)


def watcher(folder: Path, catalogue: Mapping[str, Signature], matcher: Matcher) -> Watcher:
    return Watcher([str(folder)], catalogue, Settings(measure=lambda f: None), matcher=matcher)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
)
def test_a_log_read_in_parts(
    tmp_path_factory: pytest.TempPathFactory,
    catalogue: Mapping[str, Signature],
    matcher: Matcher,
    pieces: Sequence[str],
    cuts: Sequence[int],
) -> None:
    folder = tmp_path_factory.mktemp("run")
    data = "".join(pieces).encode()
    file = folder / "rank1.log"
    file.touch()
    watch = watcher(folder, catalogue, matcher)
    for end in sorted({c % (len(data) + 1) for c in cuts} | {len(data)}):
        with file.open("ab") as stream:
            stream.write(data[file.stat().st_size : end])
        watch.look()
    whole = read(discover([str(folder)], sniffers()), matcher, Options(threads=1))
    own = watch._memory.data("run", [f.source for f in watch._files.all()])

    def signs(data: object) -> list[tuple[object, ...]]:
        return sorted(
            {(o.signature, e.line, e.offset, o.identity.rank) for o in data.observations for e in o.evidence}  # type: ignore[attr-defined]
            - {("process-seen", None, None, 1)},
            key=str,
        )

    assert signs(own) == signs(whole)
    assert [(t.exception, t.header.line, t.final.line) for t in own.tracebacks] == [
        (t.exception, t.header.line, t.final.line) for t in whole.tracebacks
    ]
    chosen = ["line", "step", "name", "value"]
    step = own.metrics.filter(own.metrics["name"] != "progress").select(chosen)
    assert step.rows() == whole.metrics.filter(whole.metrics["name"] != "progress").select(chosen).rows()


def test_half_a_line_waits(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"one\ntw")
    assert logs.line_end(file, 0, 6) == (4, True)
    assert logs.line_end(file, 4, 6) == (4, True)
    file.write_bytes(b"one\n" + b"bar 1%\r" * 20_000 + b"bar")
    size = file.stat().st_size
    assert logs.line_end(file, 4, size) == (size - 3, False)
    file.write_bytes(b"x" * 200_000)
    assert logs.line_end(file, 0, 200_000) == (200_000, False)


def test_bars_that_never_end_a_line_are_read(
    tmp_path: Path, catalogue: Mapping[str, Signature], matcher: Matcher
) -> None:
    file = tmp_path / "rank0.err"
    file.write_bytes(b"start\n")
    watch = watcher(tmp_path, catalogue, matcher)
    watch.look()
    for part in range(3):
        with file.open("ab") as stream:
            for n in range(part * 1500, part * 1500 + 1500):
                bar = f"train:  10%|#         | {n}/10000 [00:01<00:09, 9.9it/s, loss=2.50]"
                stream.write(f"\r{bar}".encode())
        watch.look()
    rows = watch._memory.metrics
    assert rows.height and rows["line"].unique().to_list() == [2]
    assert rows["step"].drop_nulls().unique().to_list() == list(range(4499))  # the last one may not be whole
    assert rows.height <= 4499 + 3


def test_a_large_log_is_sampled_and_then_followed(
    tmp_path: Path, catalogue: Mapping[str, Signature], matcher: Matcher
) -> None:
    file = tmp_path / "rank0.log"
    lines = [STEP.format(step=n, loss=3.0) + "\n" for n in range(1, 50_001)]
    file.write_text("".join(lines))
    assert file.stat().st_size > 2 << 20
    watch = watcher(tmp_path, catalogue, matcher)
    watch.look()
    with file.open("a") as stream:
        stream.write(STEP.format(step=50_001, loss=3.0) + "\n" + "".join(OOM))
    watch.look()
    rows = watch._memory.metrics
    assert rows.filter(rows["step"] == 50_001)["line"].unique().to_list() == [50_001]
    assert rows["line"].min() == 1
    data = watch._memory.data("run", [])
    assert {e.line for o in data.observations if o.signature == "cuda-oom" for e in o.evidence} >= {50_005}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 3000), max_size=8), broken=st.integers(0, 40))
def test_an_event_file_read_in_parts(
    tmp_path_factory: pytest.TempPathFactory, cuts: Sequence[int], broken: int
) -> None:
    file = tmp_path_factory.mktemp("tb") / "events.out.tfevents.1.host"
    records = [version(), *(record(n, 3 - n / 100) for n in range(1, 40))]
    if 0 < broken < 40:  # bytes that are no record stand between
        records.insert(broken, b"\x07garbage\xff" * 3)
    data = b"".join(records)
    source = Source("events", file, Kind.TENSORBOARD, 0, Identity(rank=0))
    file.touch()
    follower = tb.Follower(file)
    found: list[tuple[object, ...]] = []
    for end in sorted({c % len(data) for c in cuts} | {len(data)}):
        with file.open("ab") as stream:
            stream.write(data[file.stat().st_size : end])
        found += tb.metrics(follower.more(), source).select("step", "name", "value").rows()
    assert found == tb.metrics(tb.read_events(file), source).select("step", "name", "value").rows()
    assert follower.position <= len(data)


def test_a_session_that_goes_back_is_another_attempt(tmp_path: Path) -> None:
    file = tmp_path / "events.out.tfevents.1.host"
    start = b"\x09" + b"\0" * 8 + b"\x10\x03" + b"\x3a\x02\x08\x01"  # step 3, SessionLog START
    from forensics.parsers.tensorboard import frames
    from forensics.parsers.tensorboard.checksums import header_checksum, masked_crc

    framed = frames.HEADER.pack(len(start), header_checksum(len(start))) + start + frames.FOOTER.pack(masked_crc(start))
    file.write_bytes(version() + b"".join(record(n, 1.0) for n in range(1, 6)))
    follower = tb.Follower(file)
    follower.more()
    with file.open("ab") as stream:
        stream.write(framed + record(3, 1.0))
    follower.more()
    assert follower.restarts == 1


@pytest.mark.parametrize("name", ["log.jsonl", "metrics.csv"])
def test_metric_files_that_grow_by_lines(
    tmp_path: Path, catalogue: Mapping[str, Signature], matcher: Matcher, name: str
) -> None:
    file = tmp_path / name
    rows = [(n, 3 - n / 100) for n in range(1, 30)]
    lines = [f'{{"step": {s}, "loss": {v}, "lr": 0.1}}\n' for s, v in rows]
    if name.endswith(".csv"):
        lines = ["step,loss,lr\n", *(f"{s},{v},0.1\n" for s, v in rows)]
    data = "".join(lines).encode()
    watch = watcher(tmp_path, catalogue, matcher)
    for end in (40, 41, 100, 333, len(data)):
        with file.open("ab") as stream:
            stream.write(data[file.stat().st_size if file.exists() else 0 : end])
        watch.look()
    whole = read(discover([str(tmp_path)], sniffers()), matcher, Options(threads=1)).metrics
    chosen = ["line", "step", "name", "value"]
    assert watch._memory.metrics.select(chosen).rows() == whole.select(chosen).rows()


def test_a_document_of_metrics_is_read_anew(
    tmp_path: Path, catalogue: Mapping[str, Signature], matcher: Matcher
) -> None:
    file = tmp_path / "trainer_state.json"
    watch = watcher(tmp_path, catalogue, matcher)
    for last in (3, 5):
        history = ",\n".join(f'{{"step": {n}, "loss": {3 - n / 10}}}' for n in range(1, last + 1))
        file.write_text(f'{{"global_step": {last}, "max_steps": 10, "log_history": [{history}]}}')
        watch.look()
    rows = watch._memory.metrics
    assert rows.filter(rows["name"] == "loss")["step"].to_list() == [1, 2, 3, 4, 5]
