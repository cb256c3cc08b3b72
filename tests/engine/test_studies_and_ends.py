"""A study without steps that went through its trials, and loops that print their end while an exception ends them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict

HEAD = "[I 2026-04-03 05:00:00,000] A new study created in memory with name: no-name-7\n"
TRIALS = HEAD + "".join(
    f"[I 2026-04-03 05:{n:02d}:11,114] Trial {n} finished with value: 0.{70 + n} and parameters: {{'lr': 0.00{n + 1}}}."
    f" Best is trial {n} with value: 0.{70 + n}.\n"
    for n in range(8)
)
FAILED = (
    "[W 2026-04-03 05:40:10,301] Trial 8 failed with parameters: {'lr': 0.1} because of the following error: RuntimeError('x').\n"
    'Traceback (most recent call last):\n  File "/w/search.py", line 9, in objective\n    fit(lr)\nRuntimeError: x\n'
)
ITERATIONS = "".join(
    f"[10/10 11:11:{n:02d} d2.utils.events]:  eta: 0:10:00  iter: {n * 20}  total_loss: {2 - n / 50:.3f}  lr: 0.001\n"
    for n in range(1, 20)
)
RAISED = (
    "ERROR [10/10 11:12:11 d2.engine.train_loop]: Exception during training:\nTraceback (most recent call last):\n"
    '  File "/opt/detectron2/engine/train_loop.py", line 149, in train\n    self.run_step()\n{error}\n'
)
HOOKS = (
    "[10/10 11:12:11 d2.engine.hooks]: Overall training speed: 378 iterations in 0:03:00 (0.4 s / it)\n"
    "[10/10 11:12:11 d2.engine.hooks]: Total training time: 0:03:01 (0:00:01 on hooks)\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB"


def diagnosed(folder: Path, text: str) -> Diagnosis:
    (folder / "train.log").write_text(text)
    return analyse([str(folder)], Options(threads=1))


@pytest.mark.parametrize(
    "end",
    [
        "Best trial:\n  Value: 0.77\n",
        "Study statistics: \n  Number of finished trials:  8\n",
        "best params: {'lr': 0.01}\n",
    ],
)
def test_a_study_that_says_what_was_best_is_over(tmp_path: Path, end: str) -> None:
    found = diagnosed(tmp_path, TRIALS + end)
    assert (found.verdict, found.summary) == (Verdict.HEALTHY, "The run reached its end and shows no failure.")


def test_a_study_that_went_from_trial_to_trial_shows_no_failure(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, TRIALS)
    assert found.verdict is Verdict.HEALTHY and "end of 8 trials" in found.summary


def test_a_study_that_a_trial_ended_has_failed(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, TRIALS + FAILED).verdict is Verdict.FAILED


@pytest.mark.parametrize(("error", "name"), [(OOM, "cuda-oom"), ("KeyError: 'image'", "python-exception")])
def test_hooks_that_run_after_an_exception_tell_no_end(tmp_path: Path, error: str, name: str) -> None:
    found = diagnosed(tmp_path, ITERATIONS + RAISED.format(error=error) + HOOKS)
    assert (found.verdict, found.of_role(Role.ROOT)[0].name) == (Verdict.FAILED, name)


def test_hooks_of_a_loop_that_came_to_its_end_tell_it(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, ITERATIONS + HOOKS)
    assert (found.verdict, found.summary) == (Verdict.HEALTHY, "The run reached its end and shows no failure.")
