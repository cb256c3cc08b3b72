"""Ranks of roots that name none: taken from what the catalogue says that a root does to its own process and host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.engine import whose
from forensics.engine.aftermath import ABORT, WHY_IT_ABORTS
from forensics.engine.candidates import Candidate
from forensics.engine.hangs import is_hang
from forensics.engine.identity import World
from forensics.engine.own_failures import is_own_failure
from forensics.engine.peers import LOST_PEER, NCCL_ENDS
from forensics.engine.survival import MEMORY_KILLS
from forensics.model import Source

# What a shell or a launcher sees of a process that something outside of the run killed, and what else it may be.
KILLED = frozenset({"sigkill-unknown-sender"})
# Ends of one process, which do not by themselves stop the others of its host.
OF_PROCESSES = frozenset({*KILLED, *MEMORY_KILLS, "rank-segfault", ABORT})
TASK_LOST = "jax-task-lost"


def borrow_ranks(linked: Sequence[Candidate], world: World, sources: Sequence[Source] = ()) -> None:
    """Let a root that names no rank take it from what the catalogue says it does to its own process.

    A kernel's assertion line bears no rank; the CUDA error that the same process raises next does. An MPI launcher says
    in one line which rank ended, and a few lines on by which signal. A memory kill of which nothing names the process
    is of the one rank that was killed, where it explains the end of one alone. What stops a host stops the ranks of
    it for which the others waited. Where all ranks but one say that they lost a peer, it is that one; an error that
    bears no rank, and explains that, is its.
    """
    for c in linked:
        if not c.ranks and not c.everywhere and c.explained_by is None:
            c.ranks = _awaited_on_host(c, world, sources) or _awaited_of_pod(c) or unheard(c, world)
            by_itself = is_own_failure(c) and c.signature.name not in MEMORY_KILLS and not c.late
            if not c.ranks and by_itself and len(c.observations) == 1:
                c.ranks = _only_one_besides(_losses_by(c), c, world)
        if not c.ranks and not c.everywhere and c.signature.name in MEMORY_KILLS:
            killed = [e for e in c.explains if e.signature.name in KILLED and e.ranks]
            ranks = {r for e in killed for r in e.ranks or ()}
            elsewhere = any(world.apart(c.key.identity.node, e.key.identity.node) for e in killed)
            # A pid is another process's than the launcher's, unless the launcher tells of the one kill on that host,
            # or from within a container.
            if len(ranks) == 1 and not elsewhere and (not c.captured("pid") or _is_it(c, killed)):
                c.ranks = tuple(ranks)
        if not c.ranks and not c.everywhere and c.signature.culprit in ("self", "named"):
            told = {r for e in c.explains if e.signature.name == whose.MPI_EXIT and _close(e, c) for r in e.ranks or ()}
            if len(told) == 1:
                c.ranks = tuple(told)
        if c.ranks or c.everywhere or c.signature.culprit != "self":
            continue
        own = [e for e in c.explains if _ends_its_process(c, e) and e.ranks and not _apart(c, e, world)]
        ranks = {r for e in own for r in e.ranks or ()} or _aborted_by(c, world)
        if len(ranks) == 1:
            c.ranks = tuple(ranks)


def _ends_its_process(c: Candidate, effect: Candidate) -> bool:
    """Whether an effect is of the process that met a candidate: by the catalogue, or as C++ says why it aborts."""
    if effect.signature.name in c.signature.causes:
        return True
    return effect.signature.name == ABORT and any(WHY_IT_ABORTS in o.evidence[0].text for o in c.observations)


def _is_it(c: Candidate, killed: Sequence[Candidate]) -> bool:
    """Whether a kill of which a kernel names the process is the one that a launcher saw."""
    from forensics.engine.kernel import containers

    return _on_its_host(c, killed) or containers.same_kill(c, killed)


def _on_its_host(c: Candidate, killed: Sequence[Candidate]) -> bool:
    """Whether all that tells of a kill names the host of a candidate, and no process."""
    signs = [o for e in killed for o in e.observations]
    hosts = {whose.label(o.identity.node) if o.identity.node else None for o in (*c.observations, *signs)}
    return len(hosts) == 1 and None not in hosts and not any("pid" in o.captures for o in signs)


def _apart(c: Candidate, effect: Candidate, world: World) -> bool:
    """Whether an effect was met on another host than the one that a candidate's own lines name, or may have been.

    What befalls a link is met at both of its ends.
    """
    places = {o.identity.node or world.host_of.get(rank) for o in effect.observations for rank in effect.ranks or ()}
    named = any(o.identity.node for o in c.observations)
    if named and None in places and effect.signature.area == "nccl" and world.whole_host is None:
        return True
    return any(world.apart(o.identity.node, place) for o in c.observations for place in places)


def _aborted_by(c: Candidate, world: World) -> set[int]:
    """The ranks that say of themselves that they end because of a warning of NCCL's without a rank, on its host."""
    if c.signature.area != "nccl":
        return set()
    said = [o for e in c.explains if e.signature.name in NCCL_ENDS for o in e.observations]
    hosts = {o.identity.node or world.host_of.get(rank) for o in said if (rank := world.of(o)) is not None}
    if any(world.apart(host, o.identity.node) for host in hosts for o in c.observations):
        return set()
    return {rank for o in said if (rank := world.of(o)) is not None}


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
    if theirs != hosts:
        return None
    return _of_processes(c, ranks, world) if c.signature.name in OF_PROCESSES else tuple(sorted(ranks))


