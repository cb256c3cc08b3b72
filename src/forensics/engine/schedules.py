"""A learning rate that stands still although the run's own settings name a schedule that changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.engine.detectors.series import Sign, merge, number, remembered_streams, streams
from forensics.model import Fact, Observation

if TYPE_CHECKING:
    import polars as pl

SIGNATURE = "lr-not-as-scheduled"
# Schedules of transformers.SchedulerType that change the rate from one step to the next, from the first step on. Others
# are constant, wait for a plateau, or hold a level between warm-up and decay.
MOVING = frozenset({"linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt"})
SETTING = "args.lr_scheduler_type"  # HF Trainer writes its arguments as a text of its event file
# The same argument in a file beside the log: a JSON or YAML file of arguments, HF Trainer's training_args.bin, or the
# settings that Weights & Biases keeps.
BESIDE = frozenset({"config.lr_scheduler_type", "training_args.lr_scheduler_type", "wandb.config.lr_scheduler_type"})
RECORDS = 10
# Logs may round rates to four digits, in which the first hundredth of a cosine stands still. Trainers run few epochs.
LOGGED, EPOCHS = 50, 0.9
WEIGHT, WEIGHT_OF_LOGS = (
    0.75,
    0.6,
)  # a schedule can be given to the trainer as an object, which its arguments do not tell


def rate_stands_still(metrics: pl.DataFrame, facts: Sequence[Fact]) -> tuple[Observation, ...]:
    """One observation where the run's settings state a schedule in MOVING and its rates are all equal (O23).

    metrics: METRICS_COLUMNS. Rates above zero, exactly the same in all records: at least RECORDS of an event file in
    the folder whose event files state the schedule, or LOGGED of a log (or of trainer_state.json, which has no lines)
    that goes through most of an epoch (EPOCHS) where all files of arguments in the run state one and the same schedule.
    """
    stated = {f.source.rpartition("/")[0]: f.value for f in facts if f.name == SETTING and f.value in MOVING}
    beside = {f.value for f in facts if f.name in BESIDE}
    of_logs = next(iter(beside)) if len(beside) == 1 and beside <= MOVING else None
    if not stated and of_logs is None:
        return ()
    signs = []
    found = streams(metrics, ("lr", "loss"))
    for stream in found:
        folder, _, file = stream.source.rpartition("/")
        of_events = "tfevents" in file
        if (kind := stated.get(folder) if of_events else of_logs) is None:
            continue
        at, rates = stream.curve("lr")
        if len(rates) < RECORDS or not 0 < min(rates) == max(rates):
            continue
        epochs = [e for e in stream.epochs if e is not None]
        if not of_events and (len(rates) < LOGGED or not epochs or max(epochs) < EPOCHS):
            continue
        weight = WEIGHT if of_events else WEIGHT_OF_LOGS
        note = f"the schedule is {kind}, and the rate is {number(rates[0])} in all {len(rates)} records"
        shown = tuple(stream.evidence(i, "lr", "loss") for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "lr", weight, {"schedule": kind}))
    remembered_streams.cache_clear()  # it holds every number of the table
    return tuple(replace(o, signature=SIGNATURE) for o in merge(signs, found, ())) if signs else ()
