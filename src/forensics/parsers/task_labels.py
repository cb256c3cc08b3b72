"""Whether the numbers before the lines of a log are the labels that `srun --label` puts there.

`3: ` before a line can as well count the batches of an epoch, the rows of a table or the layers of a model. Such
numbers go up by one from line to line. Those of tasks do not: a job's processes print in any order, and some of them
more than others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from forensics.patterns import lazy

MANY = 16  # numbers from which on one of a table is as likely as one of a task
NEARLY_ALL = 0.95  # of the lines bear a label where a large job's do
STRAYS = 0.02  # of the steps from one number to the next: another program's words between the rows of a table
SPARSE = 4  # times as large as there are numbers, at most: of a large job the beginning shows some tasks
_ENDED = lazy(r"srun: error: \S{1,200}: tasks? (?P<tasks>[\d,-]{1,400}): ", re.ASCII)
_SPAN = lazy(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)
# What torch's excepthook and NCCL put before the lines of a rank's process.
_OF_A_RANK = lazy(r"\[rank\d{1,6}\]:|[\w.-]{1,100}:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL ")
_STEP = lazy(r"(?i)\b(?:global_)?(?:step|iter|iteration|epoch)[ =:\[(]{1,3}(\d{1,12})")


class Labelled(NamedTuple):
    """A line with a number before it."""

    number: int
    text: str


def are_tasks(labelled: Sequence[Labelled], lines: Sequence[str], launchers: Iterable[str], *, usual: bool) -> bool:
    """Whether the numbers of some lines are tasks.

    lines: all that a program printed, of a sample of its log; launchers: those of srun's own among it. usual: whether
    there are so few numbers, each so often, as prefixes in general have to be.
    """
    numbers = {line.number for line in labelled}
    if _ended(numbers, launchers):
        return True
    if 5 * len(labelled) >= 4 * len(lines) and sum(_OF_A_RANK.match(line.text) is not None for line in labelled) >= 2:
        return True
    if len(numbers) < MANY:
        return usual
    if _count_up(labelled) and not _say_one_step(labelled):
        return False
    dense = max(numbers) < SPARSE * len(numbers)
    return usual or (dense and len(labelled) >= NEARLY_ALL * len(lines))


def _ended(numbers: Iterable[int], launchers: Iterable[str]) -> bool:
    """Whether srun tells of the end of every task of these numbers, by itself or in a range."""
    told = ",".join(m["tasks"] for line in launchers if (m := _ENDED.match(line)))
    spans = [(int(m[1]), int(m[2] or m[1])) for m in _SPAN.finditer(told)]
    return bool(spans) and all(any(low <= n <= high for low, high in spans) for n in numbers)


def _count_up(labelled: Sequence[Labelled]) -> bool:
    """Whether each number is the next one, or the lowest of all, where it begins anew."""
    lowest = min(line.number for line in labelled)
    steps = [(a.number, b.number) for a, b in pairwise(labelled)]
    strays = sum(b not in (a + 1, lowest) or (a == b == lowest) for a, b in steps)
    return strays <= STRAYS * len(steps)


def _say_one_step(labelled: Sequence[Labelled]) -> bool:
    """Whether nearly all lines name a step, and many of them the same, as ranks do that print one after the other."""
    told = [m[1] for line in labelled if (m := _STEP.search(line.text))]
    return 10 * len(told) >= 9 * len(labelled) and MANY * len(set(told)) <= len(told)
