"""One vocabulary for the names of metrics, whatever framework wrote them.

`canonical` turns a key of a log line, a JSON record or a CSV header, or a TensorBoard tag, into a canonical name:

    loss            training loss as the run prints it (nats, or bits in fairseq)
    loss_part       one term of a loss (`box_loss`, `loss_cls`, `g_loss`): good for finding NaN, not a curve
    eval_loss       loss on held-out data; `eval_` stands before every name in `HELD_OUT` where the data is held out
    grad_norm       total gradient norm (before clipping in nearly all frameworks)
    param_norm      norm of the parameters;  update_ratio: norm of an update over norm of the parameters
    lr              learning rate of the first parameter group
    loss_scale      fp16 loss scale
    overflow        1 where a line says that a step was skipped for an overflow (extracted, never a key)
    skipped_steps   steps skipped SINCE THE PREVIOUS RECORD of the same writer
    skipped_total   steps skipped since the start (DeepSpeed's `skipped=`); a difference of it is `skipped_steps`
    nan_steps       steps with a NaN since the previous record
    step, epoch     positions; `progress` (how far a bar is) and `total_steps` (where it ends)
    step_time, data_time   seconds (see `factor`);  throughput: whatever is counted, per second
    samples_seen, tokens   consumed since the start; batch_size: samples in a global batch
    memory, host_memory, mfu, tflops    as printed
    accuracy, perplexity, wer, kl, entropy, policy_loss, value_loss, reward, reward_std, frac_reward_zero_std,
    margin, reward_chosen, reward_rejected, logp_chosen, logp_rejected, clip_fraction, clipped_ratio,
    response_length, explained_variance

Keys that several tags of one record share (parameter groups) give the same name: readers keep the first of a record.
The key spellings are those of Megatron-LM, DeepSpeed, HF Trainer and TRL, Lightning, NeMo, torchtitan, torchtune,
nanotron, MaxText, nanoGPT, fairseq, Composer, mmengine, detectron2, timm, Keras, Ultralytics, verl, OpenRLHF,
Stable-Baselines3, OLMo, OpenNMT-py, open_clip and Ray, read in their sources.
"""

from __future__ import annotations

import re
from functools import lru_cache

from forensics.patterns import lazy

