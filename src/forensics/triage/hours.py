"""GPU-hours of a job: how many GPUs it used, as far as its files show, times how long it ran."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from forensics.engine.few import few
from forensics.engine.identity import prints_its_rank
from forensics.engine.kernel.cards import LISTED
from forensics.model import Fact, Finding, Identity, RunData, Traceback, Writer

if TYPE_CHECKING:
    import polars as pl

# What machines and programs state only where there is a GPU, or where one is used.
_ACCELERATORS = frozenset({"gpu.name", "gpu.count", "wandb.gpu", "device.used"})
_VISIBLE = "env.CUDA_VISIBLE_DEVICES"
# Settings of a device, under whatever a program calls its arguments.
_DEVICE = re.compile(r"(?:^|[._])(?:device|accelerator)$")
_CUDA_DEVICE = re.compile(r"(?:cuda|gpu)(?::\d+)?")
_COUNT = re.compile(r"(?:^|[._])(?:n_?gpus?|num_gpus|gpus|devices|nproc_per_node|num_processes|max_nodes|nnodes)$")
_MORE_THAN_ONE = re.compile(r"[2-9]|[1-9]\d{1,4}")
_SHARED = re.compile(
    r"(?:tensor|pipeline|sequence|context|expert|model)_?(?:model_)?parallel|(?:^|[._])[tspc]p(?:_size|$)"
)
# Findings that say that no GPU could be used, and those that only a process with a GPU brings about.
_NO_GPU = frozenset({"no-gpu-visible", "cpu-only-build", "driver-too-old"})
_OF_A_GPU = ("cuda-", "gpu-", "gsp-", "nccl-", "nvlink-")
# Where a launcher or NCCL speaks there are several processes or devices, whose number then has to be stated.
_OF_SEVERAL = ("nccl-", "child-failed", "torchelastic-", "elastic-", "collective-", "rendezvous-")
# Where start and end lie further apart, one of them is of something else: a kernel's build, an unset clock.
_LONGEST = 366 * 24  # hours
_CUDA_FRAME = re.compile(r"[/\\]torch[/\\]cuda[/\\]")


class Part(NamedTuple):
    """What one log holds of one attempt: from its first time to its last (seconds since the epoch)."""

    source: str
    attempt: int | None
    first: float
    last: float


def gpus(world_size: int | None, findings: Sequence[Finding], data: RunData) -> int | None:
    """The GPUs of a job: one a process, as launchers make them; None where that cannot be told.

    world_size: processes as far as they are known. Without that, submitit's count of tasks, else one process, if
    anything shows a GPU and nothing shows a second process.
    """
    if world_size:
        return world_size
    if tasks := _stated(data.facts, "submitit.tasks"):
        return tasks
    if shares := _shares_of_a_batch(data.facts):
        return shares
    if _several(findings, data):
        return None
    return 1 if _used_a_gpu(findings, data) else None


def gpu_hours(number: int | None, started: str | None, ended: str | None, idle: float = 0.0) -> float | None:
    """GPUs x hours from start to end (ISO 8601), less `idle` seconds between. None if unknown."""
    if not number or started is None or ended is None:
        return None
    try:
        span = datetime.fromisoformat(ended.rstrip("Z")) - datetime.fromisoformat(started.rstrip("Z"))
    except ValueError:
        return None
    hours = span.total_seconds() / 3600
    return round(number * max(hours - idle / 3600, 0.0), 3) if 0 <= hours <= _LONGEST else None


def between_attempts(writers: Sequence[Writer], parts: Sequence[Part] = ()) -> float:
    """Seconds from the end of an attempt to the start of the next in which no log was written; 0 where one goes on.

    parts: what each log holds of each attempt, where that is known. Logs of different attempts, and those that trained
    and follow each other, are attempts. A log that bears none, such as a scheduler's, counts by itself: the job had its
    GPUs while it was written.
    """
    of_source: dict[str, set[int | None]] = {}
    for part in parts:
        of_source.setdefault(part.source, set()).add(part.attempt)
    spans: dict[int | str, tuple[float, float]] = {}
    for writer in writers:
        if writer.first_time is None or writer.last_time is None:
            continue
        held = of_source.get(writer.source, {None}) - {None}
        numbered = sorted(attempt for attempt in held if attempt is not None)
        if len(numbered) > 1:  # it was written on and on, and not while the job waited
            _widen(spans, numbered[0], writer.first_time, writer.first_time)
            _widen(spans, numbered[-1], writer.last_time, writer.last_time)
            continue
        attempt = writer.identity.attempt if writer.identity.attempt is not None else next(iter(numbered), None)
        _widen(spans, writer.source if attempt is None else attempt, writer.first_time, writer.last_time)
    for part in parts:
        if part.attempt is not None:
            _widen(spans, part.attempt, part.first, part.last)
    if sum(isinstance(key, int) or key in of_source for key in spans) < 2:
        return 0.0
    ordered = sorted(spans.values())
    idle, end = 0.0, ordered[0][1]
    for first, last in ordered[1:]:
        idle += max(first - end, 0.0)
        end = max(end, last)
    return idle


def _widen(spans: dict[int | str, tuple[float, float]], key: int | str, first: float, last: float) -> None:
    low, high = spans.get(key, (first, last))
    spans[key] = (min(low, first), max(high, last))


def parts_of(data: RunData) -> tuple[Part, ...]:
    """What each log that trained holds of each attempt: steps, and what was told of the attempt beside them."""
    found = _recorded(data.metrics, {writer.source for writer in data.writers})
    trained = {part.source for part in found}
    told = [(o.evidence[0].file, o.identity.attempt, o.time) for o in data.observations if o.evidence and o.timed]
    told += [(t.header.file, t.identity.attempt, t.time) for t in data.tracebacks if t.timed]
    found += [
        Part(file, attempt, time, time)
        for file, attempt, time in told
        if attempt is not None and time is not None and file in trained
    ]
    return tuple(found)


def _recorded(metrics: pl.DataFrame, logs: Collection[str]) -> list[Part]:
    """What logs hold of each attempt by the times of their records."""
    if (small := few(metrics)) is not None:
        times: dict[tuple[str, int | None], list[float]] = {}
        for row in small:
            if row.time is not None and row.source in logs:
                times.setdefault((row.source, row.attempt), []).append(row.time)
        return [Part(source, attempt, min(told), max(told)) for (source, attempt), told in times.items()]
    import polars as pl

    if metrics["time"].null_count() == metrics.height:
        return []
    steps = metrics.filter(pl.col("time").is_not_null() & pl.col("source").is_in(list(logs)))
    ends = steps.group_by("source", "attempt", maintain_order=True).agg(
        pl.col("time").min().alias("first"), pl.col("time").max().alias("last")
    )
    return [Part(*row) for row in ends.select("source", "attempt", "first", "last").iter_rows()]


def _stated(facts: Sequence[Fact], name: str) -> int | None:
    """The number that all facts of a name agree on."""
    said = {fact.value for fact in facts if fact.name == name}
    value = said.pop().replace(",", "") if len(said) == 1 else ""
    return int(value) if re.fullmatch(r"[1-9]\d{0,5}", value) else None


def _shares_of_a_batch(facts: Sequence[Fact]) -> int | None:
    """Among how many devices transformers' Trainer divides a batch, which its banner tells; None if one or not sure.

    Devices that share a model's tensors or a sequence have one share together.
    """
    if any(map(_shares_a_model, facts)):
        return None
    named = ("trainer.total_batch_size", "trainer.micro_batch", "trainer.accumulation")
    total, each, steps = (_stated(facts, name) for name in named)
    if not total or not each or not steps or total % (each * steps):
        return None
    return total // (each * steps) if total > each * steps else None


def _shares_a_model(fact: Fact) -> bool:
    """Whether a setting lets several devices hold one model, or work at one sequence."""
    return _SHARED.search(fact.name) is not None and _MORE_THAN_ONE.fullmatch(fact.value) is not None


def _several(findings: Sequence[Finding], data: RunData) -> bool:
    """Whether something speaks of more than one process or device of the job."""
    names = {f.name for f in findings} | {o.signature for o in data.observations}
    identities = [
        *(s.identity for s in data.sources),
        *(o.identity for o in data.observations),
        *(t.identity for t in data.tracebacks),
    ]
    if any(map(prints_its_rank, identities)) or _on_several_hosts(identities):
        return True
    return any(name.startswith(_OF_SEVERAL) for name in names) or any(
        fact.name in ("nccl.version", "rccl.version", "launch.distributed")
        or (_COUNT.search(fact.name) and _MORE_THAN_ONE.fullmatch(fact.value))
        or _shares_a_model(fact)
        or (fact.name == _VISIBLE and "," in fact.value)
        for fact in data.facts
    )


def _on_several_hosts(identities: Iterable[Identity]) -> bool:
    """Whether one attempt ran on two hosts or pods; a job that was started again can have moved."""
    hosts: dict[int | None, set[str]] = {}
    for identity in identities:
        if identity.node is not None:
            hosts.setdefault(identity.attempt, set()).add(identity.node)
    return any(len(names) > 1 for names in hosts.values())


def _used_a_gpu(findings: Sequence[Finding], data: RunData) -> bool:
    if any(f.name in _NO_GPU for f in findings):
        return False
    return (
        any(map(_states_a_gpu, data.facts))
        or any(f.name.startswith(_OF_A_GPU) for f in findings)
        or any(o.signature == LISTED for o in data.observations)
        or any(map(_raised_on_a_gpu, data.tracebacks))
    )


def _states_a_gpu(fact: Fact) -> bool:
    if fact.name in _ACCELERATORS:
        return fact.value not in ("", "0")
    if fact.name == "cuda.available":
        return fact.value == "True"
    if fact.name == _VISIBLE:  # devices by number or UUID; "", "-1" and "NoDevFiles" hide all of them
        return re.match(r"\d|GPU-|MIG-", fact.value) is not None
    return _DEVICE.search(fact.name) is not None and _CUDA_DEVICE.fullmatch(fact.value) is not None


def _raised_on_a_gpu(traceback: Traceback) -> bool:
    """An error of a CUDA call; one of setting CUDA up (`_lazy_init`) rather says that there was none."""
    if any(function == "_lazy_init" for _, _, function in traceback.frames):
        return False
    return "CUDA error" in traceback.message or any(_CUDA_FRAME.search(file) for file, _, _ in traceback.frames)
