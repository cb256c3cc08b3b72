"""Whether a kernel message is a cause, or follows from the program, or is beside the matter.

A kernel log is of a host and not of a run: it holds other processes' crashes, errors that were corrected, and what the
driver tidied up after the program's own error. What the run did not suffer by is context.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from forensics.engine import whose, zones
from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.kernel import FOREIGN, KILLED, elsewhere, in_words_of_kernel
from forensics.engine.kernel.clock import SAID_BY_PROGRAMS
from forensics.engine.kernel.owners import CARD, HOST, KNOWN, PROCESS, VICTIM
from forensics.engine.order import SAME_CLOCK
from forensics.engine.peers import GONE
from forensics.engine.steps import StepClock
from forensics.engine.survival import (
    CLOCK_SLACK,
    DEATHS,
    ENDS_A_RUN,
    GENERIC_EXCEPTION,
    OLDER,
    STEPS_AFTER_DEATH,
    SUFFERING,
    WORKER_KILLED,
)
from forensics.model import BYSTANDER, Observation
from forensics.parsers.kernel import xid
from forensics.parsers.kernel.lines import read_line
from forensics.signatures.schema import Signature

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

FOLLOW_UP = "xid-follow-up"
# Processes of a training run as the kernel names them: a thread's name of 15 characters at most.
TRAINING = re.compile(
    r"^(?:python|pt_|ray::|ray_|torchrun|deepspeed|accelerate|VLLM|vllm|cuda-EvtHandlr|nccl|train|jax|mpi|srun|slurm)"
)
# Seconds after a kernel's message in which a run that suffers by it still records steps, and twice that.
AFTERWARDS = 600.0
# What makes itself felt in the end of a process, wherever its messages stand; only a run that ended well was spared.
KILLS_A_PROCESS = frozenset(
    "host-oom host-oom-cgroup sigkill-unknown-sender srun-task-exited child-failed-error dataloader-worker-killed "
    "ray-worker-died pod-evicted rank-exited-early".split()
)
# What a program says where its host is short of memory.
HOST_MEMORY = ("cpu-allocation-failed", "dataloader-worker-lost", "shm-exhausted", "thread-limit-exhausted")
MEMORY_KILLS = ("host-oom", "host-oom-cgroup")
RAYS_WORKER = "ray-worker-died"
# A pid from here on is a host's own: containers count from 1, and their processes are hundreds. Linux counts up to
# 32,768 on small machines, and to 4,194,304 on others (kernel.pid_max, which systemd raises).
NO_CONTAINERS = 100_000
# Exit codes of processes that crashed: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, as Python and as shells give them.
_CRASHES = frozenset(str(code) for signal in (4, 6, 7, 8, 11) for code in (-signal, 128 + signal))
# Areas of what a program does wrong by itself, and what else its own code, settings, names or use of a GPU's memory
# bring about.
_OF_PROGRAMS = ("wiring", "data", "resume", "rl", "config")
_OWN_CAUSES = frozenset(
    "argument-unknown-to-library arguments-rejected command-not-found cuda-oom hf-gated-repo hf-permission-denied "
    "hf-repo-not-found import-name-missing kv-cache-does-not-fit launch-env-missing module-not-found "
    "numpy-abi-mismatch numpy-name-removed oom-at-optimizer-step oom-on-checkpoint-save optimizer-state-mismatch "
    "protobuf-version-mismatch shell-variable-unset state-dict-key-mismatch state-dict-prefix-module "
    "state-dict-prefix-orig-mod state-dict-prefix-wrapper state-dict-vocab-size-mismatch torchvision-mismatch".split()
)
# Ends from outside, which come to a run that hangs as well: where its steps bear times, a hang is told from work.
_BY_SCHEDULERS = ("preempted", "scheduler-time-limit")
# Of those areas, what a host, a device or a disk brings about as well.
_OF_HOSTS = frozenset(
    "corrupt-sample dataloader-timeout dataloader-worker-segfault dataset-file-missing object-store-error "
    "vllm-server-unreachable".split()
)
# Links, adapters and storage: a program that needs them says so when they fail.
STORAGE = "checkpoints"
BESIDE_AREAS = ("nccl", STORAGE)

# What ranks say that wait for one, who is blamed for it, what those say that lost a peer, and what a program brings
# about on its own card.
WAITS = frozenset({"collective-timeout", "straggler-rank", "rank-exited-early"})
CARD_FULL = "cuda-oom"
LOSSES = GONE | {"nccl-watchdog-abort"}
# Exceptions that no device, link or file brings about.
OWN_EXCEPTIONS = frozenset(
    "KeyError IndexError TypeError ValueError AttributeError NameError UnboundLocalError AssertionError ImportError "
    "ModuleNotFoundError NotImplementedError ZeroDivisionError RecursionError SyntaxError JSONDecodeError".split()
)
FOLLOWS = "It follows from the program's own error: {what}"
UNHARMED = "the run reached its end, and no log of it shows that it suffered by this"
UNHARMED_SO_FAR = "no log of the run shows that it suffered by this"
WENT_ON = "training went on for many steps between it and the run's own trouble"
BESIDE = "the run has an error of its own, and nothing shows that it suffered by this"
LOGGED_ON = "all logs of the run recorded steps past it in their rhythm, so the process that ended is none of its ranks"
NOT_THE_RUNS_KILL = "it concerns {process}, and another message tells what killed a process of the run"
OLDER_KILL = (
    "it was written {apart} before a process of the run was killed, and another message tells of a kill at that time"
)
UNTIED = "nothing ties it to a process of the run, and another message of the kernel says what killed one"
NOT_AWAITED = "the ranks for which the others waited are on other hosts, and failed of an error of their own"
OTHER_HOST = "it is of {host}, and every rank of the run is on another host"
OTHER_CARD = "it is of GPU {card}, and the run says that it uses others"
UNDATED = "nothing says when it was written or ties it to the run, whose own error does not follow from it"
AFTER = "it was written {apart} after the last sign of the run, which had ended"
BEFORE = "it was written {apart} before the first sign of the run, which has an error of its own"
LATER = "by its clock it was written {apart} after the last sign of the run"
OTHER_PROCESS_KILLED = "it is another process that was killed ({victim}), and none that the launcher saw end"
OTHER_HOSTS_PROCESS = "it is of {host}, and the processes of the run that were killed were on {theirs}"
OTHER_PROCESS = "it concerns {process}, and the run has an error of its own"
NO_RANKS_PROCESS = "it concerns {process}, and no rank of the run says that its own GPU failed"
IN_NO_ZONE = (
    "in whatever zone the clocks are, it was not written while the run was there, which has an error of its own"
)
BEFORE_UNTIED = (
    "by its clock it was written {apart} before the first sign of the run, whose own error does not follow from it"
)
NO_KILL_SHOWN = (
    "the run logged steps past it and shows no process that was killed, and its own error does not follow from it"
)
BEFORE_ALL = "it was written {apart} before the first sign of the run, and no rank says that its GPU failed"


def of_kernel(o: Observation) -> bool:
    """Whether an observation is a kernel's line, or one of its messages without a prefix."""
    text = o.evidence[0].text
    line = read_line(text)
    return (line is not None and line.by_kernel) or "NVRM: " in text or in_words_of_kernel(text)


