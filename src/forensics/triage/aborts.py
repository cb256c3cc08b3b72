"""What a process that no Python ended said: beside the line that shows an abort, or of another language's runtime.

Causes such as "aborted" and "a program of its own" are of many failures, which only these words tell apart.
"""

from __future__ import annotations

import re

from forensics.files import opened
from forensics.model import Finding, RunData

ABORTED = "rank-sigabrt"
OTHER_PROGRAM = "other-program-error"
BY_WORDS = frozenset({ABORTED, OTHER_PROGRAM})  # causes of which the words tell what failed
_AROUND = 4096  # bytes before and behind the line that shows the abort
# libstdc++ and libc++abi; the message is on the next line, or on the same one.
_THROWN = re.compile(
    r"terminat(?:e called after throwing an instance of|ing (?:due to|with) uncaught exception of type) "
)
_WHAT = re.compile(r"what\(\): {1,2}\S.*")
# Rust says what it was behind the place, in quotes behind the thread before 1.73.
_RUST = re.compile(r"thread '[^']{0,100}' (?:\(\d+\) )?panicked at (?:'(?P<quoted>.{1,300})', )?")
_GLOG = re.compile(r"F\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+:\d+\] (\S.*)")


def last_words(finding: Finding, data: RunData) -> str | None:
    """The message with which native code gave up, as it was printed; None where none stands by."""
    if finding.name == OTHER_PROGRAM and (message := finding.captures.get("message", "").strip()):
        return message
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
        said = _panicked(text) if finding.name == OTHER_PROGRAM else _said(text)
        if said:
            return said
    return None


def _panicked(text: str) -> str | None:
    """The message of the last panic of Rust's that a text holds."""
    lines = text.splitlines()
    for n in range(len(lines) - 1, -1, -1):
        if m := _RUST.search(lines[n]):
            below = lines[n + 1].strip() if n + 1 < len(lines) else ""
            return m["quoted"] or below or lines[n][m.start() :].strip()
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
