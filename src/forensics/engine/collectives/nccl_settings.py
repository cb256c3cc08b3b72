"""NCCL's settings that all ranks have to share, where those of some ranks are others.

Each process chooses algorithm, protocol and the sizes of its buffers by its own environment. Ranks that chose
differently send what their peers do not expect: the next collective hangs, or a message has the wrong size. A process
prints what is set (`NCCL_PROTO set by environment to Simple`), and nothing of what is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from forensics.engine.collectives.observations import MAX_EVIDENCE, spoken, vote
from forensics.model import Identity, Observation

SIGNATURE = "nccl-env-mismatch"
_ENVIRONMENT, _INIT = "nccl-environment", "nccl-init"
# What ranks that differ run into.
_TROUBLES = frozenset(("collective-timeout", "nccl-watchdog-abort", "nccl-watchdog-stuck", SIGNATURE))
# Those that NCCL does not itself bring to agree; of channels, for one, it takes what all ranks have.
_SHARED = frozenset(
    (
        "NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE NCCL_NTHREADS NCCL_LL128_NTHREADS "
        "NCCL_P2P_NET_CHUNKSIZE"
    ).split()
)
UNSET = "not set"


def differing(observations: Iterable[Observation]) -> list[Observation]:
    """One observation for each setting in which few ranks differ from most, where ranks met what comes of that."""
    told = list(observations)
    met = next((o for o in told if o.signature in _TROUBLES), None)
    if met is None:
        return []
    lines: dict[str, dict[int, Observation]] = defaultdict(dict)
    for o in told:
        name = o.captures.get("variable", "") if o.signature == _ENVIRONMENT else ""
        if name in _SHARED and o.identity.rank is not None:
            lines[name].setdefault(o.identity.rank, o)
    if not lines:
        return []
    started = {rank for o in told if o.signature == _INIT and (rank := o.identity.rank) is not None}
    found = (_of_setting(name, of_ranks, started, met, told) for name, of_ranks in sorted(lines.items()))
    return [o for o in found if o is not None]


def _of_setting(
    name: str, lines: Mapping[int, Observation], started: Iterable[int], met: Observation, told: Sequence[Observation]
) -> Observation | None:
    """The ranks that have another value of a setting than most; None where all agree, or as many have either.

    met: what came of it, by which it is placed in time: training may go on for a while with what they are set to.
    """
    values = dict.fromkeys(started, UNSET) | {rank: o.captures.get("value", "") for rank, o in lines.items()}
    usual, odd = vote(values)
    # Rank 0 alone may speak for all, as it does of much else.
    if not odd or (odd == (0,) and usual == UNSET):
        return None
    shown = [lines[rank] for rank in odd if rank in lines] + [o for rank, o in lines.items() if rank not in odd]
    hosts = {o.identity.node for o in told if o.identity.rank in odd and o.identity.node is not None}
    theirs = ", ".join(sorted({values[rank] for rank in odd}))
    note = f"{name} is {theirs} on {spoken(odd)} and {usual} on most others"
    return Observation(
        signature=SIGNATURE,
        weight=0.85,
        evidence=(*met.evidence[:1], *(o.evidence[0] for o in shown))[:MAX_EVIDENCE],
        identity=Identity(
            rank=odd[0] if len(odd) == 1 else None,
            node=hosts.pop() if len(hosts) == 1 else None,
            attempt=met.identity.attempt,
        ),
        culprits=odd,
        time=met.time,
        zone_known=met.zone_known,
        timed=met.timed,
        captures={"variable": name, "value": theirs},
        note=note,
    )
