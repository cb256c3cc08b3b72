"""The types that cross the seams: discover -> parse -> match -> explain -> report.

Rows that are many (metrics, collectives) are polars frames whose schemas stand here; things that are few (sources,
observations, findings) are frozen dataclasses. Nothing in this module reads a file or decides anything.

Vocabulary: *rank* is always the global rank. *local rank* is the index on its host, *device* the CUDA index that a
message names, *node* the host as it was printed, *attempt* counts restarts from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


# A number from here on that is called a rank or a world size is none: the largest jobs known have some 100,000
# processes, and what is counted up to it must fit into memory.
MAX_RANKS = 1 << 18
BYSTANDER = "bystander"  # capture of a sign about a job, pod, node or container that is none of the run's: which
UNTIED = "untied"  # capture of a sign in a list of pods or events, of a pod that nothing ties to the run: which
QUOTED = "quoted"  # capture of a sign that stands in a text which the run reads or writes, and which no program says
POD_SUCCEEDED = "pod_succeeded"  # capture of a sign that stands in the account of a pod that came to its end


class Kind(StrEnum):
    """What a source file is; told by its content first, then by its name."""

    LOG = "log"  # anything line-oriented that people or programs wrote: stdout, stderr, NCCL, dmesg, scheduler output
    TENSORBOARD = "tensorboard"
    FLIGHT_RECORDER = "flight_recorder"
    METRICS = "metrics"  # JSON lines, trainer_state.json, metrics.csv: numbers in a structured file
    ERROR_FILE = "error_file"  # a worker's exception as torchelastic records it
    CONFIG = "config"  # json/yaml/toml that is no metrics file
    CHECKPOINT = "checkpoint"
    BINARY = "binary"  # read by nothing: images, core files, archives, arrays
    EMPTY = "empty"


class Status(StrEnum):
    """How far a source was read."""

    READ = "read"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    UNREADABLE = "unreadable"


class Verdict(StrEnum):
    """What became of the run. See docs/json.md."""

    FAILED = "failed"
    HUNG = "hung"
    DIVERGED = "diverged"
    SUSPECT = "suspect"
    INTERRUPTED = "interrupted"
    RECOVERED = "recovered"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


# Findings whose ranks are those that others waited for; they did not print it.
WAITED_FOR = frozenset({"collective-timeout", "monitored-barrier-timeout", "rendezvous-timeout"})


class Role(StrEnum):
    ROOT = "root"
    CASCADE = "cascade"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a line or a file comes from; None where nothing says so."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    attempt: int | None = None
    stream: str | None = None  # "stdout" | "stderr"
    pid: int | None = None
    device: int | None = None
    task: int | None = None  # Slurm task id; the rank where a task drives one device

    def __post_init__(self) -> None:
        for name in ("rank", "local_rank", "device", "task"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < MAX_RANKS:
                object.__setattr__(self, name, None)

    def over(self, outer: Identity) -> Identity:
        """This identity, completed by an outer one (a line's own, then its file's)."""
        return Identity(
            *(
                mine if (mine := getattr(self, name)) is not None else getattr(outer, name)
                for name in self.__dataclass_fields__
            )
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One file (or stdin) of the run directory."""

    path: str  # relative to the run, with "/"; what reports show
    file: Path  # where to read it
    kind: Kind
    size: int  # bytes
    identity: Identity = Identity()
    gap: tuple[int, int] | None = None  # bytes [start, end) that were not fetched; they are zero in the file


