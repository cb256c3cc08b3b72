"""faulthandler's stack beside the crash that it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Finding

STEPS = "".join(f"step {n} loss {3 - n / 50:.3f}\n" for n in range(1, 21))
IDLE = """\
Thread 0x00007f1c2d7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

"""
CURRENT = """\
Current thread 0x00007f1d8a0c7740 (most recent call first):
  File "/v/lib/python3.11/site-packages/decord/video_reader.py", line 175 in get_batch
  File "/w/video.py", line 44 in __getitem__
"""
FATAL = "Fatal Python error: Segmentation fault\n\n"


def root(tmp_path: Path, text: str) -> tuple[Finding, list[str]]:
    (tmp_path / "run.log").write_text(text)
    found = analyse([str(tmp_path)], Options(threads=1))
    assert found.findings[0].name == "rank-segfault"
    return found.findings[0], [m.how for m in found.missing_evidence]


@pytest.mark.parametrize("prefix", ["", "3: "])
def test_the_stack_of_the_crash_is_told(tmp_path: Path, prefix: str) -> None:
    steps = "".join(f"{task}: {line}\n" for line in STEPS.splitlines() for task in range(4)) if prefix else STEPS
    crash = "".join(f"{prefix}{line}\n" for line in (FATAL + IDLE + CURRENT).splitlines())
    first, missing = root(tmp_path, steps + crash)
    assert "get_batch (/v/lib/python3.11/site-packages/decord/video_reader.py:175)" in first.notes[0]
    assert "called from __getitem__ (/w/video.py:44)" in first.notes[0]
    assert any("/w/video.py" in e.text for e in first.evidence)
    assert not any("PYTHONFAULTHANDLER" in text for text in (*first.fix, *missing))


@pytest.mark.parametrize("below", ["", IDLE])
def test_without_the_stack_of_the_crash_it_is_asked_for(tmp_path: Path, below: str) -> None:
    first, missing = root(tmp_path, STEPS + FATAL + below)
    assert first.notes == ()
    assert any("PYTHONFAULTHANDLER" in text for text in first.fix)
    assert "PYTHONFAULTHANDLER=1" in missing


def test_the_stack_of_another_rank_is_not_taken(tmp_path: Path) -> None:
    steps = "".join(f"{task}: {line}\n" for line in STEPS.splitlines() for task in range(4))
    other = "".join(f"1: {line}\n" for line in CURRENT.splitlines())
    first, _ = root(tmp_path, f"{steps}3: {FATAL}{other}")
    assert first.notes == ()
