"""How a count is spoken of that is no global step: the samples or batches of an epoch that a loop has seen."""

from __future__ import annotations

SAMPLES, BATCHES = "sample", "batch"  # units of a step


def of_samples(count: int, epoch: float | None) -> str:
    """`2,900 samples of epoch 1`."""
    return f"{count:,} samples" + (f" of epoch {epoch:g}" if epoch is not None else "")


def of_batches(count: int, epoch: float | None) -> str:
    """`batch 390 of epoch 5`; the batch alone where no whole epoch is known."""
    return f"batch {count}" + (f" of epoch {epoch:g}" if epoch is not None and float(epoch).is_integer() else "")