@dataclass(frozen=True, slots=True)
class Coverage:
    """What became of one source: a report has exactly one of these for each file that was found."""

    path: str
    kind: str
    bytes: int
    status: Status
    reason: str | None = None
    rank: int | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in a file that anyone can open and check."""

    file: str
    line: int | None  # 1-based, counted by newlines; None for binary sources
    offset: int | None  # bytes from the start of the file
    text: str

    def is_below(self, other: Evidence) -> bool:
        """Whether it stands below another place of the same file; False where lines do not tell."""
        return self.file == other.file and self.line is not None and other.line is not None and self.line > other.line


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One sign of one signature in one place: what every matcher yields and the cause analysis consumes.

    `culprits` are the global ranks that this sign blames. None means that the sign names nobody, and the policy of its
    signature applies (usually: the rank that printed it); () means that it is known that nobody can be named.
    """

    signature: str  # slug
    weight: float  # how surely this sign alone proves the signature, 0..1
    evidence: tuple[Evidence, ...]  # the first one is the key line
    identity: Identity = Identity()
    culprits: tuple[int, ...] | None = None
    time: float | None = None  # seconds since the epoch; local time read as UTC where the zone is unknown
    zone_known: bool = False
    step: int | None = None
    step_is: str | None = None  # "exact" | "first_logged" | "last_seen"
    step_unit: str | None = None
    epoch: float | None = None
    captures: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    note: str | None = None  # a sentence on what this sign shows here, for people
    timed: bool = False  # the time is printed with the sign, and not on an earlier line of the file
    rule: int | None = None  # which of the signature's evidence rules it is, counted from 0; None where none is
    fix: tuple[str, ...] = ()  # what this sign calls for here, before what its signature says
    in_traceback: bool = False  # its line is one of a Python traceback
    caught: bool = False  # of a traceback that begins within the program: what caught the exception there printed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """A Python traceback as one event, also where other ranks' lines lie between its lines."""

    exception: str  # "KeyError", "torch.cuda.OutOfMemoryError"
    message: str
    frames: tuple[tuple[str, int, str], ...]  # (file, line, function), outermost first
    header: Evidence
    final: Evidence  # the line "Type: message"
    identity: Identity = Identity()
    time: float | None = None
    zone_known: bool = False
    timed: bool = False  # the time is printed with it or on the line above it
    # "cause": raised from the traceback above it; "context": raised while handling that one; "ignored": raised where
    # the interpreter reports it and goes on (a destructor, an exit handler, a logging handler)
    chained: str | None = None
    thread: str | None = None  # the thread that it ended, where that is not the main one

    @property
    def own_frame(self) -> tuple[str, int, str] | None:
        """The innermost of `own_frames`; None where there is none."""
        return next(iter(self.own_frames[-1:]), None)

    @property
    def own_frames(self) -> tuple[tuple[str, int, str], ...]:
        """The frames that are not in an installed package or the standard library, outermost first."""
        return tuple(frame for frame in self.frames if not _is_library(frame[0]))

    @property
    def user_frame(self) -> tuple[str, int, str] | None:
        """`own_frame`, and the innermost one of all where there is none."""
        return self.own_frame or (self.frames[-1] if self.frames else None)


