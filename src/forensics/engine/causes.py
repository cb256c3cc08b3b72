"""Root cause against cascade: observations become candidate findings, and candidates explain each other.

A explains B where the catalogue says that A can bring B about and their order does not speak against it. What nothing
explains is a root. The rules, in this order:

1. A parent is absorbed by its child (out of memory in cuDNN is not also a CUDA out of memory), unless it lists the
   child among what it brings about and stands above it (a GPU's hardware error above the reset that it forces).
2. A hang that stood for some seconds explains the stop (a termination request, a time limit) that ended it; a stop that
   came first explains the hang of those that waited for the stopped process. A wait that was given up says why peers
   are lost afterwards. What a missing rank itself said before the others gave up explains why it was missing.
   So does what another rank says of itself for those that waited for it, or whose torch.distributed lost it, and for
   what ranks print below the line in which they lost a peer or were told to end.
3. A cause explains what its `causes` lists, in the same or a later attempt; a loss or gradient that is not finite, the
   checks that say so; the death of a rank, that its peers were refused, aborted, or waited until their time was up.
4. A cause that ends a run explains every symptom and echo of its attempt, and the echoes of later ones that have no
   trouble of their own.
5. Among symptoms, the one that is observed first explains the others; symptoms explain echoes. A signal that ended a
   rank which had lost a peer before follows from what ended that peer.
6. What the run survived (the same rank goes on for several steps, and nothing says that it died) is context. So is
   an exception of a rank that records no steps, where those it trains with go on for many, until something else ends.
7. What ended an attempt comes first: later attempts often die of its remains. Where the last attempt went on past the
   point at which an earlier one had died, and died of something else, that is what ended the run. So it is where it was
   run again by hand from the first step, and trained.
8. Of two messages of the kernel the one that names a process which the launcher saw die comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine import (
    afterwards,
    beforehand,
    caught,
    cluster,
    cut_saves,
    first_dead,
    kernel,
    leftovers,
    links,
    order,
    survival,
    trials,
)
from forensics.engine.borrowed import KILLED
from forensics.engine.candidates import OF_CODE, Candidate, sum_up_without
from forensics.engine.finishes import FINISHED, absolved, was_over
from forensics.engine.graph import brings_about, depends_on, descends, link, may_precede, stands_above
from forensics.engine.hangs import is_stop
from forensics.engine.identity import World
from forensics.engine.peers import LOST_PEER
from forensics.engine.steps import StepClock
from forensics.engine.survival import ENDS_A_RUN, GENERIC_EXCEPTION, STARTS
from forensics.engine.whose import WORKER_EXIT
from forensics.model import QUOTED, Observation
from forensics.patterns import lazy
from forensics.signatures.schema import Signature

# What says that a launcher or a scheduler started the run again, or that it goes on from where it was.
AUTOMATIC = frozenset({"worker-group-restarted", "worker-restart", "run-resumed"})

# Areas of what a program, its settings and its data bring about: it is mended before the next start by hand.
OF_PROGRAMS = frozenset({"code", "config", "data"})
# What a program's own exception says of when it was raised.
_AT_STEP = lazy(
    r"\b(?:at|in|on|during|after) (?:the )?(?:global |training )?(?:step|iteration|iter)[ =:#]{1,2}(\d{1,12})\b", re.I
)
OF_STARTS = frozenset({"module-not-found", "import-name-missing", "arguments-rejected", "command-not-found"})


def _order(c: Candidate) -> tuple[object, ...]:
    """Sort key: the most telling first."""
    severity = {"fatal": 0, "error": 1, "warning": 2, "info": 3}[c.signature.severity]
    kind = {"cause": 0, "symptom": 1, "echo": 2}.get(c.signature.kind, 3)
    return (
        c.overcome or (c.signature.verdict not in ENDS_A_RUN and c.signature.severity != "fatal"),
        c.signature.kind == "echo"
        or c.signature.name in (*LOST_PEER, links.EXITED_EARLY)
        or c.of_peers,  # tells nothing of a cause, in whatever attempt
        c.yields is not None,
        c.attempt,  # what ended the first attempt is the cause; later attempts often die of its remains
        kind,
        severity,
        -round(c.weight + c.signature.specificity / 200, 3),
        c.time if c.time is not None else float("inf"),
        c.key.evidence[0].line or 0,
    )


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
    for c in live:
        quoted = [o for o in c.observations if QUOTED in o.captures]
        if 0 < len(quoted) < len(c.observations):
            sum_up_without(c, quoted, world)
    survival.set_aside(found, live, steps, world)
    caught.set_aside(live, steps, world, [o for c in found if c.signature.name in STARTS for o in c.observations])
    trials.overcome(found, live)
    for c in live:
        if c.outlived:
            sum_up_without(c, c.outlived, world)
    kernel.set_aside(found, steps)
    cluster.set_aside(found, live, steps)
    beforehand.set_aside(live, ENDS_A_RUN)
    cut = cut_saves.revive(found)
    live = [c for c in live if c.context is None]
    afterwards.set_apart(live, world)
    _mark_overcome(live, steps, by_hand=not any(c.signature.name in AUTOMATIC for c in found))
    _mark_late(live, times)
    first_dead.mark(found, live, world, times)
    live.sort(key=_order)
    for c in live:  # 1: parents
        child = next(
            (
                o
                for o in live
                if o is not c
                and o.attempt == c.attempt
                and descends(o.signature.name, c.signature.name, catalogue)
                and (o.signature.kind == "cause" or c.signature.kind != "cause")
                and not (o.signature.name in c.signature.causes and stands_above(c, o))  # then it brought it about
            ),
            None,
        )
        if child is not None:
            link(child, c)
    for end, damage in cut:
        if damage.explained_by is None:
            link(end, damage)
    leftovers.follow(found, live, world)
    links.hangs_and_stops(live, catalogue)  # 2
    links.teardowns(live)
    links.kills_by_agents(live, [c for c in found if c.signature.name == WORKER_EXIT], world)
    links.reports(live)
    afterwards.said_when_stopped(live)
    afterwards.follow(live, world)
    links.lost_workers(live, world)
    links.told_above(live)
    links.said_as_it_aborted(live, world)
    links.missing_ranks(live)
    links.waits(live, world)
    for c in live:  # 3: what the catalogue says
        if c.explained_by is not None:
            continue
        reach_of = {id(o): brings_about(o.signature.name, catalogue) for o in live if o is not c}
        for o in sorted(live, key=lambda o: o.attempt != c.attempt):
            if o is c or c.signature.name not in reach_of[id(o)] or not may_precede(o, c) or depends_on(o, c):
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
            link(o, c)
            break
    links.checks(live)
    links.effects_of_deaths(live, steps, world)
    links.aborts_of_peers(live, [o for c in found for o in c.observations], world)
    causes = [c for c in live if c.signature.kind == "cause" and c.signature.verdict in ENDS_A_RUN]
    for c in live:  # 4: a cause that ends a run explains all symptoms and echoes
        if c.explained_by is not None or c.signature.kind == "cause":
            continue
        reasons = [
            o
            for o in causes
            if (o.attempt == c.attempt or (c.signature.kind == "echo" and _may_echo(o, c, live)))
            and may_precede(o, c)
            and not depends_on(o, c)
            and not _raised_by_another(o, c)
        ]
        if reasons:
            link(reasons[0], c)
    links.aborts_of_who_lost_a_peer(live, world)
    symptoms = _in_order([c for c in live if c.signature.kind == "symptom" and c.explained_by is None])
    if symptoms and is_stop(symptoms[0]):  # a launcher's stop follows from what one rank raised above it, or alone
        stop = symptoms[0]
        raised = [
            c
            for c in symptoms
            if c.signature.name == GENERIC_EXCEPTION and (stands_above(c, stop) or links.others_stopped(stop, c, world))
        ]
        symptoms.sort(key=lambda c: not (raised and c is raised[0]))
    for c in symptoms[1:]:  # 5: the first symptom explains the others
        if (
            may_precede(symptoms[0], c)
            and not _of_another_run(symptoms[0], c)
            and not _raised_by_another(symptoms[0], c)
        ):
            link(symptoms[0], c)
    links.ends_of_peers(live, world)
    links.losses_of_one(live, world)
    links.losses_of_hosts(live, world)
    links.losses_in_another_zone(live)
    for c in live:
        if c.signature.kind == "echo" and c.explained_by is None:
            earlier = [o for o in live if o.signature.kind != "echo" and _may_echo(o, c, live) and not depends_on(o, c)]
            if earlier:
                link(earlier[0], c)
    echoes = sorted((c for c in live if c.signature.kind == "echo" and c.explained_by is None), key=_order)
    for c in echoes[1:]:
        link(echoes[0], c)
    if echoes and all(_outlived(e, steps, world, finished) is not None for e in echoes):
        for c in echoes:
            c.explained_by, c.context = None, _outlived(c, steps, world, finished)
        echoes[0].explains.clear()
        return [c for c in live if c.context is None]
    return live


def _mark_overcome(live: Sequence[Candidate], steps: StepClock, by_hand: bool) -> None:
    """Mark what the last attempt that failed had left behind when it died of something else.

    A process that was killed from outside, nobody says by whom, leaves nothing behind of which a later one dies. Nor
    does any that was run again from its first step, and trained. by_hand: no launcher or scheduler says that it did so.
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
        if by_hand and not steps.reached:
            _mark_mended(live, telling, last)
        return
    failed = [c for c in telling if c.attempt == last and c.signature.verdict != "interrupted"]
    fresh = by_hand and bool(failed) and not any(map(_of_remains, failed))
    for attempt in {c.attempt for c in live} - {last}:
        before = steps.reached.get(attempt, 0)  # one that failed before its first step did not get to one
        past = steps.reached[last] >= before + survival.STEPS_AFTER_DEATH
        anew = fresh and _trained_anew(steps, attempt, last)
        if attempt > last or not (past or anew):
            continue
        if own & {(c.signature.name, c.subject) for c in telling if c.attempt == attempt}:
            continue  # the same again: it was not overcome
        for c in live:
            if c.attempt == attempt:
                c.overcome = True
                how = (
                    f"went on past it to step {steps.reached[last]}"
                    if past
                    else "was started from the first step again"
                )
                c.yields = f"attempt {last} {how} and died of something else"


