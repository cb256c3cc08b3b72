"""A run that reached its stated number of steps came to its end, also where it prints nothing about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forensics.engine.detectors.series import number
from forensics.model import Evidence, Identity, Observation

if TYPE_CHECKING:
    import polars as pl

FINISHED = "run-finished"
# A bar that runs full over a handful of steps is as often a loader, a sanity check or a download.
FEWEST = 10
WEIGHT = 0.7  # many programs evaluate, convert or upload afterwards, and may fail there


def reached_total(metrics: pl.DataFrame) -> tuple[Observation, ...]:
    """One `run-finished` observation for each source whose step counter ends at its stated total.

    metrics: METRICS_COLUMNS, rows of one source in written order; `total_steps` rows say where the counter ends (of
    `iteration 200/ 200`, `step 400/400`, a training bar, HF's max_steps), once and where it changes. A counter that
    starts anew within the source counts batches of an epoch, and one whose records all lie in one epoch may do so;
    neither says anything. A bar alone, without a loss anywhere in the run, is not known to be of training.
    """
    import polars as pl

    totals = metrics.filter((pl.col("name") == "total_steps") & (pl.col("value") >= FEWEST))
    if totals.is_empty() or metrics.filter(pl.col("name").is_in(["loss", "reward", "policy_loss"])).is_empty():
        return ()
    found = []
    for source in totals["source"].unique(maintain_order=True).to_list():
        seen = _end(metrics.filter(pl.col("source") == source), str(source))
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _end(rows: pl.DataFrame, source: str) -> Observation | None:
    import polars as pl

    total = float(rows.filter(pl.col("name") == "total_steps")["value"][-1])
    count = pl.coalesce(pl.col("step").cast(pl.Float64), pl.when(pl.col("name") == "progress").then(pl.col("value")))
    counted = rows.with_columns(count=count).filter(pl.col("count").is_not_null())
    if counted.is_empty():
        return None
    counts = counted["count"].to_list()
    if counts[-1] != total or max(counts) > total:
        return None
    # Where the counter came to the total more than once, or within a single epoch, it counts something smaller.
    arrivals = [i for i, n in enumerate(counts) if n == total and (i == 0 or counts[i - 1] != total)]
    epochs = [e for e in counted["epoch"].to_list() if e is not None]
    if len(arrivals) != 1 or (epochs and int(epochs[-1]) == int(epochs[0]) and epochs[-1] == int(epochs[-1])):
        return None
    line, time = counted["line"][arrivals[0]], counted["time"][-1]
    attempt, rank = counted["attempt"][-1], counted["rank"][-1]
    text = f"the step counter reaches {number(total)} of {number(total)}"
    return Observation(
        signature=FINISHED,
        weight=WEIGHT,
        evidence=(Evidence(source, line, None, text),),
        identity=Identity(rank=rank, attempt=attempt),
        culprits=(),
        time=time,
        step=int(total),
        step_is="exact",
        note=text,
    )
