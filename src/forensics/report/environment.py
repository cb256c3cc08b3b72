"""Which facts a reader of a report wants to see: versions, devices, sizes, precision, parallelism."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from forensics.model import Fact
from forensics.patterns import lazy

MOST = 40

_NOTABLE = lazy(
    r"(?:torch|nccl|rccl|nvidia-nccl-cu\d+|deepspeed|transformers|accelerate|peft|trl|lightning|pytorch-lightning"
    r"|megatron-core|flash-attn|vllm|ray|numpy|python|driver|cudnn|cuda)\.version"
    r"|torch\.(?:cuda|rocm)|driver\.cuda|cuda\.driver|gpu\.(?:count|name)|wandb\.(?:gpu|gpu_count|python)|platform"
    r"|device\.used|nccl\.(?:network|adapters|interfaces|env\.\w+)|submitit\.tasks"
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
# What an issue is asked for first: how a fact is spoken of, and the names under which it is known, the best first.
_FIRST = (
    ("torch", ("torch.version",)), ("CUDA", ("torch.cuda", "cuda.version")), ("ROCm", ("torch.rocm", "rocm.version")),
    ("NCCL", ("nccl.version",)), ("RCCL", ("rccl.version",)), ("cuDNN", ("cudnn.version",)),
    ("driver", ("driver.version",)), ("Python", ("python.version", "wandb.python")),
    ("Transformers", ("transformers.version",)), ("Accelerate", ("accelerate.version",)),
    ("DeepSpeed", ("deepspeed.version",)), ("Lightning", ("lightning.version", "pytorch-lightning.version")),
    ("Megatron-Core", ("megatron-core.version",)), ("TRL", ("trl.version",)), ("PEFT", ("peft.version",)),
    ("vLLM", ("vllm.version",)), ("Ray", ("ray.version",)),
)  # fmt: skip
_VERSION = lazy(r"v?(\d[\w.+-]{0,40})(?:\s[\s\S]*)?")  # without the build and the compiler that Python names
_NAMES, _COUNTS = ("gpu.name", "wandb.gpu"), ("gpu.count", "wandb.gpu_count")
_VALUES = 3  # of one name, where ranks or nodes have several


def gist(facts: Sequence[Fact]) -> str:
    """Devices and versions among the facts in one row, as `8 × NVIDIA H100, torch 2.4.1, NCCL 2.20.5`; or nothing."""
    known = _known(facts)
    said = [_devices(known)]
    for spoken, names in _FIRST:
        versions = _versions(next((known[name] for name in names if name in known), ()))
        said.append(f"{spoken} {_several(versions)}" if versions else "")
    return ", ".join(filter(None, said))


def beyond(facts: Sequence[Fact]) -> bool:
    """Whether any of the facts says more than `gist` does."""
    known = _known(facts)
    one_row = {*_NAMES, *_COUNTS}
    for _, names in _FIRST:
        versions = [_versions(known[name]) for name in names if name in known]
        if any(len(some) > _VALUES or set(some) != set(versions[0]) for some in versions):
            return True
        one_row.update(name for name in names if all(map(_VERSION.fullmatch, known.get(name, ()))))
    counted = any(name in known for name in _COUNTS)
    return not one_row.issuperset(known) or (counted and _count(known) is None) or len(_models(known)) > _VALUES


def _known(facts: Sequence[Fact]) -> dict[str, list[str]]:
    """The different values of each name, in order."""
    known: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value not in ("", "null") and fact.value not in known.setdefault(fact.name, []):
            known[fact.name].append(fact.value)
    return known


def _versions(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(m[1] for value in values if (m := _VERSION.fullmatch(value)) is not None))


def _models(known: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return next((known[name] for name in _NAMES if name in known), ())


def _count(known: Mapping[str, Sequence[str]]) -> str | None:
    """The number of the GPUs where there is one of it, and one model."""
    counts = next((known[name] for name in _COUNTS if name in known), ())
    return counts[0] if len(_models(known)) == len(counts) == 1 and counts[0].isdecimal() else None


def _devices(known: Mapping[str, Sequence[str]]) -> str:
    """The model of the GPUs, and their number where that is known."""
    count = _count(known)
    return (f"{count} × " if count else "") + _several(_models(known))


def _several(values: Sequence[str]) -> str:
    more = f" and {len(values) - _VALUES} more" if len(values) > _VALUES else ""
    return " / ".join(values[:_VALUES]) + more


def notable(facts: Sequence[Fact]) -> list[Fact]:
    """The facts worth a line, in their order; those that are null, and all beyond MOST, are left out."""
    return [f for f in facts if _NOTABLE.fullmatch(f.name) and f.value not in ("", "null")][:MOST]
