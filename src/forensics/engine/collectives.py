"""Which rank keeps the others waiting: Flight Recorder dumps compared rank by rank, then what the logs state.

The rules are those that PyTorch's own analyser lacks. Ranks are compared inside one process group only (sequence
numbers of different groups have nothing in common), the odd rank is found by majority and never by being different from
the first one, a tie names nobody, and a rank is blamed for being behind only where it waits for nobody else itself.

`finished` is what the recorder can know. NCCL entries say state "completed". gloo entries say "scheduled" for ever, and
there `retired` is the sign; but a gloo wait that timed out is retired as well, so a dump made while the process was
already unwinding looks finished. Such dumps only count where something in the logs says that there was trouble.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from forensics.model import Evidence, Identity, Observation, Traceback

if TYPE_CHECKING:
    import polars as pl

# Collectives whose input must have the same size on every rank. all_to_all and scatter may differ by design.
SAME_INPUT = (
    "all_reduce", "allreduce_coalesced", "all_gather", "_all_gather_base", "all_gather_into_tensor_coalesced",
    "broadcast", "reduce", "gather", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "allgather_into_tensor_coalesced",
)  # fmt: skip
# The same for the names that the watchdog prints (c10d OpType).
SAME_NUMEL = (
    "ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER",
    "_REDUCE_SCATTER_BASE", "GATHER",
)  # fmt: skip
UNNAMED_GROUP = re.compile(r"^index \d+$")  # parsers.flight_recorder: a group known by its place on one process only
DEFAULT_GROUPS = ("0", "default_pg")
# What a rank prints because a collective did not end, and because a peer's connection did.
TIMEOUTS = ("collective-timeout",)
CLOSED = ("gloo-connection-closed", "nccl-watchdog-abort")
# What an exception says that is about a peer and not about the rank that raised it.
PEER = (
    "Timed out waiting", "Connection closed by peer", "Connection reset by peer", "Read error", "NCCL",
    "Detected mismatch between collectives", "monitoredBarrier", "Application timeout caused pair closure",
)  # fmt: skip
_MEMBERS = re.compile(r"(?:^| )ranks ([\d,-]+)$")
_P2P = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")
# Signatures whose log lines name the ranks themselves.
NAMING = ("monitored-barrier-timeout", "uneven-inputs", "collective-desync", "rank-exited-early")
# Functions in which rank 0 is often alone.
SIDE_WORK = re.compile(r"save|checkpoint|ckpt|eval|valid|upload|download|push_to_hub|export", re.IGNORECASE)
MAX_EVIDENCE = 4
# A rank above this is a misread number, and says nothing about how many ranks there are.
MAX_RANKS = 1 << 18
NEXT_TIME = (
    "set TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before torch 2.8) and TORCH_NCCL_DUMP_ON_TIMEOUT=1, "
    "and keep the dump and the log of every rank"
)


_Told = TypeVar("_Told", Observation, Traceback)


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

    @property
    def name(self) -> str:
        return f"{self.op} #{self.seq}"

    @property
    def place(self) -> str:
        """The user's frame without its directories: "train.py:88 step"."""
        return "" if self.frame is None else self.frame.rsplit("/", 1)[-1]

    def evidence(self) -> Evidence:
        sizes = f" sizes {self.sizes}" if self.sizes else ""
        retired = "retired" if self.retired else "not retired"
        at = f", at {self.place}" if self.frame else ""
        where = "" if self.group[0] in DEFAULT_GROUPS else f" in group {_title(self.group)}"
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

    def at(self, seq: int) -> dict[int, Call]:
        import polars as pl

        return {call.rank: call for call in _calls(self.table.filter(pl.col("seq") == seq))}

    def has(self, ranks: Collection[int], column: str, value: str | None) -> bool:
        """Whether any of these ranks ever recorded this frame (or op) in the group."""
        import polars as pl

        here = (pl.col("rank").is_in(list(ranks))) & (pl.col(column) == value)
        return value is not None and not self.table.filter(here).is_empty()


@dataclass(frozen=True, slots=True)
class Logs:
    """What the log observations say about collectives, by rank."""

    observations: tuple[Observation, ...]
    timed_out: Mapping[int, Observation]
    closed: Mapping[int, Observation]
    epochs: Mapping[int, Mapping[str, int]]  # rank -> epoch that it says it has finished -> its steps (-1 unknown)
    raised: frozenset[int]  # ranks with an exception of their own, not one about a peer

    @property
    def trouble(self) -> bool:
        return bool(self.timed_out or self.closed)

    def left(self, ranks: Collection[int]) -> bool:
        """Whether these ranks went away, as opposed to being there and not coming."""
        return bool(self.raised & set(ranks)) or (bool(self.closed) and not self.timed_out)

    def _later(self, rank: int, epoch: str, steps: int) -> bool:
        theirs = self.epochs.get(rank, {})
        return epoch not in theirs or theirs[epoch] > steps >= 0

    def finished_before(self, ranks: Collection[int], others: Collection[int]) -> bool:
        """Whether each of `ranks` says that an epoch is over which none of `others` has finished, or in fewer steps."""

        def ahead(rank: int) -> bool:
            return any(
                all(self._later(other, epoch, steps) for other in others)
                for epoch, steps in self.epochs.get(rank, {}).items()
            )

        return bool(ranks) and bool(others) and all(ahead(rank) for rank in ranks)


