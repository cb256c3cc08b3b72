"""What the paths of files say of rank, node, attempt and stream, each alone and beside their siblings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from forensics import arrays, tasks_over_hosts
from forensics.archives.formats import without_compression
from forensics.files import beginning
from forensics.host_words import NUMBERED
from forensics.model import Identity, Kind, Source

_ATTEMPT_LAYOUT = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/(?:filtered_)?(stdout|stderr)\.log$")
# The same files, where the folder of one attempt is what is analysed.
_WITHIN_ATTEMPT = re.compile(r"^(\d{1,4})/(?:(?:filtered_)?(stdout|stderr)\.log|error\.json)$")
_ERROR_FILE_LAYOUT = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/error\.json$")
_RANK_IN_NAME = re.compile(r"(?:global[_-]?rank|(?<![a-z])rank|(?<![a-z])worker_?rank)[_\-.=]?(\d{1,6})(?!\d)", re.I)
_LOCAL_RANK_IN_NAME = re.compile(r"local[_-]?rank[_\-.=]?(\d{1,4})(?!\d)", re.I)
_LOG_DOT_RANK = re.compile(r"\.log\.(\d{1,5})$|(?:^|/)log\.(\d{1,5})$")
# Paddle's launcher counts the processes of its host.
_OF_PADDLE = re.compile(r"(?:^|/)workerlog\.(\d{1,4})$")
# What Python's RotatingFileHandler and logrotate rename `train.log` to. Both count from 1; ranks have a 0.
_ROTATED = re.compile(r"(?P<base>(?:.*/)?(?:[^/]+\.)?log)\.(?P<number>\d{1,4})$")
_NODE_IN_PATH = re.compile(
    r"(?:^|/)((?:node|host|worker|trainer|pod|server|machine)s?[-_]?\d{1,5}"
    r"|(?:node|host|server|machine)(?:[-_](?!x86|v\d)[a-z]\d{0,4}|(?-i:(?<=[a-z])[A-Z])))(?=[/._-]|$)",
    re.I,
)
_ATTEMPT_IN_PATH = re.compile(r"(?:^|[/_.-])(?:attempt|restart|try|retry)[_=-]?(\d{1,4})(?=[/_.-]|$)", re.I)
_NODE_IN_NAME = re.compile(
    r"(?<=[._-])(?<!loader[._-])((?:node|host|worker|trainer|pod|server|machine)[-_]?\d{1,5})(?=[._-]|$)", re.I
)
# "<host>_rank<n>", the host in words that hyphens join: "fr_gpu-node2_rank5.json". Between other separators the words
# before "node2" may be those of a job.
_HOST_BEFORE_RANK = re.compile(
    r"(?:^|_)((?:(?!(?:run|job|log|trace|dump|train|fr|std(?:out|err))-)[a-z][a-z0-9]*-){1,4}(?:node|host|worker|server|machine)-?\d{1,5})"
    r"(?=_(?:global_?)?rank[_\-.=]?\d)",
    re.I,
)
_BEFORE_RANK = re.compile(
    r"^(?P<folder>(?:.*/)?)(?P<host>[A-Za-z][A-Za-z0-9-]{0,50}\d[A-Za-z0-9-]{0,50}?)[_-](?:global_?)?rank[_\-.=]?(?P<rank>\d{1,6})"
    r"(?:\.\w{1,8})?$"
)
# Slurm's %N and %t behind the job's number, or alone: "nemo_99121_dgxa-04_13.log", "slurm-7711-gn12-3.out",
# "n001_0.log". A host has two digits at least, which a version, a setting ("v2", "lr3") or a card ("gpu0") seldom has.
_HOST_AND_TASK = re.compile(
    rf"^(?:.*?(?<!\d)(?!20\d{{6}}[_-])\d{{3,12}}[_-])?((?!{NUMBERED})[a-z][a-z-]{{0,30}}\d(?=\d|[a-z0-9-]*-\d)[a-z0-9-]{{0,30}}?)"
    r"[_-]\d{1,5}\.(?:log|out|err|txt)$",
    re.I,
)
# Of Flight Recorder dumps: torch puts the rank behind the prefix that TORCH_NCCL_DEBUG_INFO_TEMP_FILE gives, which ends
# in the host's name where each host is given one of its own.
_HOST_IN_DUMP = re.compile(
    r"^(?:nccl|comm_lib)_trace_rank_(?P<host>[A-Za-z][A-Za-z0-9.-]{0,100})_(?P<rank>\d{1,6})(?:\.\w{1,8})?$"
)
# The kubelet's own folders, and the links to them in /var/log/containers.
_POD_IN_PATH = re.compile(
    r"(?:^|/)(?:[^/_]+_([a-z0-9][a-z0-9.-]*)_[0-9a-f-]+/[^/]+/\d+\.log$|([a-z0-9][a-z0-9.-]*)_[^/_]+_[^/_]+-[0-9a-f]{64}\.log$)"
)
_PREVIOUS = re.compile(r"[-_.]prev(?:ious)?(?=\.(?:log|txt|out|err)(?:\.(?:gz|xz|bz2|zst))?$)", re.I)
_RAY_WORKER = re.compile(r"(?:^|/)worker-[0-9a-f]{20,}-[0-9a-f]{4,8}-(\d+)\.(?:out|err)$")
_TASK_SUFFIX = re.compile(
    r"^(?P<stem>.*?(?:[_-]|(?<![a-z])(?:std)?(?:out|err)|(?<![a-z])log|(?<![A-Za-z0-9])r|(?<![\d.])\d{3,12}\.))(?P<task>\d{1,5})(?P<end>(?:_log)?\.(?:out|err|log|txt))$"
)
# A stem that ends in the number of a job: "slurm-31337_", "sweep_4411_", "train-839201.".
_OF_JOB = re.compile(r"(?<!\d)\d{2,12}[_.-]$")
_SUFFIX_STREAM = re.compile(r"(?:stderr|\.err)(?:\.|$|_)|\.err$", re.I)
_SUFFIX_STDOUT = re.compile(r"(?:stdout|\.out)(?:\.|$|_)|\.out$", re.I)


def identity_of(path: str) -> Identity:
    """What the path of a file says about rank, node, attempt and stream. `path` is relative, with "/"."""
    path = without_compression(path)
    if m := _ERROR_FILE_LAYOUT.search(path):
        return Identity(local_rank=int(m[2]), attempt=int(m[1]), node=_first(_NODE_IN_PATH, path[: m.start()]))
    if m := _ATTEMPT_LAYOUT.search(path):  # torchrun --log-dir
        return Identity(
            local_rank=int(m[2]), attempt=int(m[1]), stream=m[3], node=_first(_NODE_IN_PATH, path[: m.start()])
        )
    if m := _WITHIN_ATTEMPT.match(path):
        return Identity(local_rank=int(m[1]), stream=m[2])
    name = path.rsplit("/", 1)[-1]
    local = _LOCAL_RANK_IN_NAME.search(name) or _OF_PADDLE.search(path)
    rank = _RANK_IN_NAME.search(re.sub(_LOCAL_RANK_IN_NAME, "", name)) or _RANK_IN_NAME.search(
        path.rsplit("/", 1)[0] if "/" in path else ""
    )
    dotted = _LOG_DOT_RANK.search(path)
    number = rank[1] if rank else next((g for g in dotted.groups() if g), None) if dotted else None
    dump = _HOST_IN_DUMP.match(name)
    number = dump["rank"] if dump else number
    attempt = _ATTEMPT_IN_PATH.search(path)
    pod = _POD_IN_PATH.search(path)
    worker = _RAY_WORKER.search(path)
    return Identity(
        rank=int(number) if number else None,
        local_rank=int(local[1]) if local else None,
        node=(pod[1] or pod[2])
        if pod
        else (dump["host"] if dump else None)
        or _first(_NODE_IN_PATH, path)
        or _first(_HOST_BEFORE_RANK, name)
        or _first(_NODE_IN_NAME, name)
        or _host_of_task(name),
        pid=int(worker[1]) if worker else None,
        attempt=int(attempt[1]) if attempt else None,
        stream="stderr" if _SUFFIX_STREAM.search(name) else "stdout" if _SUFFIX_STDOUT.search(name) else None,
    )


def _host_of_task(name: str) -> str | None:
    """The host in a name that srun made, where a job's number stands before it or it is one word with a zero in it."""
    m = _HOST_AND_TASK.match(name)
    return m[1] if m and (m.start(1) > 0 or re.fullmatch(r"(?i:[a-z]{1,12}0\d{1,5})", m[1])) else None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    m = pattern.search(text)
    return m[1] if m else None


