"""The stack of one rank of several is told where it stood, as context: where the others were, nothing tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role, Verdict

STEPS = "".join(f"2026-05-14 10:0{n}:00 step {n}0 loss 2.{n}\n" for n in range(10))
STACK = """\
Process 500{rank}: /usr/bin/python3 -u train.py
Python v3.11.9 (/usr/bin/python3.11)

Thread 500{rank} (idle): "MainThread"
    flock (filelock/_unix.py:40)
    load_shard (dataset/shards.py:77)
    main (train.py:120)
    <module> (train.py:140)
"""


def context(folder: Path, *, ranks: int, stacks: tuple[int, ...], end: str = "") -> list[str]:
    for rank in range(ranks):
        (folder / f"rank{rank}.log").write_text(STEPS + end)
    for rank in stacks:
        (folder / f"pyspy_rank{rank}.txt").write_text(STACK.format(rank=rank))
    found = analyse([str(folder)], Options(cache=False))
    assert found.verdict is Verdict.HEALTHY
    return [f"{f.ranks} {f.notes[0]}" for f in found.of_role(Role.CONTEXT) if f.name == "stack-of-one-rank"]


def test_where_the_one_rank_stood_is_told(tmp_path: Path) -> None:
    (said,) = context(tmp_path, ranks=4, stacks=(2,))
    assert said.startswith("(2,) Rank 2 stood at _unix.py:40 flock, waiting for a file lock; where ranks 0-1, 3")


@pytest.mark.parametrize(
    ("ranks", "stacks", "end"),
    [(4, (0, 1, 2, 3), ""), (1, (0,), ""), (4, (2,), "2026-05-14 10:10:00 Training complete.\n")],
    ids=["all ranks", "one process", "the run ended"],
)
def test_elsewhere_it_is_not(tmp_path: Path, ranks: int, stacks: tuple[int, ...], end: str) -> None:
    assert context(tmp_path, ranks=ranks, stacks=stacks, end=end) == []