# Canonical name -> its spellings, lower case, with every run of other characters than letters, digits and @ as "_".
_SPELLINGS: dict[str, str] = {
    "loss": (
        "loss lm_loss total_loss train_loss training_loss loss_step train_loss_step loss_epoch train_loss_epoch "
        "reduced_train_loss loss_total loss_train loss_training gpt_loss loss_mean avg_loss mean_loss loss_avg "
        "global_avg_loss avg_train_loss train_avg_loss batch_loss epoch_loss main_model_loss languagecrossentropy "
        "crossentropy cross_entropy running_loss lm_loss_training cur_loss current_loss tr_loss average_loss "
        "sft_loss step_loss iteration_loss lm_loss_training_lm_loss crossentropyloss ce xent train_xent"
    ),
    "eval_loss": (
        "loss_eval loss_val loss_valid loss_validation lm_loss_validation lm_loss_value lm_loss_value_validation "
        "evaluation_loss_vs_iterations lm_loss_validation_lm_loss_validation"
    ),
    "eval_perplexity": (
        "lm_loss_validation_ppl lm_loss_ppl lm_loss_ppl_validation lm_loss_validation_lm_loss_validation_ppl"
    ),
    "grad_norm": (
        "grad_norm gradient_norm gnorm global_grad_norm total_grad_norm grad_norm_total total_norm actor_grad_norm "
        "grad_2_0_norm_total grad_2_norm_total l2_norm_grad_global gradnorm grad_global_norm norm_grad "
        "grad_norm_step grad_norm_avg avg_grad_norm grad_norm_grad_norm grad_norm_global pre_clip_grad_norm"
    ),
    "update_ratio": "update_ratio update_to_param_ratio update_weight_ratio",
    "param_norm": "params_norm param_norm weight_norm parameter_norm",
    "lr": (
        "lr learning_rate current_learning_rate lr_adam lr_adamw lr_sgd actor_lr epoch_learning_rate "
        "learning_rate_learning_rate cur_lr current_lr last_lr"
    ),
    "loss_scale": (
        "loss_scale lossscale amp_scale scaler_scale grad_scale grad_scaler_scale loss_scale_loss_scale scale"
    ),
    "skipped_steps": "number_of_skipped_iterations skipped_iterations skipped_iters skipped_loss_spikes skipped_steps",
    "skipped_total": "skipped skipped_total total_skipped skipped_steps_total total_skipped_steps num_skipped_steps",
    "nan_steps": "number_of_nan_iterations nan_iterations nan_steps",
    "step": (
        "step global_step global_steps iteration iter num_updates current_steps training_global_step steps it "
        "training_iteration completed_step update updates update_step optimizer_step train_step trainer_global_step"
    ),
    "total_steps": "total_steps max_steps total_iterations train_iters",
    "total_timesteps": "total_timesteps",
    "epoch": "epoch epochs ep training_epoch current_epoch trainer_epoch",
    "throughput": (
        "tps wps tokens_per_sec tokens_per_second throughput samples_per_sec samples_per_second throughput_tps "
        "tokens_per_second_per_gpu tokens_per_sec_per_gpu tokens_per_gpu_per_second tgs currsamplespersec "
        "samplespersec "
        "runningavgsamplespersec tokens_s_device tokens_s samples_s device_tokens_per_sec fps tok_s tok_sec "
        "samples_sec tokens_sec tokens_per_s samples_per_s imgs_s images_per_sec img_s perf_throughput toks_s it_s "
        "throughput_tokens_per_sec "
        "ups batches_per_sec train_samples_per_second train_tokens_per_second"
    ),
    "tflops": "tflops tflops_per_gpu throughput_per_gpu tflop_s_device tflop_s model_tflops_per_gpu tflops_gpu",
    "mfu": "mfu mfu_actor device_mfu",
    "step_time": (
        "step_time iter_time iteration_time elapsed_time_per_iteration time_per_iteration time_per_iteration_ms "
        "elapsed_time_per_iteration_ms train_step_timing time_per_step time_this_iter_s time seconds batch_time "
        "step_time_seconds time_end_to_end end_to_end iter_ms step_ms dt timing_step step_total iteration_time_ms "
        "iteration_time_iteration_time step_time_ms step_time_s iter_time_ms"
    ),
    "data_time": "data_time data data_loading time_data_loading",
    "samples_seen": "consumed_samples samples_seen",
    "tokens": "consumed_tokens n_tokens_seen num_tokens num_input_tokens_seen total_tokens tokens tokens_seen",
    "batch_size": "global_batch_size batch_size",
    "memory": (
        "memory max_mem mem gpu_mem memory_max_reserved max_memory_reserved max_memory_allocated memallocated "
        "peak_memory_reserved peak_memory_alloc peak_memory_active max_reserved max_active vram_allocated "
        "vram_reserved mem_allocated_bytes mem_reserved_bytes peak_reserved_mem peak_allocated_mem "
        "max_memory_allocated_gb max_memory_reserved_gb cuda_max_memory_reserved memory_allocated memory_reserved "
        "mem_allocated mem_reserved mem_gb memory_gb gpu_mem_gb gpu_memory gpu_memory_gb memory_allocated_gb"
    ),
    "host_memory": (
        "host_memory host_memory_gb host_mem host_mem_gb host_mem_mb rss rss_gb rss_mb rss_bytes host_rss process_rss "
        "cpu_memory_gb cpu_memory_mb cpu_mem cpu_mem_gb cpu_mem_mb cpu_rss cpu_rss_gb cpu_rss_mb cpu_ram_gb "
        "ram_gb ram_mb ram_used ram_used_gb ram_used_mb ram_usage_gb process_memory_gb process_memory_mb "
        "system_memory_gb vmrss vm_rss vmrss_gb"
    ),
    "accuracy": (
        "accuracy acc acc_step acc_epoch train_acc train_accuracy mean_token_accuracy token_accuracy tokenaccuracy "
        "acc@1 top1 acc1 top_1 accuracy_top1 epoch_accuracy rewards_accuracies accuracies top1_acc acc_top1"
    ),
    "perplexity": "ppl perplexity languageperplexity train_ppl",
    "wer": "wer",
    "kl": (
        "kl approx_kl ppo_kl kl_loss mean_kl actor_ppo_kl actor_kl_loss objective_kl policy_approxkl_avg approxkl "
        "approxkl_avg kl_divergence kl_div kl_mean"
    ),
    "entropy": (
        "entropy ent entropy_loss mean_entropy_loss actor_entropy policy_entropy policy_entropy_avg mean_entropy"
    ),
    "policy_loss": (
        "policy_loss pg_loss policy_gradient_loss surrogate_loss mean_surrogate_loss act_loss actor_loss "
        "actor_pg_loss loss_policy loss_policy_avg policy_avg"
    ),
    "value_loss": (
        "value_loss vf_loss critic_loss critic_vf_loss loss_value loss_value_avg value_function_loss "
        "mean_value_function_loss mean_value_loss"
    ),
    "reward": (
        "reward mean_reward reward_mean rewards_mean critic_rewards_mean critic_score_mean ep_rew_mean rlhf_reward "
        "episode_reward_mean return objective_scores env_reward_mean episode_return_mean episode_return "
        "episodic_return mean_return avg_return mean_episode_return mean_episode_reward episode_reward"
    ),
    "reward_std": "reward_std rewards_std std_reward env_reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "margin": "rewards_margins margin margins reward_margin",
    "reward_chosen": "rewards_chosen chosen_reward chosen_rewards",
    "reward_rejected": "rewards_rejected reject_reward rejected_reward rejected_rewards",
    "logp_chosen": "logps_chosen",
    "logp_rejected": "logps_rejected",
    "clip_fraction": (
        "clip_fraction clipfrac pg_clipfrac actor_pg_clipfrac clip_ratio clip_ratio_region_mean clip_frac "
        "policy_clipfrac_avg ppo_clipfrac"
    ),
    "clipped_ratio": "completions_clipped_ratio response_length_clip_ratio clipped_ratio",
    "response_length": (
        "completions_mean_length response_length_mean response_length completion_length glen mean_response_length"
    ),
    "explained_variance": "explained_variance explained_var vf_explained_var critic_vf_explained_var",
}
# What training minimises under a name of its own. Beside a loss each is a part of it; alone in a log it is the loss
# (`metric_lines`). An `error` is none: it is as often a count of failures, or what is measured and not minimised.
_OBJECTIVES = frozenset(
    (
        "mse mse_loss rmse rmse_loss mae mae_loss nll nll_loss neg_log_likelihood negative_log_likelihood ce_loss "
        "cross_entropy_loss crossentropy_loss bce bce_loss bce_with_logits_loss l1_loss l2_loss huber_loss "
        "smooth_l1_loss elbo elbo_loss neg_elbo negative_elbo cost reconstruction_loss recon_loss"
    ).split()
)
_NAMES = {key: name for name, keys in _SPELLINGS.items() for key in (name, *keys.split())}

