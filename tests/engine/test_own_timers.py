"""Hangs that a process's own timer shows: faulthandler.dump_traceback_later(repeat=True)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.test_hangs import diagnose, first

STEPS = "".join(f"step {n} loss {2 / (n + 1):.4f}\n" for n in range(40))
STAMPED = "".join(f"2026-11-20 09:00:{n:02} INFO step {n} loss {2 / (n + 1):.4f}\n" for n in range(40))
LOCKED = """Timeout (0:00:30)!
Thread 0x00007fd8c5a5db80 (most recent call first):
  File "/srv/job/data.py", line 31 in fetch
  File "/srv/job/train.py", line 14 in <module>
"""
BACKWARD = """Timeout (0:00:30)!
Thread 0x00007fd8c5a5db80 (most recent call first):
  File "/opt/lib/python3.11/site-packages/torch/autograd/graph.py", line 979 in _engine_run_backward
  File "/srv/job/train.py", line 22 in <module>
"""
WORKER = """Timeout (0:00:30)!
Thread 0x00007fd8c5a5db80 (most recent call first):
  File "/srv/job/data.py", line {line} in load
  File "/opt/lib/python3.11/multiprocessing/process.py", line 108 in run
  File "/opt/lib/python3.11/multiprocessing/process.py", line 314 in _bootstrap
  File "/srv/job/train.py", line 9 in <module>
"""
CTRL_C = """Traceback (most recent call last):
  File "/srv/job/train.py", line 14, in <module>
    batch = fetch()
  File "/srv/job/data.py", line 31, in fetch
    lock.acquire()
KeyboardInterrupt
"""


def test_dumps_in_another_file_than_the_steps(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, {"out.log": STEPS, "err.log": LOCKED * 4})
    assert (diagnosis.verdict, first(diagnosis).name) == ("hung", "silent-hang")
    assert "4 times" in " ".join(first(diagnosis).notes)


def test_two_dumps_beside_the_steps_are_no_hang(tmp_path: Path) -> None:
    """Nothing says that they did not come in two slow steps."""
    assert diagnose(tmp_path, {"out.log": STEPS, "err.log": LOCKED * 2}).verdict == "healthy"


def test_steps_that_are_slow_in_their_work_are_no_hang(tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"out.log": STEPS, "err.log": BACKWARD * 4}).verdict == "healthy"


def test_dumps_that_outlast_all_steps(tmp_path: Path) -> None:
    """Four turns of 30 seconds, and 39 seconds of steps: two dumps at least came when no step did any more."""
    assert diagnose(tmp_path, {"out.log": STAMPED, "err.log": BACKWARD * 4}).verdict == "hung"


def test_dumps_that_the_steps_outlast(tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"out.log": STAMPED, "err.log": BACKWARD * 3}).verdict == "healthy"


@pytest.mark.parametrize("apart", [True, False])
def test_several_processes_that_dump_into_one_file(tmp_path: Path, apart: bool) -> None:
    dumps = (LOCKED + WORKER.format(line=7) + WORKER.format(line=8)) * 3
    files = {"out.log": STEPS, "err.log": dumps} if apart else {"all.log": STEPS + dumps}
    diagnosis = diagnose(tmp_path, files)
    assert (diagnosis.verdict, first(diagnosis).name) == ("hung", "silent-hang")


def test_a_process_that_moves_between_places(tmp_path: Path) -> None:
    dumps = LOCKED + "".join(WORKER.format(line=n) for n in (7, 8, 9)) + LOCKED * 3
    assert diagnose(tmp_path, {"all.log": STEPS + dumps}).verdict == "healthy"


def test_a_hang_that_was_stopped_by_hand(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, {"out.log": STEPS, "err.log": LOCKED * 4 + CTRL_C})
    assert (diagnosis.verdict, first(diagnosis).name) == ("hung", "silent-hang")
    assert "keyboard-interrupt" in {f.name for f in diagnosis.findings}


def test_a_run_that_reached_its_end(tmp_path: Path) -> None:
    files = {"out.log": STEPS + "Training finished\n", "err.log": LOCKED * 4}
    assert diagnose(tmp_path, files).verdict == "healthy"


ONCE = LOCKED.replace("0:00:30", "0:05:00")


@pytest.mark.parametrize("steps", [STEPS, STAMPED])
def test_a_log_that_ends_in_the_dump_of_a_long_timer(tmp_path: Path, steps: str) -> None:
    diagnosis = diagnose(tmp_path, {"all.log": steps + ONCE})
    assert (diagnosis.verdict, first(diagnosis).name) == ("hung", "silent-hang")
    assert "data.py:31 fetch" in " ".join(first(diagnosis).notes)


@pytest.mark.parametrize(
    "log",
    [
        STEPS + LOCKED,  # 30 seconds: a save may take them
        STEPS + ONCE + "step 40 loss 0.0488\n",
        STEPS + ONCE + "checkpoint saved\n",
        STEPS + ONCE + ONCE.replace("31 in fetch", "44 in decode"),
        "".join(f"2026-11-20 09:{2 * n:02}:00 INFO step {n} loss {2 / (n + 1):.4f}\n" for n in range(20)) + ONCE,
    ],
)
def test_a_dump_behind_which_the_run_may_have_gone_on(tmp_path: Path, log: str) -> None:
    assert diagnose(tmp_path, {"all.log": log}).verdict == "healthy"


def test_a_dump_of_one_timer_beside_the_steps_is_no_hang(tmp_path: Path) -> None:
    assert diagnose(tmp_path, {"out.log": STEPS, "err.log": ONCE}).verdict == "healthy"
