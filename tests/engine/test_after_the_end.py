"""What comes after a run's end is no failure of it: a stop by hand, and threads that lose their queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

STEPS = "".join(f"2026-03-01 10:00:{n:02},000 INFO step {n} loss {2 - n / 100:.3f}\n" for n in range(1, 41))
DONE = "2026-03-01 10:00:41,000 INFO Training complete. Best checkpoint saved to /ckpt/best.pt\n"
HF_DONE = (
    "{'train_runtime': 812.3, 'train_samples_per_second': 9.8, 'train_steps_per_second': 1.2, 'train_loss': 1.1,"
    " 'epoch': 3.0}\n"
)
STOP = """\
^CTraceback (most recent call last):
  File "/w/train.py", line 200, in <module>
    server.join()
KeyboardInterrupt
"""
AT_SHUTDOWN = """\
^CException ignored in: <module 'threading' from '/usr/lib/python3.12/threading.py'>
Traceback (most recent call last):
  File "/usr/lib/python3.12/threading.py", line 1624, in _shutdown
    lock.acquire()
KeyboardInterrupt:
"""
THREAD = """\
Exception in thread Thread-3 (_pin_memory_loop):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/v/site-packages/torch/utils/data/_utils/pin_memory.py", line 55, in _pin_memory_loop
    do_one_step()
  File "/v/site-packages/torch/multiprocessing/reductions.py", line 541, in rebuild_storage_fd
    fd = df.detach()
ConnectionResetError: [Errno 104] Connection reset by peer
"""


def run(folder: Path, **logs: str) -> Diagnosis:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize("stop", [STOP, AT_SHUTDOWN])
@pytest.mark.parametrize("done", [DONE, HF_DONE])
def test_a_stop_by_hand_after_the_end(tmp_path: Path, done: str, stop: str) -> None:
    found = run(tmp_path, train=STEPS + done + stop)
    assert found.verdict is Verdict.HEALTHY
    assert [f.role for f in found.findings if f.name == "keyboard-interrupt"] == [Role.CONTEXT]


def test_a_stop_of_a_viewer_beside_a_finished_run(tmp_path: Path) -> None:
    viewer = "TensorBoard 2.18.0 at http://localhost:6006/ (Press CTRL+C to quit)\n" + STOP
    assert run(tmp_path, train=STEPS + DONE, tensorboard=viewer).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    "log",
    [
        STEPS + STOP,
        STEPS + DONE + STEPS.replace("10:00:", "10:05:").replace("step ", "step 4") + STOP,  # it had gone on
        STEPS + "Epoch 3 done\n" + STOP,
    ],
)
def test_a_stop_of_training_itself(tmp_path: Path, log: str) -> None:
    assert run(tmp_path, train=log).verdict is Verdict.INTERRUPTED


def test_a_stop_beside_a_run_that_did_not_finish(tmp_path: Path) -> None:
    assert run(tmp_path, train=STEPS, err=STOP).verdict is Verdict.INTERRUPTED


@pytest.mark.parametrize("last", ["ConnectionResetError: [Errno 104] Connection reset by peer", "EOFError"])
def test_a_thread_that_dies_after_the_end(tmp_path: Path, last: str) -> None:
    thread = THREAD.replace("ConnectionResetError: [Errno 104] Connection reset by peer", last)
    found = run(tmp_path, train=STEPS + DONE + thread)
    assert found.verdict is Verdict.HEALTHY
    (late,) = [f for f in found.findings if f.name == "thread-exception-at-exit"]
    assert "Thread-3 (_pin_memory_loop)" in late.notes[0]


@pytest.mark.parametrize("log", [STEPS + THREAD, STEPS + DONE + STEPS.replace("step ", "step 4") + THREAD])
def test_a_thread_that_dies_in_training(tmp_path: Path, log: str) -> None:
    assert run(tmp_path, train=log).verdict is Verdict.FAILED


def test_an_exception_of_the_program_itself_after_the_end_is_one(tmp_path: Path) -> None:
    own = THREAD.partition("\n")[2].replace("ConnectionResetError: [Errno 104] Connection reset by peer", "EOFError: x")
    assert run(tmp_path, train=STEPS + DONE + own).verdict is Verdict.FAILED
