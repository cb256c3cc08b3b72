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
RECORDS = 10
WEIGHT = 0.75  # a schedule can be given to the trainer as an object, which its arguments do not tell


def rate_stands_still(metrics: pl.DataFrame, facts: Sequence[Fact]) -> tuple[Observation, ...]:
    """One observation where an event file states a schedule in MOVING and its folder's rates are all equal (O23).

    metrics: METRICS_COLUMNS. At least RECORDS records of a rate above zero, exactly the same in all of them.
    """
    stated = {f.source.rpartition("/")[0]: f for f in facts if f.name == SETTING and f.value in MOVING}
    if not stated:
        return ()
    signs = []
    found = [s for s in streams(metrics, ("lr", "loss")) if s.binary and s.source.rpartition("/")[0] in stated]
    for stream in found:
        at, rates = stream.curve("lr")
        if len(rates) < RECORDS or not 0 < min(rates) == max(rates):
            continue
        kind = stated[stream.source.rpartition("/")[0]].value
        note = f"the schedule is {kind}, and the rate is {number(rates[0])} in all {len(rates)} records"
        shown = tuple(stream.evidence(i, "lr", "loss") for i in (at[0], at[-1]))
        signs.append(Sign(stream, at[0], shown, note, "lr", WEIGHT, {"schedule": kind}))
    remembered_streams.cache_clear()  # it holds every number of the table
    return tuple(replace(o, signature=SIGNATURE) for o in merge(signs, found, ())) if signs else ()
