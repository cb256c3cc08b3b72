"""Where Python stood when native code crashed: faulthandler's stack below the line that names the signal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from forensics.model import Identity, Observation
from forensics.parsers.stacks import SIGNATURE, is_users

STACK = "python_stack"  # capture: the frames of the crash, "file:line function" a line each, innermost first
_FATAL = "Fatal Python error: "
_CURRENT = "Current thread "
# faulthandler prints up to 100 threads of up to 100 frames (Modules/faulthandler.c, Python/traceback.c).
_BELOW = 10_000


def told(found: Sequence[Observation]) -> list[Observation]:
    """The observations, with the stack of the thread that crashed where faulthandler printed it below.

    Only the thread that it calls the current one is meant, and only the main thread's stack is known as one.
    """
    stacks: dict[tuple[str, Identity], list[Observation]] = defaultdict(list)
    for o in found:
        if o.signature == SIGNATURE and o.captures.get("kind") == "fatal" and o.evidence[-1].text.startswith(_CURRENT):
            stacks[o.evidence[0].file, _speaker(o)].append(o)
    if not stacks:
        return list(found)
    return [_with_stack(o, stacks.get((o.evidence[0].file, _speaker(o)), ())) if _is_fatal(o) else o for o in found]


def _is_fatal(o: Observation) -> bool:
    return bool(o.evidence) and o.evidence[0].line is not None and _FATAL in o.evidence[0].text


def _speaker(o: Observation) -> Identity:
    """Whose line it is, without what only some lines of a writer say."""
    return Identity(rank=o.identity.rank, local_rank=o.identity.local_rank, task=o.identity.task)


def _with_stack(o: Observation, stacks: Sequence[Observation]) -> Observation:
    line = o.evidence[0].line or 0
    below = [s for s in stacks if 0 < (s.evidence[-1].line or 0) - line <= _BELOW]
    if not below:
        return o
    stack = min(below, key=lambda s: s.evidence[-1].line or 0)
    frames = stack.captures["frames"].split("\n")
    own = next((frame for frame in frames if is_users(frame.partition(":")[0])), None)
    note = f"Python stood in {_place(frames[0])}"
    if own is not None and own != frames[0]:
        note += f", called from {_place(own)}"
    evidence = (*o.evidence, stack.evidence[0])
    return replace(
        o,
        evidence=evidence,
        note=f"{o.note}; {note}" if o.note else note,
        captures={**o.captures, STACK: stack.captures["frames"]},
    )


def _place(frame: str) -> str:
    """ "/w/video.py:44 __getitem__" as "__getitem__ (/w/video.py:44)"."""
    where, _, function = frame.rpartition(" ")
    return f"{function} ({where})" if where else frame
