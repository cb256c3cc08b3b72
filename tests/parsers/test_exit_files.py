"""Files that hold nothing but an exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.reading import sniffers
from forensics.parsers.exit_files import told
from forensics.run import discover


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("exit_code", "137\n", "137"),
        ("job_3/exitcode.txt", "1", "1"),
        ("train.rc", "-9\n", "-9"),
        ("returncode", "124", "124"),
        ("exit_code", "0\n", None),
        ("exit_code", "137 files\n", None),
        ("source_rc_7", "1\n", None),
        ("epoch", "12\n", None),
        ("exit_code.log", "1\n", None),
    ],
)
def test_a_number_in_a_file_that_is_named_for_it(tmp_path: Path, name: str, text: str, status: str | None) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    found = told(discover([str(tmp_path)], sniffers()).sources)
    assert [o.captures["exitcode"] for o in found] == ([status] if status else [])
    assert {o.signature for o in found} <= {"process-failed"}
