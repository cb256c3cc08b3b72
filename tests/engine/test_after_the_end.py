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
    (late,) = [f for f in found.findings if f.name == "exception-at-exit"]
    assert "Thread-3 (_pin_memory_loop)" in late.notes[0]


@pytest.mark.parametrize("log", [STEPS + THREAD, STEPS + DONE + STEPS.replace("step ", "step 4") + THREAD])
def test_a_thread_that_dies_in_training(tmp_path: Path, log: str) -> None:
    assert run(tmp_path, train=log).verdict is Verdict.FAILED


def test_an_exception_of_the_program_itself_after_the_end_is_one(tmp_path: Path) -> None:
    own = THREAD.partition("\n")[2].replace("ConnectionResetError: [Errno 104] Connection reset by peer", "EOFError: x")
    assert run(tmp_path, train=STEPS + DONE + own).verdict is Verdict.FAILED


IGNORED = """\
Exception ignored in: <function Tensor.__del__ at 0x7f0000000000>
Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/torch/_tensor.py", line 7, in f
    g()
RuntimeError: CUDA error: driver shutting down
"""
FINALIZER = """\
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/util.py", line 300, in _run_finalizers
    finalizer()
  File "/usr/lib/python3.11/shutil.py", line 681, in _rmtree_safe_fd
    os.unlink(entry.name, dir_fd=topfd)
OSError: [Errno 16] Device or resource busy: '.nfs00000000085c'
"""


@pytest.mark.parametrize("noise", [IGNORED, FINALIZER])
def test_what_the_interpreter_cleans_up_after_the_end(tmp_path: Path, noise: str) -> None:
    assert run(tmp_path, train=STEPS + DONE + noise).verdict is Verdict.HEALTHY


def test_what_is_ignored_is_no_last_word(tmp_path: Path) -> None:
    noise = IGNORED.replace("RuntimeError: CUDA error: driver shutting down", "TypeError: 'NoneType' is not callable")
    assert run(tmp_path, train=STEPS + noise).verdict is Verdict.HEALTHY


def test_an_iterator_that_ends_uncaught(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    next(it)\nStopIteration\n'
    found = run(tmp_path, train=STEPS + raised)
    assert (found.verdict, found.findings[0].name) == (Verdict.FAILED, "python-exception")
    handled = (
        raised
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised.replace("StopIteration", "ValueError: no batch")
    )
    titles = [f.title for f in run(tmp_path, train=STEPS + handled).findings if f.role is Role.ROOT]
    assert titles == ["An exception ended the process: ValueError"]


def test_a_pod_that_is_stopped_after_the_end(tmp_path: Path) -> None:
    describe = "Name: trainer-0\nContainers:\n  main:\n    State:          Terminated\n      Reason:       Error\n"
    assert run(tmp_path, train=STEPS + DONE, pod=f"{describe}      Exit Code:    143\n").verdict is Verdict.HEALTHY
    assert run(tmp_path, train=STEPS, pod=f"{describe}      Exit Code:    255\n").verdict is Verdict.FAILED
