"""Root cause against cascade: observations become candidate findings, and candidates explain each other.

A explains B where the catalogue says that A can bring B about and their order does not speak against it. What nothing
explains is a root. The rules, in this order:

1. A parent is absorbed by its child (out of memory in cuDNN is not also a CUDA out of memory).
2. A hang that stood for some seconds explains the stop (a termination request, a time limit) that ended it; a stop that
   came first explains the hang of those that waited for the stopped process. A wait that was given up says why peers
   are lost afterwards. What a missing rank itself said before the others gave up explains why it was missing.
   So does what another rank says of itself for those that waited for it, or whose torch.distributed lost it.
3. A cause explains what its `causes` lists, in the same or a later attempt; a loss or gradient that is not finite, the
   checks that say so; the death of a rank, that its peers were refused, aborted, or waited until their time was up.
4. A cause that ends a run explains every symptom and echo of its attempt, and the echoes of later ones that have no
   trouble of their own.
5. Among symptoms, the one that is observed first explains the others; symptoms explain echoes. A signal that ended a
   rank which had lost a peer before follows from what ended that peer.
6. What the run survived (the same rank goes on for several steps, and nothing says that it died) is context.
7. What ended an attempt comes first: later attempts often die of its remains. Where the last attempt went on past the
   point at which an earlier one had died, and died of something else, that is what ended the run.
8. Of two messages of the kernel the one that names a process which the launcher saw die comes first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forensics.engine import aftermath, beforehand, cluster, cut_saves, kernel, order, survival, whose
from forensics.engine.finishes import EXIT_STATUS, FINISHED, absolved, was_over
from forensics.engine.hangs import LOST_PEER, SAME_ZONE, hang_came_first, is_hang, is_stop, is_teardown, said_before
from forensics.engine.identity import World
from forensics.engine.order import MEMORY_KILLS
from forensics.engine.raised import by_place, own_frame, passes_on
from forensics.engine.steps import StepClock
from forensics.engine.survival import DEATHS, ENDS_A_RUN, GENERIC_EXCEPTION
from forensics.model import Observation, Source, Traceback
from forensics.signatures.schema import Signature

# Clocks of hosts and of files of one host differ; an effect may be stamped this much before its cause (seconds).
CLOCK_SLACK = 90.0
# Zones lie a multiple of this apart, and at most OFFSETS (seconds).
ZONES, OFFSETS = 900.0, 26 * 3600.0
# A traceback's last line and the lines of its message that follow it (state_dict key lists, CUDA hints).
MESSAGE_LINES = 12
# Captures that name a process, even where it is not the one that printed the line.
_NAMES = {"local_rank", "device", "task", "pid"}
# What raises on its own when it meets a number that is not finite: checks of programs and libraries.
_NAN = re.compile(r"(?i)(?<![a-z])(?:nans?|infs?|infinity|non-?finite|not finite)(?![a-z])")
# What a shell or a launcher sees of a process that something outside of the run killed, and what else it may be.
KILLED = frozenset({"sigkill-unknown-sender"})
LAUNCHERS_REPORT = "child-failed-error"
EXITED_EARLY = "rank-exited-early"
MPI_EXIT = "mpirun-rank-exited"
# Exceptions of a program's own code; a value may come from a peer, a name or a key does not.
OF_CODE = frozenset(
    "KeyError IndexError TypeError AttributeError NameError UnboundLocalError ImportError ModuleNotFoundError "
    "ZeroDivisionError SyntaxError JSONDecodeError UnicodeDecodeError".split()
)

OF_FILES = frozenset("FileNotFoundError PermissionError NotADirectoryError IsADirectoryError FileExistsError".split())
# What ranks say that wait for one which does not come: an error of another rank's own says why it does not.
WAITS = frozenset({"store-timeout", "rendezvous-timeout"})
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
    untold: bool = False  # another root lies so close to it that nothing tells which came first
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


def exception_observations(
    tracebacks: Sequence[Traceback], observations: Sequence[Observation], catalogue: Mapping[str, Signature]
) -> tuple[Observation, ...]:
    """Tracebacks that no signature has recognised by their message, as observations of `python-exception`.

    Of a chain made by `raise ... from ...` the first traceback is the origin; the later ones are its wrappers.
    """
    if GENERIC_EXCEPTION not in catalogue:
        return ()
    known: dict[str, list[tuple[int, int | None, bool]]] = defaultdict(list)
    for o in observations:
        if o.rule is None and o.culprits:
            continue  # concluded from several lines: the first need not be one of the rank that is blamed
        if o.signature == EXIT_STATUS:
            continue  # says that something ended, also in the record that holds the traceback
        if catalogue[o.signature].kind in ("cause", "symptom", "echo") and o.evidence[0].line is not None:
            # A launcher's report stands close below what a process said, and is no part of that.
            reports = o.signature in DEATHS or catalogue[o.signature].area in ("launch", "collectives", "lifecycle")
            known[o.evidence[0].file].append((o.evidence[0].line, o.identity.rank, reports))
    found = []
    ordered = sorted(tracebacks, key=lambda t: (t.header.file, t.header.line or 0))
    for i, traceback in enumerate(ordered):
        first, last = traceback.header.line or 0, traceback.final.line or 0
        own = (traceback.identity.rank,)  # in a file of several ranks, other ranks' lines lie close by
        after = [t.header.line or 0 for t in ordered[i + 1 : i + 2] if t.header.file == traceback.header.file]
        limit = min((line - 1 for line in after if line > last), default=last + MESSAGE_LINES)
        near = [
            rank
            for line, rank, reports in known[traceback.header.file]
            if first <= line <= (last if reports else min(last + MESSAGE_LINES, limit))
        ]
        if any(rank in own or traceback.identity.rank is None for rank in near):
            continue
        if (kind := traceback.exception.rsplit(".", 1)[-1]) in ("KeyboardInterrupt", "SystemExit"):
            continue
        if kind == "StopIteration" and i + 1 < len(ordered) and ordered[i + 1].chained == "context":
            continue  # the end of an iterator, in whose handling something else was raised
        if traceback.chained == "ignored" or passes_on(ordered, i):
            continue
        if traceback.chained == "cause" and i and ordered[i - 1].header.file == traceback.header.file:
            continue
        frame = own_frame(ordered, i) or traceback.user_frame
        captures = {"exception": traceback.exception, "message": traceback.message[:400]}
        if frame:
            captures |= {"file": frame[0], "line": str(frame[1]), "function": frame[2]}
        if traceback.thread is not None:
            captures["thread"] = traceback.thread
        found.append(
            Observation(
                signature=GENERIC_EXCEPTION,
                weight=0.8,
                evidence=(traceback.final, traceback.header),
                identity=traceback.identity,
                time=traceback.time,
                zone_known=traceback.zone_known,
                timed=traceback.timed,
                captures=captures,
                note=f"{traceback.exception} was raised"
                + (f" at {frame[0]}:{frame[1]} in {frame[2]}" if frame else ""),
            )
        )
    return tuple(found)


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
    for o in observations:
        rank = world.of(o)
        printed.add(rank)
        if o.culprits is not None:
            named.update(o.culprits)
            nobody = nobody or not o.culprits
            continue
        stated = signature.evidence[o.rule].culprit if o.rule is not None else None
        policy = stated or signature.culprit
        if rank is not None and (policy == "self" or (policy == "named" and _NAMES & o.captures.keys())):
            shown.add(rank)
    if named:
        ranks = named
    elif signature.culprit == "silent":
        ranks = _silent(world, observations)
    elif not shown and _of_a_few(signature, printed, world):
        ranks = {rank for rank in printed if rank is not None}
    elif nobody and not shown:
        return None, False
    else:
        ranks = shown
    if not ranks:
        return None, False
    # Every rank naming itself is everybody; one sign that names all of them (two ranks that disagree) is not.
    together = any(o.culprits is not None and ranks <= set(o.culprits) for o in observations)
    everywhere = not together and world.size is not None and len(ranks) >= world.size > 1
    if everywhere:
        return None, True
    return tuple(sorted(ranks)), False


def _of_a_few(signature: Signature, printed: Collection[int | None], world: World) -> bool:
    """Whether ranks that alone print a cause which any rank may print are those that it is of: half of all at most.

    Not what ranks say of each other, nor of all of them together.
    """
    if signature.kind != "cause" or signature.severity != "fatal" or signature.verdict != "failed":
        return False
    if signature.area in aftermath.OF_OTHERS or None in printed:
        return False
    return 0 < 2 * len(printed) <= len(world.ranks)


def _silent(world: World, observations: Sequence[Observation]) -> set[int]:
    """The ranks of a stated world of which no line was seen; nobody where they are as many as those that spoke.

    Unless a line says that just as many did not come: then it is they, also where one of two is missing.
    """
    if world.size is None or not world.size_is_stated:
        return set()
    spoke = set(world.ranks) - world.unheard
    silent = set(range(world.size)) - spoke
    missing = {world.size - int(n) for o in observations if (n := o.captures.get("joined", "")).isdecimal()}
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


def candidates(
    observations: Iterable[Observation], catalogue: Mapping[str, Signature], world: World
) -> list[Candidate]:
    """Observations grouped by signature and attempt. A rule's `at_least` has been applied before."""
    groups: dict[tuple[str, int, str, str, bool], list[Observation]] = defaultdict(list)
    for o in observations:
        groups[o.signature, o.identity.attempt or 0, _subject(o), kernel.elsewhere(o), _of_peers(o)].append(o)
    result = []
    for (name, attempt, subject, _, _), together in groups.items():
        signature = catalogue[name]
        together.sort(key=lambda o: (o.time if o.time is not None else float("inf"), o.evidence[0].line or 0))
        for members in by_place(together) if name == GENERIC_EXCEPTION else [together]:
            ranks, everywhere = _blamed(signature, members, world)
            times = [o.time for o in members if o.time is not None]
            result.append(
                Candidate(signature, attempt, members, ranks, everywhere, min(times, default=None), subject=subject)
            )
    return result


