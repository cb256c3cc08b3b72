"""Checks: what in a program shows an entry of the catalogue.

A check is a function `(program, project) -> Iterator[Hit]`: it is called once for each program, and sees all of them in
`project`. Its docstring says what it looks for, and when it stays silent. Signature files name checks:

    [[evidence]]
    source = "code"
    detector = "softmax_before_cross_entropy"
    weight = 0.6
    supports = ["weights-not-updated"]  # findings of a run that a hit speaks for, beside the signature itself
    alone = true                        # whether a hit is worth telling where no finding of the run fits it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forensics.sources.checks import collectives, data, loop, losses, modes, precision, saving, wrapping
from forensics.sources.hits import Hit
from forensics.sources.program import Program
from forensics.sources.project import Project

Check = Callable[[Program, Project], Iterator[Hit]]

REGISTRY: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        collectives.rank_conditional_collective,
        collectives.data_dependent_collective,
        collectives.sync_on_rank_zero,
        data.set_epoch_missing,
        data.shuffle_with_sampler,
        data.numpy_generator_in_dataset,
        data.worker_seed_constant,
        data.iterable_not_split,
        data.cuda_in_worker,
        data.pin_memory_custom_batch,
        data.images_in_bgr,
        data.augmentation_at_evaluation,
        data.normalisation_differs,
        data.normalize_before_tensor,
        data.fitted_before_split,
        losses.softmax_before_cross_entropy,
        losses.sigmoid_before_bce_with_logits,
        losses.bce_on_logits,
        losses.nll_without_log_softmax,
        losses.detached_loss,
        losses.inplace_on_leaf,
        losses.labels_not_masked,
        loop.zero_grad_wrong,
        loop.clip_after_step,
        loop.scheduler_before_optimizer,
        loop.scheduler_cadence,
        loop.accumulation_not_averaged,
        loop.graph_kept,
        precision.clip_without_unscale,
        precision.scaler_update_wrong,
        precision.unscale_twice,
        precision.scaler_bypassed,
        precision.scaler_with_bfloat16,
        precision.engine_bypassed,
        modes.eval_without_train,
        modes.evaluation_in_training_mode,
        modes.evaluation_with_gradients,
        wrapping.device_by_global_rank,
        wrapping.wrapped_before_moved,
        wrapping.sync_batchnorm_after_ddp,
        wrapping.optimizer_before_model,
        wrapping.optimizer_before_move,
        wrapping.batchnorm_not_synchronised,
        wrapping.layers_without_gradient,
        saving.every_rank_saves,
        saving.state_not_saved,
        saving.scaler_not_saved,
        saving.checkpoint_key_mismatch,
        saving.wrapped_state_saved,
        saving.load_without_map_location,
        saving.load_not_strict,
        saving.best_model_settings,
    )
}
