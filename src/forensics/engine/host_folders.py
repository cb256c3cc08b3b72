"""Folders and files named after hosts: `dgx-11/rank0.log`, `cn-0118/local_rank_2.log`, `hgx-22.out`.

A name alone says nothing, as folders of runs, seeds and folds look the same. It is a host's where the processes in them
can only be of one world on several hosts: the same local ranks stand in each of them, and they wrote at the same time,
or each holds its own stretch of the ranks. Ranks in names (`gpu01/rank0.log`, `gpu02/rank0.log`) are read as
local ones where what the logs say makes one world of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.engine.identity import kernel_sources, stated_size
from forensics.engine.whose import ANNOUNCED, WORKER_EXIT, label, scheme
from forensics.model import Identity, Kind, RunData, Source
from forensics.patterns import lazy

# Words in names of folders that are of something else than a host. `run.identity_of` knows node_0 and worker-1.
_OTHER = lazy(
    r"(?<![a-z])(?:rank|attempt|proc|local|run|trial|seed|fold|task|epoch|step|job|version|slurm|log|stage|try|part"
    r"|exp(?:eriment)?(?![-_]?\d+[-_]\d))s?(?![a-z])",
    re.I,
)
# A process on this device, or a host: gpu-14, gpu003. Only what is in it tells.
_GPU = lazy(r"(?<![a-z])gpu(?![a-z])", re.I)
# Machines of clusters, and two digits at least: hgx11, gn-012.
_MACHINE = lazy(r"(?P<kind>(?:gpu|gn|gpunode|hgx|dgx|cn|nid|compute|srv)[-_]?)(?P<number>\d{2,6})", re.I)
_DIGIT = lazy(r"\d")
_FIRST_WORD = lazy(r"[A-Za-z]{2,}[-_](?=[A-Za-z]{1,10}$)")
# What stands behind the host in the name of a file: `hgx-21.local_rank0.log`.
_LOCAL = lazy(r"[._-]local[_-]?rank[_-]?\d", re.I)
# Where processes meet: "connect to (gpu-b08, 29500)", "[gpu-b08]:29500" of torch's sockets, and launchers' options.
_MEETING = lazy(
    r"\((?P<paired>[A-Za-z][\w.-]{0,62}), \d{4,5}\)|\[(?P<bracketed>[A-Za-z][\w.-]{0,62})\]:\d{4,5}\b"
    r"|(?:master[_-]addr|rdzv[_-]endpoint|MASTER_ADDR)[= ](?P<option>[A-Za-z][\w.-]{0,62})"
)


def of_hosts(data: RunData) -> dict[str, Identity]:
    """Path -> identity with the host, of logs whose folder or name is a host's; empty where that is not sure."""
    kernels = kernel_sources(data)
    logs = [s for s in data.sources if s.kind is Kind.LOG and s.path not in kernels]
    if len(logs) < 2 or any(s.identity.node is not None for s in logs):
        return {}
    told = _announced(logs, data)
    for name_of in (_folders(logs), _names(logs)):
        groups: dict[str, list[Source]] = defaultdict(list)
        for s in logs:
            if (name := name_of.get(s.path)) is not None:
                groups[name].append(s)
        if told and told.isdisjoint(map(str.lower, groups)):
            continue  # the processes call their hosts by other names
        if len(groups) > 1 and "/" not in "".join(groups) and _called_as_machines(groups, data):
            return {s.path: replace(s.identity, node=name) for name, own in groups.items() for s in own}
        named = len(groups) > 1 and _repeated(groups)
        called = _call_themselves(groups, data) or _meet_at(groups, data)
        if len(groups) > 1 and not named and _alike(groups) and called:
            return {s.path: replace(s.identity, node=name) for name, own in groups.items() for s in own}
        if len(groups) > 1 and _are_hosts(groups, data, named):
            return {s.path: _on(name, s.identity, named) for name, own in groups.items() for s in own}
    return {}


def _announced(logs: Sequence[Source], data: RunData) -> set[str]:
    """The first labels of the hosts that processes name as their own in these logs."""
    paths = {s.path for s in logs}
    nodes = (o.identity.node for o in data.observations if o.signature == ANNOUNCED and o.evidence[0].file in paths)
    return {label(node) for node in nodes if node}


