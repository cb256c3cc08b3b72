"""The host that every broken connection ends at, by the addresses that adapters print of both ends.

Where one host loses its network, each of the others reports that host, and it reports all of them. Any pair by itself
says nothing of which end is to blame.
"""

from __future__ import annotations

from collections.abc import Iterable

from forensics.engine.whose import label
from forensics.model import Observation
from forensics.patterns import lazy

# NET/IB of NCCL since 2.18: `... localGid ::ffff:10.9.0.2 remoteGids::ffff:10.9.0.1 hca mlx5_0`.
_ENDS = lazy(r"\blocalGid ?(?P<local>[0-9A-Fa-f.:]{2,45}) remoteGids ?(?P<remote>[0-9A-Fa-f.:]{2,45})")
HOSTS = 3  # of two hosts each names the other


def common_host(observations: Iterable[Observation]) -> str | None:
    """The one host that is an end of every connection that is told of; None where that is none, or not proven."""
    name_of: dict[str, str] = {}  # address -> the host that calls it its own
    lines: list[tuple[str, str]] = []
    for o in observations:
        m = _ENDS.search(o.evidence[0].text)
        if m is None or not o.identity.node:
            return None
        name_of[m["local"]] = o.identity.node
        lines.append((m["local"], m["remote"]))
    pairs = {frozenset((label(name_of.get(a, a)), label(name_of.get(b, b)))) for a, b in lines}
    if len(frozenset[str]().union(*pairs)) < HOSTS:
        return None
    common = frozenset.intersection(*pairs)
    return next((name for name in name_of.values() if label(name) in common), None) if len(common) == 1 else None