def _sum_up_without(c: Candidate, signs: Sequence[Observation], world: World) -> None:
    """Let a candidate be of its other signs alone: where, when and how often are those of what ended the run."""
    apart = {id(o) for o in signs}
    c.observations = [o for o in c.observations if id(o) not in apart]
    c.ranks, c.everywhere = _blamed(c.signature, c.observations, world)
    c.time = min((o.time for o in c.observations if o.time is not None), default=None)


def _before(a: Candidate, b: Candidate) -> bool:
    """Nothing in the clocks speaks against a having come before b."""
    if a.attempt != b.attempt:
        return a.attempt < b.attempt
    if a.time is None or b.time is None:
        return True
    if a.late and a.time > b.time and not set(a.ranks or ()) & set(b.ranks or ()):
        return False
    return a.time <= b.time + CLOCK_SLACK or _zones_differ(a, b)


def _zones_differ(a: Candidate, b: Candidate) -> bool:
    """Whether their times lie so far apart that it may be by their zones, of which one is not known."""
    one, other = a.observations[0], b.observations[0]
    apart = abs((a.time or 0.0) - (b.time or 0.0))
    beside = abs((apart + ZONES / 2) % ZONES - ZONES / 2)
    return one.zone_known != other.zone_known and SAME_ZONE <= apart <= OFFSETS and beside <= CLOCK_SLACK


