"""What a checkpoint file holds: its states, counters and the names and shapes of its parameters; no weights are read.

Names of states are those of the writers: torch recipes, Lightning (`state_dict`, `optimizer_states`, `lr_schedulers`,
`loops`), DeepSpeed (`module`, `global_steps`), Megatron (`opt_param_scheduler`, `iteration`), transformers and
Accelerate (one file a state). What a state is, is told by its shape first and by its name second.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from forensics.archives.limits import Stop
from forensics.archives.zips import zip_entries
from forensics.model import Fact, Source
from forensics.parsers.checkpoints.commands import refused
from forensics.parsers.checkpoints.integrity import JSON, LEGACY, UNFINISHED
from forensics.parsers.checkpoints.opcodes import MAX_BYTES, Made, Tensor, Walked, walk
from forensics.parsers.checkpoints.opened import opened
from forensics.parsers.checkpoints.states import (
    DATA,
    EMA,
    EPOCH,
    MODEL,
    OPTIMIZER,
    PREFIXES,
    RESTORED,
    RNG,
    SCALER,
    SCHEDULER,
    STATES,
    STEP,
)

ENTRIES = 200_000  # of a zip's list
NODES = 400_000  # objects of one pickle that are gone through
DEPTH = 40
NAMES = 50_000  # parameters whose names are kept
_COUNTERS = {
    STEP: ("global_step", "global_steps", "iteration", "step", "num_updates", "it", "iter", "iter_num"),
    EPOCH: ("epoch", "epochs", "current_epoch"),
}
_BY_NAME = (
    (EMA, re.compile(r"(?:^|_)(?:ema|swa|shadow|averaged)(?:_|$)|average_model", re.I)),
    (SCHEDULER, re.compile(r"sched", re.I)),
    (SCALER, re.compile(r"(?:^|_)(?:grad_?)?scaler|^amp(?:_|$)|MixedPrecision", re.I)),
    (OPTIMIZER, re.compile(r"^optim|_optim|(?:^|_)opt(?:_|$)", re.I)),
    (RNG, re.compile(r"(?:^|_)rng|rng_state|random_state", re.I)),
    (DATA, re.compile(r"data_?loader|(?:^|_)sampler|data_?state|train_?iter", re.I)),
    (MODEL, re.compile(r"^(?:model|module|state_dict|net|network|weights|params|generator|actor|policy)", re.I)),
)
_FILES = (
    (OPTIMIZER, re.compile(r"^optimi[sz]er(?:_\d+)?\.(?:pt|bin|pth)$|_optim_states\.pt$|^distrib_optim\.pt$")),
    (SCHEDULER, re.compile(r"^scheduler(?:_\d+)?\.(?:pt|bin|pth)$")),
    (SCALER, re.compile(r"^scaler\.(?:pt|bin|pth)$")),
    (RNG, re.compile(r"^(?:rng_state|random_states)(?:_\d+)?\.(?:pth|pkl|pt)$")),
    (DATA, re.compile(r"^(?:sampler|dl_state_dict)(?:_\d+)?\.(?:bin|pt)$")),
)
_STEP_IN_NAME = re.compile(
    r"(?:^|[/_.-])(?:checkpoint-|(?:global_?step|iter(?:ation)?|steps?|ba)[_=-]?)0*(\d{1,12})(?=[/._-]|$)", re.I
)
_EPOCH_IN_NAME = re.compile(r"(?:^|[/_.-])epoch[_=-]?0*(\d{1,7})(?=[/._-]|$)", re.I)


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file holds. Empty where it was not read; `problem` says why."""

    container: str = ""  # "torch zip", "torch (before 1.6)", "safetensors", "pickle", "DCP metadata", "json"
    states: tuple[str, ...] = ()  # of STATES, in that order
    step: int | None = None
    epoch: float | None = None
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of the model: name -> shape
    values: Mapping[str, float] = field(default_factory=dict)  # "scaler.scale", "scheduler.last_epoch", "optimizer.lr"
    problem: str | None = None
    refused: str | None = None  # why nothing of it is listed: it would run something as it is loaded
    walked: int = 0  # bytes of names that were gone through; what it costs


def wrappers(names: Mapping[str, Any]) -> dict[str, int]:
    """How many of the parameters bear each wrapper's prefix (a part of the name, wherever FSDP puts it)."""
    counts: dict[str, int] = {}
    for prefix in PREFIXES:
        start = prefix in ("module.", "_forward_module.")
        n = sum(1 for name in names if (_leading(name).startswith(prefix) if start else prefix in name))
        if n:
            counts[prefix] = n
    return counts


