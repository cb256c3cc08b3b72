"""What the first bytes of several logs say of whether their writers were the ranks of one job."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from forensics.archives.formats import RECORDS, format_of, without_compression

# How a launcher or a framework says how many processes there are: torch's init lines, NCCL's, Slurm's variables,
# Lightning's "GLOBAL_RANK: 0, MEMBER: 1/8", DeepSpeed's and Megatron's tables.
_WORLD = re.compile(
    rb"(?:world[_ -]?size|WORLD_SIZE|nranks|SLURM_NTASKS|num_processes)[\"' .]{0,40}[=:]?[\"' ]{0,4}(\d{1,6})"
    rb"|MEMBER: \d+/(\d{1,6})|\brank[=: ]{1,2}\d{1,6}(?:/| of )(\d{1,6})",
    re.I,
)
_RANK = rb"(?<![A-Za-z_])(?:global[_ ])?rank[=: ]{1,2}"
# A rank beside the size of its world: "rank 3/8", "rank=3 ... world_size=8", NCCL's "rank 3 nranks 8",
# "world_size=8 rank=3".
_RANK_OF = re.compile(
    _RANK + rb"(?P<a>\d{1,6})(?:(?:/| of )|\b.{0,60}?(?:world[_ ]size|nranks)[=: ]{1,3})(?P<size>\d{1,6})"
    rb"|world[_ ]size[=: ]{1,3}(?P<before>\d{1,6})[,;]?[ ]{1,2}" + _RANK + rb"(?P<b>\d{1,6})\b(?!/)",
    re.I,
)


# A rank without the size of its world: torch's and Lightning's prefixes, `local_rank=2`.
_OF_A_RANK = re.compile(
    rb"(?:\[rank[=: ]? ?|\b(?:global_|local_)?rank[\"']?[=:] ?)(?:0(?!\d)|(?P<other>\d{1,6}))"
    rb"|(?P<local>\[default[: ]? ?\d)",
    re.I,
)

# What PyTorch puts before an exception and a line of its logs ("[rank0]: "), Lightning before what it tells
# ("[rank: 0] Seed set to 42"), Determined before every line of a trial, behind the time and the container
# ("[2026-01-05T08:00:00.100Z] 003f2a1b [rank=0] || "), and programs before what they print ("Rank 0: ", "[Rank 0] ").
_BEFORE = rb"^(?:\[?[\dTZ:.,+ -]{8,40}\]? )?(?:(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)[: ] ?)?"
_PREFIX = re.compile(
    _BEFORE + rb"(?:[0-9a-f]{6,16} )?(?:\[default\d{1,3}\]: ?)?"
    rb"(?:\[[Rr]ank[=: ]{0,2}(?P<a>\d{1,6})\](?= \|\||[: ])|[Rr]ank[=: ]?(?P<b>\d{1,6})(?=[\]:, |]))",
    re.M,
)
# torchrun --tee: the number of a process on its own machine.
_LOCAL_PREFIX = re.compile(rb"^\[default(\d{1,3})\]:", re.M)
_TIME = re.compile(rb"(?<!\d)20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?!\d)")
# Between the starts of jobs; the machines of one wait for each other for ten minutes (torchrun).
APART = timedelta(minutes=15)
KEPT = 32  # heads of which it is remembered what they state: one folder's are asked several things


def is_read(head: bytes, name: str) -> bool:
    """Whether the analysis reads a file as a log or as metrics, by its first bytes (unpacked) and its name."""
    from forensics.engine.reading import sniffers
    from forensics.kinds import classify
    from forensics.model import Kind

    if format_of(head, name) in RECORDS:
        return True
    kind, why_not = classify(head, without_compression(name), sniffers())
    return why_not is None and kind in (Kind.LOG, Kind.METRICS)


class Writers(enum.Enum):
    """Who wrote several logs."""

    RANKS = "ranks of one job"
    JOBS = "jobs of their own"
    UNKNOWN = "unknown"


def writers(heads: Sequence[bytes], count: int, *, stated: bool = False) -> Writers:
    """Who wrote `count` logs, of which `heads` are the first bytes of some.

    Jobs where each says that it is alone, or two of them are the same rank; ranks of one job where the world that one
    speaks of is as large as they are many. stated: only where each of them also says which ranks it is.
    """
    if runs_of_one(heads):
        return Writers.JOBS
    pairs = [_ranks(head) for head in heads]
    largest = max((size for found in pairs for _, size in found), default=0)
    # Groups within the world (tensor or pipeline parallel) count their ranks anew.
    ranks = [{rank for rank, size in found if size == largest} for found in pairs]
    if sum(map(len, ranks)) > len(set().union(*ranks)):
        return Writers.JOBS
    if not any(size >= count > 1 for head in heads for size in _sizes(head)):
        return Writers.UNKNOWN
    return Writers.RANKS if all(ranks) or not stated else Writers.UNKNOWN


def runs_of_one(heads: Iterable[bytes]) -> bool:
    """Whether the first bytes of each of several files say that its writer was alone in its world."""
    sizes = [set(_sizes(head)) for head in heads]
    return bool(sizes) and all(found == {1} for found in sizes)


def are_all_rank_zero(heads: Sequence[bytes]) -> bool:
    """Whether each of several logs holds lines of a rank 0, and none speaks of a world of more ranks than it has.

    The ranks of one job have one such log among them. The prefixes are global ranks, as those of torch, Lightning and
    Determined are.
    """
    ranks = [_prefixed(head) for head in heads]
    whole = all(world_of(head) <= max(len(found), 1) for head, found in zip(heads, ranks, strict=True))
    return len(heads) > 1 and all(0 in found for found in ranks) and whole


def may_be_jobs(heads: Sequence[bytes], *, of_a_sweep: bool) -> bool:
    """Whether logs under names of their own can be jobs by what their first bytes say of ranks.

    They are the machines of one job where a log tells of ranks, unless these are of a rank 0 alone, or two logs hold
    the same ranks. of_a_sweep: the logs are named by settings, which no machine is.
    """
    if not any(map(_speaks, heads)) or writers(heads, len(heads)) is Writers.JOBS:
        return True
    told = [_prefixed(head) for head in heads]
    if all(found <= {0} for found in told) and not _tell_of_others(heads):
        return True
    telling = [found for found in told if found]
    if len(telling) > 1 and all(len(found) > 1 for found in telling) and frozenset.intersection(*telling):
        return True
    stated = writers(heads, len(heads), stated=True) is Writers.RANKS or _are_counted(telling, len(heads))
    if of_a_sweep and not stated:
        return True
    local = {frozenset(int(m[1]) for m in _LOCAL_PREFIX.finditer(head)) for head in heads}
    return len(local) == 1 and all(1 < len(found) >= max(map(world_of, heads)) for found in local) and _apart(heads)


def _prefixed(head: bytes) -> frozenset[int]:
    """The global ranks that a log has lines of."""
    return frozenset(int(m["a"] or m["b"]) for m in _PREFIX.finditer(head))


def _tell_of_others(heads: Sequence[bytes]) -> bool:
    """Whether logs tell of processes that are not a rank 0, or of a world of several.

    A rank that is the same in all of them, and no prefix, is one of adapters: `rank=16`.
    """
    if any(size > 1 for head in heads for size in _sizes(head)):
        return True
    told = [[m for m in _OF_A_RANK.finditer(head) if m["other"] or m["local"]] for head in heads]
    plain = all(m["other"] and not m[0].startswith(b"[") for found in told for m in found)
    return any(told) and not (plain and all(told) and len({m["other"] for found in told for m in found}) == 1)


def _are_counted(telling: Sequence[frozenset[int]], count: int) -> bool:
    """Whether each of several logs tells of one rank, and each of another one."""
    return len(telling) == count and all(len(found) == 1 for found in telling) and len(set(telling)) == count


def _apart(heads: Sequence[bytes]) -> bool:
    """Whether the first times in several logs are too far from each other for the machines of one job."""
    firsts = [m for head in heads if (m := _TIME.search(head)) is not None]
    try:
        times = sorted(datetime.fromisoformat(m[0].decode()) for m in firsts)
    except ValueError:
        return False
    return len(times) == len(heads) and all(later - earlier > APART for earlier, later in pairwise(times))


def world_of(head: bytes) -> int:
    """The largest number of processes that the first bytes of a log speak of; 0 where they speak of none."""
    return max(_sizes(head), default=0)


def tells_a_rank(head: bytes) -> bool:
    """Whether the first bytes of a log say that a process of several wrote some of it."""
    return _speaks(head) and (_OF_A_RANK.search(head) is not None or any(size > 1 for size in _sizes(head)))


def _speaks(head: bytes) -> bool:
    """Whether any word is in a head that the expressions above look for; most logs have none, and those take long."""
    words = head.lower()
    return any(word in words for word in (b"rank", b"[default", b"world", b"slurm_ntasks", b"num_processes", b"member"))


@lru_cache(maxsize=KEPT)
def _sizes(head: bytes) -> tuple[int, ...]:
    if not _speaks(head):
        return ()
    return tuple(int(m[1] or m[2] or m[3]) for m in _WORLD.finditer(head))


@lru_cache(maxsize=KEPT)
def _ranks(head: bytes) -> frozenset[tuple[int, int]]:
    """(rank, size of its world) of each statement."""
    if not _speaks(head):
        return frozenset()
    return frozenset((int(m["a"] or m["b"]), int(m["size"] or m["before"])) for m in _RANK_OF.finditer(head))