def _descends(name: str, ancestor: str, catalogue: Mapping[str, Signature]) -> bool:
    seen = set()
    while name in catalogue and name not in seen:
        seen.add(name)
        parent = catalogue[name].parent
        if parent == ancestor:
            return True
        name = parent or ""
    return False


def _reach(name: str, catalogue: Mapping[str, Signature]) -> set[str]:
    """Everything a signature can bring about, over any number of steps."""
    reached: set[str] = set()
    open_names = [name]
    while open_names:
        n = open_names.pop()
        for effect in (*catalogue[n].causes, *catalogue[n].causes_on_rank) if n in catalogue else ():
            if effect not in reached:
                reached.add(effect)
                open_names.append(effect)
    return reached


def _order(c: Candidate) -> tuple[object, ...]:
    """Sort key: the most telling first."""
    severity = {"fatal": 0, "error": 1, "warning": 2, "info": 3}[c.signature.severity]
    kind = {"cause": 0, "symptom": 1, "echo": 2}.get(c.signature.kind, 3)
    return (
        c.overcome or (c.signature.verdict not in ENDS_A_RUN and c.signature.severity != "fatal"),
        c.signature.kind == "echo"
        or c.signature.name in (*LOST_PEER, EXITED_EARLY)
        or c.of_peers,  # tells nothing of a cause, in whatever attempt
        c.yields is not None,
        c.attempt,  # what ended the first attempt is the cause; later attempts often die of its remains
        kind,
        severity,
        -round(c.weight + c.signature.specificity / 200, 3),
        c.time if c.time is not None else float("inf"),
        c.key.evidence[0].line or 0,
    )


