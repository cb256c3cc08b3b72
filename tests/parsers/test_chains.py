"""Which tracebacks of a log hang together."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Evidence, Role, Traceback
from forensics.parsers.chains import chains

SKIPPED = """Traceback (most recent call last):
  File "/app/data.py", line 7, in __getitem__
    raise ValueError("sample 7")
ValueError: sample 7
"""
LOADED = """Traceback (most recent call last):
  File "/app/train.py", line 12, in <module>
    state = torch.load("last.pt")
  File "/usr/lib/python3/site-packages/torch/serialization.py", line 1014, in load
    return _legacy_load(opened_file)
EOFError: Ran out of input
"""


@pytest.mark.parametrize("between", ["", "ERROR training failed\n", "a\nb\nc\n"])
def test_a_traceback_right_below_another_is_its_own(tmp_path: Path, between: str) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2.0\n" + SKIPPED + between + LOADED)
    (root,) = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert root.name == "checkpoint-corrupt"


def raised(header: str, first: int, last: int) -> Traceback:
    ends = Evidence("a.log", last, 0, "EOFError")
    return Traceback(
        exception="EOFError", message="", frames=(), header=Evidence("a.log", first, 0, header), final=ends
    )


@pytest.mark.parametrize(
    ("below", "lines"),
    [
        ("Original Traceback (most recent call last):", [(1, 9)]),
        ("Traceback (most recent call last):", [(1, 4), (5, 9)]),
    ],
)
def test_what_a_message_quotes_is_one_with_it(below: str, lines: list[tuple[int, int]]) -> None:
    found = chains([raised("Traceback (most recent call last):", 1, 4), raised(below, 5, 9)])
    assert [(c.first, c.last) for c in found] == lines
