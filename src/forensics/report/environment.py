"""Which facts a reader of a report wants to see: versions, devices, sizes, precision, parallelism."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.model import Fact
from forensics.patterns import lazy

MOST = 40

_NOTABLE = lazy(
    r"(?:torch|nccl|rccl|nvidia-nccl-cu\d+|deepspeed|transformers|accelerate|peft|trl|lightning|pytorch-lightning"
    r"|megatron-core|flash-attn|vllm|ray|numpy|python|driver|cudnn|cuda)\.version"
    r"|torch\.(?:cuda|rocm)|driver\.cuda|gpu\.(?:count|name)|wandb\.(?:gpu|gpu_count|python)|platform"
    r"|trainer\.(?:global_step|max_steps|planned_steps|total_batch_size|accumulation)"
    r"|checkpoint\.(?:latest|latest_checkpointed_iteration)"
    r"|accelerate\.(?:distributed_type|num_processes|num_machines|mixed_precision)"
    r"|deepspeed\.(?:zero_optimization\.stage|zero_optimization\.offload_\w+\.device|(?:fp16|bf16)\.enabled|train_batch_size"
    r"|train_micro_batch_size_per_gpu|gradient_accumulation_steps)"
    r"|megatron\.(?:world_size|data_parallel_size|(?:tensor|pipeline)_model_parallel_size|context_parallel_size|bf16|fp16)"
    r"|model\.(?:model_type|dtype|torch_dtype)|adapter\.peft_type|env\.(?:WORLD_SIZE|NCCL_DEBUG|CUDA_VISIBLE_DEVICES)"
    r"|(?:training_args|args|wandb\.config|hparams|hydra\.config|config)\.(?:fp16|bf16|precision|mixed_precision"
    r"|gradient_accumulation_steps|per_device_train_batch_size|max_steps|learning_rate|gradient_checkpointing|fsdp"
    r"|deepspeed)"
)


def notable(facts: Sequence[Fact]) -> list[Fact]:
    """The facts worth a line, in their order; those that are null, and all beyond MOST, are left out."""
    return [f for f in facts if _NOTABLE.fullmatch(f.name) and f.value not in ("", "null")][:MOST]
