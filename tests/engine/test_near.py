"""Messages in context: what other ranks print in between is not near a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role
from forensics.signatures.schema import load_catalogue

CRASH = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 140, in <module>',
    "    main()",
    '  File "/w/text/vocab.py", line 12, in load_vocab',
    "    return pickle.load(fh)",
    "EOFError: Ran out of input",
]
WARNS = "/w/train.py:88: FutureWarning: You are using `torch.load` with `weights_only=False`"
SOURCE = '  init = torch.load("/w/init.pt", map_location="cpu")'
SIGNATURE = """
name = "widget-stuck"
title = "The widget did not spin"
kind = "cause"
severity = "fatal"
why = "It says so."
fix = ["Oil it"]

[[evidence]]
source = "log"
pattern = 'widget did not spin'
weight = 0.9
near = 'spin motor cold'
near_lines = 6
"""


def said_by(rank: int, *lines: str) -> list[str]:
    return [f"[rank{rank}]: {line}" for line in lines]


def roots(folder: Path, lines: list[str], signatures: Path | None = None) -> list[str]:
    (folder / "run").mkdir()
    (folder / "run" / "train.log").write_text("\n".join(lines) + "\n")
    catalogue = load_catalogue(signatures) if signatures else None
    return [f.name for f in analyse([str(folder / "run")], Options(threads=1), catalogue).of_role(Role.ROOT)]


def test_what_other_ranks_load_is_not_near_the_error_of_one(tmp_path: Path) -> None:
    others = [line for n in range(3) for line in said_by(n, WARNS, SOURCE)]
    assert roots(tmp_path, [*others, *said_by(3, *CRASH), *others]) == ["python-exception"]


def test_what_the_same_rank_loads_is(tmp_path: Path) -> None:
    crash = [*CRASH[:3], '  File "/opt/torch/serialization.py", line 900, in load', *CRASH[4:]]
    assert roots(tmp_path, said_by(3, *crash)) == ["checkpoint-corrupt"]


@pytest.mark.parametrize(("rank", "found"), [(1, ["widget-stuck"]), (0, ["python-exception"])])
def test_lines_of_other_ranks_are_not_counted(tmp_path: Path, rank: int, found: list[str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "widget-stuck.toml").write_text(SIGNATURE)
    between = [line for n in range(9) for line in said_by(2 + n % 3, f"step {n} loss {2 - n / 10}")]
    crash = [*CRASH[:-1], "RuntimeError: widget did not spin"]
    assert roots(tmp_path, [*said_by(rank, "spin motor cold"), *between, *said_by(1, *crash)], own) == found
