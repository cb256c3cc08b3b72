"""Whose lines are they: what processes and launchers say of the ranks of files, hosts, devices and stretches of lines.

Everything here is proof, not likelihood: a file is a rank's only where one process alone can have written it, a
traceback is a failed worker's only where no other failed worker can have printed it.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from forensics.model import Identity, Observation, Source, Traceback
from forensics.parsers.prefixes import rank_list

MAPPING, ANNOUNCED, SEEN = "rank-mapping", "rank-announced", "process-seen"
SECTION, WORKER_EXIT = "output-section", "worker-exit"
_SUMMARY = "child-failed-error"
MAX_RANKS = 65536
# The rows of one table of torchelastic stand closer to each other than those of two tables, with a traceback in each.
ROWS_APART = 60
# Lines of an error as Ray Train quotes it: it cuts one after 1,000 characters (poll.py's ERR_CHAR_LIMIT).
LINES_OF_ERROR = 30
CHECKPOINT_FAILED = "dcp-rank-failed"
RERAISED_LINES = 60  # of a rank's traceback in such an exception
# What a launcher raises when a worker has failed.
LAUNCHERS_OWN = frozenset(
    ("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException")
)

_WORKER_FOLDER = re.compile(r"^(.*\battempt_\d+/\d+)/(?:[^/]+!/)?(?:(?:filtered_)?std(?:out|err)\.log|error\.json)$")
_STREAM = re.compile(r"^(.*\.(?:std)?)(out|err)$")
_STREAM_AND_END = re.compile(r"(?:(?:^|(?<=/)|[._-])(?:std)?(?:out|err))?(?:\.(?:log|txt))?$")

SRUN_SAYS = "srun: error: "
# How srun says that tasks of one host ended; a status above OF_SIGNALS stands for a signal.
TASKS_ENDED = re.compile(
    rf"{SRUN_SAYS}(?P<node>[^\s:]{{1,255}}): tasks? (?P<tasks>[\d,\[\]-]{{1,400}}): "
    r"(?:Exited with exit code (?P<code>\d{1,3})\b|(?P<signal>Aborted|Killed|Terminated)\b)"
)
OF_SIGNALS = 128
MPI_EXIT = "mpirun-rank-exited"
# What MPI says of a process that ended by itself: Open MPI's MPI_Abort and status, and MPICH's.
_GAVE_UP = re.compile(r"MPI_ABORT was invoked on rank |Process name: \[|application called MPI_Abort\(")
_LINKS = ("ignored", "cause", "context")  # of a traceback that is part of another, or of nobody's concern

Place = tuple[str | None, int]  # (node, local rank or pid)


def local_ranks(observations: Iterable[Observation]) -> dict[Place, int]:
    """(node, local rank) -> rank, from the lists that torchelastic, DeepSpeed and Accelerate print."""
    found: dict[Place, set[int]] = defaultdict(set)
    halves: dict[tuple[str, int], int] = {}
    ordered = sorted(
        (o for o in observations if o.signature == MAPPING), key=lambda o: (o.evidence[0].file, o.evidence[0].line or 0)
    )
    # Without a host's name a list of global ranks says whose it is only where there is no other list.
    nameless = {o.captures["global_ranks"] for o in ordered if "global_ranks" in o.captures and not o.identity.node}
    for o in ordered:
        node, told = o.identity.node, o.captures
        if "global_ranks" in told and (node or len(nameless) == 1):
            for local, text in enumerate(told["global_ranks"].split(",")):
                found[node, local].add(int(text))
        elif "node_ranks" in told:
            for host, ranks in _hosts(told["node_ranks"]):
                for local, rank in enumerate(ranks):
                    found[host, local].add(rank)
        elif "node_devices" in told:  # DeepSpeed counts its ranks through the hosts in this order
            rank = 0
            for host, devices in _hosts(told["node_devices"]):
                for local in range(len(devices)):
                    found[host, local].add(rank)
                    rank += 1
        elif "process_index" in told:
            halves[o.evidence[0].file, o.evidence[0].line or 0] = int(told["process_index"])
        elif "local_process_index" in told:
            above = halves.get((o.evidence[0].file, (o.evidence[0].line or 0) - 1))
            if above is not None:
                found[node, int(told["local_process_index"])].add(above)
    return {place: ranks.pop() for place, ranks in found.items() if len(ranks) == 1}


def _hosts(text: str) -> list[tuple[str, list[int]]]:
    """`'node-0': [0, 1], 'node-1': [2, 3]` as pairs; empty where it is anything else."""
    try:
        table = ast.literal_eval("{" + text + "}")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if not isinstance(table, dict):
        return []
    pairs = [(host, ranks) for host, ranks in table.items() if isinstance(host, str) and isinstance(ranks, list)]
    if len(pairs) != len(table) or not all(type(r) is int and 0 <= r < MAX_RANKS for _, ranks in pairs for r in ranks):
        return []
    return pairs


def writers(observations: Iterable[Observation]) -> dict[tuple[str, str | None], int]:
    """(file, node on its lines or None) -> the rank that alone writes there, as its process announced.

    One rank alone proves nothing: often only the first process of each host, or the one that failed, names itself.
    Where the ranks 0, 1, 2, ... stand in one place each, no place is that of a host with several: its ranks follow
    each other.
    """
    told: dict[tuple[str, str | None], set[int]] = defaultdict(set)
    for o in observations:
        if o.signature in (ANNOUNCED, SEEN) and o.identity.rank is not None:
            told[o.evidence[0].file, o.identity.node].add(o.identity.rank)
    on_hosts: dict[str, set[int]] = defaultdict(set)
    for (file, node), ranks in told.items():
        on_hosts[file] |= ranks if node else set()
    # A process that names its host as well does not always do so: that is no second place.
    told = {(file, node): ranks for (file, node), ranks in told.items() if node or ranks - on_hosts[file]}
    single = {place: next(iter(ranks)) for place, ranks in told.items() if len(ranks) == 1}
    together = len(single) == len(told) > 1 and set(single.values()) == set(range(len(single)))
    return single if together else {}


def processes(
    observations: Iterable[Observation], local: Mapping[Place, int], one_host: bool = False
) -> dict[Place, int]:
    """(node, pid) -> rank, of processes that prefixes or a launcher's lines name together with a rank or local rank.

    local: (node, local rank) -> rank. Without a host's name a local rank is one rank's only where one host has any;
    where the whole run is on one host, which `one_host` says, a local rank that no line maps is the rank. NCCL's lines
    name the process that prints them: the one of a rank where all of its lines name the same.
    """
    told: dict[Place, set[int]] = defaultdict(set)
    of_rank: dict[tuple[int, int | None], set[Place]] = defaultdict(set)
    alone = len({node for node, _ in local}) == 1
    for o in observations:
        node, pid = o.identity.node, o.captures.get("pid", "")
        rank = o.identity.rank
        if o.signature == SEEN and o.identity.pid is not None and rank is not None:
            told[node, o.identity.pid].add(rank)
        elif o.signature == ANNOUNCED and pid.isdigit() and rank is not None:
            told[node, int(pid)].add(rank)
        elif rank is not None and (own := o.identity.pid) is not None and f"{node}:{own}:" in o.evidence[0].text:
            of_rank[rank, o.identity.attempt].add((node, own))
        elif pid.isdigit() and (index := o.captures.get("local_rank", "")).isdigit():
            ranks = {r for (host, n), r in local.items() if n == int(index) and (host == node or alone)}
            if not ranks and one_host:
                ranks = {int(index)}
            if len(ranks) == 1:
                told[node, int(pid)] |= ranks
    for (rank, _), places in of_rank.items():
        if len(places) == 1:
            told[places.pop()].add(rank)
    return {place: ranks.pop() for place, ranks in told.items() if len(ranks) == 1}


def label(host: str) -> str:
    """A host's name as it is compared: hosts call themselves with their domain or without it."""
    return host.partition(".")[0].lower()


