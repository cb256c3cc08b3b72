"""What names of files say of hosts and ranks, where only the rest of the run can confirm it.

`dmesg-gpu17.txt` is of the host gpu17 where the run knows such a host. `worker_3.log` beside its siblings is of rank 3
where nothing in the logs says otherwise; the name alone could be that of a pod with many ranks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from forensics.archives.formats import without_compression
from forensics.engine import declared, host_folders, numbered, whose
from forensics.engine.environment import stated_world
from forensics.engine.identity import kernel_sources, stated_size
from forensics.engine.kernel import namesakes
from forensics.host_words import NUMBERED
from forensics.model import MAX_RANKS, Identity, Kind, RunData
from forensics.parsers import columns, run_pods
from forensics.parsers.run_files import whereabouts
from forensics.patterns import lazy

# Words of file names that some hosts are called as well: they tell no host from another.
_NO_HOST = frozenset(
    "localhost kernel kern dmesg journal journalctl syslog messages log logs node host gpu xid".split()
)
# A host that the run itself does not name: node-b, host_c, node-k3. Those with numbers alone are told by
# `run.identity_of`. A version or an architecture is no host's name.
_LETTERED = lazy(
    r"(?:^|[/._-])((?:node|host|server|machine)[-_](?!v\d|x86)[a-z]{1,2}\d{1,4}|"
    r"(?:node|host|server|machine)[-_][a-z])(?=[/._-]|$)",
    re.I,
)
# A kernel's log under nothing but its kind and one more word, which has a number in it: dmesg-gn12.txt, gn12_dmesg.log.
_KIND = r"(?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog)"
_WORD = rf"(?!{NUMBERED})[a-z][a-z-]{{0,30}}\d[a-z0-9-]{{0,30}}"
_KERNEL_OF = lazy(
    rf"(?:^|/)(?:{_KIND}[-_.](?P<after>{_WORD})|(?P<before>{_WORD})[-_.]{_KIND})(?:\.(?:txt|log|out|json))*$", re.I
)
# The logs of workers of one folder, numbered by whoever started them. With more before the word, as in
# `train-worker-1.log`, it is the name of a pod.
_WORKER = lazy(r"(?:^|/)(?P<node>(?:worker|trainer)[-_]?(?P<rank>\d{1,5}))\.(?:log|out|err|txt|stdout|stderr)$", re.I)
# Beside such workers, the process that is rank 0 or none of the ranks at all (PyTorchJob, MPI operator).
_MASTER = lazy(r"(?:^|[/._-])(?:master|launcher|chief|head|driver|ps)(?=[/._-]|\d|$)", re.I)


def confirmed(data: RunData) -> RunData:
    """The run with hosts of logs and ranks of workers that only their files' names bear."""
    if whole := _whole_names(data):
        data = _with(data, whole)
    if announced := _announced(data):
        data = _with(data, announced)
    if hosts := host_folders.of_hosts(data):
        data = _with(data, hosts)
    if beside := _beside_ranks(data):
        data = _with(data, beside)
    if processes := declared.of_processes(data):
        data = _with(data, processes)
    if ranks := numbered.of_ranks(data):
        data = _with(data, ranks)
    workers = _workers(data)
    identities = _outputs(data) | namesakes.of_logs(data) | _hosts(data) | workers
    data = _with(data, identities) if identities else data
    if workers and not hosts and (hosts := host_folders.of_hosts(data)):  # their names stood for hosts before
        data = _with(data, hosts)
    printed = _in_tables(data)
    return _with(data, printed) if printed else data


def _announced(data: RunData) -> dict[str, Identity]:
    """Path -> identity of logs in which one process alone says which local rank of which host it is.

    Only beside others that say so as well: one log alone may hold what others wrote after it.
    """
    told: dict[str, set[tuple[str | None, int | None]]] = defaultdict(set)
    for o in data.observations:
        if o.identity.node is not None and o.signature in (whose.ANNOUNCED, whose.SEEN):
            told[o.evidence[0].file].add((o.identity.node, o.identity.local_rank))
    alone = {path: next(iter(places)) for path, places in told.items() if len(places) == 1}
    if len(alone) < 2 or len(set(alone.values())) < len(alone) or len(alone) < len(told):
        return {}
    return {
        s.path: replace(s.identity, node=node, local_rank=local, task=None)
        for s in data.sources
        if (place := alone.get(s.path)) is not None
        and (node := place[0]) is not None
        and (local := place[1]) is not None
        and s.identity.rank is None
        and s.identity.local_rank in (None, local)
        and s.identity.node in (None, node)
    }


def _beside_ranks(data: RunData) -> dict[str, Identity]:
    """Path -> identity of logs of one rank each, whose lines bear a word before it: its host, if it goes with the rank.

    In one log such a word may be a logger's name; in those of several ranks it is not where it is another one in each.
    """
    told: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for o in data.observations:
        if o.signature == whose.SEEN and (pair := columns.word_before_rank(o.evidence[0].text)) is not None:
            told[o.evidence[0].file].add(pair)
    if len(told) < 2 or not columns.are_hosts([pair for pairs in told.values() for pair in pairs]):
        return {}
    return {
        s.path: replace(s.identity, node=next(iter(told[s.path]))[0])
        for s in data.sources
        if s.identity.node is None and len(told.get(s.path, ())) == 1
    }


