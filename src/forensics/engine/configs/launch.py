"""Checks of launching, wrapping and packages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from forensics.engine.configs.view import (
    CONTEXT,
    ROOT,
    SUPPORT,
    Sign,
    View,
    is_false,
    is_set,
    is_true,
    present,
    version,
    whole,
)
from forensics.model import Fact

# What must be alike on all hosts: what the processes of one job talk through, or compute with.
_ALIKE = ("torch", "nccl", "rccl", "deepspeed", "transformers", "accelerate", "megatron-core", "nvidia-nccl-cu12")


def find_unused_off(view: View) -> Iterator[Sign]:
    """DDP was told not to look for unused parameters."""
    setting = view.argument("ddp_find_unused_parameters", "find_unused_parameters")
    if setting is not None and is_false(setting):
        yield Sign((setting,), "DDP was told not to look for parameters that take no part", SUPPORT)


def find_unused_with_checkpointing(view: View) -> Iterator[Sign]:
    """DDP looks for unused parameters while activations are checkpointed by re-entering autograd."""
    unused = view.argument("ddp_find_unused_parameters", "find_unused_parameters")
    recompute = view.argument("gradient_checkpointing")
    reentrant = view.argument("use_reentrant")
    if is_true(unused) and is_true(recompute) and not is_false(reentrant):
        facts = present(unused, recompute, reentrant)
        yield Sign(facts, "find_unused_parameters together with re-entrant activation checkpointing", SUPPORT)


def single_process(view: View) -> Iterator[Sign]:
    """Accelerate starts one process on a machine with several devices."""
    kind, processes = view.value("accelerate.distributed_type"), view.value("accelerate.num_processes")
    devices = view.value("gpu.count", "wandb.gpu_count")
    one = (kind is not None and kind.value == "NO") or whole(processes) == 1
    if one and devices is not None and (whole(devices) or 0) > 1:
        text = f"Accelerate is set to one process, and the machine has {devices.value} devices"
        yield Sign(present(kind, processes, devices), text, CONTEXT)


def fsdp_without_wrapping(view: View) -> Iterator[Sign]:
    """FSDP without a policy that wraps layers: the whole model is one unit, gathered at once."""
    kind = view.value("accelerate.distributed_type")
    policy = view.value("accelerate.fsdp_config.fsdp_auto_wrap_policy")
    if kind is not None and kind.value == "FSDP" and (not is_set(policy) or (policy and policy.value == "NO_WRAP")):
        yield Sign(present(kind, policy), "FSDP wraps the whole model as one unit", CONTEXT)
    argument = view.value("training_args.fsdp")
    layers = view.value("training_args.fsdp_config.transformer_layer_cls_to_wrap")
    least = view.value("training_args.fsdp_config.min_num_params")
    shards = argument is not None and "shard" in argument.value and "auto_wrap" not in argument.value
    if shards and not is_set(layers) and not whole(least):
        yield Sign(present(argument), "FSDP wraps the whole model as one unit", CONTEXT)


def fsdp_full_state(view: View) -> Iterator[Sign]:
    """FSDP gathers the whole model on rank 0 for every checkpoint."""
    kind = view.value("accelerate.fsdp_config.fsdp_state_dict_type") or view.argument("fsdp_state_dict_type")
    if kind is not None and kind.value.upper() == "FULL_STATE_DICT":
        yield Sign((kind,), "checkpoints are gathered in full on rank 0", SUPPORT)


def versions_differ(view: View) -> Iterator[Sign]:
    """Hosts (or ranks) of one run have different versions of a package that they talk through."""
    for package in _ALIKE:
        of_host: dict[str, dict[str, Fact]] = defaultdict(dict)
        for fact in view.all(f"{package}.version"):
            source = view.sources.get(fact.source)
            if source is None or source.identity.attempt not in (None, 0):
                continue  # packages may change between attempts
            mine = source.identity
            host = mine.node or (f"rank {mine.rank}" if mine.rank is not None else None)
            if host is not None:
                of_host[host].setdefault(_release(fact.value), fact)
        known = {host: next(iter(found.items())) for host, found in of_host.items() if len(found) == 1}
        if len({release for release, _ in known.values()}) > 1:
            first = {release: (host, fact) for host, (release, fact) in reversed(known.items())}
            parts = [f"{release} on {host}" for release, (host, _) in sorted(first.items())]
            facts = tuple(fact for _, fact in first.values())
            yield Sign(facts, f"{package} is {', '.join(parts[:4])}", ROOT)


def _release(value: str) -> str:
    """A version without what names its build: 2.3.0 of 2.3.0+cu121."""
    return re.split(r"[+ ]", value)[0]


def accumulation_unnormalised(view: View) -> Iterator[Sign]:
    """Trainer versions that averaged accumulated micro batches of different lengths alike (before 4.46)."""
    package, steps = view.value("transformers.version"), view.argument("gradient_accumulation_steps")
    of_trainer = steps is not None and steps.name.startswith(("training_args.", "args."))
    if of_trainer and (whole(steps) or 0) > 1 and (version(package) or (99,)) < (4, 46):
        text = "this version of the Trainer averages micro batches of unequal token counts alike"
        yield Sign(present(package, steps), text, CONTEXT)
