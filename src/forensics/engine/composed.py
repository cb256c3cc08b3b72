"""Whose end Docker Compose tells: the container that a line names, and the rank of which all its other lines are.

Compose puts the name of a container before each line of its output (`trainer-2  | ...`) and tells of its end without
that: `trainer-2 exited with code 137`. A container may drive several ranks of which one alone prints; where the ranks
of two containers or more follow each other, each drives one. Of containers that were all killed nothing tells which
one was first, and one that is killed after another had failed was ended by Compose (`--abort-on-container-exit`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forensics.engine.borrowed import KILLED
from forensics.engine.whose import ANNOUNCED, OF_SIGNALS, SEEN
from forensics.model import Identity, Observation, RunData
from forensics.patterns import lazy

# How Compose 1 and 2 print the end of a container; `(restarting)` where its policy starts it again.
_ENDED = lazy(r"(?P<name>[A-Za-z0-9][\w.-]{0,99}) exited with code (?P<code>[1-9]\d{0,2})(?P<again> \(restarting\))?$")
_HEAD = lazy(r"(?P<name>[A-Za-z0-9][\w.-]{0,99})\s+\|(?: |$)")
_SAYS = " exited with code "


@dataclass(slots=True)
class _File:
    """What one file tells of its containers."""

    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # container -> (line, status) of its first end
    restarts: bool = False
    seen: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # container -> its ranks

    def one_each(self) -> dict[str, int]:
        """Container -> its rank, where each that names any names one and they follow each other; else nothing."""
        named = [rank for ranks in self.seen.values() for rank in ranks]
        single = len(named) > 1 and all(len(ranks) < 2 for ranks in self.seen.values())
        if not single or sorted(named) != [*range(min(named), min(named) + len(named))]:
            return {}
        return {name: next(iter(ranks)) for name, ranks in self.seen.items() if ranks}

    def alone(self, name: str) -> bool:
        """Whether a container is the first to fail, and no other ended in the same way."""
        line, status = self.ends[name]
        others = [end for other, end in self.ends.items() if other != name]
        return all(line < later and status != code for later, code in others)

    def ended_by_compose(self, name: str) -> bool:
        """Whether a container that drives a rank was killed after another one had failed by itself."""
        line = self.ends[name][0]
        failed = [at for other, (at, status) in self.ends.items() if status <= OF_SIGNALS and self.seen.get(other)]
        return any(at < line for at in failed)


def placed(data: RunData) -> RunData:
    """The run with the container, and its rank where that is known, of lines that tell of a container's end.

    Without the kills of containers that Compose ended after another one.
    """
    files = _files(data)
    if not files:
        return data
    ranks = {path: {} if told.restarts else told.one_each() for path, told in files.items()}
    kept = []
    for o in data.observations:
        file = files.get(o.evidence[0].file)
        name = _container(o, file)
        if file is None or name is None:
            kept.append(o)
            continue
        if o.signature in KILLED and not file.restarts and file.ended_by_compose(name):
            continue
        rank = ranks[o.evidence[0].file].get(name) if file.alone(name) else None
        culprits = (rank,) if rank is not None and o.culprits is None else o.culprits
        kept.append(replace(o, identity=replace(o.identity, node=name, rank=rank), culprits=culprits))
    return replace(data, observations=tuple(kept))


def _container(o: Observation, file: _File | None) -> str | None:
    """The container of whose end a line tells, where other lines of the file bear its name at their head."""
    if file is None or o.identity != Identity() or _SAYS not in o.evidence[0].text:
        return None
    m = _ENDED.match(o.evidence[0].text)
    return m["name"] if m is not None and m["name"] in file.seen else None


def _files(data: RunData) -> Mapping[str, _File]:
    """The files that tell of ends of containers."""
    files: dict[str, _File] = defaultdict(_File)
    for o in data.observations:
        told = o.evidence[0]
        if told.line is not None and _SAYS in told.text and (m := _ENDED.match(told.text)) is not None:
            file = files[told.file]
            file.ends.setdefault(m["name"], (told.line, int(m["code"])))
            file.restarts = file.restarts or m["again"] is not None
    for o in data.observations:
        told = o.evidence[0]
        if o.signature not in (SEEN, ANNOUNCED) or told.file not in files or o.identity.node is None:
            continue
        head = _HEAD.match(told.text)
        if head is not None and head["name"] == o.identity.node:
            files[told.file].seen[head["name"]].update([] if o.identity.rank is None else [o.identity.rank])
    return files
