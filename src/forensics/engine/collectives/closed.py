"""Which process of a host closed its connections to all others, by the notes of NCCL's service threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from forensics.engine.collectives.observations import MAX_EVIDENCE
from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.model import Observation
from forensics.parsers.nccl.lines import init, parse

SIGNATURE = "nccl-local-rank-closed"
FEWEST = 2  # processes that note it: of two on a host, each notes the other's


def alone(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with one sign of SIGNATURE for each host of which all others note one process' end, else none.

    When a communicator is destroyed, every process notes every other one's end: such notes are dropped, and so are all
    where the run says that it ended well.
    """
    others = [o for o in observations if o.signature != SIGNATURE]
    if len(others) == len(observations):
        return others
    if any(o.signature == FINISHED and o.weight > ANYBODYS_END for o in others):
        return others
    return [*others, *_gone([o for o in observations if o.signature == SIGNATURE], others)]


def _gone(notes: Sequence[Observation], others: Sequence[Observation]) -> Iterator[Observation]:
    processes = _processes(others)
    by_host: dict[str, list[tuple[int, Observation]]] = defaultdict(list)
    for o in notes:
        if (line := parse(o.evidence[0].text)) is not None:
            by_host[line.host].append((line.pid, o))
    for host, told in sorted(by_host.items()):
        closed = {o.captures["closed"] for _, o in told}
        known = processes.get(host, {})
        if len(closed) != 1 or len(known) <= FEWEST:
            continue
        index = int(next(iter(closed)))
        gone = sorted(known)[index] if index < len(known) else None  # local ranks are counted in the order of ranks
        noted = {pid for pid, _ in told}
        if gone is None or noted != set(known.values()) - {known[gone]}:
            continue
        signs = [o for _, o in told]
        note = (
            f"all {len(noted)} other processes of {host} note that rank {gone} (local rank {index}, process "
            f"{known[gone]}) closed its connections, and they note it of no other"
        )
        yield replace(
            signs[0],
            evidence=tuple(dict.fromkeys(o.evidence[0] for o in signs))[:MAX_EVIDENCE],
            culprits=(gone,),
            identity=replace(signs[0].identity, rank=None, local_rank=None, device=None, pid=None, node=host),
            count=len(signs),
            note=note[0].upper() + note[1:] + ".",
        )


def _processes(observations: Sequence[Observation]) -> dict[str, dict[int, int]]:
    """Host -> rank -> process, from the births of the largest communicator."""
    births = [
        (line.host, line.pid, birth)
        for o in observations
        if o.signature == "nccl-init"
        and (line := parse(o.evidence[0].text)) is not None
        and (birth := init(line.message)) is not None
    ]
    world = max((birth.size for *_, birth in births), default=0)
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for host, pid, birth in births:
        if birth.size == world:
            found[host][birth.rank] = pid
    return found
