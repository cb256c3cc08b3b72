"""The host that every broken connection ends at, by what reports of broken connections print of both ends.

Where one host loses its network or its processes, the others report that host, and it reports all of them. Any pair by
itself says nothing of which end is to blame.
"""

from __future__ import annotations

from collections.abc import Iterable

from forensics.engine.whose import label
from forensics.model import Observation
from forensics.parsers.nccl.lines import parse
from forensics.patterns import lazy

# NET/IB of NCCL since 2.18: `... localGid ::ffff:10.9.0.2 remoteGids::ffff:10.9.0.1 hca mlx5_0`.
_ENDS = lazy(r"\blocalGid ?(?P<local>[0-9A-Fa-f.:]{2,45}) remoteGids ?(?P<remote>[0-9A-Fa-f.:]{2,45})")
PEER_NODE = "peer_node"  # capture: the host at the other end of a connection, where NCCL said whose its address is
# Of two hosts each names the other. A host that only one other names may have given up after it lost a third.
FEWEST = 2


def common_host(observations: Iterable[Observation]) -> str | None:
    """The one host that is an end of every connection that is told of, and that hosts beside it name; None where that
    is none, or not proven."""
    name_of: dict[str, str] = {}  # address, or the label of a name -> the host's name as it is printed
    lines: list[tuple[str, str]] = []
    for o in observations:
        host = reporter(o)
        m = _ENDS.search(o.evidence[0].text)
        far = o.captures.get(PEER_NODE) or (m["remote"] if m is not None else None)
        if host is None or far is None:
            return None
        if m is not None:
            name_of.setdefault(m["local"], host)
        if PEER_NODE in o.captures:
            name_of.setdefault(label(far), far)
        name_of[label(host)] = host
        lines.append((host, far))
    pairs = {(label(host), label(name_of.get(far, far))) for host, far in lines}
    common = frozenset.intersection(*(frozenset(pair) for pair in pairs)) if pairs else frozenset[str]()
    if len(common) != 1:
        return None
    (end,) = common
    return name_of.get(end) if len({host for host, far in pairs if far == end}) >= FEWEST else None


def reporter(o: Observation) -> str | None:
    """The host of the process that reports a broken connection: as NCCL prints it, else as it is known."""
    line = parse(o.evidence[0].text) if o.evidence else None
    return line.host if line is not None else o.identity.node
