"""Keys and tags of many frameworks, as their sources spell them, and what must not be taken for a metric."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.parsers.names import HELD_OUT, NAMES, canonical, factor

KNOWN = {
    "loss": "loss, lm loss, lm_loss, Loss, train/loss, train_loss, training loss, Train/Samples/train_loss, reduced_train_loss, "
    "total_loss, loss/train/total, Loss/train, loss_metrics/global_avg_loss, train_loss_step, train_loss_epoch, "
    "metrics/train/LanguageCrossEntropy, lm-loss-training/lm loss, train/gpt_loss, epoch_loss",
    "eval_loss": "eval_loss, val_loss, valid_loss, validation loss, eval/loss, val/loss, validation/lm_loss, Loss/val, "
    "validation_metrics/loss, lm loss validation, lm loss value, Train/Samples/eval_loss, metrics/eval/LanguageCrossEntropy, "
    "test_loss, val_loss_epoch, eval/eval_loss, lm-loss-validation/lm loss validation",
    "loss_part": "box_loss, train/box_loss, loss_cls, mtp_1 loss, load_balancing_loss, nll_loss, g_loss, d_loss",
    "grad_norm": "grad_norm, grad norm, grad-norm, Grad Norm, gnorm, train/grad_norm, actor/grad_norm, l2_norm/grad/global, "
    "grad_2.0_norm_total, train/actor_grad_norm, grad-norm/grad-norm",
    "lr": "lr, LR, learning rate, learning-rate, learning_rate, train/learning_rate, lr-AdamW, lr-AdamW/pg1, "
    "lr-DecoupledAdamW/group0, lr/pg0, actor/lr, actor/lr(1e-4), Train/Samples/lr, learning/current_learning_rate, "
    "epoch_learning_rate",
    "loss_scale": "amp/loss_scale, fp16/scale, scaler/scale, loss scale, loss-scale, loss_scale, Train/Samples/loss_scale, train/loss_scale",
    "skipped_steps": "number of skipped iterations",
    "skipped_total": "skipped",
    "nan_steps": "number of nan iterations",
    "step": "step, iteration, iter, global_step, num_updates, current_steps, train/global_step, training/global_step, Steps",
    "epoch": "epoch, Epoch, train/epoch",
    "step_time": "elapsed time per iteration (ms), iter time (s), step_time, train_step_timing in s, time_per_iteration_ms, "
    "time_metrics/end_to_end(s), perf/time_per_step, timing_s/step, iteration-time",
    "throughput": "tps, wps, samples/sec, tokens per gpu per second (tgs), throughput(tps), tokens_per_second_per_gpu, "
    "Tokens/s/device, CurrSamplesPerSec, throughput/device/tokens_per_sec, throughput/samples_per_sec",
    "kl": "kl, approx_kl, train/approx_kl, objective/kl, actor/ppo_kl, policy/approxkl_avg",
    "entropy": "entropy, actor/entropy, train/entropy_loss",
    "policy_loss": "policy_loss, actor/pg_loss, loss/policy_avg, train/policy_gradient_loss",
    "value_loss": "value_loss, critic/vf_loss, train/value_loss, train/critic_loss",
    "reward": "reward, rollout/ep_rew_mean, critic/rewards/mean, train/reward, charts/episodic_return, episode_return",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std, train/frac_reward_zero_std",
    "margin": "rewards/margins, train/rewards/margins",
    "accuracy": "accuracy, acc, Acc@1, rewards/accuracies, train/acc",
    "eval_accuracy": "val_acc, val_accuracy, eval_top1, eval/accuracy",
    "perplexity": "ppl, perplexity, metrics/train/LanguagePerplexity",
    "eval_perplexity": "valid_ppl, lm loss PPL, lm loss validation ppl",
    "clip_fraction": "clip_fraction, actor/pg_clipfrac, train/clip_fraction",
    "clipped_ratio": "completions/clipped_ratio, response_length/clip_ratio",
    "explained_variance": "explained_variance, train/explained_variance, critic/vf_explained_var",
    "memory": "memory, max_mem, memory/max_reserved(GiB), vram_allocated, memory/peak_reserved_mem, "
    "gpu_memory_allocated_gb, system/gpu_mem_allocated_gb, cuda_max_memory_allocated, system/gpu.0.memoryAllocatedBytes, "
    "system.gpu.process.1.memoryAllocatedBytes, gpu_0_memory_used_mb",
    "host_memory": "rss_gb, system/proc.memory.rssMB",
    "tokens": "consumed_tokens, num_tokens, n_tokens_seen, time/token",
    "samples_seen": "consumed samples, consumed_samples",
    "total_steps": "total_steps, max_steps",
}
UNKNOWN = (
    "", "rank", "max_grad_norm", "loss_scale_window", "min_loss_scale", "loss_weight", "kl_coef", "train/train_loss",
    "lm loss vs samples", "learning-rate vs tokens", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second",
    "lr-Adam-momentum", "system/gpu.0.powerWatts", "system/cpu", "system/memory", "gpu_memory_total_gb", "amp/enabled", "critic/lr", "critic/grad_norm", "decoupled learning rate", "base_lr", "timing_s/gen", "best_loss",
    "time/total", "num zeros", "weight_decay", "eta", "v_num", "val/grad_norm_timer", "x" * 500, "loss_fn", "seed",
)  # fmt: skip


@pytest.mark.parametrize(("key", "name"), [(k.strip(), n) for n, keys in KNOWN.items() for k in keys.split(",")])
def test_known(key, name):
    assert canonical(key) == name
    assert canonical(f"  '{key}' ") == name


@pytest.mark.parametrize("key", UNKNOWN)
def test_unknown(key):
    assert canonical(key) is None


@pytest.mark.parametrize("name", sorted(NAMES - {"loss_part", "overflow", "progress"}))
def test_canonical_names_are_their_own(name):
    assert canonical(name) == name


@pytest.mark.parametrize("name", sorted(HELD_OUT))
@pytest.mark.parametrize("prefix", ["eval/", "val_", "validation ", "test/", "valid_", "Eval_"])
def test_held_out_data_is_never_taken_for_training(name, prefix):
    assert canonical(prefix + name) == f"eval_{name}"


def test_factors():
    assert factor("elapsed time per iteration (ms)") == 1e-3
    assert factor("time_per_iteration_ms") == 1e-3
    assert factor("iter time (s)") == 1.0
    assert factor("actor/lr(1e-4)") == 1e-4
    assert factor("loss") == 1.0


@given(st.text(max_size=60))
def test_any_text(text):
    assert canonical(text) is None or canonical(text) in NAMES
    assert factor(text) > 0