def settle(found: Sequence[Observation], catalogue: Mapping[str, Signature]) -> list[Observation]:
    """Observations in which an Xid that programs bring about follows from the program's own error, if it has one.

    Xid 13, 31, 32 and 69 are how the driver words what a kernel of the program did. Where the program says it too, in
    the words of the same signature, both are one sign; where it has another error of its own, that one came first.
    """
    if FOLLOW_UP not in catalogue:
        return list(found)
    own = [o for o in found if not of_kernel(o) and _ends_a_run(o, catalogue)]
    result = []
    for o in found:
        meaning = xid.meanings().get(int(o.captures["xid"])) if _is_xid(o) else None
        if meaning is None or meaning.whose != "program" or o.signature != meaning.signature or not of_kernel(o):
            result.append(o)
            continue
        words = (o.signature, *SAID_BY_PROGRAMS.get(o.signature, ()))
        said = [p for p in own if p.signature in words]
        another = elsewhere(o) or (o.captures.get(FOREIGN) == PROCESS and not said)
        if another or any(p.signature == o.signature for p in said):
            result.append(o)
        elif reason := next(iter([*said, *own]), None):
            note = FOLLOWS.format(what=catalogue[reason.signature].title)
            note = f"{o.note}. {note}" if o.note else note
            result.append(replace(o, signature=FOLLOW_UP, note=note, culprits=(), rule=None))
        else:
            result.append(o)
    return result


