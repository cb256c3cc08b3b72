"""Files that come with a program or tell of it, and quote messages that no run printed: by their paths alone.

A folder of a run often holds a copy of the code, with its documentation, tests and what these expect, or notes in
Markdown. Where the run left logs of its own, these are no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from forensics.patterns import lazy

_PROSE = lazy(r"\.(?:md|mdx|markdown)(?:\.(?:gz|xz|bz2|zst))?\Z", re.I)
_LOG = lazy(
    r"\.(?:log|out|err|stdout|stderr)(?:\.\d{1,4})?(?:\.(?:gz|xz|bz2|zst))?\Z|\.[oe]\d{3,12}(?:[.-]\d{1,7})?\Z"
    r"|(?:\A|[-_.])(?:logs?|stdout|stderr|output|console|typescript)(?:[-_.]\w{1,40})?(?:\.txt)?(?:\.(?:gz|xz|bz2|zst))?\Z",
    re.I,
)
_CODE = lazy(r"(?:code|src|source|sources|source_code|repo|repository|code_snapshot|snapshot)\Z", re.I)
# What lies in a program's folder and never in that of a run.
_TEXTS = lazy(r"(?:docs?|documentation|wiki|\.github|\.gitlab|third[-_]?party|vendor|fixtures?|test[-_]?data)\Z", re.I)
# What can also be a stage of a run, unless a program lies in it.
_TRIALS = lazy(r"(?:tests?|testing|unit_?tests?|examples?|samples?)\Z", re.I)


def is_prose(path: str) -> bool:
    """Whether a file is named as a text in Markdown."""
    return _PROSE.search(path) is not None


def is_named_as_log(path: str) -> bool:
    """Whether a file's name is that of what a program prints."""
    return _LOG.search(path.rpartition("/")[2]) is not None


def comes_with_code(path: str, programs: Collection[str]) -> bool:
    """Whether a file lies in the documentation, the tests or the examples of a program.

    path: relative to the run, with slashes. programs: the folders of the run that hold sources of programs, "" for the
    run itself. Such a folder must lie in one of code, or beside a source; one of tests or examples, which can be a
    stage of a run, in one of code, or hold a source.
    """
    folders = path.split("/")[:-1]
    for at, name in enumerate(folders):
        texts = _TEXTS.match(name) is not None
        if not texts and not _TRIALS.match(name):
            continue
        above, here = "/".join(folders[:at]), "/".join(folders[: at + 1])
        if any(map(_CODE.match, folders[:at])) or (above in programs if texts else here in programs):
            return True
    return False
