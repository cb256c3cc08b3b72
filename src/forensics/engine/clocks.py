"""Clocks of hosts that disagree: how far each is off, from what must have happened at the same time everywhere.

Ranks that train together record one global step, and enqueue one collective, at nearly the same moment. Hosts whose
records of these differ by much the same in all of them have clocks that differ by that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median, median_low
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine import order
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Identity, Observation, RunData, Traceback
from forensics.rank_ranges import rank_ranges

if TYPE_CHECKING:
    import polars as pl

    from forensics.engine.candidates import Candidate


# Fewer common events are chance.
EVENTS = 5
# Most logs stamp whole seconds: no offset is known better than this (seconds).
RESOLUTION = 1.0
# The bound is the deviation from the median that this part of the events does not exceed.
WITHIN = 0.9
DOUBT = "{a} and {b} tell of it within seconds, and their clocks cannot be compared: which came first is not known"
TIE = "{a} and {b} failed in the same second by what their lines bear: which came first is not known"
TIE_WORDS = "which came first is not known"
UNTOLD = "{a} and {b} failed within less than their clocks are known to agree: which came first is not known"
SET_RIGHT = "the clock of {host} is {by:.0f} s {way} the others, and its times are set right by that"
ABOUT = (
    "the clock of {host} is about {by:.0f} s {way} the others, by when their logs begin and end: its times are set "
    "right by that, to within {bound:.0f} s"
)

# Ranks of one host record a step at nearly the same moment, and a slow one a little later. Where no host is named, only
# what is more than this is taken to be a clock's (seconds).
UNNAMED = 10.0

Key = tuple[object, ...]


class Offset(NamedTuple):
    """How far a host's clock is ahead of the others'."""

    seconds: float
    bound: float  # seconds; what the events it rests on leave open
    events: int

    @property
    def sure(self) -> bool:
        return self.events >= EVENTS and abs(self.seconds) > self.bound


def estimate(seen: Mapping[str, Mapping[Key, float]]) -> dict[str, Offset]:
    """Each host's offset against the clock in the middle, from the times at which hosts saw common events.

    seen: host -> event -> seconds. Hosts that share fewer than EVENTS events with the host that shares most are left
    out; so is everything where no two hosts share any.
    """

    hosts = sorted(seen)
    by = Counter(key for events in seen.values() for key in events)  # event -> how many hosts saw it
    base = max(hosts, key=lambda host: sum(by[key] - 1 for key in seen[host]), default=None)
    if base is None:
        return {}
    against: dict[str, Offset] = {}
    for host in hosts:
        shared = seen[host].keys() & seen[base].keys()
        if host == base or len(shared) < EVENTS:
            continue
        differences = [seen[host][key] - seen[base][key] for key in shared]
        middle = median(differences)
        spread = sorted(abs(d - middle) for d in differences)
        bound = spread[min(int(len(spread) * WITHIN), len(spread) - 1)]
        against[host] = Offset(middle, max(bound, RESOLUTION), len(shared))
    if not against:
        return {}
    against[base] = Offset(0.0, min(o.bound for o in against.values()), max(o.events for o in against.values()))
    right = median_low(sorted(o.seconds for o in against.values()))
    return {host: o._replace(seconds=o.seconds - right) for host, o in against.items()}


def known(data: RunData, measured: Mapping[str, Offset], node_of_rank: Mapping[int, str]) -> dict[str, Offset]:
    """Of offsets, those of named hosts, and others that are more than a slow rank's."""
    named = {*node_of_rank.values(), *(s.identity.node for s in data.sources)}
    return {host: o for host, o in measured.items() if host in named or not o.sure or abs(o.seconds) > UNNAMED}


def measure(data: RunData, node_of_rank: Mapping[int, str]) -> dict[str, Offset]:
    """How far hosts, and files of one rank each of which no host is known, are off.

    They rest on the steps that hosts record, and on the collectives in their ranks' dumps. Files of one rank each whose
    hosts nothing names are compared as well, and stand under the rank's name ("rank 3").
    """
    seen: dict[str, dict[Key, float]] = defaultdict(dict)

    def saw(node: str | None, key: Key, time: float) -> None:
        if node is not None:
            seen[node][key] = min(time, seen[node].get(key, time))

    node_of_source = writers_of(data, node_of_rank)
    if data.metrics.height and len({*node_of_rank.values(), *node_of_source.values()} - {None}) > 1:
        import polars as pl

        timed = data.metrics.filter(pl.col("step").is_not_null() & pl.col("time").is_not_null())
        # A time that several steps share is that of an earlier line, and none of theirs.
        own = timed.filter(pl.col("step").n_unique().over("source", "time") == 1)
        columns = ("source", "rank", "attempt", "step", "epoch", "time")
        for source, rank, attempt, step, epoch, time in own.select(columns).unique().iter_rows():
            node = node_of_source.get(source) or node_of_rank.get(rank)
            saw(node, ("step", attempt, step, None if epoch is None else int(epoch)), time)
    if data.collectives.height:
        import polars as pl

        done = data.collectives.filter((pl.col("state") == "completed") & pl.col("time").is_not_null())
        for rank, group, seq, p2p, time in done.select("rank", "group", "seq", "is_p2p", "time").iter_rows():
            if not p2p:
                saw(node_of_rank.get(rank), ("collective", group, seq), time)
    return estimate(seen)


