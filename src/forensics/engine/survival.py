"""What a run survived: signs of failure that training outlived are context and not causes.

A message is no proof of a failure. A handler logs an exception and goes on, a language model prints a text about
crashes, a data set is named after them, the kernel log is older than the run. What tells them from a failure is what
comes afterwards: the same writer records further steps, or says that the run reached its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forensics.engine.counted_kills import after_the_end
from forensics.engine.finishes import ANYBODYS_END, FINISHED, absolved, finished_after, last_of_each_file, was_over
from forensics.engine.identity import World
from forensics.engine.steps import StepClock
from forensics.model import BYSTANDER, POD_SUCCEEDED, QUOTED, Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

GENERIC_EXCEPTION = "python-exception"
# What a run that suffers by its hosts, links or storage shows: it waits, or loses its peers, for no reason of its own.
SUFFERING = frozenset(
    "collective-timeout straggler-rank rank-exited-early nccl-network-timeout nccl-remote-error nccl-system-error "
    "nccl-unhandled-cuda-error nccl-internal-error nccl-connect-failed nccl-watchdog-abort teardown-hang "
    "dataloader-timeout store-timeout stack-dump monitored-barrier-timeout gloo-connection-closed nccl-peer-closed "
    "store-connection-lost sigkill-unknown-sender cuda-unknown-error cuda-library-call-failed "
    "rank-stuck-on-device".split()
)
_OUTSIDE = ("gpu", "nccl")  # areas of what can hold on while training goes on
BY_HAND = ("keyboard-interrupt", "external-sigterm")  # what ends also programs that wait after their work is done
ENDS_A_RUN = ("failed", "hung", "interrupted")
MEMORY_KILLS = frozenset({"host-oom", "host-oom-cgroup"})
WORKER_KILLED = "dataloader-worker-killed"
DEATHS = (
    "child-failed-error",
    "sigkill-unknown-sender",
    "rank-segfault",
    "rank-sigabrt",
    "srun-task-exited",
    "worker-restart",
)
# Steps that a writer must record after a message of a process's death. A step or two may still be printed by ranks that
# had them under way; in a run of one process none can follow at all.
STEPS_AFTER_DEATH = 5
TRIAL_FINISHED = "trial-finished"
WENT_ON = "went_on"  # capture of what was said beside a program: how that went on, until an error of its own
ELSEWHERE = "the run counted on in another log"  # what it says where that error stands in another file
# Lines that only a new process prints.
STARTS = ("worker-group-restarted", "run-started")
# Time zones span 26 hours, and kernel logs and program logs seldom agree on one: only what is older than the run by
# more than any offset from UTC is known to be older (seconds).
OLDER = 15 * 3600.0
# Clocks of hosts and of files of one host differ; an effect may be stamped this much before its cause (seconds).
CLOCK_SLACK = 90.0
# Handled this often at one place of the code, an exception is handled there the next time as well.
HANDLED = 3
# Texts that a run reads or writes, by the name of file or folder; a name that says "log" is a log nevertheless.
_TEXTS = lazy(
    r"(?i)(?:^|[/_. -])(?:samples?|generat(?:ions?|ed)|predict(?:ions?|ed)|completions?|decod(?:ed|ings?)|hypothes[ei]s"
    r"|transcripts?|prompts?|responses?|corpus|readme|notes?|requirements)(?:[/_. -]|\d|$)"
)
_LOGS = lazy(r"(?i)\.(?:log|out|err|stdout|stderr|o\d+|e\d+)(?:\.\d+)?$|(?:^|[/_.-])logs?(?:[/_.-]|$)")
# A record of data is a JSON object with one of the first keys and none of the second, which loggers and runtimes write.
_DATA_KEY = lazy(
    r'"(?:prompt|completion|response|generated?(?:_text)?|generation|prediction|hypothesis|reference|question|answer'
    r'|instruction|conversations?|messages|chosen|rejected|input|output|target)"\s*:'
)
_LOGGER_KEY = lazy(r'"(?:level|levelname|severity|lvl|log|stream|logger)"\s*:')
# What a main thread raises that has waited in vain for another one: its queue stayed empty or full, its barrier broke.
_IN_VAIN = frozenset({"Empty", "Full", "TimeoutError", "BrokenBarrierError"})
# What a program adds to an error that it has caught: "-- ignored", "(non-fatal)", "ignoring OSError: ...". Skipping,
# trying again and going on without are not among them: a program can end of what it skipped, or goes on without.
_IGNORED = lazy(
    r"(?i)(?:^\W{0,4}|[-\u2013\u2014;:,.(\[]\s{0,4}|\b(?:is|was|are|were|been|error|exception|failure|it|info|warn|warning|debug)\s{1,4})"
    r"(?:ignored|ignoring|non-?fatal)\b"
)
_KERNEL = lazy(r"^(?:<\d+>)?\[\s*(?:\d+\.\d{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4})\] |\skernel: ")


@dataclass(frozen=True, slots=True)
class _Run:
    """What the whole run tells of starts, ends and deaths."""

    steps: StepClock
    world: World
    finished: Sequence[Candidate]
    resumed: Sequence[Observation]
    starts: Sequence[Observation]
    trials: Sequence[Observation]  # of a study, that came to their end
    last: int  # the last attempt in which it trained, or met trouble of its own
    lost_workers: AbstractSet[tuple[int, str]] = frozenset()  # attempt and pid of processes that a DataLoader missed
    in_vain: Sequence[Observation] = ()  # exceptions of a wait for another thread
    ends: Sequence[Candidate] = ()  # named causes of which no process trained on
    died: AbstractSet[int] = frozenset()  # attempts of which something says that a process of theirs died

    def ended_after(self, o: Observation) -> bool:
        return any(finished_after(f, o) for f in self.finished)


def set_aside(found: Sequence[Candidate], live: Sequence[Candidate], steps: StepClock, world: World) -> None:
    """Give every candidate in `live` that the run survived its `context`, and mark what a restart made good.

    Of the others, `outlived` are the signs after which their own process trained on, and met the same again.

    found: all candidates of the run, milestones among them; live: those that could be causes, symptoms or echoes.
    """
    for c in live:
        if _is_older(c, steps):
            c.context = "the kernel said so long before the run began"
        elif all(POD_SUCCEEDED in o.captures for o in c.observations):
            c.context = "Kubernetes says that the pod succeeded: what ended was started again, or not needed"
        elif all(BYSTANDER in o.captures for o in c.observations):
            c.context = f"it is about {c.observations[0].captures[BYSTANDER]}, which is none of the run's"
        elif all(QUOTED in o.captures or _is_text(o, steps) for o in c.observations):
            c.context = "it stands in a text that the run reads or writes, and no program says it"
    own = [c.attempt for c in live if c.context is None and c.signature.kind != "echo"]
    run = _Run(
        steps=steps,
        world=world,
        finished=[c for c in found if c.signature.name == FINISHED],
        resumed=[o for c in found if c.signature.name == "run-resumed" for o in c.observations],
        starts=[o for c in found if c.signature.name in STARTS for o in c.observations],
        trials=[o for c in found if c.signature.name == TRIAL_FINISHED for o in c.observations],
        last=max([*own, *steps.reached], default=0),
        lost_workers={
            (c.attempt, o.captures["pid"])
            for c in live
            if c.signature.name == WORKER_KILLED
            for o in c.observations
            if "pid" in o.captures
        },
        in_vain=[o for c in live for o in c.observations if _waited_in_vain(o)],
        ends=[c for c in live if c.context is None and _ends_programs(c, steps, world)]
        if any(c.captured("thread") for c in live)
        else (),
    )
    died = {c.attempt for c in live if c.signature.name in DEATHS and c.context is None and not _outlived_death(c, run)}
    run = replace(run, died=died)
    for c in live:
        if c.context is None:
            suffers = any(o.signature.name in SUFFERING for o in live if o is not c and o.attempt == c.attempt)
            c.context = _survived(c, run, suffers=suffers) or _waved_away(c)
            if c.context is None and not c.recovered:
                c.outlived = _outlived_signs(c, run)
    strays = [c for c in live if c.context is None and _said_beside(c)]
    for c in strays:
        if any(_ends_below(o, c) for o in live if o not in strays and o.context is None):
            c.context = "it was said beside the program, which went on and ended of an error that nothing ties to it"


def _survived(c: Candidate, run: _Run, *, suffers: bool) -> str | None:
    """Why a candidate is context; None where it is not.

    suffers: whether its attempt shows what hosts, links or storage bring about.
    """
    steps, world = run.steps, run.world
    last = c.observations[-1]
    if c.signature.verdict not in ENDS_A_RUN:
        # What a program says of a number that is not finite; what the numbers themselves show stays.
        rules = [c.signature.evidence[o.rule] if o.rule is not None else None for o in c.observations]
        said = c.signature.area == "numerics" and all(r is not None and r.source == "log" for r in rules)
        if said and c.attempt not in run.died and steps.learns_after(last):
            return "training went on with finite losses afterwards"
        return None
    if c.signature.verdict == "interrupted":
        if c.signature.name in BY_HAND and _was_over(c, run):
            return "the run had reached its end before"
        if run.ended_after(last):
            return "the run was started again and reached its end"
        if steps.goes_on_after(last, None, restarted=True) or _resumed_elsewhere(last, run.resumed, steps):
            return "the run was started again and went on"
        if c.attempt < run.last and all(o.identity.attempt is not None for o in c.observations):
            return "the run was started again"
        return None
    if _may_pass(c) and all(any(_follows(t, o) for t in run.trials) for o in last_of_each_file(c)):
        return "the study went on with other trials and finished them, so it ended one trial alone"
    c.recovered = run.ended_after(last) and _started_between(c, last, run)
    if c.recovered:
        return None
    if _ended_a_thread_alone(c, run):
        return "it ended a thread alone, and the process ended later of something else"
    if c.attempt not in run.died and after_the_end(c, run.finished, steps, world):
        return "the run had said before that it was complete, and nothing tells that one of its processes was killed"
    if c.attempt in run.died:
        # Steps that others had under way when it died are few; a process that records more outlived what it said.
        outlived = all(steps.steps_after(o, world.of(o)) >= STEPS_AFTER_DEATH for o in last_of_each_file(c))
        passed = outlived and _may_pass(c) and not (c.signature.area in _OUTSIDE and suffers)
        return "training went on for many steps between it and the run's end" if passed else None
    if c.signature.name in DEATHS:
        return "training went on afterwards"
    if all(_thread_was_missed(o, run) for o in c.observations) or _worker_was_missed(c, run):
        return None
    if steps.goes_on_after(last, world.of(last)) and not any(_may_be_last(o, last, run) for o in last_of_each_file(c)):
        return "training goes on below it in the same log: it was handled, or the program was started again"
    if absolved(c, [f for f in run.finished if f.attempt == c.attempt], steps, world):
        return "the run reached its end afterwards, so it was handled"
    ends = last_of_each_file(c)
    if all(_handled_there(o, c, steps, world) for o in ends):
        return "the same line of code raised it before, and the process went on each time"
    if all(steps.goes_on_elsewhere(o, world.of(o)) for o in ends):
        return "the same process went on training by what it wrote to its other files, so it was handled"
    if all(_ended_well_elsewhere(o, world.of(o), run.finished) for o in ends):
        return "the process says in its other file that it reached its end, and its launcher that it ended well"
    return None


def _may_be_last(o: Observation, last: Observation, run: _Run) -> bool:
    """Whether a sign below which its own log holds no more steps may have come after the one that is sorted last.

    Those without a time stand behind all others. A file without steps may be another stream of the same process.
    """
    if o is last or (o.timed and last.timed) or not run.steps.marks.get(o.evidence[0].file):
        return False
    return not run.steps.goes_on_after(o, run.world.of(o))


def _said_beside(c: Candidate) -> bool:
    """Whether the program went on after the last sign in each file, and no sign is of what ended it."""
    if any(o.rule is None or o.in_traceback for o in c.observations):
        return False
    return all(WENT_ON in o.captures for o in last_of_each_file(c))


def _ends_below(end: Candidate, c: Candidate) -> bool:
    """Whether one candidate is a failure of which a sign stands below all those of another in one file.

    Or it is the error with which the run ended in another one.
    """
    if end.signature.verdict != "failed" or end.signature.kind not in ("cause", "symptom") or end.attempt != c.attempt:
        return False
    lasts = last_of_each_file(c)
    if any(_follows(o, last) for o in end.observations for last in lasts):
        return True
    raised = any(o.in_traceback or o.signature == GENERIC_EXCEPTION for o in end.observations)
    return raised and any(last.captures.get(WENT_ON) == ELSEWHERE for last in lasts)


def _waited_in_vain(o: Observation) -> bool:
    """Whether a sign is an exception of a wait for what another thread was to give, in the thread that trains."""
    return "thread" not in o.captures and o.captures.get("exception", "").rpartition(".")[2] in _IN_VAIN


def _thread_was_missed(o: Observation, run: _Run) -> bool:
    """Whether nothing caught an exception of a thread, and what trained ended of waiting for that thread.

    What the thread had put into its queue is trained on meanwhile.
    """
    if "thread" not in o.captures:
        return False
    return any(_follows(w, o) and not run.steps.goes_on_after(w, run.world.of(w)) for w in run.in_vain)


def _worker_was_missed(c: Candidate, run: _Run) -> bool:
    """Whether the kernel killed a worker that its DataLoader found gone, whose last batches were still trained on."""
    killed = {(c.attempt, o.captures.get("pid", "")) for o in c.observations}
    return c.signature.name in MEMORY_KILLS and bool(killed & run.lost_workers)


def _ends_programs(c: Candidate, steps: StepClock, world: World) -> bool:
    """Whether a candidate is a cause with a name of its own, told by a main thread after which no step follows."""
    if c.signature.kind != "cause" or c.signature.verdict != "failed" or c.signature.name == GENERIC_EXCEPTION:
        return False
    return any("thread" not in o.captures and not steps.goes_on_after(o, world.of(o)) for o in c.observations)


def _ended_a_thread_alone(c: Candidate, run: _Run) -> bool:
    """Whether all signs are exceptions of threads whose processes said below them of what else they ended.

    The exception of a thread ends no process. What ended it must be of another kind, and nothing that the first can
    bring about; a wait for the thread, or an error without a name, may well come of it.
    """
    if c.signature.area in _OUTSIDE or not all("thread" in o.captures for o in c.observations):
        return False
    others = [
        o
        for end in run.ends
        if end.signature.area != c.signature.area and end.signature.name not in c.signature.causes
        for o in end.observations
        if "thread" not in o.captures
    ]
    return all(any(_follows(end, o) and _same_process(end, o, run) for end in others) for o in c.observations)


def _same_process(a: Observation, b: Observation, run: _Run) -> bool:
    one, other = run.world.of(a), run.world.of(b)
    return _one_process(run.world) or (one is not None and one == other)


def _waved_away(c: Candidate) -> str | None:
    """Why a failure is context whose every sign says itself that the program goes on; None where it is not."""
    ended = c.signature.verdict in ("failed", "hung") and not c.recovered and c.signature.area not in _OUTSIDE
    if ended and _may_pass(c) and all(_ignored(o) for o in c.observations):
        return "the program says itself that it ignores it"
    return None


def _ignored(o: Observation) -> bool:
    """Whether the line of a rule says itself that the program goes on; of a traceback nobody has added such words."""
    if o.rule is None or o.in_traceback:
        return False
    return _IGNORED.search(o.evidence[0].text) is not None


def _outlived_signs(c: Candidate, run: _Run) -> tuple[Observation, ...]:
    """The signs of a failure that did not end the process they are of: it trained on, until a later one did end it.

    Only what a program says of itself can be handled. Deaths, and what hosts, cards and links do, are told by counts
    and by the first sign; a process of which no later sign is left stays among those that are to blame, unless records
    that can be of no other show that it went on.
    """
    if c.signature.kind not in ("cause", "symptom") or c.signature.verdict != "failed" or not _may_pass(c):
        return ()
    if c.signature.area in _OUTSIDE or any(_asks_for_many(o, c) for o in c.observations):
        return ()
    processes: dict[tuple[str, int | None], list[Observation]] = {}
    for o in c.observations:
        processes.setdefault((o.evidence[0].file, run.world.of(o)), []).append(o)
    outlived: list[Observation] = []
    for (_, rank), signs in processes.items():
        over = [o for o in signs if _ignored(o) or _trained_on_after(o, rank, c, run)]
        ended = max((o.evidence[0].line or 0 for o in signs if o not in over), default=0)
        outlived += [o for o in over if _ignored(o) or (o.evidence[0].line or 0) < ended or _surely_alone(o, rank, run)]
    return tuple(outlived) if len(outlived) < len(c.observations) else ()


def _surely_alone(o: Observation, rank: int | None, run: _Run) -> bool:
    """Whether it was the sign's own process, and no peer, that recorded steps below it."""
    if rank is None:
        return _one_process(run.world)
    return run.steps.steps_after(o, rank, labelled=True) >= STEPS_AFTER_DEATH


