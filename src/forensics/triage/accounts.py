"""What a scheduler's accounting beside the logs of several jobs says: it belongs to each job that it lists.

The analysis of a job reads the rows about that job alone (`parsers.accounting`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from forensics.parsers import accounting
from forensics.triage.layouts import Cut

MOST = 16  # files beside the jobs that are looked at
_MAY_BE = re.compile(r"(?:[^.]*|.*\.(?:txt|csv|psv|tsv|log|out))\Z", re.I)


def with_accounts(
    cuts: Sequence[Cut], rest: Sequence[str], head: Callable[[str], bytes]
) -> tuple[list[Cut], tuple[str, ...]]:
    """(the cuts, each with the listings that name its job, the files that are none of these).

    rest: names of files beside the jobs. head: the first bytes of one of them.
    """
    listed = {name: _jobs(head(name)) for name in [name for name in rest if _MAY_BE.match(name)][:MOST]}
    with_them: list[Cut] = []
    used: set[str] = set()
    for cut in cuts:
        name = _name(cut)
        listings = tuple(file for file, jobs in listed.items() if name in jobs)
        used.update(listings)
        with_them.append(replace(cut, entries=(*cut.entries, *listings)))
    return with_them, tuple(file for file in rest if file not in used)


def _jobs(head: bytes) -> frozenset[str]:
    """The jobs, and the tasks of arrays, that have a row."""
    return frozenset(row.job for row in accounting.rows(head.decode("utf-8", "replace")))


def _name(cut: Cut) -> str | None:
    """How accounting calls a job; a task of an array has a row of its own."""
    job, task = cut.labels.get("job_id"), cut.labels.get("array_task")
    return job if task is None else f"{job}_{task}"
