"""The lines around evidence, read again from files that may have changed, and from hostile ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from samples import diagnosis, finding

from forensics.model import COLLECTIVES_COLUMNS, METRICS_COLUMNS, Evidence, Kind, RunData, Source, schema
from forensics.report.html.context import Context, contexts


def context(file: Path, line: int | None, offset: int | None, text: str = "x", kind: Kind = Kind.LOG) -> Context | None:
    import polars as pl

    data = RunData(
        path="run", sources=(Source("a.log", file, kind, 0),), observations=(), tracebacks=(), writers=(),
        metrics=pl.DataFrame(schema=schema(METRICS_COLUMNS)), collectives=pl.DataFrame(schema=schema(COLLECTIVES_COLUMNS)),
        coverage=(),
    )  # fmt: skip
    given = diagnosis(finding(evidence=(Evidence("a.log", line, offset, text),)))
    return contexts(given, data).get(("a.log", line or 0))


def lines(found: Context | None) -> list[tuple[int, str, bool]]:
    assert found is not None
    return list(found.lines)


@pytest.mark.parametrize("offset", [True, False])
def test_three_lines_to_either_side(tmp_path: Path, offset: bool) -> None:
    file = tmp_path / "a.log"
    file.write_text("".join(f"line {n}\n" for n in range(1, 10_001)))
    at = file.read_text().index("line 5000\n")
    found = lines(context(file, 5000, at if offset else None))
    assert found == [(n, f"line {n}", n == 5000) for n in range(4997, 5004)]


@pytest.mark.parametrize(("line", "expected"), [(1, [1, 2, 3]), (3, [1, 2, 3])])
def test_at_the_ends_of_a_file(tmp_path: Path, line: int, expected: list[int]) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"a\nb\nc")
    assert [n for n, _, _ in lines(context(file, line, 2 * (line - 1)))] == expected


def test_an_offset_within_a_line_finds_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"a\nlong line here\nc\n")
    assert [t for _, t, key in lines(context(file, 2, 7)) if key] == ["long line here"]


def test_of_a_progress_bar_the_last_state_is_shown_and_long_lines_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"  1%|\r 50%|\r100%|\r\n" + b"y" * 100_000 + b"\nkey\n\xff\xfe\n")
    found = lines(context(file, 3, len(b"  1%|\r 50%|\r100%|\r\n") + 100_001))
    assert [n for n, _, key in found if key] == [3]
    assert all(len(text) <= 2000 for _, text, _ in found)
    assert found[-1] == (4, "\udcff\udcfe", False)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    gone, pipe, short, config = (tmp_path / n for n in ("gone", "pipe", "short", "c.yaml"))
    os.mkfifo(pipe)
    short.write_bytes(b"one\n")
    config.write_bytes(b"password:\n  hunter2\nx\n")
    assert context(gone, 1, 0) is None
    assert context(pipe, 1, 0) is None
    assert context(short, 900, 50_000) is None
    assert context(short, 900, None) is None
    assert context(short, None, None) is None
    assert context(config, 3, 20, kind=Kind.CONFIG) is None
