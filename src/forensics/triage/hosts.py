"""One name for a host that files call both with its domain and without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.triage.model import JobResult


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


def _names(result: JobResult) -> Iterable[str]:
    yield from result.nodes
    for name in (result.node, *(s.node for s in result.signs), *(d.node for d in result.devices)):
        if name:
            yield name


def _renamed(result: JobResult, shown: Mapping[str, str]) -> JobResult:
    def new(name: str | None) -> str | None:
        return shown.get(name, name) if name else name

    return replace(
        result,
        node=new(result.node),
        nodes=tuple(sorted({shown.get(name, name) for name in result.nodes})),
        signs=tuple(replace(s, node=new(s.node)) for s in result.signs),
        devices=tuple(dict.fromkeys(replace(d, node=new(d.node)) for d in result.devices)),
    )