def _link(cause: Candidate, effect: Candidate) -> None:
    effect.explained_by = cause
    cause.explains.append(effect)


def explain(
    found: Sequence[Candidate],
    catalogue: Mapping[str, Signature],
    steps: StepClock,
    world: World,
    times: order.Timeline = order.NOTHING_KNOWN,
) -> list[Candidate]:
    """Link candidates by the rules above; returns them with the roots first, in order of how telling they are."""
    live = [c for c in found if c.signature.kind in ("cause", "symptom", "echo")]
    finished = [c for c in found if c.signature.name == FINISHED]
    survival.set_aside(found, live, steps, world)
    for c in live:
        if c.outlived:
            _sum_up_without(c, c.outlived, world)
    kernel.set_aside(found, steps)
    cluster.set_aside(found, live, steps)
    beforehand.set_aside(live, ENDS_A_RUN)
    cut = cut_saves.revive(found)
    live = [c for c in live if c.context is None]
    _mark_overcome(live, steps)
    _mark_late(live, times)
    live.sort(key=_order)
    for c in live:  # 1: parents
        child = next(
            (
                o
                for o in live
                if o is not c
                and o.attempt == c.attempt
                and _descends(o.signature.name, c.signature.name, catalogue)
                and (o.signature.kind == "cause" or c.signature.kind != "cause")
            ),
            None,
        )
        if child is not None:
            _link(child, c)
    for end, damage in cut:
        if damage.explained_by is None:
            _link(end, damage)
    _link_hangs_and_stops(live, catalogue)  # 2
    _link_teardowns(live)
    _link_reports(live)
    _link_missing_ranks(live)
    _link_waits(live, world)
    for c in live:  # 3: what the catalogue says
        if c.explained_by is not None:
            continue
        reach_of = {id(o): _reach(o.signature.name, catalogue) for o in live if o is not c}
        for o in sorted(live, key=lambda o: o.attempt != c.attempt):
            if o is c or c.signature.name not in reach_of[id(o)] or not _before(o, c) or _depends(o, c):
                continue
            if o.overcome and o.attempt != c.attempt:
                continue
            if (c.signature.kind == "echo" and not _may_echo(o, c, live)) or _raised_by_another(o, c):
                continue
            if (
                c.signature.name in o.signature.causes_on_rank
                and o.ranks
                and c.ranks
                and not set(o.ranks) & set(c.ranks)
            ):
                continue
            _link(o, c)
            break
    _link_checks(live)
    _link_aftermath(live, steps, world)
    causes = [c for c in live if c.signature.kind == "cause" and c.signature.verdict in ENDS_A_RUN]
    for c in live:  # 4: a cause that ends a run explains all symptoms and echoes
        if c.explained_by is not None or c.signature.kind == "cause":
            continue
        reasons = [
            o
            for o in causes
            if (o.attempt == c.attempt or (c.signature.kind == "echo" and _may_echo(o, c, live)))
            and _before(o, c)
            and not _depends(o, c)
            and not _raised_by_another(o, c)
        ]
        if reasons:
            _link(reasons[0], c)
    symptoms = sorted((c for c in live if c.signature.kind == "symptom" and c.explained_by is None), key=_symptom_order)
    if symptoms and is_stop(symptoms[0]):  # a launcher's own stop follows from what one rank raised above it
        stop = symptoms[0]
        raised = [c for c in symptoms if c.signature.name == GENERIC_EXCEPTION and _stands_above(c, stop)]
        symptoms.sort(key=lambda c: not (raised and c is raised[0]))
    for c in symptoms[1:]:  # 5: the first symptom explains the others
        if _before(symptoms[0], c) and not _of_another_run(symptoms[0], c) and not _raised_by_another(symptoms[0], c):
            _link(symptoms[0], c)
    _link_ends_of_peers(live, world)
    _link_losses_of_one(live, world)
    for c in live:
        if c.signature.kind == "echo" and c.explained_by is None:
            earlier = [o for o in live if o.signature.kind != "echo" and _may_echo(o, c, live) and not _depends(o, c)]
            if earlier:
                _link(earlier[0], c)
    echoes = sorted((c for c in live if c.signature.kind == "echo" and c.explained_by is None), key=_order)
    for c in echoes[1:]:
        _link(echoes[0], c)
    if echoes and all(_outlived(e, steps, world, finished) is not None for e in echoes):
        for c in echoes:
            c.explained_by, c.context = None, _outlived(c, steps, world, finished)
        echoes[0].explains.clear()
        return [c for c in live if c.context is None]
    return live