def scheme(host: str) -> tuple[str, str]:
    """How a host's name is made: its first letters, and the order of letters, digits and signs.

    "gpu-a01" and "gpu-z09" are two hosts of one scheme. A node and a pod, or a machine and its address, have two.
    """
    first = re.match(r"[a-z]*", label(host))
    return first[0] if first else "", re.sub(r"\d+", "9", re.sub(r"[a-z]+", "a", label(host)))


def apart(host: str | None, other: str | None) -> bool:
    """Whether two names are of two hosts: they differ, and are made in one way."""
    if not host or not other:
        return False
    return label(host) != label(other) and scheme(host) == scheme(other)


class Hosts:
    """The ranks of hosts and pods, by what bears both names and by srun's lists of a host's tasks."""

    def __init__(self, sources: Sequence[Source], observations: Sequence[Observation], tasks_are_ranks: bool) -> None:
        self._ranks: dict[str, set[int]] = defaultdict(set)
        self._tasks: dict[str, set[int]] = defaultdict(set)
        self._files: dict[str, set[int]] = defaultdict(set)
        for source in sources:
            self._see(source.identity)
        for o in observations:
            self._see(o.identity)
            tasks = o.captures.get("tasks") or o.captures.get("task")
            if tasks_are_ranks and tasks and "[" not in o.captures.get("node", "["):
                self._tasks[o.captures["node"]].update(rank_list(tasks.strip("[]")))

        if any("pod" in o.captures for o in observations):
            for source in sources:
                if source.identity.rank is not None:
                    for name in path_names(source.path):
                        self._files[name].add(source.identity.rank)

    def _see(self, identity: Identity) -> None:
        if identity.node is not None and identity.rank is not None:
            self._ranks[identity.node].add(identity.rank)

    def ranks(self, name: str) -> tuple[int, ...]:
        """The ranks that are known to be on a host, sorted."""
        return tuple(sorted(self._ranks.get(name, ())))

    def of_pod(self, name: str) -> int | None:
        """The one rank whose lines or files bear the name of a pod; None where that is none or several."""
        found = self._ranks.get(name, set()) | self._files.get(name, set())
        return next(iter(found)) if len(found) == 1 else None

    def all_ranks(self, name: str, size: int | None) -> tuple[int, ...]:
        """All ranks of a host, sorted; none where some may be missing.

        They are those of the tasks that srun lists, or as many as each of the run's hosts has. size: of the world.
        """
        if tasks := self._tasks.get(name):
            return tuple(sorted(tasks | self._ranks.get(name, set())))
        known = self.ranks(name)
        even = size is not None and len(known) * len(self._ranks) == size
        return known if even and len({len(ranks) for ranks in self._ranks.values()}) == 1 else ()