def _is_xid(o: Observation) -> bool:
    return o.captures.get("xid", "").isdigit() and len(o.captures["xid"]) < 6


def _ends_a_run(o: Observation, catalogue: Mapping[str, Signature]) -> bool:
    signature = catalogue[o.signature]
    if o.signature == GENERIC_EXCEPTION:
        return True
    return signature.kind == "cause" and signature.verdict in ENDS_A_RUN and signature.severity in ("fatal", "error")


def set_aside(found: Sequence[Candidate], steps: StepClock) -> None:
    """Give each candidate that kernel lines alone show its `context`, where the run did not suffer by it.

    Kernel logs by themselves say nothing of a run: where no log shows training or an error, what they hold stands.
    """
    for c in found:
        if c.context is not None and _lasted(c, found):
            c.context = None
    live = [c for c in found if c.signature.kind in ("cause", "symptom", "echo") and c.context is None]
    kernels = [c for c in live if all(map(of_kernel, c.observations))]
    for c in found:
        if elsewhere(c.observations[0]) == HOST and c.signature.kind in ("cause", "symptom", "echo"):
            c.context = OTHER_HOST.format(host=_hosts(c))
        elif elsewhere(c.observations[0]) == VICTIM and c.signature.kind in ("cause", "symptom", "echo"):
            theirs = c.observations[0].captures.get(VICTIM, "")
            c.context = OTHER_HOSTS_PROCESS.format(host=_hosts(c), theirs=theirs)
    others = [c for c in live if c not in kernels]
    ends = [c for c in found if c.signature.name == FINISHED]
    if not others and not ends and not any(steps.marks.values()):
        return
    kernels = [c for c in kernels if c.context is None]
    span = Span.of(found, steps)
    end = max((c.attempt for c in ends), default=None)
    # Any program says "done": without a step on record that clears only what names another process.
    sure = any(c.weight > ANYBODYS_END for c in ends) or any(steps.marks.values())
    for c in kernels:
        if not others and end is not None and c.attempt < end and _killed_a_worker(c):
            c.recovered = True
            continue
        if not others and not sure and _other_process(c) is None:
            continue
        c.context = _of_no_rank(c, found) or _why_not(c, end, others, steps) or _outside(c, span, others, found)
        if c.context is None and others and (apart := _after(c, span)) is not None:
            c.yields = LATER.format(apart=in_words(apart))
        if c.context is None and c.yields is None and _elsewhere_than_awaited(c, others):
            c.yields = NOT_AWAITED
    told = {c.attempt for c in found if c.context is None and any(map(_memory_kill_of_the_run, c.observations))}
    for c in kernels:
        if c.context is None and c.attempt in told and (process := _killed_for_memory_apart(c)) is not None:
            c.context = NOT_THE_RUNS_KILL.format(process=process)
        elif c.context is None and (apart := _long_before_the_kill(c, kernels, others)) is not None:
            c.context = OLDER_KILL.format(apart=in_words(apart))
    killed = {c.attempt for c in kernels if c.context is None and c.signature.name in KILLED and c.ranks}
    for c in kernels:
        if c.attempt in killed and not c.ranks and c.signature.name not in KILLED:
            c.yields = UNTIED


def _memory_kill_of_the_run(o: Observation) -> bool:
    """Whether the kernel says of a process that the run names that memory was full as it was killed."""
    return o.signature in MEMORY_KILLS and "pid" in o.captures and FOREIGN not in o.captures and of_kernel(o)


def _killed_for_memory_apart(c: Candidate) -> str | None:
    """The process, in words, of kills for want of memory all of which are of none that the run names; else None.

    Another kind of memory may have been full then than was when a process of the run was killed.
    """
    if c.signature.name not in MEMORY_KILLS or any(o.captures.get(FOREIGN) != PROCESS for o in c.observations):
        return None
    return _other_process(c) or "other processes"


