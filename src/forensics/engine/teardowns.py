"""Stops and kills that a launcher had announced: once it ends a job step, who is killed there did nothing.

After a task failed, srun says `Terminating StepId=...`; its daemons say that the step is cancelled, send SIGTERM, and
SIGKILL after KillWait (slurm.conf, 30 seconds unless set); then srun says of each task how it ended. The order of the
lines tells a kill that came first from one that was announced, and a stop from outside from srun's own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forensics.engine.steps import StepClock
from forensics.model import Observation
from forensics.patterns import lazy

KILLED = "sigkill-unknown-sender"
STOPPED = "external-sigterm"
REPORT = "srun-task-exited"
# Distinct steps between an announcement and a kill from which on they are of different job steps: ranks that are
# stopped may still print what they had under way.
STEPS_BETWEEN = 5
# What srun prints where it ends a step of its own accord; on a request it says only `Job step aborted`.
_TERMINATES = lazy(
    r"\bsrun: (?:launch/slurm: _step_signal: )?(?:Terminating|Force Terminated) (?:StepId=|job step )(?P<step>[\d.]+)"
)
_CANCELLED = lazy(r"\*\*\* (?:STEP|JOB) (?P<step>\S+) ON \S+ CANCELLED AT ")
_ABORTED = lazy(r"\bsrun: Job step aborted")
_OF_A_TASK = lazy(r"\bsrun: error: [^\s:]+: tasks? [\d,\[\]-]+: ")


def settle(found: Sequence[Observation], steps: StepClock) -> list[Observation]:
    """The observations, with what follows from srun's own end of a step as the report of srun that it is.

    These are the stop that its daemons announce, and kills of tasks that stand below an announcement.
    """
    announced: dict[str, set[int]] = {}
    terminated: dict[tuple[str, str], int] = {}  # (file, job step) -> the line in which srun says that it ends it
    for o in found:
        e = o.evidence[0] if o.evidence else None
        if e is None or e.line is None:
            continue
        if m := _TERMINATES.search(e.text):
            terminated.setdefault((e.file, m["step"]), e.line)
        if m or _CANCELLED.search(e.text) or _ABORTED.search(e.text):
            announced.setdefault(e.file, set()).add(e.line)
    if not announced:
        return list(found)
    lines = {file: sorted(at) for file, at in announced.items()}
    return [_as_report(o) if _is_own_stop(o, terminated) or _is_announced_kill(o, lines, steps) else o for o in found]


def _is_own_stop(o: Observation, terminated: Mapping[tuple[str, str], int]) -> bool:
    """Whether a step's cancellation stands below the line in which srun says that it ends this step."""
    e = o.evidence[0] if o.signature == STOPPED else None
    if e is None or e.line is None or (m := _CANCELLED.search(e.text)) is None:
        return False
    since = terminated.get((e.file, m["step"]))
    return since is not None and since < e.line


def _is_announced_kill(o: Observation, announced: Mapping[str, Sequence[int]], steps: StepClock) -> bool:
    """Whether a task's kill stands below an announcement in its file, with no training of a later job step between."""
    e = o.evidence[0] if o.signature == KILLED else None
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
