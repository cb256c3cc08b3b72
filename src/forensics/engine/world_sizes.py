"""How many processes a run has, by the environment that the logs of its hosts print.

`WORLD_SIZE=32` in a script that starts the workers of a host is the number of processes in most of them, and that of
the hosts on clusters that set it so. It counts where the logs of several hosts state the same number and hold a block
of the ranks each, which lie below it without a gap and are more than half of it: of so many hosts more logs would be
there.
"""

from __future__ import annotations

from collections import defaultdict

from forensics.engine.few import few
from forensics.engine.launched import STATED
from forensics.model import MAX_RANKS, RunData
from forensics.patterns import lazy

PRINTED = "environment-printed"
_SIZE = lazy(r"\b(?:PET_)?WORLD_SIZE=[\"']?(?P<size>\d{1,6})(?=[\s\"';]|$)")


def of_hosts(data: RunData) -> int | None:
    """The number of processes that the logs of several hosts state; None where they state none, or do not agree."""
    sizes: dict[str, set[int]] = defaultdict(set)
    for o in data.observations:
        told = o.evidence[0]
        if o.signature == PRINTED and "env_size" in o.captures:
            sizes[told.file].add(int(o.captures["env_size"]))
        elif o.signature == STATED and "WORLD_SIZE" in told.text:
            sizes[told.file].update(int(m["size"]) for m in _SIZE.finditer(told.text))
    sizes = {file: stated for file, stated in sizes.items() if stated}
    numbers = {size for stated in sizes.values() for size in stated}
    if len(sizes) < 2 or len(numbers) != 1 or (size := numbers.pop()) > MAX_RANKS:
        return None
    ranks = _ranks(data)
    blocks = sorted(sorted(ranks.get(file, ())) for file in sizes)
    length = len(blocks[0])
    if not length or any(block != [*range(n * length, (n + 1) * length)] for n, block in enumerate(blocks)):
        return None
    known = length * len(blocks)
    return size if known < size < 2 * known and size % length == 0 else None


def _ranks(data: RunData) -> dict[str, set[int]]:
    """File -> the ranks that its lines name as their own."""
    found: dict[str, set[int]] = defaultdict(set)
    for identity, file in (
        *((o.identity, o.evidence[0].file) for o in data.observations),
        *((t.identity, t.header.file) for t in data.tracebacks),
    ):
        if identity.rank is not None:
            found[file].add(identity.rank)
    small = few(data.metrics)
    pairs = (
        {(row.source, row.rank) for row in small}
        if small is not None
        else set(data.metrics.select("source", "rank").unique().iter_rows())
    )
    for file, rank in pairs:
        if rank is not None:
            found[file].add(rank)
    return found
