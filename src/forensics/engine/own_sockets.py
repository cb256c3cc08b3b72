"""A connection that one rank lost in its own code: its own failure where all the trouble of others comes of its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from forensics.engine.peers import GONE, LOST_PEER, MISSED, NCCL_ENDS
from forensics.engine.survival import ENDS_A_RUN
from forensics.engine.whose import LAUNCHERS_OWN, WORKER_EXIT
from forensics.model import Observation, Traceback
from forensics.signatures.schema import Signature

LOST_CONNECTION = "broken-pipe"
CONNECTIONS = frozenset({"ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError"})
# What ranks print that wait for one which does not come, or that lose it.
_LOSSES = MISSED | LOST_PEER | GONE | NCCL_ENDS
_REPORT = "child-failed-error"
# What a launcher, and the abort that follows a loss, make of the end of a process.
_ENDS = frozenset({"rank-sigabrt", "sigterm-to-children", _REPORT, "srun-task-exited"})
# Who speaks to peers over sockets, by a part of the path of the file: a connection lost there is one to a rank.
_TO_PEERS = ("torch/distributed", "deepspeed/comm", "horovod/", "mpi4py/", "jax/_src/distributed", "ray/", "torch_xla/")
# Seconds after which other trouble is no part of what broke the connection; the shortest waits are longer than that.
_LATER = 60.0
_SIGTERM = "-15"  # how the exit code of a process shows that its launcher ended it


def told(
    found: Sequence[Observation],
    tracebacks: Sequence[Traceback],
    catalogue: Mapping[str, Signature],
    everyone: Iterable[int] | None,
) -> list[Observation]:
    """The observations, less the echo of a connection that is the failure of the rank's own which lost it.

    Its traceback is then an exception like any other. everyone: the ranks of the run, None where they are not known.
    """
    if not any(o.signature == LOST_CONNECTION for o in found):
        return list(found)
    own = _own_loss(found, tracebacks, catalogue, everyone)
    if own is None:
        return list(found)
    return [o for o in found if o.signature != LOST_CONNECTION or not _within(o, own)]


def _own_loss(
    found: Sequence[Observation],
    tracebacks: Sequence[Traceback],
    catalogue: Mapping[str, Signature],
    everyone: Iterable[int] | None,
) -> Traceback | None:
    """The traceback of a connection that one rank alone lost in its own code, without trouble of others before it.

    None also where another rank may have ended first without a word: a launcher has to name this rank as failed by
    itself, or all others to say that they waited or lost a peer.
    """
    lost = [t for t in tracebacks if _name(t) in CONNECTIONS and t.chained != "ignored"]
    if len(lost) != 1 or (rank := lost[0].identity.rank) is None or lost[0].thread is not None:
        return None
    own = lost[0]
    if own.own_frame is None or any(part in frame[0] for frame in own.frames for part in _TO_PEERS):
        return None
    losses = [o for o in found if o.signature in _LOSSES]
    if any(o.identity.rank == rank or _before(o.time, own) for o in losses):
        return None
    for t in tracebacks:
        if t is own or t.chained == "ignored" or _name(t) in LAUNCHERS_OWN or _later(t.time, own):
            continue
        if not any(_within(o, t) for o in losses):
            return None
    if any(_is_other_trouble(o, own, catalogue) for o in found):
        return None
    others = {o.identity.rank for o in losses} - {None}
    ranks = everyone or {o.identity.rank for o in found if o.identity.rank is not None}
    silent = set(ranks) - others - {rank}
    return own if (others and not silent) or _failed_by_itself(rank, own, found) else None


def _is_other_trouble(o: Observation, own: Traceback, catalogue: Mapping[str, Signature]) -> bool:
    """Whether an observation may tell of what broke the connection."""
    signature = catalogue.get(o.signature)
    if signature is None or signature.kind not in ("cause", "symptom", "echo") or signature.verdict not in ENDS_A_RUN:
        return False
    if o.signature in _LOSSES or o.signature in _ENDS or _later(o.time, own) or _within(o, own):
        return False
    return o.signature == LOST_CONNECTION or signature.severity in ("fatal", "error")


def _failed_by_itself(rank: int, own: Traceback, found: Iterable[Observation]) -> bool:
    """Whether a launcher saw this rank end with a status of its own, and none but those that it had told to before.

    torchrun names the first failed process by its local rank, below what that has printed.
    """
    exits = [o for o in found if o.signature in (WORKER_EXIT, _REPORT) and "exitcode" in o.captures]
    of_own = [
        o
        for o in exits
        if (o.signature == WORKER_EXIT and o.identity.rank == rank)
        or (o.signature == _REPORT and _stands_below(o, own) and not _later(o.time, own))
    ]
    codes = {o.captures["exitcode"] for o in of_own}
    others = (o for o in exits if o not in of_own)
    return any(code.isdecimal() and code != "0" for code in codes) and all(
        o.captures["exitcode"] in (_SIGTERM, "0") or _later(o.time, own) for o in others
    )


def _stands_below(o: Observation, t: Traceback) -> bool:
    at = o.evidence[0]
    return at.file == t.header.file and (at.line or 0) > (t.final.line or 0)


def _name(t: Traceback) -> str:
    return t.exception.rpartition(".")[2]


def _within(o: Observation, t: Traceback) -> bool:
    at = o.evidence[0]
    return at.file == t.header.file and (t.header.line or 0) <= (at.line or 0) <= (t.final.line or 0)


def _before(time: float | None, own: Traceback) -> bool:
    """Whether something came before the exception, whose own time may be that of a line above it."""
    return time is not None and own.time is not None and time < own.time


def _later(time: float | None, own: Traceback) -> bool:
    return time is not None and own.time is not None and time >= own.time + _LATER