def _leading(name: str) -> str:
    """A name without other wrappers' prefixes at its start, so that `_orig_mod.module.x` counts as both."""
    while True:
        for prefix in PREFIXES[1:]:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                break
        else:
            return name


def bare(name: str) -> str:
    """A parameter's name without what wrappers put into it."""
    name = _leading(name)
    for prefix in PREFIXES:
        if name.startswith(prefix):
            name = name[len(prefix) :]
    for prefix in PREFIXES[1:4]:
        name = name.replace(prefix, "")
    return name


def read(file: Path, path: str, limit: int = MAX_BYTES, gap: tuple[int, int] | None = None) -> Contents:
    """What the checkpoint file holds. limit: bytes of a pickle or a header; gap: not fetched. Raises OSError."""
    with opened(file, gap) as raw:
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        return read_stream(raw, size, path, limit)


def read_stream(raw: BinaryIO, size: int, path: str, limit: int = MAX_BYTES) -> Contents:
    """As `read`, of a seekable stream of `size` bytes. Never raises for what it holds."""
    name = UNFINISHED.sub("", path.rpartition("/")[2])
    raw.seek(0)
    head = raw.read(16)
    try:
        if name.lower().endswith(".safetensors") and not head.startswith(b"PK"):
            return _safetensors(raw, size, limit, path)
        found = _pickle_of(raw, size, name)
        if found is None:
            return Contents()
        start, length, container = found
        if length > limit:
            return Contents(container, problem=f"its contents were not listed: {length:,} bytes of names are too many")
        raw.seek(start)
        walked = walked_root(raw.read(length), container)
        if (reason := refused(walked.names)) is not None:
            return Contents(container, problem=reason, refused=reason, walked=length)
        return replace(_described(walked.value, container, path), walked=length)
    except (Stop, ValueError) as error:
        return Contents(problem=f"its contents cannot be listed: {str(error)[:120]}")


def root_of(data: bytes, container: str) -> Any:
    """The skeleton of the object that a torch file, or a plain pickle, was saved from. Raises ValueError."""
    return walked_root(data, container).value


def walked_root(data: bytes, container: str) -> Walked:
    """As `root_of`, with what else its pickle tells."""
    if container != "torch (before 1.6)":
        return walk(data)
    end = 0
    for _ in range(3):
        end = walk(data, end).end
    return walk(data, end)


def _pickle_of(raw: BinaryIO, size: int, name: str) -> tuple[int, int, str] | None:
    """(start, bytes, container) of the pickle that names what a file holds."""
    raw.seek(0)
    head = raw.read(16)
    if head.startswith(b"PK\x03\x04"):
        if name.endswith(".distcp"):
            return None
        for n, entry in enumerate(zip_entries(raw, size)):
            if n >= ENTRIES:
                return None
            if entry.name.endswith("/data.pkl") and entry.method == 0:
                start = entry.data_at(raw, size)
                return None if start is None else (start, entry.size, "torch zip")
        return None
    if head.startswith(LEGACY):
        return 0, min(size, MAX_BYTES), "torch (before 1.6)"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return 0, size, "DCP metadata" if name == ".metadata" else "pickle"
    return None


def safetensors_header(raw: BinaryIO, size: int, limit: int) -> tuple[dict[str, Any], int] | None:
    """(header, where the data begin) of a safetensors file; None where it is none or larger than `limit` bytes."""
    raw.seek(0)
    length = int.from_bytes(raw.read(8), "little")
    if length > min(limit, size - 8):
        return None
    try:
        header = json.loads(raw.read(length))
    except (ValueError, RecursionError):
        return None
    return (header, 8 + length) if isinstance(header, dict) else None


def _safetensors(raw: BinaryIO, size: int, limit: int, path: str) -> Contents:
    found = safetensors_header(raw, size, min(limit, JSON))
    if found is None:
        return Contents("safetensors", problem="its contents were not listed: its header is damaged or too long")
    shapes: dict[str, tuple[int, ...]] = {}
    for key, entry in found[0].items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if key != "__metadata__" and len(shapes) < NAMES:
            shapes[key] = _shape(shape)
    kind = OPTIMIZER if "optim" in path.rpartition("/")[2].lower() else MODEL
    named = shapes if kind == MODEL else {}
    return Contents("safetensors", (kind,) if shapes else (), parameters=named, walked=found[1])


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, list) and len(value) <= 64 and all(type(n) is int for n in value):
        return tuple(value)
    return ()


