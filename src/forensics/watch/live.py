"""What only watching shows, as signs: silence, ranks left behind, throughput, room on the disk."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forensics.report.words import size as bytes_phrase
from forensics.signatures.schema import Signature
from forensics.watch.disk import Filling
from forensics.watch.lag import Behind, Progress
from forensics.watch.news import Sign
from forensics.watch.pace import Slow
from forensics.watch.rhythm import Silence

if TYPE_CHECKING:
    import polars as pl

RUN = "run"  # what all files together are called where their rhythm is kept
SILENT, STILL, BEHIND, SLOW, DISK = "rank-silent", "run-silent", "rank-behind", "throughput-collapse", "disk-filling"
TOGETHER = 8  # ranks that are told of one by one: more that fall silent at once are one thing
_STRAGGLER, _FULL = "straggler-rank", "disk-full"  # entries of the catalogue that say what to do
_LOOK_AT_IT = "Find out where it stands: py-spy dump --pid <pid> on its host, dmesg and nvidia-smi there."


def steps(rows: pl.DataFrame, rank_of: Mapping[str, int | None]) -> dict[int, tuple[int, int]]:
    """rank -> (last step, number of different steps) of rows of metrics; rank_of: that of a file.

    Of several files of a rank, as a rotated log and the one that goes on from it, the last step of the latest attempt
    counts, of the same one that of the latest record, and where none bears a time the highest.
    """
    import polars as pl

    if not rows.height:
        return {}
    own = {path: rank for path, rank in rank_of.items() if rank is not None}
    rank = pl.coalesce("rank", pl.col("source").replace_strict(own, default=None, return_dtype=pl.Int32))
    told = rows.filter(pl.col("step").is_not_null()).with_columns(rank=rank).filter(pl.col("rank").is_not_null())
    records = dict(told.group_by("rank").agg(pl.col("step").n_unique()).iter_rows())
    ends = told.group_by("rank", "source").agg(
        pl.col("attempt").max(), pl.col("time").filter(pl.col("time").is_finite()).max(), pl.col("step").last()
    )
    last = ends.sort("attempt", "time", "step", nulls_last=False).group_by("rank").agg(pl.col("step").last())
    return {rank: (step, records[rank]) for rank, step in last.iter_rows()}


def gaps(rows: pl.DataFrame, rank_of: Mapping[str, int | None]) -> dict[int | str, list[float]]:
    """rank (and RUN) -> seconds between the times that its rows of metrics bear."""
    import polars as pl

    timed = rows.filter(pl.col("time").is_finite()).select("source", "rank", "time").unique()
    if not timed.height:
        return {}
    own = {path: rank for path, rank in rank_of.items() if rank is not None}
    rank = pl.coalesce("rank", pl.col("source").replace_strict(own, default=None, return_dtype=pl.Int32))
    told = timed.with_columns(rank=rank).group_by("rank").agg(pl.col("time").unique().sort().diff().drop_nulls())
    found: dict[int | str, list[float]] = {rank: times for rank, times in told.iter_rows() if rank is not None}
    return found | {RUN: timed["time"].unique().sort().diff().drop_nulls().to_list()}


def silent(found: Sequence[Silence], progress: Progress, catalogue: Mapping[str, Signature]) -> dict[Hashable, Sign]:
    """Ranks that are silent while the others go on: rank -> sign."""
    made: dict[Hashable, Sign] = {}
    for silence in found:
        if not isinstance(silence.who, int):
            continue
        what = (
            f"it has written nothing for {seconds(silence.lasts)}, and does so every {seconds(silence.usual)} usually"
        )
        made[silence.who] = Sign(
            name=SILENT,
            subject=f"rank {silence.who}",
            title="It is silent while the others go on",
            severity="error",
            kind="watch",
            what=what,
            ranks=(silence.who,),
            step=progress.step_of(silence.who),
            step_is="last_seen",
            advice=_advice(_STRAGGLER, catalogue) or _LOOK_AT_IT,
            see_also=_known(_STRAGGLER, catalogue),
        )
    if len(made) <= TOGETHER:
        return made
    ranks = sorted(s.who for s in found if isinstance(s.who, int))
    first = made[ranks[0]]
    return {
        ranks[0]: replace(
            first, title="They are silent while the others go on", ranks=tuple(ranks), step=None, step_is=None
        )
    }


def stands_still(silence: Silence, last: Sequence[int], catalogue: Mapping[str, Signature]) -> Sign:
    """The whole run writes nothing. last: the ranks with the lowest step, where ranks differ."""
    what = f"nothing has been written for {seconds(silence.lasts)}; usually something is every {seconds(silence.usual)}"
    return Sign(
        name=STILL,
        title="The whole run is silent",
        severity="error",
        kind="watch",
        what=what + (f"; the ranks with the lowest step are {', '.join(map(str, last[:8]))}" if last else ""),
        ranks=tuple(last) if len(last) == 1 else None,
        advice=_advice(_STRAGGLER, catalogue) or _LOOK_AT_IT,
        see_also=_known(_STRAGGLER, catalogue),
    )


def behind(found: Sequence[Behind], catalogue: Mapping[str, Signature]) -> list[Sign]:
    """Ranks whose steps fall behind those of their peers."""
    return [
        Sign(
            name=BEHIND,
            subject=f"rank {b.rank}",
            title="It falls behind the others",
            severity="warning",
            kind="watch",
            what=f"it is at step {b.step}, and half of all ranks are at {b.others:g} or later",
            ranks=(b.rank,),
            step=b.step,
            advice=_second_advice(_STRAGGLER, catalogue) or _LOOK_AT_IT,
            see_also=_known(_STRAGGLER, catalogue),
        )
        for b in found
    ]


def slow(found: Sequence[Slow], ranks: int) -> list[Sign]:
    """Throughput that collapsed: one sign for ranks that are slow together, or one each."""
    if not found:
        return []
    named = sorted({s.rank for s in found if s.rank is not None})
    everyone = not named or (ranks > 1 and 2 * len(named) > ranks)
    first = found[0]
    what = f"{first.metric}: {first.usual / first.now:.1f} times slower than usual"
    return [
        Sign(
            name=SLOW,
            title="Throughput collapsed",
            severity="warning",
            kind="watch",
            what=what + (f", on {len(found)} ranks" if len(named) > 1 else ""),
            ranks=None if everyone else tuple(named),
            step=first.step,
            evidence=first.evidence,
            advice="Look at the slowest host: throttling (nvidia-smi -q -d PERFORMANCE), data loading, network.",
        )
    ]


def filling(found: Sequence[Filling], catalogue: Mapping[str, Signature]) -> list[Sign]:
    """File systems that are full or about to be."""
    return [
        Sign(
            name=DISK,
            title=f"The disk of {f.folder} is {'full' if f.full else 'filling'}",
            severity="error" if f.full else "warning",
            kind="watch",
            what=f"{f.what}: {bytes_phrase(f.free)} of {bytes_phrase(f.size)} are free",
            advice=_advice(_FULL, catalogue),
            see_also=_known(_FULL, catalogue),
        )
        for f in found
    ]


def seconds(value: float) -> str:
    """A span of time for people."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _advice(name: str, catalogue: Mapping[str, Signature]) -> str | None:
    signature = catalogue.get(name)
    return signature.fix[0] if signature is not None and signature.fix else None


def _second_advice(name: str, catalogue: Mapping[str, Signature]) -> str | None:
    signature = catalogue.get(name)
    return signature.fix[1] if signature is not None and len(signature.fix) > 1 else None


def _known(name: str, catalogue: Mapping[str, Signature]) -> tuple[str, ...]:
    return (name,) if name in catalogue else ()
