"""Clocks of hosts whose ranks record nothing in common, from when their logs begin and end.

Processes of one run start together, and what ends one of them soon ends the others. Where all that a host's ranks wrote
begins and ends by the same time earlier or later than what the others wrote, its clock is that far off: a late start
moves the beginning alone, and a wait for a peer the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import median_low

from forensics.engine.clocks import EVENTS, Offset, writers_of
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Kind, RunData
from forensics.signatures.schema import Signature

# Less than this may be a slow image pull at the start, and a peer's timeout at the end (seconds).
LEAST = 300.0
# A log shows when its processes started where trouble comes this much later (seconds): some hold errors alone.
BEFORE = 5.0


def by_spans(data: RunData, node_of_rank: Mapping[int, str], catalogue: Mapping[str, Signature]) -> dict[str, Offset]:
    """Hosts' offsets by the first and last stamps of their ranks' logs; known to CLOCK_SLACK only.

    Empty where a rank wrote on two hosts, a log may be of a later start, a host's logs begin with its trouble, or no
    host is surely off.
    """
    host_of = writers_of(data, node_of_rank)
    ranks = _ranks(data)
    if any(s.identity.attempt for s in data.sources) or any(o.identity.attempt for o in data.observations):
        return {}
    hosts: dict[int, set[str]] = defaultdict(set)
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for w in data.writers:
        host = host_of.get(w.source)
        if w.source not in ranks or host is None or w.first_time is None or w.last_time is None:
            continue
        for rank in ranks[w.source]:
            hosts[rank].add(host)
        spans[host].append((w.first_time, w.last_time))
    if len(spans) < 2 or any(len(of_rank) > 1 for of_rank in hosts.values()):
        return {}
    ends = {host: (min(first for first, _ in of), max(last for _, last in of)) for host, of in spans.items()}
    troubles = [
        *((o.evidence[0].file, o.time) for o in data.observations if _is_trouble(catalogue.get(o.signature))),
        *((t.header.file, t.time) for t in data.tracebacks),
    ]
    for file, time in troubles:
        host = host_of.get(file)
        if file in ranks and host in ends and time is not None and time - ends[host][0] < BEFORE:
            return {}
    return shifts(ends)


def _ranks(data: RunData) -> dict[str, set[int]]:
    """Log -> the ranks that wrote it, where any are known."""
    found: dict[str, set[int]] = defaultdict(set)
    logs = {s.path for s in data.sources if s.kind is Kind.LOG}
    told = [(s.path, s.identity.rank) for s in data.sources]
    told += [(o.evidence[0].file, o.identity.rank) for o in data.observations]
    if data.metrics.height:
        told += data.metrics.select("source", "rank").unique().rows()
    for path, rank in told:
        if rank is not None and path in logs:
            found[path].add(rank)
    return found


def _is_trouble(signature: Signature | None) -> bool:
    return signature is not None and signature.kind in ("cause", "symptom", "echo")


def shifts(ends: Mapping[str, tuple[float, float]]) -> dict[str, Offset]:
    """Hosts' offsets against the one in the middle. ends: host -> when what it wrote begins and ends, seconds."""
    begin, end = (median_low(sorted(span[i] for span in ends.values())) for i in (0, 1))
    found: dict[str, Offset] = {}
    for host, (first, last) in ends.items():
        early, late = first - begin, last - end
        if abs(early - late) > CLOCK_SLACK:
            return {}  # what began and ended is not the same everywhere
        by = (early + late) / 2
        found[host] = Offset(by if abs(by) >= LEAST else 0.0, CLOCK_SLACK, EVENTS)
    return found if any(offset.sure for offset in found.values()) else {}
