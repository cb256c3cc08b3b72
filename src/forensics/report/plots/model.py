"""What the pictures show, as plain numbers and words: made from a run's data, redacted, then drawn.

Nothing here knows of matplotlib. Every tuple is bounded: a picture of 100,000 ranks holds no more than one of 64.
Strings are raw, and can hold text of a log; whoever draws them makes them inert.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sign:
    """Where a finding shows itself first on a lane; `count` of them where a lane stands for several ranks."""

    x: float
    name: str  # of the signature
    root: bool
    count: int = 1


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: a rank, a band of ranks, or a file whose rank is not known."""

    label: str
    ranks: tuple[int, ...]  # () for a file
    spans: tuple[tuple[float, float], ...] = ()  # x of the first and the last sign of life, of each attempt
    signs: tuple[Sign, ...] = ()
    alive: tuple[tuple[float, float], ...] = ()  # of a band: (x, share of its ranks that still write from there on)
    # Of a band with ranks that wrote on without a step: the same with these; `alive` is then without them.
    lingering: tuple[tuple[float, float], ...] = ()
    still: tuple[float, float] | None = None  # the part of the last span in which no step was recorded any more
    culprit: bool = False
    reached: str = ""  # the last collective: "#1234 all_reduce, waits in it"


@dataclass(frozen=True, slots=True)
class Swimlane:
    """Ranks over time (seconds since the epoch) or, where no line bears a time, over steps."""

    axis: str  # "time" | "step"
    start: float
    end: float
    lanes: tuple[Lane, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of numbers; NaN breaks it."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    role: str  # "all" (every rank, or the only writer) | "middle" (median of the ranks) | "rank" | "culprit"


@dataclass(frozen=True, slots=True)
class Spread:
    """The least and the greatest value of all ranks at each x."""

    xs: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Onset:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric over the run."""

    name: str
    axis: str  # "step" | "epoch" | "record"
    scale: str  # "linear" | "log" | "symlog" | "log2"
    curves: tuple[Curve, ...]
    spread: Spread | None = None
    broken: tuple[float, ...] = ()  # x of values that are not finite
    onsets: tuple[Onset, ...] = ()
    notes: tuple[str, ...] = ()
    moments: bool = False  # a record says that something happened; its value says nothing, nor does a line between two


@dataclass(frozen=True, slots=True)
class Reached:
    """How far ranks came in a process group; consecutive entries that agree are one."""

    ranks: tuple[int, ...]
    seq: int
    call: str  # "all_reduce", "" where it is not known
    state: str  # "waits in it" | "done" | "called" | "timed out in it" | "enqueued it"
    place: str = ""  # the user's line of code
    behind: bool = False


@dataclass(frozen=True, slots=True)
class CollectiveProgress:
    """The last collective of each rank in one process group."""

    group: str  # "" where no line names it
    told_by: str  # "Flight Recorder" | "NCCL log" | "watchdog"
    reached: tuple[Reached, ...]  # by rank groups, those that are behind first
    silent: tuple[int, ...] = ()  # members of which nothing is known
    left_out: int = 0  # groups of ranks beyond those shown
    culprits: tuple[int, ...] = ()  # members that a root cause names; no entry holds others beside them

    @property
    def heading(self) -> str:
        return f"process group {self.group}" if self.group else "a process group that no line names"

    @property
    def silences(self) -> tuple[tuple[int, ...], ...]:
        """The silent members, culprits apart from the others."""
        blamed = tuple(rank for rank in self.silent if rank in self.culprits)
        others = tuple(rank for rank in self.silent if rank not in self.culprits)
        return tuple(ranks for ranks in (blamed, others) if ranks)

    def blames(self, ranks: tuple[int, ...]) -> bool:
        """Whether a row of these ranks is one of culprits."""
        return bool(ranks) and set(ranks) <= set(self.culprits)


@dataclass(frozen=True, slots=True)
class Pictures:
    swimlane: Swimlane | None = None
    panels: tuple[Panel, ...] = ()
    sequences: tuple[CollectiveProgress, ...] = ()
    notes: tuple[str, ...] = ()  # what is not drawn, and why
