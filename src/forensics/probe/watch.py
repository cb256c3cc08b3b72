"""What hooks measure while a step runs, kept on the device until somebody asks: no step waits for the GPU here."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from forensics.probe.budget import DEVICE_BYTES, HOOK_SECONDS
from forensics.probe.modules import containers, first_float, local, watchable

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
        return fetch([self])[0]


def fetch(packs: Sequence[Packed]) -> list[dict[int, float]]:
    """Slot -> number of each, with one transfer from each device. Waits for the devices."""
    groups: dict[tuple[torch.device, torch.dtype], list[tuple[int, list[int], torch.Tensor]]] = {}
    for i, packed in enumerate(packs):
        for slots, values in packed.parts:
            groups.setdefault((values.device, values.dtype), []).append((i, slots, values))
    found: list[dict[int, float]] = [{} for _ in packs]
    for members in groups.values():
        numbers = iter(torch.cat([values.reshape(-1) for _, _, values in members]).tolist())
        for i, slots, _ in members:
            found[i].update(zip(slots, numbers, strict=False))
    return found


def pack(values: Mapping[int, torch.Tensor]) -> Packed:
    """Numbers of one element each, stacked by device: one small tensor instead of hundreds."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for slot, value in values.items():
        groups.setdefault((value.device, value.dtype), []).append(slot)
    return Packed([(slots, torch.stack([values[slot] for slot in slots])) for slots in groups.values()])


