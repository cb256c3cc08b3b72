"""Reports of this program, known again: one that was saved in a run directory quotes the run, and is no evidence."""

from __future__ import annotations

import re

from forensics.model import Verdict
from forensics.patterns import lazy

_VERDICTS = "|".join(verdict.value.upper() for verdict in Verdict).encode()
_STYLE = rb"(?:\x1b\[[\d;]*m)*"
_JSON = lazy(rb'\s*\{\s*"schema_version":\s*\d+,\s*"tool":\s*\{\s*"name":\s*"forensics"')
_MARKDOWN = lazy(rb"\s*## (?:" + _VERDICTS + rb"): .*\n\| \| \|\n\| --- \| --- \|\n\| ", re.S)
_HTML = lazy(
    rb'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="forensics '
)
_TERMINAL = lazy(
    _STYLE + rb"(?:" + _VERDICTS + rb")" + _STYLE + rb"  .*\n\n" + _STYLE
    + rb"(?:WHERE|SEEN|(?:NOT )?READ|MISSING EVIDENCE|RULED OUT)" + _STYLE + rb"\n  ",
    re.S,
)  # fmt: skip
_NEWS = lazy(  # of `forensics watch`, which can go to a file in the run that it watches
    rb"\d\d:\d\d:\d\d  " + _STYLE + rb"(?:fatal {2}|error {2}|warning|over {3})" + _STYLE
    + rb"  \S[^\n]*(?: \| \xe2\x86\x92 [^\n]*| is no longer so)\n"
    rb'|\{"schema_version": \d+, "event": "(?:news|diagnosis|end)", '
)  # fmt: skip
_JUNIT = lazy(rb'<\?xml version="1\.0" encoding="UTF-8"\?>\s*<testsuites name="forensics" ')
_SARIF = lazy(
    rb'\s*\{\s*"\$schema": "[^"]*sarif[^"]*",\s*"version": "2\.1\.0",\s*"runs": \[\s*\{\s*"tool": \{\s*"driver": \{\s*'
    rb'"name": "forensics"'
)


def is_report(head: bytes) -> bool:
    """Whether a file that begins with `head` is a report of this program, in any of its formats."""
    head = head.replace(b"\r\n", b"\n")
    forms = (_JSON, _MARKDOWN, _HTML, _TERMINAL, _JUNIT, _SARIF, _NEWS)
    return any(pattern.match(head) is not None for pattern in forms)
