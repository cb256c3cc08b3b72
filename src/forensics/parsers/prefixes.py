"""Whose line is it, and when: the prefixes that launchers, schedulers and loggers put in front of a message.

`clean` takes one physical piece of a line (between newlines and carriage returns) and takes prefix after prefix off its
front, remembering what each one says about rank, host, process and time. Prefixes that could be ordinary text
(`3: `, `node-1: `, `worker-1  | `) count only where the whole file votes for them (`vote`).

All patterns are plain enough for RE2 and Rust's regex, so that `metric_lines` can use the same ones column-wise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from forensics.host_words import NUMBERED, WITHIN
from forensics.model import MAX_RANKS, Identity
from forensics.parsers import columns
from forensics.parsers.stamps import parse_time
from forensics.parsers.task_labels import Labelled, are_tasks
from forensics.patterns import lazy

# CSI, OSC and two-byte escapes. Keras and rich write them into files as well.
ANSI = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"
_ANSI = lazy(ANSI)

# How the system's log writes a time: the classic one of syslog, and RFC 5424's.
_SYSTEMS_TIME = (
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
)
# What collectors of output put before each line: docker logs -t, kubectl logs --timestamps; containerd in its files.
_COLLECTED_TIME = r"^(?P<ts>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) "
# What a kernel's line begins with in the forms of `parsers.kernel.lines`, and other lines seldom do: printk's stamp
# ("[%5lu.%06lu] "), the tag of the system's log, or the words of drivers and of the memory killer, behind any stamp in
# brackets.
_LOGGED = rf"(?:{_SYSTEMS_TIME}) [A-Za-z0-9][\w.-]{{0,252}} "
_KERNELS = (
    rf"(?:\[(?=[ \d]{{5,10}}\.) {{0,4}}\d{{1,10}}\.\d{{6}}\] |{_LOGGED}kernel: |(?:\[[^\]]{{1,40}}\] ?)?"
    r"(?:NVRM: |Out of memory: Killed process|oom-kill:constraint=|Memory cgroup out of memory: "
    r"|nvidia-nv(?:link|switch)\d*: |mlx5_core \d{4}:|pcieport \d{4}:|amdgpu \d{4}:|mce: \[Hardware Error\]))"
)
_NUMBERED_HOST = rf"(?!{NUMBERED})[A-Za-z][A-Za-z_.-]{{0,60}}\d[\w.-]{{0,60}}"
_SYSTEMS_LOG = "(?:kern|messages|syslog|dmesg|journal)"  # what its name begins with, or holds
_LINE = r":(?:\d{1,9}[:-])?"  # behind the name of a file that grep names, its line where it was asked for (-n)

# name -> pattern; named groups are fields of Identity, `ts` is a time, `host` a node.
ALWAYS: dict[str, str] = {
    # "-": of a stream that a collector did not keep (archives.records)
    "cri": rf"{_COLLECTED_TIME}(?:(?P<stream>stdout|stderr)|-) [FP] ",
    "kubectl": r"^\[pod/(?P<host>[^/\]]+)/[^\]]+\] ",
    "stamp": (
        r"^(?P<ts>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?):? "
        r"(?P<rest>\[\d+,\d+\]|\[pod/|\(|\[\w+\d+\]:|[A-Za-z][\w.-]{0,63}:\d{1,9}:\d{1,9} )"  # NCCL's own head
    ),
    "open_mpi": (
        r"^(?:\[?(?P<ts>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]?)?"
        r"\[[^,\]\s]*,(?P<rank>\d+)\](?:\[(?P<host>[^:\]]+):(?P<pid>\d+)\])?<(?P<stream>stdout|stderr|stddiag)>: ?"
    ),
    "sagemaker": r"^\[\d+,mpirank:(?P<rank>\d+),(?P<host>[^\]\s]+)\]<(?P<stream>stdout|stderr)>: ?",
    # PMIx, and horovodrun without MPI (horovod/runner/util/streams.py), which puts no blank behind it
    "pmix": (
        r"^(?P<ts>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
        r"\[(?P<rank>\d+)\]<(?P<stream>stdout|stderr|stddiag)>: ?"
    ),
    "ray": r"^\((?:raylet|[^()]{0,120}?pid=(?P<pid>\d+))(?:, ip=(?P<host>[0-9a-fA-F.:]+))?\) ?",
    "torchrun_rank": r"^\[rank(?P<rank>\d+)\]: ?",
    "torchrun_tee": r"^\[[A-Za-z_][\w.-]{0,40}?(?P<local_rank>\d+)\]:",
    "node_local": r"^\[(?P<host>[A-Za-z][\w.-]*):(?P<local_rank>\d+)\]: ?",
    "espnet": r"^\[(?P<host>[A-Za-z][\w-]*):(?P<rank>\d+)/\d+\] ",
    "olmo": r"^(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+)\t(?P<host>[A-Za-z][\w.-]*):(?P<local_rank>\d+)\t",
    "lightning": r"^\[rank: (?P<rank>\d+)\] ",
    "torchx": r"^[A-Za-z][\w.-]*/\d+ (?P<rest>\[\w+\d+\]:)",
    "syslog": (
        rf"^(?P<ts>{_SYSTEMS_TIME}) "
        r"(?P<host>[A-Za-z0-9][\w.-]*) "
        r"(?:kernel|systemd|slurmd|slurmstepd|kubelet|containerd|dockerd|nvidia-[\w-]+|earlyoom)(?:\[\d+\])?: "
        r"(?:<[0-3]>)?"
    ),
    "pasted_number": r"^\s*(?:\d{1,7}|\[\d{1,7}\]) (?P<rest>\[rank\d+\]:)",
}
# Prefixes before a few lines of kernels that were looked for: too few lines for a vote, and unmistakable.
GATHERED: dict[str, str] = {  # by pdsh or clush
    "gathered": rf"^(?P<host>{_NUMBERED_HOST}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}): (?P<rest>{_KERNELS}|/var/log/\S)",
}
GREPPED: dict[
    str, str
] = {  # of the logs of systems below /var/log, and of dmesg's output that bears a host in its name
    "grep_dmesg_of": (
        rf"^(?:[\w.+@-]{{1,64}}/|/){{0,12}}dmesg[-_.](?P<host>{_NUMBERED_HOST}?)(?:\.(?:txt|log|out))?"
        rf"{_LINE}(?P<rest>{_KERNELS})"
    ),
    "grep_dmesg": (
        rf"^(?:[\w.+@-]{{1,64}}/|/){{0,12}}(?P<host>{_NUMBERED_HOST}?)[-_./]dmesg(?:\.(?:txt|log|out))?"
        rf"{_LINE}(?P<rest>{_KERNELS})"
    ),
    "grep_log": (
        rf"^(?:[\w.+@-]{{1,64}}/|/){{0,12}}{_SYSTEMS_LOG}[\w.+@-]{{0,64}}"
        rf"{_LINE}(?P<rest>{_KERNELS}|{_LOGGED}[\w./-]{{1,64}}(?:\[\d{{1,10}}\])?: )"
    ),
}

# Prefixes that need the file's vote: what `host`, or else the first group, holds must look like it over the file.
VOTED: dict[str, str] = {
    "srun": r"^ {0,6}(?P<task>\d{1,5}): ",
    "srun_het": r"^P\d+ +(?P<task>\d{1,5}): ",
    # not what the launchers say themselves, whose lines bear none, nor the exception that ends a bare traceback
    "pdsh": r"^(?!(?:srun|slurmstepd|salloc|sbatch|mpirun|mpiexec|torchrun|bash|sh|make|[\w.]*(?:Error|Exception)): )"
    r"(?P<host>[A-Za-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}): ",
    "tagged": r"^(?:r|rank)(?P<rank>\d{1,5}) +\| ",  # scripts that tag the lines of their ranks
    "compose": r"^(?!(?:r|rank)\d{1,5}\s)(?P<host>[A-Za-z0-9][\w.-]*?)\s+\| ",
    # docker service logs (Swarm): service.slot.task@node
    "swarm": r"^[\w.-]+\.\d+\.[a-z0-9]{4,30}@(?P<host>[A-Za-z0-9][\w.-]*)\s+\| ",
    "tabbed": rf"^(?P<host>{_NUMBERED_HOST})\t",  # GNU parallel --tag
    **columns.BEHIND_A_LEVEL,
    # `[gpu02:3] `: a host and the number of a process, on it or in the run (`_numbered`)
    "host_local": rf"^\[(?!{WITHIN})(?P<host>{_NUMBERED_HOST}):(?P<local_rank>\d{{1,5}})\] ",
    "host_rank": rf"^\[(?!{WITHIN})(?P<host>{_NUMBERED_HOST}):(?P<rank>\d{{1,5}})\] ",
    "mpich": r"^\[r?(?P<rank>\d{1,5})\] ",  # Hydra -l; with the letter: scripts that tag the lines of their ranks
    # stern: pod and container, which are DNS labels; a pod's last part is its index or what Kubernetes made up.
    "stern": (
        r"^(?P<host>[a-z0-9](?:[a-z0-9-]{0,240}[a-z0-9])?-(?:\d{1,5}|[a-z0-9]{5})) (?P<container>[a-z][a-z0-9-]{1,62}) "
    ),
    # journalctl -u train.service (-o short, short-precise, short-iso): a program's own lines behind its name and pid.
    # The pid is that of the process which opened the stream, a shell script's as often as Python's.
    "journal": (
        rf"^(?P<ts>{_SYSTEMS_TIME}) "
        r"(?P<host>[A-Za-z0-9][\w.-]*) [A-Za-z_][\w.@-]*\[\d+\]: (?:<[0-3]>)?"
    ),
}
VOTED |= columns.BESIDE_A_RANK
VOTED |= columns.BY_RANK  # behind all others, which tell of hosts
# What all lines of a file are indented by, as in a log that was quoted; several of these make up any number of blanks.
INDENTS = (16, 8, 4, 2, 1)
VOTED |= {f"indent_{n}": f"^(?P<indent> {{{n}}})" for n in INDENTS}
FEWEST_INDENTED = 4  # lines by which it is told; Megatron-LM begins its own with one blank
# What srun, slurmstepd, pdsh and a shell with `set -x` put between the lines of those that they started.
_OF_LAUNCHERS = re.compile(r"(?:srun|slurmstepd|pdsh@[\w.-]+): |\++ ")
_OF_PROCESSES = {"host_local", "host_rank"}
FEW_CONTAINERS = 3  # of a pod: the program's own and helpers beside it; words of sentences are more
LONG_NUMBER = 10  # digits from which on a number is no rank and no pid
_NEVER_A_HOST = {
    "traceback", "error", "warning", "warn", "info", "debug", "file", "exception", "note", "epoch", "step", "iter",
    "loss", "fatal", "hint", "usage", "test", "train", "val", "eval", "runtimeerror", "valueerror", "userwarning",
    "steps", "iters", "iteration", "iterations", "epochs", "ep", "batch", "global_step", "num_updates", "train_loss",
    "val_loss", "eval_loss", "total_loss", "training", "validation", "valid", "lr", "progress", "critical", "notice",
    "srun", "slurmstepd", "sbatch", "salloc", "mpirun", "mpiexec", "orterun", "prterun", "torchrun", "make",
    "stderr", "stdout", "kernel", "dmesg",
}  # fmt: skip

# journalctl's forms that print the day of the week, or seconds since the epoch (-o short-full, short-unix).
_JOURNAL = lazy(r"^(?:[A-Z][a-z]{2} \d{4}-\d\d-\d\d [\d:.]{8,18}(?: [A-Z]{3,5})?|1\d{9}\.\d{6}) [\w.-]+ kernel: ")
_ALWAYS = {name: lazy(pattern) for name, pattern in {**ALWAYS, **GATHERED, **GREPPED}.items()}


def _any_of(patterns: Mapping[str, str]) -> str:
    """One pattern whose last group has the name of the first of these that matches: one look instead of sixteen."""
    plain = {name: re.sub(r"\(\?P<\w+>", "(?:", pattern) for name, pattern in patterns.items()}
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in plain.items())


_OF_KERNELS = lazy(_KERNELS)
_COUNTED = lazy(NUMBERED)
_SOME = re.compile(
    rf"{_any_of(ALWAYS)}"
    rf"|^(?=[\w./+@-]{{1,300}}:)(?:{_any_of(GATHERED)}|(?=[^:]*{_SYSTEMS_LOG})(?:{_any_of(GREPPED)}))"
)
_VOTED = {name: re.compile(pattern) for name, pattern in VOTED.items()}

# Heads of log records: what stands between the prefixes and the message.
HEADS: dict[str, str] = {
    "c10": (
        r"^\[(?P<level>[FEWIV])(?:(?P<md>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d)\.\d{9} | )"
        r"(?P<file>[\w.+-]+):\d+\] (?:\[c10d\] )?(?P<message>.*)$"
    ),
    "glog": (
        r"^(?P<level>[FEWIV])(?P<md>\d{4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?) +(?P<pid>\d+) "
        r"(?P<file>[^\s:\]]+):\d+\] (?P<message>.*)$"
    ),
    "nccl": (
        r"^(?:\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\] )?(?P<host>[^\s:\[\]]+):(?P<pid>\d+):\d+ "
        r"(?:\[(?P<device>\d+)\] )?(?P<message>(?:\S+?:\d+ (?:\([^)]*\) )?)?NCCL (?:WARN|INFO|CALL|TRACE|ABORT).*)$"
    ),
    # libfabric (src/log.c): pid, since 1.11 seconds since the epoch, since 1.13 who called (often nobody), the provider
    "libfabric": (
        r"^libfabric:(?P<pid>\d+):(?:(?P<ts>\d{10}):)?(?P<message>[\w:;.-]{1,80}:\w{1,80}\(\):\d{1,9}<\w{1,8}> .*)$"
    ),
}
_HEADS = {name: lazy(pattern, re.S) for name, pattern in HEADS.items()}
_SOME_HEAD = re.compile(_any_of(HEADS), re.S)

# What stands before the place of a process that a logger names: nothing, a bracket, a stamp or a level.
_HEAD_ENDS = r"(?:^|[\[\]|,:\d] ?|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL) +)"

# No part of a model, whose adapter has a rank too.
_NOT_OF_A_MODEL = (
    r"(?![\w.-]*(?i:layer|block|lora|adapter|module|expert|proj|conv|linear|attn|mlp|coder|stage|epoch|step|iter|group"
    r"|local))"
)
# A host that stands beside a rank.
_HOST_BESIDE = rf"(?!{WITHIN})(?P<host>{_NUMBERED_HOST})"

_PLACE = ".py:"
_KEY = 'rank":'
# The host that a record of JSON names beside the rank, and no container's number.
_HOST_KEY = lazy(rf'"(?:host_?name|node_?name)": ?"(?![0-9a-f]{{12}}")(?!{WITHIN})(?P<host>{_NUMBERED_HOST})"')
MEMBERS = 2000  # characters of a record that are searched for it
# Ranks that loggers and programs name inside the line, tried in this order after the prefixes: what is in every text
# that has them, to be looked for first, and the pattern.
IN_TEXT_RANK: tuple[tuple[str, str], ...] = (
    *(("", pattern) for pattern in columns.BEFORE_A_LEVEL),  # in either case; no text without the word comes here
    ("[", r"\[(?:[Rr]ank|RANK)[ :=]{0,2}(?P<rank>\d+)\]"),
    ("(default_pg)", r"\[[^\]]{0,60}\(default_pg\) Rank (?P<rank>\d+)\]"),
    ("[PG ", r"\[PG (?:ID \d{1,9} PG GUID )?0 Rank (?P<rank>\d+)\]"),
    ("(", r"^\([Rr]ank[ :=](?P<rank>\d+)\)"),
    (_KEY, r'"(?:global_)?rank": ?(?P<rank>\d+)[,}]'),
    ("][", r"\brank(?P<rank>\d+)\[\d+\]\["),
    ("ank", r"^[Rr]ank[ :=]{1,2}(?P<rank>\d+)[ ,:|\]]"),
    (_PLACE, r"^.{0,60}\[[\w.-]+\.py:\d+\] \((?P<rank>\d+)/\d+\) "),  # icefall: rank/world size, without the word
    ("|", rf"{_HEAD_ENDS}{_NOT_OF_A_MODEL}{_HOST_BESIDE} ?\| ?[Rr]ank[ :=]?(?P<rank>\d+)\b"),  # `gpu02|rank5`
    ("|", r"\| *[Rr]ank[ :=]{0,2}(?P<rank>\d+) *\|"),
    # With the host beside it: `Rank=11 Node=hgx02`, `[Rank 9 | gpu-2]`, `[gpu-06] rank=48`.
    ("ode", rf"{_HEAD_ENDS}[Rr]ank[=:] ?(?P<rank>\d+),? [Nn]ode[=:] ?(?:{_HOST_BESIDE}(?=[\s,\]|]|: |$)|[A-Za-z])"),
    ("[", rf"\[(?:[Rr]ank|RANK)[ :=]{{0,2}}(?P<rank>\d+) ?[|,@] ?(?:{_HOST_BESIDE}|[A-Za-z][\w.-]{{0,120}})\]"),
    (
        "]",
        rf"{_HEAD_ENDS}\[{_NOT_OF_A_MODEL}{_HOST_BESIDE}\] ?(?:[Rr]ank|RANK)[=: ]{{1,2}}(?P<rank>\d+)\b"
        r"(?![^\n]{0,60}\b(?i:alpha|lora\w{0,20}|dropout|target_modules)\b)",
    ),
    # `rank 5@gpu02`
    ("@", rf"{_HEAD_ENDS}[Rr]ank[ :=]?(?P<rank>\d+)@(?:{_HOST_BESIDE}(?=[\s,\]|]|: |$)|[A-Za-z])"),
    ("rank=", r'^(?:\w+=(?:"[^"]{0,80}"|[^\s"]{1,80}) ){1,6}rank=(?P<rank>\d+)(?: |$)'),
    # What a record of training begins with, behind the head of a logger: `INFO rank=2 step=60 loss=..`.
    (
        "ank",
        r"[Rr]ank(?<!local .ank)(?<!\b[dtpce]p .ank)(?<!node .ank)(?<!group .ank)(?<!parallel .ank)(?<![\w.-].ank)"
        r"[ =:]{1,2}(?P<rank>\d+)[ ,|:]{1,3}(?:global[_ ])?(?:step|epoch|iter|iteration|loss)(?![a-z])",
    ),
)
_IN_TEXT_RANK = tuple((word, lazy(pattern)) for word, pattern in IN_TEXT_RANK)
# What torch prints of a process group other than the default one, whose ranks are numbered anew: `[PG 1 Rank 0]`,
# `[PG 1 (dp) Rank 0]`, `[PG ID 2 PG GUID 5(dp) Rank 0]` (createLogPrefix of ProcessGroupNCCL, torch 2.3 to 2.14).
_SUBGROUP = lazy(
    r"\[PG (?:ID \d{1,9} PG GUID )?(?!0[ (]|[^\]]{0,60}\(default_pg\))[^\s\](]{1,80} ?(?:\([^\]]{0,80}\) ?)?Rank \d+\]"
)
# What torch puts before its own messages since 2.2, whatever a program that passes them on puts before that.
_TORCHS_HEAD = lazy(r"\[rank(\d{1,7})\]:\[[EWIF]\d{3,4} ")
# One of these is in every text that one of those patterns takes, and in few others.
IN_TEXT_WORDS = ("ank", "RANK", _PLACE)

_COLLECTED = lazy(_COLLECTED_TIME)
_STAMPED = lazy(
    r"\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)\]? "
)


class CleanLine(NamedTuple):
    """One piece of a line without its prefixes: the message, whose it is and when it was written."""

    text: str  # prefixes taken off; a logger's head stays where it is part of the message
    identity: Identity
    time: float | None  # seconds since the epoch; local time read as UTC where `zone_known` is false
    zone_known: bool
    prefix: str  # the prefixes that were taken off: lines of one writer share it


def from_syslog(text: str) -> bool:
    """Whether a line comes from the log of an operating system, whose name of the host need not be the run's."""
    return _ALWAYS["syslog"].match(text) is not None or _JOURNAL.match(text) is not None


