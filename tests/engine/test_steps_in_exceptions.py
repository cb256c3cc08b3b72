"""The step that an exception's own text names, where it fits what was recorded before."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role


@pytest.mark.parametrize(
    ("text", "step", "how"),
    [
        ("unreadable values in sample 882131 at step 447", 447, "exact"),
        ("bad batch during iteration 452", 452, "exact"),
        ("bad batch at step 3", 440, "last_seen"),  # of something else
        ("the schedule ends at step 90000", 440, "last_seen"),
        ("the optimizer was made for step 447", 440, "last_seen"),
        ("unreadable values in sample 447", 440, "last_seen"),
    ],
)
def test_the_step_of_an_exception(tmp_path: Path, text: str, step: int, how: str) -> None:
    steps = "".join(f"2026-05-14 10:00:{n:02} step {10 * n} loss {2 - n / 100:.3f}\n" for n in range(45))
    raised = f'Traceback (most recent call last):\n  File "/w/data.py", line 55, in collate\nValueError: {text}\n'
    (tmp_path / "train.log").write_text(steps + raised)
    root = analyse([str(tmp_path)], Options(cache=False)).of_role(Role.ROOT)[0]
    assert (root.name, root.step, root.step_is) == ("python-exception", step, how)