def _of_processes(c: Candidate, ranks: set[int], world: World) -> tuple[int, ...] | None:
    """The ranks of processes that were killed, on whose host all ranks are silent: each host holds a block of ranks.

    The others are silent because their launcher ended them. Where nothing tells which process it was, a signal may have
    been the launcher's own end; a memory kill is of one.
    """
    locals_ = {o.identity.local_rank for o in c.observations}
    if len(ranks) == 1 or (locals_ == {None} and c.signature.name not in MEMORY_KILLS):
        return tuple(sorted(ranks))
    known = {index for index in locals_ if index is not None}
    host = world.host_of.get(min(ranks))
    block = ranks == set(range(min(ranks), max(ranks) + 1)) == {r for r, h in world.host_of.items() if h == host}
    return (
        tuple(min(ranks) + n for n in sorted(known)) if block and known == locals_ and max(known) < len(ranks) else None
    )


def _awaited_of_pod(c: Candidate) -> tuple[int, ...] | None:
    """The one rank for which others waited because of what befell one pod."""
    pods = {o.captures["pod"] for o in c.observations if "pod" in o.captures}
    ranks = {r for e in _effects(c) if is_hang(e) for r in e.ranks or ()}
    return tuple(ranks) if len(pods) == len(ranks) == 1 else None


def _effects(c: Candidate) -> Iterator[Candidate]:
    """What a candidate explains, directly or not."""
    for effect in c.explains:
        yield effect
        yield from _effects(effect)


def unheard(c: Candidate, world: World) -> tuple[int, ...] | None:
    """The one rank that does not say that it lost a peer, where all the others say so: of a stated world, or a gap.

    So of JAX's processes, where what ends them does not tell which task it was that sent no heartbeats. A memory kill
    of which nothing names the process or task is of that rank, unless it was on another host.
    """
    if c.signature.name in LOST_PEER or (c.signature.name == TASK_LOST and not c.ranks):
        losses = [c]
    elif c.signature.name in MEMORY_KILLS and len(c.observations) == 1 and not c.captured("task"):
        losses = _losses_by(c)
    else:
        return None
    return _only_one_besides(losses, c, world)


def _losses_by(c: Candidate) -> list[Candidate]:
    """The losses of a peer that a candidate explains."""
    return [e for e in c.explains if e.signature.name in LOST_PEER and e.attempt == c.attempt]


def _only_one_besides(losses: Sequence[Candidate], c: Candidate, world: World) -> tuple[int, ...] | None:
    """The one rank that tells of no loss, where all others of the world do; None where it is of another host than c."""
    if world.size is None or world.size < 3:
        return None
    heard = {rank for e in losses for o in e.observations if (rank := world.of(o)) is not None}
    silent = set(range(world.size)) - heard
    if len(silent) != 1 or any(world.apart(c.key.identity.node, world.host_of.get(rank)) for rank in silent):
        return None
    return tuple(silent)


def _close(a: Candidate, b: Candidate, lines: int = 6) -> bool:
    """Whether both say all they say within a few lines of one file."""
    places = [(o.evidence[0].file, o.evidence[0].line) for o in (*a.observations, *b.observations)]
    numbers = [line for _, line in places if line is not None]
    return (
        len({file for file, _ in places}) == 1 and len(numbers) == len(places) and max(numbers) - min(numbers) <= lines
    )
