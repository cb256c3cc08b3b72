"""What a process that aborted said first: the C++ runtime's and glog's message beside the line that shows the abort."""

from __future__ import annotations

import re

from forensics.files import opened
from forensics.model import Finding, RunData

ABORTED = "rank-sigabrt"
_AROUND = 4096  # bytes before and behind the line that shows the abort
# libstdc++ and libc++abi; the message is on the next line, or on the same one.
_THROWN = re.compile(
    r"terminat(?:e called after throwing an instance of|ing (?:due to|with) uncaught exception of type) "
)
_WHAT = re.compile(r"what\(\): {1,2}\S.*")
_GLOG = re.compile(r"F\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+:\d+\] (\S.*)")


def last_words(finding: Finding, data: RunData) -> str | None:
    """The message with which native code gave up, as it was printed; None where none stands by."""
    for key in finding.evidence:
        source = next((s for s in data.sources if s.path == key.file), None)
        if source is None or key.offset is None:
            continue
        start = max(key.offset - _AROUND, 0)
        try:
            with opened(source.file) as file:
                file.seek(start)
                text = (file.read(key.offset - start + _AROUND) or b"").decode("utf-8", "replace")
        except OSError:
            continue
        if said := _said(text):
            return said
    return None


def _said(text: str) -> str | None:
    thrown = None
    for line in text.splitlines():
        if m := _WHAT.search(line):
            return m[0]
        if m := _GLOG.search(line):
            return m[1]
        if m := _THROWN.search(line):
            thrown = line[m.start() :].strip()
    return thrown
