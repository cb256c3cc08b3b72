"""Settings that another setting names: `env.0.name = DB_PASSWORD` beside `env.0.value`, options and their values."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.model import Fact

_NAMES = ("name", "key")


def told_names(facts: Sequence[Fact]) -> list[str]:
    """For each fact the name that tells what its value is: that of its pair or option, else its own."""
    values = {(fact.source, fact.name): fact.value for fact in facts}
    return [_name(fact, values) for fact in facts]


def pairs(facts: Sequence[Fact]) -> list[str]:
    """`NAME=value` of the facts whose name is another fact."""
    return [f"{name}={fact.value}" for name, fact in zip(told_names(facts), facts, strict=True) if name != fact.name]


def _name(fact: Fact, values: dict[tuple[str, str], str]) -> str:
    above, _, last = fact.name.rpartition(".")
    if last == "value" and above:
        for name in _NAMES:
            found = values.get((fact.source, f"{above}.{name}"))
            if found and not any(char.isspace() for char in found):
                return found
    elif last.isdecimal() and above and last != "0" and not fact.value.startswith("-"):
        option = values.get((fact.source, f"{above}.{int(last) - 1}"), "")
        if option.startswith("-") and not any(char.isspace() or char == "=" for char in option):
            return option.lstrip("-") or fact.name
    return fact.name
