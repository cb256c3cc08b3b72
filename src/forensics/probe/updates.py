"""What an optimizer's step does to the weights: gradients it steps with, and the size of its update."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from forensics.probe.budget import DEVICE_BYTES
from forensics.probe.modules import local
from forensics.probe.watch import Packed, norms, pack

SAMPLE = 1 << 16  # elements of a parameter that are compared before and after: bounds the memory of the copies


@dataclass(frozen=True, slots=True)
class Ratio:
    """An update of one module, or of all (None): norm of the change over norm of the weights before it."""

    module: str | None
    ratio: float


@dataclass(slots=True)
class Measured:
    """Squared norms of changes and weights by parameter, still on the device, and how much of it was sampled."""

    changes: Packed
    weights: Packed
    scale: dict[int, float]


@dataclass(slots=True)
class Updates:
    """Hooks on the steps of one or several optimizers.

    They tell whether a step was really made (a loss scaler leaves some out), take the norm of every gradient while
    `gradients` is set, and measure one update of each optimizer after `want` was called.
    """

    optimizers: Sequence[torch.optim.Optimizer]
    known: Mapping[int, tuple[str, nn.Parameter]]  # of modules.parameters
    gradients: bool = False  # take their norms in the next step
    spent: float = 0.0  # seconds in these hooks since it was last set to 0
    gradient_cost: float = 0.0  # seconds that the gradients of one step took the last time
    applied: bool = False  # a step was made since it was last set to False
    steps: int = 0  # that were made since `attach`
    hooked: bool = False  # all optimizers have hooks
    exact: bool = True  # whole norms are wanted; else large gradients on the CPU are looked at by their edges
    partial: bool = False  # some of the last step's numbers are not norms
    _wanted: set[int] = field(default_factory=set)
    _old: dict[int, torch.Tensor] = field(default_factory=dict)
    _grads: dict[int, torch.Tensor] = field(default_factory=dict)
    _measured: list[Measured] = field(default_factory=list)
    _handles: list[Any] = field(default_factory=list)

    def attach(self) -> None:
        """Put the hooks in; optimizers without them (not of torch.optim) are left alone."""
        self.hooked = all(hasattr(optimizer, "register_step_pre_hook") for optimizer in self.optimizers)
        for optimizer in self.optimizers:
            if hasattr(optimizer, "register_step_pre_hook"):
                self._handles.append(optimizer.register_step_pre_hook(self._before))
                self._handles.append(optimizer.register_step_post_hook(self._after))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._old.clear()

    def want(self) -> None:
        """Measure the next update of each optimizer."""
        self._wanted = {id(optimizer) for optimizer in self.optimizers}

    def take_gradients(self) -> Packed:
        """Norms of the gradients of the last step, by parameter id."""
        grads, self._grads = self._grads, {}
        begin = time.perf_counter()
        packed = pack(grads)
        self.gradient_cost += time.perf_counter() - begin if grads else 0.0
        return packed

    def take_measured(self) -> list[Measured]:
        measured, self._measured = self._measured, []
        return measured

    def keys(self) -> set[int]:
        """Ids of all parameters that the optimizers hold."""
        return {id(p) for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]}

    def held(self) -> float:
        """Share of the trainable elements of the model that the optimizers hold, 0..1."""
        mine = self.keys()
        total = sum(p.numel() for _, p in self.known.values())
        return sum(p.numel() for key, (_, p) in self.known.items() if key in mine) / total if total else 1.0

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        wanted = id(optimizer) in self._wanted
        if not (self.gradients or wanted):
            return
        begin = time.perf_counter()
        with torch.no_grad():
            if self.gradients:
                size = self._measure_gradients(optimizer)
                took = time.perf_counter() - begin + size / DEVICE_BYTES
                first = optimizer is self.optimizers[0]
                self.gradient_cost = took if first else self.gradient_cost + took
            if wanted:
                self._copy_weights(optimizer)
        self.spent += time.perf_counter() - begin

    def _measure_gradients(self, optimizer: torch.optim.Optimizer) -> int:
        """Returns the bytes that a device other than the CPU has to read for it."""
        keys, grads, size = [], [], 0
        self.partial = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None or p.grad.is_sparse or id(p) not in self.known:
                    continue
                grad = local(p.grad)
                if self.exact or grad.device.type != "cpu" or grad.numel() <= SAMPLE or not grad.is_contiguous():
                    keys.append(id(p))
                    grads.append(grad)
                    size += grad.numel() * grad.element_size() if grad.device.type != "cpu" else 0
                else:
                    self.partial = True
                    self._grads[id(p)] = _edges(grad)
        self._grads.update(zip(keys, norms(grads), strict=True))
        return size

    def _copy_weights(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            if group["lr"] is not None and not float(group["lr"]) > 0:  # None: Adafactor finds its own
                continue
            for p in group["params"]:
                if id(p) in self.known and p.grad is not None:
                    self._old[id(p)] = _sample(p).clone()

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self.applied = True
        self.steps += 1
        if id(optimizer) not in self._wanted or not self._old:
            return
        begin = time.perf_counter()
        self._wanted.discard(id(optimizer))
        old, self._old = self._old, {}
        keys = list(old)
        with torch.no_grad():
            changes = norms([_sample(self.known[key][1]).float() - old[key].float() for key in keys])
            weights = norms([old[key].float() for key in keys])
        scale = {key: self.known[key][1].numel() / max(old[key].numel(), 1) for key in keys}
        self._measured.append(
            Measured(pack(dict(zip(keys, changes, strict=True))), pack(dict(zip(keys, weights, strict=True))), scale)
        )
        self.spent += time.perf_counter() - begin


def finite_weights(known: Mapping[int, tuple[str, nn.Parameter]]) -> dict[str, float]:
    """Module -> a number that is finite if all its weights are. Waits for the devices."""
    values = {key: local(p.detach()) for key, (_, p) in known.items()}
    with torch.no_grad():
        found = pack(dict(zip(values, norms(list(values.values())), strict=True))).numbers()
    sums: dict[str, float] = {}
    for key, norm in found.items():
        sums[known[key][0]] = sums.get(known[key][0], 0.0) + norm
    return sums


def _edges(grad: torch.Tensor) -> torch.Tensor:
    """A number that is not finite if a row or a column of a gradient is not.

    A bad value in the output's gradient spoils a row of the weight's, and one in the input a column: products of
    matrices do that. Reading one row and one column finds both, at a thousandth of the cost.
    """
    rows = grad.view(grad.shape[0], -1)
    kind = torch.float32 if grad.element_size() < 4 else None
    return rows[0].sum(dtype=kind) + rows[:, 0].sum(dtype=kind)


def _sample(parameter: nn.Parameter) -> torch.Tensor:
    """Up to SAMPLE elements of a parameter, evenly spread."""
    values = local(parameter.detach())
    stride = math.ceil(values.numel() / SAMPLE)
    return values if stride <= 1 else values.reshape(-1)[::stride]


def ratios(measured: Sequence[Measured], known: Mapping[int, tuple[str, nn.Parameter]]) -> list[Ratio]:
    """The ratio of each module, and of all together. Modules whose weights are all zero have none."""
    changed: dict[str | None, float] = {}
    weighed: dict[str | None, float] = {}
    for one in measured:
        changes, weights = one.changes.numbers(), one.weights.numbers()
        for key, change in changes.items():
            for module in (known[key][0], None):
                changed[module] = changed.get(module, 0.0) + one.scale[key] * change * change
                weighed[module] = weighed.get(module, 0.0) + one.scale[key] * weights[key] * weights[key]
    return [Ratio(module, math.sqrt(change / weighed[module])) for module, change in changed.items() if weighed[module]]
