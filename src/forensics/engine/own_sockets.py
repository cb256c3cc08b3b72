"""Connections that ranks lost in their own code: their own failure where all trouble of others comes of their end."""

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
    own = _own_losses(found, tracebacks, catalogue, everyone)
    return [o for o in found if o.signature != LOST_CONNECTION or not any(_within(o, t) for t in own)]


def _own_losses(
    found: Sequence[Observation],
    tracebacks: Sequence[Traceback],
    catalogue: Mapping[str, Signature],
    everyone: Iterable[int] | None,
) -> list[Traceback]:
    """The tracebacks of connections that a rank, or a few, lost in their own code, without trouble of others before.

    There are none also where another rank may have ended first without a word: a launcher has to name these ranks as
    failed by themselves, or all others to say that they waited or lost a peer.
    """
    own = [t for t in tracebacks if _name(t) in CONNECTIONS and t.chained != "ignored"]
    ranks = {t.identity.rank for t in own}
    if not own or len(ranks) != len(own) or not all(_is_of_its_code(t) for t in own):
        return []
    losses = [o for o in found if o.signature in _LOSSES]
    if any(o.identity.rank in ranks or any(_before(o.time, t) for t in own) for o in losses):
        return []
    for t in tracebacks:
        if t in own or t.chained == "ignored" or _name(t) in LAUNCHERS_OWN or all(_later(t.time, o) for o in own):
            continue
        if not any(_within(o, t) for o in losses):
            return []
    if any(_is_other_trouble(o, own, catalogue) for o in found):
        return []
    return own if _all_others_waited(own, losses, found, everyone) or _failed_by_themselves(own, found) else []


def _is_of_its_code(lost: Traceback) -> bool:
    """Whether a rank lost a connection in a function of its own, where no library speaks to other ranks."""
    if lost.identity.rank is None or lost.thread is not None or lost.own_frame is None:
        return False
    return not any(part in frame[0] for frame in lost.frames for part in _TO_PEERS)


def _all_others_waited(
    own: Sequence[Traceback],
    losses: Iterable[Observation],
    found: Iterable[Observation],
    everyone: Iterable[int] | None,
) -> bool:
    """Whether every other rank says that it waited for a peer or lost one.

    Where several ranks lost a connection, one may have lost it to another rank's end: then they are but a few of many,
    for which the others waited far longer than such an end takes to be seen.
    """
    lost = {t.identity.rank for t in own}
    told = list(losses)
    others = {o.identity.rank for o in told} - {None}
    ranks = set(everyone or {o.identity.rank for o in found if o.identity.rank is not None})
    if not others or ranks - others - lost:
        return False
    if len(own) == 1:
        return True
    seen = {rank for rank in others | lost if rank is not None}
    whole = everyone is not None or seen == set(range(len(seen)))
    return whole and len(own) < len(others) and all(_later(o.time, t) for o in told for t in own)


def _is_other_trouble(o: Observation, own: Sequence[Traceback], catalogue: Mapping[str, Signature]) -> bool:
    """Whether an observation may tell of what broke the connections."""
    signature = catalogue.get(o.signature)
    if signature is None or signature.kind not in ("cause", "symptom", "echo") or signature.verdict not in ENDS_A_RUN:
        return False
    if o.signature in _LOSSES or o.signature in _ENDS or all(_later(o.time, t) for t in own):
        return False
    if any(_within(o, t) for t in own):
        return False
    return o.signature == LOST_CONNECTION or signature.severity in ("fatal", "error")


def _failed_by_themselves(own: Sequence[Traceback], found: Iterable[Observation]) -> bool:
    """Whether launchers saw these ranks end with a status of their own, and no others but those they had told to.

    torchrun names the first failed process by its local rank, below what that has printed.
    """
    exits = [o for o in found if o.signature in (WORKER_EXIT, _REPORT) and "exitcode" in o.captures]
    failed = [[o for o in exits if _is_end_of(o, t) and o.captures["exitcode"].isdecimal()] for t in own]
    # A report of one process stands below what each of them has printed: each needs one.
    processes = {o.captures.get("pid") or f"rank {o.identity.rank}" for ends in failed for o in ends}
    if not all(failed) or len(processes) < len(own):
        return False
    others = (o for o in exits if not any(o in ends for ends in failed))
    return all(o.captures["exitcode"] in (_SIGTERM, "0") or all(_later(o.time, t) for t in own) for o in others)


def _is_end_of(o: Observation, t: Traceback) -> bool:
    """Whether a launcher's word of a failed process is of the one that raised."""
    if o.signature == WORKER_EXIT and o.identity.rank == t.identity.rank:
        return True
    return o.signature == _REPORT and _stands_below(o, t) and not _later(o.time, t)


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
