"""Which parameter an optimizer's state belongs to: optimizers number parameters in the order of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forensics.parsers.checkpoints.contents import state_of, tensors_of
from forensics.parsers.checkpoints.opcodes import Tensor
from forensics.parsers.checkpoints.states import MODEL, OPTIMIZER

_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")  # of torch's norms; no parameters
_MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "max_exp_avg_sq", "sum", "square_avg")


def parameter_names(top: Any) -> dict[str, str]:
    """Start of a state's path ("optimizer.state.4.") -> the parameter's name, where one file holds both.

    Empty where the numbers prove nothing: the counts differ, or a moment has not the shape of its parameter.
    """
    if not isinstance(top, dict):
        return {}
    kinds = {key: state_of(key, value) for key, value in top.items() if type(key) is str}
    models = [key for key, kind in kinds.items() if kind == MODEL]
    optimizers = [key for key, kind in kinds.items() if kind == OPTIMIZER]
    if len(models) != 1 or len(optimizers) != 1:
        return {}
    path, state = optimizers[0], top[optimizers[0]]
    if isinstance(state, list) and len(state) == 1:
        path, state = f"{path}.0", state[0]
    if not isinstance(state, dict) or not isinstance(state.get("state"), dict):
        return {}
    groups = state.get("param_groups")
    order = [n for g in _list(groups) if isinstance(g, dict) for n in _list(g.get("params"))]
    stated = [n for g in _list(groups) if isinstance(g, dict) for n in _list(g.get("param_names"))]
    listed = [(n, t.shape) for n, t in tensors_of(top[models[0]]) if not n.endswith(_BUFFERS)]
    names = [str(n)[:300] for n in stated] if len(stated) == len(order) else [n for n, _ in listed]
    if len(names) != len(order) or (not stated and not _fit(state["state"], order, dict(listed), names)):
        return {}
    return {f"{path}.state.{number}.": name for number, name in zip(order, names, strict=True) if type(number) is int}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _fit(state: Mapping[Any, Any], order: list[Any], shapes: Mapping[str, tuple[int, ...]], names: list[str]) -> bool:
    """Whether each moment has the shape of the parameter that its number stands for."""
    for number, name in zip(order, names, strict=True):
        entry = state.get(number) if type(number) is int else None
        for moment in _MOMENTS if isinstance(entry, dict) else ():
            tensor = entry.get(moment) if isinstance(entry, dict) else None
            if isinstance(tensor, Tensor) and tensor.shape != shapes.get(name):
                return False
    return True
