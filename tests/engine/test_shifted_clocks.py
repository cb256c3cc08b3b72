"""Hosts whose clocks are far off, and whose ranks record nothing in common: their logs begin and end together."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.engine.shifted_clocks import shifts
from forensics.model import Finding, Role, Verdict

START = datetime(2026, 8, 10, 9)
CODE = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 90, in <module>\n    main()\nKeyError: 'y'\n"
LOST = (
    'Traceback (most recent call last):\n  File "/srv/train.py", line 90, in <module>\n    main()\n'
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, "
    "remote process exited or there was a network error, NCCL version 2.20.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\nsocketProgress: Connection closed by remote peer node-1<41234>\n"
)


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def log(rank: int, ahead: float, dies: float, tail: str, begins: float = 0) -> str:
    head = f"{stamp(begins + ahead)} INFO rank {rank}/4 starting\n{stamp(begins + 9 + ahead)} INFO rank {rank} trains\n"
    return f"{head}{stamp(dies + ahead)} ERROR training failed\n{tail}"


def roots(folder: Path, ahead: dict[int, float], culprit: int, tail: str = LOST, late: float = 0) -> list[Finding]:
    for rank in range(4):
        host = folder / f"node-{rank // 2}"
        host.mkdir(exist_ok=True)
        own = (60, CODE) if rank == culprit else (62, tail)
        text = log(rank, ahead.get(rank // 2, 0), *own, begins=0 if rank // 2 == 0 else late)
        (host / f"rank{rank}.log").write_text(text)
    found = analyse([str(folder)], Options(threads=1))
    assert found.verdict is Verdict.FAILED
    return list(found.of_role(Role.ROOT))


@pytest.mark.parametrize("ahead", [900, 3600, -3600, 1234, -1234])
@pytest.mark.parametrize("host", [0, 1])
def test_one_root_whichever_clock_is_off(tmp_path: Path, ahead: float, host: int) -> None:
    found = roots(tmp_path, {host: ahead}, culprit=3)
    assert [(f.ranks, f.name) for f in found] == [((3,), "python-exception")]
    told = [note for f in found for note in f.notes if "clock" in note]
    assert all(f"about {abs(ahead)} s" in note and "by when their logs begin and end" in note for note in told)


def test_the_report_says_by_how_much(tmp_path: Path) -> None:
    (found,) = roots(tmp_path, {1: 1234}, culprit=3)
    assert any("the clock of node-1 is about 1234 s ahead of the others" in note for note in found.notes)


def test_a_host_that_started_late_has_the_clock_of_the_others(tmp_path: Path) -> None:
    found = roots(tmp_path, {}, culprit=3, late=-1234)
    assert not any("clock" in note for f in found for note in f.notes)


@pytest.mark.parametrize(
    ("ends", "off"),
    [
        ({"a": (0, 100), "b": (900, 1001), "c": (1, 99)}, {"b"}),
        ({"a": (0, 100), "b": (900, 1601)}, set()),  # the others gave it up 10 min after its end
        ({"a": (0, 100), "b": (200, 301)}, set()),  # a slow pull, and a wait for it
        ({"a": (0, 100), "b": (1, 102)}, set()),
    ],
)
def test_shifts(ends: dict[str, tuple[float, float]], off: set[str]) -> None:
    assert {host for host, offset in shifts(ends).items() if offset.sure} == off


def test_logs_that_hold_errors_alone_tell_of_no_start(tmp_path: Path) -> None:
    for rank, (dies, tail) in enumerate([(1300, LOST), (1300, LOST), (60, CODE), (60, CODE)]):
        (tmp_path / f"node-{rank // 2}").mkdir(exist_ok=True)
        text = f"{stamp(dies)} ERROR training failed\n{tail}{stamp(dies + 20)} INFO exit\n"
        (tmp_path / f"node-{rank // 2}" / f"rank{rank}.log").write_text(text)
    found = analyse([str(tmp_path)], Options(threads=1))
    assert not any("clock" in note for f in found.findings for note in f.notes)
