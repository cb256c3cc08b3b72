"""Whether a loss was not finite, told without waiting for the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

POLL = 16  # losses on a GPU that are brought over together, in the background


@dataclass(slots=True)
class Notice:
    """`lost` says whether the losses that have arrived last were not finite; some steps late for losses on a GPU.

    Losses on other devices are not brought over: those are seen at the next look.
    """

    lost: bool = False
    _collected: list[torch.Tensor] = field(default_factory=list)
    _arriving: tuple[torch.Tensor, Any] | None = None

    def add(self, loss: torch.Tensor | float) -> None:
        """One loss, of one element."""
        if not isinstance(loss, torch.Tensor):
            self.lost = not math.isfinite(loss)
        elif loss.device.type == "cpu":
            self.lost = not math.isfinite(loss.item())
        elif loss.device.type == "cuda":
            self._collected.append(loss)
            self._poll()

    def _poll(self) -> None:
        if self._arriving is not None:
            values, event = self._arriving
            if not event.query():
                if len(self._collected) > 4 * POLL:
                    del self._collected[:POLL]  # the next look sees them
                return
            self.lost = not all(map(math.isfinite, values.tolist()))
            self._arriving = None
        if len(self._collected) >= POLL:
            device = self._collected[-1].device
            here = torch.stack([loss for loss in self._collected if loss.device == device])
            self._collected.clear()
            with torch.cuda.device(device):
                values = here.to("cpu", non_blocking=True)  # into pinned memory: the host goes on
                event = torch.cuda.Event()
                event.record()
            self._arriving = values, event
