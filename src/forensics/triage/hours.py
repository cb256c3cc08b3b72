"""GPU-hours of a job: how many GPUs it used, as far as its files show, times how long it ran."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from forensics.engine.identity import prints_its_rank
from forensics.engine.kernel.places import LISTED
from forensics.model import Fact, Finding, RunData, Traceback, Writer

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


def between_attempts(writers: Sequence[Writer]) -> float:
    """Seconds from the end of an attempt to the start of the next in which no log was written; 0 where one goes on.

    A log that bears no attempt, such as a scheduler's, counts by itself: the job had its GPUs while it was written.
    """
    spans: dict[int | str, tuple[float, float]] = {}
    for writer in writers:
        if writer.first_time is None or writer.last_time is None:
            continue
        key = writer.identity.attempt if writer.identity.attempt is not None else writer.source
        first, last = spans.get(key, (writer.first_time, writer.last_time))
        spans[key] = (min(first, writer.first_time), max(last, writer.last_time))
    if sum(isinstance(key, int) for key in spans) < 2:
        return 0.0
    ordered = sorted(spans.values())
    idle, end = 0.0, ordered[0][1]
    for first, last in ordered[1:]:
        idle += max(first - end, 0.0)
        end = max(end, last)
    return idle


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
    if any(map(prints_its_rank, identities)):
        return True
    return any(name.startswith(_OF_SEVERAL) for name in names) or any(
        fact.name in ("nccl.version", "rccl.version", "launch.distributed")
        or (_COUNT.search(fact.name) and _MORE_THAN_ONE.fullmatch(fact.value))
        or _shares_a_model(fact)
        or (fact.name == _VISIBLE and "," in fact.value)
        for fact in data.facts
    )


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
