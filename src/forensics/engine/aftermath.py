"""What follows from one rank's death though it could be a cause by itself: refused peers, aborts, a job's time limit.

A refused connection needs a host that answers and a process that is gone. Watchdogs abort the ranks that lost a peer. A
time limit that ends ranks which waited for one that had died ends nothing that would have gone on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forensics.engine.hangs import UNREACHED, hang_came_first, refused
from forensics.engine.identity import World, of_other_processes
from forensics.engine.steps import StepClock
from forensics.model import Observation
from forensics.patterns import lazy

if TYPE_CHECKING:
    from forensics.engine.candidates import Candidate

LIMIT = "scheduler-time-limit"
UNDELIVERED = "nccl-network-timeout"
LONGEST_RETRY = 900.0  # seconds
# Of networks, collectives and stops: what ranks say of each other and of the job, and not of how they died themselves.
OF_OTHERS = frozenset({"nccl", "collectives", "network"})
ABORT = "rank-sigabrt"
WHY_IT_ABORTS = "what():"  # as C++ prints the exception that nothing caught
_LAUNCHERS = lazy(
    r"\bexitcode\s*: -6\b|Signal 6 \(SIGABRT\) received by PID|srun: error: \S+ tasks? \S+ (?:Aborted|Exited)"
)
_ROW_OF_KILL = lazy(r"exitcode\s*: -9\b|Signal 9 \(SIGKILL\) received by PID")
GRACE = 25.0  # seconds; a table's times are whole seconds, and the first row's is when its process was seen dead
_RAISED = lazy(r"(?:Error|Exception)(?::|$)")


def is_death(c: Candidate) -> bool:
    """Whether it ends a rank by that rank's own doing."""
    s = c.signature
    if s.kind not in ("cause", "symptom") or s.name == UNREACHED:
        return False
    if s.area in OF_OTHERS:  # a cause is of the ranks that print it
        return s.kind == "cause" and s.severity == "fatal" and s.verdict == "failed"
    if s.verdict == "diverged":  # a check that raises as it finds a NaN ends its rank
        return any(_RAISED.search(e.text) for o in c.observations for e in o.evidence)
    return s.verdict == "failed" and (s.severity == "fatal" or bool(c.subject))


def refused_by(c: Candidate, death: Candidate, world: World) -> bool:
    """Whether connections that were refused lead to a rank that had died of something else."""
    if c.signature.name != UNREACHED or not all(map(refused, c.observations)):
        return False
    if not death.ranks:
        return of_other_processes(c.observations, death.observations, world)
    tried = {rank for o in c.observations if (rank := world.of(o)) is not None}
    return not tried & set(death.ranks)


def unreachable_after(c: Candidate, death: Candidate) -> bool:
    """Whether a link that stopped delivering (InfiniBand's status 12) is what peers see of a rank that died before.

    An adapter sends a packet again for seconds to minutes (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT) until it says so.
    """
    if c.signature.name != UNDELIVERED or not death.ranks or set(c.ranks or ()) & set(death.ranks):
        return False
    return death.time is not None and c.time is not None and death.time <= c.time <= death.time + LONGEST_RETRY


def waited_after(limit: Candidate, death: Candidate, steps: StepClock) -> bool:
    """Whether a run that reached its time limit had trained no further since a rank of it died."""
    if limit.signature.name != LIMIT or not hang_came_first(death, limit):
        return False
    return steps.idle_since(death.observations[-1])


def is_launchers_abort(c: Candidate) -> bool:
    """Whether it is an abort of which a launcher alone tells."""
    return c.signature.name == ABORT and all(_LAUNCHERS.search(o.evidence[0].text) for o in c.observations)


def killed_by_agent(kill: Candidate, exits: Sequence[Observation], world: World) -> bool:
    """Whether processes of whose SIGKILL only torchelastic's table tells outlived another one's end by its grace.

    The agent asks all others to end when one has failed, and kills those that have not done so 30 s later (`close` in
    torch/distributed/elastic/multiprocessing/api.py, its `timeout`). exits: the rows of the tables of its attempt.
    """
    if not kill.ranks or not all(_ROW_OF_KILL.search(o.evidence[0].text) for o in kill.observations):
        return False
    rows = [(world.of(o), o.captures.get("exitcode"), o.time) for o in exits if o.time is not None]
    own = [time for rank, code, time in rows if rank in kill.ranks and code == "-9"]
    before = [time for rank, code, time in rows if rank not in kill.ranks and code not in (None, "-9", "-15", "0")]
    return bool(own) and bool(before) and min(own) - min(before) >= GRACE
