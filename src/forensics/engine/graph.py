"""The cause graph: what links one candidate to another, and whether their order and the catalogue allow it."""

from __future__ import annotations

from collections.abc import Mapping

from forensics.engine import order, zones
from forensics.engine.candidates import Candidate
from forensics.engine.hangs import SAME_ZONE
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Observation
from forensics.signatures.schema import Signature


def may_precede(a: Candidate, b: Candidate) -> bool:
    """Nothing in the clocks speaks against a having come before b."""
    if a.attempt != b.attempt:
        return a.attempt < b.attempt
    if a.follows is b:
        return False
    if a.time is None or b.time is None:
        return True
    if a.late and a.time > b.time and not set(a.ranks or ()) & set(b.ranks or ()):
        return False
    if _one_process(a, b):
        latest = _latest(b)
        return latest is None or a.time <= latest + CLOCK_SLACK or _zones_differ(a, b)
    return a.time <= b.time + CLOCK_SLACK or _zones_differ(a, b)


def _one_process(a: Candidate, b: Candidate) -> bool:
    """Whether the same ranks are blamed for both, or nobody for either, as where there is but one."""
    return set(a.ranks or ()) == set(b.ranks or ())


def _latest(c: Candidate) -> float | None:
    """When the first sign of a candidate was seen at the latest; None where no time bounds it.

    A sign without a time of its own bears that of the last line above it, and may have come much later.
    """
    own = [o.time for o in c.observations if o.time is not None and (o.timed or o.evidence[0].offset is None)]
    return min(own, default=None)


def _zones_differ(a: Candidate, b: Candidate) -> bool:
    """Whether their times lie so far apart that it may be by their zones, of which one is not known."""
    return a.observations[0].zone_known != b.observations[0].zone_known and _zones_apart(a, b)


def _zones_apart(a: Candidate, b: Candidate) -> bool:
    apart = abs((a.time or 0.0) - (b.time or 0.0))
    beside = abs((apart + zones.STEP / 2) % zones.STEP - zones.STEP / 2)
    return SAME_ZONE <= apart <= zones.SPAN and beside <= CLOCK_SLACK


def clocks_in_other_zones(a: Candidate, b: Candidate) -> bool:
    """Whether two candidates lie as far apart as zones do, of which neither is known."""
    unknown = not any(o.zone_known for c in (a, b) for o in c.observations)
    return unknown and a.time is not None and b.time is not None and _zones_apart(a, b)


def of_other_hosts(a: Candidate, b: Candidate) -> bool:
    """Whether the hosts of two candidates are known, and none is of both."""
    one, other = ({o.identity.node for o in c.observations} for c in (a, b))
    return None not in one | other and not one & other


def not_before(c: Candidate, o: Observation) -> bool:
    """Whether no time says that a candidate came before an observation."""
    return c.time is None or o.time is None or o.time <= c.time + order.SAME_CLOCK


def stands_above(a: Candidate, b: Candidate) -> bool:
    """Whether all that b says in the file where a speaks first stands below a, and b speaks there."""
    first = a.observations[0].evidence[0]
    lines = [o.evidence[0].line for o in b.observations if o.evidence[0].file == first.file]
    return bool(lines) and first.line is not None and all(line is not None and line > first.line for line in lines)


def descends(name: str, ancestor: str, catalogue: Mapping[str, Signature]) -> bool:
    seen = set()
    while name in catalogue and name not in seen:
        seen.add(name)
        parent = catalogue[name].parent
        if parent == ancestor:
            return True
        name = parent or ""
    return False


def brings_about(name: str, catalogue: Mapping[str, Signature]) -> set[str]:
    """Everything a signature can bring about, over any number of steps."""
    reached: set[str] = set()
    open_names = [name]
    while open_names:
        n = open_names.pop()
        for effect in (*catalogue[n].causes, *catalogue[n].causes_on_rank) if n in catalogue else ():
            if effect not in reached:
                reached.add(effect)
                open_names.append(effect)
    return reached


def depends_on(a: Candidate, b: Candidate) -> bool:
    """True where a is already explained, directly or not, by b: linking b under a would close a circle."""
    at: Candidate | None = a
    while at is not None:
        if at is b:
            return True
        at = at.explained_by
    return False


def link(cause: Candidate, effect: Candidate) -> None:
    effect.explained_by = cause
    cause.explains.append(effect)
