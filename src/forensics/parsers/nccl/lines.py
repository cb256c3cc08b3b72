"""The lines that NCCL prints: who speaks, from where, at which level.

The grammar of NCCL's debug.cc over its versions: a time stamp in front since 2.26 (on warnings by default, and in any
format that NCCL_DEBUG_TIMESTAMP_FORMAT asks for), the source file and line on warnings, with the function since 2.30.7.
Plugins give a function for the file, RCCL an absolute path.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forensics.patterns import lazy

_LEVEL = lazy(r"NCCL (?P<level>WARN|INFO|CALL|TRACE|ABORT)(?: |$)", re.ASCII)
# What stands before it. It is looked for in the last HEAD characters only, so that a line of any length costs the same.
_HEAD = lazy(
    r"(?P<host>[^\s:\[\]]{1,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) "
    r"(?:\[(?P<device>-?\d{1,9})\] )?"
    r"(?:(?P<file>[^\s:]{1,300}):(?P<line>\d{1,9}) (?:\((?P<function>[^()\s]{0,200})\) )?)?$",
    re.ASCII,
)
HEAD = 800
TRIES = 3  # times that the words of a level are taken for one, in one line
_INIT = lazy(
    r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d{1,7}) n[rR]anks (?P<size>\d{1,7}) cudaDev (?P<device>\d{1,7})"
    r"(?: nvmlDev (?P<nvml>\d{1,7}))?(?: busId (?P<bus>[0-9a-f]+))?"
    r"(?: parent (?P<parent>0x[0-9a-f]+)(?: (?:splitCount|childCount) (?P<split>\d+))? color (?P<color>-?\d+)"
    r" key -?\d+)?(?: commId (?P<id>0x[0-9a-f]+))? ?- Init (?P<stage>START|COMPLETE)",
    re.ASCII,
)


class Line(NamedTuple):
    """One line of NCCL's. `device` is the current CUDA device of the thread that prints, and no rank."""

    host: str  # cut at its first dot by NCCL itself
    pid: int
    device: int | None
    level: str
    file: str | None
    message: str


class Init(NamedTuple):
    """A communicator's birth on one rank. `rank` counts inside the communicator."""

    comm: str  # a pointer, of this process only
    rank: int
    size: int
    id: str | None  # the same on all its ranks; None for those split from another one since 2.23
    parent: str | None
    split: str  # what tells the children of one parent apart
    complete: bool


def parse(text: str) -> Line | None:
    """One line of a log, whatever stands in front of NCCL's part; None where it is not NCCL's."""
    if "NCCL " not in text:
        return None
    for level, _ in zip(_LEVEL.finditer(text), range(TRIES), strict=False):
        if (m := _HEAD.search(text, max(0, level.start() - HEAD), level.start())) is not None:
            device = None if m["device"] is None else int(m["device"])
            return Line(m["host"], int(m["pid"]), device, level["level"], m["file"], text[level.end() :].strip())
    return None


def init(message: str) -> Init | None:
    """The communicator that an "Init START" or "Init COMPLETE" line tells of (2.4 to 2.30); None for other lines."""
    if (m := _INIT.search(message)) is None:
        return None
    split = f"{m['split'] or ''}/{m['color'] or ''}"
    return Init(m["comm"], int(m["rank"]), int(m["size"]), m["id"], m["parent"], split, m["stage"] == "COMPLETE")
