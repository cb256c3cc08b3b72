"""What a process says as it ends comes before the end itself, and before doubts that a curve gives rise to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Role

STEPS = [f"[rank0]: step {n} loss {7 - n / 100:.3f} lr 1e-4" for n in range(1, 50)]
ABORT = [
    "terminate called after throwing an instance of 'std::runtime_error'",
    "  what():  NCCL error: {}, NCCL version 2.7.8",
    "Aborted (core dumped)",
]


def roots(folder: Path, lines: list[str]) -> list[str]:
    (folder / "train.log").write_text("".join(f"{line}\n" for line in lines))
    return [f.name for f in analyse([str(folder)], Options()).of_role(Role.ROOT)]


@pytest.mark.parametrize(
    ("error", "name"),
    [("unhandled system error", "nccl-system-error"), ("invalid usage", "nccl-invalid-usage")],
)
def test_an_abort_follows_from_the_error_that_it_states(tmp_path: Path, error: str, name: str) -> None:
    assert roots(tmp_path, [*STEPS, *(line.format(error) for line in ABORT)]) == [name]


def test_an_abort_that_states_nothing_stands_alone(tmp_path: Path) -> None:
    assert roots(tmp_path, [*STEPS, ABORT[0], ABORT[2]]) == ["rank-sigabrt"]


def test_an_exception_does_not_follow_from_a_doubtful_curve(tmp_path: Path) -> None:
    """The same waves of the loss in every epoch, as without set_epoch, and a bug that ends the program."""
    noise = random.Random(3)
    waves = [noise.gauss(0, 0.1) for _ in range(100)]
    lines = [
        f"Epoch {n // 100} [{n % 100}/100] loss: {2 - n / 2000 + waves[n % 100]:.4f} lr: 0.0010" for n in range(534)
    ]
    crash = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 9, in <module>',
        "    f()",
        "ValueError: bad",
    ]
    assert roots(tmp_path, lines) == ["data-order-repeats"]
    assert roots(tmp_path, [*lines, *crash]) == ["python-exception"]
