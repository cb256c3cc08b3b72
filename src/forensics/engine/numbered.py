"""Ranks from numbers in the names of files, where the logs of other files of one naming prove what the number is.

Schemes of names are people's own (`--output=%x_%j_%N_%t.log`). Of `job_839201_gpu012_12.log` alone nobody knows which
number is a rank. Where the lines of siblings say that each is of one rank, and one number of each name is that rank, it
is so in the names of the others as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.model import MAX_RANKS, Identity, Kind, RunData

# Siblings whose own lines prove the number: one may agree by chance, as a first rank and a first file do.
PROVEN = 2
_WORKER = re.compile(r"(?i)(?:worker|trainer)[-_]?\d+")
_NUMBER = re.compile(r"\d+")


def of_ranks(data: RunData) -> dict[str, Identity]:
    """Path -> identity with the rank that its name bears, of the logs whose siblings prove it."""
    alike: dict[str, list[str]] = defaultdict(list)
    identities = {s.path: s.identity for s in data.sources if s.kind is Kind.LOG}
    for path, identity in identities.items():
        if identity.local_rank is None:
            alike[_NUMBER.sub("#", path)].append(path)
    groups = [
        paths for paths in alike.values() if len(paths) > PROVEN and any(identities[p].rank is None for p in paths)
    ]
    if not groups:
        return {}
    said = _said(data)
    found: dict[str, Identity] = {}
    for paths in groups:
        ranks = _ranks(paths, said)
        if all(identities[path].rank in (None, rank) for path, rank in ranks.items()):
            found |= {
                path: replace(identities[path], rank=rank, node=_host(identities[path].node, path))
                for path, rank in ranks.items()
            }
    return found


def _host(node: str | None, path: str) -> str | None:
    """The host of a file whose name bears its rank; a worker after which the file is named is no host."""
    name = path.rpartition("/")[2]
    return None if node and _WORKER.fullmatch(node) and name.startswith(f"{node}.") else node


def _ranks(paths: Sequence[str], said: Mapping[str, set[int]]) -> dict[str, int]:
    """Path -> rank of files whose names differ in numbers; empty where no number is proven to be the rank."""
    numbers = {path: [int(n) for n in _NUMBER.findall(path)] for path in paths}
    proofs = {path: next(iter(said[path])) for path in paths if len(said.get(path, ())) == 1}
    if len(set(proofs.values())) < PROVEN or any(len(said.get(path, ())) > 1 for path in paths):
        return {}
    for at in range(len(numbers[paths[0]])):
        ranks = {path: each[at] for path, each in numbers.items()}
        if (
            len(set(ranks.values())) == len(paths)
            and max(ranks.values()) < MAX_RANKS
            and all(ranks[path] == rank for path, rank in proofs.items())
        ):
            return ranks
    return {}


def _said(data: RunData) -> dict[str, set[int]]:
    """Path -> the ranks that its own lines bear."""
    said: dict[str, set[int]] = defaultdict(set)
    for identity, path in (
        *((o.identity, o.evidence[0].file) for o in data.observations),
        *((t.identity, t.header.file) for t in data.tracebacks),
    ):
        if identity.rank is not None:
            said[path].add(identity.rank)
    if data.metrics.height:
        for path, rank in data.metrics.select("source", "rank").drop_nulls().unique().iter_rows():
            said[path].add(rank)
    return said
