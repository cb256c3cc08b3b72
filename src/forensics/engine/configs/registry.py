"""Which checks there are, by the names that signature files call them by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forensics.engine.configs import checkpoints, deepspeed, diffusion, launch, models, optimizers, precision
from forensics.engine.configs.view import Sign

Check = Callable[..., Iterator[Sign]]

REGISTRY: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        deepspeed.deepspeed_precisions,
        deepspeed.deepspeed_precision_apart,
        deepspeed.deepspeed_batch,
        deepspeed.deepspeed_auto,
        deepspeed.accumulation_set_twice,
        deepspeed.checkpoint_layout,
        precision.both_precisions,
        precision.scaling_under_bf16,
        precision.bf16_on_old_gpu,
        precision.fp16_where_bf16,
        precision.fused_under_scaling,
        precision.reduce_type_open,
        optimizers.decay_with_adam,
        diffusion.noise_schedules,
        models.tokens_beyond_embedding,
        models.adapter_without_embeddings,
        models.rope_settings,
        models.longer_than_positions,
        models.padding_side,
        models.pad_token_unset,
        models.packing_attention,
        models.preference_settings,
        launch.find_unused_off,
        launch.find_unused_with_checkpointing,
        launch.single_process,
        launch.fsdp_without_wrapping,
        launch.fsdp_full_state,
        launch.versions_differ,
        launch.accumulation_unnormalised,
        checkpoints.best_model_settings,
        checkpoints.best_checkpoint_removed,
    )
}
