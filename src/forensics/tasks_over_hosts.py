"""Names of files in which the numbers of srun's tasks run through several hosts.

`slurm-7_gpu01_0.out`, `slurm-7_gpu02_2.out` and `gpu01/slurm-7_0.out`, `gpu02/slurm-7_2.out` are what `%N` and `%t`
make of one job. The numbers are of the whole job where they run from 0 without a gap, each stands on one host only, and
each host holds a stretch of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from forensics.archives.formats import without_compression
from forensics.host_words import NUMBERED
from forensics.model import Kind, Source

# A job's number in the name keeps out the files of seeds and folds in folders of their own.
_IN_FOLDER = re.compile(
    r"^(?P<host>.*)/(?P<stem>[^/]*?(?<!\d)\d{1,12}[_-])(?P<task>\d{1,5})(?P<end>\.(?:out|err|log|txt))$"
)
_IN_NAME = re.compile(
    r"^(?P<folder>(?:[^/]*/)*)(?P<stem>(?:[^/]*[_-])?(?<!\d)\d{1,12}[_-])(?P<host>[A-Za-z][A-Za-z0-9-]{0,40}?\d[A-Za-z0-9-]{0,30}?)"
    r"[_-](?P<task>\d{1,5})(?P<end>\.(?:out|err|log|txt))$"
)
# What is numbered in folders and names and is no host, though each may hold a stretch of the tasks. A card is as likely
# as a host called so: names that have one digit are told by siblings' lines (`engine.numbered`).
_NO_HOST = re.compile(rf"(?:^|[^A-Za-z]){NUMBERED}")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one file stands: its host, how far that is one in its name, and its task."""

    host: str
    task: int
    in_name: bool


def number(sources: Sequence[Source], apart: Collection[str]) -> list[Source]:
    """The sources with the tasks that their names bear, where these run through several hosts.

    Hosts in names are taken over; those of folders are left to what the logs say. apart: files that are of jobs of
    their own.
    """
    places = _places([s for s in sources if s.path not in apart and s.kind in (Kind.LOG, Kind.EMPTY) and _is_free(s)])
    return [_at(s, places[s.path]) if s.path in places else s for s in sources]


def _is_free(source: Source) -> bool:
    mine = source.identity
    return mine.rank is None and mine.local_rank is None and mine.task is None


def _at(source: Source, place: _Place) -> Source:
    mine = source.identity
    node = place.host if place.in_name and mine.node is None else mine.node
    return replace(source, identity=replace(mine, task=place.task, node=node))


def _places(sources: Sequence[Source]) -> dict[str, _Place]:
    groups: dict[tuple[str, ...], dict[str, _Place]] = defaultdict(dict)
    for s in sources:
        path = without_compression(s.path)
        if m := _IN_NAME.match(path):
            groups[m["folder"], m["stem"], m["end"]][s.path] = _Place(m["host"], int(m["task"]), True)
        elif m := _IN_FOLDER.match(path):
            groups[m["stem"], m["end"]][s.path] = _Place(m["host"], int(m["task"]), False)
    found: dict[str, _Place] = {}
    for group in groups.values():
        if _through_hosts(group):
            found |= group
    return found


def _through_hosts(group: Mapping[str, _Place]) -> bool:
    """Whether the tasks are of one job on several hosts that are called alike."""
    tasks: dict[str, list[int]] = defaultdict(list)
    for place in group.values():
        tasks[place.host].append(place.task)
    names = [host.rpartition("/")[2] for host in tasks]
    if len(tasks) < 2 or any(_NO_HOST.search(name) or not _DIGITS.search(name) for name in names):
        return False
    if len({_DIGITS.sub("#", host) for host in tasks}) > 1:
        return False
    numbers = sorted(task for own in tasks.values() for task in own)
    stretches = sorted((min(own), max(own)) for own in tasks.values())
    return (
        numbers == list(range(len(numbers)))
        and all(one[1] < other[0] for one, other in pairwise(stretches))
        and 2 * sum(low < high for low, high in stretches) > len(stretches)
    )