def path_names(path: str) -> set[str]:
    """What a file may be named after: the parts of its path up to their first "." or "_", which no pod's name has."""
    return {re.split(r"[._]", part, maxsplit=1)[0] for part in path.split("/")} - {""}


def folders(observations: Iterable[Observation]) -> dict[str, int]:
    """Folder of one worker's streams (torchrun --log-dir) -> the only rank that any of its lines bears."""
    told: dict[str, set[int]] = defaultdict(set)
    for o in observations:
        if o.identity.rank is not None and (folder := worker_folder(o.evidence[0].file)):
            told[folder].add(o.identity.rank)
    return {folder: ranks.pop() for folder, ranks in told.items() if len(ranks) == 1}


def worker_folder(path: str) -> str | None:
    """The folder that holds one worker's streams alone, where a path lies in one."""
    m = _WORKER_FOLDER.match(path)
    return m[1] if m else None


def other_stream(path: str) -> str | None:
    """`job_2.err` beside `job_2.out`, and the other way round: what one process writes to its two streams."""
    m = _STREAM.match(path)
    return f"{m[1]}{'out' if m[2] == 'err' else 'err'}" if m else None


def without_stream(path: str) -> str:
    """A path without what tells the streams of one program apart: `job.out`, `job_stderr.log`, `0/stdout`."""
    return _STREAM_AND_END.sub("", path)


def neighbours(known: Mapping[Place, int], seen: Iterable[tuple[str | None, int | None]]) -> dict[Place, int]:
    """Ranks of local ranks that were seen on a host of which two others or more are known.

    Launchers give a host ranks that follow each other, so that the difference of rank and local rank is one for all.
    """
    apart: dict[str | None, list[int]] = defaultdict(list)
    for (node, index), rank in known.items():
        apart[node].append(rank - index)
    taken = set(known.values())
    found: dict[Place, int] = {}
    for node, local in set(seen):
        differences = apart.get(node, [])
        if local is None or node is None or (node, local) in known or len(differences) < 2 or len(set(differences)) > 1:
            continue
        if (rank := local + differences[0]) not in taken:
            found[node, local] = rank
    return found


