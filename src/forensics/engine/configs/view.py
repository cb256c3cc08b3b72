"""The facts of a run as its configuration checks see them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from forensics.model import Fact, Source

# Where a program's own arguments stand, each under its author's names. `args` and `hparam` are a Trainer's and
# TensorBoard's records of them in event files.
ARGUMENTS = ("training_args", "args", "wandb.config", "hparams", "hparam", "hydra.config", "config")
_NESTED = 3  # components of a name between its prefix and the argument: hydra.config.trainer.optim.lr

ROOT, CONTEXT, SUPPORT = "root", "context", "support"


class Sign(NamedTuple):
    """What a check found.

    facts: what shows it, the most telling first; text: the sentence that says so, with the values.
    alone: what it is where no log and no metric shows its effect: ROOT (a hint of its own), CONTEXT (worth knowing), or
    SUPPORT (nothing).
    """

    facts: tuple[Fact, ...]
    text: str
    alone: str = CONTEXT
    weight: float = 1.0  # of the rule's own weight


@dataclass(frozen=True, slots=True)
class View:
    """Facts by name; a name whose values differ between files is not judged by `value` and `argument`."""

    facts: tuple[Fact, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)  # by path
    world_size: int | None = None
    metric_maxima: Mapping[str, float] = field(default_factory=dict)  # canonical name -> largest finite value
    _by_name: dict[str, list[Fact]] = field(init=False, default_factory=lambda: defaultdict(list))
    _arguments: dict[str, list[Fact]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for fact in self.facts:
            self._by_name[fact.name].append(fact)
            for prefix in ARGUMENTS:
                if fact.name.startswith(prefix + "."):
                    parts = fact.name[len(prefix) + 1 :].split(".")
                    if len(parts) <= _NESTED:
                        self._arguments[parts[-1]].append(fact)
                    break

    def all(self, name: str) -> list[Fact]:
        """The facts of that name, in the order of the files."""
        return self._by_name.get(name, [])

    def value(self, *names: str) -> Fact | None:
        """The first of the names that is stated, and stated alike wherever it is."""
        return next((found for name in names if (found := _agreed(self.all(name))) is not None), None)

    def argument(self, *names: str) -> Fact | None:
        """The first of the program's own arguments of these names that is set, and set alike wherever it is."""
        return next((found for n in names if (found := _agreed(self._arguments.get(n, []))) is not None), None)

    def within(self, file: str, name: str) -> Fact | None:
        """The fact of that name that this file states."""
        return next((fact for fact in self.all(name) if fact.source == file), None)

    def files(self, name: str) -> list[str]:
        """The files that state a fact of that name."""
        return list(dict.fromkeys(fact.source for fact in self.all(name)))

    def below(self, prefix: str, file: str | None = None) -> list[Fact]:
        """The facts whose names begin with `prefix` and a dot, of one file if it is given."""
        return [f for f in self.facts if f.name.startswith(prefix + ".") and file in (None, f.source)]


def _agreed(facts: Iterable[Fact]) -> Fact | None:
    facts = list(facts)
    return facts[0] if facts and len({f.value for f in facts}) == 1 else None


def is_true(fact: Fact | None) -> bool:
    """Whether a switch is on, in any spelling that YAML, JSON or an environment has for it."""
    return fact is not None and fact.value.strip().lower() in ("true", "yes", "on", "1")


def is_false(fact: Fact | None) -> bool:
    """Whether a switch is stated and off."""
    return fact is not None and fact.value.strip().lower() in ("false", "no", "off", "0")


def is_set(fact: Fact | None) -> bool:
    """Whether a value is stated and is not null, empty or "none"."""
    return fact is not None and fact.value.strip().lower() not in ("", "null", "none", "~", "[]", "{}")


def number(fact: Fact | None) -> float | None:
    """A fact's value as a finite number; None where it is none."""
    if fact is None or not re.fullmatch(r"[-+]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][-+]?\d{1,3})?", fact.value):
        return None
    value = float(fact.value)
    return value if math.isfinite(value) else None


def whole(fact: Fact | None) -> int | None:
    """A fact's value as a whole number; None where it is none."""
    value = number(fact)
    return int(value) if value is not None and value == int(value) else None


def version(fact: Fact | None) -> tuple[int, ...] | None:
    """The numbers that a version begins with: (2, 3, 0) of 2.3.0+cu121."""
    m = re.match(r"\d{1,6}(?:\.\d{1,6}){0,3}", fact.value) if fact is not None else None
    return tuple(int(part) for part in m[0].split(".")) if m else None


def present(*facts: Fact | None) -> tuple[Fact, ...]:
    """Those of the facts that there are, for a sign's evidence."""
    return tuple(fact for fact in facts if fact is not None)
