"""The name of a meeting point that no resolver knows: what waited for it waited in vain, and the name is to be told.

c10d says of a name that it cannot resolve that its "network addresses cannot be retrieved", once for each family of
addresses and each attempt, and gives up much later with a timeout. Of a name that has no address of one family alone it
says the same of that family, and then that it tried to connect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forensics.engine.candidates import Candidate
from forensics.model import Fact, Observation

MEETING, WARNED, TRIED = "rendezvous-timeout", "gloo-hostname", "store-connect-retry"
HOST, MASTER = "unresolved", "master"  # captures: a name that does not resolve, one that was to be connected to
WEIGHT = 0.96  # above what only says that the time was up
_MASTER_ADDR = "env.MASTER_ADDR"


def name_hosts(found: Sequence[Candidate], facts: Sequence[Fact]) -> None:
    """Let each wait for a meeting point whose name does not resolve say so first, with the name where it is known."""
    warned = [o for c in found if c.signature.name == WARNED for o in c.observations if HOST in o.captures]
    tried = {
        o.captures[MASTER] for c in found if c.signature.name == TRIED for o in c.observations if MASTER in o.captures
    }
    for c in found:
        if c.signature.name != MEETING:
            continue
        said = [o for o in c.observations if HOST in o.captures]
        if not said:
            awaited = {o.captures[MASTER] for o in c.observations if MASTER in o.captures} - tried
            said = [replace(o, signature=MEETING, rule=None) for o in warned if o.captures[HOST] in awaited][:1]
        if not said:
            continue
        names = {o.captures[HOST] for o in said} - {""} or {f.value for f in facts if f.name == _MASTER_ADDR}
        c.subject = f"the name of {names.pop()} does not resolve" if len(names) == 1 else "a name does not resolve"
        first = replace(said[0], weight=max(said[0].weight, WEIGHT))
        c.observations = [first, *(_below(o) for o in c.observations if o is not said[0])]


def _below(o: Observation) -> Observation:
    return o if HOST in o.captures else replace(o, weight=min(o.weight, WEIGHT - 0.06))
