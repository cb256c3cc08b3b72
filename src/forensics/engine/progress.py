"""A run that reached its stated number of steps came to its end, also where it prints nothing about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from forensics.engine.detectors.series import number
from forensics.engine.few import Row, few
from forensics.model import Evidence, Identity, Observation

if TYPE_CHECKING:
    import polars as pl

FINISHED = "run-finished"
# A bar that runs full over a handful of steps is as often a loader, a sanity check or a download.
FEWEST = 10
_TRAINING = ("loss", "reward", "policy_loss")
WEIGHT = 0.7  # many programs evaluate, convert or upload afterwards, and may fail there


def reached_total(metrics: pl.DataFrame) -> tuple[Observation, ...]:
    """One `run-finished` observation for each source whose step counter ends at its stated total.

    metrics: METRICS_COLUMNS, rows of one source in written order; `total_steps` rows say where the counter ends (of
    `iteration 200/ 200`, `step 400/400`, a training bar, HF's max_steps), once and where it changes. A counter that
    starts anew within the source counts batches of an epoch, and one whose records all lie in one epoch may do so;
    neither says anything. A bar alone, without a loss anywhere in the run, is not known to be of training.
    """
    import polars as pl

    if (small := few(metrics)) is not None:
        return tuple(_of_few(small))
    totals = metrics.filter((pl.col("name") == "total_steps") & (pl.col("value") >= FEWEST))
    if totals.is_empty() or metrics.filter(pl.col("name").is_in(_TRAINING)).is_empty():
        return ()
    found = []
    for source in totals["source"].unique(maintain_order=True).to_list():
        rows = metrics.filter(pl.col("source") == source)
        total = rows.filter(pl.col("name") == "total_steps")["value"][-1]
        bar = pl.when(pl.col("name") == "progress").then(pl.col("value"))
        count = pl.coalesce(pl.col("step").cast(pl.Float64), bar)
        counted = rows.select("line", "rank", "attempt", "epoch", "time", count=count)
        seen = _end(str(source), float(total), counted.drop_nulls("count").rows())
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _of_few(rows: Sequence[Row]) -> Iterator[Observation]:
    totals = [row for row in rows if row.name == "total_steps" and row.value is not None]
    if not totals or not any(row.name in _TRAINING for row in rows):
        return
    last = {row.source: row.value for row in totals}
    counted: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        bar = row.value if row.name == "progress" else None
        if (count := bar if row.step is None else row.step) is not None:
            said = (row.line, row.rank, row.attempt, row.epoch, row.time, count)
            counted.setdefault(row.source, []).append(said)
    # Of numbers that are not finite polars holds NaN for the largest, and so does this.
    for source in dict.fromkeys(row.source for row in totals if not (row.value or 0.0) < FEWEST):
        if (seen := _end(source, last[source] or 0.0, counted.get(source, ()))) is not None:
            yield seen


def _end(source: str, total: float, counted: Sequence[tuple[Any, ...]]) -> Observation | None:
    """counted: (line, rank, attempt, epoch, time, count) of the records of one source that count."""
    if not counted:
        return None
    counts = [row[-1] for row in counted]
    if counts[-1] != total or max(counts) > total:
        return None
    # Where the counter came to the total more than once, or within a single epoch, it counts something smaller.
    arrivals = [i for i, n in enumerate(counts) if n == total and (i == 0 or counts[i - 1] != total)]
    epochs = [e for *_, e, _, _ in counted if e is not None]
    if len(arrivals) != 1 or (epochs and int(epochs[-1]) == int(epochs[0]) and epochs[-1] == int(epochs[-1])):
        return None
    line = counted[arrivals[0]][0]
    _, rank, attempt, _, time, _ = counted[-1]
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
