"""Settings of precision and of DeepSpeed's Adam, each with the same settings where they are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forensics.engine.pipeline import Options, analyse
from forensics.model import Diagnosis

GPU = "You are using a CUDA device ('{}') that has Tensor Cores. To properly utilize them, set the precision"
HEALTHY = [f"step {i} loss {2.5 - i / 1000:.4f}" for i in range(0, 300, 10)]
DIVERGED = [f"step {i} loss {2.0 if i < 60 else 2 + (i - 60) / 2:.4f}" for i in range(100)]
ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: {}\nnum_processes: 8\n"


def run(folder: Path, lines: list[str], **files: Any) -> Diagnosis:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=1)
        (folder / (name + (".yaml" if isinstance(value, str) else ".json"))).write_text(text)
    return analyse([str(folder)], Options(threads=1))


def engine(**more: Any) -> dict[str, Any]:
    return {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, **more}


def notes(diagnosis: Diagnosis) -> str:
    return " ".join(note for f in diagnosis.findings for note in f.notes)


@pytest.mark.parametrize(
    ("gpu", "arguments", "told"),
    [
        ("NVIDIA H100 80GB HBM3", {"fp16": True, "bf16": False}, True),
        ("NVIDIA A100-SXM4-80GB", {"fp16": True}, True),
        ("NVIDIA GeForce RTX 3090", {"fp16": True}, True),
        ("NVIDIA H100 80GB HBM3", {"bf16": True}, False),
        ("Tesla V100-SXM2-32GB", {"fp16": True}, False),
        ("Tesla T4", {"fp16": True}, False),
    ],
)
def test_fp16_where_the_device_has_bf16(tmp_path: Path, gpu: str, arguments: dict[str, bool], told: bool) -> None:
    found = run(tmp_path, [GPU.format(gpu), *DIVERGED], training_args=arguments)
    assert found.findings[0].name == "loss-divergence"
    assert ("has bfloat16" in notes(found)) is told


def test_and_where_nothing_failed_it_says_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, [GPU.format("NVIDIA H100 80GB HBM3"), *HEALTHY], training_args={"fp16": True})
    assert not found.findings


@pytest.mark.parametrize(
    ("config", "others", "told"),
    [
        (engine(bf16={"enabled": True}), {"accelerate_config": ACCELERATE.format("fp16")}, True),
        (engine(fp16={"enabled": True}), {"training_args": {"bf16": True}}, True),
        (engine(bf16={"enabled": True}), {"accelerate_config": ACCELERATE.format("bf16")}, False),
        (engine(bf16={"enabled": "auto"}, fp16={"enabled": "auto"}), {"training_args": {"bf16": True}}, False),
        (engine(bf16={"enabled": True}), {"accelerate_config": ACCELERATE.format("no")}, False),
    ],
)
def test_deepspeed_and_the_program_ask_for_one_precision(
    tmp_path: Path, config: dict[str, Any], others: dict[str, Any], told: bool
) -> None:
    found = run(tmp_path, HEALTHY, ds_config=config, **others)
    assert ("deepspeed-config-conflict" in [f.name for f in found.findings]) is told


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"ds_config": {"adam_w_mode": False}}, True),
        ({"ds_config": {"adam_w_mode": True}}, False),
        ({"ds_config": {}}, False),
        ({"config": "optimizer: adam\nlr: 0.0001\nweight_decay: 0.1\n"}, True),
        ({"config": "deepspeed:\n  optimizer:\n    type: Adam\n    params:\n      weight_decay: 0.1\n"}, False),
    ],
)
def test_the_adam_of_deepspeed_is_adamw(tmp_path: Path, files: dict[str, Any], told: bool) -> None:
    if "ds_config" in files:
        parameters = {"lr": 1e-4, "weight_decay": 0.1, **files["ds_config"]}
        files = {"ds_config": engine(optimizer={"type": "Adam", "params": parameters})}
    found = run(tmp_path, HEALTHY, **files)
    assert ("weight-decay-coupled" in [f.name for f in found.findings]) is told