def _one_process(world: World) -> bool:
    """Whether nothing tells of a second process."""
    return world.single or (not world.ranks and world.size in (None, 1) and len(world.nodes) < 2)


def _asks_for_many(o: Observation, c: Candidate) -> bool:
    return o.rule is not None and c.signature.evidence[o.rule].at_least > 1


def _trained_on_after(o: Observation, rank: int | None, c: Candidate, run: _Run) -> bool:
    """Whether a sign's own process recorded steps below it; of a file of several, more than others had under way."""
    if c.attempt in run.died or (rank is None and not _one_process(run.world)):
        return run.steps.steps_after(o, rank) >= STEPS_AFTER_DEATH
    return run.steps.goes_on_after(o, rank, 1 if rank is None else 2)


def _was_over(c: Candidate, run: _Run) -> bool:
    """Whether a stop met a process that had come to its end, and no training followed that end.

    What bears no time and stands in a file without steps is of a viewer or server beside the run, or of its other
    stream: a stop of the training itself would have kept its log from saying that it came to its end.
    """
    ends = [f for f in run.finished if f.attempt == c.attempt and f.weight > ANYBODYS_END]
    if any(run.steps.goes_on_after(o, None) for f in ends for o in f.observations):
        return False
    if was_over(c, ends, run.steps, run.world):
        return True
    apart = all(o.time is None and run.steps.first_in(o.evidence[0].file) is None for o in c.observations)
    return apart and any(run.steps.first_in(o.evidence[0].file) is not None for f in ends for o in f.observations)


