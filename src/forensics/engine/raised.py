"""Where in the user's own code an exception was raised that a signature knows by its message."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.model import Observation, Traceback
from forensics.parsers import tracebacks
from forensics.signatures.schema import Signature

_BELOW = 8  # lines between the last line of a traceback and the header of the one that it goes on with
# What differs between messages that one line of code prints: numbers, addresses, what is quoted, and paths.
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"|/\S+")
_OF_CELLS = ("PapermillExecutionError", "CellExecutionError")
# Functions that a whole program runs in; Hydra and others print the frames from `main` on of what nothing caught.
_OUTERMOST = ("<module>", "main")
_CELL = 400  # lines of a cell's source that nbclient quotes above its traceback


def own_frame(ordered: Sequence[Traceback], i: int) -> tuple[str, int, str] | None:
    """The user's innermost frame of the exception at `i`; of a library's own, that of the one raised from it.

    ordered: by file and line. A library that raises `... from error` has the caller's frames in the second traceback
    only. None where no frame is the user's.
    """
    traceback = ordered[i]
    if (own := traceback.own_frame) is not None:
        return own
    last = traceback
    for following in ordered[i + 1 :]:
        near = following.header.file == last.header.file and following.identity.rank == traceback.identity.rank
        if not near or following.chained not in ("cause", "context") or _gap(last, following) > _BELOW:
            break
        if (own := following.own_frame) is not None:
            return own
        last = following
    return None


def passes_on(ordered: Sequence[Traceback], i: int) -> bool:
    """Whether the exception at `i` only tells of the one below it, which it quotes.

    nbclient and papermill put IPython's traceback of the cell into the message of their own exception;
    torch.multiprocessing.spawn put that of the process into a plain `Exception` before torch 1.7 gave it a name.
    """
    if i + 1 == len(ordered):
        return False
    outer, inner = ordered[i], ordered[i + 1]
    if inner.header.file != outer.header.file:
        return False
    if outer.exception.rsplit(".", 1)[-1] in _OF_CELLS:
        return _gap(outer, inner) <= _CELL and tracebacks.named_in(inner.header.text) is not None
    spawned = outer.exception == "Exception" and outer.message.startswith("-- Process ")
    return spawned and _gap(outer, inner) <= _BELOW


def by_place(observations: Sequence[Observation]) -> list[list[Observation]]:
    """Exceptions of one type, in groups that were raised at one place or say the same; in the order of their first.

    Two that differ in both, RuntimeErrors above all, are two errors. One of which the place is not known is of the
    group whose message it has, and where there is but one group it is of that.
    """
    groups: list[tuple[set[object], list[Observation]]] = []
    for o in observations:
        keys: set[object] = {_VARIES.sub("#", o.captures.get("message", ""))}
        if "file" in o.captures and "line" in o.captures:
            keys.add((o.captures["file"], o.captures["line"]))
        near = [g for g in groups if g[0] & keys] or (groups if len(groups) == 1 and len(keys) == 1 else [])
        if not near:
            groups.append((keys, [o]))
            continue
        near[0][0].update(keys)
        near[0][1].append(o)
        for other in near[1:]:
            near[0][0].update(other[0])
            near[0][1].extend(other[1])
            groups.remove(other)
    return [members for _, members in groups]


def told(
    found: Sequence[Observation], all_of_them: Sequence[Traceback], catalogue: Mapping[str, Signature]
) -> list[Observation]:
    """The observations, with a note of the place that raised where their line is the end of a traceback.

    Those of an exception that ended a thread other than the main one have its name as their capture `thread`.
    """
    by_file: dict[str, list[Traceback]] = defaultdict(list)
    for t in sorted(all_of_them, key=lambda t: (t.header.file, t.header.line or 0)):
        by_file[t.header.file].append(t)
    if not by_file:
        return list(found)
    return [_with_place(o, by_file.get(o.evidence[0].file, ())) if _may_be_raised(o, catalogue) else o for o in found]


def _may_be_raised(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    signature = catalogue.get(o.signature)
    return (
        bool(o.evidence)
        and o.evidence[0].line is not None
        and signature is not None
        and signature.kind
        in (
            "cause",
            "symptom",
        )
    )


def _with_place(o: Observation, ordered: Sequence[Traceback]) -> Observation:
    line = o.evidence[0].line or 0
    n = next((n for n, t in enumerate(ordered) if (t.header.line or 0) <= line <= (t.final.line or 0)), None)
    if n is None:
        return o
    raised = ordered[n]
    whole = raised.header.line != raised.final.line  # else its last line alone was found
    o = replace(o, in_traceback=whole, caught=whole and _was_caught(ordered, n))
    quoted = ordered[n + 1] if n + 1 < len(ordered) else None
    evidence = o.evidence
    if raised.thread is not None:
        o = replace(o, captures={**o.captures, "thread": raised.thread})
    if quoted is not None and tracebacks.QUOTED in quoted.header.text and _gap(raised, quoted) <= _BELOW:
        raised = quoted
        evidence = (*evidence, *(e for e in (quoted.final,) if e not in evidence))
    frame = raised.own_frame or (own_frame(ordered, n) if raised is ordered[n] else None)
    if frame is None or f"{frame[0]}:{frame[1]}" in (o.note or ""):
        return o
    place = f"{raised.exception} was raised at {frame[0]}:{frame[1]}" + (f" in {frame[2]}" if frame[2] else "")
    return replace(o, evidence=evidence, note=f"{o.note}; {place}" if o.note else place)


def _was_caught(ordered: Sequence[Traceback], n: int) -> bool:
    """Whether the exception at `n`, and what was raised from it or as it was handled, was caught within the program.

    Python prints the frames from the one that caught it on: all of them, from the module's, where nothing did. What a
    worker or an actor raised is printed from the first frame there by the process that it is raised in again.
    """
    last = ordered[n]
    for t in ordered[n:]:
        if t is not last:
            of_chain = t.chained in ("cause", "context") and t.identity.rank == last.identity.rank
            if not of_chain or _gap(last, t) > _BELOW:
                break
        said = t.header.text
        if tracebacks.HEADER_WORD not in said or tracebacks.QUOTED in said or "ray::" in said:
            return False
        if not t.frames or t.own_frames[:1] != t.frames[:1] or t.frames[0][2] in _OUTERMOST:
            return False
        last = t
    return True


def _gap(above: Traceback, below: Traceback) -> int:
    return (below.header.line or 0) - (above.final.line or 0)
