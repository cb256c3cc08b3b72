"""Local ranks of a host's log as global ones, by what its launch states of the hosts.

torchrun's `[default3]:` names a process by its local rank. `--nnodes 2 --node_rank 1 --nproc_per_node 8`, or the
variables that a job script sets for it, tell which of the run's processes that is: a launch that is given the hosts'
numbers counts its ranks through the hosts in their order (elastic/rendezvous/static_tcp_rendezvous.py of torch). One
that meets at a rendezvous numbers the hosts as they come, whatever it is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from forensics.model import MAX_RANKS, Identity, Observation, RunData
from forensics.patterns import lazy

if TYPE_CHECKING:
    import polars as pl

STATED = "nodes-stated"
_VALUES = lazy(
    r"(?:--(?P<option>nnodes|node[-_]rank|nproc[-_]per[-_]node)[= ]"
    r"|\b(?:PET_)?(?P<variable>NNODES|NUM_NODES|NODE_RANK|NPROC_PER_NODE|GPUS_PER_NODE)=)[\"']?(?P<value>[^\s\"';]*)"
)
_MEETS = lazy(r"--rdzv[-_]backend[= ][\"']?(?!static\b)\w")
_NAMES = {"num_nodes": "nnodes", "gpus_per_node": "nproc_per_node"}


class _Launch(NamedTuple):
    """What the lines of one file state; None where none does, or several differ."""

    hosts: int | None
    host: int | None  # counted from 0
    processes: int | None  # on each

    @property
    def first(self) -> int | None:
        """The global rank of the host's local rank 0."""
        if self.hosts is None or self.host is None or self.processes is None or self.host >= self.hosts:
            return None
        return self.host * self.processes if 0 < self.processes * self.hosts <= MAX_RANKS else None


def several(observations: Iterable[Observation]) -> bool:
    """Whether any file states that the run is on more hosts than one."""
    return any((launch.hosts or 0) > 1 for launch in _launches(observations).values())


def placed(data: RunData) -> RunData:
    """The run with global ranks where lines bear a local one, in files whose launch tells; with its world."""
    launches = _launches(data.observations)
    first = {
        path: n for path, launch in launches.items() if (launch.hosts or 0) > 1 and (n := launch.first) is not None
    }
    if not first:
        return data

    def known(identity: Identity, path: str) -> Identity:
        launch, local = launches.get(path), identity.local_rank
        if path not in first or launch is None or local is None or identity.rank is not None:
            return identity
        return replace(identity, rank=first[path] + local) if local < (launch.processes or 0) else identity

    def seen(o: Observation) -> Observation:
        path = o.evidence[0].file
        if o.signature == STATED and path in first:
            size = (launches[path].hosts or 0) * (launches[path].processes or 0)
            return replace(o, captures={**o.captures, "world_size": str(size)})
        return replace(o, identity=known(o.identity, path))

    return replace(
        data,
        observations=tuple(map(seen, data.observations)),
        tracebacks=tuple(replace(t, identity=known(t.identity, t.header.file)) for t in data.tracebacks),
        metrics=_rows(data.metrics, {path: (n, launches[path].processes or 0) for path, n in first.items() if n}),
    )


def _rows(metrics: pl.DataFrame, first: Mapping[str, tuple[int, int]]) -> pl.DataFrame:
    """Rows whose rank is a local one, as their prefix named it, with the global one.

    first: path -> (first rank, number of ranks) of a host other than the first one: none of its global ranks is below.
    """
    import polars as pl

    if not metrics.height:
        return metrics
    rank = pl.col("rank")
    for path, (n, processes) in first.items():
        mine = (pl.col("source") == path) & (pl.col("rank") < min(n, processes))
        rank = pl.when(mine).then(pl.col("rank") + n).otherwise(rank)
    return metrics.with_columns(rank.cast(pl.Int32).alias("rank"))


def _launches(observations: Iterable[Observation]) -> dict[str, _Launch]:
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for o in observations:
        if o.signature != STATED:
            continue
        file, text = o.evidence[0].file, o.evidence[0].text
        for m in _VALUES.finditer(text):
            name = (m["option"] or m["variable"]).lower().replace("-", "_")
            values[file][_NAMES.get(name, name)].add(m["value"])
        if _MEETS.search(text):
            values[file]["node_rank"].update(("", "at the rendezvous"))
    return {
        file: _Launch(*(_number(told[name]) for name in ("nnodes", "node_rank", "nproc_per_node")))
        for file, told in values.items()
    }


def _number(values: set[str]) -> int | None:
    """The one number among the values; a variable that a script prints unexpanded, or a range, is none."""
    value = next(iter(values)) if len(values) == 1 else ""
    return int(value) if value.isdecimal() and len(value) < 7 else None
