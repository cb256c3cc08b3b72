"""What triage finds over many jobs. Plain data: no output computes anything from it but words."""

from __future__ import annotations

from dataclasses import dataclass

DRAIN = "drain"
WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGroup:
    """Failures without a known signature that have exception, place and message in common."""

    name: str  # made from what its jobs have in common: "keyerror-load_shard-3fa91c02"
    aliases: tuple[str, ...]  # names of the parts that were joined in it, its own first; each finds the group
    title: str  # one line for people
    exception: str | None  # "KeyError"; None where only last lines tell
    template: str  # the message with <n>, <hex>, <path>, <id>, <text> where jobs differ; at most 300 characters
    frames: tuple[str, ...]  # innermost user frames, "data.py load_shard", innermost first, at most 5
    jobs: tuple[str, ...]  # paths, in the order of the rows
    representative: str  # path of the job to read first
    line: str  # what the representative printed
    gpu_hours: float  # of the jobs for which they are known
    gpu_hours_known: int  # jobs for which they are known
    first: str | None = None  # ISO 8601
    last: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`hits` of `jobs` have the cause."""

    hits: int
    jobs: int

    @property
    def rate(self) -> float:
        """0 to 1."""
        return self.hits / self.jobs if self.jobs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Concentration:
    """A cause is more frequent among jobs with a value than among the others that state one."""

    cause: str  # slug, or the name of an unknown group
    factor: str  # "node", "gpu", "gpu model", "image", "driver", "cuda", "version.<package>", "hparam.<name>"
    value: str  # "node-7"; of a number "> 0.001" or "<= 0.001", split at the median of all jobs
    numeric: bool  # whether p is of a rank test over all values, and not of Fisher's test over `value`
    inside: Share  # jobs with the value
    outside: Share  # jobs with another value
    ratio: float  # inside.rate / outside.rate, 0.5 added to each cell where one is empty
    low: float  # 95 % interval of the ratio
    high: float
    p: float  # one-sided for values, two-sided for numbers
    adjusted: float  # p after Holm's correction for everything that was tried in this triage
    tried: int  # how many tests that was
    jobs: tuple[str, ...]  # paths of the jobs with the cause and the value
    same: tuple[tuple[str, str], ...] = ()  # (factor, value) of the very same jobs: nothing tells them apart


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareEvent:
    """A hardware, host or network cause in one job."""

    job: str  # path
    time: str | None  # ISO 8601, as the job states it
    seconds: float | None  # the same since the epoch, a time without a zone read as UTC; for a timeline
    cause: str  # slug
    role: str  # "root" | "cascade" | "context"
    what: str  # what tells it: "Xid 79", "rank 3", a bus id; at most 120 characters
    counted: bool  # False for what the job survived (context) and for a second job of one incident


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyUnit:
    """A node or GPU that had hardware, host or network causes in several jobs at several times."""

    kind: str  # "node" | "gpu"
    name: str  # the node's name; of a GPU its serial, else "<node> <bus id>", else "<node> GPU <index>"
    node: str | None  # of a GPU, where it was seen last
    before: tuple[str, ...] = ()  # nodes in which a GPU of this serial had its incidents before, the earliest first
    bus_id: str | None
    serial: str | None
    index: int | None  # CUDA index
    advice: str  # DRAIN: more often than chance against the other nodes; WATCH: the evidence does not reach that
    incidents: int  # jobs, those within ten minutes of each other counted once
    here: Share  # incidents of the jobs that ran here
    elsewhere: Share  # the same for the other nodes
    ratio: float | None  # of the two rates, 0.5 added to each cell where one is empty; None where nothing ran elsewhere
    low: float | None  # 95 % interval
    high: float | None
    p: float | None  # Fisher's test, one-sided
    adjusted: float | None  # p after Holm's correction for all nodes and GPUs
    causes: tuple[tuple[str, int], ...]  # (slug, jobs), most jobs first
    events: tuple[HardwareEvent, ...]  # the timeline, earliest first, unknown times last
    jobs: tuple[str, ...]  # paths of the counted jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Insights:
    """Computed over all jobs, also those that a filter leaves out: without them there is nothing to compare with."""

    unknown: tuple[UnknownGroup, ...] = ()  # most jobs first
    concentrations: tuple[Concentration, ...] = ()  # least likely by chance first
    hardware: tuple[FlakyUnit, ...] = ()  # DRAIN first, then most incidents
    tried: int = 0  # tests behind `concentrations`
    notes: tuple[str, ...] = ()  # what was not looked at, and why