def last_block(
    known: Mapping[Place, int], seen: Iterable[tuple[str | None, int | None]], world: int | None
) -> dict[Place, int]:
    """Ranks of the one host of which none is known, where all others hold a block each and leave one over.

    All hosts have the same local ranks, from 0 on: of two one of which holds ranks 0 to 7 the other holds 8 to 15.
    world: its stated size; nothing follows where that is another number.
    """
    locals_of: dict[str, set[int]] = defaultdict(set)
    for node, local in (*seen, *known):
        if node is not None and local is not None:
            locals_of[node].add(local)
    sizes = {len(found) for found in locals_of.values()}
    if len(locals_of) < 2 or len(sizes) != 1 or any(found != set(range(len(found))) for found in locals_of.values()):
        return {}
    size = sizes.pop()
    rest = [node for node in locals_of if not any((node, local) in known for local in range(size))]
    blocks = set()
    for node in locals_of.keys() - set(rest):
        starts = {known[node, local] - local if (node, local) in known else -1 for local in range(size)}
        if len(starts) != 1 or (start := starts.pop()) < 0 or start % size:
            return {}
        blocks.add(start // size)
    left = set(range(len(locals_of))) - blocks
    if len(rest) != 1 or len(left) != 1 or world not in (None, size * len(locals_of)):
        return {}
    first = left.pop() * size
    return {(rest[0], local): first + local for local in range(size)}


def locals_in_files(observations: Iterable[Observation]) -> dict[tuple[str, int], int]:
    """(file, local rank) -> rank, from lines that name both: a host that nothing names may still have its own file."""
    told: dict[tuple[str, int], set[int]] = defaultdict(set)
    for o in observations:
        if o.signature in (ANNOUNCED, SEEN) and o.identity.rank is not None and o.identity.local_rank is not None:
            told[o.evidence[0].file, o.identity.local_rank].add(o.identity.rank)
    return {place: ranks.pop() for place, ranks in told.items() if len(ranks) == 1}


class Sections:
    """Stretches of a file that a launcher says to be one rank's output, or one rank's error."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._starts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)  # file -> (first line, last, rank)
        # file -> (line of its head, rank, who printed the head)
        self._errors: dict[str, list[tuple[int, int | None, Identity]]] = defaultdict(list)
        opened: dict[str, tuple[int, int]] = {}
        marks = [o for o in observations if o.signature == SECTION and o.evidence[0].line is not None]
        for o in sorted(marks, key=lambda o: (o.evidence[0].file, o.evidence[0].line or 0)):
            file, line = o.evidence[0].file, o.evidence[0].line or 0
            if (ranks := o.captures.get("error_of")) is not None:
                printed = replace(o.identity, rank=None)  # the rank is the one whose error it is
                self._errors[file].append((line, int(ranks) if ranks.isdecimal() else None, printed))
                continue
            rank = int(o.captures["section"])
            if o.captures["edge"] == "Begin":
                opened[file] = (line, rank)
            elif file in opened and opened[file][1] == rank:
                self._starts[file].append((opened.pop(file)[0], line, rank))

    def rank(self, file: str, line: int | None) -> int | None:
        stretches = self._starts.get(file)
        if not stretches or line is None:
            return None
        at = bisect_right(stretches, (line, 1 << 62, 0)) - 1
        return stretches[at][2] if at >= 0 and line < stretches[at][1] else None

    def rank_of_error(self, file: str, line: int | None, identity: Identity) -> int | None:
        """The one rank whose error is quoted at a line; it ends where the next begins.

        identity: whose the line is by its own marks. What others print in between is not of the quoted rank.
        """
        heads = self._errors.get(file)
        if not heads or line is None or identity.rank is not None:
            return None
        at = bisect_right(heads, line, key=lambda head: head[0]) - 1
        if at < 0 or line - heads[at][0] > LINES_OF_ERROR or identity != heads[at][2]:
            return None
        return heads[at][1]

    def quoted(self, o: Observation) -> Observation:
        """A sign with the rank whose error quotes it, also where its own words name the process or its host."""
        marks = replace(o.identity, **{name: None for name in ("node", "pid") if name in o.captures})
        rank = self.rank_of_error(o.evidence[0].file, o.evidence[0].line, marks)
        return o if rank is None else replace(o, identity=replace(o.identity, rank=rank))


class Tables:
    """The ranks that launchers' tables and lines name as failed."""

    def __init__(self, observations: Iterable[Observation], rank_of: Callable[[Identity], int | None]) -> None:
        self._rows: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)  # file -> (line, rank, raised)
        for o in observations:
            line, rank = o.evidence[0].line, rank_of(o.identity)
            if o.signature in (WORKER_EXIT, _SUMMARY) and line is not None and rank is not None:
                self._rows[o.evidence[0].file].append((line, rank, o.captures.get("exitcode") == "1"))

    def speak_against(self, rank: int | None, file: str, line: int | None) -> bool:
        """Whether what stands below a line tells of others that raised an exception, and not of a rank.

        rank: as guessed from a device's index, which is another one's where a process sees some of the devices only.
        """
        below = [row for row in self._rows.get(file, ()) if line is not None and row[0] > line]
        return any(raised for *_, raised in below) and rank not in {other for _, other, _ in below}


