from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.engine import scan
from forensics.engine.scan import Database, Pattern, ScanError, scan_files, scan_span

BOOM = Database([Pattern(1, r"BOOM \d"), Pattern(2, "a+b(c", literal=True)], cache=False)


def lines_with_boom(data: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    for n, line in enumerate(data.split(b"\n"), 1):
        inner = at
        for piece in line.split(b"\r"):
            if any(b"BOOM %d" % d in piece for d in range(10)):
                found.append((n, inner))
            inner += len(piece) + 1
        at += len(line) + 1
    return found


def write(folder: Path, data: bytes) -> Path:
    file = folder / "x.log"
    file.write_bytes(data)
    return file


def test_line_offset_and_text(tmp_path: Path) -> None:
    file = write(tmp_path, b"one\nbar\rx BOOM 1 y\rz\nlast BOOM 2")
    hits = scan_span(BOOM, file, 0, 100).hits
    assert [(h.line, h.offset, h.data) for h in hits] == [(2, 8, b"x BOOM 1 y"), (3, 21, b"last BOOM 2")]


def test_literal(tmp_path: Path) -> None:
    assert [h.pattern for h in scan_span(BOOM, write(tmp_path, b"x a+b(c y"), 0, 9).hits] == [2]


def test_a_line_longer_than_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BLOCK", 1 << 16)
    monkeypatch.setattr(scan, "_buffer", scan._Buffer())
    data = b"x" * 500_000 + b"BOOM 1" + b"y" * 500_000 + b"\nBOOM 2\n"
    result = scan_span(BOOM, write(tmp_path, data), 0, len(data))
    assert [h.line for h in result.hits] == [1, 2]
    assert result.bytes == len(data)
    assert all(len(h.data) <= 2 * scan.REACH + 10 for h in result.hits)


def test_many_hits_are_counted_and_the_last_is_kept(tmp_path: Path) -> None:
    data = b"BOOM 1\n" * 5000 + b"tail\n"
    result = scan_span(BOOM, write(tmp_path, data), 0, len(data))
    assert result.counts[1] == 5000
    assert len(result.hits) <= scan.KEEP + 1
    assert result.hits[-1].line > 4900


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = scan_span(BOOM, tmp_path / "none", 0, 10)
    assert result.problem
    assert not result.hits


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    file = write(tmp_path, b"BOOM 1\n")
    assert [len(s.hits) for s in scan_files(BOOM, [(file, 1 << 30, ())], threads=2)] == [1]


def test_what_hyperscan_refuses_is_named() -> None:
    with pytest.raises(ScanError, match="look"):
        Database([Pattern(1, "fine"), Pattern(2, "a(?!look)b")], cache=False)


def test_a_damaged_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Database([Pattern(1, "BOOM")])
    (cached,) = (tmp_path / "forensics").glob("patterns-*")
    for damage in (b"", b"garbage" * 100, cached.read_bytes()[:-50]):
        cached.write_bytes(damage)
        file = write(tmp_path, b"BOOM\n")
        assert len(scan_span(Database([Pattern(1, "BOOM")]), file, 0, 5).hits) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from([b"BOOM 1", b"\n", b"\r", b"x", b"\0", b"\xff", b"filler " * 40, b"\n\n"]), max_size=60
    ),
    span=st.integers(20, 3000),
    block=st.sampled_from([256, 1024, 1 << 16]),
)
def test_no_hit_is_lost_or_moved_wherever_spans_and_blocks_end(
    tmp_path: Path, parts: list[bytes], span: int, block: int
) -> None:
    data = b"".join(parts)
    file = write(tmp_path, data)
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(scan, "BLOCK", block)
        patch.setattr(scan, "OVERLAP", 64)
        patch.setattr(scan, "SPAN", span)
        patch.setattr(scan, "_buffer", scan._Buffer())
        (result,) = scan_files(BOOM, [(file, len(data), ())], threads=1)
    finally:
        patch.undo()
    expected = lines_with_boom(data)
    if all(len(line) < block - 64 for line in data.split(b"\n")):
        assert [(h.line, h.offset) for h in result.hits] == expected
    else:
        assert {h.line for h in result.hits} == {line for line, _ in expected}
    assert result.newlines == data.count(b"\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(st.text("abcAB: ", min_size=1, max_size=30), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 5), max_size=12),
    st.text("abAB: \n", max_size=60),
)
def test_literals_are_found_by_their_windows_and_by_nothing_else(
    tmp_path: Path, literals: list[str], order: list[int], noise: str
) -> None:
    text = noise.join(literals[i % len(literals)] for i in order) + noise
    database = Database([Pattern(i, x, literal=True) for i, x in enumerate(literals)], cache=False)
    counts = scan_span(database, write(tmp_path, text.encode()), 0, len(text)).counts
    lines = text.split("\n")
    assert counts == {i: n for i, x in enumerate(literals) if (n := sum(x in line for line in lines))}
