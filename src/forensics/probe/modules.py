"""Modules and parameters under the names that people gave them, whatever they are wrapped in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

# Parts of a name that wrappers put in: DistributedDataParallel, torch.compile, FSDP 1, checkpoint_wrapper.
_WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
ROOT = "model"  # the name of the outermost module


def clean(name: str) -> str:
    """A dotted name without what wrappers add; ROOT for nothing. A user's own module named `module` is lost too."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS) or ROOT


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs as a compiled graph: hooks on what is inside would break it, or be ignored."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def watchable(root: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """(name, module) of the modules without children, in the order of definition; a compiled one counts as a whole."""
    children = list(root.named_children())
    if is_compiled(root) or not children:
        yield clean(prefix), root
        return
    for name, child in children:
        yield from watchable(child, f"{prefix}.{name}" if prefix else name)


def containers(root: nn.Module) -> list[tuple[str, nn.Module]]:
    """(name, module) of the modules with children, which can compute something behind them: a residual, a mixture.

    Inner ones come first, in the order of definition. Of a module and its wrappers, which have one name, the module.
    """
    found: dict[str, nn.Module] = {}
    _containers(root, "", found)
    return list(found.items())


def _containers(module: nn.Module, prefix: str, found: dict[str, nn.Module]) -> None:
    children = list(module.named_children())
    if is_compiled(module) or not children:
        return
    for name, child in children:
        _containers(child, f"{prefix}.{name}" if prefix else name, found)
    if not isinstance(module, (nn.ModuleList, nn.ModuleDict)):  # they are never called
        found.setdefault(clean(prefix), module)


def parameters(root: nn.Module) -> dict[int, tuple[str, nn.Parameter]]:
    """id -> (name of the module that holds it, parameter) of the trainable parameters."""
    found = {}
    for name, parameter in root.named_parameters():
        if parameter.requires_grad:
            found[id(parameter)] = (clean(name.rpartition(".")[0]), parameter)
    return found


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a sharded tensor (DTensor), without communication; any other tensor as it is."""
    to_local = getattr(tensor, "to_local", None)
    return to_local() if to_local is not None else tensor


def is_sharded(parameter: nn.Parameter) -> bool:
    return hasattr(parameter, "to_local") or type(parameter).__name__ == "FlatParameter"


def first_float(value: Any, depth: int = 3, least: int = 0) -> torch.Tensor | None:
    """The first floating tensor in an output: a tensor, or a tuple, list, dict or dataclass that holds one.

    least: the dimensions that it has at the least.
    """
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() and value.dim() >= least else None
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float)):
        return None
    inner: Iterable[Any]
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, (tuple, list)):
        inner = value
    else:
        inner = getattr(value, "__dict__", {}).values()
    return next((t for item in inner if (t := first_float(item, depth - 1, least)) is not None), None)