def failed_workers(tracebacks: Sequence[Traceback], rows: Sequence[Observation]) -> dict[int, Identity]:
    """Tracebacks that bear no rank (by index) with the identity of the one worker that can have printed them.

    An uncaught exception ends a Python process with exit code 1. Where a launcher's table holds one such row, or its
    line tells of one such rank, and one traceback stands above it that no rank claims, they belong together.
    """
    found: dict[int, Identity] = {}
    by_file: dict[str, list[Observation]] = defaultdict(list)
    for row in rows:
        ended = row.signature == WORKER_EXIT or (row.signature == _SUMMARY and row.identity.rank is not None)
        if ended and row.evidence[0].line is not None:
            by_file[row.evidence[0].file].append(row)
    for file, members in by_file.items():
        members.sort(key=lambda o: o.evidence[0].line or 0)
        above = 0
        for table in _tables(members):
            begin, end = table[0].evidence[0].line or 0, table[-1].evidence[0].line or 0
            printed = [
                (n, t)
                for n, t in enumerate(tracebacks)
                if t.header.file == file
                and above < (t.header.line or 0) < begin
                and t.exception.rpartition(".")[2] not in LAUNCHERS_OWN
                and t.chained not in _LINKS
            ]
            above = end
            raised = {(o.identity.rank, o.identity) for o in table if o.captures.get("exitcode") == "1"}
            nameless = [n for n, t in printed if t.identity.rank is None]
            if len({rank for rank, _ in raised}) != 1 or len(nameless) != 1:
                continue
            worker = next(iter(raised))[1]
            if any(t.identity.rank == worker.rank for _, t in printed):
                continue
            found[nameless[0]] = worker
    return found


def failed_tasks(tracebacks: Sequence[Traceback], told: Iterable[Observation]) -> dict[int, Identity]:
    """Tracebacks that nothing places (by index) with the one Slurm task that can have printed them.

    An uncaught exception ends a Python process with exit code 1. Where srun says so of one task alone, and that
    signals ended the others, the one traceback above is that task's.
    """
    ended: dict[str, list[tuple[int, str, str, int]]] = defaultdict(list)
    for o in told:
        if (m := TASKS_ENDED.search(o.evidence[0].text)) and m["code"] and o.evidence[0].line is not None:
            ended[o.evidence[0].file].append((o.evidence[0].line, m["node"], m["tasks"], int(m["code"])))
    found: dict[int, Identity] = {}
    for file, lines in ended.items():
        failed = {(node, tasks, code) for _, node, tasks, code in lines if code <= OF_SIGNALS}
        node, tasks, code = next(iter(failed), ("", "", 0))
        if len(failed) != 1 or code != 1 or not tasks.isdigit():
            continue
        first = min(line for line, *_ in lines)
        above = [(n, t) for n, t in enumerate(tracebacks) if t.header.file == file and t.chained not in _LINKS]
        if len(above) != 1:
            continue
        n, t = above[0]
        i = t.identity
        nameless = i.rank is None and i.local_rank is None and i.task is None and i.node in (None, node)
        if nameless and (t.header.line or 0) < first and t.exception.rpartition(".")[2] not in LAUNCHERS_OWN:
            found[n] = Identity(rank=int(tasks), node=node, task=int(tasks))
    return found