def _described(top: Any, container: str, path: str) -> Contents:
    if container == "DCP metadata":
        return _dcp(top)
    states: set[str] = set()
    values: dict[str, float] = {}
    parameters: dict[str, tuple[int, ...]] = {}
    counters: dict[str, float] = {}
    name = path.rpartition("/")[2]
    by_file = next((state for state, pattern in _FILES if pattern.search(name)), None)
    if isinstance(top, Made) and isinstance(top.state, dict) and not top.items:
        return Contents(container)  # an object of a class: arguments, a whole pickled module
    kind = _kind(top) or by_file
    if kind is not None:
        if _filled(top):
            states.add(kind)
        _take(kind, top, values, parameters)
    elif isinstance(top, dict):
        for key, value in top.items():
            if type(key) is not str:
                continue
            counter = next((c for c, names in _COUNTERS.items() if key in names), None)
            if counter is not None and _number(value) is not None:
                states.add(counter)
                counters.setdefault(counter, _number(value) or 0.0)
                continue
            state = state_of(key, value)
            if state is not None and _filled(value):
                states.add(state)
                _take(state, value, values, parameters)
    if isinstance(top, dict) and "module" in top and type(world := top.get("dp_world_size")) is int:
        values["dp_world_size"] = float(min(max(world, 0), 1 << 20))  # DeepSpeed's *_model_states.pt
    step, epoch = counters.get(STEP), counters.get(EPOCH)
    return Contents(
        container,
        tuple(s for s in STATES if s in states),
        int(step) if step is not None else None,
        epoch,
        parameters,
        values,
    )


def _kind(value: Any) -> str | None:
    """Which state an object is, by its own shape."""
    if isinstance(value, Made):
        value = value.state if isinstance(value.state, dict) else value.items
    if not isinstance(value, dict) or not value:
        return None
    keys = {k for k in list(value)[:1000] if type(k) is str}
    if {"state", "param_groups"} <= keys or {"optimizer_state_dict", "ds_config"} <= keys:
        return OPTIMIZER
    if {"last_epoch", "_step_count"} <= keys or {"max_lr", "num_steps", "lr_decay_steps"} <= keys:
        return SCHEDULER
    if {"scale", "growth_factor"} <= keys or {"cur_scale", "cur_iter"} <= keys:
        return SCALER
    if {"python", "numpy"} <= keys and keys & {"cpu", "torch"}:
        return RNG
    if {"random_state", "torch_manual_seed"} <= keys:
        return RNG
    tensors = sum(isinstance(v, Tensor) for v in list(value.values())[:1000])
    dotted = sum("." in k for k in keys)
    if tensors and tensors >= 0.9 * min(len(value), 1000) and (dotted or tensors > 1):
        return MODEL
    return None


def state_of(key: str, value: Any) -> str | None:
    """Which of STATES an entry of a checkpoint is, by its shape and its key."""
    named = next((state for state, pattern in _BY_NAME if pattern.search(key)), None)
    shaped = _kind(value[0] if isinstance(value, list) and value else value)
    if shaped == MODEL and named in (EMA, OPTIMIZER, RNG):
        return named
    if shaped is not None:
        return shaped
    if named in (MODEL, EMA, OPTIMIZER):  # settings of them have such names too
        return named if next(tensors_of(value), None) is not None else None
    return named if isinstance(value, dict | list | tuple | Made | Tensor) else None


def _filled(value: Any) -> bool:
    """Whether a state is more than its empty shell: a list of no optimizers restores none."""
    if isinstance(value, Made | Tensor):
        return True
    if isinstance(value, dict | list | tuple):
        return len(value) > 0
    return value is not None


def _number(value: Any) -> float | None:
    if type(value) is int and abs(value) < 1 << 60:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else None


def _take(kind: str, value: Any, values: dict[str, float], parameters: dict[str, tuple[int, ...]]) -> None:
    """Add what one state tells: names and shapes of the model, numbers of the others."""
    if kind == MODEL:
        for path, tensor in tensors_of(value):
            if len(parameters) >= NAMES:
                break
            parameters.setdefault(path, tensor.shape)
        return
    first = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(first, Made):
        first = first.state
    if not isinstance(first, dict):
        return
    wanted = {
        SCALER: {"scale": "scale", "cur_scale": "scale", "_growth_tracker": "growth_tracker", "loss_scale": "scale"},
        SCHEDULER: {"last_epoch": "last_epoch", "num_steps": "last_epoch", "_step_count": "step_count"},
    }.get(kind, {})
    for key, called in wanted.items():
        if (number := _number(first.get(key))) is not None:
            values.setdefault(f"{kind}.{called}", number)
    if kind == OPTIMIZER:
        inner = first.get("optimizer_state_dict")  # DeepSpeed's wrapper around the optimizer it was given
        for holder in (first, inner):
            scaler = holder.get("loss_scaler") if isinstance(holder, dict) else None
            told = scaler.state if isinstance(scaler, Made) else holder
            if isinstance(told, dict) and (scale := _number(told.get("cur_scale"))) is not None:
                values.setdefault("scaler.scale", scale)
        groups = first.get("param_groups")
        group = groups[0] if isinstance(groups, list) and groups else None
        if isinstance(group, dict) and (lr := _number(group.get("lr"))) is not None:
            values.setdefault("optimizer.lr", lr)
        state = first.get("state")
        if isinstance(state, dict):
            values.setdefault("optimizer.parameters", float(len(state)))


