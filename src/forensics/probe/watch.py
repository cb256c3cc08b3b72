"""What hooks measure while a step runs, kept on the device until somebody asks: no step waits for the GPU here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from forensics.probe.modules import first_float, local, watchable

# Modules whose output is no computation of their own.
_SILENT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Flatten, nn.Unflatten)
# Modules whose units can die: their output and its derivative are exactly zero on one side.
_RECTIFIERS = (nn.ReLU, nn.ReLU6, nn.Threshold, nn.Hardtanh)
FEWEST_ROWS = 16  # values of one unit in a batch; fewer are zero by chance too often
INPUT = -1  # slot of the model's input


@dataclass(slots=True)
class Packed:
    """Numbers on their devices, and which slots they belong to."""

    parts: list[tuple[list[int], torch.Tensor]] = field(default_factory=list)

    def numbers(self) -> dict[int, float]:
        """Slot -> number. Waits for the devices."""
        found: dict[int, float] = {}
        for slots, values in self.parts:
            found.update(zip(slots, values.tolist(), strict=True))
        return found


def pack(values: Mapping[int, torch.Tensor]) -> Packed:
    """Numbers of one element each, stacked by device: one small tensor instead of hundreds."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for slot, value in values.items():
        groups.setdefault((value.device, value.dtype), []).append(slot)
    return Packed([(slots, torch.stack([values[slot] for slot in slots])) for slots in groups.values()])


class Watch:
    """Hooks on the modules of a model: a sum of every output, which is finite if all of it is, and dead units.

    A module gets its slot when it is first called, so that the order of slots is that of the computation.
    """

    def __init__(self, model: nn.Module, *, outputs: bool, dead_units: bool, most: int) -> None:
        self.names: list[str] = []  # by slot
        self.want_dead = False
        self._slots: dict[str, int] = {}
        self._sums: dict[int, torch.Tensor] = {}
        self._dead: dict[str, torch.Tensor] = {}
        self._handles: list[Any] = []
        if outputs:
            self._handles.append(model.register_forward_pre_hook(self._see_input, with_kwargs=True))
        for name, module in list(watchable(model))[:most]:
            if outputs and not isinstance(module, _SILENT):
                self._handles.append(module.register_forward_hook(self._output_hook(name)))
            if dead_units and isinstance(module, _RECTIFIERS):
                self._handles.append(module.register_forward_hook(self._dead_hook(name)))

    def take(self) -> Packed:
        """The sums of the step so far, which then begins anew."""
        sums, self._sums = self._sums, {}
        return pack(sums)

    def take_dead(self) -> dict[str, torch.Tensor]:
        dead, self._dead = self._dead, {}
        return dead

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _see_input(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.is_grad_enabled() and (found := first_float((args, kwargs))) is not None:
            self._add(INPUT, found)

    def _output_hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if not torch.is_grad_enabled():  # an evaluation
                return
            found = first_float(output)
            if found is None:
                return
            slot = self._slots.get(name)
            if slot is None:
                slot = self._slots[name] = len(self.names)
                self.names.append(name)
            self._add(slot, found)

        return hook

    def _add(self, slot: int, found: torch.Tensor) -> None:
        values = local(found.detach())
        # Sums of half precision overflow where no value does.
        total = values.sum(dtype=torch.float32 if values.element_size() < 4 else None)
        earlier = self._sums.get(slot)
        self._sums[slot] = total if earlier is None else earlier + total

    def _dead_hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if self.want_dead and torch.is_grad_enabled() and isinstance(output, torch.Tensor):
                share = dead_share(local(output.detach()), low=getattr(module, "min_val", 0.0))
                if share is not None:
                    self._dead[name] = share

        return hook


def dead_share(output: torch.Tensor, low: float = 0.0) -> torch.Tensor | None:
    """Share of units whose output is `low` for the whole batch; None where a unit has fewer than FEWEST_ROWS values.

    output: (rows, units), (batch, positions, units) or (batch, channels, height, width, ...).
    """
    if output.dim() < 2 or not output.numel():
        return None
    units = 1 if output.dim() > 3 else output.dim() - 1
    others = [d for d in range(output.dim()) if d != units]
    if output.numel() // output.shape[units] < FEWEST_ROWS:
        return None
    return (output <= low).all(dim=others[0]).float().mean() if len(others) == 1 else _all(output <= low, units)


def _all(flags: torch.Tensor, units: int) -> torch.Tensor:
    return flags.movedim(units, 0).flatten(1).all(dim=1).float().mean()


def norms(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The 2-norm of each tensor, in single precision at least, by one call where the build has it."""
    if not tensors:
        return []
    half = any(t.element_size() < 4 for t in tensors)
    foreach = getattr(torch, "_foreach_norm", None)
    if foreach is not None and not half:
        return list(foreach(list(tensors)))
    return [torch.linalg.vector_norm(t, dtype=torch.float32 if t.element_size() < 4 else None) for t in tensors]
