"""The rules by which candidates explain each other whatever the catalogue says: hangs, stops, peers, reports, checks.

Each looks at the candidates that nothing explains yet, and links those that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forensics.engine import aftermath, worker_ends
from forensics.engine.borrowed import KILLED, unheard
from forensics.engine.candidates import OF_CODE, Candidate
from forensics.engine.first_dead import sees_first
from forensics.engine.graph import (
    brings_about,
    clocks_in_other_zones,
    depends_on,
    descends,
    link,
    may_precede,
    not_before,
    of_other_hosts,
)
from forensics.engine.hangs import hang_came_first, is_hang, is_stop, is_teardown, said_before
from forensics.engine.identity import HOST_DOWN, World
from forensics.engine.own_failures import is_own_failure
from forensics.engine.peers import LOST_PEER
from forensics.engine.steps import StepClock
from forensics.engine.survival import DEATHS, ENDS_A_RUN, GENERIC_EXCEPTION
from forensics.model import Observation
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

# What raises on its own when it meets a number that is not finite: checks of programs and libraries.
_NAN = lazy(r"(?i)(?<![a-z])(?:nans?|infs?|infinity|non-?finite|not finite)(?![a-z])")
LAUNCHERS_REPORT = "child-failed-error"
REPORTS = (LAUNCHERS_REPORT, "srun-task-exited")
# A DataLoader whose worker is gone, whatever ended it.
WORKERS_LOST = frozenset({"dataloader-worker-killed", "dataloader-worker-lost", "dataloader-worker-stopped"})
WORKER_GONE = "background-worker-died"
EXITED_EARLY = "rank-exited-early"
# Seconds until a scheduler takes a host that does not answer for down: Slurm's SlurmdTimeout is 300 by default, and
# Kubernetes evicts after 340; sites set more.
NOTICED = 900.0
# What Python raises in a process that is told to end, or whose peer, server or worker is gone.
OF_ENDS = frozenset(
    "KeyboardInterrupt SystemExit BrokenPipeError ConnectionError ConnectionResetError ConnectionAbortedError "
    "ConnectionRefusedError EOFError TimeoutError OSError IncompleteReadError CancelledError".split()
)
NEAR = 60  # lines: the traceback of whoever finds it gone, and a few that others print meanwhile
# What ranks say that wait for one which does not come: an error of another rank's own says why it does not.
WAITS = frozenset({"store-timeout", "rendezvous-timeout"})


def hangs_and_stops(live: Sequence[Candidate], catalogue: Mapping[str, Signature]) -> None:
    """A stop ends a wait that had lasted, or brings it about; of several stops the first one counts.

    A scheduler that takes a host warns the processes, and tells of it only when it ends them after a grace.
    """
    hangs = [c for c in live if is_hang(c)]
    stops = [c for c in live if is_stop(c)]
    before = {id(h) for h in hangs for s in stops if s.attempt == h.attempt and hang_came_first(h, s) is False}
    for stop in stops:
        reach = brings_about(stop.signature.name, catalogue)
        for hang in hangs:
            if hang.attempt != stop.attempt:
                continue
            first = hang_came_first(hang, stop)
            if first and id(hang) in before:
                continue
            if first and stop.explained_by is None and not depends_on(hang, stop):
                link(hang, stop)
            elif first is False and hang.explained_by is None and not depends_on(stop, hang):
                name = hang.signature.name
                if name in reach or any(descends(name, effect, catalogue) for effect in reach):
                    link(stop, hang)


def teardowns(live: Sequence[Candidate]) -> None:
    for hang in live:
        for loss in live if is_hang(hang) else ():
            if loss.explained_by is None and not depends_on(hang, loss) and is_teardown(loss, hang):
                link(hang, loss)


def reports(live: Sequence[Candidate]) -> None:
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
            and may_precede(o, report)
        ]
        own = next((o for o in errors if o.ranks and set(report.ranks) <= set(o.ranks)), None)
        if own is not None and any(o.ranks and not set(o.ranks) & set(report.ranks) for o in errors):
            link(own, report)


def others_stopped(stop: Candidate, c: Candidate, world: World) -> bool:
    """Whether all who say that they were told to end are other ranks than the one that raised an exception alone.

    Its launcher tells them to end, once it is gone; a scheduler or a user would have told that rank as well. Not what
    a process meets where another one is gone.
    """
    told = {world.of(o) for o in stop.observations}
    if None in told or not c.ranks or told & set(c.ranks) or c.of_peers or stop.attempt != c.attempt:
        return False
    return c.subject.rpartition(".")[2] not in OF_ENDS and may_precede(c, stop)


def kills_by_agents(live: Sequence[Candidate], exits: Sequence[Candidate], world: World) -> None:
    """What an agent killed because it did not end when asked follows from the process that had failed before."""
    rows = [o for c in exits for o in c.observations]
    for kill in live:
        if kill.signature.name not in KILLED or kill.explained_by is not None:
            continue
        of_attempt = [o for o in rows if (o.identity.attempt or 0) == kill.attempt]
        report = next(
            (c for c in live if c.signature.name == LAUNCHERS_REPORT and c.attempt == kill.attempt and c.ranks), None
        )
        if report is not None and aftermath.killed_by_agent(kill, of_attempt, world) and not depends_on(report, kill):
            link(report, kill)


def lost_workers(live: Sequence[Candidate], world: World) -> None:
    """Workers of a loader that other ranks lost follow from the error of the rank that the launcher saw die first.

    It stops the others then, and their workers with them. Not where a clock says that a worker was lost before.
    """
    for report in (c for c in live if c.signature.name == LAUNCHERS_REPORT):
        seen = filter(sees_first, report.observations)
        first = next((rank for o in seen if (rank := world.of(o)) is not None), None)
        own = [
            o
            for o in live
            if o.ranks == (first,)
            and o.attempt == report.attempt
            and o.signature.kind in ("cause", "symptom")
            and o.signature.verdict == "failed"
            and o.signature.severity in ("fatal", "error")
            and not is_hang(o)
            and not o.of_peers
            and o.signature.name not in (*WORKERS_LOST, *LOST_PEER, *DEATHS)
        ]
        for c in live if own else ():
            others = c.signature.name in WORKERS_LOST and c.attempt == report.attempt and first not in (c.ranks or ())
            if others and c.explained_by is None and not _stamped_before(c, own[0]) and not depends_on(own[0], c):
                link(own[0], c)


def told_above(live: Sequence[Candidate]) -> None:
    """That a data worker is gone follows from what that worker printed of itself right above it.

    Whoever finds it gone says so: "check the print statements above for the actual error message" (batchgenerators).
    """
    for c in (c for c in live if c.signature.name == WORKER_GONE and c.explained_by is None):
        own = [
            o
            for o in live
            if o.signature.kind in ("cause", "symptom")
            and o.signature.verdict == "failed"
            and o.attempt == c.attempt
            and o.signature.name not in (*LOST_PEER, *DEATHS)
            and not is_hang(o)
            and _right_above(o, c)
            and not depends_on(o, c)
        ]
        if own:
            link(own[0], c)


def said_as_it_aborted(live: Sequence[Candidate], world: World) -> None:
    """That a process aborted follows from the error that C++ prints of it: "terminate called ...", then `what():`."""
    for c in (c for c in live if c.signature.name == aftermath.ABORT and c.explained_by is None):
        files = {o.evidence[0].file for o in c.observations}
        aborted = {None, *c.ranks} if c.ranks else None
        for o in live:
            if o is c or o.signature.kind == "echo" or o.attempt != c.attempt or depends_on(o, c):
                continue
            words = (
                s
                for s in o.observations
                if aftermath.WHY_IT_ABORTS in s.evidence[0].text and s.evidence[0].file in files
            )
            if any(aborted is None or world.of(s) in aborted for s in words):
                link(o, c)
                break


def _right_above(a: Candidate, b: Candidate) -> bool:
    """Whether the last sign of a stands at most NEAR lines above the first one of b in the same file."""
    last, first = a.observations[-1].evidence[0], b.observations[0].evidence[0]
    if last.file != first.file or last.line is None or first.line is None:
        return False
    return 0 < first.line - last.line <= NEAR


def _stamped_before(a: Candidate, b: Candidate) -> bool:
    """Whether the times that are printed with the signs of two candidates put the first one before the other."""
    mine, other = ([o.time for o in c.observations if o.timed and o.time is not None] for c in (a, b))
    return bool(mine) and bool(other) and min(mine) < min(other)


def missing_ranks(live: Sequence[Candidate]) -> None:
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
                # An end that such a wait brings about itself has to be the earlier one by the clock.
                and (own.signature.name not in hang.signature.causes or _stamped_before(own, hang))
            ):
                link(own, hang)
                break


def waits(live: Sequence[Candidate], world: World) -> None:
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
            if (
                own
                and apart
                and not about_others
                and o.attempt == c.attempt
                and may_precede(o, c)
                and not depends_on(o, c)
            ):
                link(o, c)
                break


def aborts_of_who_lost_a_peer(live: Sequence[Candidate], world: World) -> None:
    """That ranks aborted follows from what each of them had said before: that it lost a peer.

    torch ends such a process by an abort, and the peer is the one to look at.
    """
    for death in live:
        if death.signature.name != aftermath.ABORT or death.explained_by is not None or not death.ranks:
            continue
        for loss in live:
            if not (loss.signature.name in LOST_PEER or loss.of_peers) or loss.attempt != death.attempt:
                continue
            said = {rank for o in loss.observations if (rank := world.of(o)) is not None and not_before(death, o)}
            if set(death.ranks) <= said and not depends_on(loss, death):
                link(loss, death)
                break


def losses_of_one(live: Sequence[Candidate], world: World) -> None:
    """That all ranks but one say that they lost a peer follows from an error of that one, whatever clocks say."""
    for c in live:
        if c.explained_by is not None or (silent := unheard(c, world)) is None:
            continue
        for o in live:
            own = o.signature.kind in ("cause", "symptom") and o.signature.verdict == "failed" and not o.of_peers
            if own and o is not c and o.ranks == silent and o.attempt == c.attempt and not depends_on(o, c):
                link(o, c)
                break


def losses_of_hosts(live: Sequence[Candidate], world: World) -> None:
    """That ranks lost a peer follows from another host's end, which a scheduler notices only minutes later."""
    down = [o for o in live if o.signature.name == HOST_DOWN and o.explained_by is None and o.ranks]
    for c in live if down else ():
        if c.explained_by is not None or c.signature.name not in LOST_PEER or c.time is None:
            continue
        said = {rank for o in c.observations if (rank := world.of(o)) is not None}
        for o in down if said else ():
            near = o.time is not None and c.time <= o.time <= c.time + NOTICED and o.attempt == c.attempt
            if near and not said & set(o.ranks or ()) and not depends_on(o, c):
                link(o, c)
                break