def _may_pass(c: Candidate) -> bool:
    """Whether what a candidate says can be over: a program's own message, and no state of a device or file."""
    said = all(o.rule is not None or o.signature == GENERIC_EXCEPTION for o in c.observations)
    return said and c.signature.name not in DEATHS


def _handled_there(o: Observation, c: Candidate, steps: StepClock, world: World) -> bool:
    """Whether an exception was raised at the same place of the code, and outlived, often before."""
    place = tuple(o.captures.get(k) for k in ("exception", "file", "line", "function"))
    if None in place:
        return False
    file = o.evidence[0].file
    before = [
        other
        for other in c.observations
        if other is not o
        and other.evidence[0].file == file
        and tuple(other.captures.get(k) for k in ("exception", "file", "line", "function")) == place
    ]
    return sum(steps.goes_on_after(other, world.of(other)) for other in before) >= HANDLED


def _ended_well_elsewhere(o: Observation, rank: int | None, finished: Sequence[Candidate]) -> bool:
    """Whether a message without a time, which may stand before or after the end, is of a process that ended well.

    Its own other file must hold the end, and the launcher must have seen exit codes of 0.
    """
    said = [f for c in finished for f in c.observations if f.identity.attempt in (None, o.identity.attempt)]
    own = [f for f in said if f.identity.rank == rank and f.evidence[0].file != o.evidence[0].file]
    return not o.timed and rank is not None and bool(own) and any("exits" in f.captures for f in said)