class Hook:
    """A hook of a running probe. In a copy or a pickle of the model it is one that does nothing.

    Models are saved whole, copied for a moving average and sent to other processes while a probe is attached. What they
    take along is a part of Python alone, so that the file loads where this package is not installed.
    """

    __slots__ = ("_see",)

    def __init__(self, see: Callable[..., None]) -> None:
        self._see = see

    def __call__(self, *args: Any) -> None:
        if not aside():
            self._see(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


def aside() -> bool:
    """Whether a module is called for something else than a step: an evaluation, or a graph that is being made of it.

    What a hook computes would break a graph of torch.compile, be recorded in one of torch.jit.trace, and mix tensors of
    a transform (torch.func) with those outside of it.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or not torch.is_grad_enabled():
        return True
    return _LEVEL is not None and _LEVEL() is not None


# The transform that runs now, or None; before torch 2.0 it lies elsewhere.
_LEVEL: Callable[[], int | None] | None = getattr(getattr(torch._C, "_functorch", None), "maybe_current_level", None)


class Watch:
    """Hooks on the modules of a model: a sum of every output, which is finite if all of it is, and dead units.

    A module gets its slot when it is first called, so that the order of slots is that of the computation. Hooks are
    there only while they are wanted: torch takes a slower way through a module that has any.
    """

    def __init__(self, model: nn.Module, *, outputs: bool, dead_units: bool, most: int) -> None:
        self.names: list[str] = []  # by slot
        self.costs: dict[int, float] = {}  # slot -> seconds that watching it took the last time
        self.spent = 0.0  # seconds in hooks since it was last set to 0
        self._model = model
        modules = list(watchable(model))[:most]
        names = {name for name, _ in modules}
        # A wrapper of a module without children bears its name.
        whole = [(name, module) for name, module in containers(model) if name not in names][: most - len(modules)]
        self._watched = [
            (name, module, see)
            for part, see in ((modules, self._see_output), (whole, self._see_whole))
            for name, module in part
            if outputs and not isinstance(module, _SILENT)
        ]
        self._rectifiers = [
            (name, module) for name, module in modules if dead_units and isinstance(module, _RECTIFIERS)
        ]
        self._input = outputs
        self._slots: dict[str, int] = {}
        self._sums: dict[int, torch.Tensor] = {}
        self._last: tuple[weakref.ref[torch.Tensor], int] | None = None  # the output that was summed last, its version
        self._dead: dict[str, torch.Tensor] = {}
        self._handles: list[Any] = []
        self._armed: tuple[frozenset[int] | None, bool] = (frozenset(), False)

    @property
    def full(self) -> bool:
        """All outputs are watched now."""
        return self._armed[0] is None

    def arm(self, slots: frozenset[int] | None, *, dead: bool) -> None:
        """From now on watch the outputs in these slots (None: all), and dead units or not."""
        if self._armed == (slots, dead):
            return
        self._armed = (slots, dead)
        self.close()
        if self._input and (slots is None or INPUT in slots):
            self._handles.append(self._model.register_forward_pre_hook(Hook(self._see_input), with_kwargs=True))
        for name, module, see in self._watched:
            if slots is None or self._slots.get(name) in slots:
                self._handles.append(module.register_forward_hook(Hook(partial(see, name))))
        if dead:
            for name, module in self._rectifiers:
                self._handles.append(module.register_forward_hook(Hook(partial(self._see_units, name))))

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
        if (found := first_float((args, kwargs))) is not None:
            self._add(INPUT, found)

    def _see_output(self, name: str, module: nn.Module, args: Any, output: Any) -> None:
        self._see(name, first_float(output))

    def _see_whole(self, name: str, module: nn.Module, args: Any, output: Any) -> None:
        """Of a module with children: what it computed behind them. Many hand on what their last child put out.

        A single number is the loss, which is watched as such.
        """
        found = first_float(output, least=1)
        if found is None or self._last is None or self._last[0]() is not found or self._last[1] != _version(found):
            self._see(name, found)

    def _see(self, name: str, found: torch.Tensor | None) -> None:
        if found is None:
            return
        self._last = weakref.ref(found), _version(found)
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = len(self.names)
            self.names.append(name)
        self._add(slot, found)

    def _add(self, slot: int, found: torch.Tensor) -> None:
        begin = time.perf_counter()
        values = local(found.detach())
        # Sums of half precision overflow where no value does.
        total = values.sum(dtype=torch.float32 if values.element_size() < 4 else None)
        earlier = self._sums.get(slot)
        self._sums[slot] = total if earlier is None else earlier + total
        took = time.perf_counter() - begin + HOOK_SECONDS
        if values.device.type != "cpu":
            took += values.numel() * values.element_size() / DEVICE_BYTES
        self.costs[slot] = took if earlier is None else self.costs.get(slot, 0.0) + took
        self.spent += took

    def _see_units(self, name: str, module: nn.Module, args: Any, output: Any) -> None:
        if not isinstance(output, torch.Tensor):
            return
        begin = time.perf_counter()
        share = dead_share(local(output.detach()), low=getattr(module, "min_val", 0.0))
        if share is not None:
            self._dead[name] = share
        self.spent += time.perf_counter() - begin


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; of inference mode, where nobody counts, it does not matter."""
    return 0 if tensor.is_inference() else tensor._version


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
    """The 2-norm of each tensor, in single precision at least; one call for all alike, where the build has it."""
    found: list[torch.Tensor | None] = [None] * len(tensors)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault((tensor.device, tensor.dtype), []).append(i)
    for (_, dtype), members in groups.items():
        kind = torch.float32 if dtype.itemsize < 4 else dtype
        for i, norm in zip(members, _norms([tensors[i] for i in members], kind), strict=True):
            found[i] = norm
    return [norm for norm in found if norm is not None]


def _norms(tensors: list[torch.Tensor], kind: torch.dtype) -> list[torch.Tensor]:
    foreach = getattr(torch, "_foreach_norm", None)
    if foreach is not None and tensors[0].dtype == kind:
        return list(foreach(tensors))
    if foreach is not None and tensors[0].device.type == "cuda":
        try:
            return list(foreach(tensors, 2, dtype=kind))
        except TypeError:  # torch before 2.5 has no dtype here
            pass
    return [torch.linalg.vector_norm(t, dtype=kind) for t in tensors]