def desync(
    collectives: pl.DataFrame,
    observations: Sequence[Observation],
    world: Sequence[int] | None,
    tracebacks: Sequence[Traceback] = (),
) -> tuple[Observation, ...]:
    """Compare the ranks and say who is behind, ahead or different.

    collectives: rows of model.COLLECTIVES_COLUMNS; rows without an op are dumps that could not be read.
    observations: of all logs; the family's captures are used, the rest only shows which ranks were heard.
    world: all global ranks of the run, or None where they are not known: then ranks below the highest one seen are
    known to exist.
    tracebacks: of all logs; they say where ranks waited if there is no dump.
    """
    dumped = {int(rank) for rank in collectives["rank"].drop_nulls().unique()}
    heard = {o.identity.rank for o in observations if o.identity.rank is not None}
    highest = max((*heard, *dumped), default=-1)
    everyone = frozenset(world) if world else frozenset(range(highest + 1) if highest < MAX_RANKS else heard | dumped)
    attempts: list[int | None] = [*sorted({a for o in observations if (a := o.identity.attempt) is not None})] or [None]
    logs = {attempt: _read_logs(_of(attempt, observations), _of(attempt, tracebacks)) for attempt in attempts}
    # A dump is written over at each attempt: what is left is of the last one that had trouble.
    of_dumps = next((attempt for attempt in reversed(attempts) if logs[attempt].trouble), attempts[-1])
    found: list[Observation] = []
    for attempt in attempts:
        table = collectives if attempt == of_dumps else collectives.clear()
        one = _of_attempt(table, logs[attempt], _of(attempt, tracebacks), everyone, dumped)
        found += [replace(o, identity=replace(o.identity, attempt=attempt)) for o in one]
    return tuple(found)


def _of(attempt: int | None, items: Sequence[_Told]) -> list[_Told]:
    """What belongs to an attempt, or to none in particular."""
    return [item for item in items if item.identity.attempt in (attempt, None)]


def _of_attempt(
    table: pl.DataFrame, logs: Logs, tracebacks: Sequence[Traceback], everyone: frozenset[int], dumped: set[int]
) -> list[Observation]:
    found = _from_dumps(table, logs, everyone, dumped)
    if not any(o.culprits for o in found) and (stacks := _from_stacks(tracebacks, logs)):
        found = [o for o in found if o.signature != "collective-timeout"] + stacks
    found += _fingerprints(logs)
    if not any(o.culprits for o in found):
        found += _lagging_in_logs(logs)
    if not any(o.culprits for o in found):
        found += _stack_dumps(logs)
    named = any(o.culprits for o in logs.observations if o.signature in NAMING)
    if not named and all(o.signature == "collective-timeout" and not o.culprits for o in found):
        found += _silent(logs, everyone, tell_nobody=not found)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Dumps


def _from_dumps(table: pl.DataFrame, logs: Logs, everyone: frozenset[int], dumped: set[int]) -> list[Observation]:
    groups = _groups(table)
    if not groups:
        return []
    found = [o for group in groups if (o := _mismatch(group, logs)) is not None]
    settled = {group.key for group in groups if group.mismatch is not None}
    calm = [group for group in groups if group.key not in settled]
    if not found:
        found += _point_to_point(table)
    if not found:
        found += _waits(calm, logs)
    if not found:
        found += _inverted(calm)
    if not found:
        found += [o for group in calm if (o := _other_line(group, logs)) is not None]
    if not found:
        found += _no_dump(calm, logs, everyone, dumped)
    return found


def _prepared(table: pl.DataFrame) -> pl.DataFrame:
    """The entries of each rank's newest dump, with `finished`."""
    import polars as pl

    known = table.filter(pl.col("rank").is_not_null() & pl.col("op").is_not_null() & pl.col("seq").is_not_null())
    if known.is_empty():
        return known.with_columns(finished=pl.lit(False))
    newest = (
        known.group_by("rank", "source").agg(pl.col("time").max()).sort("time", "source", nulls_last=False)
        .group_by("rank", maintain_order=True).last().select("rank", "source")
    )  # fmt: skip
    known = known.join(newest, on=["rank", "source"], how="semi")
    gloo = (pl.col("state").fill_null("scheduled") == "scheduled").all().over("source")
    return known.with_columns(
        finished=(pl.col("state").fill_null("") == "completed") | (gloo & pl.col("retired").fill_null(False))
    )


