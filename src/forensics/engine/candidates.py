"""Observations of one signature in one attempt become a candidate: what it is of, when it came, whom it blames."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forensics.engine import aftermath, kernel
from forensics.engine.detectors.names import TOGETHER
from forensics.engine.identity import World
from forensics.engine.raised import by_place
from forensics.engine.survival import GENERIC_EXCEPTION
from forensics.model import Observation
from forensics.signatures.schema import Signature

# Captures that name a process, even where it is not the one that printed the line.
_NAMES = {"local_rank", "device", "task", "pid"}
# Exceptions of a program's own code; a value may come from a peer, a name or a key does not.
OF_CODE = frozenset(
    "KeyError IndexError TypeError AttributeError NameError UnboundLocalError ImportError ModuleNotFoundError "
    "ZeroDivisionError SyntaxError JSONDecodeError UnicodeDecodeError".split()
)
OF_FILES = frozenset("FileNotFoundError PermissionError NotADirectoryError IsADirectoryError FileExistsError".split())
# What torch.distributed raises in a rank whose peer, or the store on it, is gone: "RuntimeError: Broken pipe" before
# torch 2.3, then errors of these classes.
_OF_PEERS = frozenset({"DistError", "DistNetworkError", "DistStoreError", "DistBackendError"})
_GONE = re.compile(r"(?:\[?Errno \d+\]? ?)?(?:Broken pipe|Connection reset by peer|Socket Timeout)\.?$")


@dataclass(slots=True)
class Candidate:
    """All observations of one signature in one attempt, on its way to becoming a finding."""

    signature: Signature
    attempt: int
    observations: list[Observation]
    ranks: tuple[int, ...] | None
    everywhere: bool  # seen on every rank that is known
    time: float | None
    explained_by: Candidate | None = None
    explains: list[Candidate] = field(default_factory=list)
    context: str | None = None  # why it is context and no trouble
    recovered: bool = False  # a later start of the run got over it and reached the end
    yields: str | None = None  # why it stands behind other roots
    overcome: bool = False  # a later attempt got past it, and came to grief by something else
    late: bool = False  # it came after what others say of a failure, and another rank's own error before that
    follows: Candidate | None = None  # an error of a rank that a launcher saw die before the one this is of
    untold: bool = False  # another root lies so close to it that nothing tells which came first
    lost_host: str | None = None  # the host that others lost, by `lost_hosts`; empty where that is not told
    subject: str = ""  # tells candidates of one signature apart (an exception's type)
    outlived: tuple[Observation, ...] = ()  # earlier signs that did not end their process; not among `observations`

    @property
    def raised_alone(self) -> bool:
        """Whether it is an exception of a kind that the program or its files bring about, and no other rank."""
        return self.signature.name == GENERIC_EXCEPTION and self.subject.rpartition(".")[2] in OF_CODE | OF_FILES

    @property
    def of_peers(self) -> bool:
        """Whether it is an exception that torch.distributed raises as another rank is gone."""
        return all(map(_of_peers, self.observations))

    @property
    def weight(self) -> float:
        return max(o.weight for o in self.observations)

    @property
    def key(self) -> Observation:
        """The observation that shows it best: the surest one, and of these the first."""
        best = self.weight
        return next(o for o in self.observations if o.weight >= best - 0.05)

    def captured(self, name: str) -> bool:
        """Whether any sign bears a capture."""
        return any(name in o.captures for o in self.observations)

    @property
    def count(self) -> int:
        """How often it was seen; a line that two of its rules match counts once."""
        return times_seen(self.observations)


def times_seen(observations: Iterable[Observation]) -> int:
    """How often one signature was seen; a line that two of its rules match counts once."""
    at: dict[tuple[str, int | None], int] = {}
    elsewhere = 0
    for o in observations:
        if o.evidence[0].offset is None:
            elsewhere += o.count
        else:
            place = (o.evidence[0].file, o.evidence[0].offset)
            at[place] = max(at.get(place, 0), o.count)
    return elsewhere + sum(at.values())


def grouped(observations: Iterable[Observation], catalogue: Mapping[str, Signature], world: World) -> list[Candidate]:
    """Observations grouped by signature and attempt. A rule's `at_least` has been applied before."""
    groups: dict[tuple[str, int, str, str, bool], list[Observation]] = defaultdict(list)
    for o in observations:
        groups[o.signature, o.identity.attempt or 0, _subject(o), kernel.elsewhere(o), _of_peers(o)].append(o)
    result = []
    for (name, attempt, subject, _, _), together in groups.items():
        signature = catalogue[name]
        together = _in_order(together)
        for members in by_place(together) if name == GENERIC_EXCEPTION else [together]:
            ranks, everywhere = _blamed(signature, members, world)
            times = [o.time for o in members if o.time is not None]
            result.append(
                Candidate(signature, attempt, members, ranks, everywhere, min(times, default=None), subject=subject)
            )
    return result


