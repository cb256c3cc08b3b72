"""Which entry of the catalogue a check shows, and which findings of a run its hits can speak for."""

from __future__ import annotations

from dataclasses import dataclass

_DESYNC = (
    "rank-conditional-collective",
    "collective-desync",
    "collective-op-mismatch",
    "collective-shape-mismatch",
    "collective-dtype-mismatch",
    "monitored-barrier-timeout",
)
_HANGS = ("collective-timeout", "straggler-rank", "rank-stuck-on-device", "rank0-side-work", "subgroup-order-mismatch")
_NOT_LEARNING = ("weights-not-updated", "learning-rate-too-low", "layer-not-updated")
_UNSTABLE = ("loss-divergence", "nan-loss", "nan-gradients", "loss-spike")
_MEMORY = ("cuda-oom", "host-oom", "host-oom-cgroup", "host-oom-ray-monitor", "cublas-alloc-failed", "cudnn-oom")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a hit of a check means.

    weight: how often a hit is what the check looks for, 0..1, as seen on programs that were read by hand.
    supports: findings that it speaks for by their kind, beside those of its own signature.
    at_place: findings that it speaks for only where the run stood at the place that was hit.
    alone: whether it is worth telling where no finding of the run fits it.
    placed: whether it speaks for nothing where the run is known to have stood elsewhere in the programs.
    """

    signature: str
    weight: float
    supports: tuple[str, ...] = ()
    at_place: tuple[str, ...] = ()
    alone: bool = True
    placed: bool = False


RULES: dict[str, Rule] = {
    "rank_conditional_collective": Rule("rank-conditional-collective", 0.85, _DESYNC, _HANGS, placed=True),
    "data_dependent_collective": Rule("rank-conditional-collective", 0.75, _DESYNC, _HANGS, placed=True),
    "sync_on_rank_zero": Rule("rank-conditional-collective", 0.9, _DESYNC, _HANGS, placed=True),
    "set_epoch_missing": Rule("sampler-epoch-not-set", 0.85, ("data-order-repeats",)),
    "shuffle_with_sampler": Rule("sampler-shuffle-conflict", 0.95),
    "numpy_generator_in_dataset": Rule("numpy-rng-same-in-workers", 0.8),
    "worker_seed_constant": Rule("numpy-rng-same-in-workers", 0.85),
    "iterable_not_split": Rule("stream-duplicated-per-worker", 0.8, ("ranks-train-on-same-data",)),
    "cuda_in_worker": Rule("cuda-fork-reinit", 0.8, ("dataloader-worker-exception",)),
    "pin_memory_custom_batch": Rule("pin-memory-custom-batch", 0.8),
    "images_in_bgr": Rule("bgr-for-rgb", 0.7),
    "augmentation_at_evaluation": Rule("eval-not-deterministic", 0.8),
    "normalisation_differs": Rule("input-normalisation-differs", 0.75),
    "normalize_before_tensor": Rule("transform-order-wrong", 0.95),
    "fitted_before_split": Rule("fitted-before-split", 0.8),
    "softmax_before_cross_entropy": Rule("softmax-before-cross-entropy", 0.9, _NOT_LEARNING),
    "sigmoid_before_bce_with_logits": Rule("sigmoid-before-bce-with-logits", 0.9, _NOT_LEARNING),
    "bce_on_logits": Rule("bce-input-range", 0.85, ("device-side-assert",)),
    "nll_without_log_softmax": Rule("nll-without-log-softmax", 0.85, _UNSTABLE),
    "detached_loss": Rule("detached-graph", 0.85, _NOT_LEARNING),
    "inplace_on_leaf": Rule("inplace-on-leaf", 0.9),
    "labels_not_masked": Rule("prompt-labels-not-masked", 0.75),
    "zero_grad_wrong": Rule("gradients-not-cleared", 0.9, (*_NOT_LEARNING, *_UNSTABLE, "exploding-gradients")),
    "clip_after_step": Rule("gradients-clipped-too-late", 0.9, (*_UNSTABLE, "exploding-gradients")),
    "scheduler_before_optimizer": Rule("scheduler-before-optimizer", 0.85, ("lr-not-as-scheduled",)),
    "scheduler_cadence": Rule(
        "scheduler-at-wrong-cadence", 0.85, ("scheduler-overrun", "lr-not-as-scheduled", "learning-rate-too-low")
    ),
    "accumulation_not_averaged": Rule(
        "accumulated-loss-not-divided", 0.8, ("accumulation-unnormalised", *_UNSTABLE, "exploding-gradients")
    ),
    "graph_kept": Rule("loss-graph-kept", 0.8, _MEMORY),
    "clip_without_unscale": Rule("clipped-while-scaled", 0.9, _NOT_LEARNING),
    "scaler_update_wrong": Rule("gradscaler-step-twice", 0.85, ("gradscaler-no-inf-checks", "loss-scale-stall")),
    "unscale_twice": Rule("unscale-called-twice", 0.85),
    "scaler_bypassed": Rule("loss-scaler-bypassed", 0.85, (*_UNSTABLE, *_NOT_LEARNING, "gradscaler-no-inf-checks")),
    "scaler_with_bfloat16": Rule("loss-scaling-under-bf16", 0.7, ("loss-scaling-under-bf16", "grad-scaler-collapse")),
    "engine_bypassed": Rule("engine-bypassed", 0.8, _NOT_LEARNING),
    "eval_without_train": Rule("train-eval-mode-wrong", 0.8, ("rnn-backward-in-eval",)),
    "evaluation_in_training_mode": Rule("train-eval-mode-wrong", 0.8, ("batchnorm-single-sample",)),
    "evaluation_with_gradients": Rule("evaluation-with-gradients", 0.7, (), _MEMORY),
    "device_by_global_rank": Rule(
        "wrong-device-assignment", 0.85, ("duplicate-gpu", "nccl-invalid-usage", "nccl-unhandled-cuda-error")
    ),
    "wrapped_before_moved": Rule("wrapped-in-wrong-order", 0.8, ("device-mismatch", "process-group-device-mismatch")),
    "sync_batchnorm_after_ddp": Rule("wrapped-in-wrong-order", 0.75, ("batchnorm-buffers-differ",)),
    "optimizer_before_model": Rule("optimizer-holds-other-parameters", 0.85, _NOT_LEARNING),
    "optimizer_before_move": Rule("optimizer-holds-other-parameters", 0.5, ("device-mismatch",), alone=False),
    "batchnorm_not_synchronised": Rule(
        "batchnorm-buffers-differ", 0.75, ("gradients-inconsistent-between-ranks", "model-mismatch-across-ranks")
    ),
    "layers_without_gradient": Rule("ddp-unused-parameters", 0.75, ("find-unused-parameters-off",), _HANGS),
    "every_rank_saves": Rule(
        "every-rank-saves", 0.75, ("file-exists-race", "checkpoint-corrupt", "checkpoint-write-failed")
    ),
    "state_not_saved": Rule(
        "checkpoint-without-optimizer", 0.75, ("optimizer-not-restored", "resume-weights-not-restored", "loss-spike")
    ),
    "scaler_not_saved": Rule("loss-scale-stall", 0.7, ("gradscaler-state-empty",), alone=False),
    "checkpoint_key_mismatch": Rule("state-under-other-key", 0.85),
    "wrapped_state_saved": Rule(
        "state-dict-prefix-module", 0.8, ("state-dict-key-mismatch", "state-dict-prefix-orig-mod")
    ),
    "load_without_map_location": Rule(
        "load-without-map-location", 0.6, ("gpu-shared-with-other-process", "checkpoint-device-missing"), _MEMORY
    ),
    "load_not_strict": Rule(
        "load-not-strict", 0.6, ("resume-weights-not-restored", "checkpoint-names-differ"), alone=False
    ),
    "best_model_settings": Rule("best-model-settings-conflict", 0.9, ("best-model-config-conflict",)),
}  # fmt: skip
