"""The report that LSF writes of a job: where it stands above the job's output, and which of its times are of the end.

It stands below the output where that was written to its file directly ("The output (if any) is above this job
summary."), and above it where LSF copied it there when the job had ended, and in mail ("The output (if any) follows:").
"""

from __future__ import annotations

import re

from forensics.patterns import lazy

_SENDER = b"Sender: LSF System <"
_FOLLOWS = b"\nThe output (if any) follows:"
_ABOVE = lazy(
    rb"(?:-{20,}|[A-Z][A-Za-z-]{1,30}: [^\n]*|From [^\n]*|[ \t][^\n]*|\r?)", re.ASCII
)  # a rule, or a mail's headers
_EARLY = 8 << 10  # bytes within which a report begins that stands first
# When the job was handed in, and when it began.
_BEGAN = lazy(
    r"^\s*(?:Job <.{1,300}> was submitted from host <|Job was executed on host\(s\) <"
    r"|Started at [A-Z][a-z]{2} [A-Z][a-z]{2} )"
)


def above_output(head: bytes, tail: bytes) -> int:
    """How many bytes of a log are LSF's report of how the job ended whose output follows below; 0 where none is.

    head, tail: the ends of the log. Where another report stands below, as of a job that was queued again, 0 as well:
    which output belongs to which is then a matter of the lines between.
    """
    begin = head.find(_SENDER, 0, _EARLY)
    if begin < 0 or head.count(_SENDER) > 1 or not all(map(_ABOVE.fullmatch, head[:begin].split(b"\n"))):
        return 0
    end = head.find(_FOLLOWS)
    return 0 if end < 0 or (tail != head and _SENDER in tail) else end + 1


def tells_of_the_beginning(line: str) -> bool:
    """Whether a line of a report bears the time at which the job was submitted or began: what follows has another."""
    return _BEGAN.match(line) is not None
