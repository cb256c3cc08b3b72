"""A sweep of jobs whose causes are known: sample logs under other ids, hosts, dates and numbers.

What is changed tells nothing of a cause: dates shift by whole days, host names and process ids are drawn anew, and a
line of chatter is added. Everything comes from `random.Random(seed)`.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "sample_logs"
_TEXT = frozenset({".log", ".txt", ".out", ".err"})
_DAY = re.compile(rb"\b(20\d\d)-(\d\d)-(\d\d)(?=[ T]\d\d:)")
_NODE = re.compile(rb"\bnode-0\b")


@dataclass(frozen=True)
class Expected:
    name: str
    causes: frozenset[str]  # empty: healthy


def samples(most: int = 200_000) -> list[tuple[Path, frozenset[str]]]:
    """(input folder, right causes) of the samples that are small, in bytes."""
    import yaml

    found = []
    for file in sorted(SAMPLES.glob("*/expected.yaml")):
        told = yaml.safe_load(file.read_text("utf-8"))
        folder = file.parent / "input"
        if sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) > most:
            continue
        healthy = told["root_cause"] == "healthy"
        causes = frozenset() if healthy else frozenset({told["root_cause"], *(told.get("acceptable") or [])})
        found.append((folder, causes))
    return found


def make(folder: Path, count: int, seed: int = 0) -> list[Expected]:
    """Write `count` jobs, one folder each, and return what each of them should be called."""
    draw = random.Random(seed)
    chosen = samples()
    expected = []
    for number in range(count):
        source, causes = chosen[number % len(chosen)]
        name = f"job-{number:05d}"
        _copy(source, folder / name, draw)
        expected.append(Expected(name, causes))
    return expected


def _copy(source: Path, target: Path, draw: random.Random) -> None:
    shift = timedelta(days=draw.randrange(300))
    host = f"node-{draw.randrange(100, 900)}".encode()
    chatter = f"job {draw.randrange(10**9)} began with seed {draw.randrange(10**6)}\n".encode()

    def day(m: re.Match[bytes]) -> bytes:
        try:
            return (date(int(m[1]), int(m[2]), int(m[3])) - shift).isoformat().encode()
        except ValueError:
            return m[0]

    for file in sorted(source.rglob("*")):
        if not file.is_file():
            continue
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        data = file.read_bytes()
        if file.suffix in _TEXT and data:
            data = chatter + _NODE.sub(host, _DAY.sub(day, data))
        place.write_bytes(data)