def number_tasks(sources: Sequence[Source], jobs: Mapping[str, frozenset[str]] = MappingProxyType({})) -> list[Source]:
    """Read `job_0.err`, `job_1.err`, ... as tasks where the numbers of one stem run from 0 without a gap.

    So are those of one stem that run through the names or folders of several hosts.

    jobs: what `jobs_of_arrays` found: files of these are no ranks.
    """
    apart = frozenset[str]().union(*jobs.values())
    groups: dict[tuple[str, str], set[int]] = {}
    sources = tasks_over_hosts.number(sources, apart)
    for source in sources:
        if source.identity.task is None and (m := _task(source)) and source.path not in apart:
            groups.setdefault((m["stem"], m["end"]), set()).add(int(m["task"]))
    numbered = []
    for source in sources:
        m = _task(source)
        tasks = groups.get((m["stem"], m["end"]), set()) if m else set()
        gapless = len(tasks) > 1 and tasks == set(range(len(tasks)))
        if (
            m
            and gapless
            and source.path not in apart
            and source.identity.rank is None
            and source.identity.local_rank is None
            and source.identity.task is None
            and not _names_node(source.identity.node, m["task"])
            and not m["end"].startswith("_log")
        ):
            source = replace(source, identity=replace(source.identity, task=int(m["task"])))
        numbered.append(source)
    return numbered


