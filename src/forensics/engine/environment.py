"""The facts that a report shows, and what they say of how far a run came."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forensics.files import beginning
from forensics.model import Fact, Kind, Source
from forensics.parsers.version_lines import stated

MOST = 1_000  # facts of a report
LOGS, HEAD = 32, 16 << 10  # logs in whose first bytes lines of versions are looked for: ranks say the same
_DIGITS = re.compile(r"\d{1,15}")


def environment(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Each name and value once, at the first place that states it, and of one place one value; MOST at most."""
    seen: dict[tuple[str, str], Fact] = {}
    places: set[tuple[str, str, int]] = set()
    for fact in facts:
        if len(seen) >= MOST:
            break
        place = (fact.name, fact.source, fact.line) if fact.line is not None else None
        if (fact.name, fact.value) in seen or place in places:
            continue
        seen[fact.name, fact.value] = fact
        if place is not None:
            places.add(place)
    return tuple(seen.values())


def printed_versions(sources: Sequence[Source], facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """What lines of nothing but versions say of packages of which no fact is known.

    For a reader only: what a script prints of NCCL does not show that it was used, as NCCL's own line does.
    """
    known = {fact.name for fact in facts}
    found: list[Fact] = []
    logs = [source for source in sources if source.kind is Kind.LOG and source.size]
    for source in logs[:LOGS]:
        try:
            head = beginning(source.file, HEAD).decode("utf-8", "replace")
        except OSError:
            continue
        for package, version, line in stated(head):
            if (name := f"{package}.version") not in known:
                found.append(Fact(name, version, source.path, line))
    return tuple(found)


def saved_progress(facts: Sequence[Fact]) -> str | None:
    """How far the last saved state is, of the steps that were planned; None where it is at the end, or not known."""
    steps = [int(f.value) for f in facts if f.name == "trainer.global_step" and _DIGITS.fullmatch(f.value)]
    planned = {int(f.value) for f in facts if f.name == "trainer.max_steps" and _DIGITS.fullmatch(f.value)}
    if not steps or len(planned) != 1:
        return None
    last, total = max(steps), planned.pop()
    return f"The last saved state is at step {last:,} of {total:,}." if last < total else None


def stated_world(facts: Sequence[Fact]) -> int | None:
    """The world size that a worker's own environment or Megatron's table of arguments states; None where they differ.

    WORLD_SIZE alone says little: clusters set it to the number of hosts before a launcher sets it for its workers.
    """
    of_worker = {f.source for f in facts if f.name == "env.LOCAL_RANK"} & {
        f.source for f in facts if f.name == "env.RANK"
    }
    sizes = {
        int(f.value)
        for f in facts
        if (f.name == "megatron.world_size" or (f.name == "env.WORLD_SIZE" and f.source in of_worker))
        and re.fullmatch(r"[1-9]\d{0,5}", f.value)
    }
    return sizes.pop() if len(sizes) == 1 else None
