"""Learning rates that are not what the schedule or the log says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.detectors.names import finite, names_where, recorded
from forensics.engine.detectors.series import Sign, merge, number, streams
from forensics.model import Observation
from forensics.probe import tags

if TYPE_CHECKING:
    import polars as pl


def rate_not_scheduled(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, close: float = 0.01, records: int = 3
) -> tuple[Observation, ...]:
    """The optimizer uses another learning rate than the schedule says, to the end of the record (O23).

    close: relative difference that rounding explains. records: in a row, the last ones, that must differ.
    """
    names = names_where(metrics, lambda n: n.startswith((tags.LR, tags.SCHEDULED)))
    if not any(name.startswith(tags.SCHEDULED) for name in names):
        return ()
    signs: list[Sign] = []
    found = streams(metrics, (*names, "lr", "loss"))
    for stream in found:
        for said in (name for name in names if name.startswith(tags.SCHEDULED) and name in stream.columns):
            group = said.removeprefix(tags.SCHEDULED)
            actual = "lr" if group == "0" else tags.LR + group
            pairs = [
                (i, a, s) for i, (a, s) in enumerate(zip(stream.column(actual), stream.column(said), strict=True))
                if a is not None and s is not None
            ]  # fmt: skip
            wrong = [abs(a - s) > close * max(abs(a), abs(s)) for _, a, s in pairs]
            start = len(wrong)
            while start and wrong[start - 1]:
                start -= 1
            if len(wrong) - start < records:
                continue
            at, rate, scheduled = pairs[start]
            last = pairs[-1]
            note = (
                f"parameter group {group} is trained at a rate of {number(rate)} at {stream.where(at)} where the"
                f" schedule says {number(scheduled)}, and at {number(last[1])} instead of {number(last[2])} at the end"
            )
            shown = tuple(stream.evidence(i, actual, said, "loss") for i in (at, last[0]))
            signs.append(Sign(stream, at, shown, note, actual, captures={"group": group}))
    return merge(signs[:1], found, ()) if signs else ()


def logged_rate_stale(
    metrics: pl.DataFrame, observations: Sequence[Observation], *, differs: float = 0.05, records: int = 5
) -> tuple[Observation, ...]:
    """The learning rate that the run logs never changes, while the one that the optimizer uses does (O23).

    differs: relative difference at one step. records: steps that both have and where they differ, at least half of all.
    """
    if not recorded(metrics):
        return ()
    found = [s for s in streams(metrics, ("lr",)) if "lr" in s.columns]
    measured = [s for s in found if any(name.startswith("probe/") for name in _names_of(metrics, s.source))]
    signs: list[Sign] = []
    for stream in found:
        values = finite(stream.column("lr"))
        if stream in measured or len(values) < records or min(values) < max(values):
            continue
        for other in (m for m in measured if m.rank == stream.rank or None in (m.rank, stream.rank)):
            actual = {
                s: v for s, v in zip(other.steps, other.column("lr"), strict=True) if s is not None and v is not None
            }
            both = [
                (i, v, actual[s]) for i, (s, v) in enumerate(zip(stream.steps, stream.column("lr"), strict=True))
                if s in actual and v is not None and s is not None
            ]  # fmt: skip
            off = [(i, v, a) for i, v, a in both if abs(v - a) > differs * max(abs(v), abs(a))]
            if len(off) < records or 2 * len(off) < len(both):
                continue
            i, said, used = off[-1]
            place = stream.where(i)
            note = f"the run logs a rate of {number(said)} throughout; at {place} the optimizer used {number(used)}"
            signs.append(
                Sign(stream, off[0][0], (stream.evidence(off[0][0], "lr"), stream.evidence(i, "lr")), note, "lr")
            )
            break
    return merge(signs, found, ()) if signs else ()


def _names_of(metrics: pl.DataFrame, source: str) -> list[str]:
    import polars as pl

    return metrics.filter(pl.col("source") == source)["name"].unique().to_list()