def failed_by_mpi(tracebacks: Sequence[Traceback], told: Iterable[Observation]) -> dict[int, Identity]:
    """Tracebacks that nothing places (by index) with the one rank of which an MPI launcher says that it gave up.

    Where all of a file's lines on ends name one rank, the one traceback above them is its. What a signal ended
    ("noticed that process rank 2 ... exited on signal 9") printed none.
    """
    ended: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for o in told:
        rank, line = o.captures.get("rank", ""), o.evidence[0].line
        if o.signature == MPI_EXIT and rank.isdecimal() and line is not None:
            gave_up = _GAVE_UP.search(o.evidence[0].text) is not None
            ended[o.evidence[0].file].append((line, int(rank) if gave_up else None))
    found: dict[int, Identity] = {}
    for file, lines in ended.items():
        ranks = {rank for _, rank in lines}
        above = [(n, t) for n, t in enumerate(tracebacks) if t.header.file == file and t.chained not in _LINKS]
        if len(ranks) != 1 or None in ranks or len(above) != 1:
            continue
        n, t = above[0]
        i = t.identity
        nameless = i.rank is None and i.local_rank is None and i.task is None and i.pid is None
        if nameless and (t.header.line or 0) < min(line for line, _ in lines):
            found[n] = Identity(rank=ranks.pop())
    return found


def _tables(rows: Sequence[Observation]) -> list[list[Observation]]:
    """Rows in the order of their lines, cut where a new table begins."""
    tables: list[list[Observation]] = []
    for row in rows:
        line = row.evidence[0].line or 0
        if tables and line - (tables[-1][-1].evidence[0].line or 0) <= ROWS_APART:
            tables[-1].append(row)
        else:
            tables.append([row])
    return tables


def reraised(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with those below "Traceback (most recent call last): (RANK 5)" as signs of that rank.

    torch.distributed.checkpoint gathers what every rank raised, and each of them prints it (CheckpointException in
    checkpoint/api.py). A head holds for RERAISED_LINES of its writer, until the next head.
    """
    heads: dict[tuple[str, int | None], list[tuple[int, int]]] = defaultdict(list)
    for o in observations:
        if o.signature == CHECKPOINT_FAILED and o.evidence[0].line is not None:
            rank = o.captures.get("rank", "")
            heads[o.evidence[0].file, o.identity.rank].append((o.evidence[0].line, int(rank) if rank.isdigit() else -1))
    for lines in heads.values():
        lines.sort()

    def of(o: Observation) -> int | None:
        lines, line = heads.get((o.evidence[0].file, o.identity.rank), ()), o.evidence[0].line
        if not lines or line is None or o.signature == CHECKPOINT_FAILED:
            return None
        above = bisect_left(lines, (line, -1)) - 1
        head, rank = lines[above] if above >= 0 else (0, -1)
        return rank if 0 <= rank < MAX_RANKS and line - head <= RERAISED_LINES else None

    if not heads:
        return list(observations)
    ranks = [of(o) for o in observations]
    return [
        o if rank is None else replace(o, identity=Identity(rank=rank, attempt=o.identity.attempt), culprits=None)
        for o, rank in zip(observations, ranks, strict=True)
    ]


def last_lines(tracebacks: Sequence[Traceback]) -> dict[tuple[str, int | None], Identity]:
    """(file, line of its exception) -> identity of a traceback; lines on which several end are left out."""
    found: dict[tuple[str, int | None], set[Identity]] = defaultdict(set)
    for t in tracebacks:
        found[t.final.file, t.final.line].add(t.identity)
    return {place: identities.pop() for place, identities in found.items() if len(identities) == 1}


def devices(
    inits: Iterable[tuple[str | None, int, int]], local: Mapping[Place, int]
) -> dict[tuple[str | None, int], int]:
    """(node, CUDA device) -> rank. inits: (node, device, rank) as NCCL states them; local: (node, local rank) -> rank.

    Processes use the device of their local rank wherever several of a host's are visible to them. Where NCCL says that
    processes of a host have one device number between them, each sees its own only, and a number says nothing.
    """
    told: dict[tuple[str | None, int], set[int]] = defaultdict(set)
    for node, device, rank in inits:
        told[node, device].add(rank)
    nodes = {node for node, _ in told}
    found = {place: next(iter(ranks)) for place, ranks in told.items() if len(ranks) == 1}
    for place, rank in local.items():
        if place[0] is not None and place[0] not in nodes:
            found[place] = rank
    return found
