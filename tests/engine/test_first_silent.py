"""Of several ranks that others waited for, the one whose own log ends long before."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse_with_data
from forensics.model import Diagnosis
from forensics.report import jsonreport
from forensics.report.words import where

RANKS, QUIET, STEPS = 8, (1, 5), 200
WAITED = (
    "[rank{r}]:[E101 10:17:40.123456789 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=401, OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=600000) ran for 600041 milliseconds"
)


def run(folder: Path, *, last: int, hours: float = 0, more: int = 0) -> Diagnosis:
    """A run whose ranks 1 and 5 did not come. last: the last step of rank 5; more: lines of rank 1 after its steps."""
    start = datetime(2026, 1, 1, 10)
    for rank in range(RANKS):
        ahead = timedelta(hours=hours if rank == 5 else 0)
        times = (start + timedelta(seconds=2 * n) - ahead for n in range(STEPS + more))
        lines = [
            f"{time:%Y-%m-%d %H:%M:%S} INFO [rank{rank}] " + (f"step {n}/999 loss 2.5" if n < STEPS else "waiting")
            for n, time in enumerate(times)
            if n < (last if rank == 5 else STEPS + (more if rank == 1 else 0))
        ]
        if rank not in QUIET:
            lines.append(WAITED.format(r=rank))
        (folder / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return analyse_with_data([str(folder)], Options()).diagnosis


def test_the_rank_that_stopped_first_is_singled_out(tmp_path: Path) -> None:
    found = run(tmp_path, last=50)
    root = found.findings[0]
    assert root.ranks == QUIET
    assert root.stopped_first == 5
    assert ("stopped first", "rank 5") in where(root, found.run)
    assert jsonreport.to_dict(found)["findings"][0]["stopped_first"] == 5
    assert root.notes[0] == "Of these, rank 5 stopped first: its log ends 5 min before that of the next"


@pytest.mark.parametrize(
    ("last", "hours", "more"),
    [
        (STEPS, 0, 0),  # all end together
        (STEPS - 30, 0, 0),  # a minute: the clocks of two hosts
        (STEPS - 60, 0, 0),  # two minutes: less than a buffer holds
        (STEPS, 1, 0),  # another time zone
        (50, 1, 0),  # and both
        (STEPS, 0, 300),  # it came as far, and the other only printed more
    ],
)
def test_what_the_logs_do_not_tell_is_not_said(tmp_path: Path, last: int, hours: float, more: int) -> None:
    found = run(tmp_path, last=last, hours=hours, more=more)
    root = found.findings[0]
    assert root.ranks == QUIET
    assert root.stopped_first is None
    assert jsonreport.to_dict(found)["findings"][0]["stopped_first"] is None
    assert not any("stopped first" in note for note in root.notes)
