"""Exceptions that ranks caught which record no steps themselves: the ranks they train with went on for long.

Where only rank 0 prints its steps, no step of its own shows that another rank outlived what it printed. Ranks that
train in step cannot go on without one of them. So records of others below an exception show that its rank went on as
well, where its traceback begins within the program, which shows that it was caught there. A program may end of what it
caught and printed: few records count where the run ended of what no loss of that rank brings about, or where the rank
is heard again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.finishes import later
from forensics.engine.hangs import is_hang
from forensics.engine.identity import World
from forensics.engine.peers import GONE, MISSED, NCCL_ENDS
from forensics.engine.steps import StepClock
from forensics.engine.survival import DEATHS, ENDS_A_RUN, STEPS_AFTER_DEATH, SUFFERING
from forensics.model import Observation

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

WHY = "it was caught: the ranks that train with its rank went on for many steps, until the run ended of something else"
# Steps that others record below it where the run ended of what the loss of a rank could bring about: the batches
# between two updates of accumulated gradients are fewer.
MANY_STEPS = 4 * STEPS_AFTER_DEATH
# What those show who wait for a rank, and what tells that some process ended: an exception may bring all of it about.
_OF_A_LOSS = SUFFERING | GONE | MISSED | NCCL_ENDS | frozenset(DEATHS)
_KILLED = "sigkill-unknown-sender"  # no exception of a rank kills another one before its peers stop
_OUTSIDE = ("gpu", "nccl")  # what devices and links do is told by other signs
# By which of DEATHS a process ended by itself, as it does by an exception; the others are signals.
_EXITS = ("child-failed-error", "srun-task-exited", "worker-restart")


def set_aside(live: Sequence[Candidate], steps: StepClock, world: World, starts: Sequence[Observation]) -> None:
    """Make exceptions that their ranks outlived context, or mark them where others of the same kind ended the run.

    live: causes, symptoms and echoes; starts: lines that only a new process prints.
    """
    told = [c for c in live if c.context is None]
    passed: list[tuple[Candidate, tuple[Observation, ...]]] = []
    for c in told:
        s = c.signature
        if s.kind not in ("cause", "symptom") or s.verdict != "failed" or s.area in _OUTSIDE or c.recovered:
            continue
        caught = tuple(o for o in c.observations if _others_went_on(o, steps, world, starts))
        if not caught:
            continue
        rest = [o for o in c.observations if o not in caught]
        if all(_outlived(o, c, rest, told, steps, world) for o in caught):
            passed.append((c, caught))
    for c, caught in passed:
        if len(caught) == len(c.observations):
            c.context = WHY
        else:
            c.outlived = (*c.outlived, *(o for o in caught if o not in c.outlived))


def _others_went_on(o: Observation, steps: StepClock, world: World, starts: Sequence[Observation]) -> bool:
    """Whether a sign is an exception, caught in a rank's main thread, below which other ranks alone record steps."""
    if not o.caught or "thread" in o.captures:
        return False
    rank = world.of(o)
    if rank is None or steps.records(rank) or steps.steps_after(o, None) < STEPS_AFTER_DEATH:
        return False
    return not any(s.evidence[0].is_below(o.evidence[0]) for s in starts)


def _outlived(
    o: Observation,
    c: Candidate,
    rest: Sequence[Observation],
    told: Sequence[Candidate],
    steps: StepClock,
    world: World,
) -> bool:
    """Whether a caught exception is none that its process ended of.

    rest: the signs of the same failure that nothing outlived.
    """
    rank = world.of(o)
    others = [end for end in told if end is not c and end.attempt == c.attempt and end.signature.verdict in ENDS_A_RUN]
    after = [(end, sign) for end in others for sign in end.observations if later(sign, o)]
    ends = [(end, sign) for end, sign in after if _is_no_loss(end, rank)]
    exited = any(end.signature.name in _EXITS and rank in (end.ranks or ()) for end in others)
    if exited and not any(world.of(sign) == rank for sign in (*(sign for _, sign in ends), *rest)):
        return False
    if ends or any(later(sign, o) for sign in rest):
        return True
    heard = any(sign.identity.rank == rank and end.signature.name not in DEATHS for end, sign in after)
    return heard or steps.steps_after(o, None) >= MANY_STEPS


def _is_no_loss(end: Candidate, rank: int | None) -> bool:
    """Whether a candidate is an end of the run that the loss of one rank cannot bring about."""
    if end.signature.kind not in ("cause", "symptom") or is_hang(end) or end.of_peers:
        return False
    if end.signature.name == _KILLED or (end.signature.name in DEATHS and end.signature.name not in _EXITS):
        return bool(end.ranks) and rank not in (end.ranks or ())
    return end.signature.name not in _OF_A_LOSS
