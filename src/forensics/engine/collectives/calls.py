"""Flight Recorder rows as calls, and calls as process groups.

`finished` is what the recorder can know. NCCL entries say state "completed". gloo entries say "scheduled" for ever, and
there `retired` is the sign; but a gloo wait that timed out is retired as well, so a dump made while the process was
already unwinding looks finished. Such dumps only count where something in the logs says that there was trouble.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forensics.engine.collectives.observations import DEFAULT_GROUPS, title
from forensics.model import CALLED, UNRECORDED, Evidence
from forensics.parsers.prefixes import rank_list
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

# Collectives whose input must have the same size on every rank. all_to_all and scatter may differ by design.
SAME_INPUT = (
    "all_reduce", "allreduce_coalesced", "all_gather", "_all_gather_base", "all_gather_into_tensor_coalesced",
    "broadcast", "reduce", "gather", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "allgather_into_tensor_coalesced",
)  # fmt: skip
COALESCED = "coalesced"  # the entry that closes operations that are issued together
UNNAMED_GROUP = lazy(r"^index \d+$")  # parsers.flight_recorder: a group known by its place on one process only
_MEMBERS = lazy(r"(?:^| )ranks ([\d,-]+)$")


@dataclass(frozen=True, slots=True)
class Call:
    """One collective as one rank recorded it."""

    rank: int
    source: str
    group: tuple[str, str]
    seq: int
    op: str
    sizes: str | None
    dtypes: str | None
    state: str | None
    retired: bool
    finished: bool
    time: float | None
    frame: str | None
    stack: str | None = None  # the user's frames, innermost first, one a line
    line: int | None = None  # of a log
    printed: str | None = None  # how a log numbers it

    @property
    def name(self) -> str:
        return f"{self.op} #{self.seq}" + (f" ({self.printed})" if self.printed else "")

    @property
    def place(self) -> str:
        """The user's frame without its directories: "train.py:88 step"."""
        return "" if self.frame is None else self.frame.rsplit("/", 1)[-1]

    @property
    def path(self) -> str:
        """The user's frames, innermost first: "train.py:88 step < train.py:140 main"."""
        frames = self.stack.split("\n") if self.stack else [self.frame or ""]
        return " < ".join(frame.rsplit("/", 1)[-1] for frame in frames)

    def evidence(self) -> Evidence:
        sizes = f" sizes {self.sizes}" if self.sizes else ""
        if self.state == CALLED:
            text = f"{self.name}{sizes} in {title(self.group)}, called by rank {self.rank}"
            return Evidence(self.source, self.line, None, text)
        retired = "retired" if self.retired else "not retired"
        at = f", at {self.path}" if self.frame else ""
        where = "" if self.group[0] in DEFAULT_GROUPS else f" in group {title(self.group)}"
        return Evidence(self.source, None, None, f"{self.name}{sizes}{where} {self.state or '?'}, {retired}{at}")


@dataclass(frozen=True, slots=True)
class Group:
    """What the dumps say about one process group."""

    key: tuple[str, str]  # name, description
    members: frozenset[int]  # declared or seen
    first: Mapping[int, int]  # rank -> oldest sequence number in its buffer
    last: Mapping[int, Call]
    waiting: Mapping[int, Call]  # rank -> its oldest unfinished call
    mismatch: int | None  # first sequence number on which op, size or type differ, after all that went well
    frames: int | None  # the same for the line of code
    table: Any = field(repr=False, default=None)  # pl.DataFrame of this group's calls

    @property
    def unnamed(self) -> bool:
        return UNNAMED_GROUP.match(self.key[0]) is not None

    @property
    def traced(self) -> bool:
        """Whether its calls come from NCCL's log, which does not say what became of them."""
        return any(call.state == CALLED for call in self.last.values())

    def at(self, seq: int) -> dict[int, Call]:
        import polars as pl

        return {call.rank: call for call in calls_of(self.table.filter(pl.col("seq") == seq))}

    def has(self, ranks: Collection[int], column: str, value: str | None) -> bool:
        """Whether any of these ranks ever recorded this frame (or op) in the group."""
        import polars as pl

        if value is None:
            return False
        here = (pl.col("rank").is_in(list(ranks))) & (pl.col(column) == value)
        return not self.table.filter(here).is_empty()


def prepared(table: pl.DataFrame) -> pl.DataFrame:
    """The entries of each rank's newest dump, with `finished`."""
    import polars as pl

    known = table.filter(pl.col("rank").is_not_null() & pl.col("op").is_not_null() & pl.col("seq").is_not_null())
    if known.is_empty():
        return known.with_columns(finished=pl.lit(False))
    newest = (
        known.group_by("rank", "source").agg(pl.col("time").max()).sort("time", "source", nulls_last=False)
        .group_by("rank", maintain_order=True).last().select("rank", "source")
    )  # fmt: skip
    known = _closed(known.join(newest, on=["rank", "source"], how="semi"))
    as_gloo = pl.col("state").fill_null("scheduled").is_in(["scheduled", CALLED])
    # The state of a call that only counters tell of is ours, and says nothing of the backend.
    gloo = (as_gloo | (pl.col("op") == UNRECORDED)).all().over("source")
    return known.with_columns(
        finished=(pl.col("state").fill_null("") == "completed") | (gloo & pl.col("retired").fill_null(False))
    )


