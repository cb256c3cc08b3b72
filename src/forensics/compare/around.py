"""Lines that stand around what went wrong, and say nothing of it themselves.

Tracebacks: their head, what parts two of them, a line of code that raises or warns. torchelastic's table of failed
workers (errors/__init__.py of torch.distributed.elastic, the same since 1.9 but for its frame):

torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_14:11:42
  host      : node-0
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 4242)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""

from __future__ import annotations

import re
from collections.abc import Collection

_BEHIND = r"(?:\A|[:\]>)|*])\s*"  # the begin of a line, or the label of a launcher
# A variable and its value, and nothing else: a setting, which is compared as one.
_ASSIGNMENT = re.compile(r"\s*(?:export |set |setenv )?[A-Za-z_]\w*=\S*\s*\Z")
# The line of code that Python prints below a warning.
_WARNS = re.compile(r"\s*(?:\w+\.)*_?warn(?:ing)?s?(?:_\w+)?\(")
_OF_TRACEBACK = re.compile(
    r"(?:\bTraceback \(most recent call (?:last|first)\):?"
    r"|\bDuring handling of the above exception, another exception occurred:"
    r"|\bThe above exception was the direct cause of the following exception:"
    rf"|{_BEHIND}raise(?: [\w.]+(?:\(.*| from \w+)?)?)\s*\Z"
)
_HEAD = re.compile(rf"{_BEHIND}(?:(?:Other )?Failures:|Root Cause(?: \(first observed failure\))?:)\s*\Z")
_OF_TABLE = re.compile(
    rf"{_BEHIND}(?:(?:[\w.]+\.)?ChildFailedError:|<NO_OTHER_FAILURES>|error_file ?: (?:<N/A>|\S+)"
    r"|traceback : (?:<N/A>|To enable traceback see: \S+))\s*\Z"
)
_TITLE = re.compile(r"\S FAILED[\s*]*\Z")
_FRAME = 3  # lines from the title to a head: a rule, and perhaps an empty line


def heads_table(text: str) -> bool:
    """Whether a line heads a part of the table, right below its title or further down."""
    return _HEAD.search(text) is not None


def says_nothing(text: str, line: int, heads: Collection[int]) -> bool:
    """Whether a line is one of those around a failure. heads: the lines of its log for which `heads_table` holds."""
    if _ASSIGNMENT.match(text) or _WARNS.match(text) or _OF_TRACEBACK.search(text) or _OF_TABLE.search(text):
        return True
    if _TITLE.search(text):
        return any(line + below in heads for below in range(1, _FRAME + 1))
    return line in heads
