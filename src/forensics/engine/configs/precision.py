"""Checks of precision: what is switched on twice, or does not go with the device or the optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.engine.configs.view import (
    CONTEXT,
    ROOT,
    SUPPORT,
    Sign,
    View,
    is_set,
    is_true,
    number,
    present,
    version,
)
from forensics.model import Fact

# Before Ampere (compute capability 8.0) there is no bfloat16 in hardware.
_WITHOUT_BF16 = re.compile(
    r"\b(?:V100\w*|T4\w?|P100|P40|P4|K80|M60|GTX|TITAN (?:V|Xp?|RTX)|RTX 20\d\d|Quadro (?:RTX|GV|GP|P)\w*)\b", re.I
)

# Ampere and later have it.
_WITH_BF16 = re.compile(
    r"\b(?:A(?:100|800|10G?|16|2|30|40)|RTX (?:A\d{4}|PRO \d{4}|[3-9]0[5-9]0|[2-6]000 Ada)\w*|L(?:4|20|40S?)"
    r"|H(?:100|200|800|20)|GH200|B(?:100|200|300)|GB[23]00)\b",
    re.I,
)


def _bf16(view: View) -> Fact | None:
    """What switches bf16 on, if something does."""
    for fact in (view.argument("bf16"), view.value("deepspeed.bf16.enabled"), view.value("megatron.bf16")):
        if is_true(fact):
            return fact
    for fact in (view.value("accelerate.mixed_precision"), view.argument("mixed_precision", "precision")):
        if fact is not None and fact.value.lower().startswith("bf16"):
            return fact
    return None


def _fp16(view: View) -> Fact | None:
    """What switches fp16 on, if something does."""
    for fact in (view.argument("fp16"), view.value("deepspeed.fp16.enabled"), view.value("megatron.fp16")):
        if is_true(fact):
            return fact
    for fact in (view.value("accelerate.mixed_precision"), view.argument("mixed_precision", "precision")):
        if fact is not None and fact.value.lower() in ("fp16", "16", "16-mixed", "16-true"):
            return fact
    return None


def both_precisions(view: View) -> Iterator[Sign]:
    """A program's arguments ask for fp16 and bf16 at once; transformers refuses that (training_args.py)."""
    for prefix in ("training_args", "args", "wandb.config", "hparams", "hydra.config", "config", "megatron"):
        for file in view.files(f"{prefix}.fp16"):
            fp16, bf16 = view.within(file, f"{prefix}.fp16"), view.within(file, f"{prefix}.bf16")
            if is_true(fp16) and is_true(bf16):
                yield Sign(present(fp16, bf16), "fp16 and bf16 are both on", ROOT)


def scaling_under_bf16(view: View) -> Iterator[Sign]:
    """A loss scale is kept although the run is in bf16, whose range needs none."""
    bf16 = _bf16(view)
    if bf16 is not None and _fp16(view) is None and view.metric_maxima.get("loss_scale", 0) > 1:
        yield Sign((bf16,), "the run is in bf16 and its metrics hold a loss scale", CONTEXT)


def bf16_on_old_gpu(view: View) -> Iterator[Sign]:
    """bf16 is on, and the device has no bfloat16 in hardware."""
    bf16, gpu = _bf16(view), view.value("gpu.name", "wandb.gpu")
    if bf16 is not None and gpu is not None and (m := _WITHOUT_BF16.search(gpu.value)):
        yield Sign((bf16, gpu), f"bf16 is on, and {m[0]} has no bfloat16 in hardware", CONTEXT)


def fp16_where_bf16(view: View) -> Iterator[Sign]:
    """fp16 is on, and the device has bfloat16, which has the range of float32: worth knowing where numerics failed."""
    fp16, gpu = _fp16(view), view.value("gpu.name", "wandb.gpu")
    if fp16 is not None and _bf16(view) is None and gpu is not None and (m := _WITH_BF16.search(gpu.value)):
        text = f"fp16 is on, which overflows at 65504, and {m[0]} has bfloat16 with the range of float32"
        yield Sign((fp16, gpu), text, SUPPORT)


def fused_under_scaling(view: View) -> Iterator[Sign]:
    """A fused optimizer with clipping under fp16: it unscales gradients itself, so that a Trainer cannot clip them.

    Optimizers say so by `_step_supports_amp_scaling`, which fused Adam and AdamW have since torch 2.0.
    """
    optimizer = view.argument("optim", "optimizer", "opt")
    fused = optimizer if optimizer is not None and "fused" in optimizer.value.lower() else view.argument("fused")
    clip = view.argument("max_grad_norm", "gradient_clip_val", "gradient_clipping", "clip_grad")
    fp16, torch = _fp16(view), view.value("torch.version")
    on = fused is not None and (fused is optimizer or is_true(fused))
    if on and fp16 is not None and (number(clip) or 0) > 0 and (version(torch) or (2,)) >= (2,):
        text = "a fused optimizer with fp16 scaling and clipping: gradients must be unscaled before they are clipped"
        yield Sign(present(fused, fp16, clip, torch), text, SUPPORT)


# Types in which sums over many ranks lose small parts, as configurations call them.
_HALF = re.compile(r"(?:torch\.)?(?:bfloat16|bf16|float16|fp16|half)", re.I)
_POLICY = re.compile(r"(?:^|[._])(?:mixed_precision|mp)(?:_policy|_config)?(?:\.init_args)?\.param_dtype$")
_WITH_DEFAULT = re.compile(r"(?:^|\.)(?:actor|critic|ref|reward_model|rollout)\.")  # verl reduces in float32 by itself


def reduce_type_open(view: View) -> Iterator[Sign]:
    """FSDP's mixed precision names a type for parameters and none for reductions, which then have that of parameters.

    torch/distributed/fsdp: MixedPrecision and MixedPrecisionPolicy take param_dtype where reduce_dtype is None.
    """
    for fact in view.facts:
        if not fact.name.endswith(".param_dtype") or not _POLICY.search(fact.name) or _WITH_DEFAULT.search(fact.name):
            continue
        reduced = view.within(fact.source, f"{fact.name.removesuffix('param_dtype')}reduce_dtype")
        if _HALF.fullmatch(fact.value.strip()) and not is_set(reduced):
            text = f"param_dtype is {fact.value} and reduce_dtype is not set: gradients are reduced in it as well"
            yield Sign(present(fact, reduced), text)