# Names that have a twin measured on held-out data. Timings and counters of an evaluation are nobody's training speed.
HELD_OUT = frozenset(
    {"loss", "accuracy", "perplexity", "wer", "reward", "reward_std", "kl", "entropy", "margin",
     "reward_chosen", "reward_rejected", "response_length", "clipped_ratio", "frac_reward_zero_std"}
)  # fmt: skip
NAMES = frozenset(_SPELLINGS) | {"loss_part", "overflow", "progress"} | {f"eval_{name}" for name in HELD_OUT}

# HF's train/train_loss is the mean over a whole run, written at its end; a critic's optimizer is not the policy's;
# Weights & Biases' system.memory is the share that all jobs of the host have in use.
_NEVER = frozenset(
    {"train/train_loss", "critic/grad_norm", "critic/lr", "critic/lr(1e-4)", "critic/lr(1e-3)", "system/memory",
     "system.memory"}
)  # fmt: skip
_WHOLE = {
    "train/ce loss": "loss",
    "timing_s/step": "step_time",
    "batch (t)": "step_time",  # open_clip
    "time/batch": "step",
    "time/token": "tokens",
    "time/sample": "samples_seen",
}
# What forensics.probe writes of the run itself; all else of it is about modules, and keeps its name.
_WHOLE |= {f"probe/{name}": name for name in ("loss", "grad_norm", "loss_scale", "skipped_total", "update_ratio")}
_WHOLE |= {"probe/lr/group0": "lr"}
# What the process holds of the host's memory, as Weights & Biases calls it.
_WHOLE |= dict.fromkeys(("system/proc.memory.rssmb", "system.proc.memory.rssmb"), "host_memory")

