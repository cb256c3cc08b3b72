"""A few lines in a training loop that record what logs do not say, as TensorBoard files that `analyze` reads.

    from forensics.probe import Probe

    with Probe(model, optimizer, "runs/probe") as probe:
        for batch in loader:
            ...                                   # forward, backward, optimizer.step(), as before
            probe.step(loss)

Needs the extra `torch`. docs/probe.md says what is written, and what it costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forensics.probe.probe import Probe

__all__ = ["Probe"]


def __getattr__(name: str) -> Any:
    # The tags are read where torch is not installed.
    if name == "Probe":
        try:
            from forensics.probe.probe import Probe
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(
                "the probe needs PyTorch, which is not installed: pip install torch",
                name=error.name,
            ) from error
        return Probe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
