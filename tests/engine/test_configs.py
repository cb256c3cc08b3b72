"""Configuration checks: what each finds and leaves alone, and what a setting is worth beside logs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.engine.configs.registry import REGISTRY
from forensics.engine.configs.view import Sign, View
from forensics.engine.environment import environment, printed_versions, saved_progress, stated_world
from forensics.engine.pipeline import analyse
from forensics.model import Diagnosis, Fact, Identity, Kind, Role, Source, Verdict
from forensics.parsers.version_lines import stated
from forensics.signatures.schema import load_catalogue

CATALOGUE = load_catalogue()


def facts(table: dict[str, Any], source: str = "a.json") -> tuple[Fact, ...]:
    return tuple(Fact(name, str(value), source, n) for n, (name, value) in enumerate(table.items(), 1))


def signs(check: str, table: dict[str, Any], **more: Any) -> list[Sign]:
    return list(REGISTRY[check](View(facts(table), **more)))


def source(path: str, **identity: Any) -> Source:
    return Source(path, Path(path), Kind.LOG, 1, Identity(**identity))


DS = "deepspeed."
BATCH = {DS + "train_batch_size": 64, DS + "train_micro_batch_size_per_gpu": 4, DS + "gradient_accumulation_steps": 2}
LLAMA = {"model.architectures.0": "LlamaForCausalLM", "model.vocab_size": 32000, "model.max_position_embeddings": 4096}
GRPO = {"training_args.class": "trl.trainer.grpo_config.GRPOConfig"}
BEST = {"args.load_best_model_at_end": "true"}

# check, facts that show it, what it is alone, and a change after which it must be silent
SHOWN: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("deepspeed_precisions", {DS + "fp16.enabled": "true", DS + "bf16.enabled": "true"}, "root", {DS + "bf16.enabled": "auto"}),
    ("deepspeed_batch", BATCH | {DS + "train_batch_size": 63}, "root", {DS + "train_batch_size": 64}),
    ("deepspeed_batch", BATCH | {DS + "train_batch_size": 63}, "root", {DS + "train_batch_size": "auto"}),
    ("deepspeed_auto", BATCH | {DS + "train_batch_size": "auto"}, "support", {DS + "train_batch_size": 64}),
    ("accumulation_set_twice", {DS + "gradient_accumulation_steps": 2, "training_args.gradient_accumulation_steps": 8}, "root", {DS + "gradient_accumulation_steps": "auto"}),
    ("accumulation_set_twice", {DS + "gradient_accumulation_steps": 2, "config.gradient_accumulation_steps": 8}, "context", {DS + "gradient_accumulation_steps": 8}),
    ("both_precisions", {"training_args.fp16": "true", "training_args.bf16": "true"}, "root", {"training_args.fp16": "false"}),
    ("bf16_on_old_gpu", {"args.bf16": "true", "gpu.name": "Tesla V100-SXM2-32GB"}, "context", {"gpu.name": "NVIDIA A100-SXM4-80GB"}),
    ("bf16_on_old_gpu", {"accelerate.mixed_precision": "bf16", "gpu.name": "NVIDIA GeForce RTX 2080 Ti"}, "context", {"gpu.name": "NVIDIA GeForce RTX 4090"}),
    ("fused_under_scaling", {"args.optim": "adamw_torch_fused", "args.fp16": "true", "args.max_grad_norm": "1.0"}, "support", {"args.max_grad_norm": "0.0"}),
    ("fused_under_scaling", {"hydra.config.optimizer.fused": "true", "hydra.config.trainer.precision": "16-mixed", "config.gradient_clip_val": 1}, "support", {"hydra.config.trainer.precision": "bf16-mixed"}),
    ("reduce_type_open", {"config.fsdp_config.mixed_precision.param_dtype": "bfloat16"}, "context", {"config.fsdp_config.mixed_precision.reduce_dtype": "float32"}),
    ("reduce_type_open", {"hydra.config.mp_policy.param_dtype": "torch.bfloat16", "hydra.config.mp_policy.reduce_dtype": "null"}, "context", {"hydra.config.mp_policy.param_dtype": "float32"}),
    ("reduce_type_open", {"config.trainer.strategy.mixed_precision.init_args.param_dtype": "bf16"}, "context", {"config.trainer.strategy.mixed_precision.init_args.reduce_dtype": "float32"}),
    ("decay_with_adam", {"config.optimizer": "adam", "config.weight_decay": "0.1"}, "context", {"config.optimizer": "adamw"}),
    ("decay_with_adam", {"config.optimizer": "Adam", "config.weight_decay": "0.01"}, "context", {"config.weight_decay": "5e-4"}),
    ("decay_with_adam", {"hydra.config.optimizer._target_": "torch.optim.Adam", "hydra.config.optimizer.weight_decay": "0.05"}, "context", {"hydra.config.optimizer._target_": "torch.optim.AdamW"}),
    ("decay_with_adam", {"wandb.config.optimizer": "adam", "wandb.config.weight_decay": "0.1"}, "context", {"wandb.config.tensor_model_parallel_size": "1"}),
    ("decay_with_adam", {"args.optim": "adam", "args.wd": "0.1"}, "context", {DS + "optimizer.type": "Adam"}),
    ("noise_schedules", {"args.prediction_type": "v_prediction", "noise_schedule.prediction_type": "epsilon"}, "context", {"noise_schedule.prediction_type": "v_prediction"}),
    ("noise_schedules", {"config.v_parameterization": "true", "noise_schedule.prediction_type": "epsilon"}, "context", {"config.v_parameterization": "false"}),
    ("noise_schedules", {"config.ddpm_num_steps": "500", "noise_schedule.num_train_timesteps": "1000"}, "context", {"config.ddpm_num_steps": "null"}),
    ("tokens_beyond_embedding", LLAMA | {"tokenizer.added_tokens.max_id": 32001}, "context", {"model.vocab_size": 32002}),
    ("adapter_without_embeddings", LLAMA | {"adapter.peft_type": "LORA", "adapter.modules_to_save": "null", "tokenizer.added_tokens.max_id": 32001}, "context", {"adapter.modules_to_save": "embed_tokens, lm_head"}),
    ("adapter_without_embeddings", LLAMA | {"adapter.peft_type": "LORA", "tokenizer.added_tokens.max_id": 32001}, "context", {"tokenizer.added_tokens.max_id": 31999}),
    ("rope_settings", {"model.rope_scaling.factor": "0.5", "model.rope_scaling.type": "linear"}, "root", {"model.rope_scaling.factor": "2.0"}),
    ("rope_settings", {"model.rope_scaling.factor": "8.0", "model.rope_scaling.type": "linear"}, "context", {"model.rope_scaling.type": "yarn"}),
    ("rope_settings", {"model.rope_parameters.rope_type": "yarnn"}, "context", {"model.rope_parameters.rope_type": "yarn"}),
    ("longer_than_positions", LLAMA | {"args.max_seq_length": 8192}, "context", {"model.rope_scaling.factor": 2}),
    ("padding_side", LLAMA | GRPO | {"tokenizer.padding_side": "right"}, "support", {"tokenizer.padding_side": "left"}),
    ("padding_side", LLAMA | {"tokenizer.padding_side": "right", "args.predict_with_generate": "true"}, "context", {"args.predict_with_generate": "false"}),
    ("pad_token_unset", {"tokenizer.tokenizer_class": "LlamaTokenizer", "args.per_device_train_batch_size": 8}, "support", {"tokenizer.pad_token": "<unk>"}),
    ("packing_attention", {"args.packing": "true", "args.attn_implementation": "sdpa"}, "context", {"args.attn_implementation": "flash_attention_2"}),
    ("preference_settings", {"training_args.class": "trl.trainer.dpo_config.DPOConfig", "training_args.beta": "0.001"}, "support", {"training_args.beta": "0.1"}),
    ("preference_settings", {"training_args.class": "trl.trainer.dpo_config.DPOConfig", "training_args.learning_rate": "5e-05"}, "support", {"adapter.peft_type": "LORA"}),
    ("find_unused_off", {"args.ddp_find_unused_parameters": "false"}, "support", {"args.ddp_find_unused_parameters": "null"}),
    ("find_unused_with_checkpointing", {"args.ddp_find_unused_parameters": "true", "args.gradient_checkpointing": "true"}, "support", {"args.gradient_checkpointing_kwargs.use_reentrant": "false"}),
    ("single_process", {"accelerate.distributed_type": "NO", "gpu.count": 8}, "context", {"gpu.count": 1}),
    ("fsdp_without_wrapping", {"accelerate.distributed_type": "FSDP", "accelerate.fsdp_config.fsdp_auto_wrap_policy": "NO_WRAP"}, "context", {"accelerate.fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}),
    ("fsdp_without_wrapping", {"training_args.fsdp": "full_shard"}, "context", {"training_args.fsdp": "full_shard, auto_wrap"}),
    ("fsdp_full_state", {"accelerate.fsdp_config.fsdp_state_dict_type": "FULL_STATE_DICT"}, "support", {"accelerate.fsdp_config.fsdp_state_dict_type": "SHARDED_STATE_DICT"}),
    ("accumulation_unnormalised", {"transformers.version": "4.40.1", "args.gradient_accumulation_steps": 8}, "context", {"transformers.version": "4.46.0"}),
    ("best_model_settings", BEST | {"args.save_strategy": "epoch", "args.eval_strategy": "steps"}, "support", {"args.eval_strategy": "epoch"}),
    ("best_model_settings", BEST | {"args.save_strategy": "steps", "args.save_steps": 3, "args.eval_steps": 2}, "support", {"args.save_steps": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("check", "table", "alone", "change"), SHOWN)
def test_a_check_and_its_near_miss(check: str, table: dict[str, Any], alone: str, change: dict[str, Any]) -> None:
    assert [s.alone for s in signs(check, table)] == [alone]
    assert signs(check, table | change) == []


FACT_NAMES = sorted(
    {name for _, table, _, change in SHOWN for name in (*table, *change)}
    | {"trainer.best_model_checkpoint", "torch.version"}
)
VALUES = st.sampled_from(
    ["true", "false", "null", "auto", "1e999", "-1", "0", "1.5", "9" * 18, "a/checkpoint-1", "2.0"]
) | st.text(max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FACT_NAMES), VALUES, st.sampled_from("ab")), max_size=25), st.integers(1, 4))
def test_no_facts_make_a_check_raise(told: list[tuple[str, str, str]], world: int) -> None:
    view = View(tuple(Fact(n, v, s) for n, v, s in told), {"a": source("a", node="x"), "b": source("b", rank=1)}, world)
    for check in REGISTRY.values():
        for sign in check(view):
            assert sign.facts and sign.text and sign.alone in ("root", "context", "support")


def test_every_check_is_named_by_a_signature_that_stays_a_hint() -> None:
    named = {r.detector: s for s in CATALOGUE.values() for r in s.evidence if r.detector in REGISTRY}
    assert set(named) == set(REGISTRY)
    for signature in named.values():
        assert signature.verdict == "suspect" and signature.culprit == "none"
        assert all(rule.weight <= 0.6 for rule in signature.evidence)
        assert set(signature.causes) <= set(CATALOGUE)


def test_values_that_differ_between_files_are_not_judged() -> None:
    one = facts({"args.optim": "adamw_torch_fused", "args.fp16": "true", "args.max_grad_norm": 1}, "a")
    assert list(REGISTRY["fused_under_scaling"](View(one)))
    assert not list(REGISTRY["fused_under_scaling"](View(one + facts({"args.fp16": "false"}, "b"))))


def test_more_ranks_than_there_are() -> None:
    (sign,) = signs("deepspeed_batch", BATCH, world_size=4)
    assert "8 ranks" in sign.text and sign.alone == "context"
    assert not signs("deepspeed_batch", BATCH, world_size=8)
    assert not signs("deepspeed_batch", BATCH, world_size=16)  # tensor parallelism takes the rest


def test_a_loss_scale_under_bf16() -> None:
    assert signs("scaling_under_bf16", {"args.bf16": "true"}, metric_maxima={"loss_scale": 65536.0})
    assert not signs("scaling_under_bf16", {"args.bf16": "true"}, metric_maxima={"loss_scale": 1.0})
    assert not signs("scaling_under_bf16", {"args.fp16": "true"}, metric_maxima={"loss_scale": 65536.0})


def test_a_checkpoint_of_another_layout() -> None:
    def paths(ranks: int, *more: str) -> dict[str, Source]:
        names = [f"out/step1/bf16_zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in range(ranks)]
        return {p: source(p) for p in (*names, *more)}

    stage2 = {DS + "zero_optimization.stage": 2}
    assert not signs("checkpoint_layout", stage2, sources=paths(4), world_size=4)
    assert not signs("checkpoint_layout", stage2, sources=paths(2), world_size=4)
    (ranks,) = signs("checkpoint_layout", stage2, sources=paths(8), world_size=4)
    assert "8 ranks" in ranks.text and "has 4" in ranks.text
    model = "out/step1/zero_pp_rank_0_mp_rank_00_model_states.pt"
    (stage,) = signs("checkpoint_layout", stage2, sources=paths(4, model), world_size=4)
    assert "ZeRO stage 3" in stage.text


def test_the_best_checkpoint_was_removed() -> None:
    state = (
        Fact("trainer.best_model_checkpoint", "/mnt/out/checkpoint-200", "out/checkpoint-400/trainer_state.json", 3),
    )
    here = {p: source(p) for p in ("out/checkpoint-300/x", "out/checkpoint-400/trainer_state.json")}
    (sign,) = REGISTRY["best_checkpoint_removed"](View(state, here))
    assert "checkpoint-200" in sign.text and sign.alone == "context"
    assert not list(REGISTRY["best_checkpoint_removed"](View(state, here | {"out/checkpoint-200/x": source("x")})))
    alone = {p: s for p, s in here.items() if "400" in p}  # the one folder that somebody kept
    assert not list(REGISTRY["best_checkpoint_removed"](View(state, alone)))


@pytest.mark.parametrize("name", ["param_dtype", "model.param_dtype", "actor.fsdp_config.mixed_precision.param_dtype"])
def test_a_type_that_is_not_of_fsdp_or_has_a_default_of_its_own(name: str) -> None:
    assert not signs("reduce_type_open", {f"config.{name}": "bfloat16"})


def test_a_noise_schedule_of_the_base_model() -> None:
    def check(first: str, second: str, value: str = "v_prediction") -> list[Sign]:
        told = facts({"noise_schedule.prediction_type": "epsilon"}, first)
        told += facts({"noise_schedule.prediction_type": value}, second)
        return list(REGISTRY["noise_schedules"](View(told)))

    (sign,) = check("base/scheduler/scheduler_config.json", "out/scheduler/scheduler_config.json")
    assert "epsilon in base/" in sign.text and "v_prediction in out/" in sign.text
    assert not check("base/scheduler/scheduler_config.json", "out/scheduler/scheduler_config.json", "epsilon")
    assert not check("out/scheduler/scheduler_config.json", "out/low_res_scheduler/scheduler_config.json")


def test_versions_of_hosts() -> None:
    def check(a: str, b: str, **where: Any) -> list[Sign]:
        told = (Fact("torch.version", a, "a.log", 1), Fact("torch.version", b, "b.log", 2))
        hosts = {"a.log": source("a.log", node="node-0"), "b.log": source("b.log", **(where or {"node": "node-1"}))}
        return list(REGISTRY["versions_differ"](View(told, hosts)))

    (sign,) = check("2.2.2+cu121", "2.3.0")
    assert sign.alone == "root" and "2.2.2 on node-0" in sign.text and "2.3.0 on node-1" in sign.text
    assert not check("2.2.2+cu121", "2.2.2")
    assert not check("2.2.2", "2.3.0", node="node-0")  # one host that says both: two runs, or two environments
    assert not check("2.2.2", "2.3.0", attempt=1, node="node-1")
    assert not check("2.2.2", "2.3.0", stream="stdout")


def test_an_adapter_whose_weights_hold_no_embedding(tmp_path: Path) -> None:
    table = LLAMA | {"adapter.peft_type": "LORA", "tokenizer.added_tokens.max_id": 32001}
    told = facts(table, "out/a.json")

    def alone(*tensors: str) -> list[str]:
        header = json.dumps({t: {} for t in tensors}).encode()
        file = tmp_path / "adapter_model.safetensors"
        file.write_bytes(len(header).to_bytes(8, "little") + header)
        path = "out/adapter_model.safetensors"
        view = View(told, {path: Source(path, file, Kind.CHECKPOINT, 9)})
        return [s.alone for s in REGISTRY["adapter_without_embeddings"](view)]

    assert alone("base_model.model.layers.0.q_proj.lora_A.weight") == ["root"]
    assert alone("base_model.model.embed_tokens.weight") == []


# ---------------------------------------------------------------------------------------------------- with the logs

STEPS = "".join(
    f"{{'loss': {2.5 - n / 50:.2f}, 'grad_norm': 1.0, 'step': {n}, 'epoch': {n / 50:.2f}}}\n" for n in range(1, 40)
)
BOTH = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2},\n "fp16": {"enabled": true}, "bf16": {"enabled": true}}\n'


def run(folder: Path, **files: str) -> Diagnosis:
    for name, text in files.items():
        folder.joinpath(name.replace("__", ".")).write_text(text)
    return analyse([str(folder)])


def test_a_conflict_alone_is_a_hint(tmp_path: Path) -> None:
    found = run(tmp_path, ds_config__json=BOTH, train__log=STEPS)
    assert found.verdict is Verdict.SUSPECT
    (root,) = found.of_role(Role.ROOT)
    assert root.name == "deepspeed-config-conflict" and root.confidence <= 0.6 and root.ranks is None
    assert (root.evidence[0].file, root.evidence[0].line) == ("ds_config.json", 2)
    assert root.step is None and root.captures == {}
    assert root.evidence[0].text == "deepspeed.fp16.enabled = true"
    (row,) = [c for c in found.coverage if c.path == "ds_config.json"]
    assert (row.kind, row.status, row.reason) == ("config", "read", None)


@pytest.mark.parametrize(("steps", "told"), [(8, 1), (4, 0)])
@pytest.mark.parametrize("more", ["", ', "train_batch_size": 64', ', "zero_optimization": 2, "local_rank": 0'])
def test_a_program_that_accumulates_beside_the_engine(tmp_path: Path, steps: int, told: int, more: str) -> None:
    own = f'{{"lr": 0.0001, "gradient_accumulation_steps": {steps}, "deepspeed_config": "ds_config.json"{more}}}'
    (tmp_path / "args.json").write_text(own)
    (tmp_path / "ds_config.json").write_text(
        '{"gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}}'
    )
    steps_said = "".join(f"step {n} loss {3 - n / 500:.4f}\n" for n in range(0, 1000, 10))
    (tmp_path / "train.log").write_text(f"{steps_said}training finished\n")
    diagnosis = analyse([str(tmp_path)])
    found = [f for f in diagnosis.findings if f.name == "accumulation-set-twice"]
    assert [f.role for f in found] == [Role.CONTEXT] * told
    assert diagnosis.verdict is Verdict.HEALTHY


def test_a_conflict_supports_the_failure_it_explains(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nAssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled\n'
    found = run(tmp_path, ds_config__json=BOTH, train__log=trace)
    (root,) = found.of_role(Role.ROOT)
    assert found.verdict is Verdict.FAILED and root.name == "deepspeed-config-invalid"
    assert root.evidence[0].file == "train.log"
    assert "ds_config.json" in [e.file for e in root.evidence]
    assert any("both enabled" in note for note in root.notes) and root.count == 1
    assert not any(f.name == "deepspeed-config-conflict" for f in found.findings)


def test_a_conflict_beside_another_failure_is_context(tmp_path: Path) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n"
    found = run(tmp_path, ds_config__json=BOTH, train__log=STEPS + oom)
    (root,) = found.of_role(Role.ROOT)
    without = run_without(tmp_path, "ds_config.json")
    assert root.name == "cuda-oom" and root.confidence == without.of_role(Role.ROOT)[0].confidence
    assert [f.name for f in found.of_role(Role.CONTEXT)] == ["deepspeed-config-conflict"]


def run_without(folder: Path, name: str) -> Diagnosis:
    folder.joinpath(name).unlink()
    return analyse([str(folder)])


def test_what_only_supports_is_not_shown_alone(tmp_path: Path) -> None:
    found = run(tmp_path, args__yaml="ddp_find_unused_parameters: false\n", train__log=STEPS)
    assert found.verdict is Verdict.HEALTHY and found.findings == ()


def test_settings_that_are_worth_knowing_leave_a_run_healthy(tmp_path: Path) -> None:
    schedule = '{"_class_name": "DDIMScheduler", "beta_schedule": "linear", "prediction_type": "epsilon"}'
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "scheduler_config.json").write_text(schedule)
    found = run(tmp_path, train_config__yaml="prediction_type: v_prediction\noptimizer: adam\nweight_decay: 0.1\n")
    found = run(tmp_path, fsdp__yaml="mixed_precision:\n  param_dtype: bfloat16\n", train__log=STEPS)
    assert found.verdict is Verdict.HEALTHY
    told = {f.name: f.evidence[0] for f in found.findings}
    assert {f.role for f in found.findings} == {Role.CONTEXT}
    assert set(told) == {"noise-schedule-differs", "weight-decay-coupled", "fsdp-mixed-precision-implicit"}
    at = told["noise-schedule-differs"]
    assert (at.file, at.line) == ("scheduler/scheduler_config.json", 1)


DIVERGED = "".join(
    f"step {n} loss {3 - n / 200 if n < 200 else 2 + (n - 200) ** 2 / 300:.4f}\n" for n in range(0, 400, 2)
)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("fp16: true\nfused: true\nmax_grad_norm: 1.0\n", "must be unscaled before they"),
        ("mixed_precision:\n  param_dtype: bfloat16\n", "reduce_dtype is not set"),
        ("bf16: true\nfused: true\nmax_grad_norm: 1.0\n", None),
    ],
)
def test_settings_beside_a_loss_that_diverged(tmp_path: Path, settings: str, told: str | None) -> None:
    found = run(tmp_path, args__yaml=settings, train__log=DIVERGED)
    (root,) = found.of_role(Role.ROOT)
    assert root.name == "loss-divergence" and not found.of_role(Role.CONTEXT)
    assert any(told in note for note in root.notes) if told else len(root.notes) == 1


def test_the_best_model_that_was_not_loaded(tmp_path: Path) -> None:
    for step in (300, 400):
        (tmp_path / f"checkpoint-{step}").mkdir()
        state = f'{{"best_model_checkpoint": "out/checkpoint-200", "global_step": {step}, "max_steps": 400}}'
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    found = run(tmp_path, train__log=STEPS)
    assert found.verdict is Verdict.HEALTHY
    assert [(f.name, f.role) for f in found.findings] == [("best-checkpoint-removed", Role.CONTEXT)]
    warned = (
        "Could not locate the best model at out/checkpoint-200/model.safetensors, if you are running a distributed "
        "training on multiple nodes, you should activate `--save_on_each_node`.\n"
    )
    found = run(tmp_path, train__log=STEPS + warned)
    assert found.verdict is Verdict.SUSPECT
    (root,) = found.findings
    assert root.name == "best-model-not-loaded" and any("checkpoint-200, is not here" in note for note in root.notes)


def test_an_oom_is_not_explained_twice(tmp_path: Path) -> None:
    accelerate = (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: NO_WRAP\n"
    )
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 26.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n"
    found = run(tmp_path, accelerate__yaml=accelerate, train__log=STEPS + oom)
    (root,) = found.of_role(Role.ROOT)
    assert root.name == "cuda-oom" and any("one unit" in note for note in root.notes)


def test_a_damaged_configuration_costs_its_own_row(tmp_path: Path) -> None:
    found = run(tmp_path, ds_config__json=BOTH[:60], train__log=STEPS)
    (row,) = [c for c in found.coverage if c.path == "ds_config.json"]
    assert (row.status, row.reason) == ("partial", "ends in the middle")
    assert found.verdict is Verdict.HEALTHY


# --------------------------------------------------------------------------------------------------------- the rest


def test_how_far_the_last_saved_state_is(tmp_path: Path) -> None:
    state = facts({"trainer.global_step": 400, "trainer.max_steps": 1000}, "c-400")
    assert saved_progress(state) == "The last saved state is at step 400 of 1,000."
    later = facts({"trainer.global_step": 1000, "trainer.max_steps": 1000}, "c-1000")
    assert saved_progress(state + later) is None
    assert saved_progress(state + facts({"trainer.max_steps": 500}, "x")) is None


def test_the_world_that_a_worker_was_told() -> None:
    worker = {"env.WORLD_SIZE": 8, "env.RANK": 3, "env.LOCAL_RANK": 3}
    assert stated_world(facts(worker)) == 8
    assert stated_world(facts({"env.WORLD_SIZE": 2, "env.RANK": 1})) is None  # a cluster's: hosts, and not workers
    assert stated_world(facts({"megatron.world_size": 16})) == 16
    assert stated_world(facts({"megatron.world_size": 16}) + facts(worker)) is None


def test_environment_names_each_value_once() -> None:
    told = facts({"torch.version": "2.2.2"}, "a") + facts({"torch.version": "2.2.2"}, "b") + facts({"x": "1"}, "b")
    assert [(f.name, f.source) for f in environment(told)] == [("torch.version", "a"), ("x", "b")]
    twice = (Fact("nccl.version", "2.19.3", "a", 8), Fact("nccl.version", "2.19.3+cuda12.3", "a", 8))
    assert environment(twice) == twice[:1]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch 2.6.0+cu124 | NCCL 2.21.5 | python 3.11.9", {"torch": "2.6.0+cu124", "nccl": "2.21.5", "python": "3.11.9"}),
        ("2026-04-11 08:00:01 | INFO | Python 3.10.14", {"python": "3.10.14"}),
        ("Python 3.10.12 (main, Nov 20 2023, 15:14:05) [GCC 11.4.0]", {"python": "3.10.12"}),
        ("python: 3.10.14 | packaged by conda-forge | (main, Mar 20 2024, 12:45:18) [GCC 12.3.0]", {"python": "3.10.14"}),
        ("[rank0]: INFO:__main__:torch 2.4.0, cuDNN 90100, NCCL (2, 20, 5)", {"torch": "2.4.0", "cudnn": "90100", "nccl": "2.20.5"}),
        ("pytorch-lightning v2.4.0", {"pytorch-lightning": "2.4.0"}),
        ("python 3.10 is required", {}),
        ("torch 2.4.1 -> 2.5.1", {}),
        ("numpy 1.26.4 cannot be imported", {}),
        ("cuda 12.4 loss 2.0", {}),
        ("driver 90100", {}),
    ],
)  # fmt: skip
def test_a_line_of_nothing_but_versions_is_shown(tmp_path: Path, line: str, found: dict[str, str]) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(f"start\n{line}\nstep 1 loss 2.0\n")
    made = analyse([str(tmp_path)])
    versions = [fact for fact in made.environment if fact.name.endswith(".version")]
    assert {fact.name.removesuffix(".version"): fact.value for fact in versions} == found
    assert all((fact.source, fact.line) == ("rank0.log", 2) for fact in versions)
    source = Source(path="rank0.log", file=log, kind=Kind.LOG, size=log.stat().st_size)
    assert printed_versions([source], [Fact(f"{name}.version", "9", "a") for name in found]) == ()


@pytest.mark.parametrize(
    "piece", ["torch 1.1 ", "python 3.1 ", "python 3.1 | a |", "nccl (1, 2)", "cuda     ", "with ", ", ray 2.1"]
)
def test_hostile_lines_of_versions_take_no_time(piece: str) -> None:
    begin = time.monotonic()
    assert not list(stated("\n".join([(40 * piece)[:390] + " x"] * 50)))
    assert time.monotonic() - begin < 2
