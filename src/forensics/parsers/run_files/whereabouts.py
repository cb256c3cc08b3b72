"""Where and for how long a run ran, as W&B and Ray Tune write it down beside its logs.

Names of hosts are no facts, since reports show facts: they are given apart, to who keeps names of hosts apart too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from forensics.files import beginning, buffered
from forensics.model import Source
from forensics.parsers.run_files.documents import Document, read_json

FILES = 256  # of a run that are read
_METADATA, _RESULT, _OUTPUT = "wandb-metadata.json", "result.json", "output.log"
_METADATA_BYTES = 256 << 10
_TAIL = 256 << 10  # bytes at the end of a result.json, which has one object a line
_HOST = re.compile(r"(?!localhost\b)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,250}[A-Za-z0-9])?")
_LONGEST = 10 * 366 * 86_400.0  # seconds; what says that it ran longer counts something else
_EPOCHS = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100, seconds since the epoch


class Whereabouts(NamedTuple):
    """hosts: sorted. started, ended: seconds since the epoch; None where no file says so."""

    hosts: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None


def whereabouts(sources: Iterable[Source]) -> Whereabouts:
    """What W&B's `host` and the last result of Ray Tune's trials say. Never raises: an unreadable file says nothing."""
    hosts: set[str] = set()
    starts: list[float] = []
    ends: list[float] = []
    told = [s for s in sources if s.path.rpartition("/")[2] in (_METADATA, _RESULT)]
    for source in told[:FILES]:
        try:
            if source.path.endswith(_METADATA):
                text = beginning(source.file, _METADATA_BYTES).decode("utf-8", "replace")
                hosts.update(_host(read_json(text), "host"))
                continue
            last = read_json((last_lines(source) or [""])[-1])
        except OSError:
            continue
        if last.get("training_iteration") is None:
            continue
        hosts.update(_host(last, "hostname") or _host(last, "node_ip"))
        end, took = _number(last.get("timestamp")), _number(last.get("time_total_s"))
        if end is not None and _EPOCHS[0] < end < _EPOCHS[1]:
            ends.append(end)
            if took is not None and 0 <= took < _LONGEST:
                starts.append(end - took)
    return Whereabouts(tuple(sorted(hosts)), min(starts, default=None), max(ends, default=None))


def of_outputs(sources: Iterable[Source]) -> dict[str, str]:
    """Path of a run's `output.log`, which W&B writes beside its metadata -> the host of the process that printed it."""
    sources = list(sources)
    outputs = {s.path for s in sources if s.path.rpartition("/")[2] == _OUTPUT}
    beside = [s for s in sources if s.path.endswith(f"/{_METADATA}")]
    found: dict[str, str] = {}
    for source in beside[:FILES] if outputs else []:
        path = f"{source.path.rpartition('/')[0]}/{_OUTPUT}"
        if path not in outputs:
            continue
        try:
            text = beginning(source.file, _METADATA_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        found.update((path, host) for host in _host(read_json(text), "host"))
    return found


def last_lines(source: Source) -> list[str]:
    """The whole lines at the end of a result.json; [] where there are none. Raises OSError."""
    with buffered(source.file) as stream:
        stream.seek(max(source.size - _TAIL, 0))
        lines = stream.read(_TAIL).split(b"\n")
    whole = lines[1 if source.size > _TAIL else 0 :]
    return [line.decode("utf-8", "replace") for line in whole if line.rstrip().endswith(b"}")]


def _host(document: Document, name: str) -> tuple[str, ...]:
    value = document.get(name) or ""
    return (value,) if _HOST.fullmatch(value) else ()


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
