"""Input made to hurt: bounded time and memory, one coverage row a file, nothing live in a report, no wrong blame.

The inputs run in one process of their own, whose memory and CPU time are limited; each is a few hundred kilobytes that
once took minutes or gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from io import BufferedReader, FileIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine import few
from forensics.engine.detectors import series
from forensics.engine.expressions import scan_expression
from forensics.engine.scan import Database, Pattern, scan_span
from forensics.engine.steps import step_clock
from forensics.files import buffered, opened
from forensics.model import MAX_RANKS, METRICS_COLUMNS, Evidence, Identity, Observation, schema
from forensics.parsers import metric_windows
from forensics.parsers.metric_windows import read_part
from forensics.parsers.prefixes import clean, rank_list
from forensics.signatures.schema import LARGEST, SignatureError, load_catalogue

ASSERT = b"RuntimeError: CUDA error: device-side assert triggered"
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB"
TIMEOUT = (
    b"[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, "
    b"OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)


def _interleaved(ranks: int) -> bytes:
    lines = ("Traceback (most recent call last):", '  File "t.py", line 1, in f', "    g()", "ValueError: bad")
    return "".join(f"[rank{rank}]: {line}\n" for line in lines for rank in range(ranks)).encode()


INPUTS: dict[str, bytes] = {
    # hyperscan tells of a match at each character that a repetition takes
    "repetition.log": b"RuntimeError: CUDA error: a" + b"x" * 1_500_000,
    "no-carriage-return.log": b"".join(b"%s %d\n" % (ASSERT, i) for i in range(8_000)),
    "one-line.log": ASSERT * 8_000,
    "rank-of-ten-digits.log": b"[rank1000000000]: " + OOM + b"\n[rank1]: step: 1 loss: 2\n",
    "rank-of-5000-digits.log": b"[rank" + b"9" * 5000 + b"]: " + OOM + b" rank " + b"9" * 5000 + b"\n",
    "world.log": b"world_size: 1000000000\nWORLD_SIZE=2147483647\n" + TIMEOUT % 10**18 + TIMEOUT % 10**30,
    "nranks.log": b"h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 7 nranks 2147483647 cudaDev 0 nvmlDev 0 "
    b"busId 1000 commId 0x1 - Init START\n" + TIMEOUT % 5,
    "spans.log": b"[rank0]: Ranks " + b",".join(b"%d-999999999" % i for i in range(2000)) + b" failed to join\n",
    "interleaved.log": _interleaved(600),
    "a-rank-a-line.log": b"".join(b"[rank%d]: step: %d loss: 1.5\n" % (i, i) for i in range(3_000)),
    "steps.log": b"".join(b"step: %d/%d loss: 1.5\n" % (i * 10**15, 10**18) for i in range(5000)),
    "dates.log": b"".join(b"%04d-01-01 00:00:00 step: %d loss: 1.5\n" % (i, i) for i in range(1, 9999, 3)),
    "live.log": b"\x1b]52;c;ZXZpbA==\x07\x1b[2J\xe2\x80\xae\xc2\x9b31m " + OOM + b" \x1b]8;;http://x\x07<b>\n",
    "deep.json": b'{"loss":' * 100_000,
    "digits.jsonl": b'{"step": 1, "loss": 1}\n' + b'{"step": ' + b"9" * 5000 + b', "loss": 1}\n',
    "names.jsonl": b"".join(b'{"step": %d, "loss": 1.5, "a%d/loss": 2}\n' % (i, i) for i in range(5000)),
    "a\n\x1b[31mb.log": OOM + b"\n",
    "wide.csv": b"step,loss," + b",".join(b"train/p%d_loss" % i for i in range(30_000)) + (b"\n1" + b",1" * 30_001) * 9,
    "handled.log": b"".join(
        b"step: %d loss: 1.5\nTraceback (most recent call last):\n  File 't.py', line 1, in f\n%s\n" % (i, OOM)
        for i in range(4_000)
    ),
    "banners.log": b"".join(b"torchrun starting workers\nstep: %d loss: 1.5\nKeyError: 1\n" % i for i in range(4_000)),
    "shell.sh.txt": b"#!/bin/sh\n" + b"if [ -x /bin/x ]; then\n    exit 0\nfi\ncheck || exit 0\n" * 20,
    "code.txt": b"".join(
        b"def f%d(x):\n    if x is None:\n        raise RuntimeError('CUDA out of memory. Tried to allocate 1.00 GiB')\n"
        b"    # Distributed package doesn't have NCCL built in\n    return x\n\n\n" % i
        for i in range(99)
    ),
    "xid.log": b"NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 0 (0x00000000 0x00000000)\n" * 2,
}
NO_RUNS = ("shell.sh.txt", "code.txt")
WRONG_RANKS = ("rank-of-ten-digits.log", "rank-of-5000-digits.log")

_CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (90, 100))
from forensics.engine.matcher import Matcher
from forensics.engine.pipeline import Options, explain
from forensics.engine.reading import read, sniffers
from forensics.report import jsonreport, terminal
from forensics.run import discover
from forensics.signatures.schema import load_catalogue

def peak():  # getrusage counts what the parent held when it forked
    try:
        return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) >> 10
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

catalogue = load_catalogue()
matcher = Matcher(catalogue)
for path in sys.argv[1:]:
    begin = time.process_time()
    diagnosis = explain(read(discover([path], sniffers()), matcher, Options(threads=1)), catalogue)
    report = jsonreport.to_dict(diagnosis)
    print(json.dumps({
        "report": report,
        "text": jsonreport.render(diagnosis) + terminal.render(diagnosis, width=100, colour=False),
        "cpu": time.process_time() - begin,
        "rss": peak(),
    }))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Input -> report, text of both reports, CPU seconds, and MB at the most until then."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *(str(folder / name) for name in INPUTS)],
        capture_output=True,
        env={**os.environ, "FORENSICS_DEBUG": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return dict(zip(INPUTS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", INPUTS)
def test_an_input(name: str, results: dict[str, dict[str, object]]) -> None:
    result = results[name]
    report = result["report"]
    assert isinstance(report, dict) and isinstance(result["cpu"], float) and isinstance(result["rss"], int)
    assert result["cpu"] < 4
    assert result["rss"] < 250
    assert len(report["coverage"]["sources"]) == 1
    assert "fault of forensics" not in str(report)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", str(result["text"]))


@pytest.mark.parametrize("name", WRONG_RANKS)
def test_an_absurd_rank_names_nobody(name: str, results: dict[str, dict[str, object]]) -> None:
    report = results[name]["report"]
    assert isinstance(report, dict)
    assert report["verdict"] == "failed"
    assert all(rank < MAX_RANKS for finding in report["findings"] for rank in finding["ranks"] or ())
    assert (report["run"]["world_size"] or 0) <= 2


@pytest.mark.parametrize("name", NO_RUNS)
def test_what_is_no_run_is_neither_healthy_nor_failed(name: str, results: dict[str, dict[str, object]]) -> None:
    report = results[name]["report"]
    assert isinstance(report, dict)
    assert report["verdict"] == "unknown"
    assert [f["name"] for f in report["findings"] if f["role"] == "root"] == []


def test_an_absurd_world_is_none(results: dict[str, dict[str, object]]) -> None:
    for name in ("world.log", "nranks.log"):
        report = results[name]["report"]
        assert isinstance(report, dict)
        assert report["run"]["world_size"] in (None, 4)  # ranks 0 to 3 are known to exist


def test_identity_takes_no_absurd_number() -> None:
    assert Identity(rank=MAX_RANKS, local_rank=-1, device=3) == Identity(device=3)
    assert clean("[rank99999999999]: x").identity.rank is None
    assert clean("[rank7]: x").identity.rank == 7


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="0123456789-, x²٣", max_size=24))
def test_rank_lists(text: str) -> None:
    ranks = rank_list(text)
    assert list(ranks) == sorted(set(ranks))
    assert all(0 <= rank < MAX_RANKS for rank in ranks)


def test_a_rank_list() -> None:
    assert rank_list("0-3, 8,10-9,x,7-") == (0, 1, 2, 3, 7, 8)
    assert len(rank_list(",".join(["0-999999999"] * 5000))) == MAX_RANKS


SHORTENED = [
    (r"^ab[^.]*$", "ab"),
    (r"(?P<e>[a-z][^.]*)", r"(?P<e>[a-z])"),
    (r"x \S+?", r"x \S"),
    (r"a\d{2,5}", r"a\d{2}"),
    (r"a\s*\d*", "a"),
    (r"a\*", r"a\*"),
    (r"a\\*", r"a\\*"),
    (r"[)*]+", "[)*]"),
    (r"a[\]*]", r"a[\]*]"),
    (r".*", ".*"),
    # behind a wide gap, where only a short word stands before it
    (r"step \d+ .{0,60}?\bloss went wrong \d", r"loss went wrong \d"),
    (r"(?i:(?P<a>at|in) [^\n]{0,40}not (?:a|any) number)", r"(?i:not (?:a|any) number)"),
    (r"(?i)at .{20,30} no numbers", r"(?i) no numbers"),
    (r"at .{0,40}nan", r"at .{0,40}nan"),  # what is left would be as usual
    (r"at .{0,10}no number \d", r"at .{0,10}no number \d"),  # a narrow one
    (r"iteration .{0,40}no number \d", r"iteration .{0,40}no number \d"),
    (r"at .{0,40}no number \d|x", r"at .{0,40}no number \d|x"),
    (r"(?:at .{0,40}no number) \d", r"(?:at .{0,40}no number) \d"),
    (r"(?:a|.*)", "(?:a|.*)"),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([pattern for pattern, _ in SHORTENED]), st.data())
def test_scanning_for_the_beginning_misses_no_line(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII)))
    assert re.search(scan_expression(pattern), text, re.ASCII)


@pytest.mark.parametrize(("pattern", "shorter"), SHORTENED)
def test_what_is_scanned_for(pattern: str, shorter: str) -> None:
    assert scan_expression(pattern) == shorter


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "ab", "\n", "\r", "x"]), max_size=40))
def test_a_pattern_hits_a_piece_once(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    file = tmp_path_factory.getbasetemp() / "pieces.log"
    data = "".join(parts)
    file.write_text(data, newline="")
    hits = scan_span(_AB, file, 0, len(data)).hits
    expected = [
        (n, piece) for n, line in enumerate(data.split("\n"), 1) for piece in line.split("\r") if re.search("ab", piece)
    ]
    assert [(h.line, h.data.decode()) for h in hits] == expected


_AB = Database([Pattern(1, "a+b+")], cache=False)


def test_a_large_file_of_metrics_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WHOLE", 40_000), ("EDGE", 4_000), ("WINDOW", 1_000), ("BLOCK", 7_001)):
        monkeypatch.setattr(metric_windows, name, value)
    lines = [b'{"step": %d, "loss": %s}' % (n, b"NaN" if n > 7777 else b"1.5") for n in range(1, 10_001)]
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"\n".join(lines))
    with opened(file) as stream:
        part = read_part(stream)
    assert not part.whole and len(part.data) < 60_000
    read = part.data.splitlines()
    assert all(lines[part.line(n) - 1] == line for n, line in enumerate(read, 1))
    assert read[0] == lines[0] and read[-1] == lines[-1]
    assert lines[7776] in read and lines[7777] in read  # where the loss stops being finite


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_windows_of_anything(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("WHOLE", 60), ("EDGE", 10), ("WINDOW", 6), ("BLOCK", 16)):
            patch.setattr(metric_windows, name, value)
        file = tmp_path_factory.getbasetemp() / "windows"
        file.write_bytes(data)
        with opened(file) as stream:
            part = read_part(stream)
    assert part.size == len(data)
    assert part.whole == (len(data) <= 60)
    assert all(1 <= part.line(n) <= data.count(b"\n") + 1 for n in range(1, part.data.count(b"\n") + 1))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("open_", [opened, buffered])
def test_what_is_no_file_any_more_is_refused(tmp_path: Path, open_: Callable[[Path], BufferedReader | FileIO]) -> None:
    os.mkfifo(tmp_path / "x.log")
    (tmp_path / "z.log").symlink_to("/dev/zero")
    for name in ("x.log", "z.log"):
        with pytest.raises(OSError, match="no regular file"):
            open_(tmp_path / name)


def test_a_file_of_the_kernel_that_has_nothing_to_give_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stat.S_ISREG", lambda mode: True)
    os.mkfifo(tmp_path / "x.log")
    with (
        (tmp_path / "x.log").open("rb+", buffering=0),  # a writer that is silent
        buffered(tmp_path / "x.log") as stream,
    ):
        assert stream.read(10) == stream.read() == b""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["analyze", "--help"], ["signatures", "list"]])
def test_a_full_disk_is_said_in_one_line(arguments: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "forensics", *arguments], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"No space left" in done.stderr


def test_signature_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="is no folder"):
        load_catalogue(Path(os.devnull))
    (tmp_path / "a.toml").write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(SignatureError, match="larger than"):
        load_catalogue(tmp_path)
    (tmp_path / "a.toml").unlink()
    (tmp_path / "a.toml").symlink_to(os.devnull)
    with pytest.raises(SignatureError, match="no regular file"):
        load_catalogue(tmp_path)


def test_streams_by_the_ten_thousand_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_STREAMS", 3)
    monkeypatch.setattr(few, "FEW", 0)  # a table of so few rows has no streams to leave out
    base = dict.fromkeys(METRICS_COLUMNS) | {"source": "a", "name": "loss", "step": 1}
    rows = [base | {"rank": rank, "line": rank, "value": float("nan") if rank == 7 else 1.0} for rank in range(9)]
    rows += [base | {"rank": 5, "line": 10, "step": 2, "value": 1.0}]
    found = series.streams(pl.DataFrame(rows, schema=schema(METRICS_COLUMNS)), ["loss"])
    assert {stream.rank for stream in found} == {0, 5, 7}
    assert [len(stream) for stream in found] == [1, 2, 1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([None, 0, 1]), st.sampled_from([None, 0, 1])), max_size=8),
    st.integers(0, 9),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, 0, 1]),
)
def test_what_follows_an_event(
    marks: list[tuple[int, int | None, int | None]], line: int, rank: int | None, attempt: int | None
) -> None:
    base = dict.fromkeys(METRICS_COLUMNS) | {"source": "a", "name": "loss", "value": 1.0}
    rows = [base | {"line": n, "step": step, "rank": r, "attempt": a} for n, (step, r, a) in enumerate(marks, 1)]
    clock = step_clock(pl.DataFrame(rows, schema=schema(METRICS_COLUMNS)), {})
    event = Observation(
        signature="x", weight=1, evidence=(Evidence("a", line, None, ""),), identity=Identity(attempt=attempt)
    )
    own = [
        (n, step)
        for n, (step, r, a) in enumerate(marks, 1)
        if (rank is None or r in (None, rank)) and (a is None or attempt is None or a <= attempt)
    ]
    before, after = [s for n, s in own if n <= line], [s for n, s in own if n > line]
    goes_on = bool(after) and max(after) >= (before[-1] if before else min(after)) + 2
    assert clock.goes_on_after(event, rank) == goes_on
    assert clock.began_before(event) == any(n < line for n in range(1, len(marks) + 1))
