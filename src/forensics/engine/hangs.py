"""Hangs: what says that ranks wait, what ended the wait, and which of the two came first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from forensics.engine.peers import LOST_PEER
from forensics.engine.survival import CLOCK_SLACK, DEATHS
from forensics.model import Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate
    from forensics.signatures.schema import Signature

# A rank that is stopped in mid-step leaves peers in a call that they began up to a step earlier: only a wait that is
# older than this many seconds was there before the stop.
HANG_BEFORE_STOP = 5.0
# Offsets of time zones are multiples of 15 minutes: times of which one's zone is unknown, and that differ by less than
# half of that, are of one zone (seconds).
SAME_ZONE = 450.0
UNREACHED = "nccl-connect-failed"
_REFUSED = lazy(r"(?i)connection refused")


def is_hang(candidate: Candidate) -> bool:
    """Whether it says that ranks wait."""
    return says_of_waits(candidate.signature)


def says_of_waits(signature: Signature) -> bool:
    """Whether a signature is of ranks that wait: what comparing ranks can show, and what has the verdict `hung`."""
    return signature.kind in ("cause", "symptom") and (
        signature.verdict == "hung" or any(rule.source == "collectives" for rule in signature.evidence)
    )


def is_stop(candidate: Candidate) -> bool:
    """Whether it says that the run was ended from outside."""
    return candidate.signature.verdict == "interrupted" and candidate.signature.kind in ("cause", "symptom", "echo")


def hang_came_first(hang: Candidate, stop: Candidate) -> bool | None:
    """Whether the wait had lasted for some time when the stop came; None where neither clocks nor lines tell."""
    starts = [_onset(o) for o in hang.observations]
    known = [(time, o.zone_known) for time, o in zip(starts, hang.observations, strict=True) if time is not None]
    stops = [(o.time, o.zone_known) for o in stop.observations if o.time is not None]
    if known and stops:
        (began, began_known), (ended, ended_known) = min(known), min(stops)
        if began_known == ended_known or abs(ended - began) < SAME_ZONE:
            return ended - began > HANG_BEFORE_STOP
    lines = [(o.evidence[0].file, o.evidence[0].line) for o in stop.observations if o.evidence[0].line is not None]
    order = [
        e.line < line
        for o in hang.observations
        for e in o.evidence
        for file, line in lines
        if e.file == file and e.line is not None and line is not None
    ]
    return order[0] if order and len(set(order)) == 1 else None


def is_teardown(loss: Candidate, hang: Candidate) -> bool:
    """Whether ranks lost their peers only once a wait had been given up: each after its own, or long after the first.

    Clocks of hosts may differ by CLOCK_SLACK; those of one rank do not. Where the wait was much longer than that, what
    was said after the first rank had given up cannot be what it had waited for.
    """
    if loss.attempt != hang.attempt or loss is hang:
        return False
    gave_up = _gave_up(hang)
    if not gave_up:
        return False
    if _said_after_giving_up(loss, hang, gave_up):
        return True
    lost = loss.signature.name in LOST_PEER or (
        loss.signature.name == UNREACHED and all(map(refused, loss.observations))
    )
    if not lost:
        return False
    first = min(map(_time, gave_up.values())) + (0.0 if waited_long(hang.observations) else CLOCK_SLACK)
    for o in loss.observations:
        own = gave_up.get(o.identity.rank) if o.identity.rank is not None else None
        if o.time is None or o.time < (_time(own) if own is not None else first):
            return False
    return True


def _gave_up(hang: Candidate) -> dict[int | None, Observation]:
    """Rank -> the line in which it first said that it gave up the wait."""
    gave_up: dict[int | None, Observation] = {}
    for o in sorted((o for o in hang.observations if o.time is not None and o.rule is not None), key=_time):
        gave_up.setdefault(o.identity.rank, o)
    return gave_up


def _time(o: Observation) -> float:
    return o.time if o.time is not None else float("inf")


def _said_after_giving_up(c: Candidate, hang: Candidate, gave_up: Mapping[int | None, Observation]) -> bool:
    """Whether ranks that had waited for another one printed an error of their own only when they had given it up.

    What is torn down then breaks in many ways: loaders' workers abort, kernels fail, files stay half written.
    """
    if not hang.ranks or not c.ranks or set(c.ranks) & set(hang.ranks) or c.signature.kind not in ("cause", "symptom"):
        return False
    return c.signature.verdict == "failed" and all(
        o.rule is not None
        and c.signature.evidence[o.rule].source == "log"
        and o.identity.rank is not None
        and (own := gave_up.get(o.identity.rank)) is not None
        and printed_after(o, own)
        for o in c.observations
    )


def printed_after(o: Observation, other: Observation) -> bool:
    """Whether a line was printed after another: by their stamps, or by their places in one file where one has none."""
    if o.timed and other.timed:
        return _time(o) > _time(other)
    return o.evidence[0].is_below(other.evidence[0])


def waited_long(timeouts: Iterable[Observation]) -> bool:
    """Whether all who tell how long they had waited did so for much longer than clocks of hosts differ."""
    waits = [o.time - began for o in timeouts if o.time is not None and (began := _onset(o)) not in (None, o.time)]
    return bool(waits) and min(waits) >= 2 * CLOCK_SLACK


def refused(o: Observation) -> bool:
    """Whether it tells of a connection that was refused: of a host that answers, and a process that is gone."""
    return any(_REFUSED.search(e.text) for e in o.evidence)


def said_before(own: Candidate, hang: Candidate) -> bool:
    """Whether something was printed before the ranks that waited gave up.

    Unknown times do not speak against it, except for a process's death: at the end of a hang all processes are killed.
    Clocks of hosts disagree: where ranks of the same host or log gave up as well, theirs are the times that count.
    """
    said = [(o.time, o.zone_known) for o in own.observations if o.time is not None]
    beside = [o for o in hang.observations if any(_same_clock(o, a) for a in own.observations)]
    gave_up = [(o.time, o.zone_known) for o in beside or hang.observations if o.time is not None]
    if not said or not gave_up:
        return own.signature.name not in DEATHS
    (a, a_known), (b, b_known) = min(said), min(gave_up)
    return a <= b + HANG_BEFORE_STOP or (a_known != b_known and abs(a - b) >= SAME_ZONE)


def _same_clock(a: Observation, b: Observation) -> bool:
    """Whether both were printed with a time, in one log or on one host."""
    if a.time is None or b.time is None:
        return False
    at = a.identity.node
    return a.evidence[0].file == b.evidence[0].file or (at is not None and at == b.identity.node)


def _onset(observation: Observation) -> float | None:
    """When a wait began: a line that tells of a timeout comes that much later."""
    if observation.time is None:
        return None
    waited = observation.captures.get("elapsed_ms") or observation.captures.get("timeout_ms") or "0"
    return observation.time - (int(waited) / 1000 if waited.isdigit() and len(waited) < 12 else 0)