def _in_order(observations: Sequence[Observation]) -> list[Observation]:
    """Observations in the order of their times. One above the first time of its file comes before that one.

    Those of files without any time come last.
    """
    first: dict[str, float] = {}
    for o in observations:
        if o.time is not None:
            first[o.evidence[0].file] = min(o.time, first.get(o.evidence[0].file, o.time))

    def key(o: Observation) -> tuple[float, int]:
        time = o.time if o.time is not None else first.get(o.evidence[0].file, float("inf"))
        return time, o.evidence[0].line or 0

    return sorted(observations, key=key)


def sum_up_without(c: Candidate, signs: Sequence[Observation], world: World) -> None:
    """Let a candidate be of its other signs alone: where, when and how often are those of what ended the run."""
    apart = {id(o) for o in signs}
    c.observations = [o for o in c.observations if id(o) not in apart]
    c.ranks, c.everywhere = _blamed(c.signature, c.observations, world)
    c.time = min((o.time for o in c.observations if o.time is not None), default=None)


FEWEST_REPORTS = 3  # ranks that all say that one is missing


def _blamed(
    signature: Signature, observations: Sequence[Observation], world: World
) -> tuple[tuple[int, ...] | None, bool]:
    """(culprit ranks or None, whether every known rank shows it)."""
    if world.single:
        return None, False
    named: set[int] = set()
    shown: set[int] = set()
    nobody = False
    printed: set[int | None] = set()
    together = any(TOGETHER in o.captures for o in observations)
    for o in observations:
        rank = world.of(o)
        printed.add(rank)
        if o.culprits is not None:
            named.update(o.culprits)
            nobody = nobody or not o.culprits
            continue
        stated = signature.evidence[o.rule].culprit if o.rule is not None else None
        policy = stated or signature.culprit
        own = policy == "self" and (not together or "rank" in o.captures)
        if rank is not None and (own or (policy == "named" and _NAMES & o.captures.keys())):
            shown.add(rank)
    if named:
        ranks = named
    elif signature.culprit == "silent":
        ranks = _first_member(world, observations) or _silent(world, observations)
    elif not shown and _of_a_few(signature, printed, world):
        ranks = {rank for rank in printed if rank is not None}
    elif nobody and not shown:
        return None, False
    else:
        ranks = shown
    if not ranks:
        return None, False
    # Every rank naming itself is everybody; one sign that names all of them (two ranks that disagree) is not.
    as_one = any(o.culprits is not None and ranks <= set(o.culprits) for o in observations)
    everywhere = not as_one and world.size is not None and len(ranks) >= world.size > 1
    if everywhere:
        return None, True
    return tuple(sorted(ranks)), False


# What a process finds wrong with how others were launched: rank 0, where all of them meet, is the one to print it.
_OF_THE_LAUNCH = frozenset({"duplicate-rank-launch"})


def _of_a_few(signature: Signature, printed: Collection[int | None], world: World) -> bool:
    """Whether ranks that alone print a cause which any rank may print are those that it is of: half of all at most.

    Not what ranks say of each other, nor of all of them together.
    """
    if signature.kind != "cause" or signature.severity != "fatal" or signature.verdict != "failed":
        return False
    if signature.area in aftermath.OF_OTHERS or signature.name in _OF_THE_LAUNCH or None in printed:
        return False
    return 0 < 2 * len(printed) <= len(world.ranks)


def _first_member(world: World, observations: Sequence[Observation]) -> set[int]:
    """Rank 0, where two ranks or more wait in vain for the id of NCCL's communicator, which the first member writes.

    The message counts the members of a group: only where each bears the number of its rank is the first one rank 0.
    Nobody where rank 0 says that it waits as well.
    """
    waiting = {(world.of(o), o.captures["member"]) for o in observations if "member" in o.captures}
    reported = {world.of(o) for o in observations}
    if len(waiting) < 2 or not reported.isdisjoint((0, None)) or any(str(rank) != member for rank, member in waiting):
        return set()
    return {0}


def _silent(world: World, observations: Sequence[Observation]) -> set[int]:
    """The ranks of a stated world that did not report what the others did: as many as a line says that did not come, or
    one where all others report. Else those of which no line was seen at all; nobody where they are as many as those
    that spoke.
    """
    if world.size is None or not world.size_is_stated:
        return set()
    everyone = set(range(world.size))
    missing = {world.size - int(n) for o in observations if (n := o.captures.get("joined", "")).isdecimal()}
    reported = {rank for o in observations if (rank := world.of(o)) is not None}
    quiet = everyone - reported
    if missing == {len(quiet)} or (len(quiet) == 1 and len(reported) >= FEWEST_REPORTS):
        return quiet
    spoke = set(world.ranks) - world.unheard
    silent = everyone - spoke
    return silent if 0 < len(silent) < len(spoke) or missing == {len(silent)} else set()


def _subject(observation: Observation) -> str:
    return observation.captures.get("exception", "") if observation.signature == GENERIC_EXCEPTION else ""


def _of_peers(o: Observation) -> bool:
    if o.signature != GENERIC_EXCEPTION:
        return False
    name = o.captures.get("exception", "").rpartition(".")[2]
    return name in _OF_PEERS or (
        name == "RuntimeError" and _GONE.match(o.captures.get("message", "").strip()) is not None
    )
