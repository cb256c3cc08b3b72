"""What belongs to the end of a run and did not bring it about: announced stops and kills, and what the interpreter
leaves behind.

Once a launcher ends a job step, who is killed there did nothing.

After a task failed, srun says `Terminating StepId=...`; its daemons say that the step is cancelled, send SIGTERM, and
SIGKILL after KillWait (slurm.conf, 30 seconds unless set); then srun says of each task how it ended. The order of the
lines tells a kill that came first from one that was announced, and a stop from outside from srun's own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine.finishes import FINISHED
from forensics.engine.steps import StepClock
from forensics.engine.whose import WORKER_EXIT
from forensics.model import Observation, Traceback
from forensics.patterns import lazy

KILLED = "sigkill-unknown-sender"
STOPPED = "external-sigterm"
REPORT = "srun-task-exited"
_INTERRUPT = "keyboard-interrupt"
AT_EXIT = "exception-at-exit"
BY_LAUNCHER = "sigterm-to-children"
# Distinct steps between an announcement and a kill from which on they are of different job steps: ranks that are
# stopped may still print what they had under way.
STEPS_BETWEEN = 5
# What srun prints where it ends a step of its own accord; on a request it says only `Job step aborted`.
_TERMINATES = lazy(
    r"\bsrun: (?:launch/slurm: _step_signal: )?(?:Terminating|Force Terminated) (?:StepId=|job step )(?P<step>[\d.]+)"
)
_FAILED_TASK = lazy(r"\bsrun: error: [^\s:]+: tasks? [\d,\[\]-]+: Exited with exit code (?!(?:130|137|143)\b)[1-9]")
_CANCELLED = lazy(r"\*\*\* (?:STEP|JOB) (?P<step>\S+) ON \S+ CANCELLED AT ")
_ABORTED = lazy(r"\bsrun: Job step aborted")
_NOT_OWN = lazy(
    r"(?i)SignalException|KeyboardInterrupt|SystemExit|ChildFailed|Dist(?:Backend|Network|Store)Error|nccl|gloo|c10d"
    r"|connection (?:reset|closed|refused|aborted)|broken pipe|socket|SIGTERM|Signal 15|remote process|TCPStore"
    r"|EOFError"
)
# What the launchers of Lightning and Fabric say before they kill all processes of their host, themselves included.
_KILLS_ALL = lazy(
    r"\bChild process with PID \d+ terminated with code -?\d+\. Forcefully terminating all other processes"
)
_RECEIVED = lazy(r"SIGTERM\b.{0,40} received by PID|terminated with code -15")  # how a table tells of an end
UNKNOWN_SENDER = (
    "The agent saw this worker dead before it stopped others, so that it did not send the signal itself. Who did is "
    "not in these logs"
)
_OF_A_TASK = lazy(r"\bsrun: error: [^\s:]+: tasks? [\d,\[\]-]+: ")


def ends_a_step(o: Observation) -> bool:
    """Whether srun or its daemons say that they end all tasks of a job step."""
    text = o.evidence[0].text
    return any(pattern.search(text) for pattern in (_TERMINATES, _CANCELLED, _ABORTED))


def settle(found: Sequence[Observation], steps: StepClock) -> list[Observation]:
    """The observations, with what follows from srun's own end of a step as the report of srun that it is.

    These are the stop that its daemons announce, and kills and stops of tasks that stand below an announcement.
    """
    announced: dict[str, set[int]] = {}
    terminated: dict[tuple[str, str], int] = {}  # (file, job step) -> the line in which srun says that it ends it
    failed: dict[str, int] = {}  # file -> the first line in which srun tells that a task ended by itself
    for o in found:
        e = o.evidence[0] if o.evidence else None
        if e is None or e.line is None:
            continue
        if m := _TERMINATES.search(e.text):
            terminated.setdefault((e.file, m["step"]), e.line)
        if _FAILED_TASK.search(e.text):
            failed[e.file] = min(e.line, failed.get(e.file, e.line))
        if ends_a_step(o):
            announced.setdefault(e.file, set()).add(e.line)
    if not announced:
        return list(found)
    lines = {file: sorted(at) for file, at in announced.items()}

    def is_own(o: Observation) -> bool:
        return _is_own_stop(o, terminated, failed) or _is_announced_kill(o, lines, steps)

    return [_as_report(o) if is_own(o) else o for o in found]


def settle_workers(found: Sequence[Observation], tracebacks: Sequence[Traceback]) -> list[Observation]:
    """The observations, with workers that torchelastic's agent stopped as the effect that they are.

    Its line names the first worker that it *saw* dead, which may be one that it had stopped because of another: where
    it said so of this process, or a worker raised an error of its own in the same attempt, SIGTERM came from there.
    Else it came from elsewhere: a worker is in the table of failures only if it was dead before the agent stopped
    others (SubprocessContext._poll of torch). That the table tells of its signal says nothing of who sent it.
    """
    stopped = {
        pid
        for o in found
        if o.signature == BY_LAUNCHER and (pid := o.captures.get("pid")) and not _RECEIVED.search(o.evidence[0].text)
    }
    raised = {t.identity.attempt or 0 for t in tracebacks if _is_own_error(t)}
    ended: dict[int, set[str]] = {}  # attempt -> the processes that agents saw end by themselves
    for o in found:
        stop = o.signature == STOPPED and o.captures.get("exitcode") == "-15"
        if (stop or o.signature == WORKER_EXIT) and (pid := o.captures.get("pid")):
            ended.setdefault(o.identity.attempt or 0, set()).add(pid)

    def settled(o: Observation) -> Observation:
        attempt, pid = o.identity.attempt or 0, o.captures.get("pid")
        if o.signature != STOPPED or o.captures.get("exitcode") != "-15" or pid is None:
            return o
        if pid in stopped or attempt in raised:
            return replace(o, signature=BY_LAUNCHER, rule=None, culprits=())
        # What several were sent is sent to all of a job, and of one that failed beside it, nothing tells which led.
        return replace(o, note=UNKNOWN_SENDER) if len(ended[attempt]) == 1 else replace(o, culprits=())

    return [settled(o) for o in found]


def settle_announced_kills(found: Sequence[Observation]) -> list[Observation]:
    """The observations, with the kills that Lightning's launcher announced as the effect that they are.

    It sends SIGKILL to every process of its host, its own included, once one of them has ended with another status
    than 0: a shell's `Killed` and a status of 137 below its line are these.
    """
    announced: dict[str, int] = {}
    for o in found:
        e = o.evidence[0] if o.evidence else None
        if e is not None and e.line is not None and _KILLS_ALL.search(e.text):
            announced[e.file] = min(e.line, announced.get(e.file, e.line))
    if not announced:
        return list(found)
    return [
        replace(o, signature=BY_LAUNCHER, rule=None, culprits=(), note="Lightning's launcher kills all that are left")
        if o.signature == KILLED
        and (line := o.evidence[0].line) is not None
        and line > announced.get(o.evidence[0].file, line)
        and not _KILLS_ALL.search(o.evidence[0].text)
        else o
        for o in found
    ]


def settle_exceptions_at_exit(
    found: Sequence[Observation], tracebacks: Sequence[Traceback], steps: StepClock
) -> list[Observation]:
    """The observations, with exceptions of threads and finalizers below the line of the run's end made harmless.

    A program that returns does not wait for daemon threads: the pin-memory thread of a DataLoader, loggers and
    heartbeats lose their queues and sockets while the interpreter ends.
    """
    beside = [t for t in tracebacks if t.thread is not None or t.chained == "ignored"]
    threads = [t for t in beside if t.header.line is not None]
    if not threads:
        return list(found)
    ends: dict[str, list[int]] = {}
    for o in found:
        if o.signature == FINISHED and o.evidence[0].line is not None:
            ends.setdefault(o.evidence[0].file, []).append(o.evidence[0].line)
    late: dict[str, list[tuple[int, int, Traceback]]] = {}
    for t in threads:
        begin, end = t.header.line or 0, t.final.line or 0
        over = max((line for line in ends.get(t.header.file, ()) if line < begin), default=None)
        marks = steps.marks.get(t.header.file, ())
        if over is not None and not any(m.line is not None and m.line > over for m in marks):
            late.setdefault(t.header.file, []).append((begin, end, t))
    settled = []
    for o in found:
        e = o.evidence[0] if o.evidence else None
        inside = [t for a, b, t in late.get(e.file, ()) if a <= (e.line or 0) <= b] if e is not None else []
        if inside and o.signature != _INTERRUPT:
            who = f"thread {inside[0].thread}" if inside[0].thread is not None else "what the interpreter cleans up"
            said = f"{who} raised {inside[0].exception} after the run had come to its end"
            o = replace(o, signature=AT_EXIT, rule=None, culprits=(), note=said)
        settled.append(o)
    return settled


def _is_own_error(t: Traceback) -> bool:
    """Whether an exception is of a rank's own program: not how it was stopped, nor what its peers' end looks like."""
    return t.chained is None and t.identity.rank is not None and not _NOT_OWN.search(f"{t.exception}: {t.message}")


def _is_own_stop(o: Observation, terminated: Mapping[tuple[str, str], int], failed: Mapping[str, int]) -> bool:
    """Whether a step's cancellation stands below the line in which srun says that it ends this step, or that a task of
    it had failed: who stops a step from outside has its tasks end by signals, and after it.
    """
    e = o.evidence[0] if o.signature == STOPPED else None
    if e is None or e.line is None or (m := _CANCELLED.search(e.text)) is None:
        return False
    since = terminated.get((e.file, m["step"]), failed.get(e.file) if " STEP " in m[0] else None)
    return since is not None and since < e.line


def _is_announced_kill(o: Observation, announced: Mapping[str, Sequence[int]], steps: StepClock) -> bool:
    """Whether a task's kill or stop stands below an announcement in its file, with no training of a later job step
    between.
    """
    e = o.evidence[0] if o.signature in (KILLED, STOPPED) else None
    if e is None or e.line is None or not _OF_A_TASK.search(e.text):
        return False
    above = announced.get(e.file, ())
    n = bisect_left(above, e.line)
    if not n:
        return False
    since = above[n - 1]
    between = {m.step for m in steps.marks.get(e.file, ()) if m.line is not None and since < m.line < e.line}
    return len(between) < STEPS_BETWEEN


def _as_report(o: Observation) -> Observation:
    return replace(o, signature=REPORT, rule=None, culprits=(), note="srun was ending the job step when this was said")