def _mark_mended(live: Sequence[Candidate], telling: Sequence[Candidate], last: int) -> None:
    """Mark errors of the program or its settings at a start, where it was started again by hand and dies of another.

    None came to a first step. What a card, a host or a full disk did to one may be what ends the next, in other words.
    """
    own = [c for c in telling if c.attempt == last]
    if not own or any(_of_remains(c) or c.signature.name == leftovers.PORT_TAKEN for c in own):
        return
    same = {(c.signature.name, c.subject) for c in own}
    for attempt in {c.attempt for c in live if c.attempt < last}:
        theirs = [c for c in telling if c.attempt == attempt]
        if all(_of_a_program(c) and (c.signature.name, c.subject) not in same for c in theirs):
            for c in theirs:
                c.overcome, c.yields = True, f"attempt {last} began anew after it and died of something else"


def _of_a_program(c: Candidate) -> bool:
    by_program = c.signature.area in OF_PROGRAMS or c.signature.name in OF_STARTS
    return c.raised_alone or (c.signature.kind == "cause" and by_program)


def _of_remains(c: Candidate) -> bool:
    """Whether an earlier run may have left behind what a later one dies of after many steps: files fill disks."""
    return c.signature.area == "checkpoints" or c.signature.name == "shm-exhausted"


def _trained_anew(steps: StepClock, attempt: int, last: int) -> bool:
    """Whether an attempt counts from where an earlier one began, for more steps than remains of that would let it."""
    if attempt not in steps.began_at or last not in steps.began_at:
        return False
    trained = steps.reached[last] - steps.began_at[last]
    return steps.began_at[last] <= steps.began_at[attempt] and trained >= survival.STEPS_AFTER_DEATH


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
    return exceptions and not first.ranks and not c.ranks and stands_above(c, first)


