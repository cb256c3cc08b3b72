"""Tables whose head says which column names a user or a host: `bjobs`, `qstat`, `w`, `lsof`, `top` and the like.

A column is where its head stands: programs print cells flush with it on the left or on the right. A head is taken for
one if it has several words that such heads have. Its rows end with the first line that has no name of a user flush with
the head, or fewer cells: a log goes on below a table as often as not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from forensics.patterns import lazy
from forensics.report.redaction.host_places import NAME
from forensics.report.redaction.memory import Memory, telling
from forensics.report.redaction.words import ORDINARY

_USERS = frozenset("USER USERNAME USERID OWNER LOGIN".split())
_HOSTS = frozenset("FROM_HOST EXEC_HOST FROM NODELIST NODENAME HOSTNAME HOST_NAME".split())
_JOBS = frozenset({"JOB-ID"})  # of PBS: number and server
# Other words of heads of such tables. Two of them, and one that names someone, are a head.
_OTHERS = frozenset(
    "JOBID JOB_ID JOBIDRAW STAT STATE STATUS QUEUE QUEUES JOB_NAME JOBNAME SUBMIT_TIME TTY LOGIN@ IDLE JCPU PCPU "
    "WHAT PID PPID %CPU %MEM VSZ RSS START TIME TIME-USE COMMAND FD TYPE DEVICE SIZE/OFF NODE NAME PR NI VIRT RES "
    "SHR S SESSID NDS TSK MEMORY PRIOR SLOTS JA-TASK-ID PARTITION ACCOUNT NODES CPUS PRIORITY REASON QUOTA LIMIT "
    "GRACE USED FILES GPU CMD C STIME".split()
)
_CELL = lazy(r"\S+")
_HEAD = lazy(r"\b(?:USER|User|user|USERNAME|Username|OWNER|Owner|EXEC_HOST|FROM_HOST|FROM|NODELIST)\b")
_RULE = lazy(r"[\s\-=+|]*\Z")
_OF_HOSTS = lazy(rf"(?:(?<=\A)|(?<=[*:+, ]))({NAME})", re.ASCII)
_USER = lazy(r"[A-Za-z_][\w.-]{0,31}[+$]?\Z", re.ASCII)
_PBS_JOB = lazy(rf"(\d+(?:\[\d*\])?\.)({NAME})\Z", re.ASCII)


class _Column(NamedTuple):
    kind: str
    start: int
    end: int


class _Head(NamedTuple):
    columns: tuple[_Column, ...]
    cells: int


def _head(line: str) -> _Head | None:
    """The columns of a head that name someone or something; None if the line is no head."""
    found, others = [], 0
    joined = line.replace("Job ID", "Job-ID").replace("Job id", "Job-id").replace("Time Use", "Time-Use")
    for match in _CELL.finditer(joined):
        word = match[0].upper()
        if word in _USERS:
            found.append(_Column("user", *match.span()))
        elif word in _HOSTS:
            found.append(_Column("host", *match.span()))
        elif word in _JOBS:
            found.append(_Column("job", *match.span()))
            others += 1
        elif word in _OTHERS:
            others += 1
    if others < 2 or not any(column.kind != "job" for column in found):
        return None
    return _Head(tuple(found), len(joined.split()))


def _host(name: str, memory: Memory) -> str:
    return name if name.lower() in ORDINARY else memory.host(name, everywhere=telling(name))


def _shown(kind: str, cell: str, memory: Memory) -> str:
    if kind == "user":
        return memory.user(cell) if _USER.match(cell) else cell
    if kind == "job":
        return _PBS_JOB.sub(lambda match: match[1] + _host(match[2], memory), cell)
    return _OF_HOSTS.sub(lambda match: _host(match[1], memory), cell) if "[" not in cell else memory.of("nodes", cell)


def _cells(line: str, head: _Head) -> list[tuple[re.Match[str], str]] | None:
    """The cells of a row that name someone or something, with their kind; None if the line is no row of that table."""
    cells = list(_CELL.finditer(line))
    if len(cells) < head.cells - 1:
        return _continued(cells, head)
    users = [column for column in head.columns if column.kind == "user"]
    if not all(any(_flush(match, column) and _USER.match(match[0]) for match in cells) for column in users):
        return None
    kinds = (
        (match, next((c.kind for c in head.columns if match.start() < c.end and match.end() > c.start), None))
        for match in cells
    )
    return [(match, kind) for match, kind in kinds if kind is not None]


def _row(line: str, named: Sequence[tuple[re.Match[str], str]], memory: Memory) -> str:
    parts, done = [], 0
    for match, kind in named:
        parts.append(line[done : match.start()] + _shown(kind, match[0], memory))
        done = match.end()
    return "".join(parts) + line[done:]


def _flush(match: re.Match[str], column: _Column) -> bool:
    return match.start() == column.start or match.end() == column.end


def _continued(cells: Sequence[re.Match[str]], head: _Head) -> list[tuple[re.Match[str], str]] | None:
    """LSF writes further hosts of a job below the first, and nothing else on the line."""
    hosts = [column for column in head.columns if column.kind == "host"]
    if len(cells) != 1 or not any(cells[0].start() == column.start > 0 for column in hosts):
        return None
    return [(cells[0], "host")]


def _rows(lines: Sequence[str]) -> Iterator[tuple[str, list[tuple[re.Match[str], str]]]]:
    """Each line with its cells that name someone or something: none where it is no row of a table."""
    head: _Head | None = None
    for line in lines:
        begins = _head(line) if _HEAD.search(line) else None
        row = _cells(line, head) if head is not None and begins is None and not _RULE.match(line) else []
        head = begins or (head if row is not None and line.strip() else None)
        yield line, row or []


def tables(lines: Sequence[str], memory: Memory) -> list[str]:
    """The lines without users and hosts in the rows of tables among them; as many lines as before."""
    return [_row(line, named, memory) if named else line for line, named in _rows(lines)]


def named_in_tables(lines: Sequence[str]) -> Iterator[str]:
    """What the rows of tables name, said as other lines say it: `user=x`, `HOSTNAME=y`."""
    for _, named in _rows(lines):
        for match, kind in named:
            if kind == "user":
                yield f"user={match[0]}"
            elif kind == "host":
                yield from (f"HOSTNAME={host}" for host in _OF_HOSTS.findall(match[0]))