def from_ray(text: str) -> bool:
    """Whether a line bears Ray's prefix: each of its workers sees its own devices only, counted from 0."""
    return _ALWAYS["ray"].match(text) is not None


def strip_ansi(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


# Where another process's prefix begins in the middle of a line, behind what somebody else had begun to write.
_GLUED = lazy(r"(?<=[^\s:])(?=\[(?:rank|default)\d+\]:|\[[A-Za-z][\w.-]*:\d+\]:)")


def without_stamp(text: str) -> str:
    """A cleaned line without the time that a collector of output put before each (docker -t, kubectl --timestamps, ts).

    A logger's time goes as well; what it puts between that and the message stays.
    """
    return text[m.end() :] if (m := _STAMPED.match(text)) else text


def segments(piece: str) -> list[str]:
    """A piece of a line, cut where the prefix of another process begins in its middle."""
    end = piece.find("]:")
    # Nothing is glued to a prefix that is the line's own: most lines of most ranks.
    if end < 0 or (piece.rfind("[", 0, end) <= 0 and piece.find("]:", end + 2) < 0):
        return [piece]
    return _GLUED.split(piece)


def is_bare(text: str) -> bool:
    """Whether a text bears no prefix for sure, because it is indented: `clean` would give it back as it is."""
    return text.startswith("  ") and "\x1b" not in text and not text.lstrip()[:1].isdigit()


def vote(lines: Iterable[str]) -> frozenset[str]:
    """Which of the ambiguous prefixes a file uses, from a sample of its lines.

    A prefix is accepted where at least 80 % of the non-empty lines bear it and its values look like what they claim
    to be: few distinct ones, each seen at least three times on average, never a word that opens ordinary messages.
    Launchers' own lines bear none and do not count. In a log that ends with its imports the head and the first frame
    of a traceback behind one value tell as much. Which numbers are those of tasks, `task_labels` knows.
    """
    stamped = [line for line in lines if line.strip()]
    accepted = set()
    if (indent := _indent(stamped)) > 1:
        accepted = {f"indent_{n}" for n in INDENTS if indent & n}
        stamped = [line[indent:] for line in stamped]
    whole = [_uncollected(line) for line in stamped]
    unlabelled = [line for line in whole if not _OF_LAUNCHERS.match(line)]
    launchers = [line for line in whole if _OF_LAUNCHERS.match(line)]
    ranked = any(map(columns.may_name_a_rank, whole))
    for name, pattern in _VOTED.items():
        if "indent" in pattern.groupindex or (name in columns.VOTED and not ranked):
            continue
        sample = stamped if "ts" in pattern.groupindex else unlabelled
        value: str | int = "host" if "host" in pattern.groupindex else 1
        if name in columns.BESIDE_A_RANK or name in columns.BY_RANK:  # behind labels
            value = "rank"
            labels = [_VOTED[n] for n in accepted if not n.startswith("indent")]
            sample = [line[max((m.end() for p in labels if (m := p.match(line))), default=0) :] for line in whole]
        tasks = _behind_tasks(unlabelled, accepted) if name == "pdsh" else []
        if columns.are_hosts([(m["host"], task) for task, line in tasks if (m := pattern.match(line))]):
            sample = [line for _, line in tasks]
        asked = filter(columns.may_name_a_rank, sample) if name in columns.VOTED else sample
        values = [m.group(value) for line in asked if (m := pattern.match(line))]
        if not values:
            continue
        distinct = Counter(values)
        usual = len(sample) >= 4 and len(values) >= 0.8 * len(sample) and len(values) >= 3 * len(distinct)
        if name == "srun":
            labelled = [Labelled(int(m.group(1)), line[m.end() :]) for line in sample if (m := pattern.match(line))]
            usual = are_tasks(labelled, sample, launchers, usual=usual)
        usual = usual or (name == "pdsh" and _before_kernels(sample, pattern))
        if not usual and not _before_traceback(sample, pattern, value):
            continue
        if value == "rank" and not _are_columns(name, pattern, sample, accepted):
            continue
        if any(value.lower() in _NEVER_A_HOST for value in distinct):
            continue
        if "container" in pattern.groupindex:
            inside = {m.group("container") for line in sample if (m := pattern.match(line))}
            if len(inside) > FEW_CONTAINERS or inside & _NEVER_A_HOST:
                continue
        accepted.add(name)
    return frozenset(accepted - _OF_PROCESSES | _numbered(unlabelled) if accepted & _OF_PROCESSES else accepted)


def _behind_tasks(lines: Iterable[str], accepted: Set[str]) -> list[tuple[str, str]]:
    """(task, what stands behind its label) of the lines that srun has labelled; none where it labels none."""
    forms = [_VOTED[name] for name in ("srun", "srun_het") if name in accepted]
    found = (m for line in lines for form in forms if (m := form.match(line)))
    return [(m["task"], m.string[m.end() :]) for m in found]


def _are_columns(name: str, pattern: re.Pattern[str], sample: Sequence[str], accepted: Set[str]) -> bool:
    """Whether a form of `columns` tells more of a file's lines than what is known of them without it."""
    found = [m for line in sample if (m := pattern.match(line))]
    known = _peeled(found[0].string, frozenset(accepted)).identity
    if known.rank is not None and known.node is not None:
        return False
    if name in columns.BY_RANK:
        return True
    if not accepted.isdisjoint((*columns.BESIDE_A_RANK, *columns.BEHIND_A_LEVEL)):
        return False
    if "host" not in pattern.groupindex:
        return known.rank is None
    return columns.are_hosts([(m["host"], m["rank"]) for m in found])


def _numbered(lines: Iterable[str]) -> set[str]:
    """Which of the two readings of `[gpu02:3] ` is a file's.

    Numbers that no two hosts share, and that count all processes from 0, are of the run; else they are of the host.
    """
    of_host: dict[str, set[int]] = {}
    for line in lines:
        if (m := _VOTED["host_rank"].match(line)) is not None:
            of_host.setdefault(m["host"], set()).add(int(m["rank"]))
    everyone = set().union(*of_host.values())
    apart = len(of_host) > 1 and sum(map(len, of_host.values())) == len(everyone)
    return {"host_rank"} if apart and everyone == set(range(len(everyone))) else {"host_local"}


def _indent(lines: Sequence[str]) -> int:
    """How many blanks each of these lines begins with at least; 0 where they are few."""
    if len(lines) < FEWEST_INDENTED or not lines[0].startswith("  "):
        return 0
    return min(min(len(line) - len(line.lstrip(" ")) for line in lines), 2 * INDENTS[0] - 1)


def _uncollected(line: str) -> str:
    """A line as it was before a collector of logs put a time, a stream or a pod before it."""
    for pattern in (_ALWAYS["cri"], _ALWAYS["kubectl"], _COLLECTED):
        if (m := pattern.match(line)) is not None:
            line = line[m.end() :]
    return line


def _before_kernels(sample: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Whether the name of a host stands before every line, and each of them is a kernel's."""
    found = [(m, line) for line in sample if (m := pattern.match(line))]
    return 0 < len(found) == len(sample) and all(
        _OF_KERNELS.match(line, m.end()) and not _COUNTED.match(m["host"]) for m, line in found
    )


def _before_traceback(sample: Sequence[str], pattern: re.Pattern[str], value: str | int) -> bool:
    """Whether a value with a digit stands before the head of a traceback and before its first frame."""
    heads: set[str] = set()
    for line in sample:
        if (m := pattern.match(line)) is None:
            continue
        rest = line[m.end() :]
        if rest.startswith("Traceback (most recent call last)"):
            heads.add(m.group(value))
        elif rest.startswith('  File "') and m.group(value) in heads and any(map(str.isdigit, m.group(value))):
            return True
    return False


def _take(fields: dict[str, str | None], into: dict[str, object]) -> None:
    """Fold the groups of one prefix into the identity: the innermost rank wins, the outermost host does."""
    for key, value in fields.items():
        if value is None or key in ("ts", "rest", "container", "indent", "message", "level", "md", "clock", "file"):
            continue
        if key == "host":
            into.setdefault("node", value)
        elif key == "stream":
            into["stream"] = "stderr" if value != "stdout" else "stdout"
        elif len(value) < LONG_NUMBER:
            into[key] = int(value)


class _Peeled(NamedTuple):
    """A piece of a line without its prefixes. text: with a logger's head, which may hold the time."""

    text: str
    message: str
    identity: Identity
    prefix: str
    stamp: str | None


@lru_cache(maxsize=256)
def _in_order(voted: frozenset[str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The forms that a file uses, in the order of VOTED: every line asks for them."""
    return tuple((name, pattern) for name, pattern in _VOTED.items() if name in voted)


def _first(text: str, fields: Mapping[str, object], voted: frozenset[str]) -> tuple[str, re.Match[str]] | None:
    """(name, match) of the first prefix of a text. fields: what prefixes before it have said."""

    def repeats(name: str | None, m: re.Match[str]) -> bool:
        return name == "torchrun_tee" and m.group(0).startswith("[rank") and "rank" in fields

    some = _SOME.match(text)
    if some is None and not voted:
        return None
    if some is not None and not repeats(some.lastgroup, some):
        name = some.lastgroup or ""
        return (name, m) if (m := _ALWAYS[name].match(text)) is not None else None
    always = _ALWAYS.items() if some is not None else ()  # behind the first of them there may be another
    for name, pattern in (*always, *_in_order(voted)):
        m = pattern.match(text)
        if m is not None and m.end() > 0 and not repeats(name, m):
            return name, m
    # A time alone is left to the message, where a logger may have put it; before a label it was a collector's.
    if (m := _COLLECTED.match(text)) is not None:
        behind = text[m.end() :]
        if any(_VOTED[name].match(behind) for name in voted):
            return "collected", m
    return None


def _peeled(piece: str, voted: frozenset[str]) -> _Peeled:
    text = strip_ansi(piece)
    fields: dict[str, object] = {}
    taken = []
    stamp: str | None = None
    for _ in range(8):  # prefixes stack; eight is more than any launcher, scheduler and logger together
        found = _first(text, fields, voted)
        if found is None:
            break
        name, m = found
        voted -= {name}  # each once: behind `node-1: `, `KeyError: ` is no other host
        groups = m.groupdict()
        _take(groups, fields)
        stamp = groups.get("ts") or stamp
        end = m.start("rest") if "rest" in groups else m.end()
        taken.append(text[:end])
        text = text[end:]
    message = text
    head = _SOME_HEAD.match(text)
    if head is not None and (h := _HEADS[head.lastgroup or ""].match(text)):
        _take(h.groupdict(), fields)
        message = h.group("message")
    if "rank" not in fields:
        near = text[:300]
        if "[rank" in near and (torchs := _TORCHS_HEAD.search(near)):
            fields["rank"] = int(torchs.group(1))
        elif any(word in near for word in IN_TEXT_WORDS) and not ("[PG " in near and _SUBGROUP.search(near)):
            in_words = "ank" in near or "RANK" in near
            for word, pattern in _IN_TEXT_RANK:
                if word not in near or not (in_words or word == _PLACE):
                    continue
                if (said := pattern.search(near)) and len(said["rank"]) < LONG_NUMBER:
                    _take(said.groupdict(), fields)
                    if word == _KEY and (beside := _HOST_KEY.search(text[:MEMBERS])):
                        _take(beside.groupdict(), fields)
                    break
    return _Peeled(text, message, Identity(**fields), "".join(taken), stamp)  # type: ignore[arg-type]


def clean(piece: str, voted: frozenset[str] = frozenset(), reference: float = 0.0) -> CleanLine:
    """Take the prefixes off one piece of a line. Never raises; text that bears none comes back as it is."""
    line = _peeled(piece, voted)
    time, zone_known = parse_time(line.text, reference)
    if time is None and line.stamp:
        time, zone_known = parse_time(line.stamp, reference)
    return CleanLine(line.message.removeprefix("[c10d] "), line.identity, time, zone_known, line.prefix)


def speaker(piece: str, voted: frozenset[str] = frozenset()) -> tuple[Identity, str]:
    """(identity, prefix) of one piece of a line, as `clean` has them; it does not look for a time."""
    line = _peeled(piece, voted)
    return line.identity, line.prefix


def rank_list(text: str) -> tuple[int, ...]:
    """The ranks that a list with spans names ("0-3, 8", "Id(rank=8, node='a')"), sorted; other parts are left out."""
    ranks: set[int] = set()
    covered = 0  # a line can hold thousands of spans, each of which names all ranks
    for part in text.replace(" ", ",").split(","):
        low, _, high = part.rpartition("rank=")[2].partition("-")
        if not low.isdecimal() or len(low) >= LONG_NUMBER or (high and not high.isdecimal()):
            continue
        last = min(int((high or low)[:LONG_NUMBER]), MAX_RANKS - 1)
        covered += max(last - int(low) + 1, 0)
        if covered > 2 * MAX_RANKS:
            break
        ranks.update(range(int(low), last + 1))
    return tuple(sorted(ranks))


def sample_lines(data: bytes, limit: int = 400) -> Sequence[str]:
    """The first whole lines of a file's head, decoded and without colours, for `vote`."""
    return [strip_ansi(line.decode("utf-8", "replace")) for line in data.split(b"\n")[:limit]]