def _closed(table: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives of a batch, with the state of the entry that closes it.

    The recorder never updates the entries inside: they stay "scheduled". A batch has one sequence number.
    """
    import polars as pl

    p2p = pl.col("is_p2p").fill_null(False)
    end = p2p & (pl.col("op") == COALESCED)
    if table.filter(end).is_empty():
        return table
    batch = ["rank", "source", pl.col("group").fill_null(""), pl.col("group_desc").fill_null(""), p2p, "seq"]
    inside = p2p & ~end & end.any().over(batch)
    return table.with_columns(
        pl.when(inside).then(pl.col(name).filter(end).last().over(batch)).otherwise(pl.col(name)).alias(name)
        for name in ("state", "retired")
    )


def calls_of(table: pl.DataFrame) -> list[Call]:
    return [
        Call(
            rank=row["rank"], source=row["source"], group=(row["group"] or "", row["group_desc"] or ""), seq=row["seq"],
            op=row["op"], sizes=row["input_sizes"], dtypes=row["dtypes"], state=row["state"],
            retired=bool(row["retired"]), finished=row["finished"], time=row["time"], frame=row["frame"],
            stack=row["stack"], line=row["line"], printed=row["printed"],
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip


def groups_of(table: pl.DataFrame) -> list[Group]:
    import polars as pl

    keys = ["group", "group_desc"]
    calls = prepared(table).filter(~pl.col("is_p2p").fill_null(False)).with_columns(pl.col(*keys).fill_null(""))
    if calls.is_empty():
        return []
    calls = _together(calls).sort("seq", "rank")
    sized = pl.when(pl.col("op").is_in(SAME_INPUT)).then(pl.col("input_sizes"))
    by_seq = calls.group_by(*keys, "seq").agg(
        n=pl.len(),
        ops=pl.col("op").filter(pl.col("op") != UNRECORDED).n_unique(),
        sizes=sized.drop_nulls().n_unique(),
        dtypes=pl.col("dtypes").drop_nulls().n_unique(),
        lines=pl.col("frame").drop_nulls().n_unique(),
        finished=pl.col("finished").all(),
    )
    ranks = calls.group_by(*keys).agg(ranks=pl.col("rank").n_unique())
    differs = (pl.col("ops") > 1) | (pl.col("sizes") > 1) | (pl.col("dtypes") > 1)
    went_well = pl.when(~differs & pl.col("finished") & (pl.col("n") == pl.col("ranks"))).then(pl.col("seq"))
    by_seq = by_seq.join(ranks, on=keys).with_columns(well=went_well.max().over(keys).fill_null(-(2**62)))
    after = by_seq.filter((pl.col("seq") > pl.col("well")) & (pl.col("n") > 1))
    mismatch = dict(_first_by_key(after.filter(differs)))
    lines = dict(_first_by_key(after.filter((pl.col("lines") > 1) & ~pl.col("finished"))))
    last: dict[tuple[str, str], dict[int, Call]] = defaultdict(dict)
    first: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    waiting: dict[tuple[str, str], dict[int, Call]] = defaultdict(dict)
    for call in calls_of(calls.group_by(*keys, "rank", maintain_order=True).last()):
        last[call.group][call.rank] = call
    for call in calls_of(calls.filter(~pl.col("finished")).group_by(*keys, "rank", maintain_order=True).first()):
        waiting[call.group][call.rank] = call
    for group, desc, rank, seq in calls.group_by(*keys, "rank").agg(pl.col("seq").min()).iter_rows():
        first[group, desc][rank] = seq
    tables = {(str(k[0]), str(k[1])): part for k, part in calls.partition_by(keys, as_dict=True).items()}
    return [
        Group(
            key=key,
            members=frozenset(last[key]) | frozenset(declared(key[1])),
            first=first[key],
            last=last[key],
            waiting=waiting.get(key, {}),
            mismatch=mismatch.get(key),
            frames=lines.get(key),
            table=tables[key],
        )
        for key in sorted(last)
    ]


def _together(calls: pl.DataFrame) -> pl.DataFrame:
    """One row for operations that were issued together, which share a sequence number.

    The last row stands for them; the operation and the sizes are those of the operations inside.
    """
    import polars as pl

    key = ["group", "group_desc", "rank", "seq"]
    calls = calls.with_columns(alone=pl.len().over(key) == 1)
    single = calls.filter("alone").drop("alone")
    if single.height == calls.height:
        return single
    inside = pl.col("op").filter(pl.col("op") != COALESCED)
    columns = {
        name: pl.col(name).filter(pl.col(name) != "[]").drop_nulls().str.join(" ").replace("", None)
        for name in ("input_sizes", "output_sizes", "dtypes")
    }
    columns["op"] = pl.coalesce(inside.unique(maintain_order=True).str.join("+").replace("", None), pl.col("op").last())
    others = [pl.col(name).last() for name in single.columns if name not in (*key, *columns)]
    several = calls.filter(~pl.col("alone")).group_by(key, maintain_order=True).agg(*others, **columns)
    return pl.concat([single, several.select(single.columns)])


def _first_by_key(rows: pl.DataFrame) -> list[tuple[tuple[str, str], int]]:
    import polars as pl

    first = rows.group_by("group", "group_desc").agg(pl.col("seq").min())
    return [((group, desc), seq) for group, desc, seq in first.iter_rows()]


def declared(desc: str) -> tuple[int, ...]:
    """The members that a dump's group description states: "dp ranks 0-3,8"."""
    match = _MEMBERS.search(desc)
    if match is None:
        return ()
    return rank_list(match.group(1))
