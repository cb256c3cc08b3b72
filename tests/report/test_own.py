"""A report is known again, and a log is not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples

from forensics.report import jsonreport, terminal
from forensics.report.own import is_report

HEAD = 16 << 10  # bytes that discovery looks at
SAVED = sorted(Path(__file__).parents[1].joinpath("data/report").iterdir())


@pytest.mark.parametrize("file", SAVED, ids=lambda file: file.name)
def test_reports_are_known_again(file: Path) -> None:
    data = file.read_bytes()
    assert is_report(data[:HEAD])
    assert is_report(data.replace(b"\n", b"\r\n")[:HEAD])


def test_so_are_coloured_ones_and_those_on_one_line() -> None:
    assert is_report(terminal.render(samples.FAILED, width=80, colour=True).encode())
    assert is_report(jsonreport.render(samples.FAILED, indent=None).encode())


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"FAILED  tests/test_x.py::test_y - assert 1 == 2\n\n=== 1 failed ===\n",
        b"FAILED to load\n\nREAD\n  x\n",
        b"## FAILED: the run\n\nsome notes\n",
        b'{"schema_version": 1, "tool": {"name": "other"}}',
        b'{"schema_version": 1, "loss": 2.0}\n',
        b"step 1\nFAILED  x\n\nWHERE\n  rank  1\n",
        b"HEALTHY  \n",
    ],
)
def test_others_are_not_taken_for_one(head: bytes) -> None:
    assert not is_report(head)