def losses_in_another_zone(live: Sequence[Candidate]) -> None:
    """That ranks of one host lost a peer follows from a death on another one, where their clocks show other zones.

    So does what these say of the dead rank, that it was gone.
    """
    deaths = [o for o in live if o.explained_by is None and aftermath.is_death(o)]
    for c in live if deaths else ():
        if c.explained_by is not None or c.signature.name not in (*LOST_PEER, EXITED_EARLY):
            continue
        for o in deaths:
            own = bool(o.ranks) and bool(c.ranks) and set(o.ranks or ()) <= set(c.ranks or ())
            theirs = own if c.signature.name == EXITED_EARLY else of_other_hosts(o, c)
            apart = theirs and o is not c and o.attempt == c.attempt and clocks_in_other_zones(o, c)
            if apart and o.signature.name != EXITED_EARLY and not depends_on(o, c):
                link(o, c)
                break


def checks(live: Sequence[Candidate]) -> None:
    """Exceptions that say that a number is not finite follow from what made it so, on whatever rank they are raised."""
    sources = [o for o in live if o.signature.area == "numerics" and o.signature.name.startswith("nan")]
    for c in live if sources else ():
        if c.explained_by is not None or c.signature.name != GENERIC_EXCEPTION:
            continue
        said = [o.captures.get("message", "") for o in c.observations]
        if c.subject.rpartition(".")[2] in OF_CODE or not all(map(_NAN.search, said)):
            continue
        source = next(
            (o for o in sources if o.attempt == c.attempt and may_precede(o, c) and not depends_on(o, c)), None
        )
        if source is not None:
            link(source, c)


