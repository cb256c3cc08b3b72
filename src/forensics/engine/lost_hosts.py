"""Which host was lost, where every process of another reports a broken connection and this one falls silent.

Who reports that a peer is gone is not where it happened. Of two hosts each names the other, so that addresses alone
say nothing of which end is to blame; but where the logs of the far one stop without a word, it is that one. Where they
go on or have words of their own, or are not there, the place is not known. Where several hosts report one address, of
which nothing says whose it is, it is that of the only host whose logs report nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from forensics.engine.candidates import Candidate
from forensics.engine.collectives.addresses import PEER_NODE, reporter
from forensics.engine.finishes import FINISHED
from forensics.engine.identity import World
from forensics.engine.peers import GONE
from forensics.engine.whose import label
from forensics.model import Observation, RunData

# Beside what is surely of a peer that is gone: transfers to it that were given up, which name the process that did.
GIVEN_UP = frozenset({"nccl-network-timeout"})
FEWEST = 2  # processes that report it: one may have lost a link of its own
SILENT = "All ranks of {near} report it, and the logs of {far} end without a word of a failure"
# Seconds by which a host that is gone may seem to have written after its loss was reported: hosts' clocks that are set
# by NTP agree better, and where they do not, nothing is said.
CLOCKS = 5.0
_TELLING = ("cause", "symptom", "echo")


@dataclass(frozen=True, slots=True)
class _Ends:
    near: str  # the host whose processes report
    far: str | None  # name of the one at the other end of all connections; None where none is known


def settle(
    top: Sequence[Candidate], found: Sequence[Candidate], data: RunData, nodes: Mapping[int, str], world: World
) -> None:
    """Give each root that reports a lost peer the host that was lost, or say that the reporting one is none."""
    for c in top:
        signs = [o for o in c.observations if o.signature in GONE | GIVEN_UP]
        if len(signs) < len(c.observations):
            continue
        ends = _ends(signs, data, nodes, world) or _one_of_many([*signs, *_told_with(c)], data)
        if ends is None:
            continue
        if ends.far is not None and _falls_silent(ends.far, c, signs, found, data, nodes, world):
            c.lost_host, c.ranks = ends.far, None
            told = SILENT.format(near=ends.near, far=ends.far)
            notes = [note for note in (c.observations[0].note, told) if note]
            c.observations[0] = replace(c.observations[0], note=" ".join(notes))
        elif all(o.signature in GONE for o in signs):
            c.lost_host = ""


def _ends(signs: Sequence[Observation], data: RunData, nodes: Mapping[int, str], world: World) -> _Ends | None:
    """The two ends of all connections that are told of; None where the reports are not those of one whole host."""
    hosts = {label(host): host for host in nodes.values()}
    hosts |= {label(s.identity.node): s.identity.node for s in data.sources if s.identity.node}
    told = [(o, world.of(o)) for o in signs]
    near = {label(host) for o, rank in told if (host := reporter(o) or nodes.get(-1 if rank is None else rank))}
    ranks = {rank for _, rank in told if rank is not None}
    if len(near) != 1 or len(ranks) < FEWEST:
        return None
    (mine,) = near
    if ranks != {rank for rank, host in nodes.items() if label(host) == mine}:
        return None
    named = {label(host) for o in signs if (host := o.captures.get(PEER_NODE) or _name(o.captures.get("peer")))}
    if mine in named or len(named) > 1:
        return None
    others = {host for key, host in hosts.items() if key != mine}
    if named:
        others = {hosts.get(next(iter(named)), next(iter(named)))}
    return _Ends(hosts.get(mine, mine), others.pop()) if len(others) == 1 else None


def _told_with(c: Candidate) -> list[Observation]:
    """What the same processes say of the connections that a candidate is about: `Last error: ...` names the peer."""
    return [o for e in c.explains if e.attempt == c.attempt for o in e.observations if o.signature in GONE]


def _one_of_many(signs: Sequence[Observation], data: RunData) -> _Ends | None:
    """The ends of connections of several hosts to one, where the logs of one host alone tell of none.

    That one may be told by its address, of which nothing says whose it is, or by its name.
    """
    naming = [o for o in signs if o.captures.get("peer")] or signs
    peers = {o.captures.get("peer", "").partition("<")[0].strip("[]").lower() for o in naming}
    homes = {s.path: s.identity.node for s in data.sources if s.identity.node}
    telling = {home for o in signs if (home := homes.get(o.evidence[0].file))}
    near = {host for o in signs if (host := reporter(o))}
    # A log may be called otherwise than its host calls itself: each host of a log is one that reports, or is silent.
    silent = {home for home in set(homes.values()) - telling if label(home) not in {label(host) for host in near}}
    if len(peers) != 1 or "" in peers or len(near) < FEWEST or len(telling) != len(near) or len(silent) != 1:
        return None
    name, far = _name(peers.pop()), silent.pop()
    return _Ends(", ".join(sorted(near)), far) if name is None or label(name) == label(far) else None


def _name(peer: str | None) -> str | None:
    """A peer's host as a line names it; None for an address."""
    return peer if peer is not None and peer[:1].isalpha() and ":" not in peer else None


def _falls_silent(
    far: str,
    c: Candidate,
    signs: Sequence[Observation],
    found: Iterable[Candidate],
    data: RunData,
    nodes: Mapping[int, str],
    world: World,
) -> bool:
    """Whether the logs of a host's ranks are there, tell of no failure or end, and stop before its loss is reported."""
    mine = {rank for rank, host in nodes.items() if label(host) == label(far)}
    ends: dict[int, float] = {}
    of_host: list[float] = []  # of logs that hold what all of its processes print
    for writer in data.writers:
        rank, node, attempt = writer.identity.rank, writer.identity.node, writer.identity.attempt
        if attempt not in (None, c.attempt) or writer.last_time is None:
            continue
        if rank in mine:
            ends[rank] = max(writer.last_time, ends.get(rank, writer.last_time))
        elif rank is None and node and label(node) == label(far):
            of_host.append(writer.last_time)
    times = [o.time for o in signs if o.time is not None]
    if not mine or not times or (ends.keys() != mine and not of_host):
        return False
    return max([*ends.values(), *of_host]) <= max(times) + CLOCKS and not _speaks(far, mine, c, found, world)


def _is_failure(c: Candidate) -> bool:
    return c.signature.kind in _TELLING and c.signature.severity in ("fatal", "error")


def _speaks(far: str, mine: Set[int], c: Candidate, found: Iterable[Candidate], world: World) -> bool:
    return any(
        other.attempt == c.attempt
        and (other.signature.name == FINISHED or _is_failure(other))
        and any(
            world.of(o) in mine or (o.identity.node and label(o.identity.node) == label(far))
            for o in other.observations
            if o.rule is not None or not o.culprits  # what others' lines say of a rank is no word of its own
        )
        for other in found
    )
