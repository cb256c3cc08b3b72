"""Slurm's accounting beside a run: which rows of `sacct` and `scontrol show job` are about the run's own job.

Signatures read the state in a row. A listing often holds other jobs as well (all of a user's day, all tasks of an
array), and the same job again where it was requeued (`sacct --duplicates`): those rows say nothing about how this run
ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from forensics.files import beginning
from forensics.model import Observation, Source
from forensics.parsers.stamps import parse_time
from forensics.patterns import lazy

MAX_BYTES = 1 << 20  # of a listing; a row takes some 100 bytes
# A row of sacct: the job's number (with the task of an array, the component of a heterogeneous job, the step), then "|"
# or, in a table, blanks.
_ROW = lazy(
    r"\s{0,40}(?P<job>(?P<base>\d{1,12})(?:_(?:\d+|\[[^\]|\s]{1,200}\]))?)(?:\+\d+)?(?P<step>\.\w+)?"
    r"(?P<end>\|| +(?=\S))",
    re.ASCII,
)
# States of Slurm's job_state_codes, also cut to the ten characters of sacct's column.
_STATE = lazy(
    r"[| ](?:BOOT_FAIL|CANCELLED(?:\+| by \d+)?|COMPLETED|COMPLETING|DEADLINE|FAILED|NODE_FAIL|OUT_OF_ME(?:MORY|\+)"
    r"|PENDING|PREEMPTED|REQUEUED|RESIZING|REVOKED|RUNNING|SUSPENDED|TIMEOUT)(?=[| ]|$)",
    re.ASCII,
)
_JOB_ID = lazy(r"JobId=(?P<base>\d{1,12})\b", re.ASCII)
_JOB_STATE = "JobState="
_HEAD = lazy(r"\bJobID(?:Raw)?\b.*\bState\b")  # above a table; without one, blanks alone make no row
_RULE = lazy(r"\s{0,40}-{2,}(?: -{2,})*\s*")  # below it: a column as wide as each group of its dashes
# A list of several hosts has commas, or a range in brackets; where nothing ran Slurm prints "None assigned".
_ONE_HOST = lazy(r"(?<!\S)(?<!None )(?!None\b)[A-Za-z][\w.-]{0,63}(?:\[\d{1,6}\])?(?!\S)")
_HOSTS = lazy(r"(?<!\S)[A-Za-z][\w.-]{0,63}(?:\[\d+[,-][\d,-]{1,2000}\]|,[A-Za-z])\S*")
_TIME = lazy(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


class Row(NamedTuple):
    """One job, or one of its steps, as a listing shows it."""

    line: int  # 1-based
    job: str  # "4242", "4242_7"
    base: str  # "4242"
    step: bool
    script: bool = False  # the step is the job's script, or what Slurm itself runs beside it


def rows(text: str) -> Iterator[Row]:
    """The rows of `sacct`, and the lines `JobState=...` of `scontrol show job`, in their order."""
    shown: re.Match[str] | None = None
    in_table = False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        in_table = in_table or _HEAD.search(line) is not None
        if (m := _JOB_ID.search(line)) is not None:
            shown = m
        if _JOB_STATE in line and shown is not None:
            yield Row(number, shown["base"], shown["base"], False)
        elif (m := _ROW.match(line)) is not None and (in_table or m["end"] == "|") and _STATE.search(line) is not None:
            yield Row(number, m["job"], m["base"], m["step"] is not None, m["step"] in (".batch", ".extern"))


def of_this_job(
    observations: Sequence[Observation], sources: Sequence[Source], stated: Iterable[str] = ()
) -> list[Observation]:
    """The observations without those of rows about other jobs, or about an earlier start of the same one; the times of
    the others are those at which their jobs ended.

    A listing of one job is of this run. In a listing of several, the run's job is the one that a path, another line or
    one of the `stated` values names; where nothing names one, no row counts.
    """
    listed: dict[str, list[Observation]] = {}
    for o in observations:
        if o.evidence and _is_row(o.evidence[0].text):
            listed.setdefault(o.evidence[0].file, []).append(o)
    if not listed:
        return list(observations)
    files = {s.path: s.file for s in sources}
    mine = {id(o) for signs in listed.values() for o in signs}
    words = [s.path for s in sources if s.path not in listed]
    words += [o.evidence[0].text for o in observations if o.evidence and id(o) not in mine]
    words += stated
    dropped: set[int] = set()
    told: dict[int, str] = {}
    placed: dict[int, str] = {}
    for path, signs in listed.items():
        text = _read(files.get(path))
        if text is None:
            continue
        counting, ends, hosts = _counting(text, words), ended(text), places(text)
        dropped |= {id(o) for o in signs if not counting.get(o.evidence[0].line or 0, True)}
        told |= {id(o): end for o in signs if (end := ends.get(o.evidence[0].line or 0)) is not None}
        placed |= {id(o): host for o in signs if (host := hosts.get(o.evidence[0].line or 0)) is not None}
    return [_on(_ended(o, told.get(id(o))), placed.get(id(o))) for o in observations if id(o) not in dropped]


def ended(text: str) -> dict[int, str]:
    """Line -> the time under "End" of the rows of `sacct` below a head that names that column, where it is known."""
    # A cell that is wider than its column, as by hand, moves those behind it.
    return _under(text, "End", _TIME, last=True)


def places(text: str) -> dict[int, str]:
    """Line -> the host under "NodeList" of the rows of `sacct`, of those that were on one host alone.

    The script of a job runs on the first of its hosts, and takes on the state of a step that was on others as well.
    """
    shown = {row.line: row for row in rows(text)}
    wide = {row.base for line in _under(text, "NodeList", _HOSTS) if (row := shown.get(line)) is not None}
    return {
        line: re.sub(r"[\[\]]", "", host)
        for line, host in _under(text, "NodeList", _ONE_HOST).items()
        if (row := shown.get(line)) is None or row.base not in wide or not row.script
    }


def _under(text: str, column: str, form: re.Pattern[str], *, last: bool = False) -> dict[int, str]:
    """Line -> what stands under a column's name in that form: the whole cell, or the first or `last` word there."""
    found: dict[int, str] = {}
    piped: int | None = None  # index of the column
    span: tuple[int, int] | None = None
    head = ""
    for number, line in enumerate(text.split("\n"), 1):
        if _HEAD.search(line):
            names = line.strip().split("|")
            piped, span, head = (names.index(column) if column in names else None), None, line
        elif head and _RULE.fullmatch(line):
            columns = [m.span() for m in re.finditer(r"-+", line)]
            span, head = next((c for c in columns if head[slice(*c)].strip() == column), None), ""
        else:
            cells = line.strip().split("|") if piped is not None else []
            cell = cells[piped] if piped is not None and piped < len(cells) else ""
            words = form.finditer(line) if span is not None else ()
            under = [m[0] for m in words if span and m.start() < span[1] and m.end() > span[0] + 1]
            if form.fullmatch(cell) or under:
                found[number] = cell or under[-1 if last else 0]
    return found