_EVAL = frozenset({"eval", "evaluation", "val", "valid", "validation", "test", "dev", "validation_metrics", "heldout"})
# Parts of a tag that say where a value was logged, not what it is.
_GROUPS = frozenset(
    {"train", "training", "trainer", "train_inner", "samples", "throughput", "memory", "device",
     "actor", "critic", "perf", "learning", "runtime",
     "loss_metrics", "time_metrics", "metrics", "metric", "optim", "optimizer", "policy", "objective", "rollout",
     "amp", "scaler", "grad_scaler", "fp16", "system", "stats", "scalars", "epoch", "timing_s", "val_env", "env", "rl",
     "ppo", "losses", "info", "timing", "charts"}
)  # fmt: skip
# `gpu_memory_allocated_gb`, torch's `cuda_max_memory_allocated`, W&B's `gpu.0.memoryAllocatedBytes`
_DEVICE_MEMORY = lazy(
    r"(?:system_)?(?:gpu|cuda|device|vram)_(?:process_)?(?:\d+_)?(?:max_|peak_)?(?:mem|memory)_?"
    r"(?:allocated|alloc|reserved|used)_?(?:gb|gib|mb|mib|bytes)?"
)
_UNIT = lazy(r"\s*(?:\([^()]*\)|\[[^\[\]]*\]|\bin (?:s|ms|sec|seconds))\s*$")
_AXIS = lazy(r"\bvs[ _](?:samples|tokens|steps|gigaflos)")
_LR = lazy(
    r"^lr[-_/](?:[a-z0-9]*(?:adam|sgd|adafactor|lion|muon|lamb|rmsprop|adagrad)[a-z0-9]*|group|param_group|pg)?"
    r"[-_/]?(?:(?:group|pg|param_group)[-_/]?)?[01]?$"
)
_PART = lazy(r"^(?:loss_[a-z][a-z0-9_]*|[a-z][a-z0-9_]*_loss(?:_\d+)?|[a-z0-9_]+_loss_(?:step|epoch))$")
# The terms of pix2pix and CycleGAN, which name the network and not that it is a loss.
_ADVERSARIAL = frozenset("g_gan g_l1 d_real d_fake d_a d_b g_a g_b cycle_a cycle_b idt_a idt_b".split())
_NOT_A_LOSS = lazy(r"scale|weight|coef|spike|ratio|best|type|fn|func|time|count|num_|ewm|ema|patience|lambda|scaler")
_OTHER = lazy(r"[^a-z0-9@]+")


def _known(name: str) -> str | None:
    if name in _NAMES:
        return _NAMES[name]
    if _DEVICE_MEMORY.fullmatch(name):
        return "memory"
    if name in _OBJECTIVES or name in _ADVERSARIAL or (_PART.match(name) and not _NOT_A_LOSS.search(name)):
        return "loss_part"
    return None


