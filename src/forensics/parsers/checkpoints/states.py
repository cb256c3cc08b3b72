"""The states that a checkpoint may hold, by name; beside no code, for most runs have no checkpoint to read."""

from __future__ import annotations

MODEL, OPTIMIZER, SCHEDULER, SCALER, RNG, EMA = "model", "optimizer", "scheduler", "scaler", "rng", "ema"
STEP, EPOCH, DATA = "step", "epoch", "dataloader"
STATES = (MODEL, OPTIMIZER, SCHEDULER, SCALER, RNG, EMA, STEP, EPOCH, DATA)
RESTORED = (SCHEDULER, SCALER, RNG, EMA, STEP)  # what a run may need to go on, beside model and optimizer
# Wrappers put these before (FSDP and checkpoint wrappers: within) the name of every parameter.
PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.")