def _call_themselves(groups: Mapping[str, Sequence[Source]], data: RunData) -> bool:
    """Whether what processes and launchers call their host in these logs is what the logs are called, wherever they do.

    Those that are made in the same way are hosts then, too.
    """
    of_path = {s.path: name.lower() for name, own in groups.items() for s in own}
    said = {
        (of_path[o.evidence[0].file], label(o.identity.node))
        for o in data.observations
        if o.signature in (ANNOUNCED, WORKER_EXIT) and o.identity.node and o.evidence[0].file in of_path
    }
    return bool(said) and all(name == host for name, host in said) and _at_once(groups, data)


def _meet_at(groups: Mapping[str, Sequence[Source]], data: RunData) -> bool:
    """Whether processes of several of these logs meet at a host that one of them is called after.

    It stands in their launchers' options and in what c10d says of its store.
    """
    of_path = {s.path: name for name, own in groups.items() for s in own}
    met: dict[str, set[str]] = defaultdict(set)
    for o in data.observations:
        if (log := of_path.get(o.evidence[0].file)) is not None:
            for m in _MEETING.finditer(o.evidence[0].text):
                met[label(m["paired"] or m["bracketed"] or m["option"])].add(log)
    # Whoever cannot reach it names it, and seldom the host itself.
    hosts = [name for name in groups if met.get(name.lower(), set()) - {name}]
    return len(hosts) == 1 and _at_once(groups, data)


def _called_as_machines(groups: Mapping[str, Sequence[Source]], data: RunData) -> bool:
    """Whether all are called as machines are, of one kind and with other numbers, and nothing in them names a process.

    Names of cards and of processes are numbered from 0 or 1 without a gap.
    """
    words = [_MACHINE.fullmatch(name) for name in groups]
    if not all(words) or len({m["kind"] for m in words if m}) > 1:
        return False
    numbers = sorted(int(m["number"]) for m in words if m)
    if numbers[0] < 2 and words[0] and words[0]["kind"].lower().startswith("gpu"):
        return False
    if all(n & (n - 1) == 0 for n in numbers):  # gn16, gn32: a setting that was tried
        return False
    paths = {s.path for own in groups.values() for s in own}
    said = [(s.path, s.identity) for own in groups.values() for s in own]
    said += [(o.evidence[0].file, o.identity) for o in data.observations]
    said += [(t.header.file, t.identity) for t in data.tracebacks]
    places = (i.rank is not None or i.local_rank is not None for path, i in said if path in paths)
    if any(places) or (data.metrics.height and data.metrics["rank"].drop_nulls().len() > 0):
        return False
    return _at_once(groups, data)


def _are_hosts(groups: Mapping[str, Sequence[Source]], data: RunData, named: bool) -> bool:
    """Whether the names are hosts', by how they are made and by what stands below them."""
    if any(name.isdigit() or _OTHER.search(name) for name in groups):
        return False
    if _alike(groups):
        return _one_world(groups, data, named)
    # na01 and nb01: of one shape, and not of one word. Only ranks in stretches tell that these are of one world.
    alike = len({scheme(name)[1] for name in groups}) == 1 and all(map(_DIGIT.search, groups))
    return alike and not named and _one_world(groups, data, named, by_ranks=True)


def _on(node: str, identity: Identity, named: bool) -> Identity:
    """An identity on a host; its rank is the local one where the `named` ranks repeat from host to host."""
    if named and identity.rank is not None:
        return replace(identity, node=node, rank=None, local_rank=identity.rank)
    return replace(identity, node=node)


def _repeated(groups: Mapping[str, Sequence[Source]]) -> bool:
    """Whether the names of files bear the same ranks in each folder."""
    ranks = [{s.identity.rank for s in own} for own in groups.values()]
    return None not in ranks[0] and all(own == ranks[0] for own in ranks)


def _folders(logs: Sequence[Source]) -> dict[str, str]:
    """Path -> the first folder that not all logs share."""
    inside = [s.path.split("/") for s in logs if "/" in s.path]
    if not inside:
        return {}
    depth = 0
    while all(len(p) > depth + 2 and p[depth] == inside[0][depth] for p in inside):
        depth += 1
    return {"/".join(p): p[depth] for p in inside if len(p) > depth + 1}


