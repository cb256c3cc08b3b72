"""Checkpoints as a run saves them: one file, or the files of one folder; put together from facts about files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from forensics.model import Fact
from forensics.parsers.checkpoints.states import PREFIXES, STATES
from forensics.patterns import lazy

_FOLDER = lazy(
    r"^(?P<unit>(?:.*/)?(?:checkpoint[-_]\d+|global_step\d+|iter_\d+|step[-_=]?\d+|epoch[-_=]?\d+(?:[-_]step[-_=]?\d+)?"
    r"|ep\d+-ba\d+))/",
    re.I,
)
NOT_LISTED, FINITE, NONFINITE = "checkpoint.not_listed", "checkpoint.finite", "checkpoint.nonfinite"
_PREFIX = "checkpoint.prefix."


@dataclass(frozen=True, slots=True)
class Unit:
    """One checkpoint, as far as its files are here."""

    path: str  # of the file, or of the folder
    files: tuple[str, ...]
    holds: frozenset[str]  # of states.STATES
    step: int | None
    epoch: float | None
    whole: bool  # the contents of all its files are known
    parameters: int = 0
    prefixes: Mapping[str, int] = field(default_factory=dict)  # wrapper's prefix -> parameters that bear it
    names: frozenset[str] = frozenset()  # digests of the parameters' bare names, one a file
    counted: bool = False  # a file of it states the step itself, and not its name
    finite: bool | None = None  # None where nobody looked

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def unit_of(path: str, sharded: Iterable[str] = ()) -> str:
    """The path of the checkpoint that a file belongs to. sharded: folders that are one checkpoint by their content."""
    if m := _FOLDER.match(path):
        return m["unit"]
    folder = path.rpartition("/")[0]
    return folder if folder and folder in sharded else path


def units(facts: Iterable[Fact], files: Iterable[str] = ()) -> list[Unit]:
    """The checkpoints that facts speak of, by step (those without one first), then by path.

    files: checkpoint files of which no fact may speak, so that it is known that a unit is not known in full.
    """
    by_file: dict[str, dict[str, str]] = {path: {} for path in files}
    for fact in facts:
        if fact.name.startswith("checkpoint."):
            by_file.setdefault(fact.source, {})[fact.name] = fact.value
    sharded = {p.rpartition("/")[0] for p in by_file if p.endswith((".metadata", ".distcp"))}
    groups: dict[str, list[str]] = {}
    for path in sorted(by_file):
        groups.setdefault(unit_of(path, sharded), []).append(path)
    made = [_unit(path, members, by_file) for path, members in groups.items()]
    return sorted(made, key=lambda u: (u.step is not None, u.step or 0, u.path))


def _unit(path: str, members: list[str], by_file: Mapping[str, Mapping[str, str]]) -> Unit:
    told = [by_file[m] for m in members]
    steps = [int(t["checkpoint.step"]) for t in told if t.get("checkpoint.step", "").isdigit()]
    epochs = [float(t["checkpoint.epoch"]) for t in told if "checkpoint.epoch" in t]
    prefixes: dict[str, int] = {}
    for prefix in PREFIXES:
        if n := sum(int(t.get(_PREFIX + prefix, "0")) for t in told):
            prefixes[prefix] = n
    holds = frozenset(s for t in told for s in t.get("checkpoint.holds", "").split(", ") if s in STATES)
    known = [m for m, t in zip(members, told, strict=True) if "checkpoint.format" in t or m.endswith(".distcp")]
    looked = [t for t in told if FINITE in t or NONFINITE in t]
    return Unit(
        path,
        tuple(members),
        holds,
        max(steps, default=None),
        max(epochs, default=None),
        len(known) == len(members) and not any(NOT_LISTED in t for t in told),
        sum(int(t.get("checkpoint.parameters", "0")) for t in told),
        prefixes,
        frozenset(t["checkpoint.names"] for t in told if "checkpoint.names" in t),
        "step" in holds,
        all(NONFINITE not in t for t in looked) if looked else None,
    )


def at_or_before(found: Iterable[Unit], step: int | None) -> Unit | None:
    """The checkpoint that a run which goes on at `step` began from: the last one not after it.

    Where no step is known, the only checkpoint there is.
    """
    listed = list(found)
    if step is None:
        return listed[0] if len(listed) == 1 else None
    earlier = [u for u in listed if u.step is not None and u.step <= step]
    if earlier:
        return max(earlier, key=lambda u: (u.step or 0, len(u.holds)))
    return listed[0] if len(listed) == 1 and listed[0].step is None else None
