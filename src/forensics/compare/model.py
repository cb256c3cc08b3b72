"""What a comparison is made of. Everything is frozen; reports and JSON are made from `Comparison`."""

from __future__ import annotations

from dataclasses import dataclass

from forensics.model import Evidence


@dataclass(frozen=True, slots=True)
class Side:
    """One of the runs, in short."""

    path: str
    verdict: str
    summary: str
    world_size: int | None
    nodes: int | None
    attempts: int
    first_step: int | None
    last_step: int | None
    stride: int | None = None  # steps between two records, usually


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that both could state, and state differently. None: that side does not state it."""

    name: str
    good: str | None
    bad: str | None
    good_at: str | None = None  # file:line
    bad_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """How the curves of one metric lie to each other.

    kind: "equal" (in every digit that is logged), "noise" (apart by no more than they vary themselves), "parts" (and
    stays apart to the end), "apart-for-a-while", "not-finite" (alike but for values from `step` to `until` that are NaN
    or infinite on one side only), "too-short" (too few common steps to tell noise from a difference).
    """

    metric: str
    kind: str
    ranks: tuple[int, ...] | None  # those that part first, where curves of ranks were compared; else None
    compared_ranks: int
    records: int  # steps that both have
    first_common: int | None
    last_common: int | None
    unit: str  # what positions count: "step", or "record" where no step is logged
    equal_through: int | None  # the last step up to which all values are equal in every digit; None: not even the first
    first_unequal: int | None
    step: int | None = None  # where they part
    until: int | None = None  # the last step of being apart, where they come together again
    good_value: float | None = None
    bad_value: float | None = None
    average_over: int | None = None  # records from `step` on of which the values are averages: one alone does not part
    noise: float | None = None  # in the metric's unit, at `step`
    threshold: float | None = None  # multiples of the noise
    good_at: Evidence | None = None
    bad_at: Evidence | None = None
    later: tuple[int, ...] = ()  # further ranks that differ in the same way, at a later step

    @property
    def differs(self) -> bool:
        return self.kind in ("parts", "apart-for-a-while", "not-finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDifference:
    """The first collective of a group and rank in which the runs differ."""

    rank: int | None
    group: str
    seq: int
    what: str  # "op", "sizes", "dtype" or "number"
    good: str
    bad: str
    ranks: tuple[int, ...]  # all ranks with the same difference at the same place


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A signature (`name` its slug) or a warning (`name` its template) that only one of the runs has."""

    name: str
    title: str
    role: str  # role of the finding, or "message"
    count: int
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDifference:
    """The first place at which a rank was given other samples."""

    rank: int | None
    position: int
    unit: str
    good: str
    bad: str
    good_at: Evidence
    bad_at: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    goods: tuple[Side, ...]
    bad: Side
    shape: tuple[Change, ...]
    settings: tuple[Change, ...]
    expected: tuple[Change, ...]  # settings that differ between any two runs: names, times, places
    partings: tuple[Parting, ...]
    calls: tuple[CallDifference, ...]
    only_bad: tuple[Sign, ...]
    only_good: tuple[Sign, ...]
    messages_only_bad: tuple[Sign, ...]
    messages_only_good: tuple[Sign, ...]
    order: tuple[OrderDifference, ...]
    order_compared: int  # positions of data that both log
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether there is any difference but those that any two runs have."""
        return bool(
            self.shape
            or self.settings
            or self.calls
            or self.only_bad
            or self.only_good
            or self.messages_only_bad
            or self.messages_only_good
            or self.order
            or any(p.differs for p in self.partings)
        )