def _task(source: Source) -> re.Match[str] | None:
    return _TASK_SUFFIX.match(without_compression(source.path))


def jobs_of_arrays(sources: Sequence[Source]) -> dict[str, frozenset[str]]:
    """The jobs of Slurm arrays, each with its files, where what the files of one stem say shows that they are such.

    The name of a job is what its files have in common: `slurm-31337_2`. A file that cannot be read says nothing.
    """
    stems: dict[str, dict[int, list[Source]]] = {}
    for source in sources:
        if source.kind is Kind.LOG and (m := _task(source)) and _OF_JOB.search(m["stem"]):
            stems.setdefault(m["stem"], {}).setdefault(int(m["task"]), []).append(source)
    found: dict[str, frozenset[str]] = {}
    for stem, tasks in stems.items():
        if len(tasks) > 1 and arrays.are_jobs({n: _heads(tasks[n]) for n in sorted(tasks)[: arrays.MOST]}):
            found |= {f"{stem}{n}": frozenset(s.path for s in tasks[n]) for n in sorted(tasks)}
    return found


def _heads(sources: Sequence[Source]) -> bytes:
    """The first bytes of some files, one below the other."""
    heads = []
    for source in sources:
        try:
            heads.append(beginning(source.file, arrays.HEAD))
        except OSError:
            continue
    return b"\n".join(heads)


