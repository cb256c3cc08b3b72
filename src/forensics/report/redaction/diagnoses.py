"""A whole diagnosis, redacted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from forensics.model import Diagnosis
from forensics.patterns import lazy
from forensics.report.redaction.memory import telling
from forensics.report.redaction.redactor import Redactor
from forensics.report.redaction.settings import told_names
from forensics.report.redaction.sure_hosts import learn

_HOST_CAPTURES = frozenset({"host", "hostname", "node", "nodename", "peer_host", "master_addr"})
_OF_HOSTS = lazy(r"(?i)host|addr|node")  # names of settings that may hold one
# Captures that are lines of text: their names say nothing of a value, and would hide where the line begins.
_TEXTS = frozenset({"message", "text", "line", "error", "detail"})
# What no log can reach: identities of signatures, links between findings and the words of the contract.
_OURS: Mapping[str, frozenset[str]] = {
    "Diagnosis": frozenset({"fingerprint"}),
    "Finding": frozenset(
        {"id", "name", "codes", "severity", "step_is", "time_is", "explains", "explained_by", "see_also"}
    ),
    "RuledOut": frozenset({"name"}),
    "Coverage": frozenset({"kind"}),
    "Hint": frozenset({"name", "codes", "check", "supports"}),
}

T = TypeVar("T")


def _mapped(value: T, change: Callable[[str], str]) -> T:
    """A copy of a tree of dataclasses, tuples and mappings with `change` applied to every plain string."""
    result: Any = value
    if type(value) is str:
        result = change(str(value))
    elif isinstance(value, tuple):
        result = tuple(_mapped(item, change) for item in value)
    elif isinstance(value, Mapping):
        result = {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        result = type(value)(
            **{
                name: item if name in _OURS.get(type(value).__name__, ()) else _mapped(item, change)
                for name, item in fields.items()
            }
        )
    return result  # type: ignore[no-any-return]


def _captured(redactor: Redactor, key: str, value: str) -> str:
    """A captured value, whose name may say what its shape does not."""
    if key in _HOST_CAPTURES:
        learn(value, redactor.memory)
        return redactor.host(redactor.redact(value), everywhere=telling(value))
    if key in _TEXTS:
        return redactor.again(redactor.redact(value))
    return redactor.setting(key, value)


def _node(redactor: Redactor, node: str | None) -> str | None:
    """A node is a host also where it is a word or two letters; what is no host name is text like any other."""
    return redactor.host(redactor.again(redactor.redact(node))) if node else node


def _slugs(diagnosis: Diagnosis) -> Iterator[str]:
    """The slugs that a report names."""
    for named in (diagnosis.findings, diagnosis.ruled_out, diagnosis.hints):
        yield from (item.name for item in named)


def redact_diagnosis(
    diagnosis: Diagnosis,
    redactor: Redactor | None = None,
    *,
    patterns: Sequence[str] = (),
    told: Sequence[str] = (),
) -> Diagnosis:
    """The diagnosis with every string that a log can reach redacted; ranks, steps, times and slugs stay.

    Hosts are learnt from the nodes of findings and sources, and users from any path, before anything is replaced, so
    that a name is replaced also where it stands before the place that gives it away. `redactor` may be given by who
    has more texts to redact with the same stand-ins; `patterns` are the user's own, for a new one; `told` are lines of
    the run that give names away which stand bare in the diagnosis (`told`).

    Raises RedactionError as Redactor does.
    """
    nodes = [f.node for f in diagnosis.findings if f.node] + [c.node for c in diagnosis.coverage if c.node]
    redactor = redactor or Redactor(patterns=patterns)
    learnt: dict[str, None] = {}
    _mapped(diagnosis, lambda text: learnt.setdefault(text) or text)
    slugs = list(_slugs(diagnosis))
    redactor.memory.spoken.update(word for slug in slugs for word in re.findall(r"[a-z]+", slug))
    redactor.keep_of(slugs)
    for text in learnt:
        redactor.memory.stand_ins.reserve(text)
    for node in nodes:
        redactor.host(node)
    first = {text: redactor.redact(text) for text in learnt}
    for finding in diagnosis.findings:
        for key, value in finding.captures.items():
            _captured(redactor, key, value)
    environment = list(zip(told_names(diagnosis.environment), diagnosis.environment, strict=True))
    for name, fact in environment:
        if name != fact.name:
            _captured(redactor, name, fact.value)
    redactor.learn((*(f"{name}={fact.value}" for name, fact in environment if _OF_HOSTS.search(name)), *told))
    known: dict[str, str] = {}

    def change(text: str) -> str:
        if text not in known:
            known[text] = redactor.again(first[text]) if text in first else redactor.redact(text)
        return known[text]

    redacted = _mapped(diagnosis, change)
    return dataclasses.replace(
        redacted,
        findings=tuple(
            dataclasses.replace(
                after,
                node=_node(redactor, before.node),
                captures={change(key): _captured(redactor, key, value) for key, value in before.captures.items()},
            )
            for before, after in zip(diagnosis.findings, redacted.findings, strict=True)
        ),
        coverage=tuple(
            dataclasses.replace(after, node=_node(redactor, before.node))
            for before, after in zip(diagnosis.coverage, redacted.coverage, strict=True)
        ),
        environment=tuple(
            dataclasses.replace(after, value=_captured(redactor, name, before.value))
            for (name, before), after in zip(environment, redacted.environment, strict=True)
        ),
    )


def redact_tree(value: T, redactor: Redactor) -> T:
    """A copy of any tree of dataclasses, tuples and mappings with every string redacted; what it holds is learnt too.

    Call it twice where a name can stand before the place that gives it away. Raises RedactionError as Redactor does.
    """
    return _mapped(value, lambda text: redactor.again(redactor.redact(text)))
