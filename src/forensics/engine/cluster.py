"""What a cluster tells of pods and nodes beside a run that came to its end: others' trouble, or what it got over.

Events of a namespace are of all its pods, and `kubectl` prints them without saying whose logs lie beside them. A run
whose every log says that it reached its end suffered by none of them. Where one log breaks off, and another one goes on
afterwards and reaches the end, what the cluster tells is what interrupted the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from forensics.engine.finishes import ANYBODYS_END, FINISHED
from forensics.engine.own_failures import is_alone_to_blame
from forensics.engine.pods import LOG
from forensics.engine.steps import StepClock
from forensics.engine.survival import CLOCK_SLACK, DEATHS, ENDS_A_RUN, SUFFERING
from forensics.model import UNTIED, Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

# A row of `kubectl get events`, and a value of an object as YAML or JSON.
_ACCOUNT = lazy(
    r'\s*(?:\S+\s+){0,2}(?:Normal|Warning)\s+\w+\s+\w+/\S+\s|\s*(?:- )?"?(?:message|reason|phase|exitCode|status)"?: '
)
BEFORE = "it ended {apart} before the first sign of the run, which has an error of its own"
BESIDE = "the run has an error of its own, and nothing ties this pod or node to it"
NOBODYS = "nothing ties pod {pod} to the run: no log bears its name, and none ends at its time"
SAME_TIME = 120.0  # seconds between a log's last record and what ended its pod
UNTIED_WEIGHT = 0.7  # of an end that only its time ties to the run
UNHARMED = "every log of the run says that it reached its end, and none shows that it suffered by this"


class _End(Enum):
    WHOLE = "every log came to its end"
    RESUMED = "one broke off, and another one that came after it reached the end"


def set_aside(found: Sequence[Candidate], live: Sequence[Candidate], steps: StepClock) -> None:
    """Give what a cluster alone tells its `context`, or mark it as got over, where the run came to its end."""
    accounts = [c for c in live if all(map(_of_cluster, c.observations))]
    if not accounts:
        return
    others = [c for c in live if c not in accounts and c.context is None and c.signature.verdict in ENDS_A_RUN]
    for c in accounts if others else ():
        c.context = c.context or _earlier(c, found, steps) or _beside(c, others)
    finished = _finished(found)
    end = None if others else _end(finished, steps)
    if not others and not finished and any(map(bool, steps.marks.values())):
        for c in accounts:
            _leave_to_its_owner(c, steps)
    for c in accounts if end is not None else ():
        broke_off = any(_broke_off(o, finished) for o in c.observations)
        if end is _End.WHOLE and not broke_off:
            c.context = c.context or UNHARMED
        elif c.signature.verdict in ENDS_A_RUN and (broke_off or c.context is None):
            c.context, c.recovered = None, True


def _earlier(c: Candidate, found: Sequence[Candidate], steps: StepClock) -> str | None:
    """Why the end of a container that came before the run's logs begin is context; None where clocks do not say so."""
    from forensics.engine.kernel.relevance import Span, in_words

    times = [o.time for o in c.observations if o.time is not None and o.timed and o.zone_known]
    span = Span.of(found, steps)
    if len(times) < len(c.observations) or span.first is None or not span.zone_known:
        return None
    apart = span.first - max(times)
    return BEFORE.format(apart=in_words(apart)) if apart > CLOCK_SLACK else None


def _beside(c: Candidate, others: Sequence[Candidate]) -> str | None:
    """Why what befell pods and nodes that nothing ties to the run is context; None where it is not.

    That is so where the run's own code raised an exception, or met an error of its own such as a full card or disk, and
    nothing in its logs shows a process that was killed, or a peer that was lost. Neither is an effect of another pod's
    end, nor is the exit status 1 that a launcher reports of it.
    """
    from forensics.engine.kernel.relevance import OWN_EXCEPTIONS

    if any(LOG in o.captures or o.culprits or not _row_of_events(o) for o in c.observations):
        return None
    own = [o for o in others if o.raised_alone or o.subject.rpartition(".")[2] in OWN_EXCEPTIONS or _blames_itself(o)]
    rest = [o for o in others if o not in own and not _reports_an_exception(o)]
    suffers = any(o.signature.name in SUFFERING or o.signature.name in DEATHS for o in rest)
    return BESIDE if own and not suffers else None


def untied(c: Candidate) -> bool:
    """Whether it is context as nothing ties its pod to the run, which may be the run's all the same."""
    return c.context is not None and all(UNTIED in o.captures for o in c.observations)


def _leave_to_its_owner(c: Candidate, steps: StepClock) -> None:
    """Give the end of a pod that nothing ties to the run its `context`, unless a log's records end at its time."""
    if c.context is not None or any(UNTIED not in o.captures for o in c.observations):
        return
    ends = [max(times) for marks in steps.marks.values() if (times := [m.time for m in marks if m.time is not None])]
    near = any(
        o.timed and o.time is not None and abs(o.time - end) <= SAME_TIME for o in c.observations for end in ends
    )
    if near:
        c.observations = [replace(o, weight=min(o.weight, UNTIED_WEIGHT)) for o in c.observations]
    else:
        c.context = NOBODYS.format(pod=c.observations[0].captures[UNTIED])


def _blames_itself(o: Candidate) -> bool:
    return is_alone_to_blame(o) and not any(map(_of_cluster, o.observations))


def _reports_an_exception(o: Candidate) -> bool:
    """Whether a launcher tells of exit status 1 alone, by which an exception ends a Python process."""
    codes = {code for sign in o.observations if (code := sign.captures.get("exitcode")) is not None}
    return o.signature.kind == "echo" and codes == {"1"}


def _row_of_events(o: Observation) -> bool:
    """Whether it stands in a list of events or pods, and in no account of one pod."""
    text = o.evidence[0].text
    return "pod/" in text or "node/" in text or ("pod" in o.captures and _ACCOUNT.match(text) is None)


def _of_cluster(o: Observation) -> bool:
    return "pod" in o.captures or _ACCOUNT.match(o.evidence[0].text) is not None


def _broke_off(o: Observation, finished: frozenset[str]) -> bool:
    """Whether the log of the pod that is told of is there, and does not say that it reached its end."""
    return LOG in o.captures and o.captures[LOG] not in finished


def _finished(found: Sequence[Candidate]) -> frozenset[str]:
    """The logs that say that a run reached its end."""
    return frozenset(
        o.evidence[0].file
        for c in found
        if c.signature.name == FINISHED
        for o in c.observations
        if o.weight > ANYBODYS_END and not _of_cluster(o)
    )


def _end(finished: frozenset[str], steps: StepClock) -> _End | None:
    if not finished:
        return None
    times = {file: [m.time for m in marks if m.time is not None] for file, marks in steps.marks.items() if marks}
    broken = [times[file] for file in times if file not in finished]
    ended = [times[file] for file in times if file in finished and times[file]]
    if not broken:
        return _End.WHOLE
    after = all(own and any(min(later) > max(own) for later in ended) for own in broken)
    return _End.RESUMED if after else None