def _mark_overcome(live: Sequence[Candidate], steps: StepClock) -> None:
    """Mark what the last attempt that failed had left behind when it died of something else.

    A process that was killed from outside, nobody says by whom, leaves nothing behind of which a later one dies.
    """
    ends = [c for c in live if c.signature.kind != "echo" and c.signature.verdict in (*ENDS_A_RUN, "diverged")]
    last = max((c.attempt for c in ends), default=0)
    # That a rank lost a peer is said in each attempt, whatever ended it.
    telling = [c for c in ends if c.signature.name not in LOST_PEER and not c.of_peers]
    own = {(c.signature.name, c.subject) for c in telling if c.attempt == last}
    for c in ends:
        if c.signature.name in KILLED and c.attempt < last and (c.signature.name, c.subject) not in own:
            c.yields = f"attempt {last} began anew after it and died of something else"
    if last not in steps.reached:
        # A loss that was lost shows that the attempt trained, also where nothing counts its steps.
        lost = any(c.attempt == last and c.signature.verdict == "diverged" for c in ends)
        for c in live if lost else ():
            if c.attempt < last and (c.signature.name, c.subject) not in own:
                c.overcome = True
                c.yields = f"attempt {last} trained on after it and came to grief by something else"
        return
    for attempt in {c.attempt for c in live} - {last}:
        before = steps.reached.get(attempt)
        if before is None or attempt > last or steps.reached[last] < before + survival.STEPS_AFTER_DEATH:
            continue
        if own & {(c.signature.name, c.subject) for c in telling if c.attempt == attempt}:
            continue  # the same again: it was not overcome
        for c in live:
            if c.attempt == attempt:
                c.overcome = True
                c.yields = f"attempt {last} went on past it to step {steps.reached[last]} and died of something else"


def _mark_late(live: Sequence[Candidate], times: order.Timeline) -> None:
    """Put behind what by its clock came only after a failure had begun elsewhere."""
    why = order.late(live, times)
    for c in live:
        if id(c) in why:
            c.late, c.yields = True, c.yields or why[id(c)]


def _may_echo(cause: Candidate, echo: Candidate, live: Sequence[Candidate]) -> bool:
    """Whether an echo can be of a cause by their attempts: of an earlier one only where its own holds no trouble."""
    if cause.attempt == echo.attempt:
        return True
    own = any(o.attempt == echo.attempt and o.signature.kind != "echo" for o in live)
    return cause.attempt < echo.attempt and cause.yields is None and not own


def ended_by_a_stop(candidate: Candidate) -> bool:
    """Whether a stop follows from a candidate, directly or not."""
    return any(is_stop(effect) or ended_by_a_stop(effect) for effect in candidate.explains)


def _link_hangs_and_stops(live: Sequence[Candidate], catalogue: Mapping[str, Signature]) -> None:
    hangs = [c for c in live if is_hang(c)]
    for stop in [c for c in live if is_stop(c)]:
        reach = _reach(stop.signature.name, catalogue)
        for hang in hangs:
            if hang.attempt != stop.attempt:
                continue
            first = hang_came_first(hang, stop)
            if first and stop.explained_by is None and not _depends(hang, stop):
                _link(hang, stop)
            elif first is False and hang.explained_by is None and not _depends(stop, hang):
                name = hang.signature.name
                if name in reach or any(_descends(name, effect, catalogue) for effect in reach):
                    _link(stop, hang)