def effects_of_deaths(live: Sequence[Candidate], steps: StepClock, world: World) -> None:
    """Connections that a dead rank's host refused, the time limit that ended ranks which waited for it."""
    deaths = [o for o in live if o.explained_by is None and aftermath.is_death(o)]
    for c in live if deaths else ():
        if c.explained_by is not None:
            continue
        for o in deaths:
            refused = aftermath.refused_by(c, o, world)
            follows = refused or aftermath.unreachable_after(c, o) or aftermath.waited_after(c, o, steps)
            # A scheduler tells at the end of a step, without a time, which of its tasks had died.
            before = may_precede(o, c) or (refused and not any(sign.timed for sign in o.observations))
            if o is not c and o.attempt == c.attempt and follows and before and not depends_on(o, c):
                link(o, c)
                break


def aborts_of_peers(live: Sequence[Candidate], signs: Sequence[Observation], world: World) -> None:
    """Aborts of which only a launcher tells follow from the end of the rank that it saw end by itself before.

    The watchdogs of ranks that lose a peer abort them. Where nothing orders the two, neither is blamed: the report
    of both is what the aborts stand behind.
    """
    for abort in (c for c in live if c.explained_by is None and aftermath.is_launchers_abort(c)):
        told = worker_ends.ends(signs, abort.attempt, world)
        first = worker_ends.first_by_itself(told)
        others = first is not None and first.rank not in (abort.ranks or ())
        if not others and not worker_ends.undecided(told):
            continue
        reports = [o for o in live if o.attempt == abort.attempt and o.signature.name in REPORTS]
        own = [o for o in live if first is not None and o.ranks == (first.rank,) and is_own_failure(o)]
        report = next((o for o in (*own, *reports) if o.attempt == abort.attempt and not depends_on(o, abort)), None)
        if report is not None:
            link(report, abort)


def ends_of_peers(live: Sequence[Candidate], world: World) -> None:
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
            said = {rank for o in loss.observations if (rank := world.of(o)) is not None and not_before(death, o)}
            others = not set(cause.ranks) & set(death.ranks) and not set(death.ranks) - said
            if others and may_precede(cause, death) and not depends_on(cause, death):
                link(cause, death)
                break