def _outlived_death(c: Candidate, run: _Run) -> bool:
    """Whether every message of a death is followed by training in its own file, with no new start between.

    A file in which it was said again and again while training went on says nothing by the last time before its end.
    """
    for last in last_of_each_file(c):
        if any(_follows(s, last) for s in run.starts):
            return False
        if run.steps.goes_on_after(last, run.world.of(last), STEPS_AFTER_DEATH):
            continue
        file = last.evidence[0].file
        outlived = sum(
            run.steps.goes_on_after(o, run.world.of(o), STEPS_AFTER_DEATH)
            for o in c.observations
            if o.evidence[0].file == file
        )
        if outlived < 2 or not any(finished_after(f, last, same_file=True) for f in run.finished):
            return False
    return True


def _follows(later: Observation, earlier: Observation) -> bool:
    """Whether one observation stands below another in the same file."""
    return later.evidence[0].is_below(earlier.evidence[0])


def _started_between(c: Candidate, last: Observation, run: _Run) -> bool:
    """Whether a new process, and not the one that failed, went on after the last sign.

    A checkpoint that cannot be read while the run resumes is handled by the process that reads the next one.
    """
    if not run.steps.began_before(last):
        return False
    if any(_follows(s, last) for s in run.starts):
        return True
    if c.signature.severity != "fatal" or c.signature.area == "checkpoints":
        return False
    return any(_follows(r, last) for r in run.resumed)


