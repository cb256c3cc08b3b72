"""The names under which the probe writes and detectors read; imports nothing."""

from __future__ import annotations

# `parsers/names.py` makes these canonical: loss, grad_norm, loss_scale, skipped_total, update_ratio, and group 0's lr.
LOSS = "probe/loss"
GRAD_NORM = "probe/grad_norm"  # of what the optimizer steps with: unscaled, and clipped where the loop clips
GRAD_NORM_LOCAL = "probe/grad_norm_local"  # of this rank's shards only, where parameters are sharded
LOSS_SCALE = "probe/loss_scale"
SKIPPED = "probe/skipped_total"
LR = "probe/lr/group"  # and the number of the parameter group
SCHEDULED = "probe/scheduled_lr/group"
RATIO = "probe/update_ratio/"  # and the module: norm of one update over norm of the weights
RATIO_TOTAL = "probe/update_ratio"  # canonical too
MODULE_GRAD = "probe/module_grad_norm/"
HELD = "probe/optimizer_holds"  # share of the trainable parameters that the optimizers hold, 0..1
STEPS = "probe/optimizer_steps"  # calls of the optimizers' steps since the probe was made; where they have hooks
LOST = "probe/not_held/"  # and the module: share of it, 0..1, that gets gradients, no optimizer holds, and stands still
UNCHANGED = "probe/weights_unchanged"  # 1 where no weight at all has changed since the first look; else not written
DEAD = "probe/dead_units/"  # and the module: share of units that are zero for the whole batch, 0..1
# Its value is 1 and the number of modules before this one that were not watched in that step.
NONFINITE = "probe/nonfinite/"  # "output/", "gradient/" or "weights/" and the module; "input"; "loss"
OUTPUT, GRADIENT, WEIGHTS, INPUT, LOSS_ONLY = "output/", "gradient/", "weights/", "input", "loss"
SAMPLES_HASH = "probe/samples/hash"  # 24 bits of a CRC-32 of the ids: exact as a float32
SAMPLES_COUNT = "probe/samples/count"
SAMPLE_IDS = "probe/sample_ids"  # text
LAST_STEP = "probe/last_step"  # written by close() at the end of a loop that no exception ended
DATA_PARALLEL = "probe/data_parallel_size"  # ranks that train one model on different data; where it is known
