"""Ranks and hosts of logs whose processes print their environment, where the logs bear each other out.

`SLURM_PROCID=3` is rank 3 where each task drives one rank, and a node where it starts torchrun. `RANK=1` is a rank in
a worker, and may be the number of a pod in the script that starts the workers. So the numbers count where each log has
one of its own, they run from 0 without a gap, and no line of a log names another rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from forensics.engine.environment import stated_world
from forensics.engine.identity import stated_size
from forensics.engine.world_sizes import PRINTED
from forensics.model import Identity, Kind, RunData


@dataclass(slots=True)
class _Printed:
    """The values of each variable that one log holds."""

    ranks: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    locals: set[int] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)

    @property
    def rank(self) -> int | None:
        """The one rank, or task, that is named; None where there are none or several."""
        named = self.ranks or self.tasks
        return next(iter(named)) if len(named) == 1 else None


def of_processes(data: RunData) -> dict[str, Identity]:
    """Path -> identity with rank and host, of the logs whose processes printed them; nothing where any contradicts."""
    printed = _printed(data)
    ranks = {path: p.rank for path, p in printed.items() if p.ranks or p.tasks}
    known = {path: rank for path, rank in ranks.items() if rank is not None}
    if len(known) < 2 or len(known) < len(ranks) or sorted(known.values()) != list(range(len(known))):
        return {}
    if _denied(data, known, printed):
        return {}
    found = {}
    told = not _share_a_place(printed, known)
    for source in data.sources:
        if source.path in known and source.kind is Kind.LOG:
            hosts = printed[source.path].hosts if told else set()
            node = source.identity.node or (next(iter(hosts)) if len(hosts) == 1 else None)
            found[source.path] = replace(source.identity, rank=known[source.path], node=node)
    return found


def _share_a_place(printed: Mapping[str, _Printed], paths: Iterable[str]) -> bool:
    """Whether two logs name one host and one local number, as where a variable is that of the host that started all."""
    places = [(host, local) for path in paths for host in printed[path].hosts for local in printed[path].locals]
    return len(places) > len(set(places))


def _printed(data: RunData) -> dict[str, _Printed]:
    found: dict[str, _Printed] = defaultdict(_Printed)
    for o in data.observations:
        if o.signature != PRINTED:
            continue
        of_file, told = found[o.evidence[0].file], o.captures
        for name, values in (
            ("env_rank", of_file.ranks),
            ("env_task", of_file.tasks),
            ("env_local", of_file.locals),
            ("env_size", of_file.sizes),
        ):
            if told.get(name, "").isdecimal():
                values.add(int(told[name]))
        if "env_host" in told:
            of_file.hosts.add(told["env_host"])
    return found


def _denied(data: RunData, known: Mapping[str, int], printed: Mapping[str, _Printed]) -> bool:
    """Whether anything says that a log's number is not the one rank of its process."""
    sizes = {size for path in known for size in printed[path].sizes}
    stated = stated_size(data.observations) or stated_world(data.facts)
    if any(size != len(known) for size in (*sizes, *([stated] if stated is not None else []))):
        return True
    if not any(printed[path].ranks for path in known) and not any(max(printed[p].locals, default=0) for p in known):
        return True  # one task a host may start a worker for each of its devices
    identified = [(o.identity, o.evidence[0].file) for o in data.observations]
    identified += [(t.identity, t.header.file) for t in data.tracebacks]
    identified += [(s.identity, s.path) for s in data.sources]
    locals_seen: dict[str, set[int]] = defaultdict(set)
    for identity, path in identified:
        if path in known and identity.rank not in (None, known[path]):
            return True
        if path in known and identity.local_rank is not None:
            locals_seen[path].add(identity.local_rank)
    if data.metrics.height:
        for path, rank in data.metrics.select("source", "rank").drop_nulls().unique().iter_rows():
            if path in known and rank != known[path]:
                return True
    return any(len(seen) > 1 for seen in locals_seen.values())