def _resumed_elsewhere(last: Observation, resumed: Iterable[Observation], steps: StepClock) -> bool:
    """Whether another file goes on from the state that this one had reached when it was interrupted.

    Its clock must not contradict; without clocks the step at which it resumes has to lie in what was done.
    """
    known = steps.last_before(last, None)
    if known is None:
        return False
    step = known.step
    for r in resumed:
        if r.evidence[0].file == last.evidence[0].file:
            continue
        if r.time is not None and last.time is not None and r.time + CLOCK_SLACK < last.time:
            continue
        at = r.step if r.step is not None else steps.first_in(r.evidence[0].file)
        if at is not None and step / 2 < at <= step + 1 and (steps.last_in(r.evidence[0].file) or 0) > step:
            return True
    return False


def _is_text(o: Observation, steps: StepClock) -> bool:
    """Whether a sign stands in a sample, a note or a record of data, and not in a log."""
    key = o.evidence[0]
    if steps.first_in(key.file) is not None:
        return False
    text = key.text.lstrip()
    if text.startswith("{") and _DATA_KEY.search(text) and not _LOGGER_KEY.search(text):
        return True
    return named_as_text(key.file)


def named_as_text(path: str) -> bool:
    """Whether a file is a sample, a note or the like by its name, and no log."""
    return _TEXTS.search(path) is not None and _LOGS.search(path) is None


def _is_older(c: Candidate, steps: StepClock) -> bool:
    """Whether all signs are lines of a kernel log from before the first step of the run."""
    begin = steps.began
    if begin is None:
        return False
    for o in c.observations:
        if o.time is None or not _KERNEL.search(o.evidence[0].text):
            return False
        if o.time > begin - (OLDER):
            return False
    return True
