"""The names that a job's files give away and its row needs, so that a page can hide them where they stand bare.

A row says `ckpt-jdoe/`, and only a line that no row shows says `USER=jdoe`. Of what such lines teach the row keeps what
stands in it, and a few users, hosts and namespaces more, for the path of the job is known only where the row is placed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from forensics.report.redaction import Redactor
from forensics.report.redaction.words import ORDINARY, TERMS
from forensics.triage import codec
from forensics.triage.model import JobResult

MOST_NAMES = 64  # of a row
MOST_OF_PATHS = 16  # of them, for the path
MOST_LINES = 200  # that are learnt from, each of which takes a fraction of a millisecond
LONGEST = 200  # characters of a name
_WORD = re.compile(r"[A-Za-z0-9]{3,}")
_OF_A_PATH = re.compile(r"(?i)\b(?:user|logname|username|home)\W{1,4}[\w/]|/home/|/users/|-[0-9a-f]{64}\.log\b")


def names_of(result: JobResult, lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(kind, name) of what the row shows or its path may, sorted. lines: those that give names away."""
    shown = codec.dumps(result).lower()
    kept: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for kind, name in dict.fromkeys(chain.from_iterable(map(_taught, _telling(lines, shown)))):
        if len(name) <= LONGEST:
            if name.lower() in shown:
                kept.append((kind, name))
            elif kind in ("user", "host", "namespace"):  # and never a secret that nothing else of the row holds
                others.append((kind, name))
    others = others[:MOST_OF_PATHS]
    return tuple(sorted((*kept[: MOST_NAMES - len(others)], *others)))


def teach(redactor: Redactor, rows: Iterable[JobResult]) -> None:
    """Let what the rows keep be hidden wherever it stands, in the order in which they have it."""
    for kind, name in dict.fromkeys(pair for row in rows for pair in row.names):
        redactor.memory.know(kind, name)


@lru_cache(maxsize=1024)
def _taught(line: str) -> tuple[tuple[str, str], ...]:
    """What one line gives away. The jobs of a sweep print many lines that are the same."""
    redactor = Redactor()
    redactor.learn([line])
    return tuple(redactor.memory.names())


def _telling(lines: Iterable[str], shown: str) -> list[str]:
    """Lines that share a word with the row, or tell who ran the job."""
    words = {word for word in _WORD.findall(shown) if word not in ORDINARY and word not in TERMS}
    return list(_first(lines, words))


def _first(lines: Iterable[str], words: set[str]) -> Iterator[str]:
    left = MOST_LINES
    for line in lines:
        if left and (_OF_A_PATH.search(line) or any(word.lower() in words for word in _WORD.findall(line))):
            left -= 1
            yield line
