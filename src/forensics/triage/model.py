"""The types that cross the seams of triage: find jobs -> analyse each -> store -> group -> show.

A result is plain data and depends on the content of its job alone: the same bytes give the same result on every engine
and machine. What depends on where and when triage ran (paths, dates of the analysis) stands in the rows around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forensics.triage.insight.model import Insights

RESULT_VERSION = 10  # of JobResult's JSON form; a stored result of another version is made anew

# What became of a job that has no diagnosis: the first word of `JobResult.error`.
CRASHED = "crashed"  # the worker died: a signal, an exit
TIMED_OUT = "timeout"
OUT_OF_MEMORY = "memory"
NOTHING = "nothing"  # there is nothing to analyse
UNREADABLE = "unreadable"  # the path is gone, or may not be read
FAULT = "fault"  # an exception, which is a fault of forensics

# Causes that say that something failed, and not what.
VAGUE = frozenset({"python-exception", "insufficient-evidence"})
# A loader's, which raises again what the user's code raised in a worker: that exception tells what failed.
IN_A_WORKER = "dataloader-worker-exception"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job that was found, before anything of it is read."""

    path: str  # what rows show: as the user gave it, with "/"; unique in a triage
    layout: str  # how it was found; docs/triage.md has the list
    parts: tuple[str, ...]  # paths to give to `analyse`
    labels: Mapping[str, str] = field(default_factory=dict)  # what its place says: "array_task": "7"
    guessed: tuple[str, ...] = ()  # folders or logs of which each can be a job, where nothing tells that they are one


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as a job's files name it."""

    node: str | None
    bus_id: str | None = None  # "0000:3b:00.0"-like, lower case
    serial: str | None = None  # serial number or UUID
    index: int | None = None  # CUDA index on its node
    blamed: bool = False  # a root finding of the job names it
    listed: bool = False  # a line that lists what the job runs on names it, whatever became of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A finding of a job in short; all of them, so that hardware can be looked for behind other causes."""

    name: str  # slug
    role: str  # "root" | "cascade" | "context"
    severity: str
    confidence: float
    ranks: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    node: str | None = None
    step: int | None = None
    time: str | None = None
    captures: Mapping[str, str] = field(default_factory=dict)  # of its rule: "bus_id", "xid", ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The key line of a finding."""

    file: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """What a failure without a known signature left behind; None in a result whose cause is known.

    Everything is as it was printed (cleaned of prefixes), at most a few kilobytes: normalising is done by who groups.
    """

    exception: str | None = None  # "KeyError", "mylib.errors.ShardError"; of the first traceback of the blamed rank
    message: str | None = None
    frames: tuple[tuple[str, int, str], ...] = ()  # user frames (file, line, function), outermost first
    last_lines: tuple[str, ...] = ()  # last non-empty line of each source, most frequent first
    last_error: str | None = None  # the error, by its level, with which a log ends but for lines that say less


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One row of a triage."""

    path: str
    layout: str
    fingerprint: str  # SHA-256 (hex) of names and content; "" where the job could not be read
    bytes: int
    files: int
    modified: float | None  # seconds since the epoch: the newest file

    error: str | None = None  # "timeout: ...", see above; then there is no diagnosis
    verdict: str | None = None  # of model.Verdict
    root: str | None = None  # slug of the first root
    roots: tuple[str, ...] = ()  # all of them, the first one first
    codes: tuple[str, ...] = ()
    title: str | None = None
    severity: str | None = None  # "fatal" | "error" | "warning" | "info"
    confidence: float | None = None
    ranks: tuple[int, ...] | None = None
    node: str | None = None
    step: int | None = None
    step_unit: str | None = None
    epoch: float | None = None
    attempt: int | None = None
    time: str | None = None  # of the root, ISO 8601; "Z" only where the zone is known
    evidence: Place | None = None
    fix: str | None = None
    summary: str = ""

    world_size: int | None = None
    attempts: int | None = None
    started: str | None = None
    ended: str | None = None
    gpu_hours: float | None = None  # GPUs (triage/hours.py) x (ended - started); None where either is unknown

    signs: tuple[Sign, ...] = ()
    nodes: tuple[str, ...] = ()  # every node that the job's files name, sorted
    devices: tuple[Device, ...] = ()
    # What the job ran with and on: "hparam.<name>", "version.<package>", "image", "gpu", "array_task", ...
    labels: Mapping[str, str] = field(default_factory=dict)
    unexplained: Unexplained | None = None
    # (kind, name): what the job's files tell to be a user, a host, ...; for redaction alone, and in no output.
    names: tuple[tuple[str, str], ...] = ()

    @property
    def cause(self) -> str:
        """The name under which the row is counted: the root, else what became of it in brackets."""
        if self.root is not None:
            return self.root
        return f"({self.error.split(':', 1)[0]})" if self.error else f"({self.verdict or 'unknown'})"

    @property
    def reached(self) -> str | None:
        """Where it happened, for people: the step, else the epoch; None where neither is known."""
        if self.step is not None:
            return str(self.step)
        return f"epoch {self.epoch:g}" if self.epoch is not None else None

    @property
    def failed(self) -> bool:
        """Whether it counts as failed: a root or a verdict that is trouble, and no later attempt that got over it."""
        if self.verdict == "recovered":
            return False
        return self.root is not None or self.verdict in ("failed", "hung", "diverged", "suspect", "interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """A line of the table "causes by count"; `first` and `last` are over all that the store knows, not this batch."""

    cause: str
    title: str | None
    severity: str | None
    jobs: int
    gpu_hours: float  # of the jobs for which they are known
    gpu_hours_known: int  # jobs for which they are known
    first: str | None = None  # ISO 8601: the earliest job of this cause
    last: str | None = None
    example: str | None = None  # path of the most certain row


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What every output of a triage is made from."""

    paths: tuple[str, ...]  # as given, without credentials
    results: tuple[JobResult, ...]  # sorted by path, naturally: task 9 before task 10
    causes: tuple[CauseCount, ...]  # most jobs first
    made: float  # seconds since the epoch; ages are counted from here
    found: int = 0  # jobs under the paths; `results` are those that the filters let through
    reused: int = 0  # rows that came from the store
    store: str | None = None
    reports: Mapping[str, str] = field(default_factory=dict)  # path of a job -> relative link to its report
    notes: tuple[str, ...] = ()  # what was left out and why
    jobs: Mapping[str, Job] = field(default_factory=dict)  # path of a row -> where its files are; no output shows it
    insights: Insights = field(default_factory=Insights)  # computed over all jobs; of them what concerns `results`
