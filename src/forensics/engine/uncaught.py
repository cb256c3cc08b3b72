"""Tracebacks that no signature has recognised by their message, as observations of a Python exception."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from forensics.engine.finishes import EXIT_STATUS
from forensics.engine.own_sockets import CONNECTIONS, LOST_CONNECTION
from forensics.engine.raised import own_frame, passes_on
from forensics.engine.survival import DEATHS, ENDS_A_RUN, GENERIC_EXCEPTION
from forensics.engine.whose import LAUNCHERS_OWN
from forensics.model import Observation, Traceback
from forensics.signatures.schema import Signature

# A traceback's last line and the lines of its message that follow it (state_dict key lists, CUDA hints).
MESSAGE_LINES = 12


def exceptions(
    tracebacks: Sequence[Traceback], observations: Sequence[Observation], catalogue: Mapping[str, Signature]
) -> tuple[Observation, ...]:
    """Tracebacks that no signature has recognised by their message, as observations of `python-exception`.

    Of a chain made by `raise ... from ...` the first traceback is the origin; the later ones are its wrappers. A lost
    connection, which is an echo beside any other trouble, is such an exception where there is none.
    """
    if GENERIC_EXCEPTION not in catalogue:
        return ()
    alone = _lost_alone(tracebacks, observations, catalogue)
    known: dict[str, list[tuple[int, int | None, bool]]] = defaultdict(list)
    for o in observations:
        if o.rule is None and o.culprits:
            continue  # concluded from several lines: the first need not be one of the rank that is blamed
        if o.signature == EXIT_STATUS:
            continue  # says that something ended, also in the record that holds the traceback
        if alone and o.signature == LOST_CONNECTION:
            continue
        if catalogue[o.signature].kind in ("cause", "symptom", "echo") and o.evidence[0].line is not None:
            # A launcher's report stands close below what a process said, and is no part of that.
            reports = o.signature in DEATHS or catalogue[o.signature].area in ("launch", "collectives", "lifecycle")
            known[o.evidence[0].file].append((o.evidence[0].line, o.identity.rank, reports))
    found = []
    ordered = sorted(tracebacks, key=lambda t: (t.header.file, t.header.line or 0))
    for i, traceback in enumerate(ordered):
        first, last = traceback.header.line or 0, traceback.final.line or 0
        own = (traceback.identity.rank,)  # in a file of several ranks, other ranks' lines lie close by
        after = [t.header.line or 0 for t in ordered[i + 1 : i + 2] if t.header.file == traceback.header.file]
        limit = min((line - 1 for line in after if line > last), default=last + MESSAGE_LINES)
        near = [
            rank
            for line, rank, reports in known[traceback.header.file]
            if first <= line <= (last if reports else min(last + MESSAGE_LINES, limit))
        ]
        if any(rank in own or traceback.identity.rank is None for rank in near):
            continue
        if (kind := traceback.exception.rsplit(".", 1)[-1]) in ("KeyboardInterrupt", "SystemExit"):
            continue
        if kind == "StopIteration" and i + 1 < len(ordered) and ordered[i + 1].chained == "context":
            continue  # the end of an iterator, in whose handling something else was raised
        if traceback.chained == "ignored" or passes_on(ordered, i):
            continue
        if traceback.chained == "cause" and i and ordered[i - 1].header.file == traceback.header.file:
            continue
        frame = own_frame(ordered, i) or traceback.user_frame
        captures = {"exception": traceback.exception, "message": traceback.message[:400]}
        if frame:
            captures |= {"file": frame[0], "line": str(frame[1]), "function": frame[2]}
        if traceback.thread is not None:
            captures["thread"] = traceback.thread
        found.append(
            Observation(
                signature=GENERIC_EXCEPTION,
                weight=0.8,
                evidence=(traceback.final, traceback.header),
                identity=traceback.identity,
                time=traceback.time,
                zone_known=traceback.zone_known,
                timed=traceback.timed,
                captures=captures,
                note=f"{traceback.exception} was raised"
                + (f" at {frame[0]}:{frame[1]} in {frame[2]}" if frame else ""),
            )
        )
    return tuple(found)


def _lost_alone(
    tracebacks: Sequence[Traceback], observations: Sequence[Observation], catalogue: Mapping[str, Signature]
) -> bool:
    """Whether one process lost a connection, and nothing else is told that could have ended it, or others.

    Its peer is then no rank of the run, but a server of data or the like. What launchers raise tells of it only.
    """
    names = {t.exception.rpartition(".")[2] for t in tracebacks if t.chained != "ignored"} - LAUNCHERS_OWN
    if not names or names - CONNECTIONS:
        return False
    lost = [t for t in tracebacks if t.exception.rpartition(".")[2] in CONNECTIONS]
    if len({t.identity.rank for t in lost}) > 1 or any("torch/distributed" in f for t in lost for f, *_ in t.frames):
        return False
    signatures = [catalogue[name] for name in {o.signature for o in observations}]
    troubles = (s for s in signatures if s.verdict in ENDS_A_RUN and s.kind in ("cause", "symptom", "echo"))
    return all(s.kind == "echo" and s.area not in ("nccl", "collectives") for s in troubles)
