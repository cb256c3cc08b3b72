"""Which of two errors came first, where their times bear one clock.

Clocks of hosts differ, so that an effect may be stamped well before its cause. Lines of one host, or of hosts whose
records of common steps agree, bear one clock: there the order of times that lie apart is the order of what happened.
An error that a rank meets after others have lost a peer brought none of that about, if another rank has an error of its
own from before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forensics.engine.hangs import is_hang, is_stop
from forensics.engine.peers import LOST_PEER
from forensics.engine.survival import CLOCK_SLACK, DEATHS, ENDS_A_RUN, MEMORY_KILLS
from forensics.model import Observation, RunData

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate
    from forensics.engine.clocks import Offset

# Logs stamp whole seconds, and a line may wait for another one in a pipe (seconds).
SAME_CLOCK = 2.0
# Offsets known less well than this order nothing that a run does within one failure (seconds).
USELESS = 30.0
# The lines of a message below a traceback's last one (DistBackendError's "Last error: ...").
MESSAGE_LINES = 6
LATER = "by the same clock it came {apart:.0f} s after others had lost a peer, and {rank} has an error from before that"


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is known of the clocks that signs bear."""

    doubts: Mapping[str, float]  # host, or the log that stands for it -> how far off its times may still be, seconds
    host_of: Callable[[Observation], str | None]
    blocks: Mapping[str, Sequence[tuple[int, int]]]  # file -> first and last lines of tracebacks that bear a time

    def precedes(self, a: Observation, b: Observation) -> bool:
        """Whether a was surely printed before b. A sign without a time of its own is no older than its file says."""
        apart = self._margin(a, b)
        if apart is None or a.time is None or b.time is None:
            return False
        return b.time - a.time > apart and self._stamped(a)

    def comparable(self, a: Observation, b: Observation) -> bool:
        """Whether anything tells how their clocks stand to each other."""
        return self._margin(a, b) is not None

    def _margin(self, a: Observation, b: Observation) -> float | None:
        """How far apart their times must lie to be their order (seconds); None where nothing tells."""
        one, other = self.host_of(a), self.host_of(b)
        if a.zone_known == b.zone_known:
            same_file = a.evidence[0].file == b.evidence[0].file
            if one == other if one is not None and other is not None else same_file:
                return SAME_CLOCK
        if one is None or other is None or one not in self.doubts or other not in self.doubts:
            return None
        doubt = self.doubts[one] + self.doubts[other]
        return SAME_CLOCK + doubt if doubt < USELESS else None

    def _stamped(self, o: Observation) -> bool:
        e = o.evidence[0]
        return o.timed or any(
            e.line is not None and first <= e.line <= last for first, last in self.blocks.get(e.file, ())
        )


NOTHING_KNOWN = Timeline({}, lambda o: o.identity.node, {})


def timeline(
    data: RunData,
    measured: Mapping[str, Offset],
    right: Mapping[str, Offset],
    host_of: Callable[[Observation], str | None],
) -> Timeline:
    """The timeline of a run. measured: offsets of hosts; right: those by which times have been set right."""
    doubts = {
        host: offset.bound if host in right and right[host].sure else abs(offset.seconds) + offset.bound
        for host, offset in measured.items()
    }
    blocks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for t in data.tracebacks:
        if t.timed and t.header.line is not None and t.final.line is not None:
            blocks[t.header.file].append((t.header.line, t.final.line + MESSAGE_LINES))
    return Timeline(doubts, host_of, blocks)


def late(live: Sequence[Candidate], times: Timeline) -> dict[int, str]:
    """id -> why of candidates that came after ranks had lost a peer, where another rank's error came before that."""
    errors = [c for c in live if _is_own_error(c)]
    losses = [c for c in live if c.signature.kind == "echo" or c.signature.name in LOST_PEER or c.of_peers]
    if len(errors) < 2 or not losses or any(is_hang(c) for c in live):
        return {}
    found: dict[int, str] = {}
    for c in errors:
        for first in errors:
            apart = _after_losses(c, first, losses, times) if first is not c else None
            if apart is not None:
                ranks = first.ranks or ()
                found[id(c)] = LATER.format(apart=apart, rank=f"rank {ranks[0]}" if len(ranks) == 1 else "another rank")
                break
    return found


def untold(first: Candidate, other: Candidate, times: Timeline) -> bool:
    """Whether two errors of different ranks, or hosts, lie so close that nothing tells which came first."""
    if first.attempt != other.attempt or first.late or other.late or not _is_error(first) or not _is_error(other):
        return False
    a, b = first.observations[0], other.observations[0]
    hosts = {times.host_of(o) or _folder(o) for o in (a, b)}
    known = bool(first.ranks) and bool(other.ranks)
    apart = not set(first.ranks or ()) & set(other.ranks or ()) if known else len(hosts - {None}) == 2
    if not apart or a.time is None or b.time is None or abs(a.time - b.time) > CLOCK_SLACK:
        return False
    return not times.precedes(a, b) and not times.precedes(b, a)


def _folder(o: Observation) -> str | None:
    """The folder of the file that a sign stands in, which stands for its host where nothing names one."""
    return o.evidence[0].file.rpartition("/")[0] or None


def _is_error(c: Candidate) -> bool:
    s = c.signature
    own = s.kind in ("cause", "symptom") and s.verdict == "failed" and s.name not in (*LOST_PEER, *DEATHS)
    return own and not c.of_peers and not is_hang(c)


def _is_own_error(c: Candidate) -> bool:
    """Whether a rank says it of itself when it happens, or the kernel of the process that it kills."""
    s = c.signature
    own = s.kind in ("cause", "symptom") and s.verdict in ENDS_A_RUN and s.name not in (*LOST_PEER, *DEATHS)
    if not own or c.of_peers or is_hang(c) or is_stop(c) or not c.ranks or any(o.time is None for o in c.observations):
        return False
    return s.name in MEMORY_KILLS or all(o.identity.rank is not None for o in c.observations)


def _after_losses(c: Candidate, first: Candidate, losses: Sequence[Candidate], times: Timeline) -> float | None:
    """Seconds from the first loss of a peer between two errors of different ranks to the later of them."""
    if c.attempt != first.attempt or set(c.ranks or ()) & set(first.ranks or ()):
        return None
    sign, origin = c.observations[0], first.observations[0]
    if not times.precedes(origin, sign):
        return None
    between = [
        o.time
        for loss in losses
        for o in loss.observations
        if loss.attempt == c.attempt and times.precedes(o, sign) and not times.precedes(o, origin)
    ]
    told = [time for time in between if time is not None]
    return (sign.time or 0.0) - min(told) if told else None