def restarted(sources: Sequence[Source]) -> list[Source]:
    """Read `pod-prev.log` beside `pod.log` as the attempt before it: what `kubectl logs --previous` was written to."""
    names = {s.path for s in sources}
    after = {s.path: name for s in sources if (name := _PREVIOUS.sub("", s.path)) != s.path and name in names}
    attempt = dict.fromkeys(after, 0) | dict.fromkeys(after.values(), 1)
    return [
        replace(s, identity=replace(s.identity, attempt=attempt[s.path]))
        if s.path in attempt and s.identity.attempt is None
        else s
        for s in sources
    ]


def rotated(sources: Sequence[Source]) -> list[Source]:
    """Read `train.log.2.gz`, `train.log.1` beside `train.log` as what it held before: no ranks, and the oldest first.

    Where there is a `train.log.0`, or no `train.log`, they are left as they are.
    """
    plain = {without_compression(s.path): s for s in sources}
    older: dict[str, dict[int, Source]] = {}
    for path, source in plain.items():
        if (m := _ROTATED.match(path)) and m["base"] in plain:
            older.setdefault(m["base"], {})[int(m["number"])] = source
    older = {base: parts for base, parts in older.items() if 0 not in parts}
    parts_of = {plain[base].path: [parts[n] for n in sorted(parts, reverse=True)] for base, parts in older.items()}
    moved = {part.path for parts in parts_of.values() for part in parts}
    ordered: list[Source] = []
    for source in sources:
        if source.path not in moved:
            named = identity_of(source.path)
            ordered += (replace(part, identity=named) for part in parts_of.get(source.path, ()))
            ordered.append(source)
    return ordered


def local_names(sources: Sequence[Source]) -> list[Source]:
    """Read the ranks (or tasks) in names as local ones where one number stands under several hosts of one attempt."""
    hosts: dict[tuple[int | None, str, int], set[str]] = {}
    for s in sources:
        for what in ("rank", "task"):
            number = getattr(s.identity, what)
            if number is not None and s.identity.node is not None:
                hosts.setdefault((s.identity.attempt, what, number), set()).add(s.identity.node)
    repeated = {what for (_, what, _), nodes in hosts.items() if len(nodes) > 1}
    return [_as_local(s, repeated) for s in sources]


def hosts_before_ranks(sources: Sequence[Source]) -> list[Source]:
    """Read `dgx-a07_rank_2` beside `dgx-a08_rank_3` as of the hosts that stand before the ranks.

    One name before all of them may be that of the run; several that are alike but for their numbers, each with ranks
    of its own, are hosts.
    """
    named = {s.path: m for s in sources if (m := _BEFORE_RANK.match(s.path)) is not None}
    ranks: dict[tuple[str, str], dict[str, list[int]]] = {}
    for m in named.values():
        scheme = re.sub(r"\d+", "#", m["host"])
        ranks.setdefault((m["folder"], scheme), {}).setdefault(m["host"], []).append(int(m["rank"]))
    hosts = {
        (folder, host)
        for (folder, _), of_hosts in ranks.items()
        for host in of_hosts
        if len(of_hosts) > 1 and len({*chain(*of_hosts.values())}) == sum(map(len, of_hosts.values()))
    }
    return [
        replace(s, identity=replace(s.identity, node=m["host"]))
        if (m := named.get(s.path)) and s.identity.node is None and (m["folder"], m["host"]) in hosts
        else s
        for s in sources
    ]


def _as_local(source: Source, repeated: set[str]) -> Source:
    mine = source.identity
    if mine.node is None or mine.local_rank is not None:
        return source
    if "rank" in repeated and mine.rank is not None:
        return replace(source, identity=replace(mine, local_rank=mine.rank, rank=None))
    if "task" in repeated and mine.task is not None:
        return replace(source, identity=replace(mine, local_rank=mine.task, task=None))
    return source


def _names_node(node: str | None, number: str) -> bool:
    """Whether a file's last number is that of its host: worker-2 need not be rank 2, since a master may come first."""
    return node is not None and re.search(rf"[-_]{number}$", node) is not None
