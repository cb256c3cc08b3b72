"""How a count is spoken of that is no step: the samples of an epoch that a loop has seen."""

from __future__ import annotations

SAMPLES = "sample"  # unit of a step


def of_samples(count: int, epoch: float | None) -> str:
    """`2,900 samples of epoch 1`."""
    return f"{count:,} samples" + (f" of epoch {epoch:g}" if epoch is not None else "")