def hosts_of(data: RunData, node_of_rank: Mapping[int, str]) -> Callable[[Observation], str | None]:
    """A function from signs to their hosts, or the names under which `measure` has the files of one rank each."""
    of_source = writers_of(data, node_of_rank)

    def host_of(o: Observation) -> str | None:
        of_rank = node_of_rank.get(o.identity.rank) if o.identity.rank is not None else None
        return o.identity.node or of_rank or of_source.get(o.evidence[0].file)

    return host_of


def writers_of(data: RunData, node_of_rank: Mapping[int, str]) -> dict[str, str | None]:
    """Source -> its host, and "rank 3" where that is not known and the source is of one rank."""
    found: dict[str, str | None] = {}
    for source in data.sources:
        rank = source.identity.rank
        unnamed = f"rank {rank}" if rank is not None else None
        of_rank = node_of_rank.get(rank, unnamed) if rank is not None else None
        found[source.path] = source.identity.node or of_rank
    return found


def set_right(data: RunData, offsets: Mapping[str, Offset], node_of_rank: Mapping[int, str]) -> RunData:
    """The run with the times of what hosts printed whose clocks are surely off."""
    offsets = {node: offset for node, offset in offsets.items() if offset.sure}
    if not offsets:
        return data
    node_of_source = writers_of(data, node_of_rank)

    def ahead(identity: Identity, file: str) -> float:
        of_rank = node_of_rank.get(identity.rank) if identity.rank is not None else None
        host = identity.node or node_of_source.get(file) or of_rank
        return offsets[host].seconds if host is not None and host in offsets else 0.0

    def observed(o: Observation) -> Observation:
        by = ahead(o.identity, o.evidence[0].file)
        return replace(o, time=o.time - by) if o.time is not None and by else o

    def raised(t: Traceback) -> Traceback:
        by = ahead(t.identity, t.header.file)
        return replace(t, time=t.time - by) if t.time is not None and by else t

    return replace(
        data,
        observations=tuple(observed(o) for o in data.observations),
        tracebacks=tuple(raised(t) for t in data.tracebacks),
        metrics=_rows(data, offsets, node_of_source, node_of_rank),
    )


def _rows(
    data: RunData,
    offsets: Mapping[str, Offset],
    node_of_source: Mapping[str, str | None],
    node_of_rank: Mapping[int, str],
) -> pl.DataFrame:
    if not data.metrics.height:
        return data.metrics
    import polars as pl

    of_rank = {rank: offsets[node].seconds for rank, node in node_of_rank.items() if node in offsets}
    # A file that names its host was written there; ranks in it may be those of the host only.
    of_source = {
        path: offsets[node].seconds if node in offsets else 0.0 for path, node in node_of_source.items() if node
    }
    shift = pl.coalesce(
        pl.col("source").replace_strict(of_source, default=None, return_dtype=pl.Float64),
        pl.col("rank").replace_strict(of_rank, default=None, return_dtype=pl.Float64),
        pl.lit(0.0),
    )
    return data.metrics.with_columns(pl.col("time") - shift)


def doubt(
    linked: Sequence[Candidate],
    offsets: Mapping[str, Offset],
    node_of_rank: Mapping[int, str],
    times: order.Timeline = order.NOTHING_KNOWN,
) -> None:
    """Add a note to each root that comes first by nothing but times that cannot be compared.

    They are those of hosts whose clocks may differ, and those of other ranks in the same second. An exception of its
    own on a host whose clock cannot be compared with that of what explains it becomes a root as well.
    """
    _ties(linked)
    _untold(linked, times)
    for first in linked:
        if first.explained_by is not None or first.time is None:
            continue
        rivals = [*first.explains, *(c for c in linked if c is not first and c.explained_by is None)]
        for other in rivals:
            if not _decided_by_time(first, other):
                continue
            a, b = _host(first, node_of_rank), _host(other, node_of_rank)
            if a is None or b is None or a == b:
                continue
            if all(host in offsets and offsets[host].bound < order.USELESS for host in (a, b)):
                continue
            _note(first, DOUBT.format(a=a, b=b))
            break