def _in_tables(data: RunData) -> dict[str, Identity]:
    """Path -> identity of logs named after a host (`n1.log`), in which a launcher's table calls it by another name.

    The agent of a host tells of its own workers alone. A name that anything else bears is one that the host goes by.
    """
    rows: dict[str, set[str]] = defaultdict(set)
    named_by: dict[str, set[str]] = defaultdict(set)
    for o in data.observations:
        if o.identity.node is not None:
            named_by[o.identity.node].add(o.evidence[0].file)
            if o.signature == whose.WORKER_EXIT:
                rows[o.evidence[0].file].add(o.identity.node)
    for s in data.sources:
        named_by[s.identity.node or ""].add(s.path)
    found: dict[str, Identity] = {}
    for s in data.sources:
        told, node = rows.get(s.path, set()), s.identity.node
        if node is None or len(told) != 1 or named_by[node] != {s.path}:
            continue
        (host,) = told
        alone = named_by[host] == {s.path} and whose.label(host) not in (whose.label(node), "localhost")
        found |= {s.path: replace(s.identity, node=host)} if alone else {}
    return found


def _outputs(data: RunData) -> dict[str, Identity]:
    """Path -> identity of what W&B kept of a process's output, where it says on which host that ran."""
    hosts = whereabouts.of_outputs(data.sources)
    return {
        s.path: replace(s.identity, node=hosts[s.path])
        for s in data.sources
        if s.path in hosts and s.identity.node is None
    }


def _whole_names(data: RunData) -> dict[str, Identity]:
    """Path -> identity of `job-worker-2.log`, read as worker-2, whose lines call the host job-worker-2.

    So does the environment that a pod prints: `HOSTNAME=job-worker-2`.
    """
    said: dict[str, set[str]] = defaultdict(set)
    for o in data.observations:
        if o.identity.node is not None:
            said[o.evidence[0].file].add(o.identity.node)
    found = {}
    for source in data.sources:
        short = source.identity.node
        if short is None:
            continue
        others = said.get(source.path, set()) - {short}
        if not others and source.kind is Kind.LOG and f"-{short}.".lower() in source.path.lower():
            others = {*run_pods.named_in(source)} - {short}
        if len(others) != 1:
            continue
        (host,) = others
        if host.lower().endswith(f"-{short.lower()}") and _is_word_of(host.lower(), source.path.lower()):
            found[source.path] = replace(source.identity, node=host)
    return found


def _hosts(data: RunData) -> dict[str, Identity]:
    """Path -> identity of the kernel logs whose lines name no host, where their paths name one."""
    kernels = kernel_sources(data)
    if not kernels:
        return {}
    own: dict[str, str | None] = {s.path: s.identity.node for s in data.sources if s.path in kernels}
    speaking = {
        o.evidence[0].file
        for o in data.observations
        if o.identity.node is not None and o.identity.node != own.get(o.evidence[0].file)
    }
    known = {s.identity.node for s in data.sources if s.path not in kernels}
    known |= {o.identity.node for o in data.observations if o.evidence[0].file not in kernels}
    hosts = {node for node in known if node}
    found = {}
    for source in data.sources:
        if source.path in kernels and source.path not in speaking:
            node = host_in(source.path, hosts)
            if node is not None and node != source.identity.node:
                found[source.path] = replace(source.identity, node=node)
    return found


def host_in(path: str, hosts: Iterable[str]) -> str | None:
    """The host that a kernel log's path names: the longest of `hosts` in it, else one such as node-k3 or gn12, or None.

    A host's first label stands for all of its name, in the path as in `hosts`.
    """
    text = path.lower()
    named: dict[str, str] = {}
    for host in hosts:
        label = host.lower().partition(".")[0]
        for name in (host.lower(), label):
            if len(name) > 1 and name not in _NO_HOST and not name.isdigit() and _is_word_of(name, text):
                named[name] = host
                break
    if named:
        longest = max(map(len, named))
        best = {host for name, host in named.items() if len(name) == longest}
        return best.pop() if len(best) == 1 else None
    if m := _LETTERED.search(path):
        return m[1]
    m = _KERNEL_OF.search(without_compression(path))
    return m["after"] or m["before"] if m else None


def _is_word_of(name: str, text: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text) is not None


