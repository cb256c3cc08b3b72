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


OWN_READER = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 140, in <module>',
    "    main()",
    '  File "/w/text/shards.py", line 31, in next_shard',
    "    return pickle.load(fh)",
    "EOFError: Ran out of input",
]
HANDLED = [
    *CRASH[:3],
    '  File "/opt/torch/serialization.py", line 900, in load',
    "    return pickle_module.load(f, **pickle_load_args)",
    "EOFError: Ran out of input",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 61, in resume',
    "    state = fall_back(path)",
    '  File "/w/train.py", line 44, in fall_back',
    "    return pickle.load(fh)",
    "EOFError: Ran out of input",
]


def test_what_was_said_before_the_traceback_is_not_in_it(tmp_path: Path) -> None:
    assert roots(tmp_path, [WARNS, SOURCE, "step 1 loss 2.10", "step 2 loss 2.00", *OWN_READER]) == ["python-exception"]


def test_nor_what_another_traceback_says(tmp_path: Path) -> None:
    other = [*HANDLED[:5], "KeyError: 'scheduler'", "falling back to a fresh scheduler", "step 2 loss 2.0"]
    assert "checkpoint-corrupt" not in roots(tmp_path, [*other, *OWN_READER])


def test_the_chain_of_a_traceback_is(tmp_path: Path) -> None:
    assert roots(tmp_path, ["step 1 loss 2.10", *HANDLED]) == ["checkpoint-corrupt"]


def test_a_workers_traceback_is_quoted_below_the_error_that_passes_it_on(tmp_path: Path) -> None:
    """What says "DataLoader worker" stands in the traceback above the one that the worker's error ends."""
    worker = [
        *CRASH[:3],
        '  File "/opt/torch/utils/data/dataloader.py", line 700, in __next__',
        "    data = self._next_data()",
        "RuntimeError: Caught RuntimeError in DataLoader worker process 3.",
        "Original Traceback (most recent call last):",
        '  File "/w/text/shards.py", line 31, in read',
        "    return torch.load(self.files[i])",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    ]
    assert "checkpoint-corrupt" not in roots(tmp_path, ["step 1 loss 2.10", *worker])