def _calls(table: pl.DataFrame) -> list[Call]:
    return [
        Call(
            rank=row["rank"], source=row["source"], group=(row["group"] or "", row["group_desc"] or ""), seq=row["seq"],
            op=row["op"], sizes=row["input_sizes"], dtypes=row["dtypes"], state=row["state"],
            retired=bool(row["retired"]), finished=row["finished"], time=row["time"], frame=row["frame"],
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip


def _groups(table: pl.DataFrame) -> list[Group]:
    import polars as pl

    keys = ["group", "group_desc"]
    calls = _prepared(table).filter(~pl.col("is_p2p").fill_null(False)).with_columns(pl.col(*keys).fill_null(""))
    if calls.is_empty():
        return []
    # Operations that were issued together share a sequence number: the last one stands for them.
    calls = calls.unique(["group", "group_desc", "rank", "seq"], keep="last", maintain_order=True).sort("seq", "rank")
    sized = pl.when(pl.col("op").is_in(SAME_INPUT)).then(pl.col("input_sizes"))
    by_seq = calls.group_by(*keys, "seq").agg(
        n=pl.len(),
        ops=pl.col("op").n_unique(),
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
    for call in _calls(calls.group_by(*keys, "rank", maintain_order=True).last()):
        last[call.group][call.rank] = call
    for call in _calls(calls.filter(~pl.col("finished")).group_by(*keys, "rank", maintain_order=True).first()):
        waiting[call.group][call.rank] = call
    for group, desc, rank, seq in calls.group_by(*keys, "rank").agg(pl.col("seq").min()).iter_rows():
        first[group, desc][rank] = seq
    tables = {(str(k[0]), str(k[1])): part for k, part in calls.partition_by(keys, as_dict=True).items()}
    return [
        Group(
            key=key,
            members=frozenset(last[key]) | frozenset(_declared(key[1])),
            first=first[key],
            last=last[key],
            waiting=waiting.get(key, {}),
            mismatch=mismatch.get(key),
            frames=lines.get(key),
            table=tables[key],
        )
        for key in sorted(last)
    ]


def _first_by_key(rows: pl.DataFrame) -> list[tuple[tuple[str, str], int]]:
    import polars as pl

    first = rows.group_by("group", "group_desc").agg(pl.col("seq").min())
    return [((group, desc), seq) for group, desc, seq in first.iter_rows()]


def _declared(desc: str) -> tuple[int, ...]:
    """The members that a dump's group description states: "dp ranks 0-3,8"."""
    match = _MEMBERS.search(desc)
    if match is None:
        return ()
    ranks: set[int] = set()
    for part in match.group(1).split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (not high or high.isdigit()):
            ranks.update(range(int(low), min(int(high or low), int(low) + 65536) + 1))
    return tuple(sorted(ranks))


def vote(values: Mapping[int, Hashable]) -> tuple[Hashable | None, tuple[int, ...]]:
    """What more than half of the ranks say, and the ranks that say something else; (None, ()) without a majority."""
    if not values:
        return None, ()
    (value, count), *_ = Counter(values.values()).most_common()
    if 2 * count <= len(values):
        return None, ()
    return value, tuple(sorted(rank for rank, other in values.items() if other != value))


def _mismatch(group: Group, logs: Logs) -> Observation | None:
    """Ranks that met at one sequence number with different calls."""
    if group.mismatch is None:
        return None
    calls = group.at(group.mismatch)
    helper = group.unnamed and all(call.dtypes == '["Long"]' and "gather" in call.op for call in calls.values())
    values: dict[int, str | None] = {}
    aspect = ""
    for aspect in ("op", "sizes", "dtypes"):
        values = {
            rank: getattr(call, aspect)
            for rank, call in calls.items()
            if aspect == "op" or (getattr(call, aspect) is not None and (aspect != "sizes" or call.op in SAME_INPUT))
        }
        if len(set(values.values())) > 1:
            break
    else:  # nothing to compare: it was another column that differed
        return None
    voters: dict[int, Hashable] = dict(values)
    if aspect == "sizes":
        voters |= _enforce_votes(values, logs)
    _, odd = vote(voters)
    odd = tuple(rank for rank in odd if rank in values)
    crowd = [call for rank, call in calls.items() if rank not in odd]
    slug = {"sizes": "shape", "dtypes": "dtype"}.get(aspect, aspect)
    signature, weight = f"collective-{slug}-mismatch", 0.9
    if helper:
        signature, weight = "collective-desync", 0.5
    elif odd and _other_branch([calls[rank] for rank in odd], crowd):
        signature, weight = _branch(group, [calls[rank] for rank in odd], crowd, logs, slug)
    elif not odd and aspect == "op" and len({call.frame for call in calls.values()}) > 1:
        signature, weight = "collective-desync", 0.8
    if group.unnamed:
        weight = min(weight, 0.5)
    parts = defaultdict(list)
    for rank in sorted(calls):
        call = calls[rank]
        what = call.op if aspect == "op" else f"{call.op} of {values.get(rank)}"
        parts[what + (f" at {call.place}" if call.place else "")].append(rank)
    said = "; ".join(f"{_ranks(ranks)} called {what}" for what, ranks in sorted(parts.items(), key=lambda p: len(p[1])))
    end = "" if odd else f" {_no_majority(len(values))}"
    shown = [calls[rank] for rank in (*odd, *(r for r in sorted(calls) if r not in odd))]
    return _observe(
        signature, weight, odd, shown, f"At #{group.mismatch} of {_in_group(group.key)} {said}.{end}", group.mismatch
    )


def _enforce_votes(values: Mapping[int, str | None], logs: Logs) -> dict[int, Hashable]:
    """Sides that ranks without a dump take: gloo aborts a rank that is sent more bytes than it expects.

    Its message gives both sizes; if their ratio is that of the two sizes seen, the rank expected the smaller one.
    """
    sizes = {text: _numel(text) for text in set(values.values()) if text}
    if len(sizes) != 2 or any(not n for n in sizes.values()):
        return {}
    (small, less), (_, more) = sorted(sizes.items(), key=lambda item: item[1])
    votes: dict[int, Hashable] = {}
    for o in logs.observations:
        got, expected, rank = _int(o.captures.get("got")), _int(o.captures.get("expected")), o.identity.rank
        if got and expected and rank is not None and rank not in values and got * less == expected * more:
            votes[rank] = small
    return votes


def _numel(text: str) -> int:
    total = 0
    for shape in re.findall(r"\[([\d, ]*)\]", text.removeprefix("[").removesuffix("]")):
        product = 1
        for size in re.findall(r"\d+", shape):
            product *= int(size)
        total += product
    return total


def _other_branch(odd: Sequence[Call], crowd: Sequence[Call]) -> bool:
    """Whether the odd ranks' calls stand on lines of code where nobody else's stands."""
    theirs = {call.frame for call in crowd}
    return bool(odd) and None not in theirs and all(c.frame is not None and c.frame not in theirs for c in odd)


def _branch(group: Group, odd: Sequence[Call], crowd: Sequence[Call], logs: Logs, what: str) -> tuple[str, float]:
    """What it is when some ranks were at another line of code: the name that the evidence proves, else the parent's."""
    ranks, others = [call.rank for call in odd], [call.rank for call in crowd]
    if logs.finished_before(ranks, others):
        return "uneven-inputs", 0.85
    if ranks == [0]:  # code for rank 0 only is what programs have; code for one other rank hardly exists
        return "rank-conditional-collective", 0.85
    if all(group.has(others, "frame", call.frame) for call in odd):
        return "uneven-inputs", 0.7  # the others come by that line as well: these ranks came early
    if what == "op" and any("barrier" in call.op for call in (*odd, *crowd)):
        return "collective-desync", 0.8
    return f"collective-{what}-mismatch", 0.85


def _waits(groups: Sequence[Group], logs: Logs) -> list[Observation]:
    """Who waits for whom, over all groups: the ranks at the end of the chains, or the circle that they form."""
    assumed = not any(group.waiting for group in groups)
    if assumed and not logs.trouble:
        return []
    waiting = {group.key: dict(group.waiting) for group in groups}
    if assumed:
        for call in _newest(groups).values():
            waiting[call.group][call.rank] = call
    edges: dict[int, list[tuple[Group, Call, int]]] = defaultdict(list)
    from_start = {rank for group in groups for rank, seq in group.first.items() if seq <= 1}
    for group in groups:
        for rank, call in waiting[group.key].items():
            for peer in group.members:
                last = group.last.get(peer)
                if last.seq < call.seq if last is not None else peer in from_start:
                    edges[rank].append((group, call, peer))
    if not edges:
        return []
    targets = {peer for out in edges.values() for _, _, peer in out}
    waits_in: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for key, calls in waiting.items():
        for rank in calls:
            waits_in[rank].add(key)
    wanted_in: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for out in edges.values():
        for group, _, peer in out:
            wanted_in[peer].add(group.key)
    roots = {rank for rank in targets - set(edges) if assumed or waits_in[rank] <= wanted_in[rank]}
    if roots:
        return [_behind(edges, roots, groups, logs, assumed)]
    core = _circle({rank: {peer for _, _, peer in out} for rank, out in edges.items()})
    if core:
        return [_circular({r: [e for e in edges[r] if e[2] in core] for r in core}, assumed)]
    return [_blocked_elsewhere(edges, targets, groups, waiting)]


def _newest(groups: Sequence[Group]) -> dict[int, Call]:
    newest: dict[int, Call] = {}
    for group in groups:
        for rank, call in group.last.items():
            if rank not in newest or (call.time or 0) >= (newest[rank].time or 0):
                newest[rank] = call
    return newest


def _behind(
    edges: Mapping[int, list[tuple[Group, Call, int]]],
    roots: set[int],
    groups: Sequence[Group],
    logs: Logs,
    assumed: bool,
) -> Observation:
    """Some ranks wait for ranks that have not come: which side is to blame."""
    # The group in which most ranks wait for a root is the one that is told.
    counts = Counter(group.key for out in edges.values() for group, _, peer in out if peer in roots)
    key = max(counts, key=lambda k: (counts[k], k))
    group = next(g for g in groups if g.key == key)
    waiters = {r: next(c for g, c, p in out if g.key == key and p in roots) for r, out in edges.items()
               if any(g.key == key and p in roots for g, _, p in out)}  # fmt: skip
    late = {peer for out in edges.values() for g, _, peer in out if g.key == key and peer in roots}
    newest = _newest(groups)
    stuck = min(waiters.values(), key=lambda call: call.seq)
    common = group.has(late, "frame", stuck.frame) or (
        stuck.frame is None and group.has(late, "op", stuck.op) and group.has(late, "input_sizes", stuck.sizes)
    )
    tail = f"{_ranks(late)} {_has_come(late, group, newest)}"
    head = f"{_ranks(waiters)} {_plural(waiters, 'waits', 'wait')} in {stuck.name}{_at(stuck)}"
    everyone_waiting = len(set(edges))
    shown = [newest[rank] for rank in sorted(late) if rank in newest]
    if len(roots) < everyone_waiting or (len(roots) == everyone_waiting and common):
        if logs.finished_before(late, list(waiters)):
            signature = "uneven-inputs"
        else:
            signature = "rank-exited-early" if logs.left(late) else "straggler-rank"
        weight = 0.85
        culprits = tuple(sorted(roots))
        first_line = _first_other_line(group, culprits)
        note = f"{tail} while {head}.{first_line}"
    else:
        shown = [*waiters.values(), *shown]
        if not common and len(roots) > everyone_waiting:
            culprits = tuple(sorted(waiters))
            signature = "rank-conditional-collective" if stuck.frame is not None else "collective-desync"
            weight = 0.8
            is_ahead = f"{_ranks(waiters)} {_plural(waiters, 'is', 'are')} ahead"
            note = f"{head}, which no other rank ever called; {tail}: {is_ahead}."
        else:
            culprits, signature, weight = (), "collective-timeout", 0.5
            idle = f"{_plural(late, 'does', 'do')} not wait in any recorded collective"
            note = f"{head}; {tail} and {idle}: the recorder cannot tell which side is wrong."
    if assumed:
        weight *= 0.7  # the dumps were made after the wait had ended: which calls hung is an inference
    elif not logs.trouble:
        weight *= 0.85  # a dump on request catches ranks in mid-step
    return _observe(signature, weight, culprits, shown + list(waiters.values()), note, stuck.seq, stuck)


def _has_come(late: Collection[int], group: Group, newest: Mapping[int, Call]) -> str:
    lasts = [group.last[rank] for rank in sorted(late) if rank in group.last]
    if not lasts:
        return f"never called a collective of {_in_group(group.key)}"
    seqs = sorted({call.seq for call in lasts})
    upto = f"#{seqs[0]}" if len(seqs) == 1 else f"#{seqs[0]} to #{seqs[-1]}"
    places = {newest[rank].place for rank in late if rank in newest} - {""}
    last_call = f" (last call at {places.pop()})" if len(places) == 1 else ""
    return f"enqueued up to {upto} of {_in_group(group.key)}{last_call}"


def _first_other_line(group: Group, culprits: Sequence[int]) -> str:
    """Where the ranks that are behind first called from another line than the rest, if their buffers show it."""
    import polars as pl

    table = group.table.filter(pl.col("frame").is_not_null())
    split = table.group_by("seq").agg(pl.col("frame").n_unique()).filter(pl.col("frame") > 1)
    if split.is_empty():
        return ""
    seq = min(split["seq"].to_list())
    calls = group.at(seq)
    usual, odd = vote({rank: call.frame for rank, call in calls.items()})
    if usual is None or not odd or not set(odd) <= set(culprits):
        return ""
    call = calls[odd[0]]
    return f" Already at #{seq} {_ranks(odd)} called {call.op} from {call.place}, the others from {_base(str(usual))}."


def _circle(edges: Mapping[int, set[int]]) -> set[int]:
    """The ranks that wait for each other in a circle: those left when all that wait for nobody, or are not waited for,
    are taken away."""
    core = set(edges)
    while True:
        out = {rank: edges[rank] & core for rank in core}
        wanted = {peer for peers in out.values() for peer in peers}
        kept = {rank for rank in core if out[rank] and rank in wanted}
        if kept == core:
            return core
        core = kept


def _circular(edges: Mapping[int, Sequence[tuple[Group, Call, int]]], assumed: bool) -> Observation:
    """Ranks wait for each other across groups: they call the groups' collectives in different orders."""
    odd = []
    judged = 0
    for rank, out in edges.items():
        group, call, _ = out[0]
        wanted = [g for peer_out in edges.values() for g, _, peer in peer_out if peer == rank and g.key != group.key]
        usual = _usually_first(rank, group, call, wanted)
        if usual is not None:
            judged += 1
            if not usual:
                odd.append(rank)
    culprits = tuple(sorted(odd)) if judged == len(edges) and 0 < len(odd) < len(edges) else ()
    calls = [out[0][1] for out in edges.values()]
    chain = "; ".join(
        f"rank {rank} waits in {out[0][1].name} of {_title(out[0][0].key)} for {_ranks({p for _, _, p in out})}"
        for rank, out in sorted(edges.items())[:8]
    )
    how = (
        f" {_ranks(culprits).capitalize()} turned the order round in which {_plural(culprits, 'it has', 'they have')} "
        "called these groups before."
        if culprits
        else " The buffers do not show which order is the usual one."
    )
    first = sorted(calls, key=lambda call: (call.rank not in culprits, call.rank))
    return _observe(
        "subgroup-order-mismatch", 0.6 if assumed else 0.9, culprits, first, f"A circle of waits: {chain}.{how}", None
    )


def _usually_first(rank: int, group: Group, call: Call, wanted: Sequence[Group]) -> bool | None:
    """Whether a rank's group was due before the one in which it is wanted: the group that was used longest ago is.

    None where its buffer does not hold an earlier call of both.
    """
    import polars as pl

    before = group.table.filter((pl.col("rank") == rank) & (pl.col("seq") < call.seq))["time"].max()
    for other in wanted:
        last = other.last.get(rank)
        if last is not None and last.time is not None and isinstance(before, float):
            return before <= last.time
    return None


def _blocked_elsewhere(
    edges: Mapping[int, Sequence[tuple[Group, Call, int]]],
    targets: Collection[int],
    groups: Sequence[Group],
    waiting: Mapping[tuple[str, str], Mapping[int, Call]],
) -> Observation:
    """The ranks that are waited for wait in a collective that all its members have called."""
    ends = set(targets) - set(edges)
    stuck = [call for calls in waiting.values() for rank, call in calls.items() if rank in ends]
    first = min(stuck, key=lambda call: call.time or 0)
    note = (
        f"The waits end in {first.name} of {_in_group(first.group)}, which every rank of that group has called and "
        "which does not finish: the hang is inside it (network, GPU, or a rank without a dump), not in a missing call."
    )
    return _observe("collective-timeout", 0.6, (), stuck, note, first.seq, first)


def _inverted(groups: Sequence[Group]) -> list[Observation]:
    """Two groups' collectives, called in opposite orders, both unfinished. NCCL calls return at once, so no rank is
    behind in either."""
    by_rank: dict[int, list[Call]] = defaultdict(list)
    for group in groups:
        for rank, call in group.waiting.items():
            if call.time is not None:
                by_rank[rank].append(call)
    order: dict[tuple[tuple[str, str], int, tuple[str, str], int], dict[int, bool]] = defaultdict(dict)
    held: dict[int, list[Call]] = {}
    for rank, calls in by_rank.items():
        calls = held[rank] = sorted(calls, key=lambda call: call.group)[:8]
        for i, a in enumerate(calls):
            for b in calls[i + 1 :]:
                if a.time != b.time:
                    order[a.group, a.seq, b.group, b.seq][rank] = (a.time or 0) < (b.time or 0)
    for (a_key, a_seq, b_key, b_seq), ranks in sorted(order.items()):
        if len(set(ranks.values())) < 2:
            continue
        _, odd = vote(ranks)
        sides = [_ranks(r for r, first in ranks.items() if first is side) for side in (True, False)]
        pair = f"#{a_seq} of {_title(a_key)} before #{b_seq} of {_title(b_key)}"
        note = f"{sides[0]} called {pair}, {sides[1]} the other way round; neither finishes."
        shown = [call for rank in (*odd, *sorted(ranks)) for call in held[rank] if call.group in (a_key, b_key)]
        return [_observe("subgroup-order-mismatch", 0.8, odd, shown, note, None)]
    return []


def _other_line(group: Group, logs: Logs) -> Observation | None:
    """The same call, unfinished, from another line of code on some ranks: weak, since `if rank == 0: broadcast()
    else: broadcast()` is how people write it."""
    if group.frames is None:
        return None
    calls = {rank: call for rank, call in group.at(group.frames).items() if call.frame is not None}
    usual, odd = vote({rank: call.frame for rank, call in calls.items()})
    if usual is None or not odd:
        return None
    note = (
        f"At #{group.frames} of {_in_group(group.key)}, which does not finish, {_ranks(odd)} came from "
        f"{calls[odd[0]].place} and the others from {_base(str(usual))}."
    )
    shown = [calls[rank] for rank in (*odd, *(r for r in sorted(calls) if r not in odd))]
    return _observe("collective-desync", 0.45, odd, shown, note, group.frames)


def _no_dump(groups: Sequence[Group], logs: Logs, everyone: frozenset[int], dumped: set[int]) -> list[Observation]:
    """Nobody who left a dump is behind. A rank that left none may be."""
    stuck = [(group, dict(group.waiting)) for group in groups if group.waiting and not group.unnamed]
    if not stuck:
        return []
    group, calls = max(stuck, key=lambda item: (len(item[1]), item[0].key[0] in DEFAULT_GROUPS, item[0].key))
    call = min(calls.values(), key=lambda c: c.seq)
    whole = group.key[0] in DEFAULT_GROUPS and not _declared(group.key[1])
    members = everyone if whole else group.members
    gone = sorted(members - dumped)
    shown = sorted(calls.values(), key=lambda c: c.rank)
    head = f"{_ranks(calls)} {_plural(calls, 'waits', 'wait')} in {call.name}{_at(call)}"
    if gone and len(gone) < len(dumped & members):
        silent = not any(o.identity.rank in gone for o in logs.observations)
        early = silent and bool(logs.closed) and len(logs.closed) >= len(logs.timed_out)
        signature = "rank-exited-early" if early else "collective-timeout"
        note = f"{head} and nobody with a dump is behind; {_ranks(gone)} left no dump (or it was not collected)."
        return [_observe(signature, 0.6, tuple(gone), shown, note, call.seq, call)]
    if len(calls) < 2:
        return []
    why = f"{_ranks(gone)} left no dump" if gone else "suspect a link, a GPU, or a call that the recorder does not show"
    note = f"{head}, and no rank that left a dump is behind or different: nobody can be named ({why})."
    return [_observe("collective-timeout", 0.5 if logs.trouble else 0.4, (), shown, note, call.seq, call)]


def _point_to_point(table: pl.DataFrame) -> list[Observation]:
    """Unfinished sends and receives between two ranks that do not fit."""
    import polars as pl

    rows = _prepared(table).filter(pl.col("is_p2p").fill_null(False) & ~pl.col("finished"))
    pending: dict[tuple[tuple[str, str], int, int], list[tuple[str, Call]]] = defaultdict(list)
    for call in _calls(rows.with_columns(pl.col("group", "group_desc").fill_null(""))):
        match = _P2P.search(call.op)
        if match is None:
            continue
        members = _declared(call.group[1])
        peer = int(match.group(3))  # counted inside the group
        other = members[peer] if peer < len(members) else peer
        pending[call.group, call.rank, other].append((match.group(1), call))
    for (group, rank, peer), mine in sorted(pending.items()):
        theirs = pending.get((group, peer, rank), [])
        if rank > peer or not theirs:
            continue
        kinds, other_kinds = {kind for kind, _ in mine}, {kind for kind, _ in theirs}
        a, b = mine[0][1], theirs[0][1]
        if kinds == other_kinds and len(kinds) == 1:
            note = f"Rank {rank} and rank {peer} both wait in {kinds.pop()} for each other."
        elif len(mine) == len(theirs) == 1 and a.sizes != b.sizes:
            note = f"Rank {rank} is in {a.op} of {a.sizes}, rank {peer} in {b.op} of {b.sizes}."
        else:
            continue
        return [_observe("p2p-mismatch", 0.85, (), [a, b], f"{note} Two ranks give no majority.", a.seq, a)]
    return []


def _observe(
    signature: str,
    weight: float,
    culprits: Sequence[int],
    calls: Iterable[Call],
    note: str,
    seq: int | None,
    about: Call | None = None,
) -> Observation:
    shown = list(dict.fromkeys(calls))[:MAX_EVIDENCE]
    about = about or (shown[0] if shown else None)
    captures = {"op": about.op, "group": _title(about.group)} if about is not None else {}
    if seq is not None:
        captures["seq"] = str(seq)
    return Observation(
        signature=signature,
        weight=round(weight, 3),
        evidence=tuple(call.evidence() for call in shown),
        identity=Identity(rank=culprits[0] if len(culprits) == 1 else None),
        culprits=tuple(culprits),
        time=min((call.time for call in shown if call.time is not None), default=None),
        zone_known=True,
        captures=captures,
        note=note[:1].upper() + note[1:],
    )


# ---------------------------------------------------------------------------------------------------------------------
# Logs


def _read_logs(observations: Sequence[Observation], tracebacks: Sequence[Traceback]) -> Logs:
    timed_out: dict[int, Observation] = {}
    closed: dict[int, Observation] = {}
    epochs: dict[int, dict[str, int]] = defaultdict(dict)
    for o in observations:
        rank = o.identity.rank
        if rank is None:
            continue
        if o.signature in TIMEOUTS:
            timed_out.setdefault(rank, o)
        elif o.signature in CLOSED:
            closed.setdefault(rank, o)
        elif o.signature == "epoch-finished":
            steps = _int(o.captures.get("steps"))
            epochs[rank][o.captures.get("epoch", "?")] = -1 if steps is None else steps
    raised = {
        t.identity.rank
        for t in tracebacks
        if t.identity.rank is not None and not any(text in t.message for text in PEER)
    }
    return Logs(tuple(observations), timed_out, closed, epochs, frozenset(raised))


def _fingerprints(logs: Logs) -> list[Observation]:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL printed. Each rank names the first rank unlike itself: all are counted."""
    lines = [o for o in logs.observations if {"rank_a", "rank_b", "op_a", "op_b"} <= set(o.captures)]
    # A fingerprint that was read while the other rank was still exchanging its shape says sequence number 0.
    real = [o for o in lines if (o.captures.get("seq_a") == "0") == (o.captures.get("seq_b") == "0")]
    prints: dict[int, dict[str, str | None]] = {}
    for o in real or lines:
        for side in "ab":
            if (rank := _int(o.captures[f"rank_{side}"])) is not None:
                prints[rank] = {what: o.captures.get(f"{what}_{side}") for what in ("op", "shape", "dtype", "seq")}
    for what in ("op", "shape", "dtype", "seq"):
        values = {rank: said[what] for rank, said in prints.items() if said[what] is not None}
        if len(set(values.values())) > 1:
            break
    else:
        return []
    _, odd = vote(values)
    signature = "collective-desync" if what == "seq" else f"collective-{what}-mismatch"
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, value in sorted(values.items()):
        said = prints[rank]
        text = {"op": f"{value}", "shape": f"{said['op']} of [{value}]", "dtype": f"{said['op']} of {value}"}
        groups[text.get(what, f"collective #{value}")].append(rank)
    note = "; ".join(f"{_ranks(ranks)} called {t}" for t, ranks in sorted(groups.items(), key=lambda g: len(g[1])))
    seq = prints[min(values)]["seq"]
    end = "" if odd else f" {_no_majority(len(values))}"
    if not odd and len(values) == 2:  # both are named: one of the two is at fault, and only the user can tell which
        odd = tuple(sorted(values))
    at = f"At #{seq} " if seq is not None and what != "seq" else ""
    first = sorted(real or lines, key=lambda o: o.identity.rank not in odd)
    return [_from_lines(signature, 0.95, odd, first, f"{at}{note}.{end}")]


def _lagging_in_logs(logs: Logs) -> list[Observation]:
    """What the NCCL watchdogs printed: who is stuck where, and who only said how far it had come."""
    stuck: dict[str, dict[int, Observation]] = defaultdict(dict)  # group -> rank -> its first timeout
    unknown: dict[int, list[Observation]] = defaultdict(list)
    for o in logs.observations:
        rank = o.identity.rank
        if o.signature not in TIMEOUTS or rank is None or "seq" not in o.captures:
            continue
        if group := o.captures.get("group"):
            known = stuck[_default(group)].get(rank)
            if known is None or int(o.captures["seq"]) < int(known.captures["seq"]):
                stuck[_default(group)][rank] = o
        else:
            unknown[rank].append(o)
    apart = [_stuck_apart(group, ranks, unknown) for group, ranks in sorted(stuck.items())]
    found = [o for o in apart if o is not None]
    found += _behind_in_logs(logs, stuck, unknown)
    if found or stuck:
        return found
    # Without a group in the line only equal numbers are comparable, and only if every rank prints one.
    firsts = {rank: min(lines, key=lambda o: int(o.captures["seq"])) for rank, lines in unknown.items()}
    if len({o.captures["seq"] for o in firsts.values()}) == 1:
        one = _stuck_apart(None, firsts, unknown)
        found += [one] if one is not None else []
    return found


def _default(group: str) -> str:
    return "0" if group in DEFAULT_GROUPS else group


def _stuck_apart(
    group: str | None, ranks: Mapping[int, Observation], details: Mapping[int, Sequence[Observation]]
) -> Observation | None:
    """Ranks of one group that are stuck at different numbers, or at one number in different calls."""
    where = "" if group is None else f" of {_in_group((group, ''))}"
    seqs = {rank: int(o.captures["seq"]) for rank, o in ranks.items()}
    if len(set(seqs.values())) > 1:
        _, odd = vote(seqs)
        said = "; ".join(f"rank {rank} at #{seq}" for rank, seq in sorted(seqs.items())[:8])
        end = "" if odd else f" {_no_majority(len(seqs))}"
        return _from_lines(
            "collective-desync", 0.7, odd, _ordered(ranks, odd), f"The ranks are stuck apart{where}: {said}.{end}"
        )
    calls = {}
    for rank, o in ranks.items():
        same = [d for d in (o, *details.get(rank, ())) if "op" in d.captures and d.captures["seq"] == o.captures["seq"]]
        if len({(d.captures["op"], d.captures.get("numel")) for d in same}) == 1:
            calls[rank] = same[0]
    for what in ("op", "numel"):
        values = {
            rank: o.captures[what]
            for rank, o in calls.items()
            if what in o.captures and (what == "op" or o.captures["op"] in SAME_NUMEL)
        }
        if len(values) == len(ranks) and len(set(values.values())) > 1:
            _, odd = vote(values)
            sized = {rank: f" of {value} elements" if what == "numel" else "" for rank, value in values.items()}
            said = "; ".join(f"rank {rank} in {calls[rank].captures['op']}{sized[rank]}" for rank in sorted(values)[:8])
            signature = "collective-op-mismatch" if what == "op" else "collective-shape-mismatch"
            end = "" if odd else f" {_no_majority(len(values))}"
            seq = next(iter(seqs.values()))
            return _from_lines(
                signature, 0.8 if group else 0.6, odd, _ordered(calls, odd), f"At #{seq}{where} {said}.{end}"
            )
    return None


def _ordered(observations: Mapping[int, Observation], first: Collection[int]) -> list[Observation]:
    return [observations[rank] for rank in sorted(observations, key=lambda rank: (rank not in first, rank))]


def _behind_in_logs(
    logs: Logs, stuck: Mapping[str, Mapping[int, Observation]], unknown: Mapping[int, Sequence[Observation]]
) -> list[Observation]:
    """Ranks that timed out in nothing, and said on being told of the timeout that they had enqueued less.

    Those counters are the default group's, whatever group hangs.
    """
    victims = dict(stuck.get("0", {}))
    if not stuck:
        victims = {r: min(lines, key=lambda o: int(o.captures["seq"])) for r, lines in unknown.items()}
        if len({o.captures["seq"] for o in victims.values()}) > 1:
            return []
    if not victims:
        return []
    seq = min(int(o.captures["seq"]) for o in victims.values())
    behind = {
        rank: o
        for o in logs.observations
        if o.signature == "nccl-dump-signal" and (rank := o.identity.rank) is not None and rank not in logs.timed_out
        and (enqueued := _int(o.captures.get("enqueued"))) is not None and enqueued < seq
        and _default(o.captures.get("group", "0")) == "0"
    }  # fmt: skip
    if not behind:
        return []
    said = "; ".join(f"rank {r} had enqueued up to #{o.captures['enqueued']}" for r, o in sorted(behind.items())[:8])
    minority = len(behind) < len(victims)
    end = "" if minority else " They are no minority, so that nobody is blamed for it."
    return [
        _from_lines(
            "straggler-rank",
            0.85 if minority else 0.5,
            tuple(sorted(behind)) if minority else (),
            _ordered(behind, ()),
            f"{_ranks(victims)} timed out in #{seq}, and {said}.{end}",
        )
    ]


def _silent(logs: Logs, everyone: frozenset[int], *, tell_nobody: bool) -> list[Observation]:
    """Ranks of which nothing was heard while the others timed out or lost their connections."""
    groups = {o.captures["group"] for o in logs.timed_out.values() if "group" in o.captures}
    complaining = set(logs.timed_out) | set(logs.closed)
    complaining |= {o.identity.rank for o in logs.observations
                    if o.signature == "nccl-dump-signal" and o.identity.rank is not None}  # fmt: skip
    if not complaining:
        return []
    lines = list(logs.timed_out.values()) or list(logs.closed.values())
    whole = all(_default(group) == "0" for group in groups)
    quiet = sorted(everyone - complaining) if whole else []
    if quiet and len(quiet) < len(complaining):
        gone = not logs.timed_out or (len(logs.closed) > len(logs.timed_out))
        signature = "rank-exited-early" if gone else "collective-timeout"
        did = "lost their connection" if gone else "timed out"
        note = f"{_ranks(complaining)} {did}; {_ranks(quiet)} printed nothing of the kind: look there first."
        return [_from_lines(signature, 0.55, tuple(quiet), lines, note)]
    if not tell_nobody or not logs.timed_out:
        return []
    seqs = sorted({int(o.captures["seq"]) for o in logs.timed_out.values() if "seq" in o.captures})
    where = f" at #{seqs[0]}" if len(seqs) == 1 else ""
    apart = ""
    if len(seqs) > 1 and not groups:
        numbers = ", ".join(f"#{seq}" for seq in seqs[:4])
        apart = f" The numbers ({numbers}) may be those of different groups, which the lines do not name."
    note = f"{_ranks(logs.timed_out)} timed out{where}, and the log names no rank that is missing: {NEXT_TIME}.{apart}"
    return [_from_lines("collective-timeout", 0.6, (), lines, note)]


def _from_stacks(tracebacks: Sequence[Traceback], logs: Logs) -> list[Observation]:
    """Where the ranks stood when their wait was given up, by their tracebacks: it should be one line of code."""
    stood: dict[int, Traceback] = {}
    for t in tracebacks:
        if t.identity.rank is not None and not t.chained and any(text in t.message for text in PEER):
            stood.setdefault(t.identity.rank, t)
    kinds = {
        rank: frame[2]
        for rank, t in stood.items()
        if (frame := next((f for f in reversed(t.frames) if f[0].endswith("distributed_c10d.py")), None)) is not None
        and frame[2] in ("send", "recv") and "Timed out" in t.message
    }  # fmt: skip
    if {"send", "recv"} <= set(kinds.values()):
        said = "; ".join(f"rank {rank} in {kind}" for rank, kind in sorted(kinds.items())[:8])
        note = f"Senders and receivers wait at the same time ({said}): a tag, a size or a peer does not fit."
        shown = [stood[rank] for rank in sorted(kinds)]
        return [_from_tracebacks("p2p-mismatch", 0.8, (), shown, note)]
    places = {r: f"{frame[0]}:{frame[1]} {frame[2]}" for r, t in stood.items() if (frame := t.user_frame) is not None}
    if len(places) < 2 or len(set(places.values())) < 2:
        return []
    usual, odd = vote(places)
    if usual is None:
        return []
    if logs.finished_before(odd, [rank for rank in places if rank not in odd]):
        signature, weight = "uneven-inputs", 0.8
    elif odd == (0,):
        signature, weight = "rank-conditional-collective", 0.7
    else:
        signature, weight = "collective-desync", 0.6
    note = f"{_ranks(odd)} waited at {_base(places[odd[0]])}, the others at {_base(str(usual))}."
    shown = [stood[rank] for rank in (*odd, *(r for r in sorted(places) if r not in odd))]
    return [_from_tracebacks(signature, weight, odd, shown, note)]


def _stack_dumps(logs: Logs) -> list[Observation]:
    """Stacks that faulthandler printed on every rank: the rank that stands elsewhere keeps the others waiting."""
    tops: dict[int, Observation] = {}
    for o in logs.observations:
        if o.signature == "stack-dump" and o.identity.rank is not None and {"file", "function"} <= set(o.captures):
            tops.setdefault(o.identity.rank, o)
    places = {
        rank: f"{o.captures['file']}:{o.captures.get('lineno', '?')} {o.captures['function']}"
        for rank, o in tops.items()
    }
    usual, odd = vote(places)
    if usual is None or not odd:
        return []
    note = f"The stack of {_ranks(odd)} stands at {_base(places[odd[0]])}, the others' at {_base(str(usual))}."
    side = odd == (0,) and SIDE_WORK.search(tops[0].captures["function"]) is not None
    return [_from_lines("rank0-side-work" if side else "straggler-rank", 0.8, odd, _ordered(tops, odd), note)]


def _from_lines(
    signature: str, weight: float, culprits: Sequence[int], lines: Sequence[Observation], note: str
) -> Observation:
    key = lines[0]
    return Observation(
        signature=signature,
        weight=weight,
        evidence=tuple(dict.fromkeys(o.evidence[0] for o in lines if o.evidence))[:MAX_EVIDENCE],
        identity=Identity(rank=culprits[0]) if len(culprits) == 1 else Identity(attempt=key.identity.attempt),
        culprits=tuple(culprits),
        time=min((o.time for o in lines if o.time is not None), default=None),
        zone_known=all(o.zone_known for o in lines),
        captures={k: v for k, v in key.captures.items() if k in ("seq", "op", "group", "timeout_ms", "numel")},
        note=note[:1].upper() + note[1:],
    )


def _from_tracebacks(
    signature: str, weight: float, culprits: Sequence[int], stacks: Sequence[Traceback], note: str
) -> Observation:
    return Observation(
        signature=signature,
        weight=weight,
        evidence=tuple(t.final for t in stacks)[:MAX_EVIDENCE],
        identity=Identity(rank=culprits[0]) if len(culprits) == 1 else Identity(attempt=stacks[0].identity.attempt),
        culprits=tuple(culprits),
        time=min((t.time for t in stacks if t.time is not None), default=None),
        zone_known=all(t.zone_known for t in stacks),
        note=note[:1].upper() + note[1:],
    )


# ---------------------------------------------------------------------------------------------------------------------
# Words


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None


def _ranks(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0-3, 8"."""
    from forensics.parsers.flight_recorder import compact

    known = sorted(set(ranks))
    return f"{'rank' if len(known) == 1 else 'ranks'} {compact(known).replace(',', ', ')}"


def _plural(ranks: Collection[int], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def _title(key: Hashable) -> str:
    name, desc = key if isinstance(key, tuple) else (str(key), "")
    if name in DEFAULT_GROUPS:
        return "default_pg"
    return f"{name} ({desc})" if desc and desc != name else str(name)


def _in_group(key: tuple[str, str]) -> str:
    return "the default group" if key[0] in DEFAULT_GROUPS else f"group {_title(key)}"


def _at(call: Call) -> str:
    return f" at {call.place}" if call.place else ""


def _base(frame: str) -> str:
    return frame.rsplit("/", 1)[-1]


def _no_majority(count: int) -> str:
    return "Two ranks give no majority." if count == 2 else "No side is the majority, so that nobody can be named."
