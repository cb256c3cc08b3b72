"""Processes whose own timer found them in one place again and again: faulthandler.dump_traceback_later(repeat=True)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine.collectives.ages import Progress
from forensics.engine.collectives.logs import Logs
from forensics.engine.collectives.observations import base, from_lines
from forensics.engine.collectives.stacks import ANYTHING, FILE_LOCK, position
from forensics.model import Observation
from forensics.parsers.stacks import AT_THE_END, SIGNATURE, is_users
from forensics.patterns import lazy

HANG = "silent-hang"
FEWEST = 2  # dumps of one process in one place, below its last step: a slow call is seen once
# Of each place, where several processes dump into one file (one that moves between places is seen in each of them less
# often), and where the steps are in another file, so that nothing says whether they came in between.
FEWEST_APART = 3
WEIGHT, WEIGHT_APART = 0.75, 0.65
# A single dump with which a log ends: of a timer that was set to this many seconds at least, and to so many times the
# longest pause between two records of steps where they bear times. Shorter ones fire in saves and evaluations.
LONG, PAUSES = 60.0, 3.0
WEIGHT_ONCE, WEIGHT_ONCE_UNTIMED = 0.65, 0.55
# What no step does for the length of a timer, again and again: a lock, a queue, or a call of the user's own code. Steps
# that train do spend their time in collectives, backward passes, loaders and saves.
_NO_WORK = ("", ANYTHING, FILE_LOCK)
_LASTS = lazy(r"Timeout \((\d+):(\d\d):(\d\d(?:\.\d+)?)\)!", re.A)


def from_timer(logs: Logs, stepped: Mapping[str, int], progress: Mapping[int | None, Progress]) -> list[Observation]:
    """A process whose own timer found it in one place again and again, with no step in between and none after.

    faulthandler prints a stack each time its seconds have gone by. Two in one place and no more steps are a hang, where
    nothing else tells of a failure. Where the steps are in another file, either the dumps alone must take longer than
    the records of steps do by their clock, or the place be one at which no step is at work. One dump is enough where
    the log ends in it, and the timer is long. A rank is in general not known, nor needed.

    stepped: path of a log -> line of its last step record. Without any nothing tells that the program would have
    printed something, had it gone on. progress: by rank, the stamps of the records of steps.
    """
    if not stepped or logs.trouble or logs.raised or any(o.signature == "run-finished" for o in logs.observations):
        return []
    writers: dict[tuple[str, int | None], list[Observation]] = defaultdict(list)
    for o in logs.observations:
        if o.signature == SIGNATURE and o.captures.get("kind") == "timeout" and _own_frames(o):
            writers[o.evidence[0].file, o.identity.rank].append(o)
    found = [_standing(dumps, stepped, progress) for dumps in writers.values()]
    return [o for o in found if o is not None][:1] if None not in found else []


def _standing(
    dumps: Sequence[Observation], stepped: Mapping[str, int], progress: Mapping[int | None, Progress]
) -> Observation | None:
    """The hang that the dumps of one file show; None where the processes may have moved on between them."""
    file, first = dumps[0].evidence[0].file, dumps[0].evidence[0].line
    below = [o for o in dumps if (o.evidence[0].line or 0) > stepped.get(file, o.evidence[0].line or 0)]
    if len(below) == 1 and (once := _at_the_end(below[0], progress)) is not None:
        return once
    places = Counter(_own_frames(o) for o in dumps)
    beside = file not in stepped
    if not beside and (first is None or first < stepped[file]):
        return None
    if min(places.values()) < (FEWEST if len(places) == 1 and not beside else FEWEST_APART):
        return None
    if beside and not _outlast(dumps, places, progress) and not all(_is_no_work(o) for o in dumps):
        return None
    usual, times = places.most_common(1)[0]
    shown = next(o for o in reversed(dumps) if _own_frames(o) == usual)
    stack = _stack(shown)
    when = "and no step is recorded that would show it went on" if beside else "after the last step"
    who = "the process" if len(places) == 1 else f"processes at the same {len(places)} places each time, one of them"
    note = f"Its own timer found {who} at one place {times} times {when}: {stack}."
    sure = len(places) == 1 and not beside
    told = from_lines(HANG, WEIGHT if sure else WEIGHT_APART, (), dumps, note)
    return replace(told, identity=replace(dumps[0].identity, attempt=told.identity.attempt))


def _at_the_end(dump: Observation, progress: Mapping[int | None, Progress]) -> Observation | None:
    """The hang that the one dump below the last step shows by ending its log; None where it may be a slow step."""
    lasts = _seconds(dump)
    if AT_THE_END not in dump.captures:
        return None
    pause = max((p.pause for p in progress.values()), default=None)
    if lasts is None or lasts < max(LONG, PAUSES * (pause or 0.0)):
        return None
    note = f"Its own timer, set to {lasts:.0f} s, found the process after its last step, and the log ends there: "
    weight = WEIGHT_ONCE_UNTIMED if pause is None else WEIGHT_ONCE
    told = from_lines(HANG, weight, (), [dump], f"{note}{_stack(dump)}.")
    return replace(told, identity=replace(dump.identity, attempt=told.identity.attempt))


def _stack(dump: Observation) -> str:
    """The innermost frames of a dump, as a line."""
    return " < ".join(base(frame) for frame in dump.captures["frames"].split("\n")[:6])


def _outlast(
    dumps: Sequence[Observation], places: Counter[tuple[str, ...]], progress: Mapping[int | None, Progress]
) -> bool:
    """Whether dumps of one process took longer than all its steps by their clock, by two turns of the timer at least.

    Then two at least came when nothing was recorded any more. Processes at several places each have a timer.
    """
    if not progress or (lasts := _seconds(dumps[0])) is None:
        return False
    stepped = max(p.last for p in progress.values()) - min(p.first for p in progress.values())
    return min(places.values()) * lasts >= stepped + FEWEST * lasts


def _seconds(dump: Observation) -> float | None:
    """What the timer was set to, in seconds, by the line above its dump."""
    m = _LASTS.search(dump.captures.get("reason", ""))
    return int(m[1]) * 3600 + int(m[2]) * 60 + float(m[3]) if m is not None else None


def _is_no_work(dump: Observation) -> bool:
    return position(0, dump.captures["frames"].split("\n")).does in _NO_WORK


def _own_frames(o: Observation) -> tuple[str, ...]:
    """The user's frames of a stack; none for a thread that a library started."""
    return tuple(frame for frame in o.captures.get("frames", "").split("\n") if is_users(frame.partition(":")[0]))