def _ties(linked: Sequence[Candidate]) -> None:
    """Add a note to each root that shares its second with another error of other ranks, in another file.

    Most logs stamp whole seconds. What follows from a root by nothing but its time becomes a root beside it.
    """
    for first in linked:
        if first.explained_by is not None:
            continue
        effects = [c for c in first.explains if _decided_by_time(first, c)]
        rivals = [c for c in linked if c is not first and c.explained_by is None and c.signature.kind != "echo"]
        tied = [c for c in (*effects, *rivals) if _same_second(first, c)]
        for c in tied:
            if c.explained_by is first:
                first.explains.remove(c)
                c.explained_by = None
        if tied:
            told = [f"{_spoken(c.ranks or ())} ({c.subject or c.signature.name})" for c in (first, tied[0])]
            _note(first, TIE.format(a=told[0], b=told[1]))


def _untold(linked: Sequence[Candidate], times: order.Timeline) -> None:
    for first in [c for c in linked if c.explained_by is None]:
        if any(TIE_WORDS in (o.note or "") for o in first.observations):
            continue
        apart = [c for c in first.explains if c.raised_alone and not times.comparable(*_firsts(first, c))]
        rivals = [c for c in linked if c is not first and c.explained_by is None]
        close = [c for c in (*apart, *rivals) if order.untold(first, c, times)]
        for c in close:
            if c.explained_by is first:
                first.explains.remove(c)
                c.explained_by = None
        if close:
            first.untold = True
            one, other = (_named(c, times) for c in (first, close[0]))
            _note(first, UNTOLD.format(a=one, b=other))


def _firsts(a: Candidate, b: Candidate) -> tuple[Observation, Observation]:
    return a.observations[0], b.observations[0]


def _named(c: Candidate, times: order.Timeline) -> str:
    where = _spoken(c.ranks) if c.ranks else times.host_of(c.observations[0]) or "a rank"
    return f"{where} ({c.subject or c.signature.name})"


def _spoken(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {rank_ranges(ranks)}"


def _same_second(a: Candidate, b: Candidate) -> bool:
    """Whether two candidates' first signs, of other ranks and files, bear one second that hides their order.

    What torch.distributed raises of a peer that is gone comes after it, in whatever second.
    """
    if a.of_peers or b.of_peers or not a.ranks or not b.ranks or set(a.ranks) & set(b.ranks) or a.attempt != b.attempt:
        return False
    one, other = a.observations[0], b.observations[0]
    if one.time is None or other.time is None or not (one.timed and other.timed):
        return False
    whole = one.time == int(one.time) or other.time == int(other.time)
    return whole and int(one.time) == int(other.time) and one.evidence[0].file != other.evidence[0].file


def admit(linked: Sequence[Candidate], offsets: Mapping[str, Offset], node_of_rank: Mapping[int, str]) -> None:
    """Add a note to each candidate whose time is not the one that its line bears."""
    for c in linked:
        rank = c.observations[0].identity.rank
        host = _host(c, node_of_rank) or (f"rank {rank}" if rank is not None else None)
        if c.time is not None and host is not None and host in offsets and offsets[host].sure:
            by, bound = offsets[host].seconds, offsets[host].bound
            told = ABOUT if bound >= order.USELESS else SET_RIGHT
            _note(c, told.format(host=host, by=abs(by), bound=bound, way="ahead of" if by > 0 else "behind"))


def _note(candidate: Candidate, note: str) -> None:
    key = candidate.observations[0]
    candidate.observations[0] = replace(key, note=f"{key.note}. {note}" if key.note else note)


def _decided_by_time(first: Candidate, other: Candidate) -> bool:
    """Whether two candidates are of one kind and equally telling, and their times close to each other."""
    if first.attempt != other.attempt or first.time is None or other.time is None:
        return False
    a, b = first.signature, other.signature
    alike = (a.kind, a.severity, a.specificity) == (b.kind, b.severity, b.specificity)
    return alike and b.name not in a.causes and abs(first.time - other.time) < CLOCK_SLACK


def _host(candidate: Candidate, node_of_rank: Mapping[int, str]) -> str | None:
    """The host of its first sign."""
    identity = candidate.observations[0].identity
    return identity.node or (node_of_rank.get(identity.rank) if identity.rank is not None else None)