def _is_library(file: str) -> bool:
    """Whether a frame is of an installed package or the standard library; Cython names its sources without a folder."""
    parts = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>")
    return any(part in file for part in parts) or file.endswith((".pxi", ".pyx"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One source's activity, for silence and progress: who spoke, when last, and how far it came."""

    source: str
    identity: Identity
    first_time: float | None
    last_time: float | None
    last_line: str  # last non-empty line, cleaned
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """Everything the parsers found; the only input of the cause analysis besides the catalogue."""

    path: str
    sources: tuple[Source, ...]
    observations: tuple[Observation, ...]
    tracebacks: tuple[Traceback, ...]
    writers: tuple[Writer, ...]
    metrics: pl.DataFrame  # METRICS_SCHEMA
    collectives: pl.DataFrame  # COLLECTIVES_SCHEMA
    coverage: tuple[Coverage, ...]
    facts: tuple[Fact, ...] = ()
    unended: tuple[Evidence, ...] = ()  # headers of tracebacks of which no last line was found
    last_errors: tuple[Evidence, ...] = ()  # the errors with which logs end


@dataclass(frozen=True, slots=True)
class Fact:
    """A single thing that a file states: `world_size = 8`, `torch = 2.13.0`, `checkpoint.complete = false`."""

    name: str
    value: str
    source: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A signature at a place, with its role in this run. The JSON object of the same name (docs/json.md)."""

    id: str
    name: str
    codes: tuple[str, ...]
    title: str
    role: Role
    severity: str
    confidence: float
    ranks: tuple[int, ...] | None
    local_ranks: tuple[int, ...] | None
    devices: tuple[int, ...] | None
    node: str | None
    step: int | None
    step_is: str | None
    step_unit: str | None
    epoch: float | None
    time: str | None
    time_is: str | None  # "exact" | "reported": by a launcher | "last_seen": the last one printed before it
    time_source: str | None
    attempt: int | None
    count: int
    evidence: tuple[Evidence, ...]
    captures: Mapping[str, str]
    explains: tuple[str, ...]
    explained_by: str | None
    fix: tuple[str, ...]
    why: str  # what happened here, in words
    notes: tuple[str, ...] = ()
    see_also: tuple[str, ...] = ()  # slugs that are the usual next question: `forensics explain SLUG`
    stopped_first: int | None = None  # of several ranks that others waited for, the one whose log ends long before


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A place in the training code that shows an entry of the catalogue. It makes no finding, and may support some."""

    name: str  # slug
    codes: tuple[str, ...]
    title: str
    check: str  # what found it; docs/sources.md
    confidence: float  # how surely the code does what is said of it; not that it did harm
    evidence: tuple[Evidence, ...]
    why: str
    fix: tuple[str, ...]
    supports: tuple[str, ...]  # ids of findings


@dataclass(frozen=True, slots=True)
class RuledOut:
    name: str
    reason: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingEvidence:
    what: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    path: str
    world_size: int | None
    nodes: int | None
    attempts: int
    started: str | None
    ended: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What every report is made from."""

    run: RunSummary
    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]  # roots first, the most certain first cause at the top, then cascade, then context
    ruled_out: tuple[RuledOut, ...]
    missing_evidence: tuple[MissingEvidence, ...]
    coverage: tuple[Coverage, ...]
    environment: tuple[Fact, ...] = ()
    hints: tuple[Hint, ...] = ()  # what the training code shows, where it was given
    fingerprint: str | None = None  # the same for the same failure elsewhere: report/fingerprint.py

    def of_role(self, role: Role) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.role is role)

    def hints_apart(self) -> tuple[Hint, ...]:
        """The hints that stand among the notes of no root, and so have to be told by themselves."""
        roots = {finding.id for finding in self.of_role(Role.ROOT)}
        return tuple(hint for hint in self.hints if roots.isdisjoint(hint.supports))

    def _repr_html_(self) -> str:
        """The report as a notebook shows it: redacted, in a frame of its own."""
        from forensics.report.html.notebook import embedded

        return embedded(self)


# One row a number. `step` is the run's own count where the record has one; None where it must be inferred (an HF
# Trainer dict). Rows of one source keep the order in which they were written. `name` is canonical: parsers/names.py.
METRICS_COLUMNS: dict[str, str] = {
    "source": "String",
    "line": "Int64",  # 1-based; None for binary sources
    "rank": "Int32",
    "attempt": "Int32",
    "step": "Int64",
    "epoch": "Float64",
    "time": "Float64",  # seconds since the epoch
    "name": "String",
    "value": "Float64",  # NaN and Inf are kept: they are what one looks for
}

# One row a rank and collective, as a Flight Recorder entry (or a log line) states it.
COLLECTIVES_COLUMNS: dict[str, str] = {
    "source": "String",
    "rank": "Int32",
    "group": "String",  # process group name
    "group_desc": "String",
    "seq": "Int64",  # collective sequence id within the group
    "op": "String",  # "all_reduce", without the backend's prefix
    "input_sizes": "String",  # JSON text, e.g. "[[256]]"
    "output_sizes": "String",
    "dtypes": "String",
    "state": "String",  # "scheduled" | "started" | "completed"
    "retired": "Boolean",
    "time": "Float64",
    "is_p2p": "Boolean",
    "frame": "String",  # innermost user frame "file:line function"
    "stack": "String",  # user frames of a rank's last calls, "file:line function", innermost first, one a line
    "line": "Int64",  # of the source, where it is a log
    "printed": "String",  # how a log numbers the call, e.g. "opCount 28": in hex and from 0, where `seq` counts from 1
}

UNRECORDED = "a collective"  # the `op` of a row made from a counter: it is known that there was one, not which
CALLED = "called"  # the `state` of a call that a log line states: nothing tells whether it has ended


def schema(columns: Mapping[str, str]) -> dict[str, Any]:
    """The polars schema for one of the column tables above (polars is imported only when used)."""
    import polars as pl

    return {name: getattr(pl, dtype) for name, dtype in columns.items()}
