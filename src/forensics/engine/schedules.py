"""A learning rate that stands still although the run's own settings name a schedule that changes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.detectors.series import Sign, Stream, merge, number, remembered_streams, streams
from forensics.model import Fact, Observation

if TYPE_CHECKING:
    import polars as pl

SIGNATURE = "lr-not-as-scheduled"
# Schedules of transformers.SchedulerType that change the rate from one step to the next, from the first step on. Others
# are constant, wait for a plateau, or hold a level between warm-up and decay.
MOVING = frozenset({"linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt"})
SETTING = "args.lr_scheduler_type"  # HF Trainer writes its arguments as a text of its event file
# Where else settings stand: a JSON or YAML file of arguments, HF Trainer's training_args.bin, what Weights & Biases
# keeps, and arguments that the log prints.
PLACES = ("config", "training_args", "wandb.config", "arguments")
# The argument of HF Trainer, and that of the diffusers scripts, which knows the same names.
BESIDE = frozenset(f"{place}.{name}" for place in PLACES for name in ("lr_scheduler_type", "lr_scheduler"))
# What scripts of other makers call it (timm's `sched`). They may step it once an epoch, so epochs tell how far
# a schedule has come; `scheduler` is also that of the noise of diffusion models.
OTHERS = frozenset(f"{place}.{name}" for place in PLACES for name in ("sched", "lr_sched", "lr_schedule", "scheduler"))
NOISE = ("noise", "timesteps", "beta_", "diffusion")
MOVING_OTHERS = frozenset({"cosine", "cosineannealinglr", "cosine_annealing", "linear", "polynomial", "poly", "tanh"})
PLANNED_EPOCHS = frozenset(f"{place}.{name}" for place in PLACES for name in ("epochs", "num_epochs", "max_epochs"))
# Epochs that a record has to go through, and their part of those that are planned: a tenth of a cosine takes 2.4 % off.
FEWEST_EPOCHS, OF_PLANNED, UNPLANNED = 3, 0.1, 30
PLANNED = frozenset(f"{place}.{name}" for place in PLACES for name in ("max_steps", "max_train_steps"))
WARM_UP = frozenset(f"{place}.{name}" for place in PLACES for name in ("warmup_steps", "lr_warmup_steps"))
IN_WARM_UP = 3  # records of the full rate in the steps of a linear warm-up, where each has another one
RECORDS = 10
# Logs may round rates to four digits, in which the first hundredth of a cosine stands still. Trainers run few epochs.
# The same part of the steps that are planned, where the settings say how many, is as much of the schedule.
LOGGED, EPOCHS = 50, 0.9
WEIGHT, WEIGHT_OF_LOGS = (
    0.75,
    0.6,
)  # a schedule can be given to the trainer as an object, which its arguments do not tell


def rate_stands_still(metrics: pl.DataFrame, facts: Sequence[Fact]) -> tuple[Observation, ...]:
    """One observation where the run's settings state a schedule in MOVING and its rates are all equal (O23).

    metrics: METRICS_COLUMNS. Rates above zero, exactly the same in all records: at least RECORDS of an event file in
    the folder whose event files state the schedule, or LOGGED of a log (or of trainer_state.json, which has no lines)
    that goes through most of an epoch, or of the steps that are planned (EPOCHS), or begins in a warm-up whose steps
    are stated (IN_WARM_UP), where all files of arguments in the run, and the log, state one and the same schedule.
    Where only a setting of OTHERS names one, over some epochs.
    """
    stated = {f.source.rpartition("/")[0]: f.value for f in facts if f.name == SETTING and f.value in MOVING}
    beside = {f.value for f in facts if f.name in BESIDE}
    of_logs = next(iter(beside)) if len(beside) == 1 and beside <= MOVING else None
    others = None if stated or beside else _other(facts)
    if not stated and of_logs is None and others is None:
        return ()
    epochs = {int(f.value) for f in facts if f.name in PLANNED_EPOCHS and f.value.isdecimal() and int(f.value) > 0}
    planned = {int(f.value) for f in facts if f.name in PLANNED and f.value.isdecimal() and int(f.value) > 0}
    warm = {int(f.value) for f in facts if f.name in WARM_UP and f.value.isdecimal() and int(f.value) > 0}
    signs = []
    found = streams(metrics, ("lr", "loss"))
    for stream in found:
        folder, _, file = stream.source.rpartition("/")
        of_events = "tfevents" in file
        if (kind := others or (stated.get(folder) if of_events else of_logs)) is None:
            continue
        if others is not None and (of_events or not _over_epochs(stream, epochs)):
            continue
        at, rates = stream.curve("lr")
        if len(rates) < RECORDS or not 0 < min(rates) == max(rates):
            continue
        if not of_events and (
            len(rates) < LOGGED or not (_goes_far(stream, planned) or _skips_warm_up(stream, at, warm))
        ):
            continue
        weight = WEIGHT if of_events else WEIGHT_OF_LOGS
        note = f"the schedule is {kind}, and the rate is {number(rates[0])} in all {len(rates)} records"
        shown = tuple(stream.evidence(i, "lr", "loss") for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "lr", weight, {"schedule": kind}))
    remembered_streams.cache_clear()  # it holds every number of the table
    return tuple(replace(o, signature=SIGNATURE) for o in merge(signs, found, ())) if signs else ()


def _other(facts: Sequence[Fact]) -> str | None:
    """The schedule that a setting of OTHERS names, where all of them name one, and none speaks of diffusion."""
    named = {f.value for f in facts if f.name in OTHERS}
    if len(named) != 1 or any(word in f.name.lower() for f in facts for word in NOISE):
        return None
    name = next(iter(named))
    return name if name.lower() in MOVING_OTHERS else None


def _over_epochs(stream: Stream, planned: Collection[int]) -> bool:
    """Whether a record goes through so many epochs that a rate which is rounded has to show the schedule."""
    epochs = [e for e in stream.epochs if e is not None]
    least = max(FEWEST_EPOCHS, OF_PLANNED * next(iter(planned))) if len(planned) == 1 else UNPLANNED
    return bool(epochs) and max(epochs) - min(epochs) >= least


def _goes_far(stream: Stream, planned: Collection[int]) -> bool:
    """Whether a record goes through most of an epoch, or of the steps that are planned, where one number is stated."""
    epochs = [e for e in stream.epochs if e is not None]
    if epochs:
        return max(epochs) >= EPOCHS
    steps = [s for s in stream.steps if s is not None]
    return bool(steps) and len(planned) == 1 and max(steps) - min(steps) >= EPOCHS * next(iter(planned))


def _skips_warm_up(stream: Stream, at: Sequence[int], warm: Collection[int]) -> bool:
    """Whether records `at`, all of one rate, begin in a warm-up, where one number of steps is stated for it."""
    if len(warm) != 1:
        return False
    return len({s for i in at if (s := stream.steps[i]) is not None and 0 <= s < next(iter(warm))}) >= IN_WARM_UP