def tensors_of(value: Any) -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of every tensor below an object, in the order in which they were saved.

    Shared objects are given once; at most NODES objects and DEPTH levels are gone through.
    """
    seen: set[int] = set()
    left = NODES
    stack: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
            continue
        left -= 1
        if left < 0:
            return
        path, here = item
        if isinstance(here, Tensor):
            yield path, here
            continue
        if not isinstance(here, dict | list | tuple | Made) or len(stack) >= DEPTH:
            continue
        if id(here) in seen:
            continue
        seen.add(id(here))
        stack.append(_children(here, path))


def _children(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    start = f"{path}." if path else ""
    if len(path) > 1000:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{start}{str(key)[:300] if isinstance(key, str | int) else '?'}", item
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield f"{start}{n}", item
    elif isinstance(value, Made):
        for part in (value.args, value.state, value.items, value.extra):
            if part:
                yield path, part


def _dcp(top: Any) -> Contents:
    """PyTorch's .metadata: names (with dots) and sizes of all that the shards hold."""
    state = top.state if isinstance(top, Made) else None
    entries = state.get("state_dict_metadata") if isinstance(state, dict) else None
    if not isinstance(entries, dict):
        return Contents("DCP metadata")
    states: set[str] = set()
    parameters: dict[str, tuple[int, ...]] = {}
    roots = {k.partition(".")[0] for k in entries if type(k) is str}
    plain = not any(_named(root) for root in roots)
    for key, entry in entries.items():
        if type(key) is not str:
            continue
        root, _, rest = key.partition(".")
        kind = MODEL if plain else _named(root)
        counter = next((c for c, names in _COUNTERS.items() if key.rpartition(".")[2] in names and not rest), None)
        if counter is not None or kind is not None:
            states.add(counter or kind or MODEL)
        size = entry.state.get("size") if isinstance(entry, Made) and isinstance(entry.state, dict) else None
        if kind == MODEL and counter is None and len(parameters) < NAMES:
            parameters[key if plain else rest] = size if isinstance(size, tuple) else ()
    return Contents("DCP metadata", tuple(s for s in STATES if s in states), parameters=parameters)


def _named(root: str) -> str | None:
    return next((state for state, pattern in _BY_NAME if pattern.search(root)), None)


def step_in(path: str) -> int | None:
    """The step that a path names, its last folders first: checkpoint-400, global_step400, iter_0000400, step=400."""
    found = _STEP_IN_NAME.findall(path)
    return int(found[-1]) if found else None


def epoch_in(path: str) -> int | None:
    """The epoch that a path names: epoch=3, epoch_3."""
    found = _EPOCH_IN_NAME.findall(path)
    return int(found[-1]) if found else None


def facts(source: Source, contents: Contents) -> list[Fact]:
    """What a checkpoint file states, under the names `checkpoint.*`."""
    step = contents.step if contents.step is not None else step_in(source.path)
    epoch = contents.epoch if contents.epoch is not None else epoch_in(source.path)
    told: dict[str, str] = {}
    if contents.container:
        told["checkpoint.format"] = contents.container
    if contents.states:
        told["checkpoint.holds"] = ", ".join(contents.states)
        if {MODEL, OPTIMIZER} <= set(contents.states):
            told["checkpoint.lacks"] = ", ".join(s for s in RESTORED if s not in contents.states)
    if step is not None:
        told["checkpoint.step"] = str(step)
    if epoch is not None:
        told["checkpoint.epoch"] = f"{epoch:g}"
    if contents.parameters:
        told["checkpoint.parameters"] = str(len(contents.parameters))
        told["checkpoint.names"] = _digest(contents.parameters)
        for prefix, n in wrappers(contents.parameters).items():
            told[f"checkpoint.prefix.{prefix}"] = str(n)
    if contents.problem:
        told["checkpoint.not_listed"] = contents.problem
    told |= {f"checkpoint.{name}": f"{value:g}" for name, value in contents.values.items()}
    return [Fact(name, value, source.path) for name, value in told.items()]


def _digest(names: Mapping[str, Any]) -> str:
    """The same for files that hold the same parameters, whatever wrappers put before their names."""
    joined = "\0".join(sorted(bare(name) for name in names))
    return hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:16]