def _link_teardowns(live: Sequence[Candidate]) -> None:
    for hang in live:
        for loss in live if is_hang(hang) else ():
            if loss.explained_by is None and not _depends(hang, loss) and is_teardown(loss, hang):
                _link(hang, loss)


def _link_reports(live: Sequence[Candidate]) -> None:
    """A launcher's report of ranks that have an error of their own follows from that, and not from other ranks'."""
    for report in live:
        if report.signature.name != LAUNCHERS_REPORT or report.explained_by is not None or not report.ranks:
            continue
        errors = [
            o
            for o in live
            if o.attempt == report.attempt
            and o.signature.kind in ("cause", "symptom")
            and o.signature.verdict in ENDS_A_RUN
            and not is_hang(o)
            and not is_stop(o)
            and _before(o, report)
        ]
        own = next((o for o in errors if o.ranks and set(report.ranks) <= set(o.ranks)), None)
        if own is not None and any(o.ranks and not set(o.ranks) & set(report.ranks) for o in errors):
            _link(own, report)


def _link_missing_ranks(live: Sequence[Candidate]) -> None:
    for hang in live:
        if not is_hang(hang) or not hang.ranks or hang.explained_by is not None:
            continue
        for own in live:  # the most telling first
            if (
                own.ranks
                and own.attempt == hang.attempt
                and set(own.ranks) <= set(hang.ranks)
                and own.signature.kind in ("cause", "symptom")
                and own.signature.verdict == "failed"
                and own.signature.severity in ("fatal", "error")
                and not is_hang(own)
                and own.explained_by is None
                and said_before(own, hang)
            ):
                _link(own, hang)
                break


def _link_waits(live: Sequence[Candidate], world: World) -> None:
    """What ranks say that wait for another, or have lost it, follows from an error of that other rank's own."""
    for c in live:
        if c.explained_by is not None or not (c.signature.name in WAITS or c.of_peers):
            continue
        waiting = {rank for o in c.observations if (rank := world.of(o)) is not None}
        waiting |= {o.identity.local_rank for o in c.observations if o.identity.local_rank is not None}
        for o in live:
            own = o.signature.kind in ("cause", "symptom") and o.signature.verdict == "failed" and not o.of_peers
            about_others = is_hang(o) or o.signature.name in (*WAITS, *LOST_PEER, *DEATHS)
            apart = bool(o.ranks) and bool(waiting) and not set(o.ranks or ()) & waiting
            if own and apart and not about_others and o.attempt == c.attempt and _before(o, c) and not _depends(o, c):
                _link(o, c)
                break


def _link_losses_of_one(live: Sequence[Candidate], world: World) -> None:
    """That all ranks but one say that they lost a peer follows from an error of that one, whatever clocks say."""
    for c in live:
        if c.explained_by is not None or (silent := _unheard(c, world)) is None:
            continue
        for o in live:
            own = o.signature.kind in ("cause", "symptom") and o.signature.verdict == "failed" and not o.of_peers
            if own and o is not c and o.ranks == silent and o.attempt == c.attempt and not _depends(o, c):
                _link(o, c)
                break


def _link_checks(live: Sequence[Candidate]) -> None:
    """Exceptions that say that a number is not finite follow from what made it so, on whatever rank they are raised."""
    sources = [o for o in live if o.signature.area == "numerics" and o.signature.name.startswith("nan")]
    for c in live if sources else ():
        if c.explained_by is not None or c.signature.name != GENERIC_EXCEPTION:
            continue
        said = [o.captures.get("message", "") for o in c.observations]
        if c.subject.rpartition(".")[2] in OF_CODE or not all(map(_NAN.search, said)):
            continue
        source = next((o for o in sources if o.attempt == c.attempt and _before(o, c) and not _depends(o, c)), None)
        if source is not None:
            _link(source, c)


