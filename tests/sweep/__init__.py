"""A sweep of jobs whose causes are known: sample logs with other ids, hosts, paths, dates, steps and more chatter.

What is changed tells nothing of a cause. A job depends on the seed and its number alone, and not on how many there are.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.sweep import binaries, noise

SAMPLES = Path(__file__).parent.parent.parent / "sample_logs"
HEALTHY = 0.4  # share of the jobs
_TEXT = frozenset({".log", ".txt", ".out", ".err", ".json", ".jsonl"})


@dataclass(frozen=True)
class Expected:
    """What a job should be called. causes: empty for a healthy one. rank, step: None where they are not asked for."""

    name: str
    causes: frozenset[str]
    sample: str = ""
    rank: int | None = None
    step: int | None = None
    slack: int = 1  # by which the step may differ


@dataclass(frozen=True)
class Sample:
    folder: Path
    causes: frozenset[str]
    rank: int | None
    step: int | None


@cache
def samples(most: int = 200_000) -> tuple[Sample, ...]:
    """The samples that are small, in bytes."""
    import yaml

    found = []
    for file in sorted(SAMPLES.glob("*/expected.yaml")):
        told: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
        folder = file.parent / "input"
        if sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) > most:
            continue
        healthy = told["root_cause"] == "healthy"
        causes = frozenset() if healthy else frozenset({told["root_cause"], *(told.get("acceptable") or [])})
        rank = told.get("culprit_rank")
        found.append(Sample(folder, causes, rank if isinstance(rank, int) else None, told.get("culprit_step")))
    return tuple(found)


def make(folder: Path, count: int, seed: int = 0) -> list[Expected]:
    """Write `count` jobs, one folder each, and return what each of them should be called."""
    healthy = [s for s in samples() if not s.causes]
    failing = [s for s in samples() if s.causes]
    expected = []
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        sample = draw.choice(healthy if draw.random() < HEALTHY else failing)
        expected.append(_job(sample, folder / f"job-{number:05d}", draw))
    return expected


def make_each(folder: Path, seed: int = 0) -> list[Expected]:
    """Write one job of each sample, and return what each of them should be called."""
    return [
        _job(sample, folder / f"job-{number:05d}", random.Random(f"{seed}/{number}"))
        for number, sample in enumerate(samples())
    ]


def wrong(expected: Expected, root: str | None, ranks: Collection[int] | None, step: int | None) -> str | None:
    """What is wrong about the root cause that was named, its ranks and its step; None where all is right."""
    if (root not in expected.causes) if expected.causes else root is not None:
        return f"{expected.name}: {root} instead of {sorted(expected.causes) or 'nothing'}"
    if expected.causes and expected.rank is not None and expected.rank not in (ranks or ()):
        return f"{expected.name}: {root} on ranks {ranks} instead of {expected.rank}"
    if expected.causes and expected.step is not None and (step is None or abs(step - expected.step) > expected.slack):
        return f"{expected.name}: {root} at step {step} instead of {expected.step}"
    return None


def _job(sample: Sample, target: Path, draw: random.Random) -> Expected:
    stride = _copy(sample.folder, target, draw)
    step = sample.step * stride if sample.step is not None else None
    return Expected(target.name, sample.causes, sample.folder.parent.name, sample.rank, step, stride)


def _copy(source: Path, target: Path, draw: random.Random) -> int:
    """Write a sample under other circumstances. Returns by what its steps were multiplied."""
    files = {
        str(file.relative_to(source)): file.read_bytes()
        for file in sorted(source.rglob("*"))
        if file.is_file()
    }  # fmt: skip
    texts = [data for name, data in files.items() if _is_text(name)]
    other = noise.drawn(draw, countable=not any(re.search(noise.UNCOUNTABLE, data) for data in texts))
    for name, data in files.items():
        place = target / other.name(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if _is_text(name):
            data = other.text(data, chatter=not name.endswith((".json", ".jsonl")))
        elif "tfevents" in name:
            data = binaries.events(data, other.shift, other.stride)
        elif "trace_rank" in name:
            data = binaries.dump(data, other.shift)
        place.write_bytes(data)
        os.utime(place, (noise.END + other.shift, noise.END + other.shift))
    return other.stride


def _is_text(name: str) -> bool:
    return Path(name).suffix in _TEXT