def _long_before_the_kill(c: Candidate, kernels: Sequence[Candidate], others: Sequence[Candidate]) -> float | None:
    """Seconds from the last of such kills to that of a process of the run, where another one came with the latter.

    None where that is no more than AFTERWARDS, or where the same log tells of no kill for want of another kind of
    memory at the time at which a launcher saw a process end by SIGKILL.
    """
    if c.signature.name not in MEMORY_KILLS or not (times := _times(c)):
        return None
    dead = [
        o.time
        for d in others
        for o in d.observations
        if o.time is not None and o.timed and o.captures.get("exitcode") in ("-9", "137")
    ]
    files = {o.evidence[0].file for o in c.observations}
    with_it = [
        o.time
        for d in kernels
        if d is not c and d.signature.name in MEMORY_KILLS and d.context is None
        for o in d.observations
        if o.time is not None and o.timed and {o.evidence[0].file} == files
    ]
    if not any(abs(kill - end) <= CLOCK_SLACK for kill in with_it for end in dead):
        return None
    apart = min(dead) - max(times)
    return apart if apart > AFTERWARDS else None


def _why_not(c: Candidate, end: int | None, others: Sequence[Candidate], steps: StepClock) -> str | None:
    """Why a candidate of a kernel log is context; None where it is not. end: the last attempt that came to its end."""
    if end is not None and end >= c.attempt and not others:
        return UNHARMED
    beside = _has_own_error(c, others)
    if (victim := _another_victim(c, others)) is not None:
        return OTHER_PROCESS_KILLED.format(victim=victim)
    if elsewhere(c.observations[0]) == CARD and (beside or _of_the_program(c)):
        return OTHER_CARD.format(card=c.observations[0].captures.get("bdf", ""))
    if beside and not _killed(c, others) and (process := _other_process(c)):
        return OTHER_PROCESS.format(process=process)
    if _logged_on(c, others, steps):
        return LOGGED_ON
    if c.signature.kind == "echo":
        return None
    if beside and _undated(c, others, steps) and not _shown(c, others):
        return UNDATED
    if beside and _killed_beside(c, others, steps):
        return NO_KILL_SHOWN
    causes = _own_errors(others)
    trouble = {o.signature.name for o in others if not _of_who_raised(o, causes)}
    minor = c.signature.severity in ("warning", "info") or c.signature.verdict not in ENDS_A_RUN
    if minor and not trouble & SUFFERING and not others:
        return UNHARMED_SO_FAR
    if causes and not trouble & SUFFERING and (minor or c.signature.kind == "symptom"):
        return BESIDE
    if causes and c.signature.area in BESIDE_AREAS and not trouble & SUFFERING:
        named = {o.signature.name for o in causes}
        if not named & set(c.signature.causes) and not named & {"storage-io-error", "checkpoint-write-failed"}:
            return BESIDE
    if _long_before(c, others, steps):
        return WENT_ON
    return None


def _undated(c: Candidate, others: Sequence[Candidate], steps: StepClock) -> bool:
    """Whether a candidate has no time, rank or process of the run, and the run ended of its own error.

    What is dated is told by its time (`_outside`, `_long_before`): without one of its own, a line may be of weeks ago,
    or of weeks after the one above it.
    """
    pids = {o.captures["pid"] for o in c.observations if "pid" in o.captures}
    if c.ranks or any(o.time is not None and o.timed for o in c.observations):
        return False
    if any(o.captures.get("pid") in pids for other in others for o in other.observations):
        return False
    timed = any(m.time is not None for marks in steps.marks.values() for m in marks)
    return any(_follows_from_nothing(o) or (timed and o.signature.name in _BY_SCHEDULERS) for o in _last_errors(others))


def _last_errors(others: Sequence[Candidate]) -> list[Candidate]:
    """The errors of its own of which the last attempt that had trouble ended."""
    last = max((o.attempt for o in others), default=0)
    return [o for o in _own_errors(others) if o.attempt == last and not o.recovered]


def _killed_beside(c: Candidate, others: Sequence[Candidate], steps: StepClock) -> bool:
    """Whether a process that was killed, or crashed, is none that trained: the run went on and ended of its own code.

    A rank that is killed logs no step any more, and the others, which wait for it, raise nothing of their own code.
    """
    if c.signature.name not in KILLED or c.ranks or not (times := _times(c)) or _shown(c, others):
        return False
    if not any(_follows_from_nothing(o) and o.attempt == c.attempt for o in _last_errors(others)):
        return False
    logs = [[m.time for m in marks if m.time is not None and m.by(c.attempt)] for marks in steps.marks.values()]
    ends = [max(log) for log in logs if log]
    return bool(ends) and min(ends) > max(times) + SAME_CLOCK


