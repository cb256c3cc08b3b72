"""Hangs: what says that ranks wait, what ended the wait, and which of the two came first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forensics.engine.survival import CLOCK_SLACK, DEATHS
from forensics.model import Observation

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

# A rank that is stopped in mid-step leaves peers in a call that they began up to a step earlier: only a wait that is
# older than this many seconds was there before the stop.
HANG_BEFORE_STOP = 5.0
# Offsets of time zones are multiples of 15 minutes: times of which one's zone is unknown, and that differ by less than
# half of that, are of one zone (seconds).
SAME_ZONE = 450.0
# What ranks say that lost a peer: where they had given up a wait before, by which the run is torn down, its effect.
LOST_PEER = frozenset({"nccl-remote-error", "nccl-system-error"})


def is_hang(candidate: Candidate) -> bool:
    """Whether it says that ranks wait: what comparing ranks can show, and what has the verdict `hung`."""
    signature = candidate.signature
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

    Clocks of hosts may differ by CLOCK_SLACK; those of one rank do not.
    """
    if loss.signature.name not in LOST_PEER or loss.attempt != hang.attempt:
        return False
    gave_up: dict[int | None, float] = {}
    for o in hang.observations:
        if o.time is not None and o.rule is not None:
            gave_up[o.identity.rank] = min(o.time, gave_up.get(o.identity.rank, o.time))
    if not gave_up:
        return False
    first = min(gave_up.values())
    for o in loss.observations:
        own = gave_up.get(o.identity.rank) if o.identity.rank is not None else None
        if o.time is None or o.time < (own if own is not None else first + CLOCK_SLACK):
            return False
    return True


def said_before(own: Candidate, hang: Candidate) -> bool:
    """Whether something was printed before the ranks that waited gave up.

    Unknown times do not speak against it, except for a process's death: at the end of a hang all processes are killed.
    """
    said = [(o.time, o.zone_known) for o in own.observations if o.time is not None]
    gave_up = [(o.time, o.zone_known) for o in hang.observations if o.time is not None]
    if not said or not gave_up:
        return own.signature.name not in DEATHS
    (a, a_known), (b, b_known) = min(said), min(gave_up)
    return a <= b + HANG_BEFORE_STOP or (a_known != b_known and abs(a - b) >= SAME_ZONE)


def _onset(observation: Observation) -> float | None:
    """When a wait began: a line that tells of a timeout comes that much later."""
    if observation.time is None:
        return None
    waited = observation.captures.get("elapsed_ms") or observation.captures.get("timeout_ms") or "0"
    return observation.time - (int(waited) / 1000 if waited.isdigit() and len(waited) < 12 else 0)
