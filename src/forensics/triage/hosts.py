"""One name for a host that files call both with its domain and without it; and which names are of no machine."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.triage.model import JobResult

# What a process is within its job, on whatever machine: pods and containers are called by it, and log files.
_ROLE = re.compile(
    r"(?:workers?|trainers?|pods?|masters?|launchers?|chief|ps|ranks?|learners?|actors?)[-_.]?\d{0,5}\Z"
    r"|localhost(?:\..*)?\Z|127(?:\.\d{1,3}){3}\Z|::1\Z|0\.0\.0\.0\Z",
    re.I,
)
# "node-0", "node-1", ...: machines of a cluster, or the places within each job, which are counted from 0.
_COUNTED = re.compile(r"(?P<kind>node|host|server|machine)[-_.]?(?P<number>\d{1,5})\Z", re.I)


def one_name(names: Iterable[str]) -> dict[str, str]:
    """Name -> the short name, where that and the same one with a domain are both used, and there is but one domain.

    Names that stay as they are have no entry. Addresses have no short name.
    """
    domains: dict[str, set[str]] = defaultdict(set)
    for name in names:
        short, _, domain = name.partition(".")
        if not short.isdigit():
            domains[short].add(domain)
    return {
        f"{short}.{domain}": short
        for short, found in domains.items()
        if len(found) == 2 and "" in found
        for domain in found
        if domain
    }


def joined(results: Sequence[JobResult]) -> tuple[JobResult, ...]:
    """The rows of a triage with one name for each host; rows without another name are the same objects."""
    shown = one_name({name for result in results for name in _names(result)})
    if not shown:
        return tuple(results)
    return tuple(_renamed(r, shown) if any(name in shown for name in _names(r)) else r for r in results)


def on_machines(results: Sequence[JobResult]) -> tuple[JobResult, ...]:
    """The rows of a triage without the hosts that are roles: what two jobs call `worker-0` is no one machine.

    Rows without such a name are the same objects.
    """
    every = {name for result in results for name in _names(result)}
    from_zero = {m["kind"].lower() for name in every if (m := _COUNTED.match(name)) and not m["number"].strip("0")}
    roles = {
        name
        for name in every
        if _ROLE.match(name) or ((m := _COUNTED.match(name)) is not None and m["kind"].lower() in from_zero)
    }
    return tuple(_renamed(r, dict.fromkeys(roles)) if not roles.isdisjoint(_names(r)) else r for r in results)


def _names(result: JobResult) -> Iterable[str]:
    yield from result.nodes
    for name in (result.node, *(s.node for s in result.signs), *(d.node for d in result.devices)):
        if name:
            yield name


def _renamed(result: JobResult, shown: Mapping[str, str | None]) -> JobResult:
    """A row with other names for its hosts; None: without that one."""

    def new(name: str | None) -> str | None:
        return shown.get(name, name) if name else name

    return replace(
        result,
        node=new(result.node),
        nodes=tuple(sorted({name for old in result.nodes if (name := new(old)) is not None})),
        signs=tuple(replace(s, node=new(s.node)) for s in result.signs),
        devices=tuple(dict.fromkeys(replace(d, node=new(d.node)) for d in result.devices)),
    )