def _link_aftermath(live: Sequence[Candidate], steps: StepClock, world: World) -> None:
    """Connections that a dead rank's host refused, the time limit that ended ranks which waited for it, and aborts."""
    deaths = [o for o in live if o.explained_by is None and aftermath.is_death(o)]
    for c in live if deaths else ():
        if c.explained_by is not None:
            continue
        for o in deaths:
            follows = aftermath.refused_by(c, o, world) or aftermath.waited_after(c, o, steps)
            if o is not c and o.attempt == c.attempt and follows and _before(o, c) and not _depends(o, c):
                _link(o, c)
                break
    for c in live:
        for o in live if c.explained_by is None else ():
            if o.attempt == c.attempt and aftermath.aborted_after(c, o) and not _depends(o, c):
                _link(o, c)
                break


def _link_ends_of_peers(live: Sequence[Candidate], world: World) -> None:
    """Signals that ended ranks which had said before that they lost a peer follow from what ended that peer.

    A rank that a signal ends by its own doing has no time to say anything of others.
    """
    for death in live:
        if death.signature.name not in DEATHS or death.explained_by is not None or not death.ranks:
            continue
        for loss in live:
            cause = loss.explained_by
            if (
                loss.signature.name not in LOST_PEER
                or loss.attempt != death.attempt
                or cause is None
                or not cause.ranks
            ):
                continue
            said = {rank for o in loss.observations if (rank := world.of(o)) is not None and _not_before(death, o)}
            others = not set(cause.ranks) & set(death.ranks) and not set(death.ranks) - said
            if others and _before(cause, death) and not _depends(cause, death):
                _link(cause, death)
                break


def _not_before(c: Candidate, o: Observation) -> bool:
    """Whether no time says that a candidate came before an observation."""
    return c.time is None or o.time is None or o.time <= c.time + order.SAME_CLOCK


def _raised_by_another(cause: Candidate, c: Candidate) -> bool:
    """Whether c is an exception that nothing on other ranks brings about: the code or the data of its own rank does."""
    if c.signature.name != GENERIC_EXCEPTION or c.subject.rpartition(".")[2] not in OF_CODE:
        return False
    return bool(cause.ranks) and bool(c.ranks) and not set(cause.ranks or ()) & set(c.ranks or ())


def _of_another_run(first: Candidate, c: Candidate) -> bool:
    """Whether a symptom cannot follow from the first one: a later attempt got past that, or it stands above it.

    Two exceptions that end a program, one below the other in one file, are of two programs.
    """
    if first.attempt < c.attempt:
        return first.yields is not None or c.signature.name == GENERIC_EXCEPTION
    exceptions = first.signature.name == c.signature.name == GENERIC_EXCEPTION
    return exceptions and not first.ranks and not c.ranks and _stands_above(c, first)


def _stands_above(a: Candidate, b: Candidate) -> bool:
    """Whether all that b says in the file where a speaks first stands below a, and b speaks there."""
    first = a.observations[0].evidence[0]
    lines = [o.evidence[0].line for o in b.observations if o.evidence[0].file == first.file]
    return bool(lines) and first.line is not None and all(line is not None and line > first.line for line in lines)


def _close(a: Candidate, b: Candidate, lines: int = 6) -> bool:
    """Whether both say all they say within a few lines of one file."""
    places = [(o.evidence[0].file, o.evidence[0].line) for o in (*a.observations, *b.observations)]
    numbers = [line for _, line in places if line is not None]
    return (
        len({file for file, _ in places}) == 1 and len(numbers) == len(places) and max(numbers) - min(numbers) <= lines
    )


