"""Trials of Ray Tune that failed, and those of them that were tried again and came to their end."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis, Role, Verdict
from forensics.signatures.schema import Signature, load_catalogue


@cache
def catalogue() -> dict[str, Signature]:
    return load_catalogue(examples=False)


def failure(number: int, at: str, what: str = "KeyError: 'img_7'") -> str:
    """As Tune appends it to error.txt."""
    return (
        f"Failure # {number} (occurred at 2026-01-05_{at})\n"
        "ray.exceptions.RayTaskError(KeyError): ray::ImplicitFunc.train() (pid=100, ip=192.0.2.4, repr=fn)\n"
        '  File "/usr/lib/python3/site-packages/ray/tune/trainable/trainable.py", line 331, in train\n'
        "    raise skipped from exception_cause(skipped)\n"
        '  File "/w/train.py", line 57, in load\n'
        "    return self.index[name]\n"
        f"{what}\n"
    )


def results(*, last: int, done: bool, dated: bool = True) -> str:
    """A result a minute, from 09:01:00 on."""
    rows = [
        {"loss": 3 * 0.9**n, "training_iteration": n, "timestamp": 1767603600 + 60 * n}
        | ({"date": f"2026-01-05_09-{n:02d}-00"} if dated else {})
        | {"time_total_s": 60.0 * n, "done": done and n == last}
        for n in range(1, last + 1)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def trial(folder: Path, errors: str, rows: str, **logs: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "params.json").write_text('{"lr": 0.1}')
    (folder / "error.txt").write_text(errors)
    (folder / "result.json").write_text(rows)
    for name, text in logs.items():
        (folder / name).write_text(text)


def diagnose(folder: Path) -> Diagnosis:
    return analyse([str(folder)], Options(threads=1), catalogue())


@pytest.mark.parametrize("dated", [True, False])
def test_a_trial_that_failed_and_came_to_its_end_later_recovered(tmp_path: Path, dated: bool) -> None:
    errors = failure(1, "09-04-07") + failure(2, "09-08-07")
    trial(tmp_path, errors, results(last=20, done=True, dated=dated), stderr=failure(1, "09-04-07").partition("\n")[2])
    found = diagnose(tmp_path)
    first = found.of_role(Role.ROOT)[0]
    assert (found.verdict, first.name) == (Verdict.RECOVERED, "python-exception")
    assert not dated or (first.step, first.step_is) == (4, "last_seen")


@pytest.mark.parametrize("last", [5, 20])
def test_a_trial_that_went_on_after_its_failure_and_was_stopped_recovered(tmp_path: Path, last: int) -> None:
    trial(tmp_path, failure(1, "09-04-07"), results(last=last, done=False))
    found = diagnose(tmp_path)
    first = found.of_role(Role.ROOT)[0]
    assert (found.verdict, first.name, first.step) == (Verdict.RECOVERED, "python-exception", 4)


@pytest.mark.parametrize(
    ("errors", "rows"),
    [
        (failure(1, "09-09-07"), results(last=9, done=False)),
        (failure(1, "09-04-07") + failure(2, "09-09-07"), results(last=9, done=False)),
        (failure(1, "09-04-07"), results(last=9, done=False, dated=False)),
        (failure(1, "09-21-00"), results(last=20, done=True)),  # it failed after all that it reports
        (failure(1, "09-04-07").partition("\n")[2], results(last=20, done=True)),  # no file of Tune's
        (failure(1, "09-04-07"), '{"step": 3, "loss": 1.5, "done": true}\n'),
        (failure(1, "09-04-07"), ""),
    ],
    ids=[
        "not done",
        "not done the second time",
        "not done, without dates",
        "failed after its last result",
        "no failure of Tune's",
        "no result of Tune's",
        "no result",
    ],
)
def test_a_trial_that_did_not_come_back_failed(tmp_path: Path, errors: str, rows: str) -> None:
    trial(tmp_path, errors, rows)
    assert diagnose(tmp_path).verdict is Verdict.FAILED


def test_one_trial_that_came_back_is_no_word_of_another(tmp_path: Path) -> None:
    trial(tmp_path / "a", failure(1, "09-04-07"), results(last=20, done=True))
    trial(tmp_path / "b", failure(1, "09-07-07"), results(last=7, done=False))
    found = diagnose(tmp_path)
    first = found.of_role(Role.ROOT)[0]
    assert found.verdict is Verdict.FAILED and first.evidence[0].file == "b/error.txt"


def test_an_error_of_another_kind_in_a_trials_log_is_not_overcome(tmp_path: Path) -> None:
    """Nothing tells whether it came before the trial's end, which its checkpoint may have failed at."""
    other = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nValueError: no field\n'
    trial(tmp_path, failure(1, "09-04-07"), results(last=20, done=True), stderr=other)
    assert diagnose(tmp_path).verdict is Verdict.FAILED
