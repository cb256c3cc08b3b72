"""A log that breaks off in zero bytes, and a journal by which its host was started anew afterwards.

Neither alone says what ended a run: programs make room in files in advance, and hosts are started anew when nothing
runs on them.
"""

from __future__ import annotations

from forensics.engine import whose
from forensics.engine.survival import CLOCK_SLACK
from forensics.model import Evidence, Fact, Observation, RunData, Writer
from forensics.parsers.zeros import FACT, POWER_LOST
from forensics.parsers.zeros import of as zeros_of

HOST_DOWN, BOOTED = "node-failure", "host-booted"
WEIGHT = 0.85  # two signs that agree by their clocks, on one host as far as anything tells
_NOTE = f"the log ends in zero bytes, {POWER_LOST}"


def told(data: RunData) -> list[Observation]:
    """The sign that a host went down, for each log that breaks off so before the host was started by its journal.

    Only by the clock: a journal holds other starts of the host as well. Where several logs break off so, and hosts have
    names, a log is of the host that its path or its lines name.
    """
    zeros = [fact for fact in data.facts if fact.name == FACT]
    boots = [o for o in data.observations if o.signature == BOOTED and o.timed and o.time is not None] if zeros else []
    hosts = {s.path: s.identity.node for s in data.sources}
    found = []
    for fact in zeros:
        writer = next((w for w in data.writers if w.source == fact.source), None)
        if writer is None or writer.last_time is None:
            continue
        last, host = writer.last_time, hosts.get(fact.source)
        after = [
            o
            for o in boots
            if (o.time or 0.0) + CLOCK_SLACK >= last
            and o.evidence[0].file != fact.source
            and not whose.apart(host, o.identity.node)
        ]
        if after:
            found.append(_sign(fact, min(after, key=lambda o: o.time or 0.0), writer))
    return found


def _sign(fact: Fact, boot: Observation, writer: Writer) -> Observation:
    zeros = zeros_of(fact)
    broken = Evidence(fact.source, fact.line, None, f"{zeros.said}… and {zeros.size:,} zero bytes")
    return Observation(
        signature=HOST_DOWN,
        weight=WEIGHT,
        evidence=(broken, *boot.evidence),
        identity=boot.identity,
        culprits=(),
        time=writer.last_time,
        note=_NOTE,
    )
