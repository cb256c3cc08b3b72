"""Runs that failed on a real GPU (examples/gpu): each is diagnosed as what was done to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.engine.pipeline import analyse
from forensics.model import Role

DATA = Path(__file__).parent / "data" / "gpu"


@pytest.mark.parametrize(
    ("run", "verdict", "roots", "step"),
    [
        ("cublas-full", "failed", {"cublas-alloc-failed"}, None),
        ("cudnn-full", "failed", {"cudnn-oom"}, None),
        ("device-assert-blocking", "failed", {"token-id-out-of-range"}, 9),
        ("duplicate-gpu-silent", "failed", {"duplicate-gpu"}, None),
        ("flash-fp32", "failed", {"attention-kernel-unavailable"}, None),
        ("fork-cuda", "failed", {"cuda-fork-reinit"}, None),
        ("hf-fp16-diverges", "diverged", {"nan-gradients", "nan-loss", "grad-scaler-collapse"}, None),
        ("illegal-access", "failed", {"cuda-illegal-memory-access"}, 7),
        ("illegal-access-blocking", "failed", {"cuda-illegal-memory-access"}, 7),
        ("launch-failure", "failed", {"gpu-kernel-exception"}, 7),
        ("misaligned", "failed", {"gpu-kernel-exception"}, 7),
        ("nccl-net-ib-absent", "failed", {"nccl-network-unavailable"}, None),
        ("nccl-no-interface", "failed", {"nccl-no-socket-interface"}, None),
        ("no-gpu", "failed", {"no-gpu-visible"}, None),
        ("wrong-device", "failed", {"wrong-device-assignment"}, None),
        ("xid-kernel-log", "failed", {"cuda-illegal-memory-access", "gpu-kernel-exception"}, None),
    ],
)
def test_failures(run: str, verdict: str, roots: set[str], step: int | None) -> None:
    diagnosis = analyse([str(DATA / run)])
    assert diagnosis.verdict == verdict
    found = diagnosis.of_role(Role.ROOT)
    assert [f.name for f in found if f.name in roots] == [f.name for f in found] != []
    if step is not None:
        assert found[0].step is not None and abs(found[0].step - step) <= 1


@pytest.mark.parametrize("run", ["bf16-healthy", "hf-bf16-healthy", "nccl-info-file", "nccl-version"])
def test_healthy_runs(run: str) -> None:
    diagnosis = analyse([str(DATA / run)])
    assert diagnosis.verdict == "healthy"
    assert diagnosis.of_role(Role.ROOT) == diagnosis.of_role(Role.CASCADE) == ()


@pytest.mark.parametrize("run", ["fr-on-request", "machine"])
def test_nothing_is_read_into_what_shows_no_trouble(run: str) -> None:
    diagnosis = analyse([str(DATA / run)])
    assert diagnosis.of_role(Role.ROOT) == diagnosis.of_role(Role.CASCADE) == ()
