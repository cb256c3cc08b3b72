"""Which rank keeps the others waiting: Flight Recorder dumps compared rank by rank, stacks, what the logs state.

The rules are those that PyTorch's own analyser lacks. Ranks are compared inside one process group only, the odd rank is
found by majority and never by being different from the first one, a tie names nobody, and a rank is blamed for being
behind only where it waits for nobody else itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from forensics.engine.collectives.ages import earlier, last_step_lines, progress_of
from forensics.engine.collectives.batches import at_the_end
from forensics.engine.collectives.births import unborn
from forensics.engine.collectives.logs import Logs, fingerprints, lagging, read_logs, silent
from forensics.engine.collectives.observations import vote
from forensics.engine.collectives.one_stack import of_one_rank
from forensics.engine.collectives.stacks import from_stack_dumps, from_waits, still_standing, with_positions
from forensics.engine.collectives.timers import from_timer
from forensics.engine.collectives.watchdogs import told_apart
from forensics.model import MAX_RANKS, Observation, Source, Traceback
from forensics.parsers.stacks import SIGNATURE as STACK

if TYPE_CHECKING:
    import polars as pl

__all__ = ["desync", "still_standing", "told", "told_apart", "vote", "with_last_words"]

# What names of signatures about NCCL and its network begin with.
_OF_NCCL = ("nccl", "ib-")

# Signatures whose log lines name the ranks themselves.
NAMING = ("monitored-barrier-timeout", "uneven-inputs", "collective-desync", "rank-exited-early")

_Told = TypeVar("_Told", Observation, Traceback)


def told(observations: Sequence[Observation]) -> list[Observation]:
    """`nccl.told`, loaded for runs in which NCCL spoke."""
    if not any(o.signature.startswith(_OF_NCCL) for o in observations):
        return list(observations)
    from forensics.engine.collectives import nccl

    return nccl.told(observations)


def with_last_words(found: Sequence[Observation], sources: Sequence[Source]) -> list[Observation]:
    """`last_words.with_last_words`, loaded where something was found."""
    if not found:
        return []
    from forensics.engine.collectives import last_words

    return last_words.with_last_words(found, sources)


def desync(
    collectives: pl.DataFrame,
    observations: Sequence[Observation],
    world: Sequence[int] | None,
    tracebacks: Sequence[Traceback] = (),
    present: Collection[int] = (),
    metrics: pl.DataFrame | None = None,
    hosts: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Observation, ...]:
    """Compare the ranks and say who is behind, ahead or different.

    collectives: rows of model.COLLECTIVES_COLUMNS; rows without an op are dumps that could not be read.
    observations: of all logs; the family's captures are used, the rest only shows which ranks were heard.
    world: all global ranks of the run, or None where they are not known: then ranks below the highest one seen are
    known to exist.
    tracebacks: of all logs; they say where ranks waited if there is no dump. Stacks of living processes come as
    observations of `stack-dump` (parsers.stacks).
    present: ranks that left a file or a line of any kind. One that spoke and reports no timeout is rather missing than
    one whose log may be lost.
    metrics: of all logs, rows of model.METRICS_COLUMNS; their times tell whether training went on after the dumps, and
    their last steps whether an epoch was over.
    hosts: rank -> the host on which it ran, where one is known.
    """
    ranks = collectives["rank"].unique().to_list() if collectives.height else []
    dumped = {int(rank) for rank in ranks if rank is not None}
    heard = {o.identity.rank for o in observations if o.identity.rank is not None}
    highest = max((*heard, *dumped), default=-1)
    everyone = frozenset(world) if world else frozenset(range(highest + 1) if highest < MAX_RANKS else heard | dumped)
    attempts: list[int | None] = [*sorted({a for o in observations if (a := o.identity.attempt) is not None})] or [None]
    logs = {}
    for attempt in attempts:
        signs = _of(attempt, observations)
        logs[attempt] = read_logs(signs, _of(attempt, tracebacks), at_the_end(signs, metrics))
    # A dump is written over at each attempt: what is left is of the last one that had trouble.
    of_dumps = next((attempt for attempt in reversed(attempts) if logs[attempt].trouble), attempts[-1])
    progress = progress_of(metrics) if metrics is not None and collectives.height else {}
    found: list[Observation] = []
    for attempt in attempts:
        table = collectives if attempt == of_dumps else collectives.clear()
        raised = _of(attempt, tracebacks)
        aside = earlier(table, logs[attempt], progress, raised)
        if aside is not None:
            table = table.clear()
            found.append(aside)
        seen = set() if aside is not None else dumped
        one = _of_attempt(table, logs[attempt], raised, everyone, seen, frozenset(present), hosts)
        if not one and any(o.signature == STACK for o in logs[attempt].observations) and metrics is not None:
            one = from_timer(logs[attempt], last_step_lines(metrics), progress_of(metrics))
            one = one or of_one_rank(logs[attempt], everyone)
        if not _named(one):
            one += shared_settings(_of(attempt, observations))
        found += [replace(o, identity=replace(o.identity, attempt=attempt)) for o in one]
    return tuple(found)


def _of(attempt: int | None, items: Sequence[_Told]) -> list[_Told]:
    """What belongs to an attempt, or to none in particular."""
    return [item for item in items if item.identity.attempt in (attempt, None)]


def _of_attempt(
    table: pl.DataFrame,
    logs: Logs,
    tracebacks: Sequence[Traceback],
    everyone: frozenset[int],
    dumped: set[int],
    present: frozenset[int],
    hosts: Mapping[int, str],
) -> list[Observation]:
    found: list[Observation] = []
    if not table.is_empty():
        from forensics.engine.collectives.dumps import from_dumps

        found = from_dumps(table, logs, everyone, dumped)
    if not _named(found) and (waits := from_waits(tracebacks, logs)):
        found = [o for o in found if o.signature != "collective-timeout"] + waits
    found += fingerprints(logs)
    if not _named(found) and (stacks := from_stack_dumps(logs)):
        found = [o for o in found if o.signature != "collective-timeout"] + stacks
    if not _named(found):
        found += lagging(logs, everyone)
    if not _named(found) and (waits := unborn(logs, everyone, present)):
        found = [o for o in found if o.signature != "collective-timeout"] + waits
    told = any(o.culprits for o in logs.observations if o.signature in NAMING)
    if not told and all(o.signature == "collective-timeout" and not o.culprits for o in found):
        found += silent(logs, everyone, present, hosts, tell_nobody=not found)
    return with_positions(found, logs)


def shared_settings(observations: Sequence[Observation]) -> list[Observation]:
    """`nccl_settings.differing`, loaded for runs in which NCCL printed what is set."""
    if not any(o.signature == "nccl-environment" and "variable" in o.captures for o in observations):
        return []
    from forensics.engine.collectives.nccl_settings import differing

    return differing(observations)


def _named(found: Sequence[Observation]) -> bool:
    return any(o.culprits for o in found)
