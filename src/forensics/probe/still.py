"""Weights that stay as they are from look to look: those that no optimizer holds, and all where no update was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

import torch
from torch import nn

from forensics.probe.modules import local
from forensics.probe.watch import pack

SAMPLE = 1 << 12  # elements of a parameter that are compared: an update changes nearly all


@dataclass(slots=True)
class Still:
    """Copies of samples of parameters from the first look, compared at every later one."""

    known: Mapping[int, tuple[str, nn.Parameter]]  # of modules.parameters
    _first: dict[int, torch.Tensor] | None = None
    _moved: bool = False

    def look(self, held: Set[int], *, updated: bool) -> tuple[dict[str, float], bool]:
        """What stands still since the first look: (module -> share of its elements, whether all parameters do).

        held: ids of the parameters that the optimizers hold. updated: an update of theirs was measured, so that only
        the others have to be followed. Modules are those that get gradients and are not held; a share is in (0, 1].
        Nothing at the first look, and no second answer where not all are followed. Waits for the devices.
        """
        if self._first is None:
            followed = [key for key in self.known if not (updated and key in held)]
            self._first = {key: self._sample(key).clone() for key in followed}
            return {}, False
        changed = self._changed(self._first)
        self._moved = self._moved or updated or bool(changed)
        for key in changed | (held if self._moved else set()):
            self._first.pop(key, None)
        return self._lost(held, self._first), not self._moved and len(self._first) == len(self.known) > 0

    def _sample(self, key: int) -> torch.Tensor:
        values = local(self.known[key][1].detach())
        stride = math.ceil(values.numel() / SAMPLE)
        return values if stride <= 1 else values.reshape(-1)[::stride]

    def _changed(self, first: Mapping[int, torch.Tensor]) -> set[int]:
        """NaN is a change too: what is not finite is another fault. So are weights that were moved to another place."""
        changed, differ = set(), {}
        for key, old in first.items():
            new = self._sample(key)
            if new.shape != old.shape or new.device != old.device:
                changed.add(key)
            else:
                differ[key] = (new != old).any().float()
        return changed | {key for key, number in pack(differ).numbers().items() if number}

    def _lost(self, held: Set[int], still: Mapping[int, torch.Tensor]) -> dict[str, float]:
        lost: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for key, (module, parameter) in self.known.items():
            sizes[module] = sizes.get(module, 0) + parameter.numel()
            if key in still and key not in held and parameter.grad is not None:
                lost[module] = lost.get(module, 0) + parameter.numel()
        return {module: count / sizes[module] for module, count in lost.items() if count}