def _ended(o: Observation, end: str | None) -> Observation:
    """An observation of a row with the time of the job's end, where that is told."""
    time, zone_known = parse_time(end, o.time or 0.0) if end is not None else (None, False)
    return o if time is None else replace(o, time=time, zone_known=zone_known, timed=True)


def _on(o: Observation, host: str | None) -> Observation:
    """An observation of a row on the one host of its job."""
    known = host is None or o.identity.node is not None
    return o if known else replace(o, identity=replace(o.identity, node=host))


def _is_row(text: str) -> bool:
    return _JOB_STATE in text or (_ROW.match(text) is not None and _STATE.search(text) is not None)


def _read(file: Path | None) -> str | None:
    """A listing; None where it cannot be read again."""
    try:
        return None if file is None else beginning(file, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _counting(listing: str, words: Sequence[str]) -> Mapping[int, bool]:
    """Line -> whether its row counts."""
    found = list(rows(listing))
    jobs = {row.job for row in found}
    own = jobs if len(jobs) == 1 else _named(jobs, words)
    if not own:
        bases = _named({row.base for row in found}, words)
        own = {row.job for row in found if row.base in bases}
    last = {row.job: row.line for row in found if not row.step}
    # Steps stand below the row of their job; those above its last row are of an earlier start.
    return {row.line: row.job in own and row.line >= last.get(row.job, 0) for row in found}


def _named(jobs: Iterable[str], words: Sequence[str]) -> set[str]:
    """Those of some job numbers that any text names, as whole numbers."""
    return {job for job in jobs if any(_names(job, text) for text in words)}


def _names(job: str, text: str) -> bool:
    return job in text and re.search(rf"(?<![\d.]){re.escape(job)}(?![\d])", text) is not None