def _names(logs: Sequence[Source]) -> dict[str, str]:
    """Path -> the name of a file up to its local rank or its ending, where all logs lie in one folder."""
    if len({s.path.rpartition("/")[0] for s in logs}) != 1:
        return {}
    names = {s.path: s.path.rpartition("/")[2] for s in logs}
    return {path: _LOCAL.split(name)[0] if _LOCAL.search(name) else name.split(".")[0] for path, name in names.items()}


def _alike(groups: Mapping[str, Sequence[Source]]) -> bool:
    """Whether the names are made in one way: they have numbers (dgx-11), or begin with the same word (hgx-a, hgx-b)."""
    if all(map(_DIGIT.search, groups)):
        return len({scheme(name) for name in groups}) == 1
    words = [_FIRST_WORD.match(name) for name in groups]
    return len({word[0] if word is not None else None for word in words}) == 1 and words[0] is not None


def _at_once(groups: Mapping[str, Sequence[Source]], data: RunData) -> bool:
    """Whether nothing says that one of them began to be written when another had ended."""
    of_path = {s.path: name for name, own in groups.items() for s in own}
    spans: dict[str, tuple[float, float]] = {}
    for w in data.writers:
        name = of_path.get(w.source)
        if name is not None and w.first_time is not None and w.last_time is not None:
            low, high = spans.get(name, (w.first_time, w.last_time))
            spans[name] = (min(low, w.first_time), max(high, w.last_time))
    begins, ends = [low for low, _ in spans.values()], [high for _, high in spans.values()]
    return not spans or max(begins) <= min(ends)


def _one_world(groups: Mapping[str, Sequence[Source]], data: RunData, named: bool, *, by_ranks: bool = False) -> bool:
    """Whether the same local ranks stand in each, and no rank; or ranks that lie in stretches apart from each other.

    by_ranks: only the latter counts. named: the names of files bear the same ranks in each. Then a world as large as
    all of them together, or a rank that no name bears, tells hosts from runs side by side.
    """
    said_in: dict[int, Counter[str]] = defaultdict(Counter)
    local: dict[str, set[int]] = {name: set() for name in groups}
    of_path = {s.path: name for name, own in groups.items() for s in own}
    said = [(s.path, s.identity) for own in groups.values() for s in own]
    said += [(o.evidence[0].file, o.identity) for o in data.observations]
    said += [(t.header.file, t.identity) for t in data.tracebacks]
    for path, identity in said:
        if (name := of_path.get(path)) is not None:
            if identity.rank is not None:
                said_in[identity.rank][name] += 1
            elif identity.task is not None:
                said_in[identity.task][name] += 1
            if identity.local_rank is not None:
                local[name].add(identity.local_rank)
    if data.metrics.height:
        rows = data.metrics.select("source", "rank").drop_nulls().group_by("source", "rank").len()
        for path, rank, count in rows.iter_rows():
            # Without a rank on its line a row bears the local one.
            if path in of_path and rank not in local[of_path[path]]:
                said_in[rank][of_path[path]] += count
    everyone = set(said_in)
    if named:
        in_names = {s.identity.rank for own in groups.values() for s in own}
        return stated_size(data.observations) == len(in_names) * len(groups) or not everyone <= in_names
    if not everyone and by_ranks:
        return False
    if not everyone:
        shared = set.intersection(*local.values())
        if not all(map(_DIGIT.search, groups)):  # bert-small, bert-large
            return False
        # A process of a device has one local rank at most.
        return len(shared) > any(map(_GPU.search, groups)) and _at_once(groups, data)
    ranks: dict[str, set[int]] = defaultdict(set)
    for rank, names in said_in.items():  # a word of a rank stands elsewhere too, and lines are cut
        most = max(names.values())
        for name in (name for name, count in names.items() if count == most):
            ranks[name].add(rank)
    return _blocks(ranks.values())


def _blocks(ranks: Iterable[Collection[int]]) -> bool:
    """Whether ranks lie in stretches, one behind the other, of which most hold several.

    A rank within a stretch may be missing, as the one that is looked for has often said nothing.
    """
    stretches = sorted((min(own), max(own)) for own in ranks if own)
    apart = all(one[1] < other[0] for one, other in itertools.pairwise(stretches))
    return len(stretches) > 1 and apart and 2 * sum(low < high for low, high in stretches) > len(stretches)
