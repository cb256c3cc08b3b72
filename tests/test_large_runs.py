"""Hundreds of ranks, one culprit: the cause, the rank, the node and the step are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Role

from .synthetic import CAUSES, NAMES, make


def check(folder: Path, seed: int, world: int) -> list[str]:
    truth = make(folder, seed, world, name_of=NAMES[seed % len(NAMES)])
    diagnosis = analyse([str(folder)])
    first = next(iter(diagnosis.of_role(Role.ROOT)), None)
    wrong = []
    if first is None or first.name not in truth.causes:
        wrong.append(f"seed {seed}: {first and first.name} instead of {sorted(truth.causes)}")
    elif first.ranks != (truth.rank,):
        wrong.append(f"seed {seed}: {first.name} on {first.ranks} instead of {truth.rank}")
    elif first.node != truth.node or first.step is None or abs(first.step - truth.step) > 1:
        wrong.append(f"seed {seed}: {first.name} at {first.node}, {first.step} instead of {truth.node}, {truth.step}")
    return wrong


@pytest.mark.parametrize("seed", range(2 * len(CAUSES)))
def test_64_ranks(tmp_path: Path, seed: int) -> None:
    assert check(tmp_path, seed, 64) == []


@pytest.mark.parametrize(
    ("seed", "skew"), [(1001, 60), (1009, 200), (1026, 200), (1011, 600), (1014, 600), (1023, 600)]
)
def test_skewed_clocks(tmp_path: Path, seed: int, skew: int) -> None:
    """Victims' messages are stamped up to twice the skew before the culprit's, and are no second root for that."""
    truth = make(tmp_path, seed, 64, skew)
    found = analyse([str(tmp_path)]).of_role(Role.ROOT)
    assert [(f.name in truth.causes, f.ranks) for f in found] == [(True, (truth.rank,))]
    assert any("set right" in note for note in found[0].notes) or skew < 600


@pytest.mark.slow
def test_512_ranks(tmp_path: Path) -> None:
    wrong = [w for seed in range(100, 150) for w in check(tmp_path / str(seed), seed, 512)]
    assert len(wrong) <= 1, wrong