@lru_cache(maxsize=1 << 15)
def canonical(key: str) -> str | None:
    """The canonical name of a metric key or TensorBoard tag; None for what is no metric anyone compares here.

    Case and separators do not count; prefixes such as `train/` or `Train/Samples/` are taken off, and those of
    held-out data (`eval/`, `val_`, `validation `) turn `loss` into `eval_loss` and `step_time` into None.
    """
    text = key.strip().strip("'\"").strip().lower()
    if not text or len(text) > 120 or _AXIS.search(text):
        return None
    if text in _WHOLE:
        return _WHOLE[text]
    if text in _NEVER or text.startswith(("time/", "timing_s/", "probe/")):
        return None
    bare = text
    while (m := _UNIT.search(bare)) and m.start() > 0:
        bare = bare[: m.start()]
    parts = [p for p in (_OTHER.sub("_", part).strip("_") for part in bare.split("/")) if p]
    if not parts:
        return None
    held_out = False
    while len(parts) > 1 and (parts[0] in _EVAL or parts[0] in _GROUPS):
        whole = "_".join(parts)
        if parts[0] not in _EVAL and whole in _NAMES:
            break
        held_out = held_out or parts[0] in _EVAL
        parts = parts[1:]
    # "Loss/train" and "loss/val": the phase stands last.
    if len(parts) > 1 and (parts[-1] in _EVAL or parts[-1] in ("train", "training", "avg", "mean", "total")):
        if parts[-1] in _EVAL:
            held_out = True
        if parts[-1] not in ("mean", "avg", "total") or "_".join(parts) not in _NAMES:
            parts = parts[:-1]
    if len(parts) > 1 and parts[0] in ("loss", "metrics") and parts[1] in ("train", "eval", "val"):
        held_out = held_out or parts[1] != "train"
        parts = parts[2:] or parts[:1]
    name = "_".join(parts)
    if re.match(r"lr[-_/]", bare) and _LR.match(bare):
        return "lr"
    if parts[0] == "lr" and len(parts) == 2 and re.fullmatch(r"(?:pg|group|param_group_?)[01]", parts[1]):
        return "lr"
    found = _NAMES.get(name)
    head, _, rest = name.partition("_")
    if found is None and not held_out:
        if head in _EVAL and rest:
            held_out, found = True, _known(rest)
        elif head in ("train", "training") and rest:
            found = _known(rest)
        else:
            found = _known(name)
    elif found is None and (head in _EVAL or head in ("train", "training")):
        found = _NAMES.get(rest)
    if not held_out or found is None or found.startswith("eval_"):
        return found
    if found in ("step", "epoch"):
        return found if "/" not in text else None
    return f"eval_{found}" if found in HELD_OUT else None


@lru_cache(maxsize=1 << 15)
def is_objective(key: str) -> bool:
    """Whether a key names what training minimises by its formula: `mse loss`, `train_nll`, `cost`."""
    name = _OTHER.sub("_", key.strip().lower()).strip("_")
    return name.removeprefix("training_").removeprefix("train_") in _OBJECTIVES


@lru_cache(maxsize=1 << 15)
def axis_of(tag: str) -> bool:
    """Whether a tag says that its step is no step: `lm loss vs samples`, whose axis counts samples."""
    return _AXIS.search(tag.lower()) is not None


@lru_cache(maxsize=1 << 15)
def factor(key: str) -> float:
    """What a value under this key is multiplied with to be in the canonical unit.

    Times become seconds (`elapsed time per iteration (ms)`, `step_time_ms`); verl prints the learning rate under
    `actor/lr(1e-4)` as a multiple of the bracketed number.
    """
    text = key.strip().strip("'\"").lower()
    if re.search(r"\(ms\)$|[_ ]ms$", text):
        return 1e-3
    if m := re.search(r"\((1e-\d{1,2})\)$", text):
        return float(m.group(1))
    return 1.0