def _workers(data: RunData) -> dict[str, Identity]:
    """Path -> identity of `worker_0.log`, `worker_1.log`, ... of one folder as ranks.

    They are where their numbers run from 0 without a gap, nothing beside them looks like another process of the job,
    and neither a stated world size nor any rank or pod that the logs name contradicts. Numbers that go on from folder
    to folder, each in one of them, run through the hosts of the run.
    """
    folders: dict[str, dict[str, int]] = defaultdict(dict)
    others: dict[str, list[str]] = defaultdict(list)
    for source in data.sources:
        path = without_compression(source.path)
        m = _WORKER.search(path)
        folder = path.rpartition("/")[0]
        if m is not None and source.kind is Kind.LOG and source.identity.node == m["node"]:
            folders[folder][source.path] = int(m["rank"])
        else:
            others[folder].append(source.path)
    sets = {folder: ranks for folder, ranks in folders.items() if _gapless(ranks)}
    whole = {path: rank for ranks in folders.values() for path, rank in ranks.items()}
    apart = sum(len(set(ranks.values())) for ranks in folders.values()) == len(set(whole.values()))
    if len(folders) > 1 and apart and _gapless(whole):
        sets = dict.fromkeys(folders, whole)
    elif len(sets) != 1:  # the same numbers in several folders: no global ranks
        return {}
    ranks = next(iter(sets.values()))
    beside = [path for folder in sets for path in others[folder] if _MASTER.search(path)]
    if beside or any(s.identity.rank is not None for s in data.sources) or _denied(data, ranks):
        return {}
    nodes = {s.path: s for s in data.sources if s.path in ranks}
    return {path: replace(nodes[path].identity, node=None, rank=rank) for path, rank in ranks.items()}


def _gapless(ranks: Mapping[str, int]) -> bool:
    """Whether the numbers run from 0, with as many files of each (`worker_0.out` and `worker_0.err` are one rank's)."""
    numbers = set(ranks.values())
    return len(numbers) > 1 and numbers == set(range(len(numbers))) and len(numbers) < MAX_RANKS


def _denied(data: RunData, ranks: Mapping[str, int]) -> bool:
    """Whether anything in the logs says that a worker's number is not its one rank."""
    size = stated_size(data.observations) or stated_world(data.facts)
    if size is not None and size != len(set(ranks.values())):
        return True
    pods = {o.captures.get("pod") for o in data.observations}
    if any(path.rpartition("/")[2].partition(".")[0] in pods for path in ranks):
        return True
    seen: dict[str, set[int]] = defaultdict(set)
    devices: dict[str, set[int]] = defaultdict(set)
    identified = [(o.identity, o.evidence[0].file) for o in data.observations]
    identified += [(t.identity, t.header.file) for t in data.tracebacks]
    for identity, path in identified:
        if path in ranks and identity.rank is not None:
            seen[path].add(identity.rank)
        if path in ranks and identity.local_rank is not None:
            devices[path].add(identity.local_rank)
    for o in data.observations:
        if o.evidence[0].file in ranks and o.captures.get("rank", "").isdigit() and o.signature == "rank-announced":
            seen[o.evidence[0].file].add(int(o.captures["rank"]))
    if data.metrics.height:
        for path, rank in data.metrics.select("source", "rank").drop_nulls().unique().iter_rows():
            if path in ranks:
                seen[path].add(rank)
    other = any(found - {ranks[path]} for path, found in seen.items())
    return other or any(len(found) > 1 for found in devices.values())


def _with(data: RunData, identities: Mapping[str, Identity]) -> RunData:
    """The run with these identities of sources, and of what was read from them where it had its source's."""
    before = {s.path: s.identity for s in data.sources if s.path in identities}

    def named(identity: Identity, path: str) -> Identity:
        new = identities.get(path)
        if new is None:
            return identity
        old = before[path]
        node = new.node if identity.node == old.node else identity.node
        rank, local = identity.rank, identity.local_rank
        if rank is None or (new.rank is None and rank == old.rank):
            rank = new.rank  # also none, where the name's rank is the local one
        return replace(identity, node=node, rank=rank, local_rank=local if local is not None else new.local_rank)

    not_global = [path for path, new in identities.items() if new.rank is None and before[path].rank is not None]
    metrics = data.metrics
    if not_global and metrics.height:
        import polars as pl

        named_so = pl.col("source").is_in(not_global) & (
            pl.col("rank")
            == pl.col("source").replace_strict(not_global, [before[path].rank for path in not_global], default=None)
        )
        metrics = metrics.with_columns(pl.when(named_so).then(None).otherwise(pl.col("rank")).alias("rank"))
    return replace(
        data,
        metrics=metrics,
        sources=tuple(replace(s, identity=named(s.identity, s.path)) for s in data.sources),
        observations=tuple(
            replace(o, identity=named(o.identity, o.evidence[0].file)) if o.evidence[0].file in identities else o
            for o in data.observations
        ),
        tracebacks=tuple(replace(t, identity=named(t.identity, t.header.file)) for t in data.tracebacks),
        writers=tuple(replace(w, identity=named(w.identity, w.source)) for w in data.writers),
        coverage=tuple(
            replace(c, node=identities[c.path].node, rank=identities[c.path].rank) if c.path in identities else c
            for c in data.coverage
        ),
    )
