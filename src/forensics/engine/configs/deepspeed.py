"""Checks of DeepSpeed's configuration, by itself and against the arguments of the program that uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forensics.engine.configs.view import CONTEXT, ROOT, SUPPORT, Sign, View, is_true, present, whole
from forensics.model import Fact

_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
# One file a data-parallel rank: optimizer states at every stage, model states at stage 3 alone
# (deepspeed/runtime/engine.py, _get_zero_ckpt_name and _get_rank_zero_ckpt_name).
_SHARD = re.compile(
    r"(?P<folder>^|.*/)(?:bf16_|fp16_)?zero_pp_rank_(?P<rank>\d{1,6})_mp_rank_\d+_(?P<what>optim|model)_states\.pt$"
)


def deepspeed_precisions(view: View) -> Iterator[Sign]:
    """fp16 and bf16 are both enabled in one DeepSpeed configuration, which its engine refuses."""
    for file in view.files("deepspeed.fp16.enabled"):
        fp16 = view.within(file, "deepspeed.fp16.enabled")
        bf16 = view.within(file, "deepspeed.bf16.enabled") or view.within(file, "deepspeed.bfloat16.enabled")
        if is_true(fp16) and is_true(bf16):
            yield Sign(present(fp16, bf16), "fp16 and bf16 are both enabled", ROOT)


def deepspeed_precision_apart(view: View) -> Iterator[Sign]:
    """DeepSpeed's configuration enables one half precision, and the program's arguments or Accelerate's file the other.

    transformers and Accelerate refuse that at the start; what trained did not use both files, or neither of these.
    """
    engine = {
        "fp16": view.value("deepspeed.fp16.enabled"),
        "bf16": view.value("deepspeed.bf16.enabled", "deepspeed.bfloat16.enabled"),
    }
    chosen = [name for name, fact in engine.items() if is_true(fact)]
    if len(chosen) != 1:
        return
    (one,) = chosen
    other = "bf16" if one == "fp16" else "fp16"
    mixed = view.value("accelerate.mixed_precision")
    program = view.argument(other)
    if not is_true(program):
        program = mixed if mixed is not None and mixed.value.strip().lower() == other else None
    if program is not None:
        yield Sign(present(engine[one], program), f"DeepSpeed is to run in {one}, and {program.name} asks for {other}")


def deepspeed_batch(view: View) -> Iterator[Sign]:
    """The three batch sizes of one configuration that no number of ranks makes agree.

    DeepSpeed asks for train_batch_size = micro batch x accumulation x data-parallel size (runtime/config.py,
    _batch_assertion). Tensor and pipeline parallelism make the last smaller than the world size, and never larger.
    """
    for file in view.files("deepspeed.train_batch_size"):
        facts = [view.within(file, f"deepspeed.{name}") for name in _BATCH]
        total, micro, steps = (whole(fact) for fact in facts)
        if not total or not micro or not steps:
            continue
        ranks, rest = divmod(total, micro * steps)
        if rest:
            text = f"train_batch_size {total} is no multiple of {micro} (micro batch) x {steps} (accumulation)"
            yield Sign(present(*facts), text, ROOT)
        elif view.world_size is not None and ranks > view.world_size:
            text = f"{total} = {micro} x {steps} x {ranks} asks for {ranks} ranks, and the run has {view.world_size}"
            yield Sign(present(*facts), text, CONTEXT)


def deepspeed_auto(view: View) -> Iterator[Sign]:
    """Batch sizes are left at "auto", which a Trainer or Accelerate fills in, and nothing else does."""
    for file in dict.fromkeys(f.source for f in view.facts if f.name.startswith("deepspeed.")):
        left = [f for name in _BATCH if (f := view.within(file, f"deepspeed.{name}")) and f.value == "auto"]
        if left:
            names = ", ".join(f.name.partition(".")[2] for f in left)
            yield Sign(tuple(left), f'"auto" is left in {names}', SUPPORT)


def accumulation_set_twice(view: View) -> Iterator[Sign]:
    """DeepSpeed's configuration and the program's arguments give two numbers of accumulation steps."""
    engine, program = view.value("deepspeed.gradient_accumulation_steps"), view.argument("gradient_accumulation_steps")
    a, b = whole(engine), whole(program)
    if engine is not None and program is not None and a and b and a != b:
        of_trainer = program.name.startswith(("training_args.", "args."))
        text = f"DeepSpeed accumulates {a} micro batches, the program's arguments say {b}"
        yield Sign((engine, program), text, ROOT if of_trainer else CONTEXT)


def checkpoint_layout(view: View) -> Iterator[Sign]:
    """A ZeRO checkpoint was written by another number of ranks, or at another stage, than this run has."""
    folders: dict[str, tuple[set[int], set[str], str]] = {}
    for path in view.sources:
        if m := _SHARD.match(path):
            ranks, kinds, _ = folders.setdefault(m["folder"], (set(), set(), path))
            ranks.add(int(m["rank"]))
            kinds.add(m["what"])
    stage_of_run = view.value("deepspeed.zero_optimization.stage")
    stage = whole(stage_of_run)
    for folder, (ranks, kinds, path) in folders.items():
        at, name = Fact("checkpoint.shards", str(len(ranks)), path), folder.rstrip("/") or "the checkpoint"
        gapless = ranks == set(range(len(ranks)))
        if view.world_size is not None and gapless and len(ranks) > view.world_size:
            text = f"{name} holds the states of {len(ranks)} ranks, and the run has {view.world_size}"
            yield Sign((at,), text, CONTEXT)
        if stage is not None and (stage == 3) != ("model" in kinds):
            saved = "3" if "model" in kinds else "1 or 2"
            text = f"{name} was saved at ZeRO stage {saved}, and the configuration says stage {stage}"
            yield Sign(present(stage_of_run, at), text, CONTEXT)
