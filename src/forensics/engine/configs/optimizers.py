"""Checks of the optimizer that a run's own settings name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.engine.configs.view import ARGUMENTS, Sign, View, number

# torch.optim.Adam by its name or its path, under the keys that programs have for it.
_ADAM = re.compile(r"(?:torch\.optim\.(?:adam\.)?)?adam", re.I)
_NAMED = re.compile(
    r"(?:.*\.)?(?:optimi[sz]er|optim|opt)(?:_?(?:name|type|class)|\.(?:name|type|class_path|_target_))?"
)
_DECAY = re.compile(r"(?:.*\.)?(?:weight_decay|wd)")
# AdamW's recipes begin here; the L2 penalties of those that mean Adam are far smaller.
_LEAST = 0.01
# Settings of programs whose "adam" is AdamW (Megatron-LM, fairseq, Apex, DeepSpeed), and torch's own switch for it.
_DECOUPLED = re.compile(
    r"(?:.*\.)?(?:tensor_model_parallel_size|use_distributed_optimizer|adam_betas|adam_w_mode|adamw"
    r"|decoupled?(?:_weight_decay)?|(?:deepspeed|ds)(?:_config)?(?:\..{0,200})?)"
)
_OFF = ("", "false", "null", "none")


def decay_with_adam(view: View) -> Iterator[Sign]:
    """Adam, and not AdamW, with a weight decay as AdamW's recipes have it, both stated in one file.

    Silent where the file is one of a program whose Adam decouples the decay. DeepSpeed's "Adam" is AdamW, unless
    `adam_w_mode` is off (deepspeed/runtime/engine.py, _configure_basic_optimizer).
    """
    if any(fact.name.startswith("deepspeed.") for fact in view.facts):
        yield from _of_deepspeed(view)
        return
    judged: set[str] = set()
    for fact in view.facts:
        if fact.source in judged or not _ADAM.fullmatch(fact.value.strip()) or not _NAMED.fullmatch(_own(fact.name)):
            continue
        judged.add(fact.source)
        here = [(name, f) for f in view.facts if f.source == fact.source and (name := _own(f.name))]
        if any(_DECOUPLED.fullmatch(name) and f.value.strip().lower() not in _OFF for name, f in here):
            continue
        decays = [f for name, f in here if _DECAY.fullmatch(name)]
        values = {number(f) for f in decays}
        value = values.pop() if len(values) == 1 else None
        if value is not None and value >= _LEAST:
            text = f"{fact.value} with a weight decay of {value:g}, which Adam adds to the gradient and scales with it"
            yield Sign((fact, decays[0]), text)


def _of_deepspeed(view: View) -> Iterator[Sign]:
    for file in view.files("deepspeed.optimizer.params.adam_w_mode"):
        kind, mode, decay = (
            view.within(file, f"deepspeed.optimizer.{name}")
            for name in ("type", "params.adam_w_mode", "params.weight_decay")
        )
        if kind is None or mode is None or decay is None or kind.value.strip().lower() != "adam":
            continue
        value = number(decay)
        if mode.value.strip().lower() in _OFF and value is not None and value >= _LEAST:
            text = f"{kind.value} with adam_w_mode off and a weight decay of {value:g}, which is added to the gradient"
            yield Sign((decay, mode, kind), text)


def _own(name: str) -> str:
    """The name among a program's own arguments; empty where the fact is none of these."""
    return next((name[len(p) + 1 :] for p in ARGUMENTS if name.startswith(p + ".")), "")