def _outlived(echo: Candidate, steps: StepClock, world: World, finished: Sequence[Candidate]) -> str | None:
    """Why an echo that nothing explains is none of a failure: training or the end came after it, or the end before."""
    if steps.goes_on_after(echo.observations[-1], None, restarted=True) or absolved(echo, finished, steps, world):
        return "training went on afterwards"
    if was_over(echo, finished, steps, world):
        return "the run had reached its end before"
    return None


def _in_order(symptoms: Sequence[Candidate]) -> list[Candidate]:
    """Symptoms, the most telling first; what a rank says without a time comes before what is stamped below it."""
    known = [c for c in symptoms if c.time is not None]
    unstamped = [c for c in symptoms if c.time is None and c.ranks and known]
    above = {id(c) for c in unstamped if all(_stands_over(c, o) for o in known)}
    return sorted(symptoms, key=lambda c: _symptom_order(c, float("-inf") if id(c) in above else c.time))


def _stands_over(c: Candidate, o: Candidate) -> bool:
    return o is c or stands_above(c, o)


def _symptom_order(c: Candidate, time: float | None) -> tuple[object, ...]:
    # What a process says of itself comes before what it misses of its peers.
    about_peers = c.signature.area in ("collectives", "nccl")
    return (
        c.attempt,
        c.yields is not None,
        c.signature.verdict == "suspect",  # a shape that gives rise to doubt ends no process
        about_peers,
        -c.signature.specificity,
        -c.weight,
        time if time is not None else float("inf"),
    )


def roots(linked: Sequence[Candidate]) -> list[Candidate]:
    return sorted((c for c in linked if c.explained_by is None), key=_order)


def with_step(observation: Observation, steps: StepClock, world: World, rank: int | None) -> Observation:
    """The observation with the last step that the run had recorded before it, where it names none itself.

    A step that stands in the text of an exception counts where it lies between that record and the next one but one.
    """
    if observation.step is not None:
        return observation
    of = rank if rank is not None else world.of(observation)
    found = None
    if observation.signature == links.EXITED_EARLY and observation.rule is None and of is not None:
        found = steps.last_of(observation, of)  # others say that it is gone: all that it recorded was before
    found = found if found is not None else steps.last_before(observation, of)
    if found is None:
        return (
            observation if observation.epoch is not None else replace(observation, epoch=steps.last_epoch(observation))
        )
    epoch = found.epoch if observation.epoch is None else observation.epoch
    told = _AT_STEP.search(observation.evidence[0].text) if observation.signature == GENERIC_EXCEPTION else None
    if told is not None and 0 < int(told[1]) - found.step <= 2 * steps.interval(observation.evidence[0].file):
        return replace(observation, step=int(told[1]), step_is="exact", step_unit=found.unit, epoch=epoch)
    return replace(observation, step=found.step, step_is="last_seen", step_unit=found.unit, epoch=epoch)
