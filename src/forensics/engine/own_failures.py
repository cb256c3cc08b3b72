"""Whether a candidate is a failure that a program tells of itself, and no wait for others nor a loss of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forensics.engine.hangs import is_hang
from forensics.engine.peers import LOST_PEER
from forensics.engine.survival import DEATHS, GENERIC_EXCEPTION, SUFFERING

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

# Areas of what a process meets by itself.
_OF_ITSELF = ("memory", "gpu", "wiring", "data", "checkpoints")


def is_own_failure(c: Candidate) -> bool:
    """Whether a program's own lines tell of a failure that is no wait for others."""
    if c.signature.kind not in ("cause", "symptom") or c.signature.verdict != "failed" or is_hang(c) or c.of_peers:
        return False
    if c.signature.name == GENERIC_EXCEPTION:
        return True
    rules = [c.signature.evidence[o.rule] for o in c.observations if o.rule is not None]
    return len(rules) == len(c.observations) and all(rule.source == "log" for rule in rules)


def is_alone_to_blame(c: Candidate) -> bool:
    """Whether it is such a failure of which the process itself is the cause: no end that others brought about.

    Who is killed for the memory of its host says nothing, and may have been evicted for it.
    """
    s = c.signature
    blamed = s.kind == "cause" and s.severity == "fatal" and s.culprit == "self" and s.area in _OF_ITSELF
    return blamed and is_own_failure(c) and s.name not in (*SUFFERING, *DEATHS, *LOST_PEER)