def _follows_from_nothing(c: Candidate) -> bool:
    """Whether an error of the program itself is of a kind that no device, host, link or disk brings about."""
    name = c.signature.name
    if name == GENERIC_EXCEPTION:
        return _is_own(c)
    return name in _OWN_CAUSES or (c.signature.area in _OF_PROGRAMS and name not in _OF_HOSTS)


def _shown(c: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether the run shows what a kernel's message brings about: its effects, a process that was killed, or a hang."""
    names = {o.signature.name for o in others}
    if names & _effects(c) or any(o.signature.verdict == "hung" for o in others):
        return True
    if c.signature.name in KILLED:
        return _killed(c, others)
    crashed = {*_CRASHES, "-9", "137"}
    codes = {o.captures.get("exitcode") for d in others if d.signature.name in KILLS_A_PROCESS for o in d.observations}
    return bool(names & SUFFERING or codes & {None, *crashed})


def _of_no_rank(c: Candidate, found: Sequence[Candidate]) -> str | None:
    """Why what a process did on a GPU is context, where it is none of the run's, whatever else the run met; else None.

    A rank whose GPU has stopped its work says so with its next call, and its watchdog does while it waits. Containers
    count their processes anew: where a rank that may be meant has left no word, nothing is known.
    """
    process = _other_process(c)
    known = all(KNOWN in o.captures for o in c.observations)
    if process is None or not known or not _of_the_program(c) or c.signature.kind == "echo":
        return None
    if elsewhere(c.observations[0]) == PROCESS:
        return OTHER_PROCESS.format(process=process)
    return NO_RANKS_PROCESS.format(process=process) if _no_gpu_failed(c, found) else None


def _no_gpu_failed(c: Candidate, found: Iterable[Candidate]) -> bool:
    """Whether no line of the run is of a GPU's failure, and the ranks of a candidate are heard of."""
    heard: set[int | None] = set()
    for other in found:
        said = [o for o in other.observations if not of_kernel(o)]
        failed = other.signature.area == "gpu" or other.signature.name == "nccl-unhandled-cuda-error"
        if said and failed and other.signature.kind in ("cause", "symptom", "echo"):
            return False
        heard.update(o.identity.rank for o in said)
    return not c.ranks or set(c.ranks) <= heard


def _lasted(c: Candidate, found: Iterable[Candidate]) -> bool:
    """Whether a storage error that training outlived led to the run's own trouble with the storage all the same.

    A program goes on training while the disk below it is gone, until it next writes.
    """
    if c.signature.area != STORAGE or any(not of_kernel(o) or BYSTANDER in o.captures for o in c.observations):
        return False
    times = _times(c)
    return any(
        o.context is None
        and o.signature.area == STORAGE
        and o.signature.name in c.signature.causes
        and o.attempt == c.attempt
        and o.time is not None
        and bool(times)
        and min(times) <= o.time <= max(times) + AFTERWARDS
        and not any(whose.apart(a.identity.node, b.identity.node) for a in o.observations for b in c.observations)
        for o in found
    )


def _killed_a_worker(c: Candidate) -> bool:
    """Whether the kernel killed a process of training in an attempt that is known: it broke off, and was started again.

    Processes that the run names by their number are told apart before (`owners.PROCESS`).
    """
    return c.signature.name in KILLED and all(
        o.identity.attempt is not None
        and FOREIGN not in o.captures
        and TRAINING.match(o.captures.get("process") or o.captures.get("comm") or "python") is not None
        for o in c.observations
    )


def _another_victim(c: Candidate, others: Sequence[Candidate]) -> str | None:
    """The process that the kernel says it killed, where the run's own dead are known to be others; None if not.

    A launcher names pid and host of each process that it saw end, Ray and a DataLoader the pid of their worker.
    Containers count their processes anew: another pid alone proves nothing, but with it the name of a program that
    trains nothing does, and so do another host, another signal, and a pid that no container counts up to.
    """
    if c.signature.name not in KILLED or c.ranks:
        return None
    dead = [
        o
        for d in others
        for o in d.observations
        if "exitcode" in o.captures
        or d.signature.name == WORKER_KILLED
        or (d.signature.name == RAYS_WORKER and "pid" in o.captures)
    ]
    if not dead or any("pid" not in o.captures for o in (*dead, *c.observations)):
        return None
    if {o.captures["pid"] for o in dead} & {o.captures["pid"] for o in c.observations}:
        return None
    names = {o.captures.get("process") or o.captures.get("comm") or "python" for o in c.observations}
    hosts, theirs = ({o.identity.node for o in said} for said in (c.observations, dead))
    away = None not in hosts and theirs != {None} and not hosts & theirs
    told_apart = away or _by_other_signals(c, dead) or all(of_a_host(o.captures["pid"]) for o in dead)
    if not told_apart and any(TRAINING.match(name) for name in names):
        return None
    pids = ", ".join(sorted({o.captures["pid"] for o in c.observations})[:3])
    return f"{', '.join(sorted(names)[:3])}, pid {pids}" + (f" on {_hosts(c)}" if away else "")


def of_a_host(pid: str) -> bool:
    """Whether a process is numbered as the kernel of its host does, which names it by the same number then."""
    return pid.isdigit() and len(pid) < 10 and int(pid) >= NO_CONTAINERS


def _by_other_signals(c: Candidate, dead: Sequence[Observation]) -> bool:
    """Whether all processes that a launcher saw end did so by a signal that is not the one of the kernel's message."""
    codes = {o.captures.get("exitcode", "") for o in dead}
    own = KILLED[c.signature.name]
    return all(code in _CRASHES for code in codes) and not codes & {own, str(128 - int(own))}


def _killed(c: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether the run shows that a process of it may have ended as a kernel's message says that one did.

    Launchers that state exit codes, and none of a signal's, saw no process killed.
    """
    signal = KILLED.get(c.signature.name)
    if signal is None:
        return (
            not _of_the_program(c)
            and c.signature.kind != "echo"
            and any(o.signature.name in KILLS_A_PROCESS for o in others)
        )
    codes = {signal, str(128 - int(signal))}
    for other in others:
        if other.signature.name not in KILLS_A_PROCESS:
            continue
        told = {o.captures["exitcode"] for o in other.observations if "exitcode" in o.captures}
        if not told or told & codes:
            return True
    return False


def _of_the_program(c: Candidate) -> bool:
    """Whether all signs are of Xids that report what a process itself did on a GPU, or that follow from that."""
    return all(_by_program(o.captures.get("xid", "")) for o in c.observations)


def _by_program(number: str) -> bool:
    meaning = xid.meanings().get(int(number)) if number.isdigit() and len(number) < 6 else None
    return meaning is not None and meaning.whose in ("program", "follow")


def _hosts(c: Candidate) -> str:
    return ", ".join(sorted({o.identity.node for o in c.observations if o.identity.node})[:3])


@dataclass(frozen=True, slots=True)
class Span:
    """When the run's own logs speak, by their own clocks."""

    first: float | None = None  # seconds since the epoch
    last: float | None = None
    zone_known: bool = False  # of all of it

    @classmethod
    def of(cls, found: Iterable[Candidate], steps: StepClock) -> Span:
        own, carried = [], []  # carried: signs that bear the time and zone of an earlier line of their file
        for c in found:
            carried += [
                o for o in c.observations[:1] if o.time is not None and not of_kernel(o) and "pod" not in o.captures
            ]
            timed = [o for o in c.observations if o.time is not None and o.timed and "pod" not in o.captures]
            own += [*itertools.islice((o for o in timed if not of_kernel(o)), 1)]  # in the order of their times
            own += [*itertools.islice((o for o in reversed(timed) if not of_kernel(o)), 1)]
        marks = [m.time for of_source in steps.marks.values() for m in of_source if m.time is not None]
        times = [*(o.time for o in own if o.time is not None), *marks]
        return (
            cls(min(times), max(times), bool(own or carried) and all(o.zone_known for o in own or carried))
            if times
            else cls()
        )


def _outside(c: Candidate, span: Span, others: Sequence[Candidate], found: Sequence[Candidate]) -> str | None:
    """Why a kernel's message that was written before the run began or after its end is context; None where it is not.

    Zones that nobody states may be a day apart. Where the run has an error of its own that such a message does not
    bring about, it is believed to have been written when it says so.
    """
    beside = _has_own_error(c, others)
    unharmed = others and _of_the_program(c) and c.signature.kind != "echo" and _no_gpu_failed(c, found)
    if (apart := _after(c, span)) is not None:
        known = span.zone_known and all(o.zone_known for o in c.observations)
        ended = any(o.signature.name in DEATHS for o in others)
        return AFTER.format(apart=in_words(apart)) if beside or (ended and (known or apart > OLDER)) else None
    times = _times(c)
    if not (beside or unharmed) or not times or span.first is None or (c.signature.name in KILLED and c.ranks):
        return None  # a process that a rank names was alive when the kernel ended it, whatever the clocks say
    # A log that states no zone may be hours off one that does.
    same = all(o.zone_known == span.zone_known for o in c.observations)
    apart = span.first - max(times)
    if apart > (CLOCK_SLACK if same else OLDER):
        return (BEFORE if beside else BEFORE_ALL).format(apart=in_words(apart))
    if (
        beside
        and apart > CLOCK_SLACK
        and any(map(_follows_from_nothing, _last_errors(others)))
        and not _shown(c, others)
    ):
        return BEFORE_UNTIED.format(apart=in_words(apart))
    return IN_NO_ZONE if beside and not _in_some_zone(c, times, span) else None


def _in_some_zone(c: Candidate, times: Iterable[float], span: Span) -> bool:
    """Whether any zone brings a sign to the run or close to it, where one clock is in UTC and the other is unknown.

    Of two clocks that both are known, or both unknown, nothing is said: they count as one.
    """
    stated = {o.zone_known for o in c.observations}
    if span.first is None or span.last is None or stated != {not span.zone_known}:
        return True
    ahead = -1 if span.zone_known else 1  # the clock of an unknown zone is the other one's and its offset
    begin, end = span.first - AFTERWARDS, span.last + AFTERWARDS
    return any(begin <= t + ahead * hours * 3600.0 <= end for t in times for hours in zones.OFFSETS)


def _has_own_error(c: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether the run has an error of its own, and none that a kernel's message brings about."""
    own = [o for o in _own_errors(others) if o.signature.name not in SUFFERING]
    return bool(own) and not any(o.signature.name in _effects(c) for o in own)


def _times(c: Candidate) -> list[float]:
    """The times of all signs; none where any bears none."""
    times = [o.time for o in c.observations if o.time is not None and o.timed]
    return times if len(times) == len(c.observations) else []


def _after(c: Candidate, span: Span) -> float | None:
    """Seconds between the run's last sign and the first one of a candidate, by their clocks; None where it is none."""
    times = _times(c)
    if not times or span.last is None or min(times) <= span.last + CLOCK_SLACK:
        return None
    return min(times) - span.last


def _effects(c: Candidate) -> set[str]:
    """What a kernel's message brings about, or programs say of the same event."""
    said = SAID_BY_PROGRAMS.get(c.signature.name, ())
    short = HOST_MEMORY if c.signature.name in MEMORY_KILLS else ()
    return {*c.signature.causes, *c.signature.causes_on_rank, *said, *short}


def _of_who_raised(o: Candidate, causes: Iterable[Candidate]) -> bool:
    """Whether others wait only for ranks, or lost one, that raised what no device, link or file brings about.

    Not where these tell of a lost peer as well: their exception may come of it.
    """
    raised = {r for c in causes if c.signature.name in (GENERIC_EXCEPTION, CARD_FULL) for r in c.ranks or ()}
    if o.signature.name in WAITS:
        return bool(o.ranks) and raised >= set(o.ranks or ())
    told = {a.identity.rank for a in o.observations}
    return o.signature.name in LOSSES and bool(raised) and not told & raised


def _elsewhere_than_awaited(c: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether it names no rank, and all for which others wait are ranks of other hosts with an error of their own."""
    causes = [o for o in _own_errors(others) if o.attempt == c.attempt]
    waits = [o for o in others if o.signature.name in WAITS and o.attempt == c.attempt]
    if c.ranks or not waits or not all(_of_who_raised(o, causes) for o in waits):
        return False
    awaited = {r for o in waits for r in o.ranks or ()}
    hosts = {a.identity.node for o in causes for a in o.observations if a.identity.rank in awaited}
    return bool(hosts) and all(whose.apart(a.identity.node, host) for a in c.observations for host in hosts)


def _own_errors(others: Iterable[Candidate]) -> list[Candidate]:
    return [o for o in others if o.signature.severity in ("fatal", "error") and _is_own(o)]


def in_words(seconds: float) -> str:
    """ "3 h 1 min": how far times lie apart."""
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(filter(None, [f"{hours} h" if hours else "", f"{minutes} min" if minutes or not hours else ""]))


def _is_own(c: Candidate) -> bool:
    """Whether a candidate is an error of the program itself, and none that hosts, links or storage bring about."""
    if c.signature.name != GENERIC_EXCEPTION:
        return c.signature.kind == "cause"
    return all(o.captures.get("exception", "").rpartition(".")[2] in OWN_EXCEPTIONS for o in c.observations)


def _long_before(c: Candidate, others: Sequence[Candidate], steps: StepClock) -> bool:
    """Whether training went on for many steps between a candidate's last sign and the run's first own trouble.

    Clocks in zones that nobody states may be a day apart; then only what lies farther back is before.
    """
    last = max((o for o in c.observations if o.time is not None and o.timed), key=lambda o: o.time or 0.0, default=None)
    if last is None or last.time is None or any(o.time is None or not o.timed for o in c.observations):
        return False
    first = min((o.time for o in others if o.time is not None), default=None)
    if first is None:
        if others:
            return False
        first = max((m.time for marks in steps.marks.values() for m in marks if m.time is not None), default=0.0)
    own = [o for c in others for o in c.observations if o.time is not None]
    known = bool(own) and last.zone_known and all(o.zone_known for o in own)
    # Without trouble of its own a run of unstated zone is taken to be in that of its host, except for what ends a GPU.
    near = known or (not others and c.signature.area != "gpu")
    if first - last.time < (AFTERWARDS if near else OLDER):
        return False
    after = {
        (m.step, m.attempt)
        for marks in steps.marks.values()
        for m in marks
        if m.time is not None and last.time + AFTERWARDS / 2 < m.time <= first
    }
    return len(after) >= STEPS_AFTER_DEATH


def _logged_on(c: Candidate, others: Sequence[Candidate], steps: StepClock) -> bool:
    """Whether each log of training went on in its rhythm past the end of a process that no rank is known to be.

    A rank that is killed records nothing more, and the others soon wait for it. Of clocks in zones that nobody states,
    an offset between them may put the kill at the end of the records: then nothing is known.
    """
    times = _times(c)
    if (
        c.signature.name not in KILLED
        or c.ranks
        or not times
        or any(m.signature.name in KILLS_A_PROCESS for m in others)
    ):
        return False
    if any(o.signature.name in (SUFFERING | _effects(c)) for o in others):
        return False
    logs = [[m.time for m in marks if m.time is not None and m.by(c.attempt)] for marks in steps.marks.values()]
    logs = [log for log in logs if log and log[0] < min(times)]
    return bool(logs) and all(_past(log, t) for log in logs for t in times)


def _past(log: Sequence[float], time: float) -> bool:
    """Whether the records of one log go on past a time with no gap around it. log: in the order of writing."""
    after = [t for t in log if t > time]
    if len(after) < STEPS_AFTER_DEATH or len(log) < 2 * STEPS_AFTER_DEATH or after[-1] - time < CLOCK_SLACK:
        return False
    usual = median(b - a for a, b in itertools.pairwise(log))
    gap = after[0] - max(t for t in log if t <= time)
    off = (log[-1] - time) % zones.STEP
    return gap <= 3 * usual and min(off, zones.STEP - off) > CLOCK_SLACK


def _other_process(c: Candidate) -> str | None:
    """The process of which all signs speak, in words, where it is none that is known of the run."""
    observations = c.observations
    if any(o.identity.rank is not None for o in observations):
        return None
    names = {o.captures.get("process") or o.captures.get("comm") for o in observations}
    name = names.pop() if len(names) == 1 else None
    if name is not None and not TRAINING.match(name):
        return f"another process ({name})"
    if c.signature.kind == "echo":  # in a container it may well be the process whose error it follows from
        return None
    pids = {o.captures.get("pid", "") for o in observations if o.captures.get(FOREIGN) == PROCESS}
    if all(o.captures.get(FOREIGN) == PROCESS for o in observations) and len(pids) == 1:
        return f"pid {pids.pop()}, which no log of the run names"
    return None