def borrow_ranks(linked: Sequence[Candidate], world: World, sources: Sequence[Source] = ()) -> None:
    """Let a root that names no rank take it from what the catalogue says it does to its own process.

    A kernel's assertion line bears no rank; the CUDA error that the same process raises next does. An MPI launcher says
    in one line which rank ended, and a few lines on by which signal. A memory kill of which nothing names the process
    is of the one rank that was killed, where it explains the end of one alone. What stops a host stops the ranks of
    it for which the others waited. Where all ranks but one say that they lost a peer, it is that one.
    """
    for c in linked:
        if not c.ranks and not c.everywhere and c.explained_by is None:
            c.ranks = _awaited_on_host(c, world, sources) or _unheard(c, world)
        if not c.ranks and not c.everywhere and c.signature.name in MEMORY_KILLS:
            killed = [e for e in c.explains if e.signature.name in KILLED and e.ranks]
            ranks = {r for e in killed for r in e.ranks or ()}
            elsewhere = any(whose.apart(c.key.identity.node, e.key.identity.node) for e in killed)
            if len(ranks) == 1 and not elsewhere and not c.captured("pid"):
                c.ranks = tuple(ranks)
        if not c.ranks and not c.everywhere and c.signature.culprit in ("self", "named"):
            told = {r for e in c.explains if e.signature.name == MPI_EXIT and _close(e, c) for r in e.ranks or ()}
            if len(told) == 1:
                c.ranks = tuple(told)
        if c.ranks or c.everywhere or c.signature.culprit != "self":
            continue
        own = [e for e in c.explains if e.signature.name in c.signature.causes and e.ranks]
        ranks = {r for e in own for r in e.ranks or ()}
        if len(ranks) == 1:
            c.ranks = tuple(ranks)


def _awaited_on_host(c: Candidate, world: World, sources: Sequence[Source]) -> tuple[int, ...] | None:
    """The ranks for which others waited because of a candidate, where all of them are on the one host that it names.

    The logs of a host lie in a folder that bears its name, where nothing else says which host a rank is on.
    """
    hosts = {whose.label(o.identity.node) for o in c.observations if o.identity.node}
    ranks = {r for e in c.explains if is_hang(e) for r in e.ranks or ()}
    if len(hosts) != 1 or not ranks:
        return None
    folder = {s.identity.rank: s.path.split("/")[-2] for s in sources if s.path.count("/")}
    theirs = {whose.label(world.host_of.get(r) or folder.get(r, "")) for r in ranks}
    return tuple(sorted(ranks)) if theirs == hosts else None


def _unheard(c: Candidate, world: World) -> tuple[int, ...] | None:
    """The one rank that does not say that it lost a peer, where all the others say so: of a stated world, or a gap.

    A memory kill of which nothing names the process or task is of that rank, unless it was on another host.
    """
    if world.size is None or world.size < 3:
        return None
    if c.signature.name in LOST_PEER:
        losses = [c]
    elif c.signature.name in MEMORY_KILLS and len(c.observations) == 1 and not c.captured("task"):
        losses = [e for e in c.explains if e.signature.name in LOST_PEER and e.attempt == c.attempt]
    else:
        return None
    heard = {rank for e in losses for o in e.observations if (rank := world.of(o)) is not None}
    silent = set(range(world.size)) - heard
    if len(silent) != 1 or any(whose.apart(c.key.identity.node, world.host_of.get(rank)) for rank in silent):
        return None
    return tuple(silent)


def _outlived(echo: Candidate, steps: StepClock, world: World, finished: Sequence[Candidate]) -> str | None:
    """Why an echo that nothing explains is none of a failure: training or the end came after it, or the end before."""
    if steps.goes_on_after(echo.observations[-1], None, restarted=True) or absolved(echo, finished, steps, world):
        return "training went on afterwards"
    if was_over(echo, finished, steps, world):
        return "the run had reached its end before"
    return None


def _symptom_order(c: Candidate) -> tuple[object, ...]:
    # What a process says of itself comes before what it misses of its peers.
    about_peers = c.signature.area in ("collectives", "nccl")
    time = c.time if c.time is not None else float("inf")
    return (c.attempt, about_peers, -c.signature.specificity, -c.weight, time)


def _depends(a: Candidate, b: Candidate) -> bool:
    """True where a is already explained, directly or not, by b: linking b under a would close a circle."""
    at: Candidate | None = a
    while at is not None:
        if at is b:
            return True
        at = at.explained_by
    return False


def roots(linked: Sequence[Candidate]) -> list[Candidate]:
    return sorted((c for c in linked if c.explained_by is None), key=_order)


def with_step(observation: Observation, steps: StepClock, world: World, rank: int | None) -> Observation:
    """The observation with the last step that the run had recorded before it, where it names none itself."""
    if observation.step is not None:
        return observation
    found = steps.last_before(observation, rank if rank is not None else world.of(observation))
    if found is None:
        return observation
    return replace(observation, step=found[0], step_is="last_seen", step_unit=found[1])
